"""Errors from replicates: what they are, that they cover, and that nothing private is in their reach."""

import dataclasses
import json
import pickle
import re
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.cases import few
from helpers.inside import Measurer, order, planned_counts, planned_sizes
from helpers.replicated import TREE
from tallytree.numbers.accuracy import bootstrap as replicates_module
from tallytree.release.intervals import COVERS
from tallytree.release.level_tables import ChangedTable
from tallytree.release.view.recorded_measurements import recorded_noise

ROWS = pa.table(
    {
        "state": ["A", "A", "A", "B", "B"],
        "county": ["v", "v", "w", "v", "z"],
        "n": [1, 3, 1, 9, 4],
        "homes": [50, 40, 70, 12, 30],
    }
)


SIZES = [
    tt.sizes.Joint(),
    tt.sizes.Matching(),
    tt.sizes.Matching("sorted"),
    tt.sizes.HistogramProjection(),
    tt.sizes.CumulativeProjection(),
    tt.sizes.Chain(),
    tt.sizes.CensusTopDown(),
    tt.sizes.BottomUp(),
    tt.sizes.Independent(),
    tt.sizes.MeanConsistency(),
]


@pytest.fixture(scope="module")
def release(tree, records):
    budget = tt.Budget(epsilon=1)
    return tt.release_counts(records, tree, budget, neighboring="change_one", count="records", seed=3)


@pytest.fixture(scope="module")
def flows(tree):
    random = np.random.default_rng(3)
    trips = {
        f"{side}_{name}": TREE[name].take(pa.array(chosen))
        for side, chosen in (("o", random.geometric(0.2, 4000) % 20), ("d", random.geometric(0.3, 4000) % 20))
        for name in ("state", "county")
    }
    return tt.release_flows(
        pa.table(trips),
        origins=tree,
        destinations=tree,
        origin=["o_state", "o_county"],
        destination=["d_state", "d_county"],
        budget=tt.Budget(epsilon=1, delta=1e-6),
        neighboring="add_remove",
    )


@pytest.fixture
def nothing_private(monkeypatch):
    """Once called, the test fails if records are opened, or anything is measured as a release is."""

    def refuse(*arguments, **options):
        pytest.fail("the private side was opened")

    def close():
        monkeypatch.setattr(order, "paid_noise", refuse)
        for module in (planned_counts, planned_sizes):
            monkeypatch.setattr(module, "Measurer", refuse)
        monkeypatch.setattr(tt.engines.Local, "tabulate", refuse)

    return close


# Of errors, but `replicate_errors` makes its own.
NOT_KEPT = ("std_dev", "typical_error", "ci_lower", "ci_upper", "probability_zero", "quality")


def without_errors(table):
    return table.select([name for name in table.column_names if name not in NOT_KEPT])


def test_numbers_and_measurements_stay_and_error_columns_come(release, flows, nothing_private):
    nothing_private()
    for first in (release, flows):
        made = tt.replicate_errors(first, 10)
        assert made.levels == first.levels
        for level in first.levels:
            table = made.table(level)
            assert table.column_names[-5:] == ["count", "std_dev", "ci_lower", "ci_upper", "quality"]
            assert [table.schema.field(name).type for name in table.column_names[-4:-1]] == [
                pa.float64(),
                pa.int64(),
                pa.int64(),
            ]
            assert without_errors(table).equals(without_errors(first.table(level)))
            assert made.measurements(level).equals(first.measurements(level))
            count, lower, upper = (table[name].to_numpy() for name in ("count", "ci_lower", "ci_upper"))
            assert (lower >= 0).all()
            assert (lower <= count).all()
            assert (count <= upper).all()


CASES = [(mechanism, "groups") for mechanism in SIZES]


CASES += [(mechanism, invariants) for mechanism in SIZES[:2] for invariants in ("total", "none")]


