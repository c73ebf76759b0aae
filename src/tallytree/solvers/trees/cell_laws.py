"""The law of cells of a tree's level: how far true numbers lie from what is expected of them, many of them 0.

A cell is expected to have M, its part of its parent's count. Its true number is x = r·M. The law of r is learned from
the noisy numbers of all cells of the level with about the same M (a *stratum*: M in one power of two), by maximum
likelihood on a grid of ratios, as in `solvers.laws`. That one is for cells of tables, which are rarely 0 and rarely
many times as large as expected. Here most cells may be 0, and a few are larger by orders of magnitude: the law begins
with most of its weight at 0, the grid goes on until a cell has all of its parent's count, and estimates are medians,
which err least in absolute terms and are 0 where a cell is more probably 0 than not.

Noise is normal or Laplace noise, cell by cell. About a point of the grid, x is normal with the width of the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel

STEP, RATIOS = 0.2, 70
GRID = np.concatenate([[0.0], 0.02 * np.exp(STEP * np.arange(RATIOS))])
"""From a fiftieth of what is expected to 20,000 times as much."""
WIDTH = STEP / 2
BEGIN = np.concatenate([[0.9], np.full(RATIOS, 0.1 / RATIOS)])
"""Where EM begins: noise that says nothing of the law leaves cells at 0."""
PRIOR = 5.0
"""How many cells the beginning counts as, beside those that a law is learned from."""
LEAST_CELLS, SAMPLED, ROUNDS = 100, 8_000, 100
"""A stratum has so many cells; a law is learned from so many at most, in so many rounds of EM."""
POWERS = (-12, 30)
"""M below or above these powers of two is in the first or the last stratum."""
LEAST_EXPECTED = 1e-6
NEGLIGIBLE = 1e-9
"""A part of a posterior with less weight is left out."""
LISTED = 0.5
"""A median below is nearer to 0 than to 1."""
FAR, HALVINGS = 8.0, 14
"""No threshold is looked for further below a number, in standard deviations; and how finely."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Noisy numbers of the cells of a level.

    Attributes:
        noisy: float64 (n,), unbiased estimates.
        expected: float64 (n,), M.
        deviations: float64 (n,), of the noise, > 0.
        laplace: bool (n,), whether the noise is Laplace noise.
        most: float64 (n,), what no true number is above, about: the parent's count.
    """

    noisy: FloatArray
    expected: FloatArray
    deviations: FloatArray
    laplace: BoolArray
    most: FloatArray

    def at(self, places: IntArray | slice) -> Cells:
        """Some of the cells."""
        return Cells(
            self.noisy[places], self.expected[places], self.deviations[places], self.laplace[places], self.most[places]
        )


@dataclass(frozen=True, eq=False)
class CellLaws:
    """The laws of the strata of a level.

    Attributes:
        stratum: int64 (powers,), the stratum of each power of two.
        weights: float64 (strata, ratios + 1), of each ratio of the grid. Each row adds up to 1.
        likelihood: of the cells that the laws are learned from, a logarithm; a mean over the cells of a stratum counts
            for all of them.
    """

    stratum: IntArray
    weights: FloatArray
    likelihood: float


@dataclass(frozen=True, eq=False)
class CellPosteriors:
    """What is known of each true number, float64 (n,) each: its median, mean, variance, and probability to be 0."""

    median: FloatArray
    mean: FloatArray
    variance: FloatArray
    zero: FloatArray


def cell_laws(cells: Cells) -> CellLaws:
    """Learn the laws of a level.

    Example:
        Of 400 cells with noise of standard deviation 3, 40 have 100:

        >>> true = np.where(np.arange(400) % 10 == 0, 100.0, 0.0)
        >>> noisy = true + 3 * np.sin(np.arange(400.0))
        >>> cells = Cells(noisy, np.full(400, 10.0), np.full(400, 3.0), np.zeros(400, bool), np.full(400, 4000.0))
        >>> found = cell_posteriors(cells, cell_laws(cells))
        >>> bool((found.median[true == 0] == 0).all()), round(float(found.median[true > 0].mean()))
        (True, 100)
    """
    power = _powers(cells.expected)
    count = np.bincount(power, minlength=POWERS[1] - POWERS[0] + 1)
    stratum, number, gathered = np.zeros(len(count), dtype=np.int64), 0, 0
    for i, n in enumerate(count):
        stratum[i] = number
        gathered += int(n)
        if gathered >= LEAST_CELLS and count[i + 1 :].sum() >= LEAST_CELLS:
            number, gathered = number + 1, 0
    weights, likelihood = np.empty((number + 1, len(GRID))), 0.0
    of_cell = stratum[power]
    for i in range(number + 1):
        here = np.flatnonzero(of_cell == i)
        own = cells.at(here[:: max(1, math.ceil(len(here) / SAMPLED))])
        weights[i], mean = _law(own.noisy, own.expected, own.deviations, own.laplace, own.most)
        likelihood += len(here) * mean
    return CellLaws(stratum, weights, likelihood)


def cell_posteriors(cells: Cells, laws: CellLaws) -> CellPosteriors:
    """What the laws and its noisy number say of each cell."""
    found = np.empty((4, len(cells.noisy)))
    stratum = laws.stratum[_powers(cells.expected)]
    _posteriors(cells.noisy, cells.expected, cells.deviations, cells.laplace, cells.most, stratum, laws.weights, found)
    return CellPosteriors(*found)


def least_of_cells(cells: Cells, laws: CellLaws) -> FloatArray:
    """The least noisy number at which the median of each cell is `LISTED` or more: float64 (n,), at most `noisy`.

    It is −inf where that is more than `FAR` standard deviations below.

    Args:
        cells: whose medians are `LISTED` or more.
        laws: of the level.
    """
    stratum = laws.stratum[_powers(cells.expected)]
    return _least(cells.noisy, cells.expected, cells.deviations, cells.laplace, cells.most, stratum, laws.weights)


def _powers(expected: FloatArray) -> IntArray:
    """The power of two of each M, from 0 for the least."""
    found: IntArray = np.clip(np.frexp(expected)[1].astype(np.int64) - 1, *POWERS) - POWERS[0]
    return found


@inlined
def _density(z: float, middle: float, variance: float, laplace: bool) -> float:
    """The density of a noisy number about `middle`; `variance` is that of the noise and the grid's width."""
    if laplace:
        scale = math.sqrt(0.5 * variance)
        return math.exp(-abs(z - middle) / scale) / (2.0 * scale)
    return math.exp(-0.5 * (z - middle) ** 2 / variance) / math.sqrt(variance) * 0.3989422804014327


