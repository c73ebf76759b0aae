"""Faults that an audit must catch, each beside the right version, which must pass.

Every audit here is at confidence 0.9999 with a fixed seed, so the outcome is the same in every run. How far each fault
is from passing is in its test: the true loss, and the lower bound that is asked for.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import KeyedNoise, Sensitivity, plan_noise
from tallytree.lab.audit import Subject, audit, audit_subject, clopper_pearson, exact_loss
from tallytree.lab.audit.audited import Audited
from tallytree.lab.audit.confidence_bounds import epsilon_at_least
from tallytree.lab.audit.events import AuditedView, best_events
from tallytree.lab.audit.runs import ReplayMeasurer, draw_runs
from tallytree.lab.audit.views import Publisher, publisher
from tallytree.mechanisms import Noise
from tallytree.sizes import SizesDomain

AREAS = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "A", "B"], "c": ["w", "x", "y", "z"]}), ["s", "c"])
KEY = bytes(range(32))
FEW = 200
"""Releases of what must pass: a fault of noise is in the measurements. `tallytree audit` looks at 2,000."""
PURE, ZCDP = tt.Budget(epsilon=1), tt.Budget(rho=Fraction(1, 2))
APPROXIMATE = tt.Budget(epsilon=1, delta=1e-6)
BEFORE, AFTER = [3, 1, 2, 2], [3, 1, 3, 2]
"""A record more in the county (A, y)."""


class WithHalfTheScale:
    """A source that draws noise of half the scale that is asked for."""

    def __init__(self, key):
        self._source = KeyedNoise(key)

    def draw(self, noise, address, cells):
        return self._source.draw(Noise(noise.distribution, noise.scale / 2), address, cells)


class WithOneSeedForTwoNodes:
    """A source that gives the nodes 0 and 1, 2 and 3, … of a level the same noise."""

    def __init__(self, key):
        self._source = KeyedNoise(key)

    def draw(self, noise, address, cells):
        distinct, places = np.unique(cells >> 1, return_inverse=True)
        return self._source.draw(noise, address, distinct)[places]


class WithOneSeedForAllLevels:
    """A source that forgets the level: node i of every level gets the same noise."""

    def __init__(self, key):
        self._source = KeyedNoise(key)

    def draw(self, noise, address, cells):
        return self._source.draw(noise, (), cells)


def counts_subject(budget, neighboring="add_remove", before=BEFORE, after=AFTER, m=1, plan=None, tree=AREAS):
    """`TopDown` on two inputs, as the library plans it, or with another plan."""
    terms = {"neighboring": neighboring, "max_contributions": m}
    job, inputs = Audited(tree=tree, budget=budget, mechanism=tt.counts.LeastSquares(), **terms).plan()
    total = sum(before) if job.arguments.total_is_public else None
    statistics = [inputs.tabulate(np.array(records)) for records in (before, after)]
    return Subject("TopDown()", neighboring, plan or job.plan, *statistics, publisher(job, tree, total))


# --- Half the noise ---


@pytest.mark.slow
def test_half_the_scale_of_laplace_noise_is_caught():
    """True loss 2, stated 1; more than 1.5 is shown, so the power at 50,000 runs is practically 1."""
    result = audit_subject(counts_subject(PURE), source=WithHalfTheScale, releases=0, seed=1)
    assert not result.passed
    assert 1.5 < result.epsilon_lower <= 2
    assert result.exact_epsilon == 1  # the plan is right; only running it shows the fault
    assert audit_subject(counts_subject(PURE), releases=FEW, seed=1).passed


@pytest.mark.slow
@pytest.mark.parametrize("budget", [ZCDP, APPROXIMATE], ids=["zcdp", "approximate"])
def test_half_the_scale_of_gaussian_noise_is_caught_by_rho(budget):
    """True loss four times the ρ that the plan states, of which 60 % can be seen; more than 1.2 times is shown."""
    result = audit_subject(counts_subject(budget), source=WithHalfTheScale, runs=100_000, releases=0, seed=1)
    assert not result.passed
    assert 1.2 * result.rho_stated < result.rho_lower <= 4 * result.rho_stated
    assert audit_subject(counts_subject(budget), runs=100_000, releases=FEW, seed=1).passed


@pytest.mark.slow
def test_half_the_scale_shows_in_the_releases_alone():
    """True loss 4, stated 2; the released tables by themselves, 3,000 of each input, show more than 2.

    The best events have probabilities of about 0.6 and 0.015. The bound exceeds 2 unless the latter is seen three times
    as often as expected: power above 0.999. Counts are large, as zeros, below which nothing is released, show less.
    """
    towns = tt.Hierarchy.from_table(pa.table({"t": ["x", "y"]}), ["t"])
    subject = counts_subject(tt.Budget(epsilon=2), before=[30, 10], after=[30, 11], tree=towns)
    released = []
    for statistics, key in ((subject.before, KEY), (subject.after, KEY[::-1])):
        levels = draw_runs(statistics, subject.plan, WithHalfTheScale(key), 3_000)
        released.append(np.stack([subject.publisher.publish(ReplayMeasurer(levels, run)) for run in range(3_000)]))
    chosen_on, counted_on = AuditedView(released[0], released[1], subject.publisher.labels).split()
    event = best_events(chosen_on, {"ε": lambda p, q: epsilon_at_least(p, q, 0.0)})["ε"]
    more, fewer = event.counts(counted_on)
    low, high = clopper_pearson(more, 2_250, 5e-5)[0], clopper_pearson(fewer, 2_250, 5e-5)[1]
    assert epsilon_at_least(low, high, 0.0) > 2


# --- Noise that is used twice ---


@pytest.mark.slow
@pytest.mark.parametrize(
    "budget",
    [PURE, pytest.param(ZCDP, marks=pytest.mark.slow), pytest.param(APPROXIMATE, marks=pytest.mark.slow)],
    ids=["pure", "zcdp", "approximate"],
)
def test_a_seed_reused_in_two_nodes_is_caught(budget):
    """The true loss is infinite: the differences of A and B, and of (A, y) and (B, z), have no noise. Power 1."""
    result = audit_subject(counts_subject(budget), source=WithOneSeedForTwoNodes, runs=20_000, releases=0, seed=1)
    assert not result.passed
    assert result.epsilon_lower > 6
    assert "s[0] − s[1]" in result.event or "c[2] − c[3]" in result.event or "discriminant" in result.event


@pytest.mark.slow
@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=["pure", "zcdp"])
def test_a_seed_reused_in_two_levels_is_caught(budget):
    """The true loss is infinite: the state A has the noise of the county (A, w), whose count stays. Power 1."""
    result = audit_subject(counts_subject(budget), source=WithOneSeedForAllLevels, runs=20_000, releases=0, seed=1)
    assert not result.passed
    assert result.epsilon_lower > 6


# --- inf-tda's swapped sensitivity ---


def swapped_plan(m, right):
    """√(2m), which holds for distinct leaves, used at the inner level too, where √2·m is right."""
    bound = {"total": Sensitivity(m, m * m), "counts": Sensitivity(2 * m, 2 * m * m if right else 2 * m)}
    statistics = {"all": "total", "s": "counts", "c": "counts"}
    return plan_noise(ZCDP, {level: (statistic, bound[statistic]) for level, statistic in statistics.items()})


@pytest.mark.slow
def test_the_swapped_sensitivity_of_inf_tda_is_caught():
    """m = 4 records move to another state: true loss 8/3 of the stated ρ, of which 60 % can be seen."""
    before, after = [4, 1, 1, 1], [0, 1, 1, 5]
    wrong = counts_subject(ZCDP, "change_one", before, after, m=4, plan=swapped_plan(4, right=False))
    result = audit_subject(wrong, runs=100_000, releases=0, seed=1)
    assert not result.passed
    assert result.rho_lower > 1.2 * result.rho_stated
    assert result.exact_rho == pytest.approx(8 / 3 * result.rho_stated)
    assert result.exact_delta > result.delta
    right = counts_subject(ZCDP, "change_one", before, after, m=4, plan=swapped_plan(4, right=True))
    assert audit_subject(right, runs=100_000, releases=FEW, seed=1).passed
    people = {"neighboring": "change_one", "max_contributions": 4}
    assert audit(tt.counts.TopDown(), AREAS, before, after, ZCDP, releases=FEW, seed=1, **people).passed


@pytest.mark.slow
def test_the_smaller_sensitivity_of_distinct_leaves_is_caught_above_the_leaves():
    """A person in all three counties of a state moves it by 3, not √3: true loss (1 + 3 + 1)/3 of the stated ρ."""
    people = {"neighboring": "add_remove", "max_contributions": 3, "distinct": True}
    before, after = [1, 1, 1, 1], [2, 2, 2, 1]
    job, inputs = Audited(tree=AREAS, budget=ZCDP, mechanism=tt.counts.LeastSquares(), **people).plan()
    levels = {level: (each.statistic, each.sensitivity) for level, each in job.plan.levels.items()}
    assert [(name, bound.l2_squared) for name, bound in levels.values()] == [
        ("total", 9), ("counts", 9), ("distinct_counts", 3),
    ]  # fmt: skip
    statistics = [inputs.tabulate(np.array(people)) for people in (before, after)]
    wrong = plan_noise(ZCDP, levels | {"s": ("counts", levels["c"][1])})
    wrong = Subject("wrong", "add_remove", wrong, *statistics, publisher(job, AREAS, None))
    result = audit_subject(wrong, releases=0, seed=1)
    assert not result.passed
    assert result.exact_rho == pytest.approx((1 + 3 + 1) / 3 * result.rho_stated)
    assert audit(tt.counts.TopDown(), AREAS, before, after, ZCDP, releases=FEW, seed=1, **people).passed


# --- Group sizes ---

GROUPS = np.array([2, 1, 2, 1])
PUBLIC = SizesDomain.from_leaves(AREAS, GROUPS, 0, 3)
PRIVATE = SizesDomain.from_leaves(AREAS, GROUPS, 1, 3, "none")
JOINED = [[1, 1], [1], [1, 1], [1]], [[2, 1], [1], [1, 1], [1]]
"""A person joins a group of the first county."""
FOUNDED = [[1, 0], [1], [1, 1], [1]], [[1, 1], [1], [1, 1], [1]]
"""A person founds a group there."""


def sizes_subject(mechanism, domain, pair, measured=lambda true: true, plan=None, published=True):
    """A mechanism for group sizes on two inputs, as the library plans it, or with other statistics or another plan."""
    given = {"neighboring": "add_remove", "mechanism": mechanism, "groups_per_leaf": GROUPS}
    job, inputs = Audited(tree=domain, budget=PURE, **given).plan()
    statistics = [measured(inputs.tabulate(inputs.parse(sizes, "data"))) for sizes in pair]
    run = publisher(job, domain, None) if published else None
    return Subject(repr(mechanism), "add_remove", plan or job.plan, *statistics, run)


# --- The chain mechanism ---


def published_chain(domain):
    """M_c^ch as its paper has it: every level with sensitivity 1."""
    claimed = plan_noise(PURE, {level: ("chain_tail_counts", Sensitivity(1, 1)) for level in AREAS.levels})
    return sizes_subject(tt.sizes.Chain(), domain, JOINED, plan=claimed)


@pytest.mark.slow
@pytest.mark.parametrize("domain", [PUBLIC, PRIVATE], ids=["groups", "none"])
def test_the_chain_mechanism_at_its_published_scale_is_caught(domain):
    """True loss ε/L·Σ|R_ℓ| = (1 + 2 + 4)/3, stated 1; more than 1.3 is shown at 50,000 runs."""
    result = audit_subject(published_chain(domain), releases=0, seed=1)
    assert not result.passed
    assert result.epsilon_stated == 1
    assert result.exact_epsilon == pytest.approx(7 / 3)
    assert 1.3 < result.epsilon_lower <= 7 / 3


@pytest.mark.slow
@pytest.mark.parametrize("domain", [PUBLIC, PRIVATE], ids=["groups", "none"])
def test_the_chain_mechanism_at_its_true_sensitivity_passes_and_uses_all_that_it_states(domain):
    result = audit(tt.sizes.Chain(), domain, *JOINED, PURE, neighboring="add_remove", releases=FEW, seed=1)
    assert result.passed
    assert result.exact_epsilon == result.epsilon_stated == 1


@pytest.mark.slow
def test_the_published_noise_of_the_chain_is_honest_where_the_library_draws_it():
    """The plan has the paper's noise and the ε that it truly spends, and the audit finds no more than that."""
    published = tt.sizes.Chain(calibration="as_published")
    with pytest.warns(UserWarning, match=r"what is published as epsilon = 1 truly spends epsilon = 2\.33"):
        result = audit(published, PUBLIC, *JOINED, PURE, neighboring="add_remove", releases=FEW, seed=1)
    assert result.passed
    assert result.exact_epsilon == result.epsilon_stated == pytest.approx(7 / 3)
    assert 1.3 < result.epsilon_lower <= 7 / 3
    with pytest.warns(UserWarning, match="truly spends"):
        job, _ = Audited(tree=PUBLIC, budget=PURE, neighboring="add_remove", mechanism=published).plan()
    claimed = published_chain(PUBLIC).plan.levels
    assert {level: plan.noise for level, plan in job.plan.levels.items()} == {
        level: plan.noise for level, plan in claimed.items()
    }


