"""`audit` and its result; and every mechanism of the library, which must pass."""

import dataclasses
import math

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import (
    CountsArguments,
    KeyedNoise,
    Measurer,
    SizesArguments,
    TrueCounts,
    TrueSizes,
    plan_counts,
    plan_group_sizes,
)
from tallytree.counts import CountsMechanism
from tallytree.lab.audit import audit
from tallytree.lab.audit.library import library_cases, library_mechanisms
from tallytree.lab.audit.runs import ReplayMeasurer, draw_runs
from tallytree.sizes import SizesDomain, SizesMechanism
from tallytree.tables import TablesMechanism

AREAS = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "B"], "c": ["x", "y", "x"]}), ["s", "c"])
DOMAIN = SizesDomain.from_leaves(AREAS, np.array([2, 0, 1]), 0, 3)
PURE = tt.Budget(epsilon=1)
KEY = bytes(range(32))
CASES = library_cases()
SIZES_CASES = [case for case in CASES if case.statistic == "group_sizes"]
RELATIONS = ("add_remove", "change_one")


def counts(data=(3, 1, 0), neighbor=(3, 1, 1), budget=PURE, **changes):
    arguments = {"neighboring": "add_remove", "runs": 1_000, "releases": 200, "seed": 1} | changes
    mechanism = arguments.pop("mechanism", tt.counts.TopDown())
    return audit(mechanism, arguments.pop("tree", AREAS), data, neighbor, budget, **arguments)


FOR_COMPARISON = (
    tt.counts.LeafGaussian, tt.sizes.BottomUp, tt.sizes.CensusTopDown, tt.sizes.CumulativeProjection,
    tt.sizes.HistogramProjection, tt.sizes.Independent, tt.sizes.MeanConsistency,
)  # fmt: skip
"""The papers' mechanisms, which nothing takes by default: all their audits are slow, and few make whole releases."""


def one_of_each():
    """Every case; all but the first of each mechanism are slow, and one in three of these makes whole releases."""
    seen, made = {*FOR_COMPARISON}, []
    for number, case in enumerate(CASES):
        name = f"{case.name} {case.neighboring} m={case.max_contributions} {case.budget.kind}"
        kind = type(case.mechanism)
        releases = 0 if kind in seen and number % (9 if kind in FOR_COMPARISON else 3) else 100
        made.append(pytest.param(case, releases, id=name, marks=[pytest.mark.slow] if kind in seen else []))
        seen.add(kind)
    return made


FOUND = {}
"""What was found in measurements, by all that they follow from."""


def measured(case):
    """The audit without releases. What is measured follows from the plan and the tree, and not from the mechanism."""
    terms = case.neighboring, case.max_contributions, case.max_quantity, case.distinct, case.maximum_share
    inputs = case.statistic, case.tree, case.invariants, case.groups_per_leaf, case.tables, case.public_totals
    key = repr((case.plan()[0].plan, terms, inputs))
    if key not in FOUND:
        FOUND[key] = case.run(runs=4_000, releases=0, seed=7)
    return FOUND[key]


@pytest.mark.parametrize(("case", "releases"), one_of_each())
def test_every_mechanism_of_the_library_passes(case, releases):
    """4,000 runs would show a loss of 3 where 1 is stated; `tallytree audit` takes 50,000."""
    result = case.run(runs=4_000, releases=releases, seed=7) if releases else measured(case)
    assert result.passed, str(result)
    if isinstance(case.mechanism, tt.counts.StabilityHistogram):
        step = math.exp(1 / (case.max_contributions * (1 + (case.neighboring == "change_one"))))  # of t, in delta
        assert result.delta / step**2 <= result.exact_delta <= result.delta
        assert (result.exact_epsilon, result.rho_stated, result.exact_rho) == (None, None, None)
    elif case.budget.kind == "pure":
        assert result.epsilon_lower <= result.exact_epsilon <= 1
        if (case.max_contributions, case.max_quantity, case.invariants) == (1, 1, "groups"):
            assert result.exact_epsilon == 1  # the inputs attain the sensitivities
    else:
        assert result.rho_lower <= result.exact_rho <= result.rho_stated
        assert result.exact_delta <= result.delta


