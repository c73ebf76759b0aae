"""The detail of every area of a tree, such that all its tables are near given ones: iterative proportional fitting.

Each level has a detail of its own: the attributes at the finest levels that its known marginals have
(`Lattice.detail`). Attributes that a level does not know follow their distribution in the area above. So the levels
form a chain in which neighbours share the children's detail, summed over a family, and what one level changes is
handed on as a factor of that: the same numbers as if the finest detail of all leaf areas were raked, for a small part
of the work.

One **round** goes up the tree. Each level takes over what its children changed, and is raked to its own tables, the
finest first, so that the coarsest hold best where there is no common solution. Then every level hands its changes
down. The rounds come in stages, until the tables are met. The first has all tables; one that is no more than the sum of
a finer one may miss its target by the slack of `marginal_coarse`. In the second a cell may miss its
target by a part of its standard deviation: where the tables have no common solution, inaccurate ones yield to accurate
ones. The later ones are a staircase: they leave out the finest tables of the leaf areas, and then the next finer ones,
up to their totals, while a level higher up keeps tables that are `EXTRA` levels finer.

A target near 0 of a fine table is an estimate and not a fact. Zeros that are taken as exact contradict each other. So
the factor of such a table is damped, (t + d)/(q + d), with d = DAMPING standard deviations of its cells.

Source: Deming and Stephan 1940 for raking; the stages and the damping are ours.
"""

from __future__ import annotations

import numpy as np

from tallytree.solvers.tables.lattice import Rows
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import kernel

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
