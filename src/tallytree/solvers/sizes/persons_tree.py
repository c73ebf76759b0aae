"""Ranks of persons in households at all levels of a tree, given how many persons each node has.

The ranks of a node are its tail counts T(1) … T(K) and the excess E. As they add up to its persons N, they vary in K
directions only. These are chosen so that in each of them the noise of every cell and the scatter of nodes about their
parents are independent of all others. So the problem falls into K trees of single numbers, which Gaussian smoothing
solves exactly: upward and downward. `persons_families` makes integers of the solution, family by family.
`docs/explanation/households.md` gives the formulas. Source: ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from tallytree.solvers.sizes.persons_families import project_row, round_families, round_row
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, chunks
from tallytree.support.machine import side_by_side

LEAST_VARIANCE = 0.01
"""No cell has a weight in fits as if its variance were less."""
DOUBT = 2.0
"""Of the scatter that was found above what is expected, the part x² / (x² + DOUBT·(standard error)²) is used."""
WIDER = 0.5
"""For stated errors, the scatter is what was found and so many standard errors more."""
ROUNDS = 4
"""In which the weights of moments are found."""
PASSES = 4
"""Downward, at most. In all but the first, siblings make up for what families missed in the one before."""
LEAST_HOUSEHOLDS = 0.5
"""Of each size, in the whole tree, for the expected scatter of nodes."""
CERTAIN_PERSONS = 1
"""A node with at most so many persons has known ranks: nobody, or one household of one person."""
ROUNDING = 0.25
"""The variance that rounding adds to a number, at least, where it is not nearly certain."""
LATTICE = 2.5
"""Rounding adds no more than so many times the variance. So the 90 % interval of an integer reaches its neighbors as
soon as these have a tenth of the probability."""
SLICES = 32
"""The families of a level are divided into about this many slices, which threads work on."""
LEAST_CELLS = 4_000
"""A slice has at least about this many cells."""


class RanksLevel(NamedTuple):
    """One measured level."""

    values: IntArray
    """(nodes, K + 1) noisy tail counts and noisy excess."""
    variance: float
    """Of the noise in every cell, > 0."""
    persons: IntArray
    """(nodes,) what the true cells of each node add up to."""
    first_child: IntArray
    """(nodes + 1,) into the next measured level; not used in the last."""


class RanksFit(NamedTuple):
    """What `fit` finds at one level."""

    ranks: IntArray
    """(nodes, K + 1) tail counts and excess."""
    real: FloatArray
    """(nodes, K + 1) the estimate before rounding."""
    spread: FloatArray
    """(nodes, K) the variances of its error in each of the directions."""
    slope: FloatArray
    """(nodes, K + 1) by how much the estimate changes if the node has one person more."""


class RanksOfTree(NamedTuple):
    """What `fit` returns."""

    levels: list[RanksFit]
    """Root first."""
    directions: FloatArray
    """(K + 1, K) orthonormal columns."""
    missed: int
    """Persons whose rank is another than the parents' first estimates say, as the children's persons cannot have it."""

    def variances(self, level: int, functions: FloatArray, of_persons: FloatArray) -> FloatArray:
        """Of the errors of linear functions of the ranks of each node of a level, with what rounding changed.

        Args:
            level: which one.
            functions: (functions, K + 1)
            of_persons: (nodes,) the variance of the errors of the given persons.

        Returns:
            (nodes, functions)
        """
        found = self.levels[level]
        moved = (found.ranks - found.real) @ functions.T
        real = found.spread @ ((functions @ self.directions) ** 2).T
        real = real + of_persons[:, None] * (found.slope @ functions.T) ** 2
        return np.asarray(real + np.maximum(moved**2, np.minimum(ROUNDING, LATTICE * real)))


class _Estimates(NamedTuple):
    """Of the nodes of a level, in each direction."""

    mean: FloatArray
    """(nodes, K)"""
    variance: FloatArray
    """(nodes, K)"""

    def sums(self, first_child: IntArray) -> _Estimates:
        """Of the children of each node."""
        return _Estimates(*(np.add.reduceat(each, first_child[:-1]) for each in self))


def fit(levels: Sequence[RanksLevel]) -> RanksOfTree:
    """Estimate the ranks of all nodes, as integers.

    Args:
        levels: root first; the root has one node.

    Returns:
        Rows that are non-increasing tail counts and an excess, which is 0 where the last tail count is, with the sums
        `persons`; each node's are the sums of its children's.
    """
    directions, expected = _directions_of(levels)
    raw = _climb(levels, directions)
    scatters = _scatters(levels, raw, expected)
    pinned = [_Pinned.certain(level) for level in levels]
    found = _descend(levels, raw, scatters, directions, pinned)
    missed = mending = _pin(levels, pinned, found)
    for _ in range(PASSES - 1):
        if mending == 0:
            break
        found = _descend(levels, raw, scatters, directions, pinned)
        mending = _pin(levels, pinned, found)
    for i in range(len(found) - 2, -1, -1):
        found[i] = found[i]._replace(ranks=np.add.reduceat(found[i + 1].ranks, levels[i].first_child[:-1]))
    return RanksOfTree(found, directions, missed)


class _Pinned(NamedTuple):
    """Nodes of a level whose ranks are not to be changed."""

    nodes: BoolArray
    """(nodes,)"""
    ranks: IntArray
    """(nodes, K + 1) of these nodes."""

    @classmethod
    def certain(cls, level: RanksLevel) -> _Pinned:
        """Those whose ranks follow from their numbers of persons."""
        ranks = np.zeros(level.values.shape, np.int64)
        ranks[:, 0] = level.persons
        return cls(level.persons <= CERTAIN_PERSONS, ranks)


def _pin(levels: Sequence[RanksLevel], pinned: Sequence[_Pinned], found: Sequence[RanksFit]) -> int:
    """Pin all nodes that their children do not add up to, to what these add up to. How many persons that moves."""
    moved = 0
    for level, pins, above, below in zip(levels[:-1], pinned[:-1], found[:-1], found[1:], strict=True):
        sums = np.add.reduceat(below.ranks, level.first_child[:-1])
        missed = np.abs(sums - above.ranks).sum(axis=1) // 2
        other = np.flatnonzero(missed)
        pins.nodes[other] = True
        pins.ranks[other] = sums[other]
        moved += int(missed.sum())
    return moved


def _descend(
    levels: Sequence[RanksLevel],
    raw: Sequence[_Estimates],
    scatters: Sequence[_Scatter],
    directions: FloatArray,
    pinned: Sequence[_Pinned],
) -> list[RanksFit]:
    """From the root down: each family is estimated given the parent's integers, and rounded.

    Siblings of pinned nodes take over what these differ from their estimates by. Errors that are stated are those
    without pins.
    """
    real, weight = _ranks(raw[0].mean, directions, levels[0].persons), _weights(raw[0].variance, directions)
    ranks = pinned[0].ranks.copy()
    if not pinned[0].nodes[0]:
        round_row(_nearest_row(real[0], weight[0], levels[0].persons[0]), weight[0], levels[0].persons[0], ranks[0])
    even = np.full(ranks.shape, 1 / ranks.shape[1])  # a person more in measured ranks is a part of one in each
    found = [RanksFit(ranks, real, raw[0].variance, even)]
    for level, upper, cells, scatter, pins in zip(levels[1:], levels[:-1], raw[1:], scatters, pinned[1:], strict=True):
        above, parent = found[-1], _parents(upper.first_child)
        prior = level.persons[:, None] * scatter.likely
        gain = _quotient(prior, prior + cells.variance)
        alone = _Estimates(gain * cells.mean, gain * cells.variance)  # of children that are independent of each other
        mean, share = _given_parents(alone, above.ranks @ directions, upper.first_child, parent)
        error = gain**2 * cells.variance + (1 - gain) ** 2 * (level.persons[:, None] * scatter.most)
        together = np.add.reduceat(error, upper.first_child[:-1]) + above.spread
        spread = error * (1 - 2 * share) + share**2 * together[parent]
        real = target = _ranks(mean, directions, level.persons)
        if pins.nodes.any():
            fixed = pins.nodes[:, None]
            held = _Estimates(np.where(fixed, pins.ranks @ directions, alone.mean), np.where(fixed, 0, alone.variance))
            mean, _ = _given_parents(held, above.ranks @ directions, upper.first_child, parent)
            target = _ranks(mean, directions, level.persons)
        ranks = pins.ranks.copy()
        weight = _weights(alone.variance, directions)
        work = partial(_round, upper.first_child, target, weight, pins.nodes, level.persons, above.ranks, ranks)
        at_once = max(1, -(-len(target) // SLICES), LEAST_CELLS // target.shape[1])
        for _ in side_by_side(work, chunks(np.diff(upper.first_child), at_once)):
            pass
        whole = above.ranks @ directions
        expected = (1 - gain) * _quotient(whole, upper.persons[:, None].astype(np.float64))[parent]
        found.append(RanksFit(ranks, real, spread, expected @ directions.T + even[0]))
    return found


def _given_parents(
    alone: _Estimates, above: FloatArray, first_child: IntArray, parent: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Means given that families add up to `above`, and each child's share of what is missing to that."""
    sums = alone.sums(first_child)
    share = _quotient(alone.variance, sums.variance[parent])
    return alone.mean + share * (above - sums.mean)[parent], share


