"""The exact check: what the planned noise costs a pair of data sets.

Measurements are the true cells plus independent noise, so their distribution is known and nothing has to be run. For
two data sets whose cells differ by Δ: discrete Laplace noise of scale b has the loss Σ|Δ|/b, which is attained (where
every noisy cell lies on the far side of its true value); discrete Gaussian noise has D_α ≤ α·ΣΔ²/(2σ²) at every order
(Canonne, Kamath and Steinke 2020, Theorem 14). Both are rational numbers. The δ of Gaussian noise at a given ε comes
from enumerating the distribution of the privacy loss. What is published is computed from the measurements and costs no
more.

Where the largest size is measured first, what is said is the pair's loss under K at its public bound. K itself is a
function of the noisy maximum and costs nothing. Under a smaller K a pair may lose more than that: clamping can move two
cells of a histogram into one, which lengthens Δ in L2. It never loses more than the plan's bound, which is for every K.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tallytree.lab._internals import Noise, NoisePlan, TrueSizes, TrueStatistics
from tallytree.lab.audit.runs import all_cells
from tallytree.support.arrays import IntArray

LOSS_VALUES = 2**19
"""Points of the grid of privacy losses in `exact_delta`."""

FLOOR = 1e-12
"""What floating-point transforms of that length may add up to; `exact_delta` is less by this."""

_TAIL = 10
"""Standard deviations of noise that are enumerated; beyond them lies less than exp(-49)."""

Distances = tuple[int, ...]
"""Per measurement of the plan, how far the true cells of two data sets are apart: in L1 for Laplace noise, in squared
L2 for Gaussian noise."""


def exact_loss(plan: NoisePlan, pairs: Iterable[tuple[TrueStatistics, TrueStatistics]]) -> Fraction:
    """The greatest loss over all pairs: ε where the plan's noise is Laplace, ρ where it is Gaussian.

    Args:
        plan: the noise of every measured level.
        pairs: the true statistics of neighboring data sets.
    """
    found = {_distances(plan, _cells(plan, before), _cells(plan, after)) for before, after in pairs}
    return max((_loss(plan, distances) for distances in found), default=Fraction(0))


def worst_pair(
    plan: NoisePlan, tabulate: Callable[[IntArray], TrueStatistics], before: IntArray, after: IntArray
) -> tuple[IntArray, IntArray]:
    """The first of the pairs of data sets with the greatest exact loss.

    Args:
        plan: the noise of every measured level.
        tabulate: from a data set to its statistics; called once for each.
        before: int64 (pairs, places), the data sets, at least one.
        after: int64 (pairs, places), their neighbors.
    """
    distinct, places = np.unique(np.concatenate([before, after]), axis=0, return_inverse=True)
    first, second = places.reshape(2, -1)
    levels = [np.stack(cells) for cells in zip(*(_cells(plan, tabulate(each)) for each in distinct), strict=True)]
    distances = np.stack(
        [
            _distance(planned.noise, cells[second] - cells[first])
            for planned, cells in zip(plan.measured, levels, strict=True)
        ],
        axis=1,
    )
    found, pairs = np.unique(distances, axis=0, return_index=True)
    losses = [_loss(plan, tuple(row.tolist())) for row in found]
    worst = min(int(pair) for pair, loss in zip(pairs, losses, strict=True) if loss == max(losses))
    return before[worst], after[worst]


def exact_delta(plan: NoisePlan, before: TrueStatistics, after: TrueStatistics, epsilon: float) -> float:
    """The δ that goes with ε for the planned discrete Gaussian noise on two data sets, rounded down.

    Each cell's loss at noise x, where the cell differs by Δ, is (2xΔ + Δ²)/(2σ²). Its distribution is enumerated,
    rounded down to a grid, and those of all cells are convolved: δ = Σ P(loss)·max(0, 1 − e^(ε − loss)) is then never
    too high, and too low by at most what raising ε by a grid step per cell takes away. The noise is symmetric, so
    either data set may be the first.

    Args:
        plan: the noise of every measured level, discrete Gaussian.
        before: the true statistics of a data set.
        after: those of its neighbor.
        epsilon: ε ≥ 0.
    """
    moved: Counter[tuple[int, float]] = Counter()
    for planned, here, there in zip(plan.measured, _cells(plan, before), _cells(plan, after), strict=True):
        distances = np.abs(there - here)
        moved.update((int(distance), float(planned.noise.scale)) for distance in distances[distances > 0])
    return delta_of_moves(moved, epsilon)


def delta_of_moves(moved: Counter[tuple[int, float]], epsilon: float) -> float:
    """The δ that goes with ε where so many cells differ by a distance > 0, with noise of a scale; see `exact_delta`."""
    if not moved:
        return 0.0
    highest = {cell: _cell_loss(_reach(cell[1]), *cell) for cell in moved}
    span = sum(count * 2 * highest[cell] for cell, count in moved.items())
    step = span / (LOSS_VALUES - 2 - 2 * moved.total())
    transform = np.ones(LOSS_VALUES // 2 + 1, dtype=np.complex128)
    lowest = 0
    for cell, count in moved.items():
        first, masses = _loss_masses(*cell, step)
        transform *= np.fft.rfft(masses, LOSS_VALUES) ** count
        lowest += count * first
    masses = np.fft.irfft(transform, LOSS_VALUES)
    losses = (lowest + np.arange(LOSS_VALUES)) * step
    above = losses > epsilon
    return max(0.0, float(-(masses[above] @ np.expm1(epsilon - losses[above]))) - FLOOR)


def _loss_masses(distance: int, scale: float, step: float) -> tuple[int, npt.NDArray[np.float64]]:
    """The distribution of one cell's loss, rounded down to the grid: its first point, and the masses from there on."""
    noise = np.arange(-_reach(scale), _reach(scale) + 1)
    places = np.floor(_cell_loss(noise, distance, scale) / step).astype(np.int64)
    weights = np.exp(-(noise**2) / (2 * scale * scale))
    masses = np.bincount(places - places[0], weights / weights.sum())
    return int(places[0]), np.asarray(masses, dtype=np.float64)


