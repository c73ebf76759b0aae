"""True group sizes of every level, summed from the leaves: in memory, or in files of a run's private folder.

Private: only a `Measurer` may hold them, and what is read from the files, band by band.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tallytree.hierarchy import Hierarchy, nodes_per_level
from tallytree.kinds.measurements import Statistic
from tallytree.private.tabulate.leaf_statistics import DenseStatistics, array_digest
from tallytree.support.arrays import IntArray, offsets_of, sum_by_key
from tallytree.support.file_arrays import ROWS_AT_ONCE, ArrayWriter, FileArray, sum_files, written
from tallytree.support.kernels import kernel
from tallytree.trees.bands import Band


class LargestSize(DenseStatistics):
    """The largest size of all groups: one cell at the root, and no other statistic.

    Args:
        root: the root's level.
        size: the largest size.
    """

    def __init__(self, root: str, size: int) -> None:
        super().__init__({root: ("largest_size", np.array([[size]], dtype=np.int64))})


class LevelRuns(NamedTuple):
    """The runs of consecutive nodes of a level."""

    first_node: int
    """The first of these nodes."""
    offsets: IntArray
    """int64 (nodes + 1,), where the runs of each node begin."""
    sizes: IntArray
    """int64 (runs,), ascending within a node."""
    groups: IntArray
    """int64 (runs,), > 0."""


class SizesOfSome:
    """Group sizes of consecutive nodes of one or more levels; of others nothing is known here, or answered.

    A node that was answered with a part of its groups would get the noise of the node all the same, and the difference
    to its whole statistic would be published without noise. So every node that is asked for is checked.

    Args:
        tree: the public tree.
        runs: per level, the runs of all groups of its nodes that are known here.
        first_group: per level with public numbers of groups, int64 (nodes of the level + 1,): where those of each node
            begin among the level's.
        smallest: the least size.
        largest: K, the greatest size.
    """

    def __init__(
        self,
        tree: Hierarchy,
        runs: Mapping[str, LevelRuns],
        first_group: Mapping[str, IntArray],
        smallest: int,
        largest: int,
    ) -> None:
        self._tree, self._runs, self._first_group = tree, runs, first_group
        self._smallest, self._largest = smallest, largest
        self._nodes = nodes_per_level(tree)

    def __repr__(self) -> str:
        """Nothing of the sizes."""
        return f"{type(self).__name__}(<private>)"

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest size that there can be; both are public."""
        return self._smallest, self._largest

    def size(self, level: str) -> int:
        """How many nodes the level has."""
        return self._nodes[level]

    def width(self, level: str, node: int, statistic: Statistic) -> int:
        """How many cells the statistic has at a node, which public facts say.

        Raises:
            ValueError: the sorted sizes of a level whose numbers of groups are private.
        """
        if statistic == "sorted_sizes":
            first = self._first_groups(level)
            return int(first[node + 1] - first[node])
        return self._largest - self._first_size(level, statistic) + 1

    def cells(
        self, level: str, nodes: IntArray, statistic: Statistic, part: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The statistic of each of `nodes`, cell by cell.

        * `"tail_counts"`: groups of size ≥ s for s = smallest … largest; where the node's number of groups is public,
          which is the first of these, for s = smallest + 1 … largest.
        * `"chain_tail_counts"`: for s = smallest … largest the level's groups that have a size > s, or the size s in
          this node or a later one.
        * `"histogram"`: groups of size s for s = smallest … largest.
        * `"sorted_sizes"`: the sizes of the node's groups, ascending; only where their number is public.

        With a `part`, only the cells part[0] … part[1] − 1 of the one node asked for; of its sorted sizes no others are
        written out.
        """
        if statistic == "sorted_sizes":
            return self._sorted_sizes(level, nodes) if part is None else self._some_sorted_sizes(level, nodes, part)
        if part is not None:
            values, _, numbers = self.cells(level, nodes, statistic)
            kept = slice(*part)
            return values[kept], np.array([0, part[1] - part[0]]), numbers[kept]
        runs, here = self._known(level, nodes)
        first_size = self._first_size(level, statistic)
        width = self._largest - first_size + 1
        table = np.zeros((len(nodes), width), dtype=np.int64)
        if statistic == "chain_tail_counts":
            if len(runs[0]) != self._nodes[level] + 1:
                raise ValueError(f"statistic: {statistic!r} is about all nodes of {level!r}")
            order = np.argsort(-here, kind="stable")
            _fill_chain(*runs, here, order, first_size, table)
        elif statistic in ("tail_counts", "histogram"):
            _fill_histogram(*runs, here, first_size, table)
            if statistic == "tail_counts":
                table = np.cumsum(table[:, ::-1], axis=1)[:, ::-1]
        else:
            raise ValueError(f"statistic: {statistic!r} is not a statistic of group sizes")
        numbers = nodes[:, None] * width + np.arange(width)
        return np.ascontiguousarray(table).reshape(-1), np.arange(len(nodes) + 1) * width, numbers.reshape(-1)

    def _known(self, level: str, nodes: IntArray) -> tuple[tuple[IntArray, IntArray, IntArray], IntArray]:
        """The runs of a level, and where some nodes are among them.

        Raises:
            ValueError: a node that is not known here.
        """
        found = self._runs.get(level)
        if found is None:
            raise ValueError(f"level: {level!r} is not in the part that is worked on")
        here = nodes - found.first_node
        if len(here) and not 0 <= here.min() <= here.max() < len(found.offsets) - 1:
            raise ValueError(f"nodes: some of the level {level!r} are not in the part that is worked on")
        return found[1:], here

    def _first_size(self, level: str, statistic: Statistic) -> int:
        """The size of the first cell: where the number of groups is public, tail counts leave it out."""
        return self._smallest + (1 if statistic == "tail_counts" and level in self._first_group else 0)

    def _first_groups(self, level: str) -> IntArray:
        """Where each node's groups begin among the level's, int64 (nodes + 1,); their numbers must be public."""
        if level not in self._first_group:
            raise ValueError(f"statistic: 'sorted_sizes' of {level!r} would show the private numbers of groups")
        return self._first_group[level]

    def _sorted_sizes(self, level: str, nodes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        first = self._first_groups(level)
        runs, here = self._known(level, nodes)
        starts, lengths = first[nodes], first[nodes + 1] - first[nodes]
        ends = offsets_of(lengths)
        values = np.empty(ends[-1], dtype=np.int64)
        _fill_sorted_sizes(*runs, here, ends, values)
        return values, ends, np.arange(ends[-1], dtype=np.int64) + np.repeat(starts - ends[:-1], lengths)

    def _some_sorted_sizes(
        self, level: str, nodes: IntArray, part: tuple[int, int]
    ) -> tuple[IntArray, IntArray, IntArray]:
        begin = self._first_groups(level)[nodes[0]]
        runs, here = self._known(level, nodes)
        values = np.empty(part[1] - part[0], dtype=np.int64)
        _fill_some_sorted_sizes(*runs, here[0], part[0], values)
        return values, np.array([0, len(values)]), np.arange(begin + part[0], begin + part[1])


class TrueSizes(SizesOfSome):
    """Group sizes of every node as runs (size, number of groups).

    Args:
        hierarchy: the public tree.
        leaves: int64 (n,), leaf of each run.
        sizes: int64 (n,), within [smallest, largest].
        groups: int64 (n,), number of groups of that size in that leaf, > 0.
        groups_per_node: per level, int64, the public number of groups of each node; None where it is private.
        smallest: the least size.
        largest: K, the greatest size.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        leaves: IntArray,
        sizes: IntArray,
        groups: IntArray,
        groups_per_node: Sequence[IntArray | None],
        smallest: int,
        largest: int,
    ) -> None:
        self._groups_per_node = groups_per_node
        width = largest + 1
        keys, groups = sum_by_key(leaves * width + sizes, groups)
        runs = []
        for depth in range(len(hierarchy.levels) - 1, -1, -1):
            nodes, sizes = np.divmod(keys, width)
            offsets = np.searchsorted(nodes, np.arange(hierarchy.size(depth) + 1)).astype(np.int64)
            runs.append(LevelRuns(0, offsets, sizes, groups))
            if depth:
                keys, groups = sum_by_key(hierarchy.parents(depth, nodes) * width + sizes, groups)
        by_level = dict(zip(hierarchy.levels, reversed(runs), strict=True))
        super().__init__(hierarchy, by_level, first_groups(hierarchy, groups_per_node), smallest, largest)

    def largest_size(self) -> LargestSize:
        """The largest size of all groups, to be measured; the least size where there is no group."""
        root = self._tree.levels[0]
        return LargestSize(root, int(self._runs[root].sizes.max(initial=self._smallest)))

    def clamped(self, largest: int) -> TrueSizes:
        """The same groups with sizes clamped to a K that is no larger."""
        _, offsets, sizes, groups = self._runs[self._tree.levels[-1]]
        leaves = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))
        sizes = np.minimum(sizes, largest)
        return TrueSizes(self._tree, leaves, sizes, groups, self._groups_per_node, self._smallest, largest)

    def digest(self) -> bytes:
        """A digest of the sizes of every level, for the derivation of the noise key; never published."""
        return array_digest(array for level in self._runs.values() for array in level[1:])


