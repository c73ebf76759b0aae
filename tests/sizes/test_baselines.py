"""What `Matching` is compared with: `Independent`, `BottomUp`, `MeanConsistency`; and what they say of themselves."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import tallytree as tt
from tallytree.evaluate.metrics import constraint_violations, earth_movers_distance, l1_error
from tallytree.sizes import BottomUp, HistogramProjection, Independent, MeanConsistency
from tallytree.sizes.mechanism import ReleasedSizes, count_fractional, count_negative, count_violations

REGIMES = ["groups", "total", "none"]


def rows(areas, mechanism, **changes):
    table = pa.table({"state": ["A", "A", "B"], "county": ["x", "x", "x"], "n": [0, 3, 15], "households": [5, 400, 70]})
    arguments = {"budget": tt.Budget(epsilon=1), "neighboring": "add_remove", "max_group_size": 20} | changes
    return tt.release_group_sizes(table, areas, size="n", groups="households", mechanism=mechanism, **arguments)


# --- Each level by itself ---


@pytest.mark.parametrize("invariants", REGIMES)
def test_independent_levels_need_not_add_up_but_keep_what_is_public(towns, release_sizes, invariants):
    released = release_sizes(towns, Independent(), invariants=invariants, epsilon=0.3)
    summed = np.add.reduceat(released.tables[2], towns.first_child[1][:-1])
    assert (summed != released.tables[1]).any()
    for table, groups in zip(released.tables, released.domain.groups, strict=True):
        assert groups is None or np.array_equal(table.sum(axis=1), groups)
        assert invariants == "none" or table.sum() == 3_000
        assert (table >= 0).all()


@pytest.mark.parametrize("invariants", REGIMES)
@pytest.mark.parametrize("estimator", ["cumulative", "naive"])
def test_the_leaves_are_the_same_by_themselves_and_bottom_up(towns, release_sizes, invariants, estimator):
    """The same cells, key and scale mean the same noise; so nothing of the other levels reaches the leaves."""
    independent = release_sizes(towns, Independent(estimator), invariants=invariants, epsilon=3)
    bottom_up = release_sizes(towns, BottomUp(estimator), invariants=invariants, epsilon=1)
    assert np.array_equal(independent.tables[2], bottom_up.tables[2])


@pytest.mark.parametrize("invariants", REGIMES)
@pytest.mark.parametrize("mechanism", [Independent(), Independent("naive", norm=2)], ids=repr)
def test_without_noise_independent_levels_are_true(towns, release_sizes, mechanism, invariants):
    released = release_sizes(towns, mechanism, invariants=invariants, epsilon=50_000)
    for found, true in zip(released.tables, released.true, strict=True):
        assert np.array_equal(found, true)


def test_sorted_sizes_go_with_both_where_numbers_of_groups_are_public(towns, release_sizes):
    for mechanism in (Independent("sorted"), BottomUp("sorted")):
        released = release_sizes(towns, mechanism, epsilon=50_000)
        assert np.array_equal(released.tables[2], released.true[2])
        with pytest.raises(ValueError, match=r"estimator: 'sorted' at '.*' needs the public number of groups"):
            mechanism.statistics(towns, invariants="none")


@pytest.mark.parametrize("invariants", REGIMES)
def test_a_level_that_repeats_the_one_above_is_published_twice(release_sizes, invariants):
    table = pa.table({"country": ["N"] * 3, "a": ["x", "y", "z"], "b": ["p", "q", "r"]})
    tree = tt.Hierarchy.from_table(table, ["country", "a", "b"])
    released = release_sizes(tree, Independent(), invariants=invariants)
    assert np.array_equal(released.tables[1], released.tables[2])
    assert [measured.level for measured in released.measured] == ["country", "a"]


# --- The leaves added up ---


def test_bottom_up_spends_everything_at_the_leaves(areas):
    release = rows(areas, BottomUp())
    measured = [(level["level"], level["noise"]["scale"]) for level in release.statement["levels"] if level["measured"]]
    assert measured == [("county", 1)]
    assert release.measurements("county").num_rows == areas.n_leaves
    assert release.measurements("all").num_rows == 0
    with pytest.raises(ValueError, match="budget_split"):
        rows(areas, BottomUp(), budget_split={"all": 1, "state": 1, "county": 1})


@pytest.mark.parametrize("invariants", REGIMES)
def test_bottom_up_of_a_root_alone(release_sizes, invariants):
    tree = tt.Hierarchy.from_table(pa.table({"country": ["N"], "again": ["N"]}), ["country", "again"])
    assert set(BottomUp().statistics(tree, invariants=invariants)) == {"country"}
    released = release_sizes(tree, BottomUp(), invariants=invariants, epsilon=50_000)
    assert np.array_equal(released.tables[1], released.true[1])


def test_bottom_up_keeps_a_public_total_above_leaves_that_are_all_noise(towns, release_sizes):
    released = release_sizes(towns, BottomUp(), invariants="total", epsilon=0.001)
    assert [int(table.sum()) for table in released.tables] == [3_000] * 3
    private = release_sizes(towns, BottomUp(), invariants="none", epsilon=0.001)
    assert private.tables[0].sum() != 3_000
    assert (private.tables[2].sum(axis=1) == 0).any()  # clipped, not shifted


# --- Mean consistency ---


def least_squares(tree, released):
    """The leaves' tail counts by dense weighted least squares on all that was measured, one size at a time."""
    adds_up = [np.eye(tree.n_leaves)]
    for begins in reversed(tree.first_child):
        adds_up.insert(0, np.add.reduceat(adds_up[0], begins[:-1], axis=0))
    matrix, values, weight = [], [], []
    for level, measured in zip(adds_up, released.measured, strict=True):
        table = measured.values.reshape(len(level), -1)
        missing = released.domain.width - table.shape[1]
        matrix.append(level)
        known = released.domain.groups[len(matrix) - 1]
        values.append(np.column_stack([known, table]) if missing else table)
        weight.append(np.full(values[-1].shape, measured.noise.variance**-0.5))
        if missing:
            weight[-1][:, 0] = 1e6
    stacked, noisy, weights = (np.concatenate(each) for each in (matrix, values, weight))
    columns = [
        np.linalg.lstsq(weights[:, [s]] * stacked, weights[:, s] * noisy[:, s], rcond=None)[0]
        for s in range(noisy.shape[1])
    ]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("split", [None, {"all": 0.1, "state": 0.3, "county": 0.6}])
