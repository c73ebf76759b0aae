"""The detail of every area of a tree, such that all its tables are near given ones: iterative proportional fitting.

Each level has a detail of its own: the attributes at the finest levels that its known marginals have
(`Lattice.detail`). Attributes that a level does not know follow their distribution in the area above. So the levels
form a chain in which neighbours share the children's detail, summed over a family, and what one level changes is
handed on as a factor of that: the same numbers as if the finest detail of all leaf areas were raked, for a small part
of the work.

One **round** goes up the tree. Each level takes over what its children changed, and is raked to its own tables, the
finest first, so that the coarsest hold best where there is no common solution. Then every level hands its changes down.
The rounds come in stages, until the tables are met. The first has all tables; one that is no more than the sum of a
finer one may miss its target by the slack of `coarse`. In the second a cell may miss its target by a part of
its standard deviation: where the tables have no common solution, inaccurate ones yield to accurate ones. The later ones
are a staircase: they leave out the finest tables of the leaf areas, and then the next finer ones, up to their totals,
while a level higher up keeps tables that are `EXTRA` levels finer.

A target near 0 of a fine table is an estimate and not a fact. Zeros that are taken as exact contradict each other. So
the factor of such a table is damped, (t + d)/(q + d), with d = DAMPING standard deviations of its cells.

Source: Deming and Stephan 1940 for raking; the stages and the damping are ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from tallytree.solvers.tables.marginals import Lattice, Rows
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, families_of, rows_at
from tallytree.support.kernels import kernel
from tallytree.support.large_arrays import LargeArrays

DAMPING = 1.5
LEAST_DAMPING = 0.02
EXTRA = 2
LOWEST = 1e-14
"""No cell that may have records falls below this, so that it can rise again."""


@kernel
def rake(
    lattice: Rows,
    targets: FloatArray,
    order: IntArray,
    damping: FloatArray,
    slack: FloatArray,
    x: FloatArray,
    squares: FloatArray,
) -> None:
    """Rake the detail of each area to its tables, one after the other.

    Args:
        lattice: the marginals.
        targets: (areas, P) the tables.
        order: numbers of marginals.
        damping: (K,).
        slack: (K,) by how much a cell may miss its target.
        x: (areas, cells) the detail, changed.
        squares: (areas, K) gets of each table, as it was found, the sum of squares of what the cells miss beyond that.
    """
    factor = np.empty(targets.shape[1])
    for i in range(len(x)):
        for k in order:
            for g in range(lattice.begin[k], lattice.begin[k + 1]):
                factor[g] = 0.0
            place = lattice.place[k]
            for j in range(x.shape[1]):
                factor[place[j]] += x[i, j]
            square = 0.0
            for g in range(lattice.begin[k], lattice.begin[k + 1]):
                near = min(max(factor[g], targets[i, g] - slack[k]), targets[i, g] + slack[k])
                square += (factor[g] - near) ** 2
                factor[g] = (near + damping[k]) / (factor[g] + damping[k])
            squares[i, k] = square
            for j in range(x.shape[1]):
                if x[i, j] > 0.0:
                    x[i, j] = max(x[i, j] * factor[place[j]], LOWEST)


@kernel
def missed(lattice: Rows, targets: FloatArray, slack: FloatArray, x: FloatArray, squares: FloatArray) -> None:
    """Write the sum of squares of what the cells of each table miss beyond the slack; see `rake`."""
    sums = np.empty(targets.shape[1])
    for i in range(len(x)):
        sums[:] = 0.0
        for k in range(len(slack)):
            place = lattice.place[k]
            for j in range(x.shape[1]):
                sums[place[j]] += x[i, j]
            squares[i, k] = 0.0
            for g in range(lattice.begin[k], lattice.begin[k + 1]):
                squares[i, k] += max(abs(sums[g] - targets[i, g]) - slack[k], 0.0) ** 2


@kernel
def gather(families: IntArray, x: FloatArray, sums: FloatArray) -> None:
    """Write the sum of the children's rows of each area; children are counted from families[0]."""
    for i in range(len(sums)):
        for j in range(sums.shape[1]):
            sums[i, j] = 0.0
        for c in range(families[i] - families[0], families[i + 1] - families[0]):
            for j in range(sums.shape[1]):
                sums[i, j] += x[c, j]


