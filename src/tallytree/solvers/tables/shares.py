"""`budget_split="auto"` for tables: the shares of the budget that make the worst wanted table as precise as possible.

**The problem.** Each candidate is a marginal at a level of areas, and gets a share p of the budget. Wanted are tables,
each with a standard deviation that it is divided by. The largest of these quotients is to be least. It depends on
public facts only: the numbers of areas and values, and the noise of each candidate.

**The variance.** In a tree where all families of a level have equal sizes, areas are like the groups of an attribute:
with n_l = (leaf areas)/(areas of level l), the eigenvalue of the component S of differences between areas of level j is

    μ_jS = Σ_{l ≥ j, T ≥ S} u_lT m_T n_l,     and a table (l, T) has the variance     Σ_{j ≤ l, S ≤ T} κ / μ_jS

with κ = n_l² (1/n_j − 1/n_{j−1}) times the part of the component in a cell of T, on average over its cells. So the
squares of the quotients are K (1/(M p)) with constant matrices K and M, where the precision u is proportional to the
share (a share of ρ): a convex problem. Where it is proportional to the share's square (Laplace noise, a share of ε) it
is not convex; see `_laplace`. Levels in between with groups of unequal sizes enter with the mean over their cells, as
if the estimate were least squares.

**The solution** is the same on every machine: it uses only operations of which IEEE 754 fixes every bit (no BLAS, no
logarithms), in a fixed order, and is rounded to integer steps.

**The least worst** of several sums of reciprocals (`least_worst`): min over p of max_j [K (1/(M p))]_j.
p ≥ 0 adds up to 1, and K and M are matrices ≥ 0. Each F_j = [K (1/(M p))]_j is convex, and F(α p) = F(p)/α. So the
problem is that of the least Σp with F(p) ≤ 1, divided by its sum. That is solved by a primal-dual interior-point method
(Boyd and Vandenberghe 2004, section 11.7) with the conditions

    1 + Σ_j θ_j ∇F_j(p) − z = 0,     θ_j (1 − F_j(p)) = τ,     z_i p_i = τ

in Newton steps, τ decreasing to 0. A step is not asked to lower the residual of these conditions: a share that goes to
0 makes that residual so curved that such steps become tiny (200 were not enough where 8 are).

**How close it is.** For weights θ that add up to 1, G = Σ θ_j F_j is convex and ∇G·p = −G, so that on all shares max_j
F_j ≥ G(p) + min_i ∇_i G(p) + G(p) = 2 G(p) − max_i |∇_i G(p)|: a lower bound that anyone can check.

All arithmetic is of +, −, ·, / and √ of doubles in a fixed order (sums go over the first axis of arrays), so the result
is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tallytree.solvers.tables.marginals import Detail, Marginal
from tallytree.solvers.tables.noise import Term, cell_factors
from tallytree.support.arrays import FloatArray, IntArray

MOST_STEPS = 200
"""Newton steps. It mostly takes 5 to 20 of them; up to 150 were seen where gains differ by a factor of 10^14."""
CLOSE = 1e-7
"""The method ends at this relative gap between the worst value and its lower bound."""


class ShareProblem(NamedTuple):
    """What to minimise.

    Attributes:
        costs: K, float64 (wanted, parts).
        gains: M, float64 (parts, candidates).
    """

    costs: FloatArray
    gains: FloatArray

    def values(self, shares: FloatArray) -> FloatArray:
        """F_j, float64 (wanted,); inf where a share of 0 leaves something without any measurement."""
        told = _product(self.gains, shares)
        used = (self.costs > 0).any(axis=0)
        if (told[used] == 0).any():
            lacking = (self.costs[:, told == 0] > 0).any(axis=1)
            found = _product(self.costs[:, told > 0], 1 / told[told > 0])
            found[lacking] = np.inf
            return found
        return _product(self.costs[:, used], 1 / told[used])

    def of(self, candidates: IntArray) -> ShareProblem:
        """The problem with only these candidates."""
        return ShareProblem(self.costs, self.gains[:, candidates])

    def with_least(self, least: float) -> ShareProblem:
        """The problem in what each candidate gets beyond `least` times the sum of p."""
        count = self.gains.shape[1]
        beyond = least / (1 - count * least)
        everything = _product(self.gains, np.ones(count))
        return ShareProblem(self.costs, self.gains + beyond * everything[:, None])


class Solution(NamedTuple):
    """The best shares.

    Attributes:
        shares: p, float64 (candidates,) >= 0, adds up to 1.
        worst: the largest F_j.
        bound: a lower bound of the largest F_j for any shares.
    """

    shares: FloatArray
    worst: float
    bound: float


def least_worst(problem: ShareProblem, close: float = CLOSE) -> Solution:
    """The shares of the least worst value, and how close to it they are; see the module's docstring.

    Args:
        problem: what to minimise.
        close: the relative gap between the worst value and its lower bound at which the method ends.

    Returns:
        The best shares found.

    Raises:
        ValueError: if even all candidates leave a value infinite.
    """
    count = problem.gains.shape[1]
    even = np.full(count, 1 / count)
    if not np.isfinite(problem.values(even)).all():
        raise ValueError("a wanted table does not follow from the candidates; measure it, or a table finer than it")
    used = (problem.costs > 0).any(axis=0)
    problem = ShareProblem(problem.costs[:, used], problem.gains[used])
    scale = float(problem.values(even).max())
    scaled = ShareProblem(problem.costs / scale, problem.gains)
    p = 2 * even  # F(even) ≤ 1, so F(p) ≤ 1/2
    theta, z = np.full(len(problem.costs), 1.0 / len(problem.costs)), np.full(count, 0.5)
    best = Solution(even, scale, 0.0)
    for _ in range(MOST_STEPS):
        with np.errstate(all="ignore"):
            p, theta, z = _step(scaled, p, theta, z)
        if not (np.isfinite(p).all() and np.isfinite(theta).all()):
            break  # nearer than doubles can tell
        shares = p / sum(p.tolist())
        values, bound = scaled.values(shares), _bound(scaled, shares, theta)
        bound = max(best.bound, bound * scale)
        if values.max() * scale < best.worst:
            best = Solution(shares, float(values.max()) * scale, bound)
        else:
            best = best._replace(bound=bound)
        if best.worst - best.bound <= close * best.worst:
            break
    return best


def _bound(problem: ShareProblem, shares: FloatArray, theta: FloatArray) -> float:
    weights = theta / sum(theta.tolist())
    told = _product(problem.gains, shares)
    mixed = _product(problem.costs.T, weights)
    value = sum((mixed / told).tolist())
    slopes = _product(problem.gains.T, mixed / told**2)
    return float(2 * value - slopes.max())


def _step(
    problem: ShareProblem, p: FloatArray, theta: FloatArray, z: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """One Newton step towards a tenth of the present gap, as long as all stays positive and F(p) stays below 1."""
    costs, gains = problem
    told = _product(gains, p)
    slopes = -_weighted(costs.T, 1 / told**2, gains)  # ∇F, (wanted, candidates)
    slack = 1 - _product(costs, 1 / told)
    tau = 0.1 * (sum((theta * slack).tolist()) + sum((z * p).tolist())) / (len(theta) + len(p))
    mixed = _product(costs.T, theta)
    matrix = _weighted(gains, 2 * mixed / told**3, gains) + _weighted(slopes, theta / slack, slopes)
    matrix[np.arange(len(p)), np.arange(len(p))] += z / p
    target = -1 - _product(slopes.T, tau / slack) + tau / p
    dp = _solved(matrix, target)
    change = _product(slopes, dp)
    dtheta = tau / slack - theta + theta / slack * change
    dz = tau / p - z - z / p * dp
    size = min(1.0, 0.99 * _room(theta, dtheta), 0.99 * _room(z, dz), 0.99 * _room(p, dp))
    for _ in range(60):
        if (_product(costs, 1 / _product(gains, p + size * dp)) < 1).all():
            break
        size /= 2
    return p + size * dp, theta + size * dtheta, z + size * dz


def _room(values: FloatArray, change: FloatArray) -> float:
    """The largest step that leaves all values ≥ 0."""
    falling = change < 0
    return float((-values[falling] / change[falling]).min(initial=1e300))


def _product(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """The product of a matrix and a vector, summed in the order of the columns."""
    return np.asarray(np.add.reduce(np.ascontiguousarray(matrix.T) * vector[:, None], axis=0), dtype=np.float64)


def _weighted(left: FloatArray, weights: FloatArray, right: FloatArray) -> FloatArray:
    """Leftᵀ · diag(weights) · right, summed in the order of the rows."""
    rows = (weights[:, None] * left)[:, :, None] * right[:, None, :]
    return np.asarray(np.add.reduce(rows, axis=0), dtype=np.float64)


def _solved(matrix: FloatArray, target: FloatArray) -> FloatArray:
    """The solution of a positive definite system, by elimination without pivots, scaled to a diagonal of ones."""
    scale = 1 / np.sqrt(matrix.diagonal())
    a = matrix * scale * scale[:, None]
    x = target * scale
    for i in range(len(a) - 1):
        factors = a[i + 1 :, i] / a[i, i]
        a[i + 1 :, i + 1 :] -= factors[:, None] * a[i, i + 1 :]
        x[i + 1 :] -= factors * x[i]
    for i in range(len(a) - 1, -1, -1):
        x[i] /= a[i, i]
        x[:i] -= a[:i, i] * x[i]
    return np.asarray(x * scale, dtype=np.float64)


Table = tuple[int, Marginal]
"""A level of areas, and a marginal of the detail."""

STEPS = 100_000
"""Every share is an integer number of steps of this many."""
WORTH = 1e-3
"""Candidates are left out as long as the worst quotient grows by less than this part of it."""
ROUNDS = 12
"""Convex problems solved from one start, where precisions are proportional to the shares' squares."""
NEAR = 1e-4
"""The relative gap at which such a convex problem counts as solved."""
NO_SHARE = 1e-4
"""Smaller shares are taken for 0 on the way, where precisions are proportional to the shares' squares."""
LEAST_PART = 20
"""Where every candidate must get a share, it is at least the even share divided by this."""