@kernel
def _law(
    z: FloatArray, expected: FloatArray, s: FloatArray, laplace: BoolArray, most: FloatArray
) -> tuple[FloatArray, float]:
    """The weights of largest likelihood, float64 (ratios + 1,), and the mean logarithm of the likelihood."""
    n, parts = len(z), len(GRID)
    weights, like = BEGIN.copy(), np.zeros((n, parts))
    for i in range(n):
        for k in range(parts):
            middle = GRID[k] * expected[i]
            if k > 0 and middle > most[i]:
                break
            like[i, k] = _density(z[i], middle, s[i] * s[i] + (WIDTH * middle) ** 2, laplace[i])
    total = 0.0
    share = np.empty(parts)
    for _ in range(ROUNDS):
        share[:] = 0.0
        known, total = 0.0, 0.0
        for i in range(n):
            whole = 0.0
            for k in range(parts):
                whole += weights[k] * like[i, k]
            total += math.log(max(whole, 1e-300))
            if whole > 0.0:  # else z is far below 0
                known += 1.0
                for k in range(parts):
                    share[k] += weights[k] * like[i, k] / whole
        for k in range(parts):
            weights[k] = (share[k] + PRIOR * BEGIN[k]) / (known + PRIOR)
    return weights, total / max(n, 1)