@kernel
def take_over(shared: IntArray, sums: FloatArray, x: FloatArray) -> None:
    """Scale the detail of each area such that it has the sums of its children.

    Args:
        shared: (cells of the areas' detail,) the cell of the children's detail.
        sums: (areas, cells of the children's detail).
        x: (areas, cells), changed.
    """
    factor = np.empty(sums.shape[1])
    for i in range(len(x)):
        for g in range(len(factor)):
            factor[g] = 0.0
        for j in range(x.shape[1]):
            factor[shared[j]] += x[i, j]
        for g in range(len(factor)):
            factor[g] = sums[i, g] / factor[g] if factor[g] > 0.0 else 0.0
        for j in range(x.shape[1]):
            if x[i, j] > 0.0:
                x[i, j] = max(x[i, j] * factor[shared[j]], LOWEST)


@kernel
def hand_down(shared: IntArray, families: IntArray, x: FloatArray, sums: FloatArray, children: FloatArray) -> None:
    """Scale the children's detail such that it adds up to that of each area.

    Args:
        shared: (cells of the areas' detail,) the cell of the children's detail.
        families: (areas + 1,) where the children of each begin, counted from families[0].
        x: (areas, cells of their detail).
        sums: (areas, cells of the children's detail) of the children.
        children: (children, cells), changed.
    """
    factor = np.empty(sums.shape[1])
    for i in range(len(x)):
        for g in range(len(factor)):
            factor[g] = 0.0
        for j in range(x.shape[1]):
            factor[shared[j]] += x[i, j]
        for g in range(len(factor)):
            factor[g] = factor[g] / sums[i, g] if sums[i, g] > 0.0 else 0.0
        for c in range(families[i] - families[0], families[i + 1] - families[0]):
            for g in range(len(factor)):
                if children[c, g] > 0.0:
                    children[c, g] = max(children[c, g] * factor[g], LOWEST)


logger = logging.getLogger(__name__)

FIRST_ROUNDS, ROUNDS = 200, 60
"""The most rounds of the two stages with all tables, and of each later one."""
MET = 0.1
"""A table is met when it misses its targets by no more than this, in standard deviations of its cells."""
LOOK_EVERY, SLOW = 10, 0.95
"""After so many rounds, a stage ends if the worst miss is not below this part of what it was before them."""
SLACK, TOTAL_SLACK = 0.25, 0.1
"""Where the tables have no common solution, cells may miss their targets by so much more, in their standard deviations;
totals by the second."""
PATTERN = 0.01
"""What is added to each cell of a detail that starts from its own table, as a part of a record."""
EXTRAS = (1, 0)
"""Last come stages with the totals of the leaf areas, and so many levels finer tables for each level above them."""


@dataclass(frozen=True, eq=False)
class _Tree:
    """What the rounds need; per level, but `shared`, `families` per level but the last."""

    lattices: Sequence[Lattice]
    families: Sequence[IntArray]
    targets: Sequence[FloatArray]
    deviations: Sequence[FloatArray]
    slack: Sequence[FloatArray]
    detail: list[FloatArray]
    shared: list[IntArray]
    sums: list[FloatArray]
    arrays: LargeArrays


def rake_tree(
    lattices: Sequence[Lattice],
    families: Sequence[IntArray],
    targets: Sequence[FloatArray],
    deviations: Sequence[FloatArray],
    slack: Sequence[FloatArray],
    zero: Sequence[BoolArray],
    arrays: LargeArrays,
) -> list[FloatArray]:
    """Per level, (areas, cells of its own detail): the real detail whose tables are near the targets.

    Args:
        lattices: per level, its known marginals.
        families: per level but the last, int64 (areas + 1,): where the children of each area begin.
        targets: per level, float64 (areas, P) non-negative tables.
        deviations: per level, (K,) the standard deviation of a cell of each table.
        slack: per level, (K,) by how much a cell of each table may miss its target at no cost.
        zero: per level, bool (areas or 1, detail cells), those that are 0; one row is of all areas.
        arrays: makes the details.
    """
    shared = [above.detail.cell_of(below.finest) for above, below in pairwise(lattices)]
    detail = _begun(lattices, families, targets, zero, arrays)
    sums = [arrays.empty((len(x), below.detail.cells)) for x, below in zip(detail, lattices[1:], strict=False)]
    tree = _Tree(lattices, families, targets, deviations, slack, detail, shared, sums, arrays)
    for stage, (tables, yields, rounds) in enumerate(_stages(lattices)):
        if stage == 1:  # from the beginning: where there is no common solution, cells fall and do not rise again
            tree = replace(tree, detail=_begun(lattices, families, targets, zero, arrays))
        within = [_within(tree, depth, yields) for depth in range(len(lattices))]
        number, worst, before = 0, np.inf, np.inf
        while number < rounds and worst >= MET:
            worst = _worst(_round(tree, tables, within), tables)
            number += 1
            if worst < MET or number % LOOK_EVERY == 0:
                worst = _worst(_missed(tree, within), tables)
                if worst > SLOW * before:
                    break
                before = worst if number % LOOK_EVERY == 0 else before
        logger.info("raking, stage %d: %d rounds", stage + 1, number)
        if worst < MET:
            break
    return tree.detail