# --- What holds only where the numbers of groups are public ---


class Rewritten:
    """Statistics whose cells, node by node, are rewritten before they are measured."""

    def __init__(self, true, statistic, rewrite):
        self._true, self._statistic, self._rewrite = true, statistic, rewrite

    def size(self, level):
        return self._true.size(level)

    def cells(self, level, nodes, statistic, part=None):
        table = self._rewrite(self._true.cells(level, nodes, self._statistic)[0].reshape(len(nodes), -1))
        width = table.shape[1]
        numbers = nodes[:, None] * width + np.arange(width)
        return table.reshape(-1), np.arange(len(nodes) + 1) * width, numbers.reshape(-1)


def cumulative(true):
    """Hc: how many groups have at most s members."""
    return Rewritten(true, "histogram", lambda histogram: np.cumsum(histogram, axis=1))


def with_number_of_groups(true):
    """T_0, all groups, beside T_1, T_2, …."""
    return Rewritten(true, "tail_counts", lambda tails: np.concatenate([tails[:, :1], tails], axis=1))


@pytest.mark.slow
@pytest.mark.parametrize(("measured", "loss", "shown"), [(cumulative, 3, 1.7), (with_number_of_groups, 2, 1.3)])
def test_what_needs_public_numbers_of_groups_is_caught_where_they_are_private(measured, loss, shown):
    """A person who founds a group moves all K = 3 cumulative counts, and T_0 beside T_1; stated is one cell's loss.

    Of the true losses 3 and 2 more than 1.7 and 1.3 are shown at 50,000 runs. Tail counts alone move in one cell.
    """
    mechanism = tt.sizes.Matching()
    result = audit_subject(sizes_subject(mechanism, PRIVATE, FOUNDED, measured, published=False), seed=1)
    assert not result.passed
    assert result.exact_epsilon == loss
    assert shown < result.epsilon_lower <= loss
    right = audit_subject(sizes_subject(mechanism, PRIVATE, FOUNDED), releases=FEW, seed=1)
    assert right.passed
    assert right.exact_epsilon == 1


