"""The audit of a private K: what passes, that K differs from run to run, and the faults that must be caught.

Every audit here is at confidence 0.9999 with a fixed seed, so the outcome is the same in every run.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import Asked, KeyedNoise, Sensitivity, level_sensitivities, plan_noise, sensitivity
from tallytree.lab.audit import Subject, audit, audit_subject
from tallytree.lab.audit.audited import Audited
from tallytree.lab.audit.library import library_cases
from tallytree.lab.audit.maximum import draw_within_maximum, measured_within_maximum
from tallytree.lab.audit.views import Publisher, publisher
from tallytree.sizes import SizesDomain
from tallytree.sizes.private_maximum import largest_published

AREAS = tt.Hierarchy.from_table(pa.table({"c": ["x", "y"]}), ["c"])
PURE, ZCDP = tt.Budget(epsilon=1), tt.Budget(rho=Fraction(1, 2))
HALF = Fraction(1, 2)
PLACES = np.array([2, 1])
PUBLIC = SizesDomain.from_leaves(AREAS, PLACES, 0, 12)
PRIVATE = SizesDomain.from_leaves(AREAS, PLACES, 1, 12, "none")
GREW = [[1, 3], [2]], [[1, 4], [2]]
"""The largest group is one larger."""
KEY = bytes(range(32))
FEW = 200
"""Releases of what must pass; `tallytree audit` looks at 2,000."""


def subject(pair=GREW, domain=PUBLIC, budget=PURE, plan=None, share=HALF, **options):
    """`Matching` on two inputs, as the library plans it with a private K, or with another plan."""
    given = {"neighboring": "add_remove", "mechanism": tt.sizes.Matching(), "maximum_share": share} | options
    job, inputs = Audited(tree=domain, budget=budget, groups_per_leaf=PLACES, **given).plan()
    statistics = [inputs.tabulate(inputs.parse(sizes, "data")) for sizes in pair]
    return Subject("Matching()", "add_remove", plan or job.plan, *statistics, publisher(job, domain, None))


def forged(levels_budget, maximum_bound, share, m=1, levels=("all", "c")):
    """A plan of tail counts under ε = 1 with noise for another bound of the largest size."""
    bounds = level_sensitivities(
        dict.fromkeys(levels, "tail_counts"), "add_remove", m, max_quantity=1, nodes=dict.fromkeys(levels, 1)
    )
    maximum = Asked("all", "largest_size", maximum_bound, share)
    return plan_noise(levels_budget, bounds, beside=[maximum])


@pytest.mark.slow
@pytest.mark.parametrize("domain", [PUBLIC, PRIVATE], ids=["groups", "none"])
@pytest.mark.parametrize("budget", [PURE, ZCDP, tt.Budget(epsilon=1, delta=1e-6)], ids=lambda budget: budget.kind)
def test_a_private_maximum_passes_and_uses_all_that_it_states(domain, budget):
    result = audit(
        tt.sizes.Matching(), domain, *GREW, budget, neighboring="add_remove", maximum_share=HALF, runs=20_000,
        releases=FEW, seed=1,
    )  # fmt: skip
    assert result.passed, str(result)
    if budget.kind == "pure":
        assert result.exact_epsilon == 1
        assert 0.5 < result.epsilon_lower <= 1
    else:
        assert 0.999 * result.rho_stated < result.exact_rho <= result.rho_stated
    if budget.kind == "approximate":
        assert 0.95e-6 < result.exact_delta <= 1e-6


@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=lambda budget: budget.kind)
@pytest.mark.parametrize("statistic", ["cumulative", "sorted", "naive"])
def test_k_differs_from_run_to_run_and_so_does_what_is_measured(statistic, budget):
    """In the view of all that was measured, a run's cells are those under its own K; the others are 0."""
    case = subject(budget=tt.Budget(epsilon=3) if budget is PURE else budget, mechanism=tt.sizes.Matching(statistic))
    drawn = draw_within_maximum(case.before, case.plan, KeyedNoise(KEY), 3_000)
    noise = case.plan.maximum.noise
    assert drawn.largest.tolist() == largest_published(drawn.noisy, noise, 0, 12).tolist()
    assert len(drawn.within) > 5
    view = measured_within_maximum(drawn, drawn, case.plan)
    assert view.before[:, 0].tolist() == drawn.noisy.tolist()
    for run in range(0, 3_000, 100):
        levels = drawn.within[int(drawn.largest[run])]
        measured = np.concatenate([level.noisy[drawn.place[run]] for level in levels.values()])
        assert sorted(view.before[run, 1:][view.before[run, 1:] != 0]) == sorted(measured[measured != 0])
    assert not any(score.of(view.before).any() for score in view.scores)  # a data set and itself


def test_the_score_is_the_log_likelihood_ratio_of_the_maximum_and_of_the_levels_under_its_k():
    case = subject(budget=tt.Budget(epsilon=3))
    drawn = [draw_within_maximum(side, case.plan, KeyedNoise(KEY), 500) for side in (case.before, case.after)]
    view = measured_within_maximum(*drawn, case.plan)
    ratios = view.scores[0].of(view.before)
    for run in range(0, 500, 25):
        largest = int(drawn[0].largest[run])
        ratio = (abs(drawn[0].noisy[run] - 4) - abs(drawn[0].noisy[run] - 3)) / case.plan.maximum.noise.scale
        for level, runs in drawn[0].within[largest].items():
            nodes = np.arange(len(runs.offsets) - 1)
            other = case.after.clamped(largest).cells(level, nodes, "tail_counts")[0]
            noisy = runs.noisy[drawn[0].place[run]]
            ratio += (np.abs(noisy - other) - np.abs(noisy - runs.true)).sum() / runs.planned.noise.scale
        assert ratios[run] == pytest.approx(float(ratio), abs=1e-6)


