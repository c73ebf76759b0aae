"""Shares of tables: what they achieve, against grids of shares and the exact standard deviations."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from helpers.tables import DEEP
from tallytree.solvers.tables.marginals import Detail
from tallytree.solvers.tables.shares import STEPS, auto_shares, least_worst, share_problem
from tallytree.solvers.tables.variance import expected_std_devs

AGES = Detail.flat([18, 3])
AREAS = [1, 6, 30, 197]
RHO = 0.0124


def worst(detail, areas, variances, wanted, shares, gaussian=True, known=None):
    """The worst quotient by the exact variance of a regular tree, which the shares are found without."""
    precisions = [{} for _ in areas]
    for (level, marginal), share in shares.items():
        precisions[level][marginal] = (float(share) if gaussian else float(share) ** 2) / variances[level, marginal]
    found = expected_std_devs(detail, areas, precisions, wanted, public_totals_level=known)
    return max(found[table] / wish for table, wish in wanted.items())


def every_coarser(wanted):
    """The wanted tables and all their marginals, at their levels of areas and at those above."""
    found = {
        (above, coarser)
        for level, marginal in wanted
        for above in range(level + 1)
        for coarser in product(*(range(depth + 1) for depth in marginal))
    }
    return sorted(found)


def grid(count, steps):
    rows = [row for row in product(range(steps + 1), repeat=count - 1) if sum(row) <= steps]
    return np.array([[*row, steps - sum(row)] for row in rows]) / steps


def small_cases(count):
    rng = np.random.default_rng(14)
    for _ in range(count):
        detail = Detail.flat([[5], [3], [4, 2], []][rng.integers(4)])
        areas = [1, int(rng.integers(2, 40))]
        tables = [(level, marginal) for level in range(2) for marginal in detail.components]
        tables = [tables[i] for i in sorted(rng.permutation(len(tables))[:4])]
        chosen = [table for table in tables if rng.random() < 0.7] or tables[:1]
        variances = {table: float(rng.choice([1, 2, 5])) for table in tables}
        yield detail, areas, variances, {table: float(rng.choice([1, 1, 3])) for table in chosen}


@pytest.mark.slow
@pytest.mark.parametrize("gaussian", [True, False])
def test_no_split_of_a_grid_is_better(gaussian):
    for detail, areas, variances, wanted in small_cases(8):
        shares = auto_shares(detail, areas, variances, wanted, gaussian=gaussian)
        assert sum(shares.values()) == 1
        problem = share_problem(detail, areas, variances, wanted)
        splits = grid(len(variances), 20)
        best = min(problem.values(split if gaussian else split**2).max() for split in splits)
        assert worst(detail, areas, variances, wanted, shares, gaussian) <= np.sqrt(best) * 1.0015


def test_the_variance_behind_the_shares_is_that_of_the_estimate():
    variances = {(level, marginal): 2.0 for level in range(4) for marginal in AGES.components}
    wanted = dict.fromkeys(variances, 1.0)
    split = np.random.default_rng(0).dirichlet(np.ones(16))
    for known in (None, 0, 2):
        problem = share_problem(AGES, AREAS, variances, wanted, known)
        precisions = [{} for _ in AREAS]
        for ((level, marginal), variance), share in zip(variances.items(), split, strict=True):
            precisions[level][marginal] = share / variance
        found = expected_std_devs(AGES, AREAS, precisions, wanted, public_totals_level=known)
        np.testing.assert_allclose(np.sqrt(problem.values(split)), [found[table] for table in wanted], rtol=1e-9)


def test_auto_beats_the_even_split_and_comes_close_to_the_bound():
    wanted = {(3, (1, 1)): 1.0, (3, (0, 1)): 1.0, (1, (1, 0)): 1.0, (0, (0, 0)): 1.0}
    variances = dict.fromkeys(every_coarser(wanted), 1 / (2 * RHO))
    shares = auto_shares(AGES, AREAS, variances, wanted, gaussian=True)
    found = worst(AGES, AREAS, variances, wanted, shares)
    bound = least_worst(share_problem(AGES, AREAS, variances, wanted)).bound
    assert found == pytest.approx(np.sqrt(bound), rel=1.5e-3)
    even = worst(AGES, AREAS, variances, wanted, dict.fromkeys(variances, 1 / len(variances)))
    asked = worst(AGES, AREAS, variances, wanted, dict.fromkeys(wanted, 1 / 4))
    assert found < 0.65 * even
    assert found < asked


def test_shares_are_the_same_on_every_machine():
    """As in the issue: total, age, sex and age × sex at four levels, wanted alike."""
    wanted = {(level, marginal): 1.0 for level in range(4) for marginal in AGES.components}
    shares = auto_shares(AGES, AREAS, dict.fromkeys(wanted, 1 / (2 * RHO)), wanted, gaussian=True)
    expected = {0: 6876, 1: 5539, 2: 5624, 3: 6961}
    assert shares == {(level, marginal): Fraction(expected[level], STEPS) for level, marginal in wanted}


def test_a_wish_moves_the_shares():
    wanted = {(1, (1, 1)): 1.0, (0, (0, 0)): 1.0}
    variances = dict.fromkeys(wanted, 1.0)
    alike = auto_shares(AGES, [1, 50], variances, wanted, gaussian=True)
    total = auto_shares(AGES, [1, 50], variances, {**wanted, (0, (0, 0)): 0.1}, gaussian=True)
    assert total[0, (0, 0)] > 0.9 > alike[0, (0, 0)]


def test_what_does_not_pay_is_left_out_unless_all_are_kept():
    wanted = {(1, (1, 1)): 1.0}
    variances = dict.fromkeys(every_coarser(wanted), 1.0)
    for gaussian in (True, False):
        assert auto_shares(AGES, [1, 500], variances, wanted, gaussian=gaussian) == {(1, (1, 1)): 1}
        kept = auto_shares(AGES, [1, 500], variances, wanted, gaussian=gaussian, keep_all=True)
        assert list(kept) == list(variances)
        assert sum(kept.values()) == 1
        assert min(kept.values()) >= Fraction(1, 20 * len(variances)) - Fraction(1, STEPS)
        assert kept[1, (1, 1)] > Fraction(9, 10)


def test_public_totals_are_not_paid_for():
    wanted = {(0, (0, 0)): 1.0, (1, (0, 0)): 1.0}
    variances = dict.fromkeys(wanted, 1.0)
    assert auto_shares(AGES, [1, 9], variances, wanted, gaussian=True, public_totals_level=0) == {(1, (0, 0)): 1}
    assert auto_shares(AGES, [1, 9], variances, wanted, gaussian=True, public_totals_level=1) == {}
    kept = auto_shares(AGES, [1, 9], variances, wanted, gaussian=True, keep_all=True, public_totals_level=1)
    assert kept == dict.fromkeys(wanted, Fraction(1, 2))


def test_a_tiny_share_that_is_needed_is_kept():
    wanted = {(0, (1, 0)): 1.0, (0, (0, 1)): 1e6}
    for gaussian in (True, False):
        shares = auto_shares(AGES, [1], dict.fromkeys(wanted, 1.0), wanted, gaussian=gaussian)
        assert list(shares) == list(wanted)
        assert 0 < shares[0, (0, 1)] < Fraction(10, STEPS)


def test_a_table_that_does_not_follow_is_refused():
    with pytest.raises(ValueError, match="does not follow from the candidates"):
        auto_shares(AGES, [1], {(0, (1, 0)): 1.0}, {(0, (1, 1)): 1.0}, gaussian=True)


def test_uneven_levels_of_an_attribute_get_shares_near_the_exact_best():
    detail = Detail((DEEP,))
    wanted = {(level, (depth,)): 1.0 for level in range(2) for depth in range(4)}
    variances = dict.fromkeys(wanted, 1.0)
    shares = auto_shares(detail, [1, 12], variances, wanted, gaussian=True)
    even = worst(detail, [1, 12], variances, wanted, dict.fromkeys(wanted, 1 / 8))
    assert worst(detail, [1, 12], variances, wanted, shares) < even