@pytest.mark.parametrize(("mechanism", "invariants"), few(CASES, 6), ids=repr)
@pytest.mark.filterwarnings("ignore:mechanism")
def test_every_mechanism_for_group_sizes_has_replicates(tree, tmp_path, mechanism, invariants, nothing_private):
    first = tt.release_group_sizes(
        ROWS,
        tree,
        tt.Budget(epsilon=3),
        neighboring="add_remove",
        size="n",
        groups="homes",
        max_group_size=12,
        invariants=invariants,
        mechanism=mechanism,
    )
    nothing_private()
    made = tt.replicate_errors(first, 10, seed=4)
    loaded = tt.replicate_errors(first.save(tmp_path / "out"), 10, seed=4)
    for level in first.levels:
        table = made.table(level)
        tails = ["tail_count", "tail_std_dev"] if mechanism.knows_errors else []
        wanted = ["size", "groups", *tails, "std_dev", "ci_lower", "ci_upper"]
        assert table.column_names[-len(wanted) - 1 :] == [*wanted, "quality"]
        assert without_errors(table).equals(without_errors(first.table(level)))
        assert loaded.table(level).equals(table)
    assert made.table(first.levels[-1])["std_dev"].to_numpy().max() > 0


COUNTS = [tt.counts.LeastSquares(), tt.counts.TopDown(), tt.counts.LeafGaussian(), tt.counts.StabilityHistogram()]


