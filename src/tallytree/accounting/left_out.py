"""What a contribution bound leaves out, estimated from noisy numbers of people by their number of records.

All of this is post-processing of noisy numbers and public facts. Let n_k be the noisy number of people of bin k, which
holds people with first_k … last_k records, and m the bound, which ends a bin. A person with r records has max(r − m, 0)
of them left out, and min(r, m) kept. So the records left out are between Σ N_k · max(first_k − m, 0) and
Σ N_k · max(last_k − m, 0), with N_k the true numbers, as long as nobody has more than `at_most` records, the end of the
last bin.

**Records left out.** The interval's lower end is the first sum with n_k in place of N_k, less z standard deviations of
its noise; the upper end is the second one, plus z of its own. Each misses with probability α/2 at most.

**Share left out**, s = (left out) / (left out + kept). A value s is rejected as too small where

    Σ n_k · [(1 − s) · max(first_k − m, 0) − s · min(last_k, m)]  >  z standard deviations of its noise:

of the true numbers and the true s the sum is at most (1 − s) · (left out) − s · (kept) = 0. It is rejected as too large
by the other ends of the bins and the other sign. What lies between is the interval (Fieller 1954). It is right also
where the numbers are so noisy that a ratio of them would mean nothing; then it is wide.

z is the 1 − α/2 quantile of a sum of the noise of the bins over its standard deviation: that of the normal
distribution, or of the Laplace distribution where the noise is that and its quantile is larger. A weighted sum of
Laplace variables lies between the two. The noise is integer, so its quantile may be up to one person further out than
that of continuous noise: one person of the largest weight is added to the reach of every sum, unless the noise of all
bins is 0 with a probability of at least 1 − α/2.

**The estimates** are those at the middle of every bin, cut to the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from tallytree.kinds.measurements import Noise
from tallytree.support.arrays import FloatArray, IntArray

ALPHA = 0.05
"""The intervals miss with this probability at most."""

STEPS = 10_000
"""The ends of the interval of the share are multiples of 1/STEPS, rounded outward."""

MISTAKEN = 0.01
"""With this probability, at most, noise alone makes one of the last bins count as filled; see `told_apart`."""


@dataclass(frozen=True)
class Estimated:
    """An estimate with its interval."""

    estimate: float
    ci_lower: float
    ci_upper: float


@dataclass(frozen=True)
class LeftOutRecords:
    """What the bound leaves out: records, and their share of all."""

    records: Estimated
    share: Estimated


def left_out(
    bins: Sequence[tuple[int, int]], people: IntArray, noise: Noise, bound: int, alpha: float = ALPHA
) -> LeftOutRecords:
    """What a bound leaves out; see the module's docstring.

    Args:
        bins: first and last number of records of each bin; one of them ends at the bound.
        people: int64 (bins,), noisy numbers of people.
        noise: of each of them.
        bound: m.
        alpha: the probability with which each interval may miss.
    """
    first, last = np.array(bins, dtype=np.float64).T
    numbers = people.astype(np.float64)
    reach = _quantile(noise, alpha) * noise.std_dev
    people_more = 0 if len(bins) * _probability_of_any(noise) <= alpha / 2 else 1
    over_first, over_last = np.maximum(first - bound, 0), np.maximum(last - bound, 0)
    lower = max(
        0.0, float(numbers @ over_first) - reach * float(np.linalg.norm(over_first)) - people_more * over_first.max()
    )
    upper = max(
        0.0, float(numbers @ over_last) + reach * float(np.linalg.norm(over_last)) + people_more * over_last.max()
    )
    over = float(numbers @ (over_first + over_last)) / 2
    all_records = float(numbers @ (first + last)) / 2
    share = over / all_records if all_records > 0 else 0.0
    least = _least_share(numbers, over_first, np.minimum(last, bound), reach, people_more)
    most = round(1 - _least_share(numbers, np.minimum(first, bound), over_last, reach, people_more), 4)
    return LeftOutRecords(
        Estimated(min(max(over, lower), upper), math.floor(lower), math.ceil(upper)),
        Estimated(min(max(share, least), most), least, most),
    )


def told_apart(bins: Sequence[tuple[int, int]], people: IntArray, noise: Noise) -> FloatArray:
    """The noisy numbers, with 0 in the last bins that cannot be told apart from empty ones.

    For a recommendation: noise in the last bins would otherwise count as thousands of records. A bin is taken as filled
    where its people and those of all later bins together are more than their noise would be, up to `MISTAKEN`; all
    bins before one that is filled are too.
    """
    numbers = people.astype(np.float64)
    beyond = np.cumsum(numbers[::-1])[::-1]
    reach = _quantile(noise, 2 * MISTAKEN / len(bins))
    seen = beyond > reach * noise.std_dev * np.sqrt(np.arange(len(bins), 0, -1))
    filled = int(np.flatnonzero(seen).max(initial=-1)) + 1
    numbers[filled:] = 0
    return numbers


def _least_share(people: FloatArray, part: FloatArray, rest: FloatArray, reach: float, people_more: int) -> float:
    """The least share that Σ people · part may have of Σ people · (part + rest), a multiple of 1/STEPS.

    Args:
        people: float64 (n,), noisy.
        part: float64 (n,), at most what a person of the bin adds to the part.
        rest: float64 (n,), at least what one adds to the rest.
        reach: how many units of noise a sum of weights of norm 1 may be above its mean.
        people_more: how many people of the largest weight it may be above that.
    """
    share = np.arange(STEPS + 1) / STEPS
    # Of the weights (1 − share) · part − share · rest of the bins, for all shares at once: their sum and squared norm.
    sums = (1 - share) * (people @ part) - share * (people @ rest)
    squared = (1 - share) ** 2 * (part @ part) - 2 * share * (1 - share) * (part @ rest) + share**2 * (rest @ rest)
    largest = np.zeros(STEPS + 1)
    for each, other in zip(part, rest, strict=True):
        np.maximum(largest, np.abs((1 - share) * each - share * other), out=largest)
    rejected = sums > reach * np.sqrt(np.maximum(squared, 0)) + people_more * largest
    first = int(np.argmin(rejected)) if not rejected.all() else STEPS
    return max(first - 1, 0) / STEPS


def _probability_of_any(noise: Noise) -> float:
    """The probability that the noise of a cell is not 0."""
    scale = float(noise.scale)
    if noise.distribution == "discrete_laplace":
        ratio = math.exp(-1 / scale)
        return 2 * ratio / (1 + ratio)
    rest = 2 * sum(math.exp(-(k**2) / (2 * scale**2)) for k in range(1, 2 + math.ceil(10 * scale)))
    return rest / (1 + rest)


def _quantile(noise: Noise, alpha: float) -> float:
    normal = -NormalDist().inv_cdf(alpha / 2)
    if noise.distribution == "discrete_gaussian":
        return normal
    return max(normal, math.log(1 / alpha) / math.sqrt(2))
