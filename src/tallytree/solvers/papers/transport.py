"""Histograms of a level below one that is decided: non-negative, each child with its total, adding up to the parents'.

Source: least-squares transport; `solve_transport` solves its dual by a semismooth Newton method (Lorenz, Manns & Meyer
2021), here after the duals of the columns are eliminated by exact threshold searches (Michelot 1986), and with a
damping that follows the length of the steps. The answer in integers is a controlled rounding, see
`tallytree.solvers.sizes.rounding`.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_EXACT, check_integers, check_offsets
from tallytree.solvers.sizes.margins import check_table
from tallytree.solvers.sizes.rounding import UNIT, round_with_margins
from tallytree.solvers.trees.simplex import simplex_threshold
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import kernel

MAX_TRANSPORT_SECANTS = 40
"""Trials on one Newton step; each is a tenth to a half as long as the one before."""
MAX_PRODUCTS = 500
"""Of conjugate gradients in one Newton step."""
FIRST_DAMPING = 0.1
"""Added to the diagonal of the Newton system: halved after a full step, doubled after one that had to be shortened."""


# One parent. Its children with groups are the rows c, the sizes that it has are the columns s; all else is 0. With α, β
# the multipliers of rows and columns, X(α, β) = max(0, Y + α_c + β_s). The dual is concave. Given α, the best β is a
# threshold −β_s per column at which the column is right: 'level'. What is left is a concave function of α, whose
# gradient F, 'force', is what the rows still miss. Its slope is −L, with D the positive entries, J the mean over those
# of a column, L = Σ_s (D − J): the Laplacian of a graph on the rows, singular for every connected part of it. A part as
# a whole has to move until it meets another, by as much as the noise; (L + damping) is what makes that a finite step,
# and the damping finds its own scale. Newton steps are found by conjugate gradients, preconditioned by the diagonal.
#
# Any X' that has the margins is off the optimum by ‖X' − X*‖² <= 2·(cost(X')/2 − dual(α, β)), by strong convexity; with
# X = X(α, β) this is ‖X' − X‖² + 2Σ X'·(level − Y − α) over the entries where X is 0: `_gap`. `_settle` makes such an
# X' from X, in fixed point. It changes positive entries only, wherever X is right but for rounding.


@kernel
def solve_transport(
    noisy: IntArray,
    first_child: IntArray,
    columns: IntArray,
    totals: IntArray,
    tolerance: float,
    max_iterations: int,
) -> tuple[FloatArray, float, int]:
    """The matrix, the bound on its distance to the optimum, and the most Newton steps taken."""
    x = np.zeros(noisy.shape)
    parents, gap, most = len(columns), 0.0, 0
    for p in range(parents):
        rows = np.flatnonzero(totals[first_child[p] : first_child[p + 1]]) + first_child[p]
        sizes = np.flatnonzero(columns[p])
        if len(rows) == 0:
            continue
        y = np.empty((len(sizes), len(rows)))
        for c in range(len(rows)):
            for s in range(len(sizes)):
                y[s, c] = noisy[rows[c], sizes[s]]
        unit = UNIT
        while unit > 1 and totals[rows].sum() > MAX_EXACT // unit:
            unit //= 2
        units, found, steps = _family(y, columns[p][sizes], totals[rows], unit, tolerance**2 / parents, max_iterations)
        for c in range(len(rows)):
            for s in range(len(sizes)):
                x[rows[c], sizes[s]] = units[s, c] / unit
        gap += found
        most = max(most, steps)
    return x, float(np.sqrt(gap)), most


@kernel
def _family(
    y: FloatArray, h: IntArray, g: IntArray, unit: int, tolerance: float, max_iterations: int
) -> tuple[IntArray, float, int]:
    """For one parent, (columns, rows): the entries in 1/unit, a bound on their squared error, and the Newton steps."""
    columns, rows = y.shape
    alpha, level = np.empty(rows), np.empty(columns)
    for c in range(rows):
        row = y[:, c].copy()
        alpha[c] = -simplex_threshold(row, g[c], row.max() - g[c])
    for s in range(columns):
        level[s] = (y[s] + alpha).max() - h[s]
    begin, positive = np.zeros(columns + 1, np.int64), np.empty(columns * rows, np.int32)
    force, step, trial = np.empty(rows), np.empty(rows), np.empty(rows)
    missed = _residual(y, h, g, alpha, level, begin, positive, force)
    goal, damping, iterations = np.sqrt(tolerance) / 16, FIRST_DAMPING, 0
    while True:
        found = True
        while missed > goal and iterations < max_iterations and found:
            iterations += 1
            _newton_step(force, step, begin, positive, damping * min(1.0, missed))
            # The dual's slope along the step, F·step, falls from above 0. A step ends where it is not far below 0; the
            # secant leads there, or halving does. Where neither does, double precision is exhausted.
            slope, length, found = (force * step).sum(), 1.0, False
            for _ in range(MAX_TRANSPORT_SECANTS):
                trial[:] = alpha + length * step
                missed = _residual(y, h, g, trial, level, begin, positive, force)
                now = (force * step).sum()
                found = now >= -0.1 * slope or missed <= goal
                if found:
                    break
                length *= min(0.5, max(0.1, slope / (slope - now)))
            alpha[:] = trial
            damping = min(1.0, damping * (0.5 if length == 1 else 2.0))
        units = _settle(y, h, g, alpha, level, begin, positive, unit)
        gap = _gap(units, unit, y, alpha, level)
        if gap <= tolerance or goal * unit < 1 or missed > goal:
            return units, gap, iterations
        goal /= 256


@kernel
def _residual(
    y: FloatArray,
    h: IntArray,
    g: IntArray,
    alpha: FloatArray,
    level: FloatArray,
    begin: IntArray,
    positive: npt.NDArray[np.int32],
    force: FloatArray,
) -> float:
    """Write F(α) to `force`, and X(α) as levels and, column after column, the rows above them; returns Σ|F|.

    `level` holds a first guess, and then the result.
    """
    columns, rows = y.shape
    force[:] = g
    column = np.empty(rows)
    used = 0
    for s in range(columns):
        for c in range(rows):
            column[c] = y[s, c] + alpha[c]
        here = simplex_threshold(column, h[s], level[s])
        level[s] = here
        for c in range(rows):
            if column[c] > here:
                positive[used] = c
                used += 1
                force[c] -= column[c] - here
        begin[s + 1] = used
    return float(np.abs(force).sum())


@kernel
def _newton_step(
    force: FloatArray, step: FloatArray, begin: IntArray, positive: npt.NDArray[np.int32], damping: float
) -> None:
    """Solve (L + damping)·step = F roughly, by preconditioned conjugate gradients."""
    diagonal = np.full(len(force), damping)
    for s in range(len(begin) - 1):
        for i in range(begin[s], begin[s + 1]):
            diagonal[positive[i]] += 1 - 1 / (begin[s + 1] - begin[s])
    rest = force.copy()
    step[:] = 0.0
    near = rest / diagonal
    along, image = near.copy(), np.empty_like(rest)
    size = (rest * near).sum()
    goal = 1e-4 * size
    for _ in range(MAX_PRODUCTS):
        if size <= goal:
            break
        image[:] = damping * along
        for s in range(len(begin) - 1):
            first, last = begin[s], begin[s + 1]
            mean = 0.0
            for i in range(first, last):
                mean += along[positive[i]]
            mean /= last - first
            for i in range(first, last):
                image[positive[i]] += along[positive[i]] - mean
        length = size / (along * image).sum()
        step += length * along
        rest -= length * image
        near[:] = rest / diagonal
        fresh = (rest * near).sum()
        along *= fresh / size
        along += near
        size = fresh


@kernel
def _settle(
    y: FloatArray,
    h: IntArray,
    g: IntArray,
    alpha: FloatArray,
    level: FloatArray,
    begin: IntArray,
    positive: npt.NDArray[np.int32],
    unit: int,
) -> IntArray:
    """X in integer multiples of 1/unit, (columns, rows), with the margins exactly.

    What rounding and the solver leave missing goes along a forest of the greatest entries, which has one entry for each
    row and column to correct but the last of a tree, which is right when the others are. Entries do not go below 0
    for it; what is still missing then is taken away where it is too much, and given where it is too little.
    """
    columns, rows = y.shape
    units = np.zeros((columns, rows), np.int64)
    missing = np.concatenate((g, h)) * unit
    entries = begin[columns]
    value, row, column = np.empty(entries), np.empty(entries, np.int64), np.empty(entries, np.int64)
    for s in range(columns):
        for i in range(begin[s], begin[s + 1]):
            c = positive[i]
            value[i], row[i], column[i] = y[s, c] + alpha[c] - level[s], c, s
            units[s, c] = int(np.rint(value[i] * unit))
            missing[c] -= units[s, c]
            missing[rows + s] -= units[s, c]
    _settle_forest(units, missing, value, row, column)
    # Too much: the rows first, which makes no column worse; then no row is.
    for c in range(rows):
        for s in range(columns):
            taken = max(0, min(units[s, c], -missing[c]))
            units[s, c] -= taken
            missing[c] += taken
            missing[rows + s] += taken
    for s in range(columns):
        for c in range(rows):
            taken = max(0, min(units[s, c], -missing[rows + s]))
            units[s, c] -= taken
            missing[c] += taken
            missing[rows + s] += taken
    c = 0
    for s in range(columns):
        while missing[rows + s] > 0:
            while missing[c] == 0:
                c += 1
            given = min(missing[c], missing[rows + s])
            units[s, c] += given
            missing[c] -= given
            missing[rows + s] -= given
    return units


@kernel
def _settle_forest(units: IntArray, missing: IntArray, value: FloatArray, row: IntArray, column: IntArray) -> None:
    """Move what rows and columns miss along a spanning forest of the positive entries, the greatest first (Kruskal)."""
    rows, vertices = units.shape[1], len(missing)
    above = np.arange(vertices)
    # A tree is taken apart from its ends: an end has one entry left, which is all that `entry`, an exclusive or, holds.
    entries, entry = np.zeros(vertices, np.int64), np.zeros(vertices, np.int64)
    for i in np.argsort(-value, kind="mergesort"):
        c, s = row[i], rows + column[i]
        a, b = c, s
        while above[a] != a:
            above[a] = above[above[a]]
            a = above[a]
        while above[b] != b:
            above[b] = above[above[b]]
            b = above[b]
        if a != b:
            above[a] = b
            for v in (c, s):
                entries[v] += 1
                entry[v] ^= i
    for first in range(vertices):
        v = first
        while entries[v] == 1:
            i = entry[v]
            c, s = row[i], rows + column[i]
            moved = max(-units[column[i], c], missing[v])
            units[column[i], c] += moved
            missing[c] -= moved
            missing[s] -= moved
            entries[v] = 0
            v = s if v == c else c
            entries[v] -= 1
            entry[v] ^= i


@kernel
def _gap(units: IntArray, unit: int, y: FloatArray, alpha: FloatArray, level: FloatArray) -> float:
    """A bound on the squared distance to the optimum of entries that have the margins, whatever α and the levels."""
    gap = 0.0
    for s in range(y.shape[0]):
        for c in range(y.shape[1]):
            here, free = units[s, c] / unit, y[s, c] + alpha[c] - level[s]
            gap += (here - max(0.0, free)) ** 2 - 2 * here * min(0.0, free)
    return gap


logger = logging.getLogger(__name__)


class TransportFit(NamedTuple):
    """The real solution of `fit`."""

    values: FloatArray
    """(children, sizes) non-negative. Multiples of 2^-30 (coarser for parents of over 2^23 groups) that add up to all
    margins exactly, in floating point and in any order."""
    error: float
    """At least ‖X − X*‖, X* the optimum, in the Euclidean norm of the matrix."""
    iterations: int
    """Newton steps, of the parent that took most."""


def fit(
    noisy: npt.ArrayLike,
    first_child: npt.ArrayLike,
    columns: npt.ArrayLike,
    row_totals: npt.ArrayLike,
    *,
    tolerance: float = 1e-3,
    max_iterations: int = 2_000,
) -> TransportFit:
    """Minimise ‖X − Y‖² over real X >= 0 whose rows and whose columns, within each parent's children, are given.

    Row c adds up to `row_totals[c]`, and over the children of parent p size s adds up to `columns[p, s]`. The optimum
    is unique. The method stops when duality proves ‖X − X*‖ <= tolerance.

    Args:
        noisy: Y, (children, sizes) integers.
        first_child: (parents + 1,) parent p has the rows `first_child[p]:first_child[p + 1]`, at least one.
        columns: (parents, sizes) integers >= 0.
        row_totals: (children,) integers >= 0; those of a parent's children add up to its row of `columns`.
        tolerance: what `error` must come down to, in groups.
        max_iterations: Newton steps for each parent. When they run out, or double precision does, that is logged, and
            the answer satisfies every constraint nevertheless. A few are enough where noise is smaller than counts,
            some fifty where it is larger, up to a thousand where it is far larger than all groups of a child.

    Returns:
        The histograms, a bound on their error and the number of steps. A step costs a few passes over the cells of a
        parent's children whose row and column are not 0; scratch memory is three times these.

    Raises:
        TypeError: for arguments that are not integers.
        ValueError: for shapes that disagree, parents without children, negative or unequal margins, a tolerance that is
            not positive and finite, values or a sum of totals beyond 2^53.

    Example:
        >>> fit([[3, -1], [2, 1]], [0, 2], [[4, 1]], [2, 3]).values.tolist()
        [[2.0, 0.0], [2.0, 1.0]]
    """
    table, offsets, above, totals = _check(noisy, first_child, columns, row_totals)
    if not (np.isfinite(tolerance) and tolerance > 0):
        raise ValueError(f"tolerance={tolerance} must be positive and finite")
    if max_iterations < 0:
        raise ValueError(f"max_iterations={max_iterations} must not be negative")
    found = solve_transport(table, offsets, above, totals, tolerance, max_iterations)
    if found[1] > tolerance:
        logger.warning("histograms are within %.2g of their optimum after %d steps, not %.2g", *found[1:], tolerance)
    return TransportFit(*found)


def project(
    noisy: npt.ArrayLike,
    first_child: npt.ArrayLike,
    columns: npt.ArrayLike,
    row_totals: npt.ArrayLike,
    *,
    tolerance: float = 1e-3,
    max_iterations: int = 2_000,
) -> IntArray:
    """Solve `fit` and round: integers >= 0 that keep all margins; no count is moved by 1 or more.

    The rounding is not proven to be the optimum among integers. With F the real optimum's cost, the integers cost at
    most F + Σ f(1 − f), where f are the fractional parts of the real optimum (up to the tolerance).

    Args:
        noisy: as for `fit`.
        first_child: as for `fit`.
        columns: as for `fit`.
        row_totals: as for `fit`.
        tolerance: as for `fit`.
        max_iterations: as for `fit`.

    Returns:
        (children, sizes) int64.

    Raises:
        TypeError: as `fit`.
        ValueError: as `fit`.

    Example:
        >>> project([[3, -1], [2, 1]], [0, 2], [[4, 1]], [2, 3]).tolist()
        [[2, 0], [2, 1]]
    """
    real = fit(noisy, first_child, columns, row_totals, tolerance=tolerance, max_iterations=max_iterations)
    # The counts of the parents are integers exactly, and rounding keeps integers.
    return round_with_margins(real.values, [first_child, np.arange(len(real.values) + 1)], row_totals)


def _check(
    noisy: npt.ArrayLike, first_child: npt.ArrayLike, columns: npt.ArrayLike, row_totals: npt.ArrayLike
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    table = check_table("noisy", noisy)
    children, sizes = table.shape
    offsets = check_offsets("first_child", first_child, "noisy", children)
    empty = np.flatnonzero(offsets[1:] == offsets[:-1])
    if len(empty):
        raise ValueError(f"first_child has no child for parent {empty[0]}; every parent must have one")
    above = check_table("columns", columns, len(offsets) - 1, sizes)
    if above.min() < 0:
        parent, size = divmod(int(np.argmin(above)), sizes)
        raise ValueError(f"columns[{parent}, {size}]={above[parent, size]} must not be negative")
    totals = check_integers("row_totals", row_totals)
    if len(totals) != children:
        raise ValueError(f"row_totals has {len(totals)} entries; it must have one for each of {children} rows of noisy")
    if totals.min() < 0:
        row = int(np.argmin(totals))
        raise ValueError(f"row_totals[{row}]={totals[row]} must not be negative")
    for name, margin in (("row_totals", totals), ("columns", above)):
        if margin.sum(dtype=np.float64) > MAX_EXACT:
            raise ValueError(f"{name} adds up to {margin.sum(dtype=np.float64):.3g}; it must stay within 2^53")
    held, given = np.add.reduceat(totals, offsets[:-1]), above.sum(axis=1)
    unequal = np.flatnonzero(held != given)
    if len(unequal):
        parent = int(unequal[0])
        raise ValueError(
            f"columns[{parent}] adds up to {given[parent]}, but row_totals[{offsets[parent]}:{offsets[parent + 1]}] "
            f"of its children to {held[parent]}; they must be equal"
        )
    return table, offsets, above, totals