def _round(
    first_child: IntArray,
    target: FloatArray,
    weight: FloatArray,
    fixed: BoolArray,
    persons: IntArray,
    parents: IntArray,
    out: IntArray,
    part: slice,
) -> None:
    round_families(first_child, part.start, part.stop, target, weight, fixed, persons, parents, out)


def _directions_of(levels: Sequence[RanksLevel]) -> tuple[FloatArray, FloatArray]:
    """See `_directions`; from what the raw cells of all levels say of the root."""
    plain, _ = _hyperplane(np.eye(levels[0].values.shape[1]))
    raw = _climb(levels, plain)[0]
    row, persons = _ranks(raw.mean, plain, levels[0].persons)[0], int(levels[0].persons[0])
    return _directions(_nearest_row(row, np.ones(len(row)), persons), persons)


def _climb(levels: Sequence[RanksLevel], directions: FloatArray) -> list[_Estimates]:
    """From the leaves up: least squares over the cells of each node and the sums of its children's estimates.

    Nothing is assumed of the ranks, so that sums of many nodes have no bias.
    """
    found: list[_Estimates] = []
    for level in reversed(levels):
        mean = level.values @ directions
        variance = np.full(mean.shape, level.variance)
        if found:
            sums = found[-1].sums(level.first_child)
            weight = _quotient(variance, variance + sums.variance)
            mean, variance = mean + weight * (sums.mean - mean), variance * (1 - weight)
        certain = np.flatnonzero(level.persons <= CERTAIN_PERSONS)
        mean[certain] = level.persons[certain, None] * directions[0]
        variance[certain] = 0.0
        found.append(_Estimates(mean, variance))
    return found[::-1]