@pytest.mark.slow
def test_a_number_of_groups_that_is_published_although_it_is_private_is_caught():
    """The measurements are right; the release shows how many groups there are. Power 1."""
    subject = sizes_subject(tt.sizes.HistogramProjection(), PRIVATE, FOUNDED)
    result = audit_subject(smuggling(subject, 5, 6), runs=2_000, releases=500, seed=1)
    assert not result.passed
    assert result.event.startswith("released ")
    assert result.exact_epsilon == 0.5  # a group that appears moves one cell of histograms, whose bound is 2
    assert audit_subject(subject, runs=2_000, releases=FEW, seed=1).passed


# --- Quantities ---

GREW = [[1, 1], [1], [1, 1], [1]], [[3, 1], [1], [1, 1], [1]]
"""A record of quantity 2 joins a group of the first county."""


@pytest.mark.slow
@pytest.mark.parametrize("domain", [PUBLIC, PRIVATE], ids=["groups", "none"])
def test_quantities_under_the_noise_of_single_members_are_caught(domain):
    """The group crosses two thresholds at every level: true loss 2, stated 1; more than 1.3 is shown.

    The fault is in the measurements, 50,000 of each input, which alone are looked at: releases, computed from them,
    would only halve the share of alpha.
    """
    result = audit_subject(sizes_subject(tt.sizes.Matching(), domain, GREW), releases=0, seed=1)
    assert not result.passed
    assert result.exact_epsilon == 2
    assert 1.3 < result.epsilon_lower <= 2
    people = {"neighboring": "add_remove", "max_quantity": 2}
    right = audit(tt.sizes.Matching(), domain, *GREW, PURE, releases=FEW, seed=1, **people)
    assert right.passed
    assert right.exact_epsilon == 1