def first_groups(hierarchy: Hierarchy, groups_per_node: Sequence[IntArray | None]) -> dict[str, IntArray]:
    """Per level with public numbers of groups, where the groups of each node begin: see `SizesOfSome`."""
    return {
        level: offsets_of(count)
        for level, count in zip(hierarchy.levels, groups_per_node, strict=True)
        if count is not None
    }


@kernel
def _fill_histogram(
    offsets: IntArray, sizes: IntArray, groups: IntArray, nodes: IntArray, first_size: int, table: IntArray
) -> None:
    # Each run is written once; runs below the first size measured have no cell.
    for row in range(nodes.shape[0]):
        for run in range(offsets[nodes[row]], offsets[nodes[row] + 1]):
            if sizes[run] >= first_size:
                table[row, sizes[run] - first_size] += groups[run]


@kernel
def _fill_chain(
    offsets: IntArray,
    sizes: IntArray,
    groups: IntArray,
    nodes: IntArray,
    order: IntArray,
    first_size: int,
    table: IntArray,
) -> None:
    # `here` holds the groups of each size in the nodes from `below` on, `order` lists `nodes` from the last to the
    # first; what is larger than a size, in all nodes, is added at the end.
    width = table.shape[1]
    here = np.zeros(width, dtype=np.int64)
    below = offsets.shape[0] - 1
    for row in order:
        while below > nodes[row]:
            below -= 1
            for run in range(offsets[below], offsets[below + 1]):
                here[sizes[run] - first_size] += groups[run]
        table[row] = here
    while below > 0:
        below -= 1
        for run in range(offsets[below], offsets[below + 1]):
            here[sizes[run] - first_size] += groups[run]
    larger = 0
    for cell in range(width - 1, -1, -1):
        for row in range(table.shape[0]):
            table[row, cell] += larger
        larger += here[cell]


