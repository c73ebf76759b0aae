"""Sums over areas of a release whose cells are listed by their measurements, and the intervals of these sums.

The published sums would not do: a cell is listed where its noise was positive, and what was dropped is nowhere, or in a
row that says how much is not listed below a node. What is not listed of a node that an area cuts through lies in the
area or outside.

So intervals come from the measurements. A node is measured if its parent was kept, and its own noise has no part in
that. The measurements of the topmost measured nodes that lie in an area as a whole add up to a number whose error is 0
on average, and whose variance is the sum of theirs. It is the lower end, less that noise: the area may also have a part
of nodes that were measured and whose children were not, and nobody knows which part. The upper end has all of them.

These nodes were left out because their noise was negative, so their measurements add up to too little. A node with the
number T is left out if its noise is below t − T, where t is the number from which on its family is kept. What its noise
lacks then depends on how often its measurement is near t: of Gaussian noise it is the variance times the density of the
measurement at t. So each measurement near t, of a node that was left out or not, adds something to the sum
(`_missing_noise`), whose error is then 0 on average, or above, whatever the nodes have. Where all families are small
there is no such number of a family. There the upper end is the total less the topmost measured nodes that lie outside
as a whole: an error of 0 on average too, and a larger variance. `benchmarks/unlisted.py --totals` says how often
intervals hold the true sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Noise, Statistic
from tallytree.product import Product
from tallytree.release.intervals import LevelErrors, interval
from tallytree.release.remainders import depths_of_rows
from tallytree.release.view.areas import SummedAreas
from tallytree.release.view.recorded_measurements import FRESH_COPY
from tallytree.release.view.release_view import ReleaseView
from tallytree.release.view.sides import node_numbers
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, NumberArray

_NONE = np.empty(0, dtype=np.int64)

SMALL = 3
"""In families of at most so many children, whether one is kept depends much on what was measured of its siblings."""


@dataclass(frozen=True, eq=False)
class Numbered:
    """Nodes of a level with numbers: int64 (n,) each."""

    nodes: IntArray
    numbers: IntArray


@dataclass(frozen=True, eq=False)
class MeasuredSums:
    """Sums of measurements, one for each area.

    Attributes:
        total: float64 (areas,).
        variance: float64 (areas,), of the noise of each sum.
    """

    total: FloatArray
    variance: FloatArray

    @classmethod
    def nothing(cls, areas: int) -> MeasuredSums:
        """Sums of no measurement."""
        return cls(np.zeros(areas), np.zeros(areas))

    def add(self, of_area: IntArray, values: NumberArray, variance: float | FloatArray) -> None:
        """Add measurements, of one variance or of one each, to the sums of areas."""
        np.add.at(self.total, of_area, values)
        np.add.at(self.variance, of_area, variance)

    def ends(self, alpha: float) -> tuple[IntArray, IntArray]:
        """Lower and upper ends of intervals for what was measured: int64 (areas,) each."""
        return interval(np.rint(self.total).astype(np.int64), np.sqrt(self.variance), alpha, LevelErrors())


@dataclass(frozen=True, eq=False)
class RemainderSums:
    """The sums of areas.

    Attributes:
        count: int64 (areas,), what is listed in the area, and what is not listed of nodes that lie in it as a whole; of
            nodes that it cuts through the share of their leaves that may have it.
        inside: of the nodes that lie in the area as a whole.
        reached: of these, and of nodes without measured children that the area cuts through.
        complete: bool (areas,), whether the former are all of the area.
    """

    count: IntArray
    inside: MeasuredSums
    reached: MeasuredSums
    complete: BoolArray

    def ends(self, alpha: float) -> tuple[IntArray, IntArray]:
        """Lower and upper ends of intervals for the true sums: int64 (areas,) each.

        Args:
            alpha: the interval is to miss the true sum with this probability.
        """
        lower, upper = self.inside.ends(alpha)[0], self.reached.ends(alpha)[1]
        return np.minimum(lower, self.count), np.maximum(upper, self.count)


def sums_with_remainders(
    view: ReleaseView, areas: SummedAreas, noise: Mapping[str, tuple[Statistic, Noise]]
) -> RemainderSums:
    """The sums of a release over areas.

    Args:
        view: of a release whose cells are listed by their measurements.
        areas: the areas.
        noise: statistic and noise of every measured level; without the root where the total is public.

    Raises:
        ValueError: the release was made without keeping its measurements, or a row is about no node of the tree.
    """
    tree = areas.tree
    listed = [_rows(view, tree, depth, depth) for depth in range(len(tree.levels))]
    bottom = len(tree.levels) - 1
    expected = np.zeros(len(areas))
    places, of_area, _ = areas.shares(bottom, listed[bottom].nodes)
    np.add.at(expected, of_area, listed[bottom].numbers[places])
    for depth in range(bottom):
        left = _rows(view, tree, bottom, depth)
        if not len(left.nodes):
            continue
        places, of_area, inside = areas.shares(depth, left.nodes)
        leaves = areas.leaves_below(depth, left.nodes)
        whole = inside == leaves[places]
        free_inside, free = _without_listed(areas, depth, left.nodes, listed[depth + 1].nodes, places, of_area)
        share = np.where(whole, 1.0, (inside - free_inside) / np.maximum(leaves - free, 1)[places])
        np.add.at(expected, of_area, left.numbers[places] * share)
    return RemainderSums(np.rint(expected).astype(np.int64), *_measured(view, areas, noise))


def _without_listed(
    areas: SummedAreas, depth: int, nodes: IntArray, listed: IntArray, places: IntArray, of_area: IntArray
) -> tuple[IntArray, IntArray]:
    """Leaves below listed children: of each pair of a node's place and an area, and of each node."""
    order = np.argsort(nodes)
    parents = areas.tree.parents(depth + 1, listed)
    at = np.minimum(np.searchsorted(nodes, parents, sorter=order), len(nodes) - 1)
    place = order[at]
    here = nodes[place] == parents
    listed, place = listed[here], place[here]
    taken = np.zeros(len(nodes), dtype=np.int64)
    np.add.at(taken, place, areas.leaves_below(depth + 1, listed))
    child, area, leaves = areas.shares(depth + 1, listed)
    pairs = places * len(areas) + of_area  # ascending
    inside = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(inside, np.searchsorted(pairs, place[child] * len(areas) + area), leaves)
    return inside, taken


