"""Sums over areas of a release with rows that say how much is not listed, and their intervals.

What is not listed of a node lies somewhere below it. Where all of the node lies in the area it counts whole. Where the
area cuts through the node, between none of it and all of it counts. So the published numbers give two sums, a lower and
an upper one.

The noise is that of the measurements. Published numbers would not do: a cell is listed where its noise was positive. A
node is measured if its parent was kept, and its own noise has no part in that. So the measurements of the topmost
measured nodes that lie in the area as a whole add up to a number whose error is 0 on average, and whose variance is the
sum of theirs. An area may also have a part of nodes that were measured and whose children were not. Their measurements
are added for the upper end. The interval of these numbers is extended to the two published sums, which hold what is
left of many such nodes. `benchmarks/unlisted.py --totals` says how often intervals hold the true sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tallytree._compute.arrays import BoolArray, FloatArray, IntArray
from tallytree._measurements import Noise, Statistic
from tallytree.hierarchy import Hierarchy
from tallytree.product import Product
from tallytree.release.intervals import LevelErrors, interval
from tallytree.release.remainders import depths_of_rows
from tallytree.release.view.areas import SummedAreas
from tallytree.release.view.recorded_measurements import FRESH_COPY
from tallytree.release.view.release_view import ReleaseView
from tallytree.release.view.sides import node_numbers

_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Numbered:
    """Nodes of a level with numbers: int64 (n,) each."""

    nodes: IntArray
    numbers: IntArray


@dataclass(frozen=True, eq=False)
class MeasuredSums:
    """Sums of measurements, one for each area.

    Attributes:
        total: int64 (areas,).
        variance: float64 (areas,), of the noise of each sum.
    """

    total: IntArray
    variance: FloatArray

    @classmethod
    def nothing(cls, areas: int) -> MeasuredSums:
        """Sums of no measurement."""
        return cls(np.zeros(areas, dtype=np.int64), np.zeros(areas))

    def add(self, of_area: IntArray, values: IntArray, variance: float) -> None:
        """Add measurements of one variance to the sums of areas."""
        np.add.at(self.total, of_area, values)
        np.add.at(self.variance, of_area, variance)


@dataclass(frozen=True, eq=False)
class RemainderSums:
    """The sums of areas.

    Attributes:
        lower: int64 (areas,), what is listed in the area, and what is not listed of nodes that lie in it as a whole.
        upper: int64 (areas,), that and all that is not listed of nodes that the area cuts through.
        count: int64 (areas,), between the two: of these nodes the share of their leaves that may have it.
        inside: of the nodes that lie in the area as a whole.
        reached: of these, and of nodes without measured children that the area cuts through.
        complete: bool (areas,), whether the former are all of the area.
    """

    lower: IntArray
    upper: IntArray
    count: IntArray
    inside: MeasuredSums
    reached: MeasuredSums
    complete: BoolArray

    def ends(self, alpha: float) -> tuple[IntArray, IntArray]:
        """Lower and upper ends of intervals for the true sums: int64 (areas,) each.

        Args:
            alpha: the interval is to miss the true sum with this probability.
        """
        lower, _ = interval(self.inside.total, np.sqrt(self.inside.variance), alpha, LevelErrors())
        _, upper = interval(self.reached.total, np.sqrt(self.reached.variance), alpha, LevelErrors())
        return np.minimum(lower, self.lower), np.maximum(upper, self.upper)


def sums_with_remainders(
    view: ReleaseView, areas: SummedAreas, noise: Mapping[str, tuple[Statistic, Noise]]
) -> RemainderSums:
    """The sums of a release over areas.

    Args:
        view: of a release whose tables have rows that say how much is not listed.
        areas: the areas.
        noise: statistic and noise of every measured level; without the root where the total is public.

    Raises:
        ValueError: the release was made without keeping its measurements, or a row is about no node of the tree.
    """
    tree = areas.tree
    listed = [_rows(view, tree, depth, depth) for depth in range(len(tree.levels))]
    bottom = len(tree.levels) - 1
    lower, upper = (np.zeros(len(areas), dtype=np.int64) for _ in range(2))
    expected = np.zeros(len(areas))
    places, of_area, _ = areas.shares(bottom, listed[bottom].nodes)
    for each in (lower, upper, expected):
        np.add.at(each, of_area, listed[bottom].numbers[places])
    for depth in range(bottom):
        left = _rows(view, tree, bottom, depth)
        if not len(left.nodes):
            continue
        places, of_area, inside = areas.shares(depth, left.nodes)
        leaves = areas.leaves_below(depth, left.nodes)
        whole = inside == leaves[places]
        free_inside, free = _without_listed(areas, depth, left.nodes, listed[depth + 1].nodes, places, of_area)
        share = np.where(whole, 1.0, (inside - free_inside) / np.maximum(leaves - free, 1)[places])
        numbers = left.numbers[places]
        np.add.at(lower, of_area, numbers * whole)
        np.add.at(upper, of_area, numbers)
        np.add.at(expected, of_area, numbers * share)
    return RemainderSums(lower, upper, np.rint(expected).astype(np.int64), *_measured(view, areas, noise))


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
    inside, cut = MeasuredSums.nothing(len(areas)), MeasuredSums.nothing(len(areas))
    leaves_inside = np.zeros(len(areas), dtype=np.int64)
    above = _MeasuredNodes(0, _NONE, _NONE, 0.0, _NONE, _NONE)
    for depth, level in enumerate(tree.levels):
        if level in noise:
            found, law = _measurements(view, tree, depth), noise[level][1].variance
        elif depth == 0:  # the total is public
            found, law = _rows(view, tree, 0, 0), 0.0
        else:
            continue
        order = np.argsort(found.nodes)
        nodes, values = found.nodes[order], found.numbers[order]
        parents = nodes
        for step in range(depth, above.depth, -1):
            parents = tree.parents(step, parents)
        above.add_cut(cut, np.setdiff1d(above.nodes, parents), len(areas))
        places, of_area, leaves = areas.shares(depth, nodes)
        whole = leaves == areas.leaves_below(depth, nodes)[places]
        pairs = places * len(areas) + of_area
        topmost = whole & ~np.isin(np.searchsorted(above.nodes, parents)[places] * len(areas) + of_area, above.inside)
        inside.add(of_area[topmost], values[places[topmost]], law)
        np.add.at(leaves_inside, of_area[topmost], leaves[topmost])
        above = _MeasuredNodes(depth, nodes, values, law, pairs[whole], pairs[~whole])
    reached = MeasuredSums(inside.total + cut.total, inside.variance + cut.variance)
    return inside, reached, leaves_inside == areas.leaves


@dataclass(frozen=True, eq=False)
class _MeasuredNodes:
    """The measured nodes of a level, ascending.

    Attributes:
        depth: the level.
        nodes: int64 (n,).
        values: int64 (n,), their measurements.
        variance: of the noise.
        inside: pairs of a node and an area that has all of it, ascending: the node's place · areas + the area.
        cut: pairs of a node and an area that has a part of it.
    """

    depth: int
    nodes: IntArray
    values: IntArray
    variance: float
    inside: IntArray
    cut: IntArray

    def add_cut(self, sums: MeasuredSums, nodes: IntArray, areas: int) -> None:
        """Add the measurements of those of some nodes that areas cut through."""
        place, of_area = np.divmod(self.cut, areas)
        here = np.isin(place, np.searchsorted(self.nodes, nodes))
        sums.add(of_area[here], self.values[place[here]], self.variance)


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
