"""The projections on the integer simplex as InfTDA's paper solves them, by general solvers (extra `tallytree[papers]`).

Source: Boninsegna & Silvestri 2025, section 5, "Experimental setup": TDA_2 (Clarabel, then rounding) and TDA_inf (a
mixed-integer solver; GLPK in the paper, HiGHS here), one CVXPY problem for every family.
`tallytree.solvers.trees.simplex` solves both exactly and for all families at once; these are kept for comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_families, check_integers
from tallytree.solvers.papers.preorder import check_integer
from tallytree.solvers.papers.third_party import (
    TOLERANCE,
    TimeLimit,
    check_magnitudes,
    import_cvxpy,
    quadratic_solvers,
    solve_quadratic,
)
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.validate import require_packages

HIGHS_SETTINGS = {"mip_rel_gap": 0.0, "mip_abs_gap": 0.5}
"""By default HiGHS stops within 1e-4 of the optimum. Distances are integers, so half a unit is exact."""


def chebyshev_mip(noisy: npt.ArrayLike, total: int, *, time_limit: float = 60.0) -> IntArray:
    """Minimise max|x − noisy| over integers x >= 0 with Σx = total, through CVXPY and HiGHS: TDA_inf.

    Of the many optimal solutions it is the one that HiGHS finds. The variables are d = x − noisy, so that large
    counts take no digits. HiGHS computes in floats; its solution is returned only if it is feasible and no distance
    smaller by one is, both in exact arithmetic.

    Args:
        noisy: (n,) integers below 2^40 in magnitude.
        total: the sum to reach, >= 0 and below 2^40.
        time_limit: seconds.

    Returns:
        (n,) int64.

    Raises:
        ModuleNotFoundError: CVXPY or HiGHS is not installed.
        TimeoutError: time_limit is over.
        RuntimeError: HiGHS ends with any other status than optimal, or its solution is not the optimum.
        TypeError: for anything but integers.
        ValueError: for values out of range, or a positive total of no entries.

    Example:
        >>> chebyshev_mip([5, -2], 3).tolist()
        [3, 0]
    """
    y, goal = _checked(noisy, total)
    if _is_forced(y, goal):
        return np.full(len(y), goal, np.int64)
    limit = TimeLimit(time_limit, len(y))
    cp = import_cvxpy("chebyshev_mip")
    require_packages("solver", "chebyshev_mip", {"highspy": "HiGHS"}, "papers")
    d = cp.Variable(len(y), integer=True)
    task = cp.Problem(cp.Minimize(cp.norm(d, "inf")), [d >= -y, cp.sum(d) == goal - int(y.sum())])
    try:
        task.solve(solver="HIGHS", **HIGHS_SETTINGS, time_limit=limit.left("HiGHS"))
    except cp.error.SolverError as error:
        limit.left("HiGHS")
        raise RuntimeError(f"HiGHS failed: {error}") from error
    if task.status != "optimal":
        limit.left("HiGHS")
        raise RuntimeError(f"HiGHS ended with status {task.status!r}, not 'optimal'")
    x: IntArray = y + np.rint(d.value).astype(np.int64)
    if x.min() < 0 or x.sum() != goal:
        raise RuntimeError("HiGHS calls a solution optimal whose rounded values violate a constraint")
    distance = int(np.abs(x - y).max())
    if _within(y, goal, distance - 1):
        raise RuntimeError(f"HiGHS calls a distance of {distance} optimal, but {distance - 1} is feasible")
    return x


def euclidean_relaxed(
    noisy: npt.ArrayLike, total: int, *, solver: str | None = None, time_limit: float = 60.0
) -> FloatArray:
    """Minimise Σ(x − noisy)² over real x >= 0 with Σx = total, through CVXPY: the first half of TDA_2.

    Args:
        noisy: (n,) integers below 2^40 in magnitude.
        total: the sum to reach, >= 0 and below 2^40.
        solver: "CLARABEL" (the paper's), "SCS", "OSQP" or "HIGHS"; by default the first of these that solves it.
        time_limit: seconds.

    Returns:
        (n,) float64, whose constraints hold to 1e-6 of its largest distance from `noisy`, or to 1e-6.

    Raises:
        ModuleNotFoundError: CVXPY or its solver is not installed.
        TimeoutError: time_limit is over.
        RuntimeError: no solver ends with the status optimal and a feasible solution.
        TypeError: for values that are not integers.
        ValueError: for values out of range, a positive total of no entries, or a solver that is not installed.

    Example:
        >>> euclidean_relaxed([5, 2, -4], 6).round(3).tolist()
        [4.5, 1.5, 0.0]
    """
    y, goal = _checked(noisy, total)
    if _is_forced(y, goal):
        return np.full(len(y), float(goal))
    limit = TimeLimit(time_limit, len(y))
    cp = import_cvxpy("euclidean_relaxed")
    d = cp.Variable(len(y))
    task = cp.Problem(cp.Minimize(cp.sum_squares(d)), [d >= -y, cp.sum(d) == goal - int(y.sum())])
    trouble: str | None = None
    for chosen in quadratic_solvers(cp, solver):
        trouble = solve_quadratic(cp, task, chosen, limit)
        if trouble is None:
            trouble = _violation(d.value, y, goal, chosen)
        if trouble is None:
            return np.maximum(y + np.asarray(d.value, np.float64), 0.0)
    raise RuntimeError(trouble)


def euclidean_rounded(noisy: npt.ArrayLike, total: int, *, time_limit: float = 60.0) -> IntArray:
    """Round `euclidean_relaxed` to integers x >= 0 with Σx = total: TDA_2.

    Every entry is rounded to the nearest integer. An excess is then taken unit by unit from the smallest positive
    entries; a deficit is given unit by unit to the largest (of equal ones, to that of the larger noisy entry). So
    small values are eliminated first.

    Args:
        noisy: (n,) integers below 2^40 in magnitude.
        total: the sum to reach, >= 0 and below 2^40.
        time_limit: seconds.

    Returns:
        (n,) int64.

    Raises:
        ModuleNotFoundError: as `euclidean_relaxed`.
        TimeoutError: as `euclidean_relaxed`.
        RuntimeError: as `euclidean_relaxed`.
        TypeError: as `euclidean_relaxed`.
        ValueError: as `euclidean_relaxed`.

    Example:
        >>> euclidean_rounded([5, 4, 3, -4], 10).tolist()
        [5, 3, 2, 0]
    """
    y, goal = _checked(noisy, total)
    x = np.rint(euclidean_relaxed(y, goal, time_limit=time_limit)).astype(np.int64)
    while (missing := goal - int(x.sum())) != 0:  # once, unless there are fewer entries than units
        order = np.lexsort((y, x))  # where entries are rounded to the same number, the noisy ones say which is larger
        if missing > 0:
            x[order[::-1][:missing]] += 1
        else:
            x[order[x[order] > 0][:-missing]] -= 1
    return x


def by_family(
    solve: Callable[[IntArray, int], IntArray], noisy: npt.ArrayLike, offsets: npt.ArrayLike, totals: npt.ArrayLike
) -> IntArray:
    """Solve one of the problems above for every family of children, one after the other.

    Args:
        solve: `chebyshev_mip` or `euclidean_rounded`.
        noisy: (children,) integers, family after family.
        offsets: (families + 1,) family i is `noisy[offsets[i]:offsets[i + 1]]`.
        totals: (families,) the sum of each family, >= 0.

    Returns:
        (children,) int64.

    Raises:
        ModuleNotFoundError, TimeoutError, RuntimeError, TypeError, ValueError: as `solve`, for any family; also for
            offsets that do not cut up `noisy`.

    Example:
        >>> by_family(chebyshev_mip, [5, -2, 7], [0, 2, 3], [3, 6]).tolist()
        [3, 0, 6]
    """
    values, cuts, sums = check_families(noisy, offsets, totals)
    x = np.empty_like(values)
    for first, end, total in zip(cuts[:-1], cuts[1:], sums, strict=True):
        x[first:end] = solve(values[first:end], int(total))
    return x


def _checked(noisy: npt.ArrayLike, total: int) -> tuple[IntArray, int]:
    y, goal = check_integers("noisy", noisy), check_integer("total", total, least=0)
    if len(y) == 0 and goal:
        raise ValueError(f"total={goal} must be 0, because the family is empty")
    if len(y):
        check_magnitudes(y, goal)
    return y, goal


def _is_forced(y: IntArray, total: int) -> bool:
    """Whether there is only one feasible point, with equal entries; solvers need an interior."""
    return len(y) <= 1 or total == 0


def _within(y: IntArray, total: int, distance: int) -> bool:
    """Whether an integer x >= 0 with Σx = total lies within this distance of y in every entry; exact."""
    if distance < 0 or int(y.min()) + distance < 0:
        return False
    return int(np.maximum(y - distance, 0).sum()) <= total <= int((y + distance).sum())


def _violation(d: Any, y: IntArray, total: int, solver: str) -> str | None:
    """The message for a solution that a solver calls optimal and that violates a constraint; None if it is feasible."""
    off = np.asarray(d, np.float64)
    worst = max(abs(float(off.sum()) - (total - int(y.sum()))), -float((y + off).min()))
    if worst <= TOLERANCE * max(1.0, float(np.abs(off).max())):
        return None
    return f"{solver} calls a solution optimal that violates a constraint by {worst:.3g}"
