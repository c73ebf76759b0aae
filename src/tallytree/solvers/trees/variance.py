"""How uncertain every node of a tree is once all that was measured is combined by least squares.

    upward      1/a_v = 1/w_v + 1/Σ_children a_c        (a leaf: a = w, the variance of its own noise)
    downward    u_c = a_c − a_c²/A + (a_c/A)²·u_v       with A the sum of a over the children of v (the root: u = a)

Hay et al. 2010 (section 4) give the estimate for equal variances; this is its variance for any. Where levels are fitted
from the root down only, each given the one above, a = w at every level (`downward_variances`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.support.arrays import FloatArray, IntArray


class Combined(NamedTuple):
    """Variances, level by level.

    Attributes:
        nodes: per level, float64 (n,), u of every node.
        families: per level but the last, float64 (n,), A of every node's children.
    """

    nodes: list[FloatArray]
    families: list[FloatArray]

    def of_a_child(self, depth: int, own: float) -> FloatArray:
        """Float64 (n,): u of a child of each node of level `depth` that has no measured children; `own` is its w."""
        return _share(np.float64(own), self.families[depth], self.nodes[depth])


def combined_variances(
    first_child: Sequence[IntArray], own: npt.ArrayLike, others: Sequence[IntArray] | None = None
) -> Combined:
    """The variance of every node of a tree after least squares over all of it; see the module's docstring.

    Args:
        first_child: per level but the last, int64 (n + 1,): node i has the children first_child[i] … first_child[i + 1]
            − 1 of the next level, at least one.
        own: (levels,) w, the variance of each level's own noise; 0 at the root where its value is given.
        others: per level but the last, int64 (n,): how many more children of each node were measured, none of which
            has measured children of its own.
    """
    noise = np.asarray(own, dtype=np.float64)
    upward, sums = upward_variances(first_child, noise, others)
    found = [upward[0]]
    for depth in range(1, len(noise)):
        children = np.diff(first_child[depth - 1])
        found.append(_share(upward[depth], np.repeat(sums[depth - 1], children), np.repeat(found[-1], children)))
    return Combined(found, sums)


def upward_variances(
    first_child: Sequence[IntArray], noise: FloatArray, others: Sequence[IntArray] | None = None
) -> tuple[list[FloatArray], list[FloatArray]]:
    """The variance a of every node given what was measured below it and of it, and A of the children of every node.

    Args and levels as in `combined_variances`; `noise` is its `own`.
    """
    leaves = int(first_child[-1][-1]) if first_child else 1
    upward = [np.full(leaves, noise[-1])]
    sums: list[FloatArray] = []
    for depth in range(len(noise) - 2, -1, -1):
        total = np.add.reduceat(upward[-1], first_child[depth][:-1])
        if others is not None:
            total += others[depth] * noise[depth + 1]
        sums.append(total)
        upward.append(noise[depth] * total / (noise[depth] + total))
    return upward[::-1], sums[::-1]


def downward_variances(first_child: Sequence[IntArray], own: npt.ArrayLike) -> list[FloatArray]:
    """The variance of every node where a family's difference from its parent is shared out evenly, root first.

    Args:
        first_child: see `combined_variances`.
        own: (levels,) the variance of each level's own noise; 0 at the root where its value is given.

    Returns:
        Per level, float64 (n,).
    """
    noise = np.asarray(own, dtype=np.float64)
    found = [np.full(1, noise[0])]
    for offsets, below in zip(first_child, noise[1:], strict=True):
        children = np.diff(offsets)
        found.append(_share(np.float64(below), np.repeat(children * below, children), np.repeat(found[-1], children)))
    return found


def mean_family_variances(nodes: Sequence[int], own: npt.ArrayLike, *, upward: bool) -> list[float]:
    """The variance of a node of each level of a tree whose families of one level all have the mean size, root first.

    Args:
        nodes: (levels,) how many nodes each level has.
        own: (levels,) the variance of each level's own noise; 0 at the root where its value is given.
        upward: whether the measurements of a node's descendants correct the node; else as in `downward_variances`.
    """
    up = [float(each) for each in np.asarray(own, dtype=np.float64)]
    sizes = [below / above for above, below in pairwise(nodes)]
    if upward:
        for depth in range(len(up) - 2, -1, -1):
            total = sizes[depth] * up[depth + 1]
            up[depth] = up[depth] * total / (up[depth] + total)
    found = up[:1]
    for size, a in zip(sizes, up[1:], strict=True):
        found.append(a * (1 - 1 / size) + found[-1] / size**2)
    return found


def _share(a: FloatArray | np.float64, total: FloatArray, above: FloatArray) -> FloatArray:
    # Not a − a²/A, which can round to less than 0.
    return a * ((total - a) / total) + (a / total) ** 2 * above
