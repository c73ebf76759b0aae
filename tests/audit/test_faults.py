"""Faults that an audit must catch, each beside the right version, which must pass.

Every audit here is at confidence 0.9999 with a fixed seed, so the outcome is the same in every run. How far each fault
is from passing is in its test: the true loss, and the lower bound that is asked for.
"""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.audit import Subject, audit, audit_subject, clopper_pearson, exact_loss
from tallytree.audit.auditing import planned
from tallytree.audit.bounds import epsilon_at_least
from tallytree.audit.events import View, best_event
from tallytree.audit.inputs import counts_inputs, sizes_inputs
from tallytree.audit.runs import ReplayMeasurer, draw_runs
from tallytree.audit.views import Publisher, publisher
from tallytree.measurements import Noise
from tallytree.planning import Options
from tallytree.privacy.accounting import plan_noise
from tallytree.privacy.sensitivity import Sensitivity
from tallytree.privacy.sources import KeyedNoise
from tallytree.sizes import SizesDomain

AREAS = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "A", "B"], "c": ["w", "x", "y", "z"]}), ["s", "c"])
KEY = bytes(range(32))
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


def counts_subject(budget, neighboring="add_remove", before=BEFORE, after=AFTER, m=1, plan=None):
    """`TopDown` on two inputs, as the library plans it, or with another plan."""
    job, inputs = planned(AREAS, budget, Options(neighboring=neighboring, max_contributions=m))
    total = sum(before) if job.terms.total_is_public else None
    statistics = [inputs.tabulate(np.array(records)) for records in (before, after)]
    return Subject("TopDown()", neighboring, plan or job.plan, *statistics, publisher(job, AREAS, total))


# --- Half the noise ---


def test_half_the_scale_of_laplace_noise_is_caught():
    """True loss 2, stated 1; more than 1.5 is shown, so the power at 50,000 runs is practically 1."""
    result = audit_subject(counts_subject(PURE), source=WithHalfTheScale, seed=1)
    assert not result.passed
    assert 1.5 < result.epsilon_lower <= 2
    assert result.exact_epsilon == 1  # the plan is right; only running it shows the fault
    assert audit_subject(counts_subject(PURE), seed=1).passed


@pytest.mark.parametrize("budget", [ZCDP, APPROXIMATE], ids=["zcdp", "approximate"])
def test_half_the_scale_of_gaussian_noise_is_caught_by_rho(budget):
    """True loss four times the ρ that the plan states, of which 60 % can be seen; more than 1.2 times is shown."""
    result = audit_subject(counts_subject(budget), source=WithHalfTheScale, runs=100_000, seed=1)
    assert not result.passed
    assert 1.2 * result.rho_stated < result.rho_lower <= 4 * result.rho_stated
    assert audit_subject(counts_subject(budget), runs=100_000, seed=1).passed


def test_half_the_scale_shows_in_the_releases_alone():
    """True loss 2, stated 1; the released tables by themselves, 20,000 of each input, show more than 1."""
    subject = counts_subject(PURE)
    released = []
    for statistics, key in ((subject.before, KEY), (subject.after, KEY[::-1])):
        levels = draw_runs(statistics, subject.plan, WithHalfTheScale(key), 20_000)
        released.append(np.stack([subject.publisher.publish(ReplayMeasurer(levels, run)) for run in range(20_000)]))
    chosen_on, counted_on = View(released[0], released[1], subject.publisher.labels).split()
    event = best_event(chosen_on, lambda p, q: epsilon_at_least(p, q, 0.0))
    more, fewer = event.counts(counted_on)
    low, high = clopper_pearson(more, 15_000, 5e-5)[0], clopper_pearson(fewer, 15_000, 5e-5)[1]
    assert epsilon_at_least(low, high, 0.0) > 1


# --- Noise that is used twice ---


@pytest.mark.parametrize("budget", [PURE, ZCDP, APPROXIMATE], ids=["pure", "zcdp", "approximate"])
def test_a_seed_reused_in_two_nodes_is_caught(budget):
    """The true loss is infinite: the differences of A and B, and of (A, y) and (B, z), have no noise. Power 1."""
    result = audit_subject(counts_subject(budget), source=WithOneSeedForTwoNodes, runs=20_000, seed=1)
    assert not result.passed
    assert result.epsilon_lower > 6
    assert "s[0] − s[1]" in result.event or "c[2] − c[3]" in result.event or "discriminant" in result.event


@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=["pure", "zcdp"])
def test_a_seed_reused_in_two_levels_is_caught(budget):
    """The true loss is infinite: the state A has the noise of the county (A, w), whose count stays. Power 1."""
    result = audit_subject(counts_subject(budget), source=WithOneSeedForAllLevels, runs=20_000, seed=1)
    assert not result.passed
    assert result.epsilon_lower > 6


