"""What every node of a tree is estimated to be once all that was measured is combined by least squares.

The numbers whose variances are those of `solvers.trees.variance`; nothing is kept non-negative, so each is unbiased.
With a, A and w as there, S the sum of the x of a node's children, and X what is found in the end,

    upward      x_v = a_v · (y_v/w_v + S/A)        (a leaf: x = y)
    downward    X_c = x_c + (a_c/A) · (X_v − S)    (the root: X = x)

Source: Hay et al. 2010, section 4, for any variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.trees.variance import upward_variances
from tallytree.support.arrays import FloatArray, IntArray


class Estimates(NamedTuple):
    """Estimates, level by level.

    Attributes:
        nodes: per level, float64 (n,), X of every node.
        shifts: per level but the last, float64 (n,), what a child of each node that has no measured children gets in
            addition to its own measurement: (w/A)·(X_v − S).
    """

    nodes: list[FloatArray]
    shifts: list[FloatArray]


def combined_estimates(
    first_child: Sequence[IntArray],
    own: npt.ArrayLike,
    noisy: Sequence[npt.NDArray[np.number]],
    others: Sequence[IntArray],
    other_sums: Sequence[FloatArray],
) -> Estimates:
    """The least-squares estimate of every node of a tree; see the module's docstring.

    Args:
        first_child: see `solvers.trees.variance.combined_variances`.
        own: (levels,) w, the variance of each level's own noise; 0 at the root where its value is given.
        noisy: per level, (n,) y.
        others: per level but the last, int64 (n,): how many more children of each node were measured, none of which has
            measured children of its own.
        other_sums: per level but the last, float64 (n,): the sum of their measurements.

    Example:
        A root measured as 10 and its two children as 4 and 9, all with the same noise:

        >>> two = combined_estimates([np.array([0, 2])], [1, 1], [np.array([10]), np.array([4, 9])],
        ...                          [np.zeros(1, int)], [np.zeros(1)])
        >>> [each.tolist() for each in two.nodes]
        [[11.0], [3.0, 8.0]]
    """
    noise = np.asarray(own, dtype=np.float64)
    upward, totals = upward_variances(first_child, noise, others)
    x = [np.asarray(level, dtype=np.float64) for level in noisy]
    sums: list[FloatArray] = [np.empty(0)] * len(first_child)
    for depth in range(len(noise) - 2, -1, -1):
        sums[depth] = np.add.reduceat(x[depth + 1], first_child[depth][:-1]) + other_sums[depth]
        if noise[depth] > 0:
            share = upward[depth] / noise[depth]
            x[depth] = share * x[depth] + (1 - share) * sums[depth]
    shifts = []
    for depth in range(len(first_child)):
        missing = (x[depth] - sums[depth]) / totals[depth]
        shifts.append(noise[depth + 1] * missing)
        x[depth + 1] = x[depth + 1] + upward[depth + 1] * np.repeat(missing, np.diff(first_child[depth]))
    return Estimates(x, shifts)