def auto_shares(
    detail: Detail,
    areas: Sequence[int],
    variances: Mapping[Table, float],
    wanted: Mapping[Table, float],
    *,
    gaussian: bool,
    keep_all: bool = False,
    public_totals_level: int | None = None,
) -> dict[Table, Fraction]:
    """The shares of the budget that make the worst quotient of a table's standard deviation by its wish least.

    Args:
        detail: the attributes.
        areas: the number of areas of each level, from 1 at the root.
        variances: of the candidates, each with the variance of the noise in a cell if it had all of the budget.
        wanted: of the tables asked for, each with the standard deviation that it is divided by.
        gaussian: whether a share is a share of ρ, so that variances are proportional to 1/share and not to 1/share².
        keep_all: whether every candidate must get a share: at least a twentieth of the even one.
        public_totals_level: the last level at which the total of every area is known exactly.

    Returns:
        Of every candidate that gets one, its share: a positive multiple of 1/100,000. They add up to 1. Empty where
        public totals determine all that is wanted, unless all candidates are kept.

    Raises:
        ValueError: if a wanted table does not follow from all candidates together.
    """
    tables = list(variances)
    problem = share_problem(detail, areas, variances, wanted, public_totals_level)
    if not problem.costs.any():
        return _rounded(tables, np.full(len(tables), 1 / len(tables))) if keep_all else {}
    costs, gains = problem.costs.T.tobytes(), problem.gains.tobytes()
    return _rounded(tables, np.array(_best_shares(costs, gains, len(problem.gains), gaussian, keep_all)))


