"""Histograms of a level below one that is decided: non-negative, each child with its total, adding up to the parents'.

Source: least-squares transport; `transport_dual` solves its dual. The answer in integers is a controlled rounding, see
`tallytree.solvers.sizes.rounding`.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_EXACT, check_integers, check_offsets
from tallytree.solvers.papers.transport_dual import solve_transport
from tallytree.solvers.sizes.margins import check_table
from tallytree.solvers.sizes.rounding import round_with_margins
from tallytree.support.arrays import FloatArray, IntArray

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