PURE, APPROXIMATE = tt.Budget(epsilon=2), tt.Budget(epsilon=2, delta=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [*((mechanism, PURE) for mechanism in COUNTS[:-1]), *((mechanism, APPROXIMATE) for mechanism in COUNTS)],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:mechanism")
def test_a_loaded_release_has_the_same_errors_with_the_same_seed(tree, records, tmp_path, mechanism, budget):
    for neighboring in ("add_remove", "change_one"):
        first = tt.release_counts(records, tree, budget, neighboring=neighboring, count="records", mechanism=mechanism)
        folder = first.save(tmp_path / neighboring)
        made = [tt.replicate_errors(source, 10, seed=9) for source in (first, folder, str(folder))]
        again = tt.replicate_errors(made[0], 10, seed=9)
        other = tt.replicate_errors(first, 10, seed=10)
        for level in first.levels:
            assert all(each.table(level).equals(made[0].table(level)) for each in (*made, again))
        assert not other.table("county").equals(made[0].table("county"))
        if mechanism == tt.counts.StabilityHistogram():
            continue  # its sums have no errors
        root = made[0].table("all").to_pylist()[0]
        keeps_total = mechanism in COUNTS[:2] and neighboring == "change_one"
        assert (root["std_dev"] == 0) is keeps_total


def test_a_loaded_release_of_flows_has_the_same_errors(flows, tmp_path, monkeypatch):
    monkeypatch.setattr("tallytree.release.level_tables.ROWS_AT_ONCE", 7)
    made = tt.replicate_errors(flows, 10, seed=2)
    folder = flows.save(tmp_path / "out")
    loaded = tt.replicate_errors(folder, 10, seed=2)
    assert all(loaded.table(level).equals(made.table(level)) for level in flows.levels)
    assert loaded.statement == made.statement
    saved = tt.Release.load(made.save(tmp_path / "made"))
    assert all(saved.table(level).equals(made.table(level)) for level in flows.levels)


def test_a_release_with_errors_can_go_to_another_process(release):
    with_errors = tt.replicate_errors(release, 10, seed=1)
    gone = pickle.loads(pickle.dumps(with_errors))  # noqa: S301
    assert all(gone.table(level).equals(with_errors.table(level)) for level in release.levels)


@pytest.mark.filterwarnings("ignore:mechanism")
def test_sums_that_miss_what_is_below_a_threshold_have_no_intervals(tree, records):
    budget, stable = tt.Budget(epsilon=2, delta=1e-6), tt.counts.StabilityHistogram()
    first = tt.release_counts(records, tree, budget, neighboring="add_remove", count="records", mechanism=stable)
    made = tt.replicate_errors(first, 10)
    assert "ci_upper" in made.table("county").column_names
    for level in first.levels[:-1]:
        assert made.table(level).equals(first.table(level))
        with pytest.raises(ValueError, match="with StabilityHistogram, those of the leaves can be"):
            made.table(level, alpha=0.1)
    assert made.table("county", alpha=0.2).num_rows == first.table("county").num_rows
    assert "Cells below the threshold are missing from every sum" in made.statement["errors"]["covers"]


def test_a_sparse_release_does_not_know_its_errors_and_says_what_replicates_miss(tree, records):
    budget, sparse = tt.Budget(epsilon=2), tt.counts.LeastSquares(sparsity=2)
    first = tt.release_counts(records, tree, budget, neighboring="add_remove", count="records", mechanism=sparse)
    assert "std_dev" not in first.table("county").column_names
    made = tt.replicate_errors(first, 10)
    assert "What sparsity left out" in made.statement["errors"]["covers"]
    exact = tt.release_counts(records, tree, budget, neighboring="add_remove", count="records")
    assert "sparsity" not in tt.replicate_errors(exact, 10).statement["errors"]["covers"]


def test_the_statement_says_how_and_what_is_covered(flows, release):
    errors = tt.replicate_errors(flows, 10, alpha=0.2).statement["errors"]
    assert list(errors) == ["method", "replicates", "alpha", "seeded", "covers", "levels", "software"]
    assert (errors["method"], errors["replicates"], errors["alpha"], errors["seeded"]) == ("replicates", 10, 0.2, False)
    assert errors["covers"] == COVERS
    assert [level["level"] for level in errors["levels"]] == list(flows.levels)
    noise = [level["noise"]["std_dev"] for level in flows.statement["levels"]]
    assert [level["upward_std_dev"] for level in errors["levels"]] == noise
    leaves = errors["levels"][-1]["unlisted_ci_upper"]
    assert leaves >= 1.37 * noise[-1] - 1.5  # the half-unit correction, and the nearer of two integers
    counted = tt.replicate_errors(release, 10, seed=1).statement["errors"]
    assert counted["seeded"] is True
    assert {level["unlisted_ci_upper"] for level in counted["levels"]} == {None}  # every node is listed
    assert counted["levels"][0]["upward_std_dev"] == 0  # the total is public
    json.dumps(counted, allow_nan=False)


def test_another_alpha_needs_no_other_replicates(release):
    made = tt.replicate_errors(release, 20, alpha=0.1, seed=5)
    wide = tt.replicate_errors(release, 20, alpha=0.01, seed=5)
    assert made.table("county", alpha=0.1).equals(made.table("county"))
    assert made.table("county", alpha=0.01).equals(wide.table("county"))


def test_a_level_that_repeats_the_one_above_reckons_with_its_noise():
    tree = tt.Hierarchy.from_table(pa.table({"a": ["x", "y"], "b": ["p", "q"]}), ["a", "b"])
    records = pa.table({"a": ["x"] * 30, "b": ["p"] * 30})
    release = tt.release_counts(records, tree, tt.Budget(epsilon=1), neighboring="change_one")
    made = tt.replicate_errors(release, 10)
    above, below = (made.table(level) for level in ("a", "b"))
    assert above["ci_upper"].equals(below["ci_upper"])


def test_a_release_without_any_cell_has_replicates():
    tree = tt.Hierarchy.from_table(pa.table({"a": ["x", "y"]}), ["a"])
    product = tt.Product({"o": tree, "d": tree}, order=["o", "d"])
    trips = pa.table({"o_a": pa.array([], pa.string()), "d_a": pa.array([], pa.string())})
    release = tt.release_counts(trips, product, tt.Budget(epsilon=1), neighboring="change_one")
    made = tt.replicate_errors(release, 10)
    assert made.table("d_a").num_rows == 0
    assert made.statement["errors"]["levels"][-1]["unlisted_ci_upper"] is None


def test_where_k_was_measured_replicates_keep_it(tree):
    first = tt.release_group_sizes(
        ROWS,
        tree,
        tt.Budget(epsilon=3),
        neighboring="add_remove",
        size="n",
        groups="homes",
        max_group_size=tt.sizes.PrivateMaximum(at_most=40),
    )
    made = tt.replicate_errors(first, 10)
    assert made.table("county")["size"].to_numpy().max() <= first.statement["maximum"]["max_group_size"]


def test_noise_drawn_by_opendp_has_replicates_of_the_same_law(tree, records):
    pytest.importorskip("opendp")
    release = tt.release_counts(
        records, tree, tt.Budget(epsilon=0.7), neighboring="add_remove", count="records", noise="opendp"
    )
    assert tt.replicate_errors(release, 10).table("county")["std_dev"].to_numpy().min() > 0


def test_tables_made_again_have_no_errors_of_the_earlier_ones(tree):
    first = tt.release_group_sizes(
        ROWS, tree, tt.Budget(epsilon=3), neighboring="add_remove", size="n", groups="homes", max_group_size=12
    )
    again = tt.reconcile_group_sizes(tt.replicate_errors(first, 10), tree, mechanism=tt.sizes.Matching())
    assert "errors" not in again.statement
    assert "std_dev" not in again.table("county").column_names
    assert "std_dev" in tt.replicate_errors(again, 10).table("county").column_names


# --- Privacy ---


def test_replicates_never_have_a_key_of_a_release(tree, records, monkeypatch):
    """Not even with the release's own seed: else subtracting would show the true counts."""
    keys = {"release": [], "replicates": []}

    def remembering(made, used):
        def noise(key):
            used.append(key)
            return made(key)

        return noise

    for kind, module in (("release", order), ("replicates", replicates_module)):
        monkeypatch.setattr(module, "KeyedNoise", remembering(module.KeyedNoise, keys[kind]))
    for seed in (None, 7):
        release = tt.release_counts(
            records, tree, tt.Budget(epsilon=1), neighboring="change_one", count="records", seed=seed
        )
        tt.replicate_errors(release, 10, seed=seed)
        tt.replicate_errors(release, 10)
    assert (len(keys["release"]), len(keys["replicates"])) == (2, 40)
    assert len({*keys["release"], *keys["replicates"]}) == 42


def test_replicates_of_the_truth_with_the_releases_seed_have_other_noise(tree, records):
    """The one case in which equal noise would show: what is published is the truth itself."""
    budget = tt.Budget(epsilon=1)
    release = tt.release_counts(records, tree, budget, neighboring="add_remove", count="records", seed=3)
    values = release.measurements("county")["value"].to_numpy()
    noise = values - records["records"].to_numpy()
    plan = replicates_module.StatedPlan(recorded_noise(release.statement, tree))
    true = replicates_module.TrueCounts(tree, np.arange(20), records["records"].to_numpy())
    source = next(replicates_module.fresh_sources(1, 3))
    measured = replicates_module.Measurer(true, plan, source).measure("county", np.arange(20), "counts")
    assert not np.array_equal(measured.values - records["records"].to_numpy(), noise)


def test_what_was_not_measured_is_not_in_the_plan(tree):
    plan = replicates_module.StatedPlan({})
    source = next(replicates_module.fresh_sources(1, 3))
    true = replicates_module.TrueCounts(tree, np.arange(20), np.arange(1, 21))
    with pytest.raises(tt.BudgetExceeded, match="is not in the plan"):
        replicates_module.Measurer(true, plan, source).measure("county", np.arange(20), "counts")


# --- Refusals ---


def with_statement(release, **changes):
    return dataclasses.replace(release, statement={**release.statement, **changes})


@pytest.mark.parametrize("replicates", [9, 2, 1, 0, -5])
def test_too_few_replicates_are_refused(release, replicates):
    with pytest.raises(ValueError, match=rf"^replicates: {replicates} are too few .* give at least 10"):
        tt.replicate_errors(release, replicates)


@pytest.mark.parametrize(("replicates", "shown"), [(10.0, "10.0"), ("50", "str"), (True, "True"), (None, "None")])
def test_replicates_must_be_an_integer(release, replicates, shown):
    with pytest.raises(TypeError, match=rf"^replicates: {shown} must be an integer"):
        tt.replicate_errors(release, replicates)


def test_other_kinds_of_arguments_are_refused(release, tmp_path):
    with pytest.raises(TypeError, match=r"^release: dict must be a tallytree.Release"):
        tt.replicate_errors({})
    with pytest.raises(ValueError, match=r"^folder: .* does not exist"):
        tt.replicate_errors(tmp_path / "nothing")
    with pytest.raises(TypeError, match=r"^seed: str must be an integer"):
        tt.replicate_errors(release, seed="x")


def test_another_hierarchy_than_that_of_the_tables_is_refused(release):
    fewer = tt.Hierarchy.from_table(TREE.slice(0, 15), ["state", "county"])
    with pytest.raises(ValueError, match=r"^hierarchy: .*3 nodes .*'state', .*release has 4"):
        tt.replicate_errors(replace(release, _tree=fewer))
    renamed = TREE.set_column(1, "county", pa.array(["?", *TREE["county"].to_pylist()[1:]]))
    other = tt.Hierarchy.from_table(renamed, ["state", "county"])
    with pytest.raises(ValueError, match=r"^hierarchy: .*no node state='A', county='v' .*'county'"):
        tt.replicate_errors(replace(release, _tree=other))


def test_group_sizes_are_not_of_a_product(tree):
    first = tt.release_group_sizes(
        ROWS.select(["state", "n", "homes"]),
        tt.Hierarchy.from_table(pa.table({"state": ["A", "B"]}), ["state"]),
        tt.Budget(epsilon=3),
        neighboring="add_remove",
        size="n",
        groups="homes",
        max_group_size=12,
    )
    one = tt.Hierarchy.from_table(pa.table({"state": ["A", "B"]}), ["state"])
    product = tt.Product({"a": one}, order=["a"], columns={"a": ["state"]})
    with pytest.raises(TypeError, match=r"^hierarchy: Product must be a tallytree.Hierarchy for group sizes"):
        tt.replicate_errors(replace(first, _tree=product))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechanism": {"name": "Magic", "options": {}}}, "its mechanism is 'Magic', which is not among"),
        (
            {"mechanism": {"name": "ReleasedCounts", "options": {}}},
            "its mechanism is 'ReleasedCounts', which is not among",
        ),
        ({"mechanism": {"name": "TopDown", "options": {"x": 1}}}, "its mechanism TopDown does not take the options"),
        ({"mechanism": {"name": "TopDown"}}, "its mechanism TopDown does not take the options"),
        ({"statistic": "sums"}, "its statistic is 'sums'"),
    ],
)
def test_a_statement_of_something_unknown_is_refused(release, change, message):
    with pytest.raises(ValueError, match=f"^release: {re.escape(message)}"):
        tt.replicate_errors(with_statement(release, **change))