def _begun(
    lattices: Sequence[Lattice],
    families: Sequence[IntArray],
    targets: Sequence[FloatArray],
    zero: Sequence[BoolArray],
    arrays: LargeArrays,
) -> list[FloatArray]:
    """The detail of every level from which raking starts."""
    detail: list[FloatArray] = []
    for depth, lattice in enumerate(lattices):
        areas, cells = len(targets[depth]), lattice.detail.cells
        if lattice.finest in lattice.places:
            begun = partial(_from_table, lattice, targets[depth], zero[depth])
        elif depth == 0:
            begun = partial(_possible, lattice, zero[depth])
        else:
            parents = np.repeat(np.arange(len(families[depth - 1]) - 1), np.diff(families[depth - 1]))
            begun = partial(_like_above, lattices[depth - 1], lattice, detail[-1], parents, targets[depth], zero[depth])
        detail.append(arrays.empty((areas, cells)))
        arrays.each(partial(_written, detail[-1], begun), np.full(areas, cells))
    return detail


def _written(x: FloatArray, begun: Callable[[slice], FloatArray], part: slice) -> None:
    x[part] = begun(part)


def _from_table(lattice: Lattice, targets: FloatArray, zero: BoolArray, part: slice) -> FloatArray:
    """The detail of some areas from their own table of it."""
    place = lattice.places[lattice.finest]
    pattern = np.minimum(PATTERN, PATTERN * targets[part, :1] / lattice.detail.cells)
    possible = ~lattice.whole.holds_all(rows_at(zero, part), lattice.finest)
    return np.asarray((targets[part, place] + pattern) * possible, dtype=np.float64)


def _possible(lattice: Lattice, zero: BoolArray, part: slice) -> FloatArray:
    """The detail of the root: 1 in each cell that may have records."""
    return np.asarray(~lattice.whole.holds_all(zero, lattice.finest), dtype=np.float64)


def _like_above(
    above: Lattice,
    lattice: Lattice,
    detail: FloatArray,
    parents: IntArray,
    targets: FloatArray,
    zero: BoolArray,
    part: slice,
) -> FloatArray:
    """The detail of some areas, which follows that of the areas above, as far as records can be there."""
    rows, place = np.unique(parents[part], return_inverse=True)
    pattern = above.detail.summed(detail[rows[0] : rows[-1] + 1], lattice.finest)
    if len(zero) == 1:  # as it is above
        totals = targets[part, 0] / np.maximum(pattern.sum(axis=1), 1e-300)[place]
        return np.asarray(pattern[place] * totals[:, None])
    own = pattern[place] * ~lattice.whole.holds_all(zero[part], lattice.finest)
    return np.asarray(own * (targets[part, 0] / np.maximum(own.sum(axis=1), 1e-300))[:, None])


def _worst(misses: Sequence[FloatArray], tables: Sequence[tuple[int, ...]]) -> float:
    """The largest miss of the chosen tables of every level."""
    return max(float(miss[list(chosen)].max(initial=0.0)) for miss, chosen in zip(misses, tables, strict=True))


def _stages(lattices: Sequence[Lattice]) -> Iterator[tuple[list[tuple[int, ...]], bool, int]]:
    """Of each stage, the tables of every level, the finest first, whether tables yield, and the most rounds."""
    last = len(lattices) - 1
    ordered = [sorted(range(len(each.known)), key=lambda k: (-each.ranks[k], k)) for each in lattices]
    yield [tuple(order) for order in ordered], False, FIRST_ROUNDS
    yield [tuple(order) for order in ordered], True, FIRST_ROUNDS
    fewer = [(most, EXTRA) for most in range(int(lattices[last].ranks.max()) - 1, -1, -1)]
    for most, extra in (*fewer, *((0, each) for each in EXTRAS)):
        chosen = [
            tuple(k for k in order if each.ranks[k] <= most + extra * (last - depth))
            for depth, (each, order) in enumerate(zip(lattices, ordered, strict=True))
        ]
        yield chosen, True, ROUNDS


