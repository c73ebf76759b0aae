"""The cost tables of the chain M_c^ch (Fioretto et al. 2021, Equation 8): an oracle for `chain_regression`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from helpers.inside import IntArray
from tallytree.solvers.checks import MAX_SUM, check_integers
from tallytree.solvers.papers.preorder import check_integer


def chain_fit(
    noisy: npt.ArrayLike, equal_next: npt.ArrayLike, *, lower: int, upper: int, last: int | None = None
) -> IntArray:
    """Minimise Σ (c_i − noisy_i)² over integers c_1 <= c_2 <= … <= c_n in lower … upper, some neighbors being equal.

    The recurrence of Equation 8 over the whole range: τ_{i+1}(v) = (v − noisy_{i+1})² + (τ_i(v) if equal_next[i],
    else min over x <= v of τ_i(x)). τ_i is convex, so that the way back needs only the minimiser of each table.

    Args:
        noisy: (n,) integers, n >= 1.
        equal_next: (n − 1,) whether c_i = c_{i+1}.
        lower: the least allowed value.
        upper: the greatest allowed value.
        last: the value of c_n; free by default.

    Returns:
        (n,) int64; of several optimal solutions the largest. O(n·range) time, O(n + range) memory.

    Raises:
        TypeError: for values that are not integers, or an equal_next that is not bool.
        ValueError: for no values, an equal_next of another length, lower > upper, a last outside of them, or values
            so large that a cost could reach 2^62.

    Example:
        >>> chain_fit([3, 0, 7], [False, False], lower=0, upper=9).tolist()
        [2, 2, 7]
        >>> chain_fit([3, 0, 7], [False, True], lower=0, upper=9).tolist()
        [3, 4, 4]
    """
    y, equal, low, high = _check_chain(noisy, equal_next, lower, upper)
    end = None if last is None else check_integer("last", last, least=low)
    if end is not None and end > high:
        raise ValueError(f"last={end} must be at most upper={high}")
    minimiser, _ = _chain(y, equal, low, high)
    return _chain_back(minimiser, equal, minimiser[-1] if end is None else end)


def chain_table(noisy: npt.ArrayLike, equal_next: npt.ArrayLike, *, lower: int, upper: int) -> IntArray:
    """The cost table of the last node of a chain: τ_n(lower), …, τ_n(upper).

    Args:
        noisy: as for `chain_fit`.
        equal_next: as for `chain_fit`.
        lower: as for `chain_fit`.
        upper: as for `chain_fit`.

    Returns:
        (upper − lower + 1,) int64.

    Raises:
        TypeError: as `chain_fit`.
        ValueError: as `chain_fit`.

    Example:
        >>> chain_table([3, 3, 2], [False, True], lower=0, upper=4).tolist()
        [22, 9, 2, 1, 5]
    """
    return _chain(*_check_chain(noisy, equal_next, lower, upper))[1]


def _check_chain(
    noisy: npt.ArrayLike, equal_next: npt.ArrayLike, lower: int, upper: int
) -> tuple[IntArray, npt.NDArray[np.bool_], int, int]:
    y = check_integers("noisy", noisy)
    if len(y) == 0:
        raise ValueError("noisy is empty; a chain has at least one node")
    equal = np.asarray(equal_next)
    if equal.size and equal.dtype != np.bool_:
        raise TypeError(f"equal_next has dtype {equal.dtype}; it must be bool")
    if equal.shape != (len(y) - 1,):
        raise ValueError(f"equal_next has shape {equal.shape}; noisy has {len(y)} entries, so it must be one shorter")
    low, high = check_integer("lower", lower, least=-(2**31)), check_integer("upper", upper, least=-(2**31))
    if low > high:
        raise ValueError(f"lower={low} must be at most upper={high}")
    furthest = max(abs(low - int(y.max())), abs(high - int(y.min())), abs(low - int(y.min())), abs(high - int(y.max())))
    if len(y) * furthest**2 >= MAX_SUM:
        raise ValueError(
            f"noisy ({y.min()} … {y.max()}) and lower … upper are so far apart that a cost could reach 2^62"
        )
    return y, equal.astype(np.bool_), low, high


def _chain(y: IntArray, equal: npt.NDArray[np.bool_], lower: int, upper: int) -> tuple[IntArray, IntArray]:
    """The largest minimiser of every table, and the last table."""
    minimiser = np.empty(len(y), np.int64)
    allowed = np.arange(lower, upper + 1)
    table = np.zeros(len(allowed), np.int64)
    for i, value in enumerate(y):
        if i > 0 and not equal[i - 1]:
            table = np.minimum.accumulate(table)
        table = table + (allowed - value) ** 2
        minimiser[i] = upper - int(np.argmin(table[::-1]))
    return minimiser, table


def _chain_back(minimiser: IntArray, equal: npt.NDArray[np.bool_], last: int) -> IntArray:
    c = np.empty(len(minimiser), np.int64)
    c[-1] = last
    for i in range(len(minimiser) - 2, -1, -1):
        c[i] = c[i + 1] if equal[i] else min(c[i + 1], minimiser[i])
    return c
