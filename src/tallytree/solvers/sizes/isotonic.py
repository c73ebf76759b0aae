"""Isotonic regression: the non-decreasing vector nearest to a given one, in L1 or L2; a long row also in pieces."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_SUM, check_integers, check_offsets
from tallytree.solvers.exact import mean_at_least
from tallytree.solvers.sizes import isotonic_runs
from tallytree.solvers.sizes.isotonic_runs import fit_each_row, fit_each_row_as_runs, heap_pop, heap_push
from tallytree.support.arrays import FloatArray, IntArray, read_only
from tallytree.support.kernels import inlined, kernel

Norm = Literal[1, 2]

UNBOUNDED = MAX_SUM // 2
"""Every value and bound of a row is below this magnitude, so that it bounds nothing, and its double is safe."""


class RowRuns(NamedTuple):
    """The fits of several rows as runs: row i has the runs `offsets[i]:offsets[i + 1]`.

    `np.repeat(value, length)` is what `fit_rows` returns.
    """

    offsets: IntArray
    """(rows + 1,) where each row's runs begin."""
    value: IntArray
    """Each run's value, rounded; two neighboring runs may round to the same value."""
    length: IntArray
    """The number of cells with exactly this value before rounding, |block| in Kuo 5.1.1."""


def fit(
    y: npt.ArrayLike,
    *,
    norm: Norm,
    weights: npt.ArrayLike | None = None,
    lower: float | None = None,
    upper: float | None = None,
) -> FloatArray:
    """Minimise Σ w·|x − y|^norm over x_1 <= x_2 <= … <= x_n with lower <= x <= upper.

    L2 has one solution. For integers with integer weights (or none) its blocks are found by exact comparison. L1
    has many: returned is the midpoint of the pointwise lowest and the pointwise highest, itself optimal. Clipping
    an unbounded solution to scalar bounds is optimal for the bounded problem, in both norms.

    Args:
        y: (n,) integers or finite floats.
        norm: 1 or 2.
        weights: (n,) positive, finite; 1 by default. With float weights, L1 ties are decided in float arithmetic.
        lower: least allowed value; none by default.
        upper: greatest allowed value; none by default.

    Returns:
        (n,) float64, non-decreasing. O(n) for L2, O(n log n) for L1.

    Raises:
        TypeError: for an argument that is not numeric.
        ValueError: for NaN, infinity, a wrong shape, a weight <= 0, lower > upper, another norm, or integers so large
            that a weighted sum could reach 2^62.

    Example:
        >>> fit([3, 1, 2, 5], norm=2).tolist()
        [2.0, 2.0, 2.0, 5.0]
    """
    check_norm(norm)
    values = _numbers("y", y)
    scale = _numbers("weights", np.ones(len(values), np.int64) if weights is None else weights)
    if scale.shape != values.shape:
        raise ValueError(f"weights has {len(scale)} entries; y has {len(values)}, and they must agree")
    if not (scale > 0).all():
        raise ValueError(f"weights must be positive; the smallest is {scale.min()}")
    least, greatest = _bound("lower", lower, -np.inf), _bound("upper", upper, np.inf)
    if not least <= greatest:
        raise ValueError(f"lower={lower} must be at most upper={upper}")
    if values.dtype == scale.dtype == np.int64:
        solution = _fit_integers(values.astype(np.int64, copy=False), scale.astype(np.int64, copy=False), norm)
    else:
        solve = _float_means if norm == 2 else _medians
        solution = solve(values.astype(np.float64), scale.astype(np.float64))
    return np.clip(solution, least, greatest)


