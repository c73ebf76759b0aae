"""How far true numbers lie from what is expected of them: laws that are learned from noisy numbers, and posteriors.

Each of many cells has a noisy estimate y = x + noise (standard deviation s) of its true number x ≥ 0, and M > 0, what
is expected of it. The **law** is the distribution of x over the cells of a **stratum**, those with M in the same power
of two. It is a mixture of

* x ≈ r·M for each r of a grid, 0 and `LEAST_RATIO` … `MOST_RATIO` in equal steps of the logarithm. Each has the
  variance r·M + (WIDTH·r·M)²: that of a count, and the width of a step, so that nothing lies between the steps.
* an outlier, which has nothing to do with M: any size is as probable as any other on a logarithmic scale.
* where M follows from an earlier table (`WITH_PRIOR`), x ≈ M with each deviation of a second grid, `NEAR`, in units of
  s: a cell may have changed by less than the noise, or than the step of the first grid, tells.

Its weights are those of maximum likelihood (nonparametric empirical Bayes: Robbins 1956, Kiefer and Wolfowitz 1956) by
EM. Nothing but noisy numbers goes in. Where all cells are as expected, the law is narrow and pools them; where they are
not, it is wide and leaves them alone. What an unusual cell loses by that is limited (Efron and Morris 1971): an outlier
and rare ratios count as more than they are, and no estimate is moved by more than `MOST_MOVED` standard deviations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tallytree.solvers.posteriors import (
    POWERS,
    Parts,
    near_ratio,
    outlying,
    own_variance,
    posteriors,
    power_of_two,
)
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel
from tallytree.support.large_arrays import LargeArrays
from tallytree.support.machine import side_by_side

LEAST_RATIO, MOST_RATIO, RATIOS = 0.02, 64.0, 45
GRID = np.concatenate([[0.0], np.geomspace(LEAST_RATIO, MOST_RATIO, RATIOS)])
WIDTH = 0.09
"""Half the step of the grid's logarithm."""
_EXPONENTIAL = GRID * np.exp(-GRID)
BEGIN = np.append(0.895 * _EXPONENTIAL / _EXPONENTIAL.sum(), 0.0) + 0.005 / (len(GRID) + 1)
BEGIN[0] += 0.1
"""Where EM begins, the law of r is about exponential: noise that says nothing of the law leaves it there."""
PRIOR = 1.0
"""How many cells the beginning counts as, beside those that a law is learned from."""


ALONE = Parts(GRID, np.ones(len(GRID)), np.full(len(GRID), WIDTH), np.zeros(len(GRID)), BEGIN, PRIOR, np.zeros(0))
NEAR = np.array([0.1, 0.3, 1.0, 3.0, 10.0])


def _with_near(parts: FloatArray, prior: float) -> Parts:
    """A law whose parts about M have these weights where EM begins."""
    own, rest = np.zeros(len(NEAR)), 1 - parts.sum()
    return Parts(
        np.append(GRID, np.ones(len(NEAR))),
        np.append(ALONE.own, own),
        np.append(ALONE.width, own),
        np.append(ALONE.near, NEAR),
        np.concatenate([rest * BEGIN[:-1], parts, rest * BEGIN[-1:]]),
        prior,
        np.array([-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0]),
    )


WITH_PRIOR = _with_near(np.full(len(NEAR), 0.1), PRIOR)
REVISED = _with_near(np.array([0.75, 0.15, 0.05, 0.01, 0.005]), 40.0)
"""Of an M that follows from an earlier table; and from one of the same records, but for corrections."""
LEAST_OUTLIER = 0.001
GUARDED, MOST_GUARDED, GUARDING = 1.25, 0.05, 20
"""A true number of any size should err by no more than the root of the first, in standard deviations of its estimate.
For that, rare sizes count as more than they are, up to the second part of a law, in so many rounds."""
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
LEAST_CELLS = 40
"""A stratum has so many cells; fewer are joined to the next."""
SAMPLED, ROUNDS = 2_000, 100
"""The most cells of a stratum from which its law is learned, and the rounds of EM."""
DOUBT, PARTS = 0.5, (0.25, 2.0)
"""See `_found_part`; the range of what it finds."""