class _Scatter(NamedTuple):
    """The variance per person of a level's nodes about their shares of their parents, in each direction."""

    likely: FloatArray
    """(K,) for estimates."""
    most: FloatArray
    """(K,) for what is stated of their errors."""


def _parents(first_child: IntArray) -> IntArray:
    """The parent of each child."""
    return np.repeat(np.arange(len(first_child) - 1), np.diff(first_child))


def _scatters(levels: Sequence[RanksLevel], raw: Sequence[_Estimates], expected: FloatArray) -> list[_Scatter]:
    """The variance per person, in each direction, of a node about its share of the parent: of each level but the root.

    Found by moments. No level has less than the one below it: what nodes deviate by is part of their parents' ranks.

    Args:
        levels: root first.
        raw: what the raw cells of each node and all below it say.
        expected: the variances per person if households came independently; the least that are taken.
    """
    found: list[_Scatter] = []
    least = most = expected
    for i in range(len(levels) - 1, 0, -1):
        above, parent = levels[i - 1], _parents(levels[i - 1].first_child)
        persons = levels[i].persons.astype(np.float64)
        share = _quotient(persons, above.persons.astype(np.float64)[parent])[:, None]
        part = _quotient(raw[i - 1].variance, raw[i].sums(above.first_child).variance)[parent]
        noise = raw[i].variance * (1 - 2 * share * part) + share**2 * raw[i - 1].variance[parent]
        square = (raw[i].mean - share * raw[i - 1].mean[parent]) ** 2 - noise
        exposure = persons[:, None] * (1 - share)
        scatter = least
        for _ in range(ROUNDS):
            weight = _quotient(exposure, (scatter * exposure + noise) ** 2)
            precision = (weight * exposure).sum(axis=0)
            moment = _quotient((weight * square).sum(axis=0), precision)
            error = _quotient(np.full(len(moment), 2.0), precision)  # its variance, of normal numbers
            more = np.maximum(moment - least, 0.0)
            scatter = least + more * _quotient(more**2, more**2 + DOUBT * error)
        least, most = scatter, np.maximum(moment + WIDER * np.sqrt(error), most)
        found.append(_Scatter(least, most))
    return found[::-1]


