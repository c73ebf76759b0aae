"""Tables made again from the noisy measurements of a release: the same ones and other ones."""

import dataclasses
import itertools
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import order, planned_sizes
from helpers.reconciled import ROWS, released
from tallytree.evaluate.metrics import constraint_violations, earth_movers_distance
from tallytree.mechanisms import Measurement, Noise
from tallytree.numbers.reconcile import FITTING
from tallytree.sizes import SizesDomain

MECHANISMS = [
    tt.sizes.Matching(),
    tt.sizes.Matching("sorted"),
    tt.sizes.Matching("naive", merge="average"),
    tt.sizes.Matching({"all": "naive", "state": "cumulative", "county": "cumulative"}),
    tt.sizes.HistogramProjection(),
    tt.sizes.HistogramProjection(solver="cost_table", delta=60),
    tt.sizes.CumulativeProjection(),
    tt.sizes.Chain(),
    tt.sizes.CensusTopDown(),
    tt.sizes.Joint(),
    tt.sizes.BottomUp(),
]


BUDGETS = [
    tt.Budget(epsilon=2),
    pytest.param(tt.Budget(rho=0.3), marks=pytest.mark.slow),
    tt.Budget(epsilon=1, delta=1e-6),
]


@pytest.fixture
def nothing_private(monkeypatch):
    """Fails the test if records are opened, a door to private statistics is made, or noise is drawn."""

    def refuse(*arguments, **options):
        pytest.fail("the private side was opened")

    def close():
        monkeypatch.setattr(planned_sizes, "Measurer", refuse)
        monkeypatch.setattr(order, "paid_noise", refuse)
        monkeypatch.setattr("tallytree.private.measurer.Measurer", refuse)
        monkeypatch.setattr(tt.engines.Local, "tabulate", refuse)

    return close


# --- The same again ---


def works(mechanism, invariants):
    """Sorted sizes need public numbers of groups; the paper's dynamic program does not know them."""
    if mechanism == tt.sizes.Matching("sorted"):
        return invariants == "groups"
    return invariants != "groups" or getattr(mechanism, "solver", "") != "cost_table"


CASES = [
    (mechanism, invariants)
    for mechanism, invariants in itertools.product(MECHANISMS, ("groups", "total", "none"))
    if works(mechanism, invariants)
]


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize(("mechanism", "invariants"), CASES, ids=repr)
def test_the_same_mechanism_gives_the_very_same_tables(areas, tmp_path, mechanism, invariants, budget, nothing_private):
    first = released(areas, mechanism=mechanism, invariants=invariants, budget=budget)
    folder = first.save(tmp_path / "out")
    nothing_private()
    for source in (first, folder, str(folder)):
        again = tt.reconcile_group_sizes(source, areas, mechanism=mechanism)
        assert again.levels == first.levels
        for level in first.levels:
            assert again.table(level).equals(first.table(level))
            assert again.measurements(level).equals(first.measurements(level))


@pytest.mark.parametrize("noise", ["keyed", "opendp"])
def test_scales_that_no_float_holds_survive(areas, tmp_path, noise):
    """Scales such as 190/21; those of OpenDP are floats, which `scale_exact` has as fractions."""
    if noise == "opendp":
        pytest.importorskip("opendp")
    split = {"all": 3, "state": 5, "county": 11}
    first = released(areas, budget=tt.Budget(epsilon=0.7), budget_split=split, noise=noise)
    again = tt.reconcile_group_sizes(first.save(tmp_path / "out"), areas)
    assert again.table("county").equals(first.table("county"))
    assert [level["noise"] for level in again.statement["levels"]] == [
        level["noise"] for level in first.statement["levels"]
    ]


@pytest.mark.parametrize("invariants", ["groups", "none"])
def test_levels_that_were_not_measured_stay_so(invariants):
    table = pa.table({"country": ["N"] * 3, "a": ["x", "y", "z"], "b": ["p", "q", "r"]})
    tree = tt.Hierarchy.from_table(table, ["country", "a", "b"])
    rows = pa.table({"a": ["x", "y"], "b": ["p", "q"], "n": [3, 5], "households": [40, 50]})
    first = released(tree, records=rows, invariants=invariants)
    again = tt.reconcile_group_sizes(first, tree)
    assert again.measurements("b").num_rows == 0
    assert [level["measured"] for level in again.statement["levels"]] == [True, True, False]
    assert all(again.table(level).equals(first.table(level)) for level in first.levels)


@pytest.mark.parametrize("leaves", [["only"], ["a", "b"]])
def test_a_tree_of_one_node_or_two(leaves):
    tree = tt.Hierarchy.from_table(pa.table({"leaf": leaves}), ["leaf"])
    rows = pa.table({"leaf": leaves[:1], "n": [2], "households": [40]})
    for invariants in ("groups", "total", "none"):
        first = released(tree, records=rows, invariants=invariants, max_group_size=2)
        again = tt.reconcile_group_sizes(first, tree)
        assert all(again.table(level).equals(first.table(level)) for level in first.levels)


