"""Typical errors of tables: the column, the intervals and the verdicts that follow from it."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import LISTED_FROM, TYPICAL_ERROR, export, level_errors, reach_of
from helpers.releases import tables
from tallytree.release.intervals import LevelErrors, interval, with_intervals
from tallytree.release.quality import NEAR_ZERO, QUALITIES, numbers_by_verdict, with_quality, without_unreliable
from tallytree.release.view.release_view import ReleaseView


def rows(number, typical, std_dev=9.0, unbiased=None):
    """Numbers with their typical errors."""
    number, size = np.atleast_1d(number), np.size(number)
    columns = {
        "count": number,
        "std_dev": np.broadcast_to(float(std_dev), size),
        TYPICAL_ERROR: np.zeros(size) + typical,
    }
    middle = number if unbiased is None else np.zeros(size) + unbiased
    return pa.table({**columns, "unbiased": middle.astype(float)})


def ends(table, alpha=0.1):
    found = with_intervals(table, alpha, LevelErrors())
    return found["ci_lower"].to_pylist(), found["ci_upper"].to_pylist()


def verdict(*given_, **more):
    return with_quality(rows(*given_, **more), LevelErrors())["quality"].to_pylist()


class WithoutErrors(tt.tables.LeastSquares):
    """Tables without typical errors, as mechanisms from outside may publish."""

    def reconcile(self, *given_):
        return dataclasses.replace(super().reconcile(*given_), typical_errors={})


@pytest.fixture(scope="module")
def release(areas):
    return tables(areas, seed=5)


def test_an_interval_holds_those_of_the_noise_and_of_the_typical_error():
    # Around −30 ± 14.8 and around 1 ± 6.6: the first alone ended at the number, as "1 ± 1".
    assert ends(rows(1, 4.0, unbiased=-30)) == ([0], interval(np.ones(1, int), np.full(1, 4.0), 0.1, LevelErrors())[1])
    around = interval(np.array([100]), np.array([9.0]), 0.1, LevelErrors())
    assert ends(rows(100, 0.0)) == tuple(end.tolist() for end in around)  # a small typical error narrows none
    assert ends(rows(100, 0.0, std_dev=0.0)) == ([100], [100])
    wide, narrow = ends(rows(100, 20.0), alpha=0.5), ends(rows(100, 20.0), alpha=0.9)
    assert wide[0] < narrow[0] <= [100] <= narrow[1] < wide[1]


def test_a_verdict_follows_from_the_typical_error_as_a_share_of_the_number():
    numbers, typical = np.full(5, 100), np.array([16.5, 16.6, 33.3, 33.4, 0.0])
    assert verdict(numbers, typical) == ["reliable", "with_care", "with_care", "unreliable", "reliable"]
    assert verdict(100, 0.0, std_dev=0.0) == ["exact"]
    assert verdict(100, 1.0, std_dev=0.0) == ["reliable"]
    assert verdict(100, 61.0) == [NEAR_ZERO]
    assert verdict(100, 1.0, unbiased=10) == [NEAR_ZERO]  # the noise may have made it: its interval is 0 to 100
    assert verdict(0, 0.0, std_dev=0.0) == ["exact"]


FLOATS = st.floats(0, 1e4) | st.floats(0, 3)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6) | st.integers(0, 30), FLOATS, FLOATS, st.floats(-50, 50), st.booleans()),
        min_size=1,
    ),
    st.sets(st.sampled_from([TYPICAL_ERROR, "unbiased", LISTED_FROM])),
    st.sampled_from([LevelErrors(), LevelErrors(rounding=0.25), LevelErrors(20, 3.0)]),
)
def test_a_number_is_near_zero_if_and_only_if_its_interval_holds_0_and_no_interval_excludes_its_number(
    cells, known, errors
):
    number, std_dev, typical, moved, listed = map(np.array, zip(*cells, strict=True))
    std_dev = std_dev if LISTED_FROM not in known else std_dev + 0.1
    table = {"count": number, "std_dev": std_dev}
    table |= {TYPICAL_ERROR: typical} if TYPICAL_ERROR in known else {}
    if known & {"unbiased", LISTED_FROM}:
        table["unbiased"] = number + moved
    if LISTED_FROM in known:
        table[LISTED_FROM] = np.where(listed, np.minimum(number + moved, 5.0), np.nan)
    found = with_intervals(with_quality(pa.table(table), errors), 0.1, errors)
    lower, upper, quality = (found[name].to_numpy() for name in ("ci_lower", "ci_upper", "quality"))
    assert ((lower <= number) & (number <= upper)).all()
    assert ((quality == NEAR_ZERO) == ((lower == 0) & (quality != "exact"))).all()


def test_negative_numbers_and_numbers_whose_error_is_not_known_keep_their_meaning():
    table = pa.table({"count": [-5, 3, 0], "std_dev": pa.array([1.0, None, None])})
    assert with_quality(table, LevelErrors())["quality"].to_pylist() == [NEAR_ZERO, None, None]


def test_tables_publish_the_column_and_folders_keep_it(release, tmp_path):
    for name in release.levels:
        stored = ["count", "std_dev", TYPICAL_ERROR, "unbiased"]
        assert ReleaseView(release).schema(name).names[-4:] == stored
        table = release.table(name)
        assert table.column_names[-4:] == [*stored[:3], "quality"]
        assert table[TYPICAL_ERROR].type == pa.float64()
        assert (table[TYPICAL_ERROR].to_numpy() >= 0).all()
    folder = release.save(tmp_path / "out", csv=True)
    again = tt.Release.load(folder)
    assert all(again.table(name, alpha=0.1).equals(release.table(name, alpha=0.1)) for name in release.levels)
    header = (folder / "tables/county.sex.csv").read_text().splitlines()[0]
    assert header == '"state","county","sex","count","std_dev","typical_error","unbiased","quality"'


def test_a_release_without_the_column_gives_what_it_gave(areas, tmp_path):
    early = tables(areas, seed=4, mechanism=WithoutErrors())
    made = tt.Release.load(early.save(tmp_path / "early"))
    assert TYPICAL_ERROR not in pq.read_schema(tmp_path / "early/tables/county.sex.parquet").names
    for name in made.levels:
        table = made.table(name, alpha=0.1, unbiased=True).to_pandas()
        assert [*table.columns[-6:]] == ["count", "std_dev", "unbiased", "ci_lower", "ci_upper", "quality"]
        around = interval(
            np.rint(table["unbiased"].to_numpy()).astype(int), table["std_dev"].to_numpy(), 0.1, LevelErrors()
        )
        assert (table["ci_lower"] == np.minimum(around[0], table["count"])).all()
        assert (table["ci_upper"] == np.maximum(around[1], table["count"])).all()
    assert level_errors(ReleaseView(made))[0].reach > 0


def test_the_typical_error_of_a_hidden_number_is_hidden_too(release, tmp_path):
    table = with_quality(rows(np.array([100, 2]), np.array([1.0, 1.9]), std_dev=0.1), LevelErrors())
    assert without_unreliable(table)[TYPICAL_ERROR].to_pylist() == [1.0, None]
    assert without_unreliable(table)["std_dev"].to_pylist() == [0.1, 0.1]
    export(release, "parquet", tmp_path / "out", suppress="unreliable")
    found = pq.read_table(tmp_path / "out/county.sex.parquet").to_pandas()
    hidden = found["quality"].isin(QUALITIES[3:])
    assert 0 < hidden.sum() < len(hidden)
    assert (found[TYPICAL_ERROR].isna() == hidden).all()
    assert (found["count"].isna() == hidden).all()


def test_replicates_replace_the_typical_errors(areas):
    table = tt.replicate_errors(tables(areas, seed=4), replicates=10, seed=1).table("county", "sex")
    assert table.column_names[-4:] == ["std_dev", "ci_lower", "ci_upper", "quality"]


def test_the_report_says_how_far_off_numbers_are_by_their_typical_errors(areas):
    table = rows(np.full(400, 1_000), 20.0, std_dev=300.0)
    assert reach_of(table, LevelErrors()) == pytest.approx(1.645 * 20, rel=0.03)
    # Typical errors grow with the numbers: those near the border of what is usable say where it is.
    numbers = np.append(np.arange(1, 200), np.zeros(1_000, int))
    found = numbers_by_verdict([rows(numbers, np.sqrt(numbers), std_dev=2.0)], LevelErrors())
    assert found["reliable"] == (np.sqrt(numbers) < 0.166 * numbers).sum()
    (error, *_) = level_errors(ReleaseView(tables(areas, seed=4)))
    assert error.median == pytest.approx(np.median(tables(areas, seed=4).table("county", "sex")[TYPICAL_ERROR]))


def test_a_level_may_not_have_the_name_of_the_column():
    with pytest.raises(ValueError, match="'typical_error' is a column of the published tables; rename the level"):
        tt.Hierarchy.from_table(pa.table({"typical_error": ["a"]}), ["typical_error"])
