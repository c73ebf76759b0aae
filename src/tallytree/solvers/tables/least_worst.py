"""Shares that make the worst of several sums of reciprocals least: min over p of max_j [K (1/(M p))]_j.

p ≥ 0 adds up to 1, and K and M are matrices ≥ 0. Each F_j = [K (1/(M p))]_j is convex, and F(α p) = F(p)/α. So the
problem is that of the least Σp with F(p) ≤ 1, divided by its sum. That is solved by a primal-dual interior-point method
(Boyd and Vandenberghe 2004, section 11.7) with the conditions

    1 + Σ_j θ_j ∇F_j(p) − z = 0,     θ_j (1 − F_j(p)) = τ,     z_i p_i = τ

in Newton steps, τ decreasing to 0. A step is not asked to lower the residual of these conditions: a share that goes to
0 makes that residual so curved that such steps become tiny (200 were not enough where 8 are).

**How close it is.** For weights θ that add up to 1, G = Σ θ_j F_j is convex and ∇G·p = −G, so that on all shares
max_j F_j ≥ G(p) + min_i ∇_i G(p) + G(p) = 2 G(p) − max_i |∇_i G(p)|: a lower bound that anyone can check.

All arithmetic is of +, −, ·, / and √ of doubles in a fixed order (sums go over the first axis of arrays), so the result
is the same on every machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
