"""Histograms of a complete hierarchy at once: non-negative, additive, every leaf with its known number of groups.

Source: ours. It is a least-squares problem whose only coupling is through the inner nodes; `solve_margins` solves its
dual by a semismooth Newton method (Qi & Sun 1993). The projection of each leaf on its simplex: Newton steps on its
threshold (Michelot 1986). The answer in integers is a controlled rounding, see `tallytree.solvers.sizes.rounding`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_EXACT, check_integers
from tallytree.solvers.sizes.rounding import NestedLevels, check_levels, check_totals, check_weights, round_with_margins
from tallytree.solvers.trees.simplex import simplex_threshold
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel

MAX_SECANTS = 30
"""Trials on one Newton step; the shortest that are needed are about a thousandth."""


# The dual. Scale the weights so that the leaves have 1, and let λ_v = w_v((AX)_v − Y_v) for every inner node v. Given
# λ the leaves part: row r is the projection on its simplex of Y_r − (the sum of λ over the nodes above r, `path`). So λ
# is the root of F(λ) = λ/w + Y − A X(λ), which is the gradient of a strongly convex function, the negative dual, and
# piecewise linear. At any λ the duality gap is exactly ½Σ w F², and strong convexity makes it a bound on the distance.
#
# F has slope M = 1/w + A(D − J)Aᵀ, with D the positive entries of X and J the mean over those of a row. Newton
# systems are solved by conjugate gradients, where M works on positive entries only; without J, M is a tree per size
# and has a solution in closed form, which preconditions.
#
# Node arrays have one row more than there are nodes: the last stands above all roots, and its λ is 0.


@kernel
def solve_margins(
    leaf: IntArray,
    y: FloatArray,
    totals: IntArray,
    parent: IntArray,
    parent_of_leaf: IntArray,
    w: FloatArray,
    tolerance: float,
    max_iterations: int,
) -> tuple[FloatArray, float, int]:
    """The leaf matrix, the bound on its distance to the optimum, and the number of Newton steps."""
    rows, sizes = leaf.shape
    nodes = len(w)
    shape = (nodes + 1, sizes)
    dual, path, force = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    step, trial, counts = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    threshold = np.zeros(rows)
    for r in range(rows):
        threshold[r] = leaf[r].max() - totals[r]
    begin = np.zeros(rows + 1, np.int64)
    columns = np.empty(rows * sizes, np.int32)

    best = dual.copy()
    error = _residual(dual, path, force, leaf, y, totals, parent, parent_of_leaf, w, threshold, begin, columns)
    least, iterations = error, 0
    while least > tolerance and iterations < max_iterations:
        iterations += 1
        _newton_step(force, step, counts, parent, parent_of_leaf, w, begin, columns)
        # The dual is convex along the step: its slope there, F·step, rises from below 0. A step ends where that is not
        # far above 0; the secant finds it. Where it does not, double precision is exhausted.
        slope, length, found = _dot(force, step), 1.0, False
        for _ in range(MAX_SECANTS):
            trial[:] = dual + length * step
            error = _residual(trial, path, force, leaf, y, totals, parent, parent_of_leaf, w, threshold, begin, columns)
            now = _dot(force, step)
            found = now <= -0.1 * slope or error <= tolerance
            if found:
                break
            length *= max(0.1, slope / (slope - now))
        dual[:] = trial
        if error < least:
            least = error
            best[:] = dual
        if not found:
            break
    least = _residual(best, path, force, leaf, y, totals, parent, parent_of_leaf, w, threshold, begin, columns)
    x = np.zeros((rows, sizes))
    for r in range(rows):
        above = path[parent_of_leaf[r]]
        for i in range(begin[r], begin[r + 1]):
            x[r, columns[i]] = leaf[r, columns[i]] - above[columns[i]] - threshold[r]
        if totals[r] > 0:
            x[r] *= totals[r] / x[r].sum()  # where values are far larger than the total, they cancel
    return x, least, iterations


@kernel
def _dot(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for i in range(a.shape[0]):
        for s in range(a.shape[1]):
            total += a[i, s] * b[i, s]
    return total


@kernel
def _residual(
    dual: FloatArray,
    path: FloatArray,
    force: FloatArray,
    leaf: IntArray,
    y: FloatArray,
    totals: IntArray,
    parent: IntArray,
    parent_of_leaf: IntArray,
    w: FloatArray,
    threshold: FloatArray,
    begin: IntArray,
    columns: npt.NDArray[np.int32],
) -> float:
    """Write F(λ) to `force`, and X(λ) as thresholds and the columns above them; returns √Σ w F².

    Parents come before children in the arrays. `threshold` holds a first guess, and then the result.
    """
    rows, sizes = leaf.shape
    nodes = len(w)
    for v in range(nodes):
        path[v] = path[parent[v]] + dual[v]
    force[:] = 0.0
    row = np.empty(sizes)
    used = 0
    for r in range(rows):
        above, sums = path[parent_of_leaf[r]], force[parent_of_leaf[r]]
        if totals[r] > 0:
            for s in range(sizes):
                row[s] = leaf[r, s] - above[s]
            level = simplex_threshold(row, totals[r], threshold[r])
            threshold[r] = level
            for s in range(sizes):
                if row[s] > level:
                    columns[used] = s
                    used += 1
                    sums[s] += row[s] - level
        begin[r + 1] = used
    error = 0.0
    for u in range(nodes - 1, -1, -1):
        sums, above = force[u], force[parent[u]]
        for s in range(sizes):
            above[s] += sums[s]
            sums[s] = dual[u, s] / w[u] + y[u, s] - sums[s]
            error += w[u] * sums[s] * sums[s]
    force[nodes] = 0.0
    return float(np.sqrt(error))


@kernel
def _newton_step(
    force: FloatArray,
    step: FloatArray,
    counts: FloatArray,
    parent: IntArray,
    parent_of_leaf: IntArray,
    w: FloatArray,
    begin: IntArray,
    columns: npt.NDArray[np.int32],
) -> int:
    """Solve M·step = −F roughly, by preconditioned conjugate gradients; returns the number of products with M."""
    nodes = len(w)
    counts[:] = 0.0
    for r in range(len(begin) - 1):
        for i in range(begin[r], begin[r + 1]):
            counts[parent_of_leaf[r], columns[i]] += 1
    # slope[v]: what the positive leaves below v add up to, per unit of the path at v, as v's own λ answers to it.
    slope = counts
    for v in range(nodes - 1, -1, -1):
        for s in range(slope.shape[1]):
            slope[parent[v], s] += slope[v, s] / (1 + w[v] * slope[v, s])
    rest = -force
    step[:] = 0.0
    near, image, scratch = np.zeros_like(force), np.zeros_like(force), np.zeros_like(force)
    _tree_solve(rest, near, slope, parent, w)
    along = near.copy()
    size = _dot(rest, near)
    goal = 1e-4 * size
    for products in range(200):
        if size <= goal:
            return products
        _tree_product(along, image, scratch, parent, parent_of_leaf, w, begin, columns)
        length = size / _dot(along, image)
        step += length * along
        rest -= length * image
        _tree_solve(rest, near, slope, parent, w)
        fresh = _dot(rest, near)
        along *= fresh / size
        along += near
        size = fresh
    return 200


@inlined
def _tree_product(
    q: FloatArray,
    image: FloatArray,
    path: FloatArray,
    parent: IntArray,
    parent_of_leaf: IntArray,
    w: FloatArray,
    begin: IntArray,
    columns: npt.NDArray[np.int32],
) -> None:
    """Write M·q to `image`."""
    nodes = len(w)
    for v in range(nodes):
        path[v] = path[parent[v]] + q[v]
    image[:] = 0.0
    for r in range(len(begin) - 1):
        above, sums = path[parent_of_leaf[r]], image[parent_of_leaf[r]]
        mean = 0.0
        for i in range(begin[r], begin[r + 1]):
            mean += above[columns[i]]
        mean /= max(1, begin[r + 1] - begin[r])
        for i in range(begin[r], begin[r + 1]):
            sums[columns[i]] += above[columns[i]] - mean
    for v in range(nodes - 1, -1, -1):
        image[parent[v]] += image[v]
        image[v] += q[v] / w[v]
    image[nodes] = 0.0


@kernel
def _tree_solve(g: FloatArray, q: FloatArray, slope: FloatArray, parent: IntArray, w: FloatArray) -> None:
    """Write to q the solution of (1/w + A D Aᵀ)q = g: upward what the leaves below answer, downward the paths.

    With p the path at v, p' that at its parent: (p − p')/w + (slope·p + rest) = g, hence p, hence what v passes on.
    """
    nodes, sizes = len(w), g.shape[1]
    q[:] = 0.0
    for v in range(nodes - 1, -1, -1):
        for s in range(sizes):
            rest = q[v, s]
            part = w[v] * slope[v, s]
            q[parent[v], s] += (rest + part * g[v, s]) / (1 + part)
    q[nodes] = 0.0
    for v in range(nodes):
        for s in range(sizes):
            q[v, s] = (q[parent[v], s] + w[v] * (g[v, s] - q[v, s])) / (1 + w[v] * slope[v, s])
    for v in range(nodes - 1, -1, -1):
        q[v] -= q[parent[v]]


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