def test_sizes_beyond_k_are_refused(tree):
    first = tt.release_group_sizes(
        ROWS, tree, tt.Budget(epsilon=3), neighboring="add_remove", size="n", groups="homes", max_group_size=12
    )
    smaller = dataclasses.replace(first, spec={**first.spec, "max_group_size": 1})
    with pytest.raises(ValueError, match=r"^release: the table of 'all' has sizes beyond 1"):
        tt.replicate_errors(smaller)


def test_columns_that_are_there_are_replaced(release):
    twice = tt.replicate_errors(tt.replicate_errors(release, 10), 10)
    assert twice.table("county").column_names == [
        "state", "county", "count", "std_dev", "ci_lower", "ci_upper", "quality",
    ]  # fmt: skip
    assert isinstance(twice.level_tables["county"], ChangedTable)


@pytest.mark.slow
def test_replicates_side_by_side_are_those_one_after_the_other(flows, monkeypatch):
    """Each is a function of its own key, and they are added up in their order: to the same bit."""
    threads = set()
    measure = Measurer.measure
    monkeypatch.setattr(
        Measurer, "measure", lambda self, *given: (threads.add(threading.get_ident()), measure(self, *given))[1]
    )
    monkeypatch.setattr("tallytree.support.machine.available_threads", lambda: 2)
    tables = []
    for leaves, several in ((replicates_module.LEAVES_AT_ONCE, True), (0, False)):
        threads.clear()
        monkeypatch.setattr(replicates_module, "LEAVES_AT_ONCE", leaves)
        made = tt.replicate_errors(flows, 10, seed=5)
        assert (threads != {threading.get_ident()}) == several
        tables.append([made.table(level) for level in made.levels])
    assert all(one.equals(other) for one, other in zip(*tables, strict=True))
