"""Integers that meet several tables of every area: against all tables that do, by hand, and at full size."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.inside import LargeArrays
from tallytree.solvers.tables.fit import fit
from tallytree.solvers.tables.integers import Rounding, rounding_orders, unmet_levels
from tallytree.solvers.tables.linear import NoisyTable
from tallytree.solvers.tables.marginals import Detail, Lattice

RNG = np.random.default_rng
BANDS = (np.zeros(4, dtype=np.int64), np.array([0, 0, 0, 1]), np.arange(4))
A, B, C = (1, 0, 0), (0, 1, 0), (0, 0, 1)
AB, BC, AC = (1, 1, 0), (0, 1, 1), (1, 0, 1)


def rounding(detail, families, known, real, totals=()):
    """What rounds a real detail of the leaf areas, and of all levels above, in whose marginals these are known."""
    lattices = [Lattice.below(detail, each) for each in known]
    lattices[0] = Lattice(detail, lattices[0].known, detail.finest)
    levels = [real]
    for family in families[::-1]:
        levels.insert(0, np.add.reduceat(levels[0], family[:-1], axis=0))
    own = [detail.summed(x, lattice.finest) for x, lattice in zip(levels, lattices, strict=True)]
    deviations = [np.ones(len(lattice.known)) for lattice in lattices]
    return Rounding(detail, families, lattices, deviations, own, totals, LargeArrays(threads=1), lambda stage: None)


def free(detail, levels=1):
    return [np.zeros((1, detail.cells), dtype=bool)] * levels


def all_tables(rows, columns):
    """Every table of integers ≥ 0 with these sums."""
    if not len(rows):
        return [np.zeros((0, len(columns)), dtype=int)] if not any(columns) else []
    found = []
    for row in itertools.product(*(range(min(each, rows[0]) + 1) for each in columns)):
        if sum(row) == rows[0]:
            rest = all_tables(rows[1:], np.subtract(columns, row))
            found += [np.vstack([[row], table]) for table in rest]
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 3), st.integers(2, 3))
def test_one_of_all_tables_with_both_margins_is_found_and_it_is_near(seed, m, n):
    rng = RNG(seed)
    counts = rng.poisson(1.0, (m, n))
    possible = all_tables(counts.sum(axis=1), counts.sum(axis=0))
    chosen = [possible[i] for i in rng.integers(len(possible), size=4)]
    real = np.einsum("t,tmn->mn", rng.dirichlet(np.full(4, 0.5)), chosen)  # a mean of tables has their sums
    detail = Detail.flat([m, n])
    each = rounding(detail, [], [[(1, 0), (0, 1)]], np.maximum(real, 1e-14).reshape(1, -1))
    found = each.own_details(free(detail))[0].reshape(m, n)
    assert any((found == table).all() for table in possible)
    nearest = min(((table - real) ** 2).sum() for table in possible)
    assert ((found - real) ** 2).sum() <= nearest + 2.5


def test_a_table_that_is_rounded_by_hand():
    """Rows of 2 and 2, columns of 3 and 1: of the tables 2 0 | 1 1 and 1 1 | 2 0 the first is nearer."""
    real = np.array([[1.6, 0.4, 1.4, 0.6]])
    detail = Detail.flat([2, 2])
    found = rounding(detail, [], [[(1, 0), (0, 1)]], real).own_details(free(detail))[0]
    assert found.tolist() == [[2, 0, 1, 1]]


@pytest.mark.parametrize(
    ("known", "met"),
    [
        ([[A, B], [A, B]], True),
        ([[A, B, C]] * 3, True),
        ([[AB, BC]] * 3, True),
        ([[A, B], [A]], True),
        ([[AB, C], [A, B]], False),  # the counties' a × b add up to the state's
        ([[AC, B], [A, B]], True),
        ([[AB, BC, AC]], False),
        ([[(1, 1, 1)], [AB, BC]], False),
        ([[(1, 1, 1)], [(1, 1, 1)]], True),
        ([[AB], []], True),
    ],
)
def test_tables_without_a_cycle_have_an_order(known, met):
    detail = Detail.flat([3, 4, 2])
    assert any(unmet_levels(detail, known, free(detail)[0])) != met
    families = [np.array([0, 3]), np.array([0, 2, 3, 6])][: len(known) - 1]
    cells = RNG(1).gamma(0.7, 3.0, (6 if families[1:] else 3 if families else 1, detail.cells)) + 1e-6
    each = rounding(detail, families, [itertools.chain(*known[depth:]) for depth in range(len(known))], cells)
    own = each.own_details(free(detail, len(each.lattices)))
    for depth, family in enumerate(families):
        above, below = each.lattices[depth : depth + 2]
        sums = np.add.reduceat(own[depth + 1], family[:-1])
        np.testing.assert_array_equal(above.detail.summed(own[depth], below.finest), sums)
    leaves = each.dealt(own)
    assert (leaves >= 0).all()
    np.testing.assert_array_equal(detail.summed(leaves, each.lattices[-1].finest), own[-1])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([[[A, B]] * 3, [[A, B, C]] * 3, [[AB, BC]] * 3, [[AC, B], [A, B], [A]], [[AC, B], [AC, B], [A]]]),
    st.sampled_from([False, True]),
)
def test_tables_without_noise_are_published_as_they_were_counted(seed, known, public):
    rng = RNG(seed)
    detail = Detail((BANDS, *Detail.flat([3, 2]).groups)) if seed % 2 else Detail.flat([4, 3, 2])
    marginals = [[(len(detail.groups[0]) - 1 if t[0] else 0, *t[1:]) for t in level] for level in known]
    families = [np.array([0, 3]), np.concatenate([[0], np.cumsum(rng.integers(1, 6, 3))])]
    cells = [rng.poisson(rng.gamma(0.5, 6.0, (int(families[1][-1]), detail.cells)))]
    for family in families[::-1]:
        cells.insert(0, np.add.reduceat(cells[0], family[:-1]))
    measured = [
        [NoisyTable(t, detail.summed(level, t), 1e-9) for t in of_level]
        for level, of_level in zip(cells, marginals, strict=True)
    ]
    totals = (2, cells[2].sum(axis=1)) if public else None
    found = fit(detail, families, measured, totals=totals, arrays=LargeArrays(threads=1))
    assert found.rounding == {}
    assert max(found.misses.values()) < 1e-9
    leaves = found.leaves
    for family, level, of_level in zip([None, *families[::-1]], cells[::-1], marginals[::-1], strict=True):
        leaves = leaves if family is None else np.add.reduceat(leaves, family[:-1])
        for t in of_level:
            np.testing.assert_array_equal(detail.summed(leaves, t), detail.summed(level, t))


def test_impossible_cells_stay_empty_where_a_table_shows_them_and_where_none_does():
    detail = Detail.flat([3, 2, 2])
    for shown in (True, False):
        zero = np.zeros((3, 2, 2), dtype=bool)
        zero[(2, 1) if shown else (2, slice(None), 1)] = True  # in a × b; in a × c, which nothing measures
        zero = zero.ravel()
        assert len(rounding_orders([Lattice.below(detail, [AB, C])], [zero[None]])[0]) == (3 if shown else 1)
        truth = RNG(2).poisson(4.0, (1, detail.cells)) * ~zero
        measured = [[NoisyTable(t, detail.summed(truth, t), 1e-9) for t in (AB, C)]]
        leaves = fit(detail, [], measured, impossible=zero, arrays=LargeArrays(threads=1)).leaves
        assert (leaves[:, zero] == 0).all()


@pytest.mark.slow
def test_thousands_of_areas_meet_noisy_tables_at_every_level():
    """What children add up to is their parent's, and no published number is far from the real one."""
    rng, detail = RNG(3), Detail.flat([23, 2])
    families = [np.array([0, 50]), np.linspace(0, 5_000, 51).astype(np.int64)]
    real = rng.gamma(0.5, 6.0, (5_000, detail.cells)) + 1e-9
    known = [[(1, 0), (0, 1)]] * 3
    each = rounding(detail, families, known, real)
    own = each.own_details(free(detail, len(each.lattices)))
    for depth, x in enumerate(each.real):
        if depth:
            np.testing.assert_array_equal(np.add.reduceat(own[depth], families[depth - 1][:-1]), own[depth - 1])
        assert (own[depth] >= 0).all()
        for t in each.lattices[depth].known:
            off = detail.summed(own[depth], t) - detail.summed(x, t)
            assert np.abs(off).max() < 2.5
            assert np.sqrt((off**2).mean()) < 0.5