def _measured(
    view: ReleaseView, areas: SummedAreas, noise: Mapping[str, tuple[Statistic, Noise]]
) -> tuple[MeasuredSums, MeasuredSums, BoolArray]:
    """What `RemainderSums` has of measurements.

    The parent of every measured node was measured, and all children of a node were or none.
    """
    tree = areas.tree
    inside, cut, outside = (MeasuredSums.nothing(len(areas)) for _ in range(3))
    largest, root = 0, (0, 0.0)
    leaves_inside = np.zeros(len(areas), dtype=np.int64)
    above = _MeasuredNodes(0, _NONE, _NONE, _NONE, None, _NONE, _NONE)
    for depth, level in enumerate(tree.levels):
        if level in noise:
            measured, law = _measurements(view, tree, depth), noise[level][1]
        elif depth == 0:  # the total is public
            measured, law = _rows(view, tree, 0, 0), None
        else:
            continue
        order = np.argsort(measured.nodes)
        nodes, values = measured.nodes[order], measured.numbers[order]
        parents = nodes
        for step in range(depth, above.depth, -1):
            parents = tree.parents(step, parents)
        kept = np.isin(above.nodes, parents)
        above.add_cut(cut, kept, len(areas))
        variance = law.variance if law else 0.0
        places, of_area, leaves = areas.shares(depth, nodes)
        whole = leaves == areas.leaves_below(depth, nodes)[places]
        pairs = places * len(areas) + of_area
        at = np.searchsorted(above.nodes, parents)
        below_cut = ~np.isin(at[places] * len(areas) + of_area, above.inside)
        topmost = whole & below_cut
        inside.add(of_area[topmost], values[places[topmost]], variance)
        if depth == 0:
            root = values[0] if len(values) else 0, variance
        else:
            families = np.bincount(at, minlength=len(above.nodes))
            largest = max(largest, int(families.max(initial=0)))
            family, area = np.divmod(above.cut, len(areas))
            sums = np.bincount(at, values, minlength=len(above.nodes))
            outside.add(area, sums[family], families[family].astype(np.float64) * variance)
            outside.add(of_area[below_cut], -values[places[below_cut]], -variance)
        np.add.at(leaves_inside, of_area[topmost], leaves[topmost])
        above = _MeasuredNodes(depth, nodes, values, parents, law, pairs[whole], pairs[~whole])
    reached = MeasuredSums(inside.total + cut.total, inside.variance + cut.variance)
    if largest <= SMALL:
        reached = MeasuredSums(root[0] - outside.total, root[1] + outside.variance)
    return inside, reached, leaves_inside == areas.leaves


