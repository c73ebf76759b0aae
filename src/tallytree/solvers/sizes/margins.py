"""Histograms of a complete hierarchy at once: non-negative, additive, every leaf with its known number of groups.

Source: ours. It is a least-squares problem whose only coupling is through the inner nodes; `margins_dual` solves its
dual. The answer in integers is a controlled rounding, see `tallytree.solvers.sizes.rounding`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_EXACT, check_integers
from tallytree.solvers.sizes.margins_dual import solve_margins
from tallytree.solvers.sizes.nested_levels import NestedLevels, check_levels, check_totals, check_weights
from tallytree.solvers.sizes.rounding import round_with_margins
from tallytree.support.arrays import FloatArray, IntArray

logger = logging.getLogger(__name__)


class MarginsFit(NamedTuple):
    """The real solution of `fit`."""

    values: FloatArray
    """(leaves, sizes) non-negative; every row has its total, to rounding."""
    error: float
    """At least √(Σ_ℓ w_ℓ‖X_ℓ − X*_ℓ‖² / w_leaf), X* the optimum; so no leaf row, nor all together, is further off."""
    iterations: int
    """Newton steps taken."""


def fit(
    noisy: Sequence[npt.ArrayLike],
    first_leaf: Sequence[npt.ArrayLike],
    row_totals: npt.ArrayLike,
    *,
    weights: Sequence[float] | None = None,
    tolerance: float = 1e-3,
    max_iterations: int = 200,
) -> MarginsFit:
    """Minimise Σ_ℓ w_ℓ‖A_ℓX − Y_ℓ‖² over real leaf histograms X >= 0 whose row r adds up to `row_totals[r]`.

    A_ℓX is the sum of the leaf rows over each node of level ℓ. The optimum is unique. The method stops when duality
    proves √(Σ_ℓ w_ℓ‖A_ℓ(X − X*)‖² / w_leaf) <= tolerance: a bound on the Euclidean distance of the matrix.

    Args:
        noisy: Y_ℓ, (nodes of ℓ, sizes) integers, coarsest level first; the last is the leaves. Levels that were not
            measured are left out.
        first_leaf: (nodes of ℓ + 1,) for each level: node i has the leaves `first_leaf[ℓ][i]:first_leaf[ℓ][i + 1]`, at
            least one. Each level refines the one before, or repeats it; the last has one leaf a node.
        row_totals: (leaves,) >= 0.
        weights: w_ℓ, positive and finite; all equal by default.
        tolerance: what `error` must come down to, in groups.
        max_iterations: Newton steps. When they run out, or double precision does, that is logged, and the answer
            satisfies every constraint nevertheless. Weights of inner levels up to that of the leaves take about ten,
            a hundred times as much some fifty; far beyond, all may be used up.

    Returns:
        The leaf histograms, a bound on their error and the number of steps. A step costs a few passes over the leaf
        matrix; memory is about that of one more float matrix.

    Raises:
        TypeError: for histograms, offsets or totals that are not integers, or weights that are not numbers.
        ValueError: for shapes that disagree, levels that are not nested or do not end with the leaves, negative
            totals, weights or a tolerance that are not positive and finite, values or a sum of totals beyond 2^53.

    Example:
        >>> fit([[[4, 0]], [[3, -1], [2, 1]]], [[0, 2], [0, 1, 2]], [2, 3]).values.round(3).tolist()
        [[2.0, 0.0], [2.25, 0.75]]
    """
    levels = check_levels(first_leaf)
    totals = check_totals(row_totals, levels.leaves)
    scale = check_weights(weights, levels)
    tables = _check_tables(noisy, levels)
    if not (np.isfinite(tolerance) and tolerance > 0):
        raise ValueError(f"tolerance={tolerance} must be positive and finite")
    if max_iterations < 0:
        raise ValueError(f"max_iterations={max_iterations} must not be negative")
    sizes = tables[-1].shape[1]
    nodes = np.concatenate([np.empty((0, sizes)), *tables[:-1]])
    w = np.repeat(scale[:-1] / scale[-1], levels.nodes[:-1])
    found = solve_margins(tables[-1], nodes, totals, levels.parent, levels.parent_of_leaf, w, tolerance, max_iterations)
    if found[1] > tolerance:
        logger.warning("histograms are within %.2g of their optimum after %d steps, not %.2g", *found[1:], tolerance)
    return MarginsFit(*found)


def project(
    noisy: Sequence[npt.ArrayLike],
    first_leaf: Sequence[npt.ArrayLike],
    row_totals: npt.ArrayLike,
    *,
    weights: Sequence[float] | None = None,
    tolerance: float = 1e-3,
    max_iterations: int = 200,
) -> IntArray:
    """Solve `fit` and round: integers >= 0, each row with its total, no count of any level moved by 1 or more.

    The rounding is not proven to be the optimum among integers. With F the real optimum's cost, the integers cost at
    most F + Σ_ℓ w_ℓ Σ f(1 − f), where f are the fractional parts of the real counts of all nodes (see
    `round_with_margins`; up to the tolerance): less than ¼ w_ℓ for every count that is not an integer.

    Args:
        noisy: as for `fit`.
        first_leaf: as for `fit`.
        row_totals: as for `fit`.
        weights: as for `fit`.
        tolerance: as for `fit`.
        max_iterations: as for `fit`.

    Returns:
        (leaves, sizes) int64.

    Raises:
        TypeError: as `fit`.
        ValueError: as `fit`.

    Example:
        >>> project([[[4, 0]], [[3, -1], [2, 1]]], [[0, 2], [0, 1, 2]], [2, 3]).tolist()
        [[2, 0], [2, 1]]
    """
    real = fit(noisy, first_leaf, row_totals, weights=weights, tolerance=tolerance, max_iterations=max_iterations)
    return round_with_margins(real.values, first_leaf, row_totals, weights=weights)


def _check_tables(noisy: Sequence[npt.ArrayLike], levels: NestedLevels) -> list[IntArray]:
    if len(noisy) != len(levels.nodes):
        raise ValueError(f"noisy has {len(noisy)} levels; first_leaf has {len(levels.nodes)}, and they must agree")
    tables: list[IntArray] = []
    for level, given in enumerate(noisy):
        sizes = tables[0].shape[1] if tables else None
        tables.append(check_table(f"noisy[{level}]", given, levels.nodes[level], sizes))
    return tables


def check_table(name: str, values: npt.ArrayLike, nodes: int | None = None, sizes: int | None = None) -> IntArray:
    """Return histograms as int64, or say what is wrong with them.

    Args:
        name: the argument's name, for the message.
        values: what the caller gave.
        nodes: how many rows there must be; any number from 1 where this is None.
        sizes: the same, of columns.

    Returns:
        (nodes, sizes) int64.

    Raises:
        TypeError: if they are not integers.
        ValueError: for another shape, or values beyond ±2^53.
    """
    array = np.asarray(values)
    if array.ndim != 2:
        raise ValueError(f"{name} has shape {array.shape}; it must be (nodes, sizes)")
    shape = tuple(max(1, n) if due is None else due for n, due in zip(array.shape, (nodes, sizes), strict=True))
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")
    table = check_integers(name, array.reshape(-1)).reshape(array.shape)
    if table.max() > MAX_EXACT or table.min() < -MAX_EXACT:
        raise ValueError(f"{name} holds {table.min()} … {table.max()}; it must stay within ±2^53")
    return table
