"""What is wrong in the papers' privacy, or in their code: a counterexample to each, computed here.

Each figure is what is claimed beside what is true. Where the library has the number too, it is asked for it, so that a
change of the library would show here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Hierarchy
from tallytree.lab._internals import sensitivity
from tallytree.lab.reproduce.experiment import Experiment, Found, Settings
from tallytree.lab.reproduce.kuo_as_run import OneNoiseForAll, geometric_noise
from tallytree.lab.reproduce.kuo_data import Groups
from tallytree.lab.reproduce.marks import EXACT
from tallytree.lab.reproduce.measured import MeasuredRows
from tallytree.solvers import isotonic

LOSS, L1, L2 = "privacy loss (ε)", "sensitivity in L1", "sensitivity in L2"
DELTA, NOISE, TOTAL = "δ at ε = 1", "noise, standard deviation", "total mass"
SHARE, NOISY_SHARE = "chance of an impossible output (%)", "chance of an impossible noisy cell (%)"
CHAIN, TUPLES, SCALE = "M_c^ch, 2 regions", "distinct tuples above the leaves, m = {}", "SH, scale √2/ε"
ONE_NOISE, FIRST_CELL = "Kuo's code, difference of two regions", "Kuo's code, first cell of Hc, ε = 1/3"
SMALLEST = "Kuo's code, smallest size of Hg, ε = 1/3"
EXCHANGED, GEOMETRIC = "InfTDA_py, tuples may repeat, m = 10", "geometric mechanism with Δ = 2, ε = 1"
REACH = 150
"""Noise of scale 3 is larger with a chance below e⁻⁵⁰."""
SMALL_K, FITS = 60, 2_000
"""The maximum size and the number of the fits from which the chance of an output is estimated."""
GRID = 200_001
"""Points of the numerical integration of the loss of Laplace noise."""


def errata(settings: Settings) -> Found:
    """All counterexamples."""
    found, notes = [], []
    for part in (
        chain,
        distinct_tuples,
        stability_scale,
        one_noise,
        first_cell,
        smallest_size,
        exchanged_cases,
        geometric_mass,
    ):
        found += list(part())
        notes.append(" ".join((part.__doc__ or "").split()))
    return Found(found, None, notes)


def chain() -> Iterator[MeasuredRows]:
    """Fioretto et al. 2021, Lemma 6: the cumulative query has sensitivity 1.

    Its cells lie on one chain over sizes and regions, so a group of the first region that grows from 1 to 2 moves a
    cell of every region. With two regions the answers (1, 1, 1, 1) of one data set turn into (0, 0, 1, 1) of its
    neighbor, and noise for ε = 1 loses 2. `Chain()` has noise for the true sensitivity; `Chain("as_published")` warns.
    """
    before, after = (chain_counts([(0, size)], regions=2, largest=2) for size in (1, 2))
    moved = sum(abs(one - other) for one, other in zip(before, after, strict=True))
    _same("L1", moved, sensitivity("chain_tail_counts", "add_remove", nodes=2).l1)
    yield MeasuredRows(CHAIN, EXACT, L1, [moved])
    # The likeliest output of noise of scale 1 is the truth, and its ratio is exp(Σ|difference|).
    yield MeasuredRows(CHAIN, EXACT, LOSS, [moved * 1.0], epsilon=1.0)


def chain_counts(groups: Sequence[tuple[int, int]], regions: int, largest: int) -> list[int]:
    """The cumulative counts of the chain, sizes first, then regions, of groups (region, size)."""
    cells = [(region, size) for size in range(1, largest + 1) for region in range(regions)]
    return list(accumulate(sum(group == cell for group in groups) for cell in cells))


def distinct_tuples() -> Iterator[MeasuredRows]:
    """Boninsegna and Silvestri 2025, sections 2 and 4: m distinct trips move every level by √(2m) in L2.

    That holds at the leaves. Above them, distinct trips can lie in one cell: m trips within region A that are replaced
    by m trips within region B move two cells by m, √2·m in all. `distinct=True` uses √(2m) at the leaves only.
    """
    for m in (2, 3, 10):
        leaves = {(f"a{i}", f"a{i}"): 1 for i in range(m)}, {(f"b{i}", f"b{i}"): 1 for i in range(m)}
        regions = tuple(_by_region(trips) for trips in leaves)
        squared = _squared_distance(*regions)
        _same("L2²", squared, sensitivity("counts", "change_one", m).l2_squared)
        _same(
            "L2² of leaves",
            _squared_distance(*leaves),
            sensitivity("distinct_counts", "change_one", m).l2_squared,
        )
        yield MeasuredRows(TUPLES.format(m), EXACT, L2, [math.sqrt(squared)])


def stability_scale() -> Iterator[MeasuredRows]:
    """The published runs of SH: Laplace noise of scale √2/ε, which follows from the sensitivity in L2.

    Laplace noise needs the sensitivity in L1, which is 2 when a trip is replaced by another: two cells move by 1. At
    ε = 1 the noise alone then has a δ of 0.10, where 10⁻⁸ is claimed. `StabilityHistogram` has scale 2/ε and the least
    threshold that δ allows.
    """
    _same("L1", 2, sensitivity("stable_counts", "change_one").l1)
    yield MeasuredRows(SCALE, EXACT, L1, [2])
    yield MeasuredRows(SCALE, EXACT, DELTA, [delta_of_two_cells(math.sqrt(2), 1.0)], epsilon=1.0)


def delta_of_two_cells(scale: float, epsilon: float) -> float:
    """The δ of Laplace noise on two cells, each of which moves by 1: E max(0, 1 − exp(ε − loss)).

    The loss of a cell with noise x is (|x − 1| − |x|)/scale: 1/scale with probability ½, −1/scale with ½·exp(−1/scale),
    and (1 − 2x)/scale for x in between, with the density of the noise.
    """
    between = (np.arange(GRID) + 0.5) / GRID
    losses = np.concatenate([[1 / scale], (1 - 2 * between) / scale, [-1 / scale]])
    density = np.exp(-between / scale) / (2 * scale * GRID)
    chances = np.concatenate([[0.5], density, [0.5 * math.exp(-1 / scale)]])
    # The loss of both cells is the sum; the second cell's part is summed from its upper end.
    order = np.argsort(losses)
    losses, chances = losses[order], chances[order]
    above = np.append(np.cumsum(chances[::-1])[::-1], 0.0)
    weighted = np.append(np.cumsum((chances * np.exp(-losses))[::-1])[::-1], 0.0)
    first = np.searchsorted(losses, epsilon - losses, side="right")
    return float((chances * (above[first] - math.exp(epsilon) * np.exp(-losses) * weighted[first])).sum())


def one_noise() -> Iterator[MeasuredRows]:
    """The published code of Kuo et al. 2018 draws the noise of every region from one seed.

    So all regions with the same true smallest size have the same noise, cell by cell, and the difference of two of them
    is exact, whatever ε is: no ε holds. Here two regions are measured as that code does, and the noise in their
    difference is 0. tallytree draws a cell's noise from an address that no other cell has.
    """
    rows = pa.table({"region": ["A", "A", "B"], "size": [1, 3, 2], "groups": [4, 1, 2]})
    groups = Groups(rows, Hierarchy.from_table(pa.table({"region": ["A", "B"]}), levels=["region"]), 1_000)
    measurer = OneNoiseForAll(groups, Fraction(1), seed=21)
    both = np.arange(2, dtype=np.int64)
    noise = measurer.measure("region", both, "tail_counts").values.reshape(2, -1) - measurer.true("region", both)
    if not noise.any():
        raise AssertionError("no noise was drawn")
    yield MeasuredRows(ONE_NOISE, EXACT, NOISE, [float((noise[0] - noise[1]).std())], epsilon=1.0)


def first_cell() -> Iterator[MeasuredRows]:
    """The published code of Kuo et al. 2018 adds noise from the true smallest size on (`algs.py`, lines 71 to 85).

    Of groups of sizes 1 and 2 the first cell is always 0. One person less, sizes 0 and 2, and it is 1 with noise: the
    noisy cell is not 0 with the probability 1 − tanh(1/6)·e^(−1/3), though that is impossible before. The output is
    fitted and rounded, and its first cell is not 0 less often: in the share of 2,000 fits with K = 60 that is shown. So
    no ε holds. tallytree's first size is public (`min_group_size`).
    """
    back_to_zero = math.tanh(1 / 6) * math.exp(-1 / 3)  # the noise is −1: (1 − q)/(1 + q)·q with q = exp(−1/3)
    yield MeasuredRows(FIRST_CELL, EXACT, NOISY_SHARE, [100 * (1 - back_to_zero)], epsilon=1 / 3)
    true = np.where(np.arange(SMALL_K) < 2, 1, 2)
    noisy = true + geometric_noise(FITS * SMALL_K, 3.0, seed=21).reshape(FITS, SMALL_K)
    outputs = [np.rint(isotonic.fit(cells, norm=1, lower=0, upper=2)[0]) for cells in noisy]
    yield MeasuredRows(FIRST_CELL, "Hc", SHARE, [100.0 * (output != 0) for output in outputs], epsilon=1 / 3)


def smallest_size() -> Iterator[MeasuredRows]:
    """The published code of Kuo et al. 2018 clips Hg at the true smallest size (`algs.py`, line 17; `PAV.py`, line 26).

    Of groups of sizes 1 and 2 none is released below 1. One person less, sizes 0 and 2, and the smallest is released as
    0 with the probability shown, though that is impossible before. So no ε holds for Hg either. tallytree clips at the
    public `min_group_size`.
    """
    reach = np.arange(-REACH, REACH + 1)
    chance = math.tanh(1 / 6) * np.exp(-np.abs(reach) / 3)
    first, second = np.meshgrid(reach, 2 + reach, indexing="ij")
    # Isotonic regression of two numbers is their mean where they are out of order; then it is clipped at 0 and rounded.
    fitted = np.minimum(first, (first + second) / 2)
    share = float((np.outer(chance, chance) * (np.rint(np.maximum(fitted, 0)) == 0)).sum())
    yield MeasuredRows(SMALLEST, EXACT, SHARE, [100 * share], epsilon=1 / 3)


def exchanged_cases() -> Iterator[MeasuredRows]:
    """InfTDA_py (91f6ed3), `mechanism.py`, lines 77 to 89, has the two cases of its README exchanged.

    A person whose m records are one tuple moves two cells by m: √2·m in L2. `get_sensitivity` gives √(2m) for it, so
    that ρ is m times what is claimed. `max_contributions` without `distinct` has √2·m.
    """
    m = 10
    squared = _squared_distance({("a", "b"): m}, {("c", "d"): m})
    _same("L2²", squared, sensitivity("counts", "change_one", m).l2_squared)
    yield MeasuredRows(EXCHANGED, EXACT, L2, [math.sqrt(squared)])


def geometric_mass() -> Iterator[MeasuredRows]:
    """The printed mass function of the geometric mechanism, (1 − α)/(1 + α)·α^(|k|/Δ), sums to 1 for Δ = 1 only.

    In it α is exp(−ε). The law is (1 − q)/(1 + q)·q^|k| with q = exp(−ε/Δ). It is a misprint that costs no privacy,
    unless a program follows it. Every law of noise here has mass 1 exactly.
    """
    alpha, q = math.exp(-1), math.exp(-1 / 2)
    yield MeasuredRows(GEOMETRIC, EXACT, TOTAL, [(1 - alpha) / (1 + alpha) * (1 + q) / (1 - q)], epsilon=1.0)


def _by_region(trips: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Trips between regions; an area's region is its first letter."""
    found: dict[tuple[str, str], int] = {}
    for (origin, destination), count in trips.items():
        pair = origin[0], destination[0]
        found[pair] = found.get(pair, 0) + count
    return found


def _squared_distance(one: dict[tuple[str, str], int], other: dict[tuple[str, str], int]) -> int:
    return sum((one.get(cell, 0) - other.get(cell, 0)) ** 2 for cell in {*one, *other})


def _same(what: str, counted: int, planned: int) -> None:
    """Refuse to show a counterexample that the library's own sensitivity contradicts."""
    if counted != planned:
        raise AssertionError(f"{what}: {counted} by enumeration, {planned} in accounting.sensitivity")


EXPERIMENTS = (
    Experiment(
        "errata",
        "errata",
        "what is wrong in the papers' privacy, with counterexamples",
        "none",
        errata,
        0.1,
        1,
        "what is claimed, in the papers or by their code's intent",
    ),
)
