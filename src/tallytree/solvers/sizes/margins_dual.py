"""The kernel of `margins.fit`: the dual problem, by a semismooth Newton method.

Source: ours. Newton method: Qi & Sun 1993. The projection of each leaf on its simplex: Newton steps on its threshold
(Michelot 1986).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tallytree.solvers.trees.simplex_kernels import simplex_threshold
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