def test_the_library_audits_a_private_maximum_of_everything_that_is_measured():
    own = [case for case in library_cases() if case.maximum_share is not None]
    for relation in ("add_remove", "change_one"):
        audited = {
            (statistic, case.max_contributions, case.max_quantity, case.budget.kind)
            for case in own
            if case.neighboring == relation
            for statistic in case.mechanism.statistics(case.tree.hierarchy, invariants=case.invariants).values()
        }
        for statistic in ("histogram", "tail_counts", "chain_tail_counts", "sorted_sizes"):
            assert {(statistic, 1, 1, "pure"), (statistic, 3, 1, "zcdp"), (statistic, 1, 2, "pure")} <= audited
    assert {case.invariants for case in own} == {"groups", "none"}
    assert any(case.name == "group_sizes Chain() max_group_size=private" for case in own)


def test_counts_have_no_largest_size():
    with pytest.raises(ValueError, match=r"maximum_share: 0\.5 .*counts have no K, leave it out"):
        audit(tt.counts.TopDown(), AREAS, [1, 2], [1, 3], PURE, neighboring="add_remove", maximum_share=0.5, runs=100)


# --- Faults ---


@pytest.mark.slow
def test_a_maximum_that_is_not_charged_is_caught():
    """The levels spend ε = 1 and the maximum as much again: true loss 2, stated 1; more than 1.3 is shown."""
    uncharged = forged(tt.Budget(epsilon=2), sensitivity("largest_size", "add_remove"), HALF)
    object.__setattr__(uncharged, "budget", PURE)
    result = audit_subject(subject(plan=uncharged), releases=0, seed=1)
    assert not result.passed
    assert result.epsilon_stated == 1
    assert result.exact_epsilon == 2
    assert 1.3 < result.epsilon_lower <= 2
    assert audit_subject(subject(), releases=FEW, seed=1).passed


@pytest.mark.slow
def test_noise_for_one_record_under_three_is_caught():
    """Three members join the largest group: true loss 3/2 + 1/2 = 2, stated 1; more than 1.2 is shown."""
    three = [[1, 3], [2]], [[1, 6], [2]]
    result = audit_subject(subject(three, plan=forged(PURE, Sensitivity(1, 1), HALF, m=3)), releases=0, seed=1)
    assert not result.passed
    assert result.exact_epsilon == 2
    assert 1.2 < result.epsilon_lower <= 2
    right = audit_subject(subject(three, max_contributions=3), releases=FEW, seed=1)
    assert right.passed
    assert right.exact_epsilon == 1


@pytest.mark.slow
def test_noise_that_the_levels_share_with_the_maximum_is_caught():
    """All levels' shares are a third; a source that forgets what is measured gives them one noise. Loss ∞, power 1."""

    class WithOneSeed:
        def __init__(self, key):
            self._source = KeyedNoise(key)

        def draw(self, noise, address, cells):
            return self._source.draw(noise, (), cells)

    shared = subject(share=Fraction(1, 3))
    result = audit_subject(shared, source=WithOneSeed, runs=20_000, releases=0, seed=1)
    assert not result.passed
    assert result.epsilon_lower > 4
    assert audit_subject(shared, runs=20_000, releases=FEW, seed=1).passed


@pytest.mark.slow
def test_a_k_that_follows_from_the_true_maximum_is_caught():
    """The measurements are right; the releases end at a K that no noise has touched. Power 1."""
    right = subject()
    largest = iter([3 + 1] * 500 + [4 + 1] * 500)

    def within(k):
        publish = right.publisher.within(k).publish

        def with_true_maximum(measurer):
            return np.append(publish(measurer), next(largest))

        return Publisher([*right.publisher.labels, "K"], with_true_maximum)

    wrong = replace(right, publisher=Publisher([*right.publisher.labels, "K"], right.publisher.publish, within))
    result = audit_subject(wrong, runs=2_000, releases=500, seed=1)
    assert not result.passed
    assert result.event.startswith("released K ")
    assert audit_subject(right, runs=2_000, releases=FEW, seed=1).passed


def test_a_publisher_that_knows_no_measured_k_is_refused():
    right = subject()
    with pytest.raises(TypeError, match="publisher: it has no part for a K that is measured"):
        audit_subject(replace(right, publisher=Publisher([], right.publisher.publish)), runs=200, releases=100, seed=1)


def test_statistics_without_a_largest_size_are_refused():
    right = subject()
    counts = tt.counts.TopDown()
    _, inputs = Audited(tree=AREAS, budget=PURE, neighboring="add_remove", mechanism=counts).plan()
    with pytest.raises(TypeError, match="plan: a TrueCounts goes with no plan that measures the largest size"):
        audit_subject(replace(right, before=inputs.tabulate(np.array([1, 2]))), runs=200, releases=0)