# --- A mechanism that goes round the measurer ---


def smuggling(subject, before, after, releases=500):
    """The same subject, but its releases also show a number that is true of either input."""
    leaks = iter([before] * releases + [after] * releases)

    def smuggle(measurer):
        return np.append(subject.publisher.publish(measurer), next(leaks))

    return replace(subject, publisher=Publisher([*subject.publisher.labels, "leak"], smuggle))


@pytest.mark.slow
def test_a_true_count_that_is_smuggled_out_is_caught_by_what_is_published():
    """The measurements are right; the release shows an exact count. Power 1."""
    subject = counts_subject(PURE)
    result = audit_subject(smuggling(subject, BEFORE[2], AFTER[2]), runs=2_000, releases=500, seed=1)
    assert not result.passed
    assert result.event.startswith("released ")
    assert exact_loss(subject.plan, [(subject.before, subject.after)]) == 1


def test_what_is_smuggled_out_in_fractions_is_caught():
    """Every number is below 1, so that integers would all be 0. Power 1."""
    leaks = iter([0.25] * 500 + [0.5] * 500)

    @dataclass(frozen=True)
    class InFractions(tt.sizes.MeanConsistency):
        def reconcile(self, domain, measurer):
            levels, leak = super().reconcile(domain, measurer), next(leaks)
            return [replace(level, groups=np.full(len(level.groups), leak)) for level in levels]

    subject = sizes_subject(InFractions(), PRIVATE, FOUNDED)
    result = audit_subject(subject, runs=2_000, releases=500, seed=1)
    assert not result.passed
    assert result.event.startswith("released ")