def test_no_mechanism_of_the_library_is_left_out():
    offered = [getattr(package, name) for package in (tt.counts, tt.sizes, tt.tables) for name in package.__all__]
    mechanisms = {
        kind.__name__
        for kind in offered
        if dataclasses.is_dataclass(kind) and issubclass(kind, CountsMechanism | SizesMechanism | TablesMechanism)
    }
    assert mechanisms == set(library_mechanisms())
    assert {type(case.mechanism).__name__ for case in CASES} == mechanisms
    for name in mechanisms:
        own = [case for case in CASES if type(case.mechanism).__name__ == name]
        assert {case.neighboring for case in own} == set(RELATIONS)
        kinds = {"approximate"} if name == "StabilityHistogram" else {"pure", "zcdp"}
        assert kinds <= {case.budget.kind for case in own}


def test_every_solver_that_needs_nothing_installed_is_audited_and_no_calibration_that_is_wrong():
    solvers = {
        (type(case.mechanism).__name__, case.mechanism.solver) for case in CASES if hasattr(case.mechanism, "solver")
    }
    assert solvers == {
        ("HistogramProjection", "exact"),
        ("HistogramProjection", "cost_table"),
        ("CumulativeProjection", "two_step"),
    }
    assert {case.mechanism for case in CASES if isinstance(case.mechanism, tt.sizes.Chain)} == {tt.sizes.Chain()}


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_entry_of_the_table_of_sensitivities_is_enumerated(relation):
    audited = {
        (statistic, case.max_contributions, case.max_quantity, case.budget.kind)
        for case in SIZES_CASES
        if case.neighboring == relation
        for statistic in case.mechanism.statistics(case.tree.hierarchy, invariants=case.invariants).values()
    }
    for statistic in ("histogram", "tail_counts", "chain_tail_counts", "sorted_sizes"):
        for m, z in ((1, 1), (3, 1), (1, 2)):
            assert {(statistic, m, z, "pure"), (statistic, m, z, "zcdp")} <= audited
        assert (statistic, 1, 1, "approximate") in audited
    counted = {(case.statistic, case.max_contributions) for case in CASES if case.neighboring == relation}
    assert {("counts", 1), ("counts", 3), ("flows", 1), ("tables", 1), ("tables", 3)} <= counted


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_mechanism_is_audited_in_every_regime_that_it_does_not_refuse(relation):
    own = [case for case in SIZES_CASES if case.neighboring == relation]
    for mechanism in {repr(case.mechanism): case.mechanism for case in own}.values():
        for regime in ("groups", "total", "none"):
            audited = any((repr(case.mechanism), case.invariants) == (repr(mechanism), regime) for case in own)
            try:
                mechanism.statistics(own[0].tree.hierarchy, invariants=regime)
            except ValueError:
                assert not audited
            else:
                assert audited


def test_only_sorted_sizes_and_the_solvers_of_the_papers_refuse_a_regime():
    refused = {
        case.name.removeprefix("group_sizes ").split(" ")[0]: {"groups", "total", "none"}
        - {other.invariants for other in SIZES_CASES if other.mechanism == case.mechanism}
        for case in SIZES_CASES
    }
    assert {name: regimes for name, regimes in refused.items() if regimes} == {
        "Matching(estimator=sorted)": {"total", "none"},
        "Matching(estimator=mixed)": {"total", "none"},
        "HistogramProjection(solver=cost_table)": {"groups"},
    }


def test_the_name_of_a_case_has_what_differs_from_the_defaults():
    names = {case.name for case in CASES}
    assert {
        "counts TopDown()",
        "group_sizes Chain() invariants=total",
        "group_sizes Matching(estimator=sorted) max_quantity=2",
        "group_sizes CumulativeProjection() invariants=none max_quantity=2",
        "group_sizes HistogramProjection(solver=cost_table) invariants=total",
    } <= names


def test_a_tight_mechanism_is_shown_to_lose_most_of_what_it_states():
    result = counts(runs=50_000)
    assert result.exact_epsilon == 1
    assert 0.8 < result.epsilon_lower <= 1


def test_an_approximate_budget_is_used_up_by_the_planned_noise():
    # The distribution of the privacy loss, enumerated here, agrees with the accounting by dp-accounting.
    result = counts(budget=tt.Budget(epsilon=1, delta=1e-6), accounting="pld")
    assert 0.95e-6 < result.exact_delta <= 1e-6