@dataclass(frozen=True, eq=False)
class _MeasuredNodes:
    """The measured nodes of a level, ascending.

    Attributes:
        depth: the level.
        nodes: int64 (n,).
        values: int64 (n,), their measurements.
        parents: int64 (n,), the parent of each in the measured level above.
        noise: of the measurements; None where they are exact.
        inside: pairs of a node and an area that has all of it, ascending: the node's place · areas + the area.
        cut: pairs of a node and an area that has a part of it.
    """

    depth: int
    nodes: IntArray
    values: IntArray
    parents: IntArray
    noise: Noise | None
    inside: IntArray
    cut: IntArray

    def add_cut(self, sums: MeasuredSums, kept: BoolArray, areas: int) -> None:
        """Add the nodes that areas cut through and whose children were not measured; which others `kept` says."""
        if self.noise is None or kept.all():
            return
        place, of_area = np.divmod(self.cut, areas)
        gone = ~kept[place]
        sums.add(of_area[gone], self.values[place[gone]], self.noise.variance)
        missing = _missing_noise(self.noise, self._from_end(kept))[place]
        sums.add(of_area, missing, np.square(missing))

    def _from_end(self, kept: BoolArray) -> FloatArray:
        """How many integers each measurement is from the end of those that are left out of its family, float64 (n,).

        The last of them and the first of those that are kept are at 1. Infinite in families that were kept whole.
        """
        parents, family = np.unique(self.parents, return_inverse=True)
        most, least = np.full(len(parents), -np.inf), np.full(len(parents), np.inf)
        np.maximum.at(most, family[~kept], self.values[~kept])
        np.minimum.at(least, family[kept], self.values[kept])
        above: FloatArray = self.values - np.floor((most + least - 1) / 2)[family]
        return np.maximum(above, 1 - above)


def _missing_noise(noise: Noise, distances: FloatArray) -> FloatArray:
    """What measurements at these distances from the end of those that are left out stand for, float64 (n,).

    Over all measurements of a node, its mean is what the noise lacks where the node is left out, or more. Of discrete
    Laplace noise it is exactly that, and of discrete Gaussian noise where T is the last number that is left out or the
    next one: the same for all measurements within half a standard deviation.
    """
    scale = float(noise.scale)
    if noise.distribution == "discrete_laplace":
        return np.asarray(np.exp(-distances / scale) / -math.expm1(-1 / scale))
    short = min(scale, 100.0)  # beyond, heights are in proportion to the scale
    n, near = np.arange(math.ceil(12 * short) + 2), max(1, round(short / 2))
    mass = np.exp(-0.5 * (n / short) ** 2)
    height = scale / short * float((n * mass).sum() / (mass[:near].sum() + mass[1 : near + 1].sum()))
    return np.where(distances <= max(1, round(scale / 2)), height, 0.0)


def _rows(view: ReleaseView, tree: Hierarchy | Product, table: int, depth: int) -> Numbered:
    """The rows of a table that name nodes of a level."""
    parts = []
    for rows in view.slices(tree.levels[table]):
        here = pa.array(depths_of_rows(tree, table, rows) == depth)
        parts.append(rows.filter(here).combine_chunks())
    return _numbered(tree, depth, parts, "count", f"the table of {tree.levels[table]!r}")


def _measurements(view: ReleaseView, tree: Hierarchy | Product, depth: int) -> Numbered:
    name = tree.levels[depth]
    return _numbered(tree, depth, [view.release.measurements(name)], "value", f"the measurements of {name!r}")


def _numbered(tree: Hierarchy | Product, depth: int, parts: list[pa.Table], number: str, where: str) -> Numbered:
    nodes = np.concatenate([node_numbers(tree, depth, rows, rows.num_rows) for rows in parts])
    if (nodes < 0).any():
        raise ValueError(f"release: {where} has a row that is about no node of the hierarchy; {FRESH_COPY}")
    return Numbered(nodes, np.concatenate([rows.column(number).to_numpy() for rows in parts]))