def test_leaves_without_groups_keep_that(areas):
    again = tt.reconcile_group_sizes(released(areas), areas, mechanism=tt.sizes.Joint())
    groups = again.to_pandas("county").groupby(["state", "county"])["groups"].sum().to_dict()
    assert groups == {("A", "x"): 45, ("A", "y"): 7, ("B", "x"): 42}


def test_a_release_much_larger_than_a_chunk_comes_back(tmp_path, monkeypatch):
    """Chunks of another size than when it was measured, and files read in slices."""
    monkeypatch.setattr("tallytree.release.level_tables.ROWS_AT_ONCE", 70)
    counties = [(str(i // 20), str(i)) for i in range(200)]
    tree = tt.Hierarchy.from_table(
        pa.table({"state": [s for s, _ in counties], "county": [c for _, c in counties]}), ["state", "county"]
    )
    random = np.random.default_rng(5)
    chosen = random.integers(0, 190, 1_500)
    rows = pa.table(
        {
            "state": [counties[i][0] for i in chosen],
            "county": [counties[i][1] for i in chosen],
            "n": random.geometric(0.2, 1_500),
            "households": random.integers(1, 9, 1_500),
        }
    )
    for mechanism in (tt.sizes.Matching("sorted"), tt.sizes.Matching(), tt.sizes.CensusTopDown()):
        first = released(tree, records=rows, max_group_size=50, mechanism=mechanism)
        folder = first.save(tmp_path / repr(mechanism))
        with monkeypatch.context() as smaller:
            for module in ("noisy", "level_estimates"):
                smaller.setattr(f"tallytree.sizes.{module}.CELLS_AT_ONCE", 1_000)
            again = tt.reconcile_group_sizes(folder, tree, mechanism=mechanism)
        assert all(again.table(level).equals(first.table(level)) for level in first.levels)


@pytest.mark.shared_data
@pytest.mark.parametrize("mechanism", [tt.sizes.Matching(), tt.sizes.Matching("sorted")], ids=repr)
def test_a_release_of_taxis_comes_back_whole(shared_data, tmp_path, mechanism):
    table = pq.read_table(shared_data / "taxi_2013_manhattan.parquet")
    leaves = table.select(["half", "neighbourhood"]).group_by(["half", "neighbourhood"]).aggregate([])
    tree = tt.Hierarchy.from_table(leaves, ["half", "neighbourhood"])
    first = tt.release_group_sizes(
        table, tree, tt.Budget(epsilon=1), neighboring="add_remove", size="size", groups="groups", mechanism=mechanism
    )
    again = tt.reconcile_group_sizes(first.save(tmp_path / "out"), tree, mechanism=mechanism)
    assert all(again.table(level).equals(first.table(level)) for level in first.levels)


# --- Others ---


@pytest.mark.parametrize("invariants", ["groups", "total", "none"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (tt.sizes.Matching(), tt.sizes.Joint()),
        (tt.sizes.Joint(), tt.sizes.CumulativeProjection()),
        (tt.sizes.CumulativeProjection(), None),
        (tt.sizes.HistogramProjection(), tt.sizes.CensusTopDown()),
        (tt.sizes.CensusTopDown(), tt.sizes.Matching("naive")),
    ],
    ids=repr,
)
def test_another_mechanism_gives_what_it_would_have_given_on_the_same_noise(areas, first, second, invariants):
    """The oracle looks the noisy values up in plain lists, and knows the public numbers from the records."""
    made = released(areas, mechanism=first, invariants=invariants)
    noise = {level["level"]: level["noise"] for level in made.statement["levels"]}

    class Replay:
        def measure(self, level, nodes, statistic):
            lists = made.measurements(level)["values"].to_pylist()
            values = [value for node in nodes for value in lists[node]]
            offsets = np.cumsum([0, *(len(lists[node]) for node in nodes)])
            law = Noise(noise[level]["distribution"], Fraction(noise[level]["scale_exact"]))
            return Measurement(level, statistic, nodes, np.array(values), offsets, law)

    groups = {"groups": [45, 7, 0, 42], "total": [40, 7, 0, 42], "none": [0] * 4}[invariants]
    domain = SizesDomain.from_leaves(areas, np.array(groups), 0 if invariants == "groups" else 1, 12, invariants)
    expected = (second or tt.sizes.Joint()).reconcile(domain, Replay())
    again = tt.reconcile_group_sizes(made, areas, mechanism=second)
    tables = [again.table(level) for level in again.levels]
    for table, level in zip(tables, expected, strict=True):
        assert table["size"].to_pylist() == level.sizes.tolist()
        assert table["groups"].to_pylist() == level.groups.tolist()
    assert sum(constraint_violations(above, below) for above, below in itertools.pairwise(tables)) == 0
    assert again.statement["constraint_violations"] == 0
    assert again.statement["public_groups_kept"] is True
    back = tt.reconcile_group_sizes(again, areas, mechanism=first)
    assert all(back.table(level).equals(made.table(level)) for level in made.levels)


def test_an_estimator_that_does_not_go_with_the_release_is_told_of_in_its_terms(areas):
    made = released(areas, invariants="none")
    with pytest.raises(
        ValueError, match=r"^mechanism: Matching\(.*does not go with a release with invariants = 'none' that measured"
    ):
        tt.reconcile_group_sizes(made, areas, mechanism=tt.sizes.Matching("sorted"))


def test_with_next_to_no_noise_any_fitting_mechanism_gives_the_truth(areas):
    made = released(areas, budget=tt.Budget(epsilon=50_000), mechanism=tt.sizes.Matching())
    for mechanism in (tt.sizes.Joint(), tt.sizes.CumulativeProjection()):
        again = tt.reconcile_group_sizes(made, areas, mechanism=mechanism)
        assert (
            earth_movers_distance(
                again.table("county"), ROWS.rename_columns([*ROWS.column_names[:2], "size", "groups"])
            ).sum()
            == 0
        )


def test_every_mechanism_that_is_proposed_works_on_what_was_measured(areas):
    names = {name: getattr(tt.sizes, name) for name in tt.sizes.__all__}
    proposed = {
        statistic: [eval(text, names) for text in re.split(", | or ", texts)]  # noqa: S307  (our own constant)
        for statistic, texts in FITTING.items()
    }
    for statistic, mechanisms in proposed.items():
        for mechanism in mechanisms:
            assert set(mechanism.statistics(areas, invariants="groups").values()) == {statistic}
    offered = {type(each) for each in MECHANISMS} - {tt.sizes.BottomUp}  # it measures the leaves alone
    assert {type(each) for mechanisms in proposed.values() for each in mechanisms} == offered


def test_a_mechanism_may_use_less_than_was_measured(areas):
    @dataclasses.dataclass(frozen=True)
    class LeavesOnly(tt.sizes.SizesMechanism):
        """Matching of the leaves' level with nothing: only what the mechanism asks for must be there."""

        def statistics(self, hierarchy, *, invariants):
            return {hierarchy.levels[-1]: "histogram"}

        def reconcile(self, domain, measurer):
            from tallytree.sizes.nearest_consistent import released
            from tallytree.sizes.noisy import measure_level

            noisy = measure_level(domain, len(domain.hierarchy.levels) - 1, measurer, "histogram")
            return released(domain, np.maximum(noisy.values, 0))

    made = released(areas, mechanism=tt.sizes.HistogramProjection(), invariants="none")
    again = tt.reconcile_group_sizes(made, areas, mechanism=LeavesOnly())
    leaf = np.maximum(np.array(made.measurements("county")["values"].to_pylist()), 0)
    assert sum(again.table("all")["groups"].to_pylist()) == leaf.sum()


# --- Mechanisms kept for comparison ---


@pytest.mark.parametrize("invariants", ["groups", "total", "none"])
@pytest.mark.parametrize("mechanism", [tt.sizes.Independent(), tt.sizes.MeanConsistency()], ids=repr)
def test_what_falls_short_is_made_again_with_its_caveat_and_without_it_by_another(areas, mechanism, invariants):
    with pytest.warns(UserWarning, match="For comparison only"):
        first = released(areas, mechanism=mechanism, invariants=invariants)
    assert first.statement["public_groups_kept"] is True
    with pytest.warns(UserWarning, match="For comparison only"):
        again = tt.reconcile_group_sizes(first, areas, mechanism=mechanism)
    other = tt.reconcile_group_sizes(first, areas, mechanism=tt.sizes.Joint())
    with pytest.warns(UserWarning, match="For comparison only"):
        back = tt.reconcile_group_sizes(other, areas, mechanism=mechanism)
    for level in first.levels:
        assert again.table(level).equals(first.table(level))
        assert back.table(level).equals(first.table(level))
    for release in (again, back):
        assert [note.endswith("For comparison only.") for note in release.statement["notes"]].count(True) == 1
        for key in ("constraint_violations", "negative_numbers", "fractional_numbers", "public_groups_kept"):
            assert release.statement[key] == first.statement[key]
    assert not any("comparison" in note for note in other.statement["notes"])
    assert other.statement["negative_numbers"] == other.statement["fractional_numbers"] == 0


def test_leaves_alone_are_made_again_from_every_level_but_no_other_level_from_the_leaves(areas):
    bottom_up = released(areas, mechanism=tt.sizes.BottomUp())
    with pytest.raises(ValueError, match=r"wants 'tail_counts' measured at 'all', .* choose BottomUp\(\), with the"):
        tt.reconcile_group_sizes(bottom_up, areas, mechanism=tt.sizes.Joint())
    again = tt.reconcile_group_sizes(released(areas), areas, mechanism=tt.sizes.BottomUp(norm=2))
    assert again.statement["constraint_violations"] == 0
    assert again.statement["mechanism"]["name"] == "BottomUp"
