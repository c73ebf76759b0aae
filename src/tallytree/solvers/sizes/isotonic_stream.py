"""Isotonic regression of one long row that is given in pieces."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_integers
from tallytree.solvers.sizes import isotonic_runs
from tallytree.solvers.sizes.isotonic import UNBOUNDED, Norm, RowRuns, check_norm
from tallytree.support.arrays import IntArray


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