def test_a_seed_makes_an_audit_reproducible():
    assert counts() == counts()
    assert counts() != counts(seed=2)
    assert counts(seed=None).passed


@pytest.mark.slow
def test_group_sizes_and_flows_are_audited():
    grown = audit(
        tt.sizes.Matching(),
        DOMAIN,
        [[1, 2], [], [3]],
        [[1, 3], [], [3]],
        PURE,
        neighboring="add_remove",
        runs=500,
        seed=1,
    )
    assert grown.passed
    assert grown.exact_epsilon == 1
    product = tt.Product({"origin": AREAS, "destination": AREAS}, order=["destination", "origin"] * 2)
    trips = np.ones(9, dtype=int)
    moved = trips + np.eye(9, dtype=int)[8] - np.eye(9, dtype=int)[0]
    flows = counts(trips, moved, tree=product, neighboring="change_one")
    assert flows.passed
    assert flows.exact_epsilon == 1


def sizes(data, neighbor, invariants="none", groups=(2, 0, 1), budget=PURE, **changes):
    domain = SizesDomain.from_leaves(AREAS, np.array(groups), 0 if invariants == "groups" else 1, 4, invariants)
    arguments = {"neighboring": "add_remove", "runs": 500, "releases": 100, "seed": 1} | changes
    return audit(arguments.pop("mechanism", tt.sizes.Matching()), domain, data, neighbor, budget, **arguments)


@pytest.mark.parametrize("mechanism", [tt.sizes.Matching(), tt.sizes.CensusTopDown(), tt.sizes.Chain()], ids=repr)
def test_a_group_that_appears_is_audited_where_the_number_of_groups_is_private(mechanism):
    result = sizes([[1, 0], [], [3]], [[1, 1], [], [3]], mechanism=mechanism)
    assert result.passed
    assert 0.5 <= result.exact_epsilon <= 1
    changed = {"groups": (1, 0, 1), "neighboring": "change_one", "mechanism": mechanism}
    moved = sizes([[1, 0], [], [3]], [[0, 1], [], [3]], "total", **changed)
    assert moved.passed
    assert moved.exact_epsilon == 0  # one group of a leaf ends and another begins: the sizes are the same


def test_a_quantity_is_audited_with_the_noise_that_it_needs():
    for invariants in ("groups", "total", "none"):
        result = sizes([[1, 2], [], [3]], [[1, 4], [], [3]], invariants, max_quantity=2)
        assert result.passed
        assert result.exact_epsilon == 1
    assert sizes([[1, 2], [], [3]], [[1, 3], [], [3]], max_quantity=2).exact_epsilon == 0.5


@pytest.mark.parametrize(
    ("data", "neighbor", "changes", "error", "message"),
    [
        ([[1, 0], [], [3]], [[1], [], [3]], {}, ValueError, "neighbor: leaf 0 has 1 sizes, but 2 groups; a group that"),
        ([[1, 0], []], [[1, 1], []], {}, ValueError, "data: it lists 2 leaves, but the hierarchy has 3"),
        (7, 7, {}, TypeError, "data: 7 must be a list with the list of group sizes of every leaf"),
        ([[], [], []], [[], [], []], {}, ValueError, "tree: 0 groups are not between 1 and 10,000"),
        (
            [[1, 2], [], [3]],
            [[1, 2], [], [0]],
            {},
            ValueError,
            "neighbor: it has 0 records more and 3 fewer than data, but one person has at most max_contributions=1",
        ),
        (
            [[1, 2], [], [3]],
            [[0, 2], [], [3]],
            {"invariants": "total"},
            ValueError,
            "neighbor: it has 2 groups with members, but the tree says that there are 3, and publishes it",
        ),
        (
            [[1, 0], [], [3]],
            [[2, 0], [], [3]],
            {"invariants": "total"},
            ValueError,
            "data: it has 2 groups with members, but the tree says that there are 3",
        ),
        (
            [[1, 2], [], [3]],
            [[1, 2], [], [6]],
            {"max_quantity": 2},
            ValueError,
            "which takes 2 records of at most max_quantity=2, but one person has at most max_contributions=1",
        ),
        ([[1, 0], [], [3]], [[1, 1], [], [3]], {"max_quantity": 0}, ValueError, "max_quantity: 0 must be at least 1"),
        (
            [[1, 0], [], [3]],
            [[1, 1], [], [3]],
            {"max_quantity": 1.5},
            TypeError,
            "max_quantity: 1.5 must be an integer",
        ),
        (
            [[1, 0], [], [3]],
            [[1, 1], [], [3]],
            {"mechanism": tt.sizes.Matching("sorted")},
            ValueError,
            "estimator: 'sorted' at .* needs the public number of groups",
        ),
    ],
)
def test_sizes_that_are_wrong_are_refused(data, neighbor, changes, error, message):
    with pytest.raises(error, match=message):
        sizes(data, neighbor, **changes)


