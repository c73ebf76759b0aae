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

from tallytree.solvers.laws import joined_strata
from tallytree.support.arrays import FloatArray, IntArray
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


def cell_laws(cells: FloatArray) -> CellLaws:
    """Learn the laws of a level.

    Args:
        cells: float64 (5, n), of each cell an unbiased estimate; M; the standard deviation of the estimate, > 0; 1
            where its noise is Laplace noise, else 0; and what no true number is above, about: the parent's count.

    Example:
        Of 400 cells with noise of standard deviation 3, 40 have 100:

        >>> true = np.where(np.arange(400) % 10 == 0, 100.0, 0.0)
        >>> cells = np.stack([true + 3 * np.sin(np.arange(400.0)), *np.outer([10.0, 3.0, 0.0, 4000.0], np.ones(400))])
        >>> found = cell_posteriors(cells, cell_laws(cells))
        >>> bool((found.median[true == 0] == 0).all()), round(float(found.median[true > 0].mean()))
        (True, 100)
    """
    power = _powers(cells)
    count = np.bincount(power, minlength=POWERS[1] - POWERS[0] + 1)
    stratum = joined_strata(count, LEAST_CELLS)
    number = int(stratum[-1]) + 1
    weights, likelihood = np.empty((number, len(GRID))), 0.0
    of_cell = stratum[power]
    for i in range(number):
        here = np.flatnonzero(of_cell == i)
        own = cells[:, here[:: max(1, math.ceil(len(here) / SAMPLED))]]
        weights[i], mean = _law(np.ascontiguousarray(own))
        likelihood += len(here) * mean
    return CellLaws(stratum, weights, likelihood)


def cell_posteriors(cells: FloatArray, laws: CellLaws) -> CellPosteriors:
    """What the laws and its noisy number say of each cell; `cells` as for `cell_laws`."""
    return CellPosteriors(*_posteriors(np.ascontiguousarray(cells), laws.stratum[_powers(cells)], laws.weights))


def least_of_cells(cells: FloatArray, laws: CellLaws) -> FloatArray:
    """The least noisy number at which the median of each cell is `LISTED` or more: float64 (n,), at most its own.

    It is −inf where that is more than `FAR` standard deviations below.

    Args:
        cells: as for `cell_laws`, whose medians are `LISTED` or more.
        laws: of the level.
    """
    return _least(np.ascontiguousarray(cells), laws.stratum[_powers(cells)], laws.weights)


def _powers(cells: FloatArray) -> IntArray:
    """The power of two of each M, from 0 for the least."""
    found: IntArray = np.clip(np.frexp(cells[1])[1].astype(np.int64) - 1, *POWERS) - POWERS[0]
    return found


@inlined
def _density(z: float, middle: float, variance: float, laplace: float) -> float:
    """The density of a noisy number about `middle`; `variance` is that of the noise and the grid's width."""
    if laplace > 0.0:
        scale = math.sqrt(0.5 * variance)
        return math.exp(-abs(z - middle) / scale) / (2.0 * scale)
    return math.exp(-0.5 * (z - middle) ** 2 / variance) / math.sqrt(variance) * 0.3989422804014327


@kernel
def _law(cells: FloatArray) -> tuple[FloatArray, float]:
    """The weights of largest likelihood, float64 (ratios + 1,), and the mean logarithm of the likelihood."""
    n, parts = cells.shape[1], len(GRID)
    weights, like = BEGIN.copy(), np.zeros((n, parts))
    for i in range(n):
        z, expected, s, laplace, most = cells[0, i], cells[1, i], cells[2, i], cells[3, i], cells[4, i]
        for k in range(parts):
            middle = GRID[k] * expected
            if k > 0 and middle > most:
                break
            like[i, k] = _density(z, middle, s * s + (WIDTH * middle) ** 2, laplace)
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
def _parts(z: float, cell: FloatArray, weights: FloatArray, part: FloatArray) -> int:
    """Write weight, mean and standard deviation of each part of a posterior, (3, ratios + 1); how many there are.

    Where z is so far off that nothing explains it, the number is 0, or as large as the grid and z say.
    """
    expected, s, laplace, most = cell[1], cell[2], cell[3], cell[4]
    whole, last = 0.0, len(GRID)
    for k in range(len(GRID)):
        middle = GRID[k] * expected
        if k > 0 and middle > most:
            last = k
            break
        own = (WIDTH * middle) ** 2
        part[0, k] = weights[k] * _density(z, middle, s * s + own, laplace)
        step = own / (s * s + own) * (z - middle)
        if laplace > 0.0:  # the slope of the logarithm of its density is limited
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
def _posteriors(cells: FloatArray, stratum: IntArray, weights: FloatArray) -> FloatArray:
    """Median, mean, variance and the probability of less than `LISTED`: (4, n). True numbers are integers."""
    part, found = np.empty((3, len(GRID))), np.zeros((4, cells.shape[1]))
    for i in range(cells.shape[1]):
        z, s = cells[0, i], cells[2, i]
        last = _parts(z, cells[:, i], weights[stratum[i]], part)
        first, second = 0.0, 0.0
        for k in range(last):
            first += part[0, k] * part[1, k]
            second += part[0, k] * (part[1, k] ** 2 + part[2, k] ** 2)
        found[1, i], found[2, i], found[3, i] = first, max(second - first * first, 0.0), _below(LISTED, part, last)
        if found[3, i] >= 0.5:
            continue
        low, high = LISTED, max(max(z, 0.0) + 10.0 * s, 2.0 * part[1, last - 1]) + 1.0
        while high - low > 1e-3 * low + 1e-3:
            middle = 0.5 * (low + high)
            if _below(middle, part, last) < 0.5:
                low = middle
            else:
                high = middle
        found[0, i] = 0.5 * (low + high)
    return found


@kernel
def _least(cells: FloatArray, stratum: IntArray, weights: FloatArray) -> FloatArray:
    """See `least_of_cells`. The probability of more than `LISTED` grows with z."""
    part, found = np.empty((3, len(GRID))), np.empty(cells.shape[1])
    for i in range(cells.shape[1]):
        low, high = cells[0, i] - FAR * cells[2, i], cells[0, i]
        for halving in range(HALVINGS + 1):
            middle = 0.5 * (low + high) if halving > 0 else low
            if _below(LISTED, part, _parts(middle, cells[:, i], weights[stratum[i]], part)) >= 0.5:
                low = middle
            elif halving == 0:
                high = -math.inf
                break
            else:
                high = middle
        found[i] = high
    return found