@kernel
def _parts(
    z: float, expected: float, s: float, laplace: bool, most: float, weights: FloatArray, part: FloatArray
) -> int:
    """Write the weight, mean and standard deviation of each part of a posterior: (3, ratios + 1); how many there are.

    Where z is so far off that nothing explains it, the number is 0, or the most that it may be.
    """
    whole, last = 0.0, len(GRID)
    for k in range(len(GRID)):
        middle = GRID[k] * expected
        if k > 0 and middle > most:
            last = k
            break
        own = (WIDTH * middle) ** 2
        part[0, k] = weights[k] * _density(z, middle, s * s + own, laplace)
        step = own / (s * s + own) * (z - middle)
        if laplace:  # the slope of the logarithm of its density is limited
            limit = own * 1.4142135623730951 / s
            step = max(min(step, limit), -limit)
        part[1, k], part[2, k] = max(middle + step, 0.0), math.sqrt(own / (s * s + own)) * s
        whole += part[0, k]
    for k in range(last):
        part[0, k] = part[0, k] / whole if whole > 0.0 else 0.0
    if whole <= 0.0:
        part[0, 0 if z < 0.0 else last - 1] = 1.0
    return last


@inlined
def _below(x: float, part: FloatArray, last: int) -> float:
    """The probability that a number is at most x ≥ 0."""
    found: float = part[0, 0]
    for k in range(1, last):
        if part[0, k] > NEGLIGIBLE:
            found += part[0, k] * 0.5 * math.erfc((part[1, k] - x) / (part[2, k] + 1e-12) * 0.7071067811865476)
    return found


@kernel
def _posteriors(
    z: FloatArray,
    expected: FloatArray,
    s: FloatArray,
    laplace: BoolArray,
    most: FloatArray,
    stratum: IntArray,
    weights: FloatArray,
    found: FloatArray,
) -> None:
    """Write median, mean, variance and the probability of 0: (4, n)."""
    part = np.empty((3, len(GRID)))
    for i in range(len(z)):
        last = _parts(z[i], expected[i], s[i], laplace[i], most[i], weights[stratum[i]], part)
        first, second = 0.0, 0.0
        for k in range(last):
            first += part[0, k] * part[1, k]
            second += part[0, k] * (part[1, k] ** 2 + part[2, k] ** 2)
        found[0, i], found[1, i], found[2, i], found[3, i] = 0.0, first, max(second - first * first, 0.0), part[0, 0]
        if _below(LISTED, part, last) >= 0.5:
            continue
        low, high = LISTED, max(max(z[i], 0.0) + 10.0 * s[i], 2.0 * part[1, last - 1]) + 1.0
        while high - low > 1e-3 * low + 1e-3:
            middle = 0.5 * (low + high)
            if _below(middle, part, last) < 0.5:
                low = middle
            else:
                high = middle
        found[0, i] = 0.5 * (low + high)


@kernel
def _least(
    z: FloatArray,
    expected: FloatArray,
    s: FloatArray,
    laplace: BoolArray,
    most: FloatArray,
    stratum: IntArray,
    weights: FloatArray,
) -> FloatArray:
    """See `least_of_cells`. The probability of more than `LISTED` grows with z."""
    part, found = np.empty((3, len(GRID))), np.empty(len(z))
    for i in range(len(z)):
        low, high = z[i] - FAR * s[i], z[i]
        for halving in range(HALVINGS + 1):
            middle = 0.5 * (low + high) if halving > 0 else low
            last = _parts(middle, expected[i], s[i], laplace[i], most[i], weights[stratum[i]], part)
            if _below(LISTED, part, last) >= 0.5:
                low = middle
            elif halving == 0:
                high = -math.inf
                break
            else:
                high = middle
        found[i] = high
    return found
