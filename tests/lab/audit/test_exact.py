"""The exact losses: against distributions enumerated by brute force, and against known formulas."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import tallytree as tt
from helpers.inside import plan_noise, sensitivity
from tallytree.lab.audit import exact_delta, exact_loss
from tallytree.lab.audit.exact import worst_pair


class Cells:
    """True statistics that are given as they are: one cell a node."""

    def __init__(self, **levels):
        self.levels = {level: np.array(values) for level, values in levels.items()}

    def size(self, level):
        return len(self.levels[level])

    def cells(self, level, nodes, statistic, part=None):
        return self.levels[level][nodes], np.arange(len(nodes) + 1), nodes


def plan(budget, *levels):
    bound = sensitivity("counts", "add_remove")
    return plan_noise(budget, dict.fromkeys(levels, ("counts", bound)), accounting=None)


def masses(noise, reach):
    """The probabilities of noise −reach … reach, by definition."""
    x, scale = np.arange(-reach, reach + 1), float(noise.scale)
    weights = np.exp(-np.abs(x) / scale if noise.distribution == "discrete_laplace" else -(x**2) / (2 * scale**2))
    return dict(zip(x.tolist(), (weights / weights.sum()).tolist(), strict=True))


def joint(noises, true, reach):
    """The probability of every vector of noisy cells."""
    tables = [masses(noise, reach) for noise in noises]
    vectors = itertools.product(range(-reach - 3, reach + 4), repeat=len(true))
    return {v: math.prod(t.get(x - c, 0.0) for t, x, c in zip(tables, v, true, strict=True)) for v in vectors}


def test_the_loss_of_laplace_noise_is_the_largest_log_ratio_of_the_joint_distribution():
    planned = plan(tt.Budget(epsilon=2), "a", "b")
    before, after = Cells(a=[2], b=[1, 1]), Cells(a=[1], b=[2, 0])
    exact = exact_loss(planned, [(before, after)])
    assert exact == 3  # every cell moves by 1 under noise of scale 1
    noises = [planned.levels[level].noise for level in ("a", "b", "b")]
    p, q = joint(noises, (2, 1, 1), 6), joint(noises, (1, 2, 0), 6)
    seen = max(math.log(p[v] / q[v]) for v in p if p[v] > 0 and q[v] > 0)
    assert seen == pytest.approx(float(exact))


def test_the_loss_of_gaussian_noise_is_half_the_squared_distance_in_standard_deviations():
    planned = plan(tt.Budget(rho=Fraction(1, 2)), "a")
    exact = exact_loss(planned, [(Cells(a=[3, 0]), Cells(a=[1, 1])), (Cells(a=[0, 0]), Cells(a=[0, 1]))])
    assert exact == Fraction(5, 2) / planned.levels["a"].noise.scale ** 2


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
def test_delta_is_what_the_joint_distribution_exceeds_by(epsilon):
    planned = plan(tt.Budget(rho=Fraction(2, 5)), "a", "b")
    noises = [planned.levels[level].noise for level in ("a", "b")]
    p, q = joint(noises, (1, 3), 18), joint(noises, (0, 1), 18)
    brute = sum(max(0.0, p[v] - math.exp(epsilon) * q[v]) for v in p)
    found = exact_delta(planned, Cells(a=[1], b=[3]), Cells(a=[0], b=[1]), epsilon)
    assert found <= brute + 1e-9
    assert found == pytest.approx(brute, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_delta_of_wide_noise_is_that_of_continuous_gaussian_noise(epsilon):
    planned = plan(tt.Budget(rho=Fraction(1, 1000)), "a")
    scale = float(planned.levels["a"].noise.scale)
    mu = 7 / scale
    known = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
    assert exact_delta(planned, Cells(a=[7]), Cells(a=[0]), epsilon) == pytest.approx(known, rel=2e-3)


def test_what_does_not_move_costs_nothing():
    planned = plan(tt.Budget(rho=Fraction(1, 2)), "a")
    same = Cells(a=[3, 1])
    assert exact_loss(planned, [(same, same)]) == 0
    assert exact_loss(planned, []) == 0
    assert exact_delta(planned, same, same, 0.0) == 0


@pytest.mark.parametrize("budget", [tt.Budget(epsilon=1), tt.Budget(rho=Fraction(1, 2))], ids=["pure", "zcdp"])
def test_the_worst_pair_has_the_largest_loss_over_all_levels(budget):
    planned = plan(budget, "a", "b")
    data = np.array(list(itertools.product(range(3), repeat=3)))
    before, after = (np.array(side) for side in zip(*itertools.permutations(data, 2), strict=True))

    def tabulate(records):
        return Cells(a=records, b=records[:1] * 2 + records[1:2])

    found = worst_pair(planned, tabulate, before, after)
    pairs = [(tabulate(one), tabulate(other)) for one, other in zip(before, after, strict=True)]
    assert exact_loss(planned, [tuple(map(tabulate, found))]) == exact_loss(planned, pairs)


def test_of_several_worst_pairs_the_first_is_taken():
    planned = plan(tt.Budget(epsilon=1), "a")
    before, after = np.array([[0, 0], [1, 0], [2, 0], [0, 5]]), np.array([[0, 1], [5, 1], [2, 0], [0, 0]])
    found = worst_pair(planned, lambda records: Cells(a=records), before, after)
    assert [side.tolist() for side in found] == [[1, 0], [5, 1]]
    found = worst_pair(planned, lambda records: Cells(a=records), before[::-1], after[::-1])
    assert [side.tolist() for side in found] == [[0, 5], [0, 0]]