@pytest.mark.parametrize("invariants", REGIMES)
def test_mean_consistency_is_least_squares_on_the_tail_counts(towns, release_sizes, invariants, split):
    released = release_sizes(towns, MeanConsistency(), invariants=invariants, epsilon=0.5, split=split)
    tails = released.tables[2][:, ::-1].cumsum(axis=1)[:, ::-1][:, released.domain.smallest :]
    np.testing.assert_allclose(tails, least_squares(towns, released), atol=1e-5)


def test_mean_consistency_does_not_depend_on_how_sizes_are_chunked(towns, release_sizes, monkeypatch):
    at_once = release_sizes(towns, MeanConsistency(), invariants="total")
    monkeypatch.setattr("tallytree.sizes.mean_consistency.CELLS_AT_ONCE", 100)
    parts = release_sizes(towns, MeanConsistency(), invariants="total")
    for first, second in zip(at_once.tables, parts.tables, strict=True):
        assert np.array_equal(first, second)


def test_the_statement_counts_negative_and_fractional_numbers(areas, tmp_path):
    with pytest.warns(UserWarning, match=r"mechanism: MeanConsistency.* fractions of groups.*negative"):
        release = rows(areas, MeanConsistency())
    groups = np.concatenate([release.table(level)["groups"].to_numpy() for level in release.levels])
    assert groups.dtype == np.float64
    assert (groups != 0).all()
    assert release.statement["negative_numbers"] == (groups < 0).sum() > 0
    assert release.statement["fractional_numbers"] == (groups % 1 != 0).sum() > 0
    assert release.statement["constraint_violations"] == 0
    tables = [release.table(level) for level in release.levels]
    assert [constraint_violations(above, below) for above, below in itertools.pairwise(tables)] == [0, 0]
    assert [table["groups"].to_numpy().sum() for table in tables] == [475, 475, 475]
    release.save(tmp_path / "out", csv=True)
    loaded = tt.Release.load(tmp_path / "out")
    for level in release.levels:
        assert loaded.table(level).equals(release.table(level))
        text = pyarrow.csv.read_csv(tmp_path / f"out/tables/{level}.csv")
        assert text["groups"].to_pylist() == release.table(level)["groups"].to_pylist()
    assert loaded.statement == release.statement