@dataclass(frozen=True, eq=False)
class Laws:
    """The laws of the strata of a table.

    Attributes:
        stratum: int64 (powers,), the stratum of each power of two.
        weights: float64 (strata, parts + 1), of each part; last of an outlier. Each row adds up to 1.
        guarded: the same, where rare sizes count as more than they are.
        part: how large the variances of the posteriors are found to be, beside what they say.
        parts: what the weights are of.
    """

    stratum: IntArray
    weights: FloatArray
    guarded: FloatArray
    part: float
    parts: Parts


def joined_strata(count: IntArray, least: int) -> IntArray:
    """The stratum of each power of two: int64 (powers,), ascending from 0.

    Args:
        count: int64 (powers,), the cells of each.
        least: how many cells a stratum has at least; with fewer it is joined to the next.
    """
    stratum, number, gathered = np.zeros(len(count), dtype=np.int64), 0, 0
    for i, n in enumerate(count):
        stratum[i] = number
        gathered += int(n)
        if gathered >= least and count[i + 1 :].sum() >= least:
            number, gathered = number + 1, 0
    return stratum


def learned_laws(
    y: FloatArray,
    expected: FloatArray,
    deviations: FloatArray,
    parts: Parts = ALONE,
    least: int = LEAST_CELLS,
    arrays: LargeArrays | None = None,
) -> Laws | None:
    """The laws of the cells of a table.

    Args:
        y: float64 (areas, cells), the estimates.
        expected: float64 (areas, cells), M; 0 where a cell is known to be 0. Such cells are left out.
        deviations: float64 (areas,), s of the cells of each area; areas with 0 are left out.
        parts: what laws consist of.
        least: how many cells a law is learned from at least.
        arrays: reads y and M part by part.

    Returns:
        None where there are fewer cells.
    """
    arrays = arrays or LargeArrays()
    drawn = sampled(y, expected, deviations, least, arrays)
    if drawn is None:
        return None
    stratum, total, samples = drawn
    weights, careful = (np.empty((len(total), len(parts.begin))) for _ in range(2))

    def learn(i: int) -> None:
        own = samples[i]
        weights[i] = law(own[0], own[1], own[2], parts, ROUNDS)
        careful[i] = guarded(weights[i], float(np.exp(np.log(own[1]).mean())), float(np.median(own[2])), parts)

    for _ in side_by_side(learn, range(len(total)), threads=arrays.threads):
        pass
    return Laws(stratum, weights, careful, _found_part(samples, total, weights, parts), parts)


def sampled(
    y: FloatArray, expected: FloatArray, deviations: FloatArray, least: int, arrays: LargeArrays
) -> tuple[IntArray, IntArray, list[FloatArray]] | None:
    """The stratum of each power of two; per stratum, how many cells it has, and (3, n) y, M and s of some of them."""
    count = np.zeros(POWERS[1] - POWERS[0] + 1, dtype=np.int64)
    for part in arrays.parts(np.full(*y.shape)):
        count_powers(expected[part], deviations[part], count)
    if count.sum() < least:
        return None
    stratum = joined_strata(count, LEAST_CELLS)
    total = np.bincount(stratum, count, minlength=int(stratum[-1]) + 1)
    steps = np.ceil(total / SAMPLED).astype(np.int64)
    size = np.ceil(total / np.maximum(steps, 1)).astype(np.int64)
    begin = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    found, seen = np.empty((3, int(begin[-1]))), np.zeros(len(total), dtype=np.int64)
    for part in arrays.parts(np.full(*y.shape)):
        sample(y[part], expected[part], deviations[part], stratum, steps, begin, seen, found)
    return stratum, total, np.split(found, begin[1:-1], axis=1)


