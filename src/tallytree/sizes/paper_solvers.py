"""The papers' own solvers, kept to compare with: small inputs, all levels weighted alike, at most the total public."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tallytree.compute.arrays import IntArray
from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain
from tallytree.sizes.nearest_consistent import leaves_of_forest, region_parents, released, released_level, size_forest
from tallytree.sizes.noisy import NoisyLevel, whole_tails
from tallytree.solvers.papers import cost_table
from tallytree.solvers.papers.constraint_program import tree_constraint_program
from tallytree.solvers.papers.integer_programs import tails_mip, tree_mip
from tallytree.solvers.papers.relaxed_programs import tails_relaxed, tree_relaxed
from tallytree.terms import Invariants
from tallytree.validate import integer, require_packages

NEEDS = {"constraint_program": ("ortools",), "relaxed": ("cvxpy",), "mip": ("pyscipopt",)}
"""The packages behind a solver."""


def check_options(solver: str, known: Sequence[str], time_limit: float, delta: int | None = None) -> None:
    """Refuse options that no run could use, before any budget is spent.

    Raises:
        ValueError: an unknown solver, a limit or delta that is not positive.
        TypeError: a limit or delta of the wrong kind.
        ModuleNotFoundError: the solver's package is not installed.
    """
    if solver not in known:
        raise ValueError(f"solver: {solver!r} is not known; choose one of {', '.join(known)}")
    if isinstance(time_limit, bool) or not isinstance(time_limit, int | float):
        raise TypeError(f"time_limit: {time_limit!r} must be a number of seconds")
    if not 0 < time_limit < math.inf:
        raise ValueError(f"time_limit: {time_limit!r} must be a positive number of seconds")
    if delta is not None:
        if solver not in ("cost_table", "constraint_program"):
            raise ValueError(
                f"delta: {delta!r} is the width of cost tables; the solver {solver!r} has none, so leave it out"
            )
        integer(delta, "delta", least=1)
    require_packages("solver", solver, NEEDS.get(solver, ()))


def caveat(solver: str) -> str | None:
    """What must be said of a solver, if anything."""
    if solver != "relaxed":
        return None
    return (
        "rounds every number by itself, so its levels need not add up, nor keep the numbers of groups that are public."
    )


def refuse_public_groups(solver: str, instead: str, invariants: Invariants) -> None:
    """Refuse a solver that would not keep the public numbers of groups.

    Raises:
        ValueError: the number of groups of every leaf is public.
    """
    if invariants == "groups":
        raise ValueError(
            f'solver: {solver!r} knows the total number of groups at most; use invariants="total" (only that is '
            f'published exactly) or "none", without public_groups, or solver={instead!r}'
        )


def release_histograms(
    domain: SizesDomain, noisy: Sequence[NoisyLevel], solver: str, delta: int | None, time_limit: float
) -> Sequence[ReleasedSizes]:
    """Model 1 by one of the paper's ways."""
    if solver in ("cost_table", "constraint_program"):
        half = delta if delta is not None else _published_delta(noisy)
        return released(domain, _by_dynamic_program(domain.total, noisy, solver, half, time_limit))
    parent, values = size_forest(noisy)
    weights = np.append(np.ones(len(parent) - 1), 0.0)
    if solver == "mip":
        found = tree_mip(parent, values, weights, total=domain.total, time_limit=time_limit)
        return released(domain, leaves_of_forest(noisy, found))
    real = tree_relaxed(parent, values, weights, total=domain.total, time_limit=time_limit)
    return _rounded_levels(domain, noisy, real[:-1].reshape(domain.width, -1).T)


def _by_dynamic_program(
    total: int | None, noisy: Sequence[NoisyLevel], solver: str, delta: int, time_limit: float
) -> IntArray:
    """The histograms of the leaves by the paper's dynamic program, with its own merge or with constraint programs."""

    def solve(parent: IntArray, values: IntArray) -> IntArray:
        if solver == "cost_table":
            return cost_table.project(parent, values, delta=delta, total=total).x
        return tree_constraint_program(parent, values, delta=delta, total=total, time_limit=time_limit)

    parent, values = size_forest(noisy)
    if total is not None:
        return leaves_of_forest(noisy, solve(parent, values))
    # Without a public total nothing holds the sizes together, and the root above them has no term of its own.
    regions = region_parents([level.first_leaf for level in noisy])
    trees = [solve(regions, of_one_size) for of_one_size in values[:-1].reshape(-1, len(regions))]
    return leaves_of_forest(noisy, np.append(np.concatenate(trees), 0))


def release_tails(
    domain: SizesDomain, noisy: Sequence[NoisyLevel], solver: str, time_limit: float
) -> Sequence[ReleasedSizes]:
    """Model 2, stated in tail counts, by one of the paper's ways."""
    values = np.concatenate([whole_tails(domain, level) for level in noisy])
    parent = region_parents([level.first_leaf for level in noisy])
    solve = tails_relaxed if solver == "relaxed" else tails_mip
    tails = np.asarray(solve(parent, values, total=domain.total, time_limit=time_limit))
    whole = np.rint(tails).astype(np.int64)
    histograms = whole - np.pad(whole[:, 1:], ((0, 0), (0, 1)))
    return _rounded_levels(domain, noisy, histograms)


def _published_delta(noisy: Sequence[NoisyLevel]) -> int:
    """3·⌈2λ²⌉ (section 11.2, footnote 2), with the variance of the noise for 2λ², which it is up to rounding."""
    return 3 * max(1, math.ceil(max(level.noise.variance for level in noisy)))


def _rounded_levels(
    domain: SizesDomain, noisy: Sequence[NoisyLevel], values: npt.NDArray[np.float64] | IntArray
) -> Sequence[ReleasedSizes]:
    """Every level by itself: what each node's real values round to, so that levels need not add up."""
    whole = np.maximum(np.rint(values).astype(np.int64), 0)
    tables = dict(zip([level.depth for level in noisy], np.split(whole, _ends(noisy)), strict=True))
    levels: list[ReleasedSizes] = []
    for depth in range(len(domain.hierarchy.levels)):
        table = tables.get(depth)
        if table is None:  # every node is its parent's only child
            levels.append(levels[-1])
            continue
        levels.append(released_level(domain, table))
    return levels


def _ends(noisy: Sequence[NoisyLevel]) -> list[int]:
    return [int(end) for end in np.cumsum([len(level.values) for level in noisy])[:-1]]