def _cell_loss(noise: npt.ArrayLike, distance: int, scale: float) -> Any:
    return (2 * np.asarray(noise) * distance + distance * distance) / (2 * scale * scale)


def _reach(scale: float) -> int:
    return math.ceil(_TAIL * scale) + 1


def _loss(plan: NoisePlan, distances: Distances) -> Fraction:
    loss = Fraction(0)
    for planned, distance in zip(plan.measured, distances, strict=True):
        laplace = planned.noise.distribution == "discrete_laplace"
        loss += distance / (planned.noise.scale if laplace else 2 * planned.noise.scale**2)
    return loss


def _distances(plan: NoisePlan, before: list[IntArray], after: list[IntArray]) -> Distances:
    moved = (there - here for here, there in zip(before, after, strict=True))
    return tuple(int(_distance(planned.noise, cells)) for planned, cells in zip(plan.measured, moved, strict=True))


def _distance(noise: Noise, moved: IntArray) -> IntArray:
    """The distance of each row of cells that matters for the noise: L1 or squared L2."""
    return np.asarray((np.abs(moved) if noise.distribution == "discrete_laplace" else moved * moved).sum(axis=-1))


def _cells(plan: NoisePlan, statistics: TrueStatistics) -> list[IntArray]:
    """All true cells that the plan measures, in its order."""
    found = [all_cells(statistics, planned)[0] for planned in plan.levels.values()]
    if plan.maximum is None:
        return found
    root = np.zeros(1, dtype=np.int64)
    largest = cast(TrueSizes, statistics).largest_size().cells(plan.maximum.level, root, plan.maximum.statistic)[0]
    return [largest, *found]