@kernel
def _fill_sorted_sizes(
    offsets: IntArray, sizes: IntArray, groups: IntArray, nodes: IntArray, ends: IntArray, values: IntArray
) -> None:
    # Runs are ascending in size, so writing them one after the other is sorted; they fill the node's cells exactly.
    for row in range(nodes.shape[0]):
        place = ends[row]
        for run in range(offsets[nodes[row]], offsets[nodes[row] + 1]):
            for _ in range(groups[run]):
                values[place] = sizes[run]
                place += 1


@kernel
def _fill_some_sorted_sizes(
    offsets: IntArray, sizes: IntArray, groups: IntArray, node: int, first: int, values: IntArray
) -> None:
    # `before` groups are in the runs passed by; of each later run, what falls into first … first + len(values) − 1.
    before = 0
    for run in range(offsets[node], offsets[node + 1]):
        start = max(before - first, 0)
        before += groups[run]
        if before > first:
            values[start : min(before - first, len(values))] = sizes[run]
        if before - first >= len(values):
            break


class _LevelFiles(NamedTuple):
    """The runs of all nodes of a level: see `LevelRuns`."""

    offsets: IntArray
    sizes: FileArray
    groups: FileArray

    def of_nodes(self, start: int, stop: int) -> LevelRuns:
        """The runs of the nodes start … stop − 1."""
        offsets = self.offsets[start : stop + 1]
        here = int(offsets[0]), int(offsets[-1])
        return LevelRuns(start, offsets - offsets[0], self.sizes.read(*here), self.groups.read(*here))