@lru_cache(maxsize=16)
def _best_shares(costs: bytes, gains: bytes, parts: int, gaussian: bool, keep_all: bool) -> tuple[float, ...]:
    """The shares of the candidates, kept by public facts, as the search takes long: Kᵀ and M, of so many rows each."""
    problem = ShareProblem(np.frombuffer(costs).reshape(parts, -1).T, np.frombuffer(gains).reshape(parts, -1))
    return tuple((_gaussian if gaussian else _laplace)(problem, keep_all).tolist())


def share_problem(
    detail: Detail,
    areas: Sequence[int],
    variances: Mapping[Table, float],
    wanted: Mapping[Table, float],
    public_totals_level: int | None = None,
) -> ShareProblem:
    """K and M of the module's docstring: rows as in `wanted`, columns as in `variances`, parts (j, S) in between."""
    exact = -1 if public_totals_level is None else public_totals_level
    below = [areas[-1] / number for number in areas]
    steps = [1 / n - (1 / above if above else 0.0) for above, n in zip([0.0, *below], below, strict=False)]
    parts = [(j, i) for j in range(len(areas)) for i in range(len(detail.components))]
    costs, gains = np.zeros((len(wanted), len(parts))), np.zeros((len(parts), len(variances)))
    mean_part = {}
    for _, marginal in wanted:
        for i in range(len(detail.components)):
            term = Term(i, i, np.zeros(0), None)
            mean_part[marginal, i] = sum(cell_factors(detail, marginal, term).tolist()) / detail.size(marginal)
    for e, (j, i) in enumerate(parts):
        for row, ((level, marginal), wish) in enumerate(wanted.items()):
            if j <= level and not (i == 0 and j <= exact):
                costs[row, e] = below[level] ** 2 * steps[j] * mean_part[marginal, i] / wish**2
        for column, ((level, marginal), variance) in enumerate(variances.items()):
            if j <= level and all(map(int.__le__, detail.components[i], marginal)):
                gains[e, column] = detail.mean_group(marginal) * below[level] / variance
    told = (costs > 0).any(axis=0)
    return ShareProblem(costs[:, told], gains[told])


