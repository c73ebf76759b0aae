"""The post-processing of M_c^ch: one isotonic regression over all sizes and all leaves (Fioretto et al. 2021, 9.2.3).

The chain visits, size by size, the hierarchy in post-order. On it every level's running sums are monotone, and an inner
node's equals that of its last leaf (in tails: of its first one), so that equal neighbors merge into one weighted cell
and Model 3 is an isotonic regression with one cell per size and leaf.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_SUM, check_integers, check_offsets
from tallytree.solvers.exact import mean_at_least
from tallytree.support.arrays import IntArray
from tallytree.support.kernels import kernel


def fit_chain(
    noisy: Sequence[npt.ArrayLike],
    first_leaf: Sequence[npt.ArrayLike],
    weights: Sequence[int] | None = None,
    *,
    total: int | None = None,
) -> IntArray:
    """Minimise Σ_levels w_ℓ·Σ_(s, r) (t_ℓ(s, r) − noisy_ℓ[r, s])² over consistent, non-increasing integer tails t ≥ 0.

    t_ℓ(s, r) is the number of groups of the level with (size, node) ≥ (s, r), sizes first. So over all levels t is
    determined by t at the leaves: t_ℓ(s, r) = t(s, first leaf of r), which is non-increasing along the chain.

    Args:
        noisy: per measured level, integers (n_ℓ, W).
        first_leaf: per measured level, (n_ℓ + 1,): node r of the level holds the leaves first_leaf[r] …
            first_leaf[r + 1] − 1. The last level must be that of the leaves.
        weights: per measured level, a positive integer; 1 by default.
        total: the number of groups in all, which is the first tail; private (and so free) by default.

    Returns:
        int64 (n_leaves, W): the number of groups of each leaf and size. It is the integer optimum: pooling adjacent
        violators, in exact arithmetic, and rounding halves up. O(n_leaves · W).

    Raises:
        TypeError: for anything but integers.
        ValueError: levels that do not fit each other, weights < 1, a negative total, or integers so large that a
            weighted sum could reach 2^62.

    Example:
        >>> fit_chain([[[3, 1]], [[3, 1], [2, 0]]], [[0, 2], [0, 1, 2]], total=4).tolist()
        [[2, 1], [1, 0]]
    """
    tables, cuts, factors = _checked(noisy, first_leaf, weights)
    leaves, width = tables[-1].shape
    sums = np.zeros((width, leaves), dtype=np.int64)
    weight = np.zeros(leaves, dtype=np.int64)
    for table, cut, factor in zip(tables, cuts, factors, strict=True):
        sums[:, cut[:-1]] += factor * table.T
        weight[cut[:-1]] += factor
    if total is not None and (isinstance(total, bool) or not isinstance(total, int | np.integer) or total < 0):
        raise ValueError(f"total: {total!r} must be an integer ≥ 0, or None where it is private")
    tails = np.empty(width * leaves + 1, dtype=np.int64)
    tails[-1] = 0
    _fit_tails(sums.reshape(-1), weight, -1 if total is None else int(total), tails[:-1])
    return np.ascontiguousarray((tails[:-1] - tails[1:]).reshape(width, leaves).T)


def _checked(
    noisy: Sequence[npt.ArrayLike], first_leaf: Sequence[npt.ArrayLike], weights: Sequence[int] | None
) -> tuple[list[IntArray], list[IntArray], list[int]]:
    tables = [np.asarray(table) for table in noisy]
    if not tables or len(tables) != len(first_leaf):
        raise ValueError(
            f"first_leaf: {len(first_leaf)} levels must be as many as noisy has, {len(tables)}; at least 1"
        )
    if any(table.ndim != 2 or table.shape[1] != tables[-1].shape[1] or table.size == 0 for table in tables):
        shapes = [table.shape for table in tables]
        raise ValueError(f"noisy: the shapes are {shapes}; every level needs one row per node and one column per size")
    leaves, width = tables[-1].shape
    cuts = [check_offsets("first_leaf", cut, "the leaves", leaves) for cut in first_leaf]
    for table, cut in zip(tables, cuts, strict=True):
        if len(cut) != len(table) + 1 or (np.diff(cut) == 0).any():
            raise ValueError(f"first_leaf: {len(cut)} entries must give each of {len(table)} nodes at least one leaf")
    if len(cuts[-1]) != leaves + 1:
        raise ValueError("first_leaf: the last level must be that of the leaves")
    factors = [1] * len(tables) if weights is None else list(weights)
    if len(factors) != len(tables):
        raise ValueError(f"weights: {len(factors)} were given for {len(tables)} levels; give one for each")
    for factor in factors:
        if isinstance(factor, bool) or not isinstance(factor, int | np.integer) or factor < 1:
            raise ValueError(f"weights: {factor!r} must be a positive integer")
    flat = [check_integers("noisy", table.reshape(-1)).reshape(table.shape) for table in tables]
    reach = sum(
        float(factor) * np.abs(table.astype(np.float64)).sum() for factor, table in zip(factors, flat, strict=True)
    )
    if 4 * (reach + sum(map(float, factors)) * leaves * width) >= MAX_SUM:
        raise ValueError(f"noisy: the weighted sum of all {leaves}·{width} cells could reach 2^60; use a coarser unit")
    return flat, cuts, [int(factor) for factor in factors]


@kernel
def _fit_tails(sums: IntArray, weight: IntArray, total: int, tails: IntArray) -> None:
    """Pool adjacent violators of a non-increasing fit, clip to [0, total] and round; with a total the first cell is it.

    Invariant: the blocks cover the cells so far and their means strictly decrease; each cell is pushed once and each
    merge removes a block. A cell's weight is that of its leaf, `weight[cell % leaves]`.
    """
    leaves = weight.shape[0]
    cells = sums.shape[0]
    begin = np.empty(cells + 1, dtype=np.int64)
    block_sum = np.empty(cells, dtype=np.int64)
    block_weight = np.empty(cells, dtype=np.int64)
    blocks = 0
    first = 0 if total < 0 else 1
    for cell in range(first, cells):
        begin[blocks], block_sum[blocks], block_weight[blocks] = cell, sums[cell], weight[cell % leaves]
        blocks += 1
        while blocks > 1 and mean_at_least(
            block_sum[blocks - 1], block_weight[blocks - 1], block_sum[blocks - 2], block_weight[blocks - 2], True
        ):
            blocks -= 1
            block_sum[blocks - 1] += block_sum[blocks]
            block_weight[blocks - 1] += block_weight[blocks]
    begin[blocks] = cells
    if first:
        tails[0] = total
    for block in range(blocks):
        value = (2 * block_sum[block] + block_weight[block]) // (2 * block_weight[block])
        value = max(value, 0)
        if total >= 0:
            value = min(value, total)
        for cell in range(begin[block], begin[block + 1]):
            tails[cell] = value
