"""The third-party packages that the papers' solvers need, by option; all are in the extra `tallytree[papers]`."""

from __future__ import annotations

from collections.abc import Mapping

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
