"""Which leaves of a measured tree are not zero: least squares with a price on every leaf that is not zero.

The tree projection of `tree` fits every measurement, noise included: below a count of 3 it often has three ones instead
of a three and two zeros. On sparse data most of these ones are false. Here every leaf that is not zero costs `penalty`,
and a leaf is kept if the measurements on its path outweigh that. A single weak measurement does not; ten weak ones do,
of a leaf and of the ancestors that have no other leaf.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_integers, check_offsets
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernel_arrays import stable_order
from tallytree.support.kernels import kernel


def support(first_child: npt.ArrayLike, noisy: npt.ArrayLike, variances: npt.ArrayLike, penalty: float) -> BoolArray:
    """Choose nodes so that Σ (x − noisy)²/variance + penalty · (leaves with x > 0) is small; greedy, not the minimum.

    Upward, every node v is given the best x that it could have were it not zero (a value z_v with variance u_v: its own
    measurement and the sum of its chosen children, combined by their variances), and its evidence Δ_v: how much the sum
    above falls if v is not zero but that. A leaf has z = noisy, u = variance, Δ = noisy²/variance − penalty. Of the
    children of v, in descending order of evidence, the first is chosen, and then all that have evidence of their own or
    bring the z of all chosen children so much nearer to what was measured at v that it pays. A node that would be
    negative has no evidence. Downward, what was chosen by a chosen node is kept.

    Args:
        first_child: (n + 1,) the children of node i are first_child[i] … first_child[i + 1] − 1; parents come before
            children, the root is node 0.
        noisy: (n,) integers.
        variances: (n,) of the noise, > 0; 0 at the root where its value is given.
        penalty: the price of a leaf, >= 0; κ² keeps a lone leaf whose measurement is above κ standard deviations.

    Returns:
        (n,) bool, which nodes are kept. Every kept node that has children keeps one at least. O(n log n).

    Raises:
        TypeError: for anything but numbers.
        ValueError: for offsets that are no tree, another number of variances, or ones that are negative or not finite.

    Example:
        >>> support([1, 3, 3, 3], [10, 9, 1], [0, 1, 1], 4.0).tolist()
        [True, True, False]
    """
    values = check_integers("noisy", noisy)
    n = len(values)
    cuts = check_integers("first_child", first_child)
    if len(cuts) != n + 1:
        raise ValueError(f"first_child has {len(cuts)} entries; noisy has {n}, so it must have {n + 1}")
    if n == 0:
        return np.zeros(0, np.bool_)
    check_offsets("first_child", cuts - 1, "nodes below the root", n - 1)
    if (cuts[:-1] <= np.arange(n)).any():
        raise ValueError("first_child: a node has children that come before it; number parents before children")
    spread = np.asarray(variances)
    if spread.dtype.kind not in "iuf":
        raise TypeError(f"variances has dtype {spread.dtype}; it must hold real numbers")
    spread = spread.astype(np.float64)
    if spread.shape != values.shape:
        raise ValueError(f"variances has shape {spread.shape}; it must have that of noisy, {values.shape}")
    if not np.isfinite(spread).all() or (spread[1:] <= 0).any() or (spread[:1] < 0).any():
        raise ValueError("variances must be positive and finite (that of the root may be 0)")
    if math.isnan(penalty) or penalty < 0:
        raise ValueError(f"penalty={penalty} must be at least 0")
    return _support(cuts, values.astype(np.float64), spread, float(penalty))


@kernel
def _support(first_child: IntArray, y: FloatArray, variance: FloatArray, penalty: float) -> BoolArray:
    """Invariant of the first loop: z, u and Δ of all nodes after i are known, and which children those would keep."""
    n = len(y)
    z, u, evidence = np.empty(n), np.empty(n), np.empty(n)
    kept = np.zeros(n, np.bool_)
    for i in range(n - 1, -1, -1):
        a, b = first_child[i], first_child[i + 1]
        if a == b:
            z[i], u[i] = y[i], variance[i]
            alone = y[i] * y[i] / variance[i] if variance[i] > 0 else np.inf
            evidence[i] = (alone if y[i] > 0 else -alone) - penalty
            continue
        order = stable_order(-evidence[a:b])
        below, spread, gain, best = 0.0, 0.0, 0.0, -np.inf
        for rank in range(b - a):
            c = a + order[rank]
            off = y[i] - (below + z[c])
            together = gain + evidence[c] - off * off / (variance[i] + spread + u[c])
            if not (rank == 0 or evidence[c] > 0 or together > best):
                break
            below, spread, gain, best = below + z[c], spread + u[c], gain + evidence[c], together
            kept[c] = True
        both = variance[i] + spread
        z[i] = (y[i] * spread + below * variance[i]) / both
        u[i] = variance[i] * spread / both
        if variance[i] > 0:
            evidence[i] = best + y[i] * y[i] / variance[i]
        if z[i] <= 0:
            evidence[i] = -abs(evidence[i]) - penalty
    kept[0] = True
    for i in range(n):
        if not kept[i]:
            for c in range(first_child[i], first_child[i + 1]):
                kept[c] = False
    return kept
