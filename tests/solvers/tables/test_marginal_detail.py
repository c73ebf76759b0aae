"""Raking the detail of a tree to the tables of all its levels: what has a common solution is met."""

import itertools

import numpy as np
import pytest

from helpers.inside import LargeArrays
from tallytree.solvers.tables.marginals import Detail, Lattice
from tallytree.solvers.tables.raking import MET, SLACK, rake_tree

RNG = np.random.default_rng
DETAIL = Detail.flat([4, 3, 2])
FAMILIES = [np.array([0, 3]), np.array([0, 4, 6, 10])]


def sums(cells):
    levels = [cells]
    for family in FAMILIES[::-1]:
        levels.insert(0, np.add.reduceat(levels[0], family[:-1], axis=0))
    return levels


def case(seed, known, mean=20.0):
    """Tables of positive counts at all levels, the marginals that each level knows."""
    cells = RNG(seed).gamma(1.0, mean, (10, DETAIL.cells)) + 0.1
    lattices = [Lattice.below(DETAIL, [*marginals]) for marginals in known]
    targets = [
        np.concatenate([DETAIL.summed(level, marginal) for marginal in lattice.known], axis=1)
        for lattice, level in zip(lattices, sums(cells), strict=True)
    ]
    return cells, lattices, targets


def raked(lattices, targets, zero=None, slack=None):
    none = np.zeros(DETAIL.cells, dtype=bool)
    deviations = [np.ones(len(lattice.known)) for lattice in lattices]
    slack = [np.zeros_like(each) for each in deviations] if slack is None else slack
    return rake_tree(
        lattices,
        FAMILIES,
        targets,
        deviations,
        slack,
        [(none if zero is None else zero)[None]] * len(lattices),
        LargeArrays(threads=1),
    )


def missed(lattices, targets, detail, deviations=None):
    """Per level, the root of the mean square miss of each table, in standard deviations."""
    deviations = [1.0] * len(lattices) if deviations is None else deviations
    return [
        np.sqrt([((lattice.detail.summed(x, t) - target[:, at]) ** 2).mean() for t, at in lattice.places.items()]) / own
        for lattice, target, x, own in zip(lattices, targets, detail, deviations, strict=True)
    ]


TWO = [tuple(int(a in pair) for a in range(3)) for pair in itertools.combinations(range(3), 2)]


@pytest.mark.parametrize(
    "known",
    [
        [[(1, 1, 1)], [(1, 1, 0), (0, 0, 1)], [(1, 0, 0)]],
        [TWO, TWO, TWO],
        [[(1, 1, 1)], [(1, 1, 1)], [(1, 1, 1)]],
        [[(0, 1, 1), (1, 0, 0)], [(0, 1, 0)], [(0, 0, 0)]],
    ],
    ids=["coarser downward", "two of three", "the joint", "little"],
)
def test_tables_with_a_common_solution_are_met_at_every_level(known):
    root = Lattice.below(DETAIL, known[0])
    _, lattices, targets = case(1, known)
    lattices[0] = Lattice(root.whole, root.known, DETAIL.finest)
    found = raked(lattices, targets)
    for miss in missed(lattices, targets, found):
        assert miss.max() < 0.2  # standard deviations of 1
    for depth, (family, below) in enumerate(zip(FAMILIES, found[1:], strict=True)):
        shared = lattices[depth].detail.summed(found[depth], lattices[depth + 1].finest)
        np.testing.assert_allclose(np.add.reduceat(below, family[:-1], axis=0), shared, rtol=1e-6)


def test_the_detail_of_a_level_that_is_measured_stays_as_it_is():
    cells, lattices, targets = case(2, [[(1, 1, 1)]] * 3)
    for level, x in zip(sums(cells), raked(lattices, targets), strict=True):
        np.testing.assert_allclose(x, level, atol=0.2)


def test_what_a_level_does_not_know_follows_the_level_above():
    cells = np.outer(RNG(3).gamma(2, 5, 10), RNG(4).gamma(1, 1, DETAIL.cells))
    _, lattices, _ = case(3, [[(1, 1, 1)], [(1, 0, 0)], [(1, 0, 0)]])
    targets = [
        np.concatenate([DETAIL.summed(level, marginal) for marginal in lattice.known], axis=1)
        for lattice, level in zip(lattices, sums(cells), strict=True)
    ]
    found = raked(lattices, targets)
    np.testing.assert_allclose(found[2], DETAIL.summed(cells, (1, 0, 0)), rtol=0.02)


def test_impossible_cells_stay_empty():
    zero = np.arange(DETAIL.cells) % 5 == 0
    cells, lattices, _ = case(5, [TWO, TWO, TWO])
    cells[:, zero] = 0
    lattices[0] = Lattice(DETAIL, lattices[0].known, DETAIL.finest)
    targets = [
        np.concatenate([DETAIL.summed(level, marginal) for marginal in lattice.known], axis=1)
        for lattice, level in zip(lattices, sums(cells), strict=True)
    ]
    found = raked(lattices, targets, zero)
    assert (found[0][:, zero] == 0).all()
    assert max(miss.max() for miss in missed(lattices, targets, found)) < 0.5


def test_of_tables_that_contradict_each_other_only_the_finest_deviate():
    _, lattices, targets = case(6, [TWO, TWO, TWO])
    place = lattices[2].places[1, 1, 0]
    targets[2][:, place] *= RNG(7).uniform(0.2, 3.0, targets[2][:, place].shape)  # no longer sums of anything
    found = raked(lattices, targets)
    ranks = lattices[2].ranks
    assert missed(lattices, targets, found)[2][ranks == 2].max() > 1
    assert missed(lattices, targets, found)[2][ranks == 0].max() < SLACK + MET
    assert missed(lattices, targets, found)[0].max() < SLACK + MET


def test_an_inaccurate_table_without_a_common_solution_yields_to_the_accurate_ones():
    _, lattices, targets = case(8, [TWO, TWO, TWO])
    lattice = lattices[0]
    place = lattice.places[1, 1, 0]
    noise = RNG(9).normal(0.0, 30.0, targets[0][:, place].shape)  # no longer what the areas below add up to
    targets[0][:, place] = np.maximum(targets[0][:, place] + noise, 0.0)
    inaccurate = np.array([marginal == (1, 1, 0) for marginal in lattice.known])
    deviations = [np.where(inaccurate, 300.0, 1.0), *(np.ones(len(each.known)) for each in lattices[1:])]
    slack = [np.zeros_like(each) for each in deviations]
    found = rake_tree(
        lattices,
        FAMILIES,
        targets,
        deviations,
        slack,
        [np.zeros((1, DETAIL.cells), dtype=bool)] * len(lattices),
        LargeArrays(threads=1),
    )
    assert max(miss.max() for miss in missed(lattices, targets, found, deviations)) < SLACK + MET


def test_a_soft_table_may_miss_and_what_is_finer_stays_as_it_is():
    cells, lattices, targets = case(10, [[(1, 1, 1)]] * 3)
    for target, lattice in zip(targets, lattices, strict=True):
        target[:, lattice.places[1, 0, 0]] += 0.4  # by less than the slack
    slack = [np.where(np.array(lattice.known)[:, 0] * (lattice.ranks == 1) > 0, 0.5, 0.0) for lattice in lattices]
    for level, x in zip(sums(cells), raked(lattices, targets, slack=slack), strict=True):
        np.testing.assert_allclose(x, level, atol=0.2)
