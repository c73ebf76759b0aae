"""Rounding of the areas of a family with all their marginals in view: what must hold, and how near they stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.tables.integers import NOWHERE
from tallytree.solvers.tables.marginals import Detail, Lattice
from tallytree.solvers.tables.rounding import choose_least, deal, keep_sums, round_family, round_root

RNG = np.random.default_rng


def counted(detail):
    """All marginals, and equal weights."""
    place = Lattice.below(detail, [detail.finest]).rows.place
    return place, np.ones(len(place))


def rounded_root(detail, x, total, values):
    """All cells are one group; a total below 0 is free."""
    sums = np.array([total] * (total >= 0), dtype=np.int64)
    round_root(*counted(detail), np.zeros(detail.cells, dtype=np.int64), sums, x, 3, values)


def deviations(detail, x, values, marginal):
    return detail.summed(values, marginal) - detail.summed(x, marginal)


def real_family(rng, detail, children, scale):
    x = rng.gamma(0.3, scale, (children, detail.cells))
    column = np.ceil(x.sum(axis=0)).astype(np.int64)
    return x * (column / x.sum(axis=0)), column


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 30), st.sampled_from([0.1, 5.0, 1e5, 1e12]))
def test_rounding_keeps_sums_and_totals(seed, children, scale):
    rng, detail = RNG(seed), Detail.flat([3, 2, 2])
    x, column = real_family(rng, detail, children, scale)
    values = np.empty(x.shape, dtype=np.int64)
    round_family(*counted(detail), column, x, NOWHERE, 3, values)
    assert (values >= 0).all()
    np.testing.assert_array_equal(values.sum(axis=0), column)
    assert np.abs(values - x).max() < 1 + 1e-12 * scale or children == 1
    totals = rng.multinomial(column.sum(), x.sum(axis=1) / x.sum())
    keep_sums(*counted(detail), np.zeros(detail.cells, dtype=np.int64), totals[:, None], x, values)
    assert (values >= 0).all()
    np.testing.assert_array_equal(values.sum(axis=0), column)
    np.testing.assert_array_equal(values.sum(axis=1), totals)


@settings(max_examples=100)
@given(st.integers(0, 10_000))
def test_no_unit_goes_where_a_child_cannot_have_one(seed):
    rng = RNG(seed)
    detail = Detail.flat([3, 2])
    barred = rng.random((4, detail.cells)) < 0.4
    barred[rng.integers(0, 4, detail.cells), np.arange(detail.cells)] = False
    x = rng.exponential(rng.choice([0.3, 5.0]), barred.shape) * ~barred
    column = np.rint(x.sum(axis=0) + rng.uniform(-1, 1, detail.cells)).clip(0).astype(np.int64)  # as rounded above
    values = np.empty(x.shape, dtype=np.int64)
    round_family(*counted(detail), column, x, barred, 3, values)
    assert (values[barred] == 0).all()
    assert (values >= 0).all()
    assert (values.sum(axis=0) == column).all()


@pytest.mark.parametrize(
    ("sizes", "most", "rms"), [([18, 3], 1.4, 0.38), ([4, 3, 3, 2], 2.3, 0.55)], ids=["two attributes", "four"]
)
def test_rounding_leaves_all_marginals_near(sizes, most, rms):
    detail = Detail.flat(sizes)
    x, column = real_family(RNG(4), detail, 300, 5.0)
    values = np.empty(x.shape, dtype=np.int64)
    round_family(*counted(detail), column, x, NOWHERE, 3, values)
    for marginal in detail.components:
        off = deviations(detail, x, values, marginal)
        assert np.abs(off).max() <= most
        assert np.sqrt((off**2).mean()) <= rms


def test_a_root_is_rounded_with_and_without_a_total():
    detail = Detail.flat([6, 3])
    x = RNG(5).gamma(0.5, 3.0, detail.cells)
    for total in (-1, int(x.sum()), int(x.sum()) + 3, 0, 10**6):
        values = np.empty(detail.cells, dtype=np.int64)
        rounded_root(detail, x, total, values)
        assert (values >= 0).all()
        if total >= 0:
            assert values.sum() == total
        if total in (-1, int(x.sum())):
            for marginal in detail.components:
                assert np.abs(deviations(detail, x[None], values[None], marginal)).max() < 1.5


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.data())
def test_the_least_are_chosen_and_the_lower_index_wins_ties(scores, data):
    number = data.draw(st.integers(1, len(scores)))
    order = np.array(data.draw(st.permutations(range(len(scores)))))
    choose_least(np.array(scores, dtype=float), order, number)
    assert sorted(order) == list(range(len(scores)))
    assert set(order[:number]) == set(np.argsort(scores, kind="stable")[:number])


def test_a_marginal_of_more_weight_stays_nearer():
    detail = Detail.flat([4, 3, 3, 2])
    place, weight = counted(detail)
    x, column = real_family(RNG(7), detail, 100, 5.0)
    off = []
    for first in (1.0, 100.0):
        values = np.empty(x.shape, dtype=np.int64)
        round_family(place, np.append(first, weight[1:]), column, x, NOWHERE, 3, values)
        off.append(np.abs(deviations(detail, x, values, (0,) * 4)).mean())
    assert off[1] < 0.8 * off[0]


def test_a_root_leaves_all_marginals_near_and_cells_without_records_at_0():
    detail = Detail.flat([4, 3, 3, 2])
    x = RNG(8).gamma(0.5, 5.0, detail.cells) * (RNG(9).random(detail.cells) < 0.7)
    values = np.empty(detail.cells, dtype=np.int64)
    rounded_root(detail, x, -1, values)
    assert (values[x == 0] == 0).all()
    for marginal in detail.components:
        assert np.sqrt((deviations(detail, x[None], values[None], marginal) ** 2).mean()) < 0.7


@pytest.mark.slow
@settings(max_examples=50)
@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([0.3, 5.0, 1e9]))
def test_units_are_dealt_such_that_both_sums_hold_and_shares_are_even(seed, children, scale):
    rng = RNG(seed)
    cells, coarse = 11, rng.integers(0, 4, 11)
    coarse = np.unique(coarse, return_inverse=True)[1]
    order = np.argsort(coarse, kind="stable")
    starts = np.searchsorted(coarse[order], np.arange(coarse.max() + 2))
    parent = rng.poisson(rng.gamma(0.5, scale, cells))
    whole = np.bincount(coarse, parent).astype(np.int64)
    counts = np.stack([rng.multinomial(n, rng.dirichlet(np.ones(children))) for n in whole], axis=1)
    values = np.empty((children, cells), dtype=np.int64)
    deal(starts, order, parent, counts, values)
    assert (values >= 0).all()
    np.testing.assert_array_equal(values.sum(axis=0), parent)
    for g in range(counts.shape[1]):
        own = values[:, coarse == g]
        np.testing.assert_array_equal(own.sum(axis=1), counts[:, g])
        if whole[g]:
            expected = counts[:, g : g + 1] * (parent[None, coarse == g] / whole[g])
            assert np.abs(own - expected).max() < 1 + (coarse == g).sum() + 1e-9 * scale