def _hyperplane(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The orthonormal eigenvectors of a covariance within the rows whose sum is 0, and their eigenvalues."""
    cells = len(covariance)
    ones = np.full((cells, cells), 1 / cells)
    inside = (np.eye(cells) - ones) @ covariance @ (np.eye(cells) - ones)
    values, vectors = np.linalg.eigh(inside + (1 + 2 * np.trace(inside)) * ones)
    return np.ascontiguousarray(vectors[:, :-1]), np.maximum(values[:-1], 0.0)


def _directions(row: FloatArray, persons: int) -> tuple[FloatArray, FloatArray]:
    """Directions, and the variance per person that a node's ranks have in each if households came independently.

    Households of each size are Poisson numbers, and the excess of the last class is geometric; then N is given.
    """
    k = len(row) - 1
    if persons == 0:
        return _hyperplane(np.eye(k + 1))
    households = np.maximum(-np.diff(row[:k], append=0.0), LEAST_HOUSEHOLDS) / persons
    excess = row[k] / persons
    covariance = np.zeros((k + 1, k + 1))
    covariance[:k, :k] = np.diag(households)
    covariance[k, k - 1] = covariance[k - 1, k] = excess
    covariance[k, k] = excess + 2 * excess**2 / households[k - 1] + LEAST_HOUSEHOLDS / persons
    tails = np.eye(k + 1)
    tails[:k, :k] = np.triu(np.ones((k, k)))
    covariance = tails @ covariance @ tails.T
    sums = covariance.sum(axis=0)
    return _hyperplane(covariance - np.outer(sums, sums) / sums.sum())


def _ranks(mean: FloatArray, directions: FloatArray, persons: IntArray) -> FloatArray:
    """From coordinates to ranks, which add up to the persons."""
    return np.asarray(mean @ directions.T + persons[:, None] / len(directions))


def _weights(variance: FloatArray, directions: FloatArray) -> FloatArray:
    return np.asarray(1 / np.maximum(variance @ (directions**2).T, LEAST_VARIANCE))


def _nearest_row(row: FloatArray, weight: FloatArray, persons: int) -> FloatArray:
    out = np.empty(len(row))
    project_row(row, weight, float(persons), out, np.empty((3, len(row))), np.empty(len(row), np.int64))
    return out


def _quotient(part: FloatArray, whole: FloatArray) -> FloatArray:
    out = np.zeros(np.broadcast_shapes(part.shape, whole.shape))
    return np.divide(part, whole, out=out, where=whole > 0)