def fit_rows(
    values: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    norm: Norm,
    lower: npt.ArrayLike | None = None,
    upper: npt.ArrayLike | None = None,
) -> IntArray:
    """Fit many rows of integers, each as `fit` does, rounded to the nearest integer (halves up).

    The rounded solution is monotone, and the optimum among integers, in both norms.

    Args:
        values: (cells,) integers, row after row.
        offsets: (rows + 1,) row i is `values[offsets[i]:offsets[i + 1]]`; rows may be empty.
        norm: 1 or 2.
        lower: least allowed value: one integer or (rows,) integers; none by default.
        upper: greatest allowed value, likewise.

    Returns:
        (cells,) int64, row after row.

    Raises:
        TypeError: for arrays that are not integers.
        ValueError: for offsets that do not cut up `values`, lower > upper, another norm, or an integer of 2^61 or more
            in magnitude. Sums of a row may be of any size.

    Example:
        >>> fit_rows([2, 1, 5, 0, 1], [0, 3, 5], norm=2).tolist()
        [2, 2, 5, 0, 1]
    """
    return fit_each_row(*_rows(values, offsets, norm, lower, upper))


def fit_row_runs(
    values: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    norm: Norm,
    lower: npt.ArrayLike | None = None,
    upper: npt.ArrayLike | None = None,
) -> RowRuns:
    """Fit as `fit_rows` does, and return each row as its blocks: the maximal runs of equal value before rounding.

    Blocks clipped to the same bound are one run. Memory grows with the number of runs, not of cells.

    Args:
        values: as for `fit_rows`.
        offsets: as for `fit_rows`.
        norm: 1 or 2.
        lower: as for `fit_rows`.
        upper: as for `fit_rows`.

    Returns:
        The runs of all rows.

    Raises:
        TypeError: as `fit_rows`.
        ValueError: as `fit_rows`.

    Example:
        >>> fit_row_runs([2, 1, 5], [0, 3], norm=2).length.tolist()
        [2, 1]
    """
    return RowRuns(*fit_each_row_as_runs(*_rows(values, offsets, norm, lower, upper)))


def check_norm(norm: object) -> None:
    """Refuse another norm than 1 or 2, with a `ValueError`."""
    if norm not in (1, 2):
        raise ValueError(f"norm={norm!r}; it must be 1 or 2")


def _bound(name: str, bound: float | None, default: float) -> float:
    if bound is None:
        return default
    if not isinstance(bound, int | float | np.integer | np.floating):
        raise TypeError(f"{name}={bound!r} must be a number")
    return float(bound)


def _fit_integers(y: IntArray, weights: IntArray, norm: Norm) -> FloatArray:
    bound = max(1, _magnitude(y)) * len(y) * int(weights.max(initial=1))
    if bound >= MAX_SUM:
        raise ValueError(f"y and weights must satisfy n·max|y|·max(weights) < 2^62, else sums overflow; got {bound}")
    if norm == 1:
        return _medians(y, weights)
    cumulative = np.concatenate((np.zeros(1, np.int64), np.cumsum(weights)))
    return _exact_means(y, cumulative, bound * int(cumulative[-1]) >= MAX_SUM, bound >= 2**53)


def _numbers(name: str, values: npt.ArrayLike) -> IntArray | FloatArray:
    array = np.asarray(values)
    if array.dtype.kind != "f" or array.size == 0:
        return check_integers(name, array)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must be one-dimensional")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds {array[~np.isfinite(array)][0]}; it must be finite")
    return np.ascontiguousarray(array, np.float64)


def _magnitude(values: npt.NDArray[Any]) -> int:
    """Max |value|, as a Python integer: the absolute value of the least int64 is not an int64."""
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def _rows(
    values: npt.ArrayLike,
    offsets: npt.ArrayLike,
    norm: Norm,
    lower: npt.ArrayLike | None,
    upper: npt.ArrayLike | None,
) -> tuple[IntArray, IntArray, int, IntArray, IntArray]:
    check_norm(norm)
    cells = check_integers("values", values)
    cuts = check_offsets("offsets", offsets, "values", len(cells))
    if _magnitude(cells) >= UNBOUNDED:
        raise ValueError(f"values must be below 2^61 in magnitude; got {_magnitude(cells)}")
    least = _row_bounds("lower", lower, -UNBOUNDED, len(cuts) - 1)
    greatest = _row_bounds("upper", upper, UNBOUNDED, len(cuts) - 1)
    wrong = np.flatnonzero(least > greatest)
    if len(wrong):
        row = wrong[0]
        raise ValueError(f"lower={least[row]} must be at most upper={greatest[row]} (row {row})")
    return read_only(cells), read_only(cuts), norm, read_only(least), read_only(greatest)