@pytest.mark.parametrize("distinct", [True, "yes"])
def test_distinct_people_are_of_counts_alone(distinct):
    with pytest.raises(ValueError, match=f"distinct: {distinct!r} is about counts; leave it out for group sizes"):
        sizes([[1, 2], [3], []], [[1, 2], [2], []], distinct=distinct)


def test_without_a_mechanism_the_default_is_audited():
    assert audit(
        None, AREAS, [3, 1, 0], [3, 2, 0], PURE, neighboring="add_remove", runs=200, releases=100, seed=1
    ).passed


def test_noise_of_opendp_can_be_audited():
    pytest.importorskip("opendp")
    assert counts(noise="opendp", runs=500).passed


def test_what_is_never_measured_shows_nothing():
    one = tt.Hierarchy.from_table(pa.table({"town": ["x"]}), ["town"])
    result = audit(
        tt.sizes.Matching(),
        SizesDomain.from_leaves(AREAS, np.array([1, 0, 0]), 0, 3),
        [[1], [], []],
        [[2], [], []],
        PURE,
        neighboring="add_remove",
        runs=200,
        releases=0,
        seed=1,
    )
    assert result.releases == 0
    alone = audit(tt.counts.TopDown(), one, [3], [4], PURE, neighboring="add_remove", runs=200, seed=1)
    assert alone.passed


def test_the_result_says_what_it_rests_on():
    text = str(counts(budget=tt.Budget(epsilon=1, delta=1e-6)))
    assert text.startswith(
        "TopDown(projection='chebyshev', sparsity=0.0), add_remove: passed\n  ε: stated 1, at least "
    )
    for part in (
        "δ: stated 1e-06, exactly ",
        "ρ: stated 0.0",
        "confidence 0.9999, 1,000 runs, 200 releases",
        "best event: ",
    ):
        assert part in text
    assert "ρ" not in str(counts())


# --- The measurer of an audit is to a mechanism what the library's is ---


class Recorded:
    """A source that repeats one run of a batch."""

    def __init__(self, levels, run):
        self.levels, self.run = levels, run

    def draw(self, noise, address, cells):
        drawn = self.levels[address[0]]
        return (drawn.noisy[self.run] - drawn.true)[cells]


def test_a_replayed_run_gives_the_release_that_a_measurer_gives():
    job = plan_counts(CountsArguments(None, AREAS, PURE, neighboring="add_remove"))
    true = TrueCounts(AREAS, np.array([0, 2]), np.array([3, 1]))
    levels = draw_runs(true, job.plan, KeyedNoise(KEY), 20)
    for run in range(20):
        replayed = job.mechanism.reconcile(AREAS, None, ReplayMeasurer(levels, run))
        measured = job.mechanism.reconcile(AREAS, None, Measurer(true, job.plan, Recorded(levels, run)))
        for one, other in zip(replayed, measured, strict=True):
            assert one.counts.tolist() == other.counts.tolist()
    given = {"mechanism": tt.sizes.Matching("sorted"), "size": "n", "groups": "g", "max_group_size": 3}
    sizes_job = plan_group_sizes(SizesArguments(None, AREAS, PURE, neighboring="add_remove", **given))
    sizes = TrueSizes(AREAS, np.array([0, 2]), np.array([1, 3]), np.array([2, 1]), DOMAIN.groups, 0, 3)
    levels = draw_runs(sizes, sizes_job.plan, KeyedNoise(KEY), 20)
    for run in range(20):
        replayed = sizes_job.mechanism.reconcile(DOMAIN, ReplayMeasurer(levels, run))
        measured = sizes_job.mechanism.reconcile(DOMAIN, Measurer(sizes, sizes_job.plan, Recorded(levels, run)))
        for one, other in zip(replayed, measured, strict=True):
            assert (one.sizes.tolist(), one.groups.tolist()) == (other.sizes.tolist(), other.groups.tolist())
    for door in (ReplayMeasurer(levels, 3), Measurer(sizes, sizes_job.plan, Recorded(levels, 3))):
        whole = door.measure("c", np.array([0]), "sorted_sizes").values
        parts = [door.measure("c", np.array([0]), "sorted_sizes", cells) for cells in ((0, 1), (1, 2))]
        assert [part.values.tolist() for part in parts] == [[value] for value in whole.tolist()]
        assert [part.first_cell for part in parts] == [0, 1]


