"""Bounds on the error of `TopDown`: InfTDA's Theorem 4, and a tighter bound for a given tree and budget.

The argument, for every family of children (Boninsegna and Silvestri 2025, proof of Theorem 4). Let x be the children's
true counts, y = x + Z the noisy ones, x̃ those released, and C and C̃ the parent's true and released counts. x̃ is as near
to y, in the largest change, as integers ≥ 0 that add up to C̃ can be. One such vector is x + o with Σo = C̃ − C and no
|o_i| above |C̃ − C|: where C̃ ≥ C, raise any entries; where C̃ < C, lower entries, none below 0. So
max|x̃ − y| ≤ max|x + o − y| ≤ max|Z| + |C̃ − C|, and

    |x̃_i − x_i| ≤ max|x̃ − y| + |Z_i| ≤ 2·max|Z| + |C̃ − C|.

A parent released as 0 has children of 0, whose errors are at most its own. A level where no node has a sibling is not
measured; its nodes have their parents' errors. A measured root errs by |Z| at most, since cutting at 0 brings it nearer
to a count. Hence, with M_j the largest noise at level j, no node of level l has an error above

    S_l = (|Z| of the root, where it is measured) + 2·Σ_{j ≤ l, measured} M_j.

It holds for the Chebyshev projections only: `TopDown()`, and `TopDown(projection=…)` with `"chebyshev-descending"` or
`"cvxpy-linf"`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tallytree.budget import Budget, BudgetSplit
from tallytree.counts import TopDown
from tallytree.counts.mechanism import in_place_of_counts
from tallytree.hierarchy import Hierarchy, nodes_per_level
from tallytree.lab._internals import (
    Accounting,
    NeighboringName,
    Noise,
    NoisePlan,
    OnUnknown,
    RecordOptions,
    level_sensitivities,
    plan_noise,
)
from tallytree.product import Product
from tallytree.support.arrays import FloatArray
from tallytree.support.validate import integer, safe_text

GRID = 4_096
"""How many points the distribution of a level's largest noise has; a value between two points counts as the larger."""
NEGLIGIBLE = 1e-9
"""Of beta: the probability beyond the last point of a distribution, which counts as a failure."""
ROUNDING = 1 + 1e-9
"""A factor above the relative error of sums of probabilities in floating point, all of whose terms are positive."""
MAX_SUMMED_SIGMA = 1e4
"""The largest σ for which tails of discrete Gaussian noise are summed; above it, normal tails bound them."""


def theorem_4_bound(branching: int, level: int, sigma: float, beta: float = 0.05) -> float:
    """InfTDA's Theorem 4: a bound on the largest error of a level, where every node has the same number of children.

    The root's count is public, every node has b children, and every level has discrete Gaussian noise of scale σ. The
    error of one node of level l is at most 2·Σ_{j ≤ l} max|Z_j| over the l families on its path, of b noises each.
    P(|Z| ≥ t) ≤ 2·exp(−t²/(2σ²)) (Canonne et al. 2020, Corollary 9), so by a union over l·b noises and over the b^l
    nodes of the level, as in the paper, all errors are at most

        2·l·σ·√(2·ln(2·l·b^(l+1)/β))

    with probability at least 1 − β. Under bounded privacy with one record each, σ² = T/ρ for T levels of a budget ρ.

    Args:
        branching: b ≥ 1.
        level: l ≥ 0; the root's is 0.
        sigma: σ > 0, the scale of the noise.
        beta: the probability, in (0, 1), that the bound fails.

    Returns:
        The bound, in records.

    Raises:
        ValueError: a value out of range.
        TypeError: a value of the wrong kind.

    Example:
        >>> round(theorem_4_bound(branching=2, level=1, sigma=10), 2)
        63.72
    """
    children, depth = integer(branching, "branching", least=1), integer(level, "level", least=0)
    scale, failure = _number(sigma, "sigma"), _probability(beta)
    if not 0 < scale < math.inf:
        raise ValueError(f"sigma: {sigma!r} must be positive and finite")
    if depth == 0:
        return 0.0
    logarithm = math.log(2 * depth) + (depth + 1) * math.log(children) - math.log(failure)
    return 2 * depth * scale * math.sqrt(2 * logarithm)