def _damping(tree: _Tree, depth: int) -> FloatArray:
    """D of every table of a level: only the leaf areas' tables of two attributes and more are damped."""
    fine = (tree.lattices[depth].ranks >= 2) & (depth == len(tree.lattices) - 1) & (depth > 0)
    return np.where(fine, np.maximum(DAMPING * tree.deviations[depth], LEAST_DAMPING), LEAST_DAMPING)


def _within(tree: _Tree, depth: int, yields: bool) -> FloatArray:
    """By how much the cells of a level's tables may miss their targets, float64 (K,); more where tables yield."""
    if not yields:
        return tree.slack[depth]
    part = np.where(tree.lattices[depth].ranks == 0, TOTAL_SLACK, SLACK)
    return np.asarray(tree.slack[depth] + part * tree.deviations[depth])


def _round(tree: _Tree, tables: Sequence[tuple[int, ...]], within: Sequence[FloatArray]) -> list[FloatArray]:
    """One round up and down; by how much each table missed its targets in its turn, beyond the slack."""
    misses: list[FloatArray] = []
    for depth in range(len(tree.lattices) - 1, -1, -1):
        if depth < len(tree.lattices) - 1:
            _each(tree, depth, partial(_gather, tree, depth))
            take_over(tree.shared[depth], tree.sums[depth], tree.detail[depth])
        misses.insert(0, _raked(tree, depth, np.array(tables[depth], dtype=np.int64), within[depth]))
    for depth in range(len(tree.families)):
        _each(tree, depth, partial(_hand_down, tree, depth))
    return misses


def _each(tree: _Tree, depth: int, work: Callable[[slice], None]) -> None:
    """Do the work for all areas of a level, some at a time."""
    tree.arrays.each(work, np.diff(tree.families[depth]) * tree.detail[depth + 1].shape[1])


def _gather(tree: _Tree, depth: int, part: slice) -> None:
    begins, children = families_of(tree.families[depth], part)
    gather(begins, tree.detail[depth + 1][children], tree.sums[depth][part])


def _hand_down(tree: _Tree, depth: int, part: slice) -> None:
    begins, children = families_of(tree.families[depth], part)
    x, below = tree.detail[depth][part], tree.detail[depth + 1][children]
    gather(begins, below, tree.sums[depth][part])
    hand_down(tree.shared[depth], begins, x, tree.sums[depth][part], below)


def _raked(tree: _Tree, depth: int, order: IntArray, within: FloatArray) -> FloatArray:
    """Rake a level; the miss of each table as it was found."""
    x, rows, damping = tree.detail[depth], tree.lattices[depth].rows, _damping(tree, depth)

    def squared(part: slice, squares: FloatArray) -> None:
        rake(rows, tree.targets[depth][part], order, damping, within, x[part], squares)

    return _deviating(tree, depth, squared)


def _missed(tree: _Tree, within: Sequence[FloatArray]) -> list[FloatArray]:
    """By how much each table of every level misses its targets beyond the slack, in standard deviations."""

    def of(depth: int) -> FloatArray:
        """The same of one level."""
        x, rows = tree.detail[depth], tree.lattices[depth].rows

        def squared(part: slice, squares: FloatArray) -> None:
            missed(rows, tree.targets[depth][part], within[depth], x[part], squares)

        return _deviating(tree, depth, squared)

    return [of(depth) for depth in range(len(tree.lattices))]


def _deviating(tree: _Tree, depth: int, squared: Callable[[slice, FloatArray], None]) -> FloatArray:
    """The root of the mean square of the cells of each table, in standard deviations: float64 (K,).

    Args:
        tree: all levels.
        depth: the level.
        squared: writes the sum of squares of each table of some areas, (areas, K).
    """
    x, rows = tree.detail[depth], tree.lattices[depth].rows

    def work(part: slice) -> FloatArray:
        squares = np.zeros((part.stop - part.start, len(rows.begin) - 1))
        squared(part, squares)
        return np.asarray(squares.sum(axis=0), dtype=np.float64)

    squares = np.sum(tree.arrays.each(work, np.full(*x.shape)), axis=0)
    return np.asarray(np.sqrt(squares / (len(x) * np.diff(rows.begin))) / tree.deviations[depth], dtype=np.float64)