def test_every_run_has_noise_of_its_own():
    job = plan_counts(CountsArguments(None, AREAS, tt.Budget(epsilon=0.001), neighboring="add_remove"))
    levels = draw_runs(TrueCounts(AREAS, np.array([0]), np.array([1])), job.plan, KeyedNoise(KEY), 50)
    rows = np.concatenate([drawn.noisy for drawn in levels.values()], axis=1)
    assert rows.shape == (50, 6)
    assert len(np.unique(rows)) > 290  # of 300 draws at scale 3,000; equal ones by chance are rare


def test_only_what_was_planned_is_measured():
    job = plan_counts(CountsArguments(None, AREAS, PURE, neighboring="add_remove"))
    levels = draw_runs(TrueCounts(AREAS, np.array([0]), np.array([1])), job.plan, KeyedNoise(KEY), 1)
    for level, statistic in (("s", "histogram"), ("elsewhere", "counts")):
        with pytest.raises(tt.BudgetExceeded, match="is not in the plan"):
            ReplayMeasurer(levels, 0).measure(level, np.array([0]), statistic)


# --- What a caller gets wrong ---


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"runs": 10}, ValueError, "runs: 10 must be at least 100"),
        ({"runs": 1e3}, TypeError, "runs: 1000.0 must be an integer"),
        ({"releases": 10}, ValueError, "releases: 10 must be 0, or at least 100"),
        ({"releases": -1}, ValueError, "releases: -1 must be at least 0"),
        ({"confidence": 1}, ValueError, "confidence: 1 must lie strictly between 0 and 1"),
        ({"confidence": "high"}, TypeError, "confidence: str must be a number"),
        ({"neighboring": "both"}, ValueError, "neighboring: 'both' is not known"),
        ({"noise": "none"}, ValueError, "noise: 'none' is not known"),
        ({"budget": 1.0}, TypeError, "budget: 1.0 must be a tallytree.Budget"),
        ({"accounting": "zcdp"}, ValueError, "accounting: 'zcdp'"),
        ({"tree": "areas"}, TypeError, "tree: str must be a tallytree.Hierarchy or Product for counts"),
        ({"mechanism": tt.sizes.Matching()}, TypeError, "mechanism: Matching.* must be one of tallytree.counts"),
        ({"tree": DOMAIN}, TypeError, "mechanism: TopDown.* must be one of tallytree.sizes"),
        ({"neighbor": (3, 1, 0)}, ValueError, "neighbor: it equals data"),
        ({"neighbor": (3, 1)}, ValueError, "neighbor: 2 counts were given, but the tree has 3 leaves"),
        ({"neighbor": (3, 1, 3)}, ValueError, "one person has at most max_contributions=1"),
        (
            {"max_quantity": 2},
            ValueError,
            "max_quantity: 2 is about group sizes; in counts every record is 1, leave it",
        ),
        ({"max_quantity": "2"}, TypeError, "max_quantity: str must be an integer"),
    ],
)
def test_arguments_that_are_wrong_are_refused(changes, error, message):
    with pytest.raises(error, match=message):
        counts(**changes)


def test_an_unknown_mechanism_of_the_library_is_refused():
    with pytest.raises(ValueError, match="mechanism: 'Magic' is not known; choose one of LeafGaussian, "):
        library_cases(mechanism="Magic")
    with pytest.raises(ValueError, match="epsilon: 0 must be greater than 0"):
        library_cases(epsilon=0)