def _row_bounds(name: str, bound: npt.ArrayLike | None, default: int, rows: int) -> IntArray:
    if bound is None:
        return np.full(rows, default, np.int64)
    given = np.asarray(bound)
    array = check_integers(name, given.reshape(1) if given.ndim == 0 else given)
    if given.ndim and len(array) != rows:
        raise ValueError(f"{name} has {len(array)} entries; it must be one integer or one for each of {rows} rows")
    if _magnitude(array) >= UNBOUNDED:
        raise ValueError(f"{name} must be below 2^61 in magnitude; got {_magnitude(array)}")
    return np.ascontiguousarray(np.broadcast_to(array, rows))


@inlined
def _pool(y: IntArray, cumulative: IntArray, wide: bool, sums: IntArray, first: IntArray) -> int:
    """Pool adjacent violators; returns the number of blocks b, which are y[first[b]:first[b + 1]] with sum sums[b].

    Invariant: the blocks cover y[:i] and their means strictly increase. Each cell is pushed once and each merge
    removes a block, so the cost is O(n). `cumulative[i]` is the weight of y[:i]; block weights are its differences.
    """
    blocks = 0
    first[0] = 0
    for i in range(len(y)):
        start = i
        weight = cumulative[i + 1] - cumulative[i]
        total = weight * y[i]
        while blocks > 0:
            before = cumulative[start] - cumulative[first[blocks - 1]]
            if not mean_at_least(sums[blocks - 1], before, total, weight, wide):
                break
            blocks -= 1
            total += sums[blocks]
            weight += before
            start = first[blocks]
        sums[blocks] = total
        first[blocks] = start
        blocks += 1
    first[blocks] = len(y)
    return blocks


@kernel
def _exact_means(y: IntArray, cumulative: IntArray, wide: bool, large: bool) -> FloatArray:
    """The L2 fit of integers. Sums above 2^53 (`large`) are divided as quotient and remainder, which stays monotone."""
    sums = np.empty(len(y), np.int64)
    first = np.empty(len(y) + 1, np.int64)
    x = np.empty(len(y), np.float64)
    for b in range(_pool(y, cumulative, wide, sums, first)):
        weight = cumulative[first[b + 1]] - cumulative[first[b]]
        if large:
            quotient = sums[b] // weight
            mean = quotient + (sums[b] - quotient * weight) / weight
        else:
            mean = sums[b] / weight
        x[first[b] : first[b + 1]] = mean
    return x


@kernel
def _float_means(y: FloatArray, w: FloatArray) -> FloatArray:
    """Pool adjacent violators in float arithmetic; invariant and cost as in `_pool`."""
    n = len(y)
    mean, weight, first = np.empty(n, np.float64), np.empty(n, np.float64), np.empty(n + 1, np.int64)
    blocks = 0
    for i in range(n):
        mean[blocks], weight[blocks], first[blocks] = y[i], w[i], i
        while blocks > 0 and mean[blocks - 1] >= mean[blocks]:
            blocks -= 1
            weight[blocks] += weight[blocks + 1]
            mean[blocks] += (mean[blocks + 1] - mean[blocks]) * (weight[blocks + 1] / weight[blocks])
        blocks += 1
    first[blocks] = n
    x = np.empty(n, np.float64)
    for b in range(blocks):
        x[first[b] : first[b + 1]] = mean[b]
    return x


