"""The histogram that is nearest in the norm 1, by HiGHS: one reading of the naive estimator of Kuo et al. 2018.

The optimum is not unique. Which one a solver returns depends on its method, so these are kept for comparison only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_integers
from tallytree.solvers.papers.preorder import check_integer
from tallytree.solvers.papers.third_party import TimeLimit, check_magnitudes
from tallytree.support.arrays import IntArray
from tallytree.support.validate import require_packages

Method = Literal["primal simplex", "dual simplex", "interior point"]
METHODS: Mapping[Method, Mapping[str, str | int]] = {
    "dual simplex": {"solver": "simplex", "simplex_strategy": 1},
    "primal simplex": {"solver": "simplex", "simplex_strategy": 4},
    "interior point": {"solver": "ipm", "run_crossover": "off"},
}
"""Options of HiGHS; without crossover the interior point is in the middle of the optima, not at a vertex."""
TOLERANCE = 1e-6


def nearest_in_l1(noisy: npt.ArrayLike, total: int, *, method: Method, time_limit: float = 3_600.0) -> IntArray:
    """Minimise Σ|x − noisy| over real x >= 0 with Σx = total, and round: the largest fractions up, the rest down.

    The program is min Σq with q >= noisy − x and q >= x − noisy, as the authors write their other programs.

    Args:
        noisy: (n,) integers below 2^40 in magnitude, n >= 1.
        total: the sum to reach, >= 0 and below 2^40.
        method: of HiGHS. Each ends at another optimum.
        time_limit: seconds.

    Returns:
        (n,) int64: non-negative, with the total.

    Raises:
        ModuleNotFoundError: HiGHS is not installed.
        TimeoutError: time_limit is over.
        RuntimeError: HiGHS ends with any other status than optimal, or with a solution that is not.
        TypeError: for anything but integers.
        ValueError: for values out of range, no cells, or an unknown method.

    Example:
        >>> nearest_in_l1([5, -2], 5, method="dual simplex").tolist()
        [5, 0]
    """
    y, goal = check_integers("noisy", noisy), check_integer("total", total, least=0)
    if len(y) == 0:
        raise ValueError("noisy: there are no cells; give at least one")
    if method not in get_args(Method):
        raise ValueError(f"method: {method!r} is not known; choose one of {', '.join(get_args(Method))}")
    check_magnitudes(y, goal)
    require_packages("solver", "nearest_in_l1", {"highspy": "HiGHS"}, "papers")
    limit = TimeLimit(time_limit, len(y))
    x = _solved(y, goal, method, limit)
    whole = np.floor(x + TOLERANCE).astype(np.int64)
    missing = goal - int(whole.sum())
    if x.min() < -TOLERANCE or not 0 <= missing <= len(y):
        raise RuntimeError("HiGHS calls a solution optimal that violates a constraint")
    whole[np.argsort(whole - x, kind="stable")[:missing]] += 1
    # Every optimum has the distance Σ max(−y, 0) + |total − Σ max(y, 0)|; rounding moves it by a unit a cell at most.
    clipped = np.maximum(y, 0)
    least = int((clipped - y).sum()) + abs(goal - int(clipped.sum()))
    if float(np.abs(x - y).sum()) > least + TOLERANCE * max(1, least):
        raise RuntimeError(f"HiGHS calls a distance of {np.abs(x - y).sum():.6g} optimal, but {least} is feasible")
    return whole


def _solved(y: IntArray, total: int, method: Method, limit: TimeLimit) -> npt.NDArray[np.float64]:
    import highspy
    from scipy import sparse

    n, one = len(y), sparse.identity(len(y), format="csr")
    rows = sparse.vstack([sparse.hstack([one, one]), sparse.hstack([-one, one]),
                          sparse.csr_matrix(np.repeat([[1.0, 0.0]], n, axis=1))]).tocsc()  # fmt: skip
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = 2 * n, 2 * n + 1
    program.col_cost_ = np.repeat([0.0, 1.0], n)
    program.col_lower_, program.col_upper_ = np.repeat([0.0, -np.inf], n), np.full(2 * n, np.inf)
    program.row_lower_ = np.concatenate([y, -y, [total]]).astype(np.float64)
    program.row_upper_ = np.concatenate([np.full(2 * n, np.inf), [total]])
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_, program.a_matrix_.index_ = rows.indptr, rows.indices
    program.a_matrix_.value_ = rows.data
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("time_limit", limit.left("HiGHS"))
    for option, value in METHODS[method].items():
        solver.setOptionValue(option, value)
    solver.passModel(program)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        limit.left("HiGHS")
        raise RuntimeError(f"HiGHS ended with status {solver.modelStatusToString(solver.getModelStatus())!r}")
    return np.asarray(solver.getSolution().col_value, dtype=np.float64)[:n]
