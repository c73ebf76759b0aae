"""The option `solver` of the mechanisms that offer the papers' own solvers beside the product's: checks and caveats."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tallytree.kinds.terms import Invariants
from tallytree.support.validate import integer, require_packages, safe_text, text


def check_options(solver: str, known: Sequence[str], time_limit: float, delta: int | None = None) -> None:
    """Refuse options that are not valid together, before any budget is spent.

    Raises:
        ValueError: an unknown solver, a time limit or delta that is not positive, or a delta for a solver without one.
        TypeError: a time limit or delta of the wrong type.
        ModuleNotFoundError: the solver's package is not installed.
    """
    if text(solver, "solver", "the name of a solver") not in known:
        raise ValueError(f"solver: {solver!r} is not known; choose one of {', '.join(known)}")
    if isinstance(time_limit, bool) or not isinstance(time_limit, int | float):
        raise TypeError(f"time_limit: {safe_text(time_limit)} must be a number of seconds")
    if not 0 < time_limit < math.inf:
        raise ValueError(f"time_limit: {safe_text(time_limit)} must be a positive number of seconds")
    if delta is not None:
        if solver not in ("cost_table", "constraint_program"):
            raise ValueError(
                f"delta: {safe_text(delta)} is the width of cost tables; the solver {solver!r} has none, so leave it "
                "out"
            )
        integer(delta, "delta", least=1)
    from tallytree.solvers.papers.third_party import SOLVER_PACKAGES

    require_packages("solver", repr(solver), SOLVER_PACKAGES.get(solver, ()), "papers")


def caveat(solver: str) -> str | None:
    """The promise that releases by this solver do not keep; None if they keep all."""
    if solver != "relaxed":
        return None
    return (
        "rounds every number by itself, so its levels need not add up, nor keep the numbers of groups that are public."
    )


def refuse_public_groups(solver: str, instead: str, invariants: Invariants) -> None:
    """Refuse one of the papers' solvers where public numbers of groups must be kept for every leaf.

    Raises:
        ValueError: the number of groups of every leaf is public.
    """
    if invariants == "groups":
        raise ValueError(
            f'solver: {solver!r} keeps at most the total number of groups; use invariants="total" (only that is '
            f'published exactly) or "none", without public_groups, or solver={instead!r}'
        )