def top_down_error_bound(
    tree: Hierarchy | Product,
    budget: Budget,
    *,
    neighboring: NeighboringName,
    beta: float = 0.05,
    max_contributions: int = 1,
    budget_split: BudgetSplit = None,
    accounting: Accounting | None = None,
    on_unknown: OnUnknown = "error",
    person: str | None = None,
    distinct: bool = False,
) -> dict[str, int]:
    """For each level, an error that no node exceeds with probability 1 − beta, when `TopDown()` publishes this tree.

    Uses public facts only, so it costs nothing. See `plan_error_bound`.

    Args:
        tree: a `Hierarchy` or a `Product`.
        budget: what will be spent.
        neighboring: see `tallytree.release_counts`.
        beta: the probability, in (0, 1), that the bound of a level fails. Each level fails with at most this
            probability by itself; for all levels to hold together, divide it by their number.
        max_contributions: see `tallytree.release_counts`.
        budget_split: see `tallytree.release_counts`.
        accounting: see `tallytree.release_counts`.
        on_unknown: see `tallytree.release_counts`; with `"drop"` the total is measured.
        person: see `tallytree.release_counts`; the total is measured then. What the bound is about is the number of
            records that count: those that the contribution bound leaves out are no part of it.
        distinct: see `tallytree.release_counts`; the bound is about the number of people then, leaf by leaf.

    Returns:
        The bound in records by level, root first.

    Raises:
        ValueError, TypeError: an argument is not usable.

    Example:
        >>> import pyarrow as pa, tallytree as tt
        >>> areas = tt.Hierarchy.from_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}),
        ...                                 levels=["state", "county"])
        >>> top_down_error_bound(areas, tt.Budget(rho=0.5), neighboring="change_one")
        {'all': 0, 'state': 8, 'county': 16}
    """
    if not isinstance(tree, Hierarchy | Product):
        raise TypeError(f"tree: {type(tree).__name__} must be a tallytree.Hierarchy or a tallytree.Product")
    terms = RecordOptions(
        neighboring=neighboring,
        max_contributions=max_contributions,
        on_unknown=on_unknown,
        person=person,
        distinct=distinct,
    )
    asked = TopDown().statistics(tree, total_is_public=terms.total_is_public)
    statistics = in_place_of_counts(asked, tree, distinct=distinct)
    bounds = level_sensitivities(statistics, terms.relation, terms.bound, max_quantity=1, nodes=nodes_per_level(tree))
    return plan_error_bound(tree, plan_noise(budget, bounds, budget_split, accounting), beta=beta)