def _gaussian(problem: ShareProblem, keep_all: bool) -> FloatArray:
    if keep_all:
        return _at_least(least_worst(problem.with_least(_least(problem))).shares)
    best = least_worst(problem)
    order = np.argsort(best.shares, kind="stable")
    shares, fewest, most = best.shares, 0, len(order)
    while most - fewest > 1:  # without the `fewest` smallest it is good enough, without the `most` smallest it is not
        tried = (fewest + most) // 2
        kept = np.sort(order[tried:])
        found = _solved_with(problem, kept)
        if found is not None and found[1] <= best.worst * (1 + WORTH) ** 2:
            shares, fewest = found[0], tried
        else:
            most = tried
    return shares


def _laplace(problem: ShareProblem, keep_all: bool) -> FloatArray:
    """A split where precisions are proportional to the shares' squares: the best of what several starts lead to.

    The starts are the even split, the best one for precisions proportional to shares, and one that grows: from
    the best single candidate, the candidate that lowers the worst value most is added as long as one does.
    """
    count = problem.gains.shape[1]
    if keep_all:
        return _at_least_improved(problem, np.full(count, 1 / count))
    starts = [np.full(count, 1 / count), least_worst(problem, NEAR).shares]
    found = [_improved(problem, start) for start in starts] + [_grown(problem)]
    values = [_worst(problem, shares) for shares in found]
    return _thinned(problem, found[values.index(min(values))])


def _worst(problem: ShareProblem, shares: FloatArray) -> float:
    return float(problem.values(shares**2).max())


def _improved(problem: ShareProblem, shares: FloatArray, rounds: int = ROUNDS) -> FloatArray:
    """Lower the worst value from a split, by convex problems.

    √v of the precisions v is concave, so Σ√v ≤ 1 holds wherever its tangent at the present shares does: Σ v/p ≤ 1. In
    v/p this is a problem with precisions proportional to shares. Its solution is no worse than p.
    """
    worst = _worst(problem, shares)
    for _ in range(rounds):
        large = shares > NO_SHARE
        kept = np.flatnonzero(large if np.isfinite(_worst(problem, shares * large)) else shares > 0)
        some = ShareProblem(problem.costs, problem.gains[:, kept] * shares[kept])
        tried = np.zeros_like(shares)
        tried[kept] = np.sqrt(least_worst(some, NEAR).shares * shares[kept])
        tried /= sum(tried.tolist())
        found = _worst(problem, tried)
        if found >= worst * (1 - WORTH / 10):
            return tried if found < worst else shares
        shares, worst = tried, found
    return shares


