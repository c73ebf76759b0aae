"""The released cells of group sizes: groups of one size in a node. Their sums, and the sizes as values of groups.

Errors are those of replicates. Of a node with G groups let T(s) be how many have size s or more. The quantile q is
below s where G − T(s) ≥ q·G. So its interval follows from those of (1 − q)·G − T(s) at the sizes that the release
lists: between these no group is listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import stored_level
from tallytree.numbers.accuracy.bootstrap import LevelCells, StatedPlan
from tallytree.numbers.accuracy.squared_errors import looked_up
from tallytree.numbers.cells import Estimates, Replication, Values, as_whole
from tallytree.numbers.tree_cells import AreaSums, TreeCells, area_cells
from tallytree.release.view.areas import SummedAreas
from tallytree.release.view.recorded_measurements import published_range
from tallytree.release.view.release_view import PublishedLevel, ReleaseView
from tallytree.support.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SizeCells(TreeCells):
    """The groups of each size in the nodes of a tree."""

    derives: ClassVar[tuple[str, ...]] = ("mean", "quantile", "total")

    def values(self, level: str, replication: Replication, *, attribute: Any, values: Any, where: Any) -> Values:
        """See `ReleasedCells`.

        Raises:
            ValueError: an unknown level, or an argument that is about tables.
        """
        for name, option in (("attribute", attribute), ("values", values), ("where", where)):
            if option is not None:
                raise ValueError(f"{name}: it is about the attributes of tables; group sizes have none, leave it out")
        return ListedSizes.of(self.view, level, replication)

    def _area_sums(self, areas: SummedAreas, plan: StatedPlan, published: Sequence[PublishedLevel]) -> AreaSums:
        """The sums of the groups of each size, where there are any."""
        width = 1 + published_range(self.view.release.spec, self.view.statement)[2]
        keys, groups = area_cells(areas, [_size_cells(each, width) for each in published], width)
        keys, groups = keys[groups != 0], groups[groups != 0]
        rows, sizes = np.divmod(keys, width)

        def in_levels(levels: list[LevelCells]) -> FloatArray:
            return looked_up(keys, *area_cells(areas, levels, width))[None].astype(np.float64)

        return AreaSums(rows, {"size": sizes, "groups": groups}, groups, in_levels, np.zeros(len(keys)))


def _size_cells(level: PublishedLevel, width: int) -> LevelCells:
    sizes = np.zeros(0, dtype=np.int64) if level.sizes is None else level.sizes
    return level.nodes * width + sizes, level.numbers


@dataclass(frozen=True, eq=False)
class ListedSizes(Values):
    """The sizes that a level lists, node after node; and of each node the size after the last one, with no groups.

    Attributes:
        view: the release.
        depth: the level.
        nodes: int64 (n,).
        sizes: int64 (n,), ascending in each node.
        groups: float64 (n,).
        smallest: size that a group may have.
        largest: K.
        replication: how errors come from replicates.
    """

    view: ReleaseView
    depth: int
    nodes: IntArray
    sizes: IntArray
    groups: FloatArray
    smallest: int
    largest: int
    replication: Replication

    @classmethod
    def of(cls, view: ReleaseView, level: Any, replication: Replication) -> ListedSizes:
        """Those of a level, by its name.

        Raises:
            ValueError: there is no such level.
        """
        level = stored_level(level, view.levels[0])
        if level not in view.levels:
            raise ValueError(f"level: {level!r} is not one of the release's levels {', '.join(view.levels)}")
        depth = view.levels.index(level)
        published = view.published(depth)
        sizes = np.zeros(0, dtype=np.int64) if published.sizes is None else published.sizes
        order = np.lexsort((sizes, published.nodes))
        nodes, sizes, groups = published.nodes[order], sizes[order], published.numbers.astype(np.float64)[order]
        smallest, largest = published_range(view.release.spec, view.statement)[1:]
        last = np.append(nodes[1:] != nodes[:-1], [True] * (len(nodes) > 0)) & (sizes < largest)
        place = np.repeat(np.arange(len(nodes)), 1 + last)
        after = np.append([False] * (len(place) > 0), place[1:] == place[:-1])
        listed = sizes[place] + after, np.where(after, 0.0, groups[place])
        return cls(view, depth, nodes[place], *listed, smallest, largest, replication)

    @property
    def between(self) -> tuple[float, float]:
        """See `Values`."""
        return 0.0, float(self.largest)

    def sums(self) -> Estimates:
        """See `Values`: members and groups."""
        numbers = self._sums(self._published)
        moments, rounds = self.replication.second_moments(self.view, self._sums, chained=True)
        return Estimates(self._paths, numbers, numbers, moments[[0, 1], [0, 1]], moments[0, 1], rounds)

    def below(self, share: float) -> Estimates:
        """See `Values`: (1 − share) · G − T(s) of every row."""
        gaps = self._gaps(share, self._published)
        moments, rounds = self.replication.second_moments(self.view, partial(self._gaps, share), chained=True)
        return Estimates(self._paths, gaps, gaps, moments[0], replicates=rounds)

    def quantiles(self, below: Estimates, reach: FloatArray) -> dict[str, pa.Array]:
        """See `Values`."""
        (gap,), (far,) = below.published, reach
        groups: FloatArray = np.zeros(self._all_nodes)
        np.add.at(groups, self.nodes, self.groups)
        estimate = self._last(gap < 0, self.smallest)
        ends = (
            np.minimum(self._before(gap + far >= 0), estimate),
            np.maximum(self._after(gap - far < 0), estimate),
        )
        columns = zip(("quantile", "ci_lower", "ci_upper"), (estimate, *ends), strict=True)
        return {"count": as_whole(groups)} | {name: pa.array(each, mask=groups <= 0) for name, each in columns}

    @property
    def _width(self) -> int:
        """K + 1, of cells node · width + size."""
        return self.largest + 1

    @cached_property
    def _all_nodes(self) -> int:
        """How many nodes the level has."""
        return self.view.known_tree.size(self.depth)

    @property
    def _paths(self) -> dict[str, pa.Array]:
        paths = self.view.known_tree.path_table(self.depth, np.arange(self._all_nodes, dtype=np.int64))
        return {name: paths.column(name) for name in paths.column_names}

    @property
    def _published(self) -> list[LevelCells]:
        """The cells of all levels down to this one, as replicates have them; of those above none."""
        nothing: LevelCells = (np.zeros(0, np.int64), np.zeros(0))
        return [*[nothing] * self.depth, (self.nodes * self._width + self.sizes, self.groups)]

    def _sums(self, levels: list[LevelCells]) -> FloatArray:
        """Members and groups of every node: float64 (2, nodes), of the cells of all levels."""
        cells, groups = levels[self.depth]
        nodes, sizes = np.divmod(cells, self._width)
        return np.stack(
            [np.bincount(nodes, weights, minlength=self._all_nodes) for weights in (sizes * groups, 1.0 * groups)]
        )

    def _gaps(self, q: float, levels: list[LevelCells]) -> FloatArray:
        """(1 − q) · G − T(s) of every row: float64 (1, n), of the cells of all levels."""
        cells, groups = levels[self.depth]
        order = np.argsort(cells)
        until = np.concatenate([[0.0], np.cumsum(groups[order], dtype=np.float64)])
        first, here, stop = (
            until[np.searchsorted(cells[order], keys)]
            for keys in (
                self.nodes * self._width,
                self.nodes * self._width + self.sizes,
                (self.nodes + 1) * self._width,
            )
        )
        return np.asarray((1 - q) * (stop - first) - (stop - here))[None, :]

    def _last(self, below: BoolArray, otherwise: int) -> IntArray:
        """Of every node the largest listed size with `below`: int64 (nodes,)."""
        largest = np.full(self._all_nodes, otherwise, dtype=np.int64)
        np.maximum.at(largest, self.nodes[below], self.sizes[below])
        return largest

    def _before(self, reached: BoolArray) -> IntArray:
        """Of every node the listed size before the first one below which the quantile may be: int64 (nodes,)."""
        never = np.iinfo(np.int64).max
        first = np.full(self._all_nodes, never, dtype=np.int64)
        np.minimum.at(first, self.nodes[reached], self.sizes[reached])
        return self._last(self.sizes < first[self.nodes], self.smallest)

    def _after(self, not_yet: BoolArray) -> IntArray:
        """Of every node the size before the first listed one from which on the quantile is surely below: (nodes,)."""
        later = self.sizes > self._last(not_yet, -1)[self.nodes]
        first = np.full(self._all_nodes, self.largest + 1, dtype=np.int64)
        np.minimum.at(first, self.nodes[later], self.sizes[later])
        return first - 1
