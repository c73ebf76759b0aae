"""How large the error of each published count of a level is expected to be, given all noisy numbers.

The count is another number than the unbiased estimate of its node, which x ≥ 0, sums and rounding have moved. So its
error is that of the posterior: what is expected of a node is an equal part of its parent's count, and how far nodes lie
from that is learned from the estimates of the level (`solvers.laws`). Numbers do not change.
"""

from __future__ import annotations

import numpy as np

from tallytree.counts.released_counts import ReleasedCounts
from tallytree.hierarchy import Tree
from tallytree.solvers.laws import MOST_MOVED, learned_laws, posteriors
from tallytree.support.arrays import FloatArray


def typical_error(tree: Tree, depth: int, level: ReleasedCounts, above: ReleasedCounts | None) -> FloatArray:
    """The root mean square error that is expected of each count of a level: float64 (n,).

    Where there are too few nodes to learn from, it is the standard deviation of the estimate. It is no less where the
    count is more than that above what is expected, since there are few such nodes to learn from. A count that is
    further from its estimate than `MOST_MOVED` standard deviations errs by the rest at least.

    Args:
        tree: an enumerated tree.
        depth: of the level.
        level: all of its nodes, with `std_dev` and `unbiased`.
        above: the level above with its typical errors; None of the root.
    """
    s, z, counts = level.std_dev, level.unbiased, level.counts.astype(np.float64)
    if s is None or z is None:
        raise ValueError("level: has no std_dev, or no unbiased estimates")
    squares = s**2
    if above is not None and above.std_dev is not None and above.typical_error is not None:
        parents = tree.parents(depth, level.nodes)
        if tree.only_children(depth):
            return above.typical_error[parents]
        children = tree.child_counts(depth - 1, above.nodes)[parents]
        # The part of its parent's noise that each node has. Where the parent is 0, so much may be there.
        shared = (above.std_dev[parents] / children) ** 2
        expected = np.maximum(above.counts[parents] / children, np.sqrt(shared))[:, None]
        laws = learned_laws(z[:, None], expected, s)
        if laws is not None:
            mean, variance, held = (np.empty_like(expected) for _ in range(3))
            posteriors(
                z[:, None], expected, s, laws.stratum, laws.weights, laws.guarded, mean, variance, held
            )  # fmt: skip
            pooled = 1 - variance[:, 0] / np.where(s > 0, squares, np.inf)
            squares = variance[:, 0] * laws.part + np.clip(pooled, 0, 1) * shared
            squares = np.where(s > 0, squares + ((mean - held)[:, 0] - counts) ** 2, 0.0)
            squares = np.where(counts > expected[:, 0] + s, np.maximum(squares, s**2), squares)
    found: FloatArray = np.sqrt(np.maximum(squares, np.maximum(np.abs(counts - z) - MOST_MOVED * s, 0) ** 2))
    return found