def _thinned(problem: ShareProblem, shares: FloatArray) -> FloatArray:
    """Leave out candidates, the smallest share first, as long as the worst value hardly grows."""
    limit = _worst(problem, shares) * (1 + WORTH) ** 2
    for smallest in np.argsort(shares, kind="stable"):
        without = shares.copy()
        without[smallest] = 0.0
        if shares[smallest] == 0 or not np.isfinite(_worst(problem, without)):
            continue
        without = _improved(problem, without / sum(without.tolist()), 2)
        if _worst(problem, without) <= limit:
            shares = without
            limit = min(limit, _worst(problem, shares) * (1 + WORTH) ** 2)
    return shares


def _grown(problem: ShareProblem) -> FloatArray:
    """From the best single candidate, or from all of them, the split that grows while another candidate pays."""
    count = problem.gains.shape[1]
    singles: list[FloatArray] = list(np.eye(count))
    shares: FloatArray = min([*singles, np.full(count, 1 / count)], key=lambda start: _worst(problem, start))
    while True:
        worst = _worst(problem, shares)
        tries = [
            (1 - part) * shares + part * singles[i]
            for i in np.flatnonzero(shares <= NO_SHARE)
            for part in (0.1, 0.3, 0.5)
        ]
        tried = _improved(problem, min(tries, key=lambda split: _worst(problem, split), default=shares))
        if _worst(problem, tried) >= worst * (1 - WORTH) ** 2:
            return shares
        shares = tried


def _at_least_improved(problem: ShareProblem, shares: FloatArray) -> FloatArray:
    """A split of which every share is at least the least one, improved as in `_improved`."""
    least = _least(problem)
    for _ in range(ROUNDS):
        worst = _worst(problem, shares)
        some = ShareProblem(problem.costs, problem.gains * shares)
        tried = np.maximum(np.sqrt(least_worst(some, NEAR).shares * shares), least)
        tried = least + (tried - least) * (1 - least * len(tried)) / sum((tried - least).tolist())
        if _worst(problem, tried) >= worst * (1 - WORTH / 10):
            return shares
        shares = tried
    return shares


def _solved_with(problem: ShareProblem, kept: IntArray) -> tuple[FloatArray, float] | None:
    """The best shares where only these candidates have one, and the worst value; None if it is infinite."""
    count = problem.gains.shape[1]
    some = problem.of(kept)
    if not np.isfinite(some.values(np.full(len(kept), 1 / len(kept)))).all():
        return None
    found = least_worst(some)
    shares = np.zeros(count)
    shares[kept] = found.shares
    return shares, found.worst


def _least(problem: ShareProblem) -> float:
    return 1 / (LEAST_PART * int(problem.gains.shape[1]))


def _at_least(beyond: FloatArray) -> FloatArray:
    """The shares, where `beyond` is how `with_least` splits what is not the least share of each."""
    return 1 / (LEAST_PART * len(beyond)) + beyond * (1 - 1 / LEAST_PART)


def _rounded(tables: Sequence[Table], shares: FloatArray) -> dict[Table, Fraction]:
    """Integer steps by largest remainders, at least one for each positive share."""
    steps = np.maximum(np.floor(shares * STEPS), shares > 0).astype(np.int64)
    remainders = np.where(shares > 0, shares * STEPS - steps, -1.0)
    lacking = STEPS - int(steps.sum())
    steps[np.argsort(-remainders, kind="stable")[: max(0, lacking)]] += 1
    steps[int(np.argmax(steps))] += STEPS - int(steps.sum())
    return {table: Fraction(int(step), STEPS) for table, step in zip(tables, steps, strict=True) if step}