def _found_part(samples: list[FloatArray], total: IntArray, weights: FloatArray, parts: Parts) -> float:
    """How large posterior variances are beside what they say, by Stein's unbiased estimate of the risk.

    The posterior mean e has the slope v/s² in y, so (y − e)² − s² + 2v has the mean of (e − x)². Its standard deviation
    over n cells is about s²·√(2/n). What it says counts by that beside a doubt of `DOUBT` of the variance.
    """
    risk, said, error = 0.0, 0.0, 0.0
    for i, own in enumerate(samples):
        s, (off, variance) = own[2], steps_and_variances(own, weights[i], parts)
        risk += total[i] * float((off**2 - s**2 + 2 * variance).mean())
        said += total[i] * float(variance.mean())
        error += total[i] ** 2 * 2 * float((s**4).mean()) / len(s)
    doubt = (DOUBT * said) ** 2
    return float(np.clip(1 + doubt / (doubt + error) * (risk / max(said, 1e-300) - 1), *PARTS))


def steps_and_variances(cells: FloatArray, weights: FloatArray, parts: Parts) -> tuple[FloatArray, FloatArray]:
    """By how much y, of cells (3, n) y, M and s, is above the posterior mean, and the posterior variance: (n,) each."""
    y, expected, s = np.ascontiguousarray(cells)[:, :, None]
    mean, variance, held = (np.empty(y.shape) for _ in range(3))
    of_power = np.zeros(POWERS[1] - POWERS[0] + 1, dtype=np.int64)
    posteriors(y, expected, s[:, 0], of_power, weights[None], weights[None], parts, mean, variance, held)
    return (y - mean + held)[:, 0], variance[:, 0]


@kernel
def count_powers(expected: FloatArray, deviations: FloatArray, count: IntArray) -> None:
    """Count the powers of two of each M, from 0 for the least.

    Args:
        expected: (areas, cells); cells with 0 are left out.
        deviations: (areas,); areas with 0 are left out.
        count: of each power, raised.
    """
    for c in range(len(expected)):
        for g in range(expected.shape[1]):
            if expected[c, g] > 0.0 and deviations[c] > 0.0:
                count[power_of_two(expected[c, g])] += 1


@kernel
def sample(
    y: FloatArray,
    expected: FloatArray,
    deviations: FloatArray,
    stratum: IntArray,
    steps: IntArray,
    begin: IntArray,
    seen: IntArray,
    found: FloatArray,
) -> None:
    """Write y, M and s of every steps-th cell of each stratum into its columns, from begin on; `seen` counts cells."""
    for c in range(len(y)):
        for g in range(y.shape[1]):
            if expected[c, g] > 0.0 and deviations[c] > 0.0:
                k = stratum[power_of_two(expected[c, g])]
                if seen[k] % steps[k] == 0:
                    place = begin[k] + seen[k] // steps[k]
                    found[0, place], found[1, place], found[2, place] = y[c, g], expected[c, g], deviations[c]
                seen[k] += 1


@inlined
def _likelihoods(y: float, expected: float, s: float, parts: Parts, like: FloatArray) -> None:
    """Write the density of y by each part of a law, (parts + 1,), last by an outlier; up to 1/√(2π)."""
    last = len(parts.ratio)
    for k in range(last):
        mean = parts.ratio[k] * expected
        of_y = s**2 + parts.own[k] * mean + (parts.width[k] * mean) ** 2 + (parts.near[k] * s) ** 2
        like[k] = near_ratio(y, mean, of_y)
    like[last] = outlying(y, s)


@kernel
def law(y: FloatArray, expected: FloatArray, deviations: FloatArray, of: Parts, rounds: int) -> FloatArray:
    """The weights of largest likelihood, float64 (parts + 1,), of cells y, M, s, each float64 (n,)."""
    parts = len(of.begin)
    weights = of.begin.copy()
    like = np.empty((len(y), parts))
    for i in range(len(y)):
        _likelihoods(y[i], expected[i], deviations[i], of, like[i])
    share = np.empty(parts)
    for _ in range(rounds):
        share[:] = 0.0
        known = 0.0
        for i in range(len(y)):
            whole = 0.0
            for k in range(parts):
                whole += weights[k] * like[i, k]
            if whole > 0.0:  # else y is far below 0
                known += 1.0
                for k in range(parts):
                    share[k] += weights[k] * like[i, k] / whole
        if known == 0.0:
            break
        for k in range(parts):
            weights[k] = (share[k] + of.prior * of.begin[k]) / (known + of.prior)
    return weights