# --- inf-tda's swapped sensitivity ---


def swapped_plan(m, right):
    """√(2m), which holds for distinct leaves, used at the inner level too, where √2·m is right."""
    bound = {"total": Sensitivity(m, m * m), "counts": Sensitivity(2 * m, 2 * m * m if right else 2 * m)}
    statistics = {"all": "total", "s": "counts", "c": "counts"}
    return plan_noise(ZCDP, {level: (statistic, bound[statistic]) for level, statistic in statistics.items()})


def test_the_swapped_sensitivity_of_inf_tda_is_caught():
    """m = 4 records move to another state: true loss 8/3 of the stated ρ, of which 60 % can be seen."""
    before, after = [4, 1, 1, 1], [0, 1, 1, 5]
    wrong = counts_subject(ZCDP, "change_one", before, after, m=4, plan=swapped_plan(4, right=False))
    result = audit_subject(wrong, runs=100_000, seed=1)
    assert not result.passed
    assert result.rho_lower > 1.2 * result.rho_stated
    assert result.exact_rho == pytest.approx(8 / 3 * result.rho_stated)
    assert result.exact_delta > result.delta
    right = counts_subject(ZCDP, "change_one", before, after, m=4, plan=swapped_plan(4, right=True))
    assert audit_subject(right, runs=100_000, seed=1).passed
    assert audit(
        tt.counts.TopDown(), AREAS, before, after, ZCDP, neighboring="change_one", max_contributions=4, seed=1
    ).passed


# --- The chain mechanism ---

DOMAIN = SizesDomain.from_leaves(AREAS, np.array([2, 1, 2, 1]), 0, 3)


class Chain:
    """A stand-in for M_c^ch (Fioretto et al. 2021, section 9.2): per level the running sums over (size, region)."""

    def __init__(self, true):
        self._true = true

    def size(self, level):
        return self._true.size(level)

    def cells(self, level, nodes, statistic):
        regions = self.size(level)
        histogram = self._true.cells(level, np.arange(regions), "histogram")[0].reshape(regions, -1)
        chain = np.cumsum(histogram.T.reshape(-1)).reshape(-1, regions).T
        width = chain.shape[1]
        numbers = nodes[:, None] * width + np.arange(width)
        return chain[nodes].reshape(-1), np.arange(len(nodes) + 1) * width, numbers.reshape(-1)


def chain_subject(as_published):
    """One person more in a group of the first region: every region's running sum of that size drops by 1."""
    inputs = sizes_inputs(DOMAIN)
    sensitivities = {
        level: 1 if as_published else DOMAIN.hierarchy.size(depth) for depth, level in enumerate(AREAS.levels)
    }
    plan = plan_noise(PURE, {level: ("tail_counts", Sensitivity(s, s)) for level, s in sensitivities.items()})
    pair = ([[1, 1], [1], [1, 1], [1]], [[2, 1], [1], [1, 1], [1]])
    statistics = [Chain(inputs.tabulate(inputs.parse(sizes, "data"))) for sizes in pair]
    return Subject("M_c^ch stand-in", "add_remove", plan, *statistics)


def test_the_chain_mechanism_at_its_published_scale_is_caught():
    """True loss ε/L·Σ|R_ℓ| = (1 + 2 + 4)/3, stated 1; more than 1.3 is shown at 50,000 runs."""
    result = audit_subject(chain_subject(as_published=True), seed=1)
    assert not result.passed
    assert result.exact_epsilon == pytest.approx(7 / 3)
    assert 1.3 < result.epsilon_lower <= 7 / 3
    valid = audit_subject(chain_subject(as_published=False), seed=1)
    assert valid.passed
    assert valid.exact_epsilon == 1


# --- A mechanism that goes round the measurer ---


def test_a_true_count_that_is_smuggled_out_is_caught_by_what_is_published():
    """The measurements are right; the release shows an exact count. Power 1."""
    inputs = counts_inputs(AREAS)
    subject = counts_subject(PURE)
    leaks = iter([BEFORE[2]] * 2_000 + [AFTER[2]] * 2_000)

    def smuggle(measurer):
        return np.append(subject.publisher.publish(measurer), next(leaks))

    smuggler = Publisher([*subject.publisher.labels, "leak"], smuggle)
    pair = [inputs.tabulate(np.array(records)) for records in (BEFORE, AFTER)]
    result = audit_subject(Subject("smuggler", "add_remove", subject.plan, *pair, smuggler), runs=2_000, seed=1)
    assert not result.passed
    assert result.event.startswith("released ")
    assert exact_loss(subject.plan, [tuple(pair)]) == 1