@inlined
def _median_range(y: Any, w: Any, low: Any, high: Any, key: Any, slope: Any) -> None:
    """Write the pointwise lowest and highest L1 solutions to `low` and `high`.

    F_i(x), the least cost of y[:i] with all values <= x, is convex, falls and then stays flat; the heap holds its
    breakpoints and the slope gained at each. Adding w|x − y_i| adds 2w of slope at y_i and makes the flat part rise
    by w; taking w of slope off the top restores the invariant, and on the way crosses [low_i, high_i], where
    F_{i-1} + w|x − y_i| is least. An optimal solution has x_i anywhere in that range cut at x_{i+1}, so cutting
    from the right gives both ends. Every breakpoint is pushed and popped once: O(n log n).
    """
    size = 0
    for i in range(len(y)):
        size = heap_push(key, slope, size, y[i], 2 * w[i])
        excess = w[i]
        # Never empties the heap: the entry just pushed has more slope than `excess`, also in float arithmetic.
        while slope[0] < excess:
            excess -= slope[0]
            size = heap_pop(key, slope, size)
        high[i] = key[0]
        if slope[0] == excess:
            size = heap_pop(key, slope, size)
        else:
            slope[0] -= excess
        low[i] = key[0]
    for i in range(len(y) - 2, -1, -1):
        low[i] = min(low[i], low[i + 1])
        high[i] = min(high[i], high[i + 1])


@kernel
def _medians(y: Any, w: Any) -> FloatArray:
    """The midpoint of the lowest and the highest L1 solution."""
    low, high, key, slope = np.empty_like(y), np.empty_like(y), np.empty_like(y), np.empty_like(w)
    _median_range(y, w, low, high, key, slope)
    middle: FloatArray = low * 0.5 + high * 0.5
    return middle


class RunStream:
    """Fits one row as `isotonic.fit_row_runs` does, from pieces that are pushed in order and not kept.

    Memory is that of the runs and of the distinct values pushed (L1), or of the blocks (L2): never of the cells.

    Args:
        norm: 1 or 2.
        lower: least allowed value; none by default.
        upper: greatest allowed value; none by default.

    Raises:
        ValueError: another norm, or lower > upper.
        TypeError: bounds that are not integers.

    Example:
        >>> stream = RunStream(norm=2)
        >>> stream.push([2])
        >>> stream.push([1, 5])
        >>> stream.finish().length.tolist()
        [2, 1]
    """

    def __init__(self, *, norm: Norm, lower: int | None = None, upper: int | None = None) -> None:
        check_norm(norm)
        self._norm = norm
        self._lower = _one_bound("lower", lower, -UNBOUNDED)
        self._upper = _one_bound("upper", upper, UNBOUNDED)
        if self._lower > self._upper:
            raise ValueError(f"lower={lower} must be at most upper={upper}")
        self._first, self._low, self._high, self._used, _ = isotonic_runs.empty_state(isotonic_runs.FIRST_CAPACITY)

    def push(self, values: npt.ArrayLike) -> None:
        """Take the next cells of the row, integers (n,).

        Raises:
            TypeError: values that are not integers.
            ValueError: a value of 2^61 or more in magnitude.
        """
        cells = check_integers("values", values)
        if len(cells) and not -UNBOUNDED < cells.min() <= cells.max() < UNBOUNDED:
            raise ValueError(f"values must be below 2^61 in magnitude; got {cells.min()} … {cells.max()}")
        if self._norm == 1:
            self._first, self._low, self._high = isotonic_runs.push_medians(
                cells, self._first, self._low, self._high, self._used
            )
        else:
            self._first = isotonic_runs.push_means(cells, self._first, self._used)

    def finish(self) -> RowRuns:
        """The fit of all that was pushed: one row. More may be pushed afterwards."""
        room: IntArray = np.empty((2, isotonic_runs.FIRST_CAPACITY), np.int64)
        if self._norm == 1:
            runs, count = isotonic_runs.close_medians(self._low, self._high, self._used, self._lower, self._upper, room)
        else:
            runs, count = isotonic_runs.close_means(self._first, self._used, self._lower, self._upper, room)
        return RowRuns(np.array([0, count]), runs[0, :count].copy(), runs[1, :count].copy())


def _one_bound(name: str, bound: int | None, default: int) -> int:
    if bound is None:
        return default
    value = check_integers(name, [bound])[0]
    if abs(int(value)) >= UNBOUNDED:
        raise ValueError(f"{name} must be below 2^61 in magnitude; got {value}")
    return int(value)
