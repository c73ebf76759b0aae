"""True group sizes that need not fit in memory: in files of a run's private folder, read band by band.

Private: only a `Measurer` may hold what is read from them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.private.tabulate.array_digest import array_digest
from tallytree.private.tabulate.true_sizes import LargestSize, LevelRuns, SizesOfSome, first_groups
from tallytree.support.arrays import IntArray, offsets_of
from tallytree.support.file_arrays import ROWS_AT_ONCE, ArrayWriter, FileArray, sum_files, written
from tallytree.trees.bands import Band


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
            key_of = _same if depth == last else _parents_of(hierarchy, depth + 1, width)
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
    def known(self) -> KnownSizes:
        """How statistics are made of the runs of a band; public."""
        return KnownSizes(self._tree, self._first_group, self._smallest, self._largest)

    def _runs(self, spans: dict[int, tuple[int, int]]) -> dict[str, LevelRuns]:
        return {self._tree.levels[depth]: self._levels[depth].of_nodes(*span) for depth, span in spans.items()}

    def _of(self, spans: dict[int, tuple[int, int]]) -> SizesOfSome:
        return SizesOfSome(self._tree, self._runs(spans), self._first_group, self._smallest, self._largest)


@dataclass(frozen=True, eq=False)
class KnownSizes:
    """How the statistics of a band are made of its runs; see `SizesOfSome`. All of it is public.

    Attributes:
        tree: the public tree.
        first_group: per level with public numbers of groups, where those of each node begin.
        smallest: the least size.
        largest: K, the greatest size.
    """

    tree: Hierarchy
    first_group: Mapping[str, IntArray]
    smallest: int
    largest: int

    def __call__(self, band: Band, runs: Mapping[str, LevelRuns]) -> SizesOfSome:
        """The sizes of a band's nodes at the levels below the cut."""
        return SizesOfSome(self.tree, runs, self.first_group, self.smallest, self.largest)


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


def _same(keys: IntArray) -> IntArray:
    return keys


def _parents_of(tree: Hierarchy, depth: int, width: int) -> Callable[[IntArray], IntArray]:
    def key_of(keys: IntArray) -> IntArray:
        nodes, sizes = np.divmod(keys, width)
        return tree.parents(depth, nodes) * width + sizes

    return key_of