def plan_error_bound(tree: Hierarchy | Product, plan: NoisePlan, *, beta: float = 0.05) -> dict[str, int]:
    """The bounds of `top_down_error_bound` for levels that are measured according to a plan.

    The least integer q with P(S_l ≤ q) ≥ 1 − β, where S_l (see this module's docstring) has every node's noise in
    it, measured or not: noises are independent, so with n nodes P(M ≤ t) = P(|Z| ≤ t)^n, and the distribution of S_l is
    the convolution of its terms'. The tails are those of the discrete laws: 2·q^t/(1 + q), q = exp(−1/scale), for
    discrete Laplace noise; summed for discrete Gaussian noise, or P(Z ≥ t) ≤ P(N ≥ t − 1) for σ above 10^4 (Canonne et
    al. 2020, Proposition 25). Every rounding makes the bound larger.

    Args:
        tree: a `Hierarchy` or a `Product`.
        plan: the noise of every measured level.
        beta: the probability, in (0, 1), that the bound of a level fails.

    Returns:
        The bound in records by level, root first.

    Raises:
        ValueError: a beta out of range, or a level of the plan that the tree does not have.
        TypeError: a beta that is not a number.
    """
    failure = _probability(beta)
    for level in plan.levels:
        if level not in tree.levels:
            raise ValueError(f"plan: the tree has no level {level!r}; its levels are {', '.join(tree.levels)}")
    measured = [
        _Largest(plan.levels[level].noise, tree.size(depth), 2 if depth else 1)
        for depth, level in enumerate(tree.levels)
        if level in plan.levels
    ]
    ignored = NEGLIGIBLE * failure
    step = max(1, -(-max((largest.reach(ignored) for largest in measured), default=0) // GRID))
    left = iter(measured)
    spread, lost = np.ones(1), 0.0
    found: dict[str, int] = {}
    for level in tree.levels:
        if level in plan.levels:
            masses, beyond = next(left).masses(step, ignored)
            spread, lost = np.convolve(spread, masses), lost + beyond
        exceeded = np.append(np.cumsum(spread[:0:-1])[::-1], 0.0)  # P(S_l > step·i) for each i
        found[level] = step * int(np.argmax(exceeded * ROUNDING + lost <= failure))
    return found


@dataclass(frozen=True)
class _Largest:
    """`times` the largest magnitude among n independent draws of the noise."""

    noise: Noise
    n: int
    times: int

    def exceeds(self, points: FloatArray) -> FloatArray:
        """The probabilities that it exceeds each of `points`, integers ≥ 0."""
        one = _tails(self.noise, np.floor(points / self.times) + 1)
        with np.errstate(divide="ignore"):  # a noise that certainly exceeds 0 has log 0
            return -np.expm1(float(self.n) * np.log1p(-one))

    def reach(self, probability: float) -> int:
        """A number that it exceeds with at most this probability."""
        point = 1
        while self.exceeds(np.array([float(point)]))[0] > probability:
            point += point // 4 + 1
        return point

    def masses(self, step: int, probability: float) -> tuple[FloatArray, float]:
        """The probabilities that it lies in (step·(i − 1), step·i] for i = 0, 1, …, and what at most is left beyond."""
        points = step * np.arange(-(-self.reach(probability) // step) + 1, dtype=np.float64)
        beyond = self.exceeds(points)
        return -np.diff(beyond, prepend=1.0), float(beyond[-1])


def _tails(noise: Noise, t: FloatArray) -> FloatArray:
    """P(|Z| ≥ t) for integers t ≥ 1, or a little more."""
    scale = float(noise.scale)
    if noise.distribution == "discrete_laplace":
        return 2 * np.exp(-t / scale) / (1 + math.exp(-1 / scale))
    if scale > MAX_SUMMED_SIGMA:
        return np.array([math.erfc((x - 1) / (scale * math.sqrt(2))) for x in t.tolist()])
    upper = _gaussian_tails(scale)
    return upper[np.minimum(t, len(upper) - 1).astype(np.int64)]


@lru_cache(maxsize=32)
def _gaussian_tails(sigma: float) -> FloatArray:
    """P(|Z| ≥ t) for t = 0, 1, …: (2·Σ_{k ≥ t} w_k) / (2·Σ_{k ≥ 0} w_k − 1) for t ≥ 1, with w_k = exp(−k²/(2σ²))."""
    k = np.arange(math.ceil(40 * sigma) + 2, dtype=np.float64)  # beyond, weights are below 1e-347: 0 in floats
    upper = np.cumsum(np.exp(-((k / sigma) ** 2) / 2)[::-1])[::-1]
    tails: FloatArray = 2 * upper / (2 * upper[0] - 1)
    tails[0] = 1.0
    tails.flags.writeable = False
    return tails


def _number(value: float, argument: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{argument}: {safe_text(value)} must be a number")
    return float(value)


def _probability(beta: float) -> float:
    number = _number(beta, "beta")
    if not 0 < number < 1:
        raise ValueError(f"beta: {beta!r} must lie strictly between 0 and 1, for instance 0.05")
    return number
