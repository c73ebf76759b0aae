"""What the programs for third-party solvers share: imports of the extra `papers`, settings, time limits, status checks.

Third-party solvers are imported in `tallytree.solvers.papers` only.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from tallytree.support.arrays import IntArray
from tallytree.support.validate import missing, require_packages

PROJECTION_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "cvxpy-l2": ("cvxpy", "clarabel"),
    "cvxpy-linf": ("cvxpy", "highspy"),
}
"""For the options `projection=` of `tallytree.counts.TopDown` that `simplex_programs` solves."""

SOLVER_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "constraint_program": ("ortools",),
    "relaxed": ("cvxpy",),
    "mip": ("pyscipopt",),
}
"""For the options `solver=` of the mechanisms for group sizes that `histogram_programs` solves."""


MAX_MAGNITUDE = 2**40
"""Noisy values and totals are below this magnitude, because the solvers compute in floats, to about nine digits."""
TOLERANCE = 1e-6
"""The greatest violation of a constraint by a relaxed solution, relative to its largest value, or to 1."""
# By name of the solver: settings at which all solvers are equally accurate, and the name of its time limit. Clarabel is
# the fastest: 0.1 s at 3,000 nodes and 2-4 s at 100,000, SCS 0.2 s and 5-9 s, OSQP 0.1-2 s and 7 s to over 40 s, HiGHS
# (active set) 3 s at 3,000.
QUADRATIC_SOLVERS: dict[str, tuple[dict[str, Any], str]] = {
    "CLARABEL": ({"tol_gap_rel": 1e-12, "tol_gap_abs": 1e-8, "tol_feas": 1e-9}, "time_limit"),
    "SCS": ({"eps_abs": 1e-6, "eps_rel": 1e-9, "max_iters": 1_000_000}, "time_limit_secs"),
    "OSQP": ({"eps_abs": 1e-6, "eps_rel": 1e-9, "max_iter": 1_000_000}, "time_limit"),
    "HIGHS": ({}, "time_limit"),
}


class TimeLimit:
    """A time limit in seconds, which starts when the object is made."""

    def __init__(self, time_limit: float, nodes: int) -> None:
        if isinstance(time_limit, bool) or not isinstance(time_limit, int | float | np.integer | np.floating):
            raise TypeError(f"time_limit={time_limit!r} must be a number of seconds")
        if not (time_limit > 0 and math.isfinite(time_limit)):
            raise ValueError(f"time_limit={time_limit} must be a positive number of seconds")
        self.limit, self.nodes = float(time_limit), nodes
        self.end = time.monotonic() + self.limit

    def left(self, solver: str) -> float:
        """The seconds that remain.

        Raises:
            TimeoutError: if none remain.
        """
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            raise self.over(solver)
        return seconds

    def over(self, solver: str) -> TimeoutError:
        """The error for a solver that needs more time."""
        return TimeoutError(
            f"time_limit: {self.limit:g} seconds were not enough for {solver} on {self.nodes:,} nodes; "
            "give more, or use the library's own solver"
        )


def check_magnitudes(noisy: IntArray, total: int | None) -> None:
    """Refuse values that a solver which computes in floats cannot tell apart.

    Raises:
        ValueError: a value of 2^40 or more in magnitude.
    """
    largest = max(int(noisy.max()), -int(noisy.min()), total or 0)
    if largest >= MAX_MAGNITUDE:
        raise ValueError(f"noisy and total must stay below 2^40 in magnitude for a general solver; got {largest}")


def solve_quadratic(cp: Any, task: Any, solver: str, limit: TimeLimit) -> str | None:
    """Solve a CVXPY problem; return None, or a sentence that says why there is no solution.

    Raises:
        TimeoutError: the time limit is over.
    """
    settings, name_of_limit = QUADRATIC_SOLVERS[solver]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the status says whether a solution is inaccurate; it is refused then
            task.solve(solver=solver, **settings, **{name_of_limit: limit.left(solver)})
    except cp.error.SolverError as error:
        limit.left(solver)
        return f"{solver} failed: {error}"
    if task.status != "optimal":
        limit.left(solver)
        return f"{solver} ended with status {task.status!r}, not 'optimal'"
    return None


def quadratic_solvers(cp: Any, solver: str | None) -> list[str]:
    """The named solver; by default all that are installed, fastest first, since the fastest fails on some problems.

    Raises:
        ModuleNotFoundError: no quadratic solver is installed.
        ValueError: the named solver is not known or not installed.
    """
    installed = [name for name in QUADRATIC_SOLVERS if name in cp.installed_solvers()]
    if not installed:
        raise missing("solver", "CVXPY", "a quadratic solver", "papers")
    if solver is None:
        return installed
    if solver not in installed:
        raise ValueError(f"solver: {solver!r} is not known or not installed; choose one of {', '.join(installed)}")
    return [solver]


def import_cvxpy(name: str) -> Any:
    """The module `cvxpy`.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    require_packages("solver", name, {"cvxpy": "CVXPY"}, "papers")
    import cvxpy

    return cvxpy


def import_pyscipopt(name: str) -> Any:
    """The module `pyscipopt`.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    require_packages("solver", name, {"pyscipopt": "PySCIPOpt"}, "papers")
    import pyscipopt

    return pyscipopt
