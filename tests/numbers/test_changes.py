"""Changes between releases, and totals of several: the errors of independent noise, and what is refused."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers import dense_trees as small
from helpers import releases
from tallytree.release.intervals import quantile

LATER = np.array([900, 460, 300, 700, 150])


@pytest.fixture(scope="module")
def pair():
    return small.release(1), small.release(2, counts=LATER)


def test_the_variance_of_a_change_is_the_sum_of_both(pair):
    made = tt.change(*pair, "county")
    tables = [release.table("county", unbiased=True) for release in pair]
    assert made.column_names == [
        "state",
        "county",
        "earlier",
        "later",
        "change",
        "std_dev",
        "ci_lower",
        "ci_upper",
        "verdict",
    ]
    assert made["earlier"].to_pylist() == tables[0]["count"].to_pylist()
    assert made["later"].to_pylist() == tables[1]["count"].to_pylist()
    assert made["change"].to_numpy() == pytest.approx(made["later"].to_numpy() - made["earlier"].to_numpy())
    deviations = [table["std_dev"].to_numpy() for table in tables]
    assert made["std_dev"].to_numpy() == pytest.approx(np.hypot(*deviations))
    middle = tables[1]["unbiased"].to_numpy() - tables[0]["unbiased"].to_numpy()
    reach = quantile(0.1, None) * made["std_dev"].to_numpy()
    assert np.abs(made["ci_lower"].to_numpy() - (middle - reach)).max() < 2
    assert np.abs(made["ci_upper"].to_numpy() - (middle + reach)).max() < 2


def test_verdicts(pair):
    assert tt.change(*pair, "county")["verdict"].to_pylist() == [
        "no change can be told", "increase", "decrease", "no change can be told", "no change can be told"
    ]  # fmt: skip
    exact = [small.release(seed, neighboring="change_one", counts=small.COUNTS) for seed in (1, 2)]
    (row,) = tt.change(*exact).to_pylist()
    assert (row["change"], row["std_dev"], row["verdict"]) == (0, 0.0, "no change")


def test_folders_are_taken_too(pair, tmp_path):
    folders = [release.save(tmp_path / str(place)) for place, release in enumerate(pair)]
    assert tt.change(*folders, table=("state",)) == tt.change(*pair, "state")


def test_changes_of_tables(areas):
    pair = [releases.tables(areas, seed=seed) for seed in (1, 2)]
    made = tt.change(*pair, ("county", "sex"))
    first, second = (release.table("county", "sex") for release in pair)
    assert made["change"].to_pylist() == [
        b - a for a, b in zip(first["count"].to_pylist(), second["count"].to_pylist(), strict=True)
    ]
    assert made["std_dev"].to_numpy() == pytest.approx(
        np.hypot(first["std_dev"].to_numpy(), second["std_dev"].to_numpy())
    )
    assert tt.change(*pair).num_rows == 1


def test_changes_of_errors_from_replicates(pair):
    top = [tt.replicate_errors(small.release(seed, mechanism=tt.counts.TopDown()), 20, seed=seed) for seed in (1, 2)]
    made = tt.change(*top, "county")
    assert made["std_dev"].null_count == 0
    assert set(made["verdict"].to_pylist()) <= {"increase", "decrease", "no change can be told"}


def test_cells_of_flows_that_one_release_does_not_list_have_no_error(areas):
    few = pa.table({"o_state": ["A"] * 60, "o_county": ["x"] * 60, "d_state": ["B"] * 60, "d_county": ["x"] * 60})
    pair = [releases.flows(areas, seed=1), releases.flows(areas, seed=2, trips=few)]
    made = tt.change(*pair, pair[0].levels[-1]).to_pylist()
    alone = [row for row in made if 0 in (row["earlier"], row["later"])]
    both = [row for row in made if row not in alone]
    assert alone
    assert both
    assert all(row["std_dev"] is row["ci_lower"] is row["ci_upper"] is row["verdict"] is None for row in alone)
    for row in both:
        assert row["ci_lower"] <= row["change"] <= row["ci_upper"]
        assert row["std_dev"] > 0


def test_what_is_not_listed_is_no_cell(areas):
    pair = [releases.flows(areas, seed=seed, unlisted="remainder") for seed in (1, 2)]
    level = pair[0].levels[-1]
    listed = [release.table(level).to_pandas() for release in pair]
    assert any(table.isna().any(axis=None) for table in listed)
    made = tt.change(*pair, level).to_pandas()
    paths = [name for name in made.columns if name[:2] in ("o_", "d_")]
    assert not made[paths].isna().any(axis=None)
    wanted = {tuple(row) for table in listed for row in table[paths].dropna().itertuples(index=False)}
    assert {tuple(row) for row in made[paths].itertuples(index=False)} == wanted


@pytest.mark.slow
def test_90_percent_of_intervals_hold_the_true_change():
    """300 pairs of releases, 8 nodes each: the standard error of a coverage of 90 % is 1 point (nodes depend)."""
    covered, told = [], []
    for seed in range(0, 600, 2):
        one, other = small.release(seed), small.release(seed + 1, counts=LATER)
        for level, rows in (("all", [0]), ("state", [1, 2]), ("county", range(3, 8))):
            made = tt.change(one, other, level)
            true = (small.ROWS @ (LATER - small.COUNTS))[list(rows)]
            covered += ((made["ci_lower"].to_numpy() <= true) & (true <= made["ci_upper"].to_numpy())).tolist()
            told += [
                verdict != "no change can be told"
                for verdict, t in zip(made["verdict"].to_pylist(), true, strict=True)
                if t == 0
            ]
    assert 0.88 < np.mean(covered) < 0.95
    assert np.mean(told) < 0.13


def test_what_cannot_be_is_refused(pair, areas):
    one, other = pair
    for call, message in (
        (
            lambda: tt.change(one, one),
            r"later: it is the same release as earlier \(or has its seed\), with the same noise",
        ),
        (lambda: tt.change(one, small.release(1, counts=LATER)), r"later: it is the same release as earlier"),
        (lambda: tt.change(one, 3), r"later: int must be a tallytree.Release, or the folder of a saved one"),
        (
            lambda: tt.change(one, releases.tables(areas, seed=3)),
            r"later: its statistic is 'tables', and that of earlier",
        ),
        (
            lambda: tt.change(one, other, "town"),
            r"table: \(town\) is none of the tables of all releases, which are all",
        ),
        (lambda: tt.change(one, other, 3), r"table: 3 must be the name of a level"),
        (lambda: tt.change(one, other, alpha=1), r"alpha: 1 must lie strictly between 0 and 1"),
        (
            lambda: tt.change(one, small.release(2, mechanism=tt.counts.TopDown()), "state"),
            r"alpha: 0.1 asks for interv",
        ),
        (
            lambda: tt.change(*[releases.group_sizes(areas, seed=s) for s in (1, 2)]),
            r"earlier: its statistic is 'group_s",
        ),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^{message}"):
            call()


def test_totals_of_a_week_have_the_sum_of_all_variances():
    week = [small.release(seed) for seed in range(7)]
    areas = small.AREAS.append_column("district", pa.array(["p", "p", "q", "q", "q"]))
    made = tt.total_of(week, areas, by="district")
    days = [release.total(areas, by="district") for release in week]
    assert made.column_names == ["district", "count", "std_dev", "ci_lower", "ci_upper", "quality"]
    assert made["count"].to_pylist() == np.sum([day["count"].to_numpy() for day in days], axis=0).tolist()
    assert made["std_dev"].to_numpy() == pytest.approx(
        np.sqrt(np.sum([day["std_dev"].to_numpy() ** 2 for day in days], axis=0))
    )
    assert tt.total_of(week[:1], areas, by="district") == days[0]


def test_totals_of_tables_flows_and_replicates(areas):
    tables = [releases.tables(areas, seed=seed) for seed in (1, 2)]
    (both,) = tt.total_of(tables, where={"sex": "f"}).to_pylist()
    alone = [release.total(where={"sex": "f"}).to_pylist()[0] for release in tables]
    assert both["count"] == alone[0]["count"] + alone[1]["count"]
    assert both["std_dev"] == pytest.approx(np.hypot(alone[0]["std_dev"], alone[1]["std_dev"]))
    flows = [releases.flows(areas, seed=seed) for seed in (1, 2)]
    origin = pa.table({"o_state": ["A"]})
    (both,) = tt.total_of(flows, origin).to_pylist()
    alone = [release.total(origin).to_pylist()[0] for release in flows]
    assert both["count"] == alone[0]["count"] + alone[1]["count"]
    assert both["ci_lower"] <= both["count"] <= both["ci_upper"]
    top = [small.release(seed, mechanism=tt.counts.TopDown()) for seed in (1, 2)]
    (row,) = tt.total_of(top, pa.table({"state": ["A"]}), seed=3, replicates=20).to_pylist()
    assert row["std_dev"] > 0


def test_totals_of_bounded_records_say_what_is_left_out():
    """Every person has 4 records in one area and the bound is 2: half of all is left out."""
    trips = pa.table({"state": ["A"] * 4_000, "county": ["v"] * 4_000, "person": np.repeat(np.arange(1_000), 4)})
    tree, told = small.TREE, tt.Contributions(share=0.2, at_most=6)
    given = {"neighboring": "add_remove", "person": "person", "max_contributions": 2}
    pair = [
        tt.release_counts(trips, tree, tt.Budget(epsilon=4), seed=seed, contributions=told, **given) for seed in (1, 2)
    ]
    made = tt.total_of(pair, pa.table({"state": ["A"]}))
    assert made["share_left_out"][0].as_py() == pytest.approx(0.5, abs=0.02)
    assert b"at most 2 a person" in made.schema.metadata[b"tallytree"]
    plain = tt.release_counts(trips, tree, tt.Budget(epsilon=4), seed=3, **given)
    assert tt.total_of([pair[0], plain], pa.table({"state": ["A"]}))["share_left_out"].to_pylist() == [None]
    with pytest.raises(ValueError, match=r"^releases\[1\]: its unit .*'records', .*releases\[0\]"):
        tt.total_of([plain, small.release(5)], pa.table({"state": ["A"]}))


def test_a_release_is_not_added_to_its_revision(areas, tmp_path):
    terms = {"neighboring": "add_remove"}
    rows = pa.table({"state": ["A", "B"], "county": ["x", "x"]})
    first = tt.release_counts(rows, areas, tt.Budget(epsilon=1), **terms).save(tmp_path / "first")
    revised = tt.release_counts(rows, areas, tt.Budget(epsilon=1), **terms, revises=first)
    with pytest.raises(ValueError, match=r"^releases: releases\[1\] takes the place of releases\[0\], and has the"):
        tt.total_of([first, revised], pa.table({"state": ["A"]}))


def test_totals_refuse_what_cannot_be(pair, areas):
    one, other = pair
    state = pa.table({"state": ["A"]})
    for call, message in (
        (lambda: tt.total_of(one, state), r"releases: .* must be a list of releases"),
        (lambda: tt.total_of([], state), r"releases: the list is empty"),
        (lambda: tt.total_of([one, other, one], state), r"releases\[2\]: it is the same release as releases\[0\]"),
        (lambda: tt.total_of([one, None], state), r"releases\[1\]: NoneType must be a tallytree.Release"),
        (lambda: tt.total_of([one, other]), r"areas: None is given"),
        (
            lambda: tt.total_of([releases.group_sizes(areas, seed=1)], state),
            r"releases\[0\]: its statistic is 'group_sizes",
        ),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^{message}"):
            call()