def test_more_cells_than_memory_holds_are_refused_before_anything_is_spent(areas, tmp_path):
    limit = r"mechanism: MeanConsistency\(\) releases a number for .* here 7 × 10,000,001 = 70,000,007 cells, .* lower"
    with pytest.raises(ValueError, match=limit):
        rows(areas, MeanConsistency(), max_group_size=10_000_000, ledger=tmp_path / "l", dataset="d")
    assert not (tmp_path / "l").exists()


# --- What mechanisms say of themselves ---


def test_independent_warns_and_says_in_the_statement_that_levels_do_not_add_up(areas):
    with pytest.warns(UserWarning, match=r"mechanism: Independent.*its levels do not add up") as warned:
        release = rows(areas, Independent())
    assert len(warned) == 1
    caveat = Independent().caution
    assert release.statement["notes"][0] == caveat
    assert caveat.endswith("For comparison only.")
    tables = [release.table(level) for level in release.levels]
    counted = sum(constraint_violations(above, below) for above, below in itertools.pairwise(tables))
    assert release.statement["constraint_violations"] == counted > 0
    assert release.statement["negative_numbers"] == release.statement["fractional_numbers"] == 0


def test_those_that_keep_all_promises_say_nothing(areas):
    release = rows(areas, BottomUp())
    assert not any("comparison" in note for note in release.statement["notes"])
    assert [release.statement[f"{kind}_numbers"] for kind in ("negative", "fractional")] == [0, 0]
    assert BottomUp().caution is None
    assert HistogramProjection().caution is None


def test_negative_and_fractional_numbers_are_counted_by_node_and_size(towns):
    def level(groups):
        groups = np.array(groups)
        return ReleasedSizes(np.zeros(len(groups), np.int64), np.arange(len(groups)), groups)

    levels = [level([1.5, -0.25]), level([1.0, -2.0, 2.0**-20]), level([3, 4])]
    assert count_negative(levels) == 2
    assert count_fractional(levels) == 3
    assert count_violations(towns, [level([1.5, -0.25]), level([1.5, 0.25])], 5) == 1


# --- Errors of fractions ---


def test_hand_worked_errors_of_fractions_and_negative_numbers():
    def table(sizes, groups, kind):
        return pa.table({"size": sizes, "groups": pa.array(groups, kind)})

    released = table([1, 2, 4], [1.5, -0.5, 0.25], pa.float64())
    true = table([1, 3], [1, 1], pa.int64())
    # Tail counts of sizes 1 … 4: 1.25, −0.25, 0.25, 0.25 against 2, 1, 1, 0.
    assert earth_movers_distance(released, true).tolist() == [0.75 + 1.25 + 0.75 + 0.25]
    assert earth_movers_distance(true, released).tolist() == [3.0]
    assert l1_error(released, true) == 0.5 + 0.5 + 1 + 0.25
    assert l1_error(true, true) == 0
    assert isinstance(l1_error(true, true), int)
    assert constraint_violations(released, true) == 4
    assert constraint_violations(released, released) == 0


@pytest.mark.parametrize("kind", [Independent, BottomUp])
def test_options_are_checked(kind, towns):
    with pytest.raises(ValueError, match=r"estimator: 'median' .*choose one of cumulative, sorted, naive"):
        kind("median")
    with pytest.raises(ValueError, match="norm: 3 must be 1 or 2"):
        kind(norm=3)
    with pytest.raises(TypeError, match=r"estimator: list must be"):
        kind(["sorted"])


def test_estimators_are_named_for_every_level_or_for_the_leaves_alone(towns):
    names = {"all": "sorted", "state": "cumulative", "county": "naive"}
    assert list(Independent(names).statistics(towns, invariants="groups").values()) == [
        "sorted_sizes",
        "tail_counts",
        "histogram",
    ]
    with pytest.raises(ValueError, match="estimator: none is given for the level 'state'"):
        Independent({"all": "sorted"}).statistics(towns, invariants="groups")
    with pytest.raises(TypeError, match="must be one name, since the leaves alone are estimated"):
        BottomUp(names)
