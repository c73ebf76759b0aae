"""Verdicts of published numbers, where readers get them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.hierarchy import QUALITY
from tallytree.release import QualityThresholds
from tallytree.release.intervals import LevelErrors, with_intervals
from tallytree.release.quality import QUALITIES, numbers_by_verdict, verdicts, with_quality, without_unreliable

NUMBERS = np.array([100, 100, 100, 100, 0, 100, 100])
STD_DEVS = np.array([0.0, 16.5, 16.6, 33.4, 1.0, 61.0, np.nan])
WANTED = ["exact", "reliable", "with_care", "unreliable", *["not_distinguishable_from_0"] * 2, None]


def rows(numbers=NUMBERS, std_devs=STD_DEVS):
    return pa.table({"town": [str(i) for i in range(len(numbers))], "count": numbers, "std_dev": std_devs})


@pytest.fixture(scope="module")
def release():
    places = pa.table({"region": ["N"] * 3 + ["S"] * 2, "town": list("ABCDE")})
    people = pa.table({"region": ["N"] * 60 + ["S"] * 300, "town": ["A"] * 50 + ["B"] * 10 + ["D"] * 300})
    tree = tt.Hierarchy.from_table(places, ["region", "town"])
    return tt.release_counts(people, tree, tt.Budget(rho=0.05), neighboring="change_one", seed=1)


def test_a_verdict_follows_from_std_dev_as_a_share_of_the_number():
    assert with_quality(rows(), LevelErrors())[QUALITY].to_pylist() == WANTED
    found = numbers_by_verdict([rows(), rows()], LevelErrors())
    assert found == dict(zip(QUALITIES, (2, 2, 2, 2, 4), strict=True))


def test_a_standard_deviation_from_replicates_never_makes_a_number_exact():
    codes = verdicts(rows(np.array([5, 0]), np.zeros(2)), LevelErrors(replicates=20))
    assert [QUALITIES[code] for code in codes] == ["reliable", "not_distinguishable_from_0"]


def listed(number, listed_from, zero, unbiased=None, std_dev=10.0):
    """A number of a listed cell, with the least estimate that lists it and the probability that it is 0."""
    columns = {"count": [number], "std_dev": [std_dev], "unbiased": [float(number if unbiased is None else unbiased)]}
    return pa.table({**columns, "listed_from": pa.array([listed_from], pa.float64()), "probability_zero": [zero]})


@pytest.mark.parametrize(
    ("rows_of", "verdict"),
    [
        (listed(70, None, 0.0), "reliable"),  # 10 of 70, and listed anyway
        (listed(70, 55.0, 0.0), "with_care"),  # by its selection, its interval reaches further down
        (listed(70, 20.0, 0.0), "reliable"),  # far above what lists it
        (listed(70, None, 0.04), "with_care"),  # it is 0 with 4 %, and its mean square error 0.04 · 70² larger
        (listed(70, None, 0.05), "not_distinguishable_from_0"),
        (listed(70, None, float("nan")), "reliable"),
        (listed(70, None, 0.0, unbiased=50), "with_care"),  # the sums have moved it upward
        (listed(70, None, 0.0, unbiased=90), "reliable"),
    ],
)
def test_the_verdict_of_a_listed_cell_takes_its_selection_into_account(rows_of, verdict):
    assert with_quality(rows_of, LevelErrors())[QUALITY].to_pylist() == [verdict]
    assert (with_intervals(rows_of, 0.1, LevelErrors())["ci_lower"].to_pylist() == [0]) == verdict.startswith("not")


def test_an_interval_holds_0_where_that_is_probable_enough_for_its_alpha():
    lower = [
        with_intervals(listed(70, None, 0.06), alpha, LevelErrors())["ci_lower"][0].as_py() for alpha in (0.1, 0.2)
    ]
    assert lower[0] == 0 < lower[1]


def test_other_thresholds_make_other_verdicts():
    strict = with_quality(rows(), LevelErrors(), QualityThresholds(0.1, 0.2))
    assert strict[QUALITY].to_pylist()[1:4] == ["with_care", "with_care", "unreliable"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.4, 0.3), ValueError, "with_care: 0.3 is less than reliable, 0.4"),
        ((0, 0.3), ValueError, "reliable: 0 must be more than 0; 0.166 is usual"),
        ((0.1, float("nan")), ValueError, "with_care: nan must be more than 0"),
        (("x", 0.3), TypeError, "reliable: str must be a number, such as 0.166"),
    ],
)
def test_what_is_no_threshold_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        QualityThresholds(*arguments)


def test_thresholds_of_another_kind_are_refused(release):
    with pytest.raises(TypeError, match=r"^thresholds: 0.3 must be tallytree.release.QualityThresholds"):
        release.table("town", thresholds=0.3)


def test_tables_data_frames_totals_and_csv_files_have_verdicts_and_parquet_files_have_none(release, tmp_path):
    table = release.table("town")
    assert table.column_names[-1] == QUALITY
    assert len(set(table[QUALITY].to_pylist())) > 1
    assert release.to_pandas("town")[QUALITY].tolist() == table[QUALITY].to_pylist()
    assert release.to_polars("town")[QUALITY].to_list() == table[QUALITY].to_pylist()
    assert pa.types.is_dictionary(release.table("town", dictionaries=True)[QUALITY].type)
    assert release.table("town", dense=True, alpha=0.2)[QUALITY].equals(table[QUALITY])
    total = release.total(pa.table({"region": ["N"], "town": ["A"]}), thresholds=QualityThresholds(1e-9, 1e-9))
    assert total[QUALITY].to_pylist()[0] in QUALITIES[3:]
    release.save(tmp_path / "out", csv=True)
    header, *lines = (tmp_path / "out/tables/town.csv").read_text().splitlines()
    assert header.split(",")[-1] == '"quality"'
    assert [line.split(",")[-1].strip('"') for line in lines] == table[QUALITY].to_pylist()
    assert QUALITY not in pq.read_schema(tmp_path / "out/tables/town.parquet").names


def test_notebooks_show_how_many_numbers_can_be_trusted(release):
    shown = release._repr_html_()
    assert '<th scope="col">not reliable</th>' in shown
    found = release.table("town")[QUALITY].to_pylist()
    good = sum(each in ("exact", "reliable") for each in found)
    care = found.count("with_care")
    cells = [f'<td style="text-align:right">{number}</td>' for number in (good, care, len(found) - good - care)]
    assert "".join(cells) in shown


def test_suppressed_numbers_are_null_with_all_that_tells_them_and_keep_their_verdict(release):
    table = with_quality(release.table("town", alpha=0.1, unbiased=True).drop_columns(QUALITY), LevelErrors())
    made = without_unreliable(table)
    for before, after in zip(table.to_pylist(), made.to_pylist(), strict=True):
        hidden = before[QUALITY] in QUALITIES[3:]
        for name in ("count", "ci_lower", "ci_upper", "unbiased"):
            assert after[name] == (None if hidden else before[name])
        assert (after["std_dev"], after[QUALITY]) == (before["std_dev"], before[QUALITY])
    assert 0 < made["count"].null_count < made.num_rows


def test_a_level_may_not_be_named_quality():
    with pytest.raises(ValueError, match="'Quality' is a column of the published tables; rename the level"):
        tt.Hierarchy.from_table(pa.table({"Quality": ["a"]}), ["Quality"])