@kernel
def evidence(
    y: FloatArray,
    expected: FloatArray,
    deviations: FloatArray,
    stratum: IntArray,
    weights: FloatArray,
    parts: Parts,
    step: int,
) -> float:
    """The logarithm of the probability of every step-th estimate by its law, their sum, up to a constant.

    Args:
        y: (areas, cells).
        expected: (areas, cells), M. Cells with 0, which are the same in all that is compared, are left out.
        deviations: (areas,), s.
        stratum: of each power of two.
        weights: (strata, parts + 1).
        parts: of the laws.
        step: which cells are looked at, counted over all areas.
    """
    like = np.empty(len(parts.begin))
    found, seen = 0.0, -1
    for c in range(len(y)):
        for g in range(y.shape[1]):
            if expected[c, g] <= 0.0 or deviations[c] <= 0.0:
                continue
            seen += 1
            if seen % step:
                continue
            _likelihoods(y[c, g], expected[c, g], deviations[c], parts, like)
            own, whole = weights[stratum[power_of_two(expected[c, g])]], 1e-300
            for k in range(len(like)):
                whole += own[k] * like[k]
            found += math.log(whole)
    return found


@kernel
def guarded(weights: FloatArray, expected: float, deviation: float, of: Parts) -> FloatArray:
    """A law in which rare sizes count as more than they are, so that none of them errs by too much: (parts + 1,).

    Args:
        weights: (parts + 1,) the law.
        expected: M of a cell in the middle of the stratum.
        deviation: its s.
        of: the parts of the law.
    """
    parts, s, ratios = len(weights), deviation, len(GRID)
    added, found = np.zeros(parts), weights * (1.0 - LEAST_OUTLIER)
    added[parts - 1] = LEAST_OUTLIER
    found[parts - 1] += LEAST_OUTLIER
    sizes, nearest = np.empty(ratios + len(of.steps)), np.empty(ratios + len(of.steps), dtype=np.int64)
    for k in range(len(sizes)):
        sizes[k], nearest[k] = GRID[min(k, ratios - 1)] * expected, k
        if k >= ratios:  # a size near M counts as more by the part whose ratio is nearest
            sizes[k] = max(expected + of.steps[k - ratios] * s, 0.0)
            nearest[k] = np.argmin(np.abs(GRID * expected - sizes[k]))
    like = np.empty((len(sizes), len(NODES), parts))
    mean = np.empty((len(sizes), len(NODES), parts))
    for k in range(len(sizes)):
        for i in range(len(NODES)):
            z = sizes[k] + s * NODES[i]
            for j in range(parts - 1):
                middle = of.ratio[j] * expected
                own = own_variance(of, j, middle, s)
                like[k, i, j] = near_ratio(z, middle, s * s + own)
                mean[k, i, j] = middle + own / (s * s + own) * (z - middle)
            like[k, i, parts - 1], mean[k, i, parts - 1] = outlying(z, s), max(z, 0.0)
    for _ in range(GUARDING):
        done = True
        for k in range(len(sizes)):
            risk = 0.0
            for i in range(len(NODES)):
                whole, first = 1e-300, 0.0
                for j in range(parts):
                    weight = found[j] * like[k, i, j]
                    whole += weight
                    first += weight * mean[k, i, j]
                risk += NODE_WEIGHTS[i] / 2.5066282746310002 * (first / whole - sizes[k]) ** 2
            if risk > GUARDED * s * s:
                added[nearest[k]] = max(added[nearest[k]] * 1.5, 1e-4)
                done = False
        whole = added.sum()
        if whole > MOST_GUARDED:
            added *= MOST_GUARDED / whole
            whole = MOST_GUARDED
        for k in range(parts):
            found[k] = weights[k] * (1.0 - whole) + added[k]
        if done:
            break
    return found