class SizesInFiles:
    """Group sizes of every node as runs (size, number of groups), in files.

    Args:
        hierarchy: the public tree.
        keys: int64 (n,), leaf · (largest + 1) + size of each run, in any order.
        groups: int64 (n,), the number of groups of each run, > 0.
        groups_per_node: per level, int64, the public number of groups of each node; None where it is private.
        smallest: the least size.
        largest: K, the greatest size.
        folder: where the files are made; who makes it removes it.
        rows: how many rows are in memory at once.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        keys: FileArray,
        groups: FileArray,
        groups_per_node: Sequence[IntArray | None],
        smallest: int,
        largest: int,
        folder: Path,
        *,
        rows: int = ROWS_AT_ONCE,
    ) -> None:
        self._tree, self._groups_per_node = hierarchy, groups_per_node
        self._smallest, self._largest = smallest, largest
        self._folder, self._rows = folder, rows
        self._first_group = first_groups(hierarchy, groups_per_node)
        place, width = Path(tempfile.mkdtemp(prefix="sizes-", dir=folder)), largest + 1  # mode 0700
        last = len(hierarchy.levels) - 1
        levels: list[_LevelFiles] = []
        for depth in range(last, -1, -1):
            key_of = (lambda keys: keys) if depth == last else _parents_of(hierarchy, depth + 1, width)
            above, groups = sum_files(keys, groups, key_of, place, f"level-{depth}", rows=rows)
            if depth < last - 1:
                keys.remove()
            levels.append(_level_files(above, groups, hierarchy.size(depth), width, place / f"sizes-{depth}", rows))
            keys = above
            if depth == last:
                self._leaf_keys = above
        self._levels = levels[::-1]

    @classmethod
    def of_leaves(
        cls,
        hierarchy: Hierarchy,
        leaves: IntArray,
        sizes: IntArray,
        groups: IntArray,
        groups_per_node: Sequence[IntArray | None],
        smallest: int,
        largest: int,
        folder: Path,
        *,
        rows: int = ROWS_AT_ONCE,
    ) -> SizesInFiles:
        """The same from arrays in memory, which may be given up afterwards; see `TrueSizes`."""
        with ArrayWriter(folder / "found-keys") as keys:
            for start in range(0, len(leaves), rows):
                part = slice(start, start + rows)
                keys.append(leaves[part] * (largest + 1) + sizes[part])
        found = keys.done(), written(folder / "found-groups", groups)
        made = cls(hierarchy, *found, groups_per_node, smallest, largest, folder, rows=rows)
        for file in found:
            file.remove()
        return made

    def __repr__(self) -> str:
        """Nothing of the sizes."""
        return "SizesInFiles(<private>)"

    def digest(self) -> bytes:
        """The digest that `TrueSizes` of the same groups has; never published."""
        return array_digest(array for level in self._levels for array in level)

    def largest_size(self) -> LargestSize:
        """See `TrueSizes.largest_size`."""
        sizes = self._levels[0].sizes.read()
        return LargestSize(self._tree.levels[0], int(sizes.max(initial=self._smallest)))

    def clamped(self, largest: int) -> SizesInFiles:
        """See `TrueSizes.clamped`."""
        width, place = self._largest + 1, Path(tempfile.mkdtemp(prefix="clamped-", dir=self._folder))

        def clamped_key(keys: IntArray) -> IntArray:
            return keys // width * (largest + 1) + np.minimum(keys % width, largest)

        found = sum_files(self._leaf_keys, self._levels[-1].groups, clamped_key, place, "found", rows=self._rows)
        bounds = self._smallest, largest
        return SizesInFiles(self._tree, *found, self._groups_per_node, *bounds, place, rows=self._rows)

    def top(self, depth: int) -> SizesOfSome:
        """The sizes of all nodes of the levels down to one."""
        return self._of({above: (0, self._tree.size(above)) for above in range(depth + 1)})

    def runs_of_band(self, band: Band) -> dict[str, LevelRuns]:
        """The runs of a band's nodes at the levels below the cut: what `known` needs of it."""
        return self._runs({depth: band.span(depth) for depth in range(band.depth + 1, len(self._levels))})

    @property
    def known(self) -> Callable[[Band, Mapping[str, LevelRuns]], SizesOfSome]:
        """How statistics are made of the runs of a band; public, and it can be pickled."""
        return partial(sizes_of_band, first_group=self._first_group, smallest=self._smallest, largest=self._largest)

    def _runs(self, spans: dict[int, tuple[int, int]]) -> dict[str, LevelRuns]:
        return {self._tree.levels[depth]: self._levels[depth].of_nodes(*span) for depth, span in spans.items()}

    def _of(self, spans: dict[int, tuple[int, int]]) -> SizesOfSome:
        return SizesOfSome(self._tree, self._runs(spans), self._first_group, self._smallest, self._largest)


def sizes_of_band(
    band: Band, runs: Mapping[str, LevelRuns], *, first_group: Mapping[str, IntArray], smallest: int, largest: int
) -> SizesOfSome:
    """The sizes of a band's nodes at the levels below the cut, from their runs; all else is public."""
    return SizesOfSome(band.hierarchy, runs, first_group, smallest, largest)


def _level_files(keys: FileArray, groups: FileArray, nodes: int, width: int, path: Path, rows: int) -> _LevelFiles:
    """The runs of a level from their keys, node · width + size, ascending."""
    runs = np.zeros(nodes, dtype=np.int64)
    with ArrayWriter(path) as sizes:
        for block in keys.blocks(rows):
            here, size = np.divmod(block, width)
            first = int(here[0])
            found = np.bincount(here - first)
            runs[first : first + len(found)] += found
            sizes.append(size)
    return _LevelFiles(offsets_of(runs), sizes.done(), groups)


def _parents_of(tree: Hierarchy, depth: int, width: int) -> Callable[[IntArray], IntArray]:
    def key_of(keys: IntArray) -> IntArray:
        nodes, sizes = np.divmod(keys, width)
        return tree.parents(depth, nodes) * width + sizes

    return key_of
