"""True counts of every level, summed from the leaves: in memory, or in files of a run's private folder, band by band.

Private: only a `Measurer` may hold them, and what is read from the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from tallytree.hierarchy import Hierarchy, Tree
from tallytree.kinds.measurements import Statistic
from tallytree.private.tabulate.leaf_statistics import LeafCounts, TrueContributions, array_digest, digest_with
from tallytree.product import Product
from tallytree.support.arrays import IntArray, offsets_of, sum_by_key
from tallytree.support.file_arrays import ROWS_AT_ONCE, ArrayWriter, FileArray, partition_files, sum_files
from tallytree.trees.bands import MAX_CUT_NODES, Band, Cut


class CountsOfSome:
    """Counts of some nodes of one or more levels; of others nothing is known here, and nothing is answered.

    A node that was answered with a part of its records would get the noise of the node all the same, and the difference
    to its whole count would be published without noise. So every node that is asked for is checked.

    Args:
        tree: the public tree.
        levels: per depth, the nodes with records, ascending, and how many each has.
        covers: whether all of some nodes (int64) of a level are among those whose counts are complete.
        distinct: whether no person is counted twice in a leaf, which makes the leaf level's another statistic.
    """

    def __init__(
        self,
        tree: Tree,
        levels: dict[int, tuple[IntArray, IntArray]],
        covers: Callable[[int, IntArray], bool],
        *,
        distinct: bool,
    ) -> None:
        self._tree, self._levels, self._covers = tree, levels, covers
        self._depths = {level: depth for depth, level in enumerate(tree.levels)}
        self._statistics = statistics_of_levels(tree, distinct=distinct)

    def __repr__(self) -> str:
        """Nothing of the counts."""
        return f"{type(self).__name__}(<private>)"

    def size(self, level: str) -> int:
        """How many nodes the level has."""
        return self._tree.size(self._depths[level])

    def width(self, level: str, node: int, statistic: Statistic) -> int:
        """One cell."""
        return 1

    def present(self, level: str) -> tuple[IntArray, IntArray]:
        """The nodes that have records, ascending, and how many: both private."""
        nodes, counts = self._known(level)
        kept = counts > 0
        return nodes[kept], counts[kept]

    def cells(
        self, level: str, nodes: IntArray, statistic: Statistic, part: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The count of each of `nodes`: one cell a node, numbered like it; the only part is that cell.

        Raises:
            ValueError: another statistic, or nodes whose counts are not known here.
        """
        if statistic not in ("stable_counts", self._statistics[level]):
            raise ValueError(f"statistic: {statistic!r} is not the count of the level {level!r}")
        known = self._known(level)
        if not self._covers(self._depths[level], nodes):
            raise ValueError(f"nodes: some of the level {level!r} are not in the part that is worked on")
        return counts_of(*known, nodes), np.arange(len(nodes) + 1, dtype=np.int64), nodes

    def _known(self, level: str) -> tuple[IntArray, IntArray]:
        found = self._levels.get(self._depths[level])
        if found is None:
            raise ValueError(f"level: {level!r} is not in the part that is worked on")
        return found


class TrueCounts(CountsOfSome):
    """Counts of every node that has records; the others are 0.

    Args:
        tree: the public tree.
        leaves: int64 (n,), leaf numbers, distinct.
        counts: int64 (n,), records of each.
        distinct: see `CountsOfSome`.
        contributions: people by their number of records, where they are measured too: part of the digest, and measured
            by a measurer of their own.
    """

    def __init__(
        self,
        tree: Tree,
        leaves: IntArray,
        counts: IntArray,
        *,
        distinct: bool = False,
        contributions: TrueContributions | None = None,
    ) -> None:
        self.contributions = contributions
        order = np.argsort(leaves, kind="stable")
        levels = [(leaves[order], counts[order])]
        for depth in range(len(tree.levels) - 1, 0, -1):
            nodes, here = levels[-1]
            levels.append(sum_by_key(tree.parents(depth, nodes), here))
        super().__init__(tree, dict(enumerate(reversed(levels))), lambda depth, nodes: True, distinct=distinct)

    @property
    def total(self) -> int:
        """The number of records in all (private unless the total is invariant)."""
        return int(self._levels[0][1].sum())

    def digest(self) -> bytes:
        """A digest of all statistics, for the derivation of the noise key; never published."""
        levels = array_digest(array for level in self._levels.values() for array in level)
        return digest_with(levels, self.contributions)


def statistics_of_levels(tree: Tree, *, distinct: bool) -> dict[str, Statistic]:
    """What the count of each level is: with `distinct`, that of the leaf level is another statistic."""
    statistics: dict[str, Statistic] = dict.fromkeys(tree.levels, "counts")
    if distinct:
        statistics[tree.levels[-1]] = "distinct_counts"
    statistics[tree.levels[0]] = "total"
    return statistics


def counts_of(present: IntArray, counts: IntArray, nodes: IntArray) -> IntArray:
    """The counts of some nodes, int64 (n,), given those of the nodes with records, ascending; the others have 0."""
    values = np.zeros(len(nodes), dtype=np.int64)
    if len(present):
        place = np.minimum(np.searchsorted(present, nodes), len(present) - 1)
        found = present[place] == nodes
        values[found] = counts[place[found]]
    return values


class CountsInFiles:
    """Counts of every node that has records, in files; the others are 0.

    Args:
        tree: the public tree.
        found: the leaves with records, and how many each has; it may be given up once this is made.
        folder: where the files are made; who makes it removes it.
        distinct: see `TrueCounts`.
        contributions: see `TrueCounts`.
        rows: how many rows are in memory at once.
    """

    def __init__(
        self,
        tree: Tree,
        found: LeafCounts,
        folder: Path,
        *,
        distinct: bool = False,
        contributions: TrueContributions | None = None,
        rows: int = ROWS_AT_ONCE,
    ) -> None:
        self.contributions = contributions
        self._tree, self._folder, self._distinct, self._rows = tree, folder, distinct, rows
        self._leaves = _written_leaves(tree, found, folder, rows)
        levels = [self._leaves]
        for depth in range(len(tree.levels) - 1, 0, -1):
            parents = _parents_of(tree, depth)
            levels.append(sum_files(*levels[-1], parents, folder, f"level-{depth - 1}", rows=rows))
        levels.reverse()
        self._digest = array_digest(file for level in levels for file in level)
        self.total = int(sum(int(block.sum()) for block in levels[0][1].blocks()))
        # Those of the levels down to any cut; below it they are summed again, band by band.
        self._top: dict[int, tuple[IntArray, IntArray]] = {}
        for depth, (nodes, counts) in enumerate(levels):
            if tree.size(depth) <= MAX_CUT_NODES:
                self._top[depth] = nodes.read(), counts.read()
            if depth < len(tree.levels) - 1:
                nodes.remove()
                counts.remove()

    def __repr__(self) -> str:
        """Nothing of the counts."""
        return "CountsInFiles(<private>)"

    def digest(self) -> bytes:
        """The digest that `TrueCounts` of the same leaves has; never published."""
        return digest_with(self._digest, self.contributions)

    def leaves_below(self, depth: int, nodes: IntArray) -> IntArray:
        """How many leaves with records each of some nodes has below it, int64 (n,); the level is small. Private."""
        found = self._leaves_of_small_nodes
        for level in range(self._smallest_nodes, depth, -1):
            parents = self._tree.parents(level, np.arange(len(found), dtype=np.int64))
            found = np.bincount(parents, weights=found, minlength=self._tree.size(level - 1)).astype(np.int64)
        return found[nodes]

    @property
    def _smallest_nodes(self) -> int:
        """The deepest level that is small."""
        return max(depth for depth in range(len(self._tree.levels)) if self._tree.size(depth) <= MAX_CUT_NODES)

    @cached_property
    def _leaves_of_small_nodes(self) -> IntArray:
        found = np.zeros(self._tree.size(self._smallest_nodes), dtype=np.int64)
        for leaves in self._leaves[0].blocks(self._rows):
            found += np.bincount(self._small_nodes(leaves), minlength=len(found))
        return found

    def _small_nodes(self, leaves: IntArray) -> IntArray:
        """The ancestors of some leaves at the deepest level that is small."""
        return ancestors(self._tree, len(self._tree.levels) - 1, leaves, self._smallest_nodes)

    def top(self, depth: int) -> CountsOfSome:
        """The counts of all nodes of the levels down to one that is small (`MAX_CUT_NODES`)."""
        levels = {above: self._top[above] for above in range(depth + 1)}
        return CountsOfSome(self._tree, levels, lambda depth, nodes: True, distinct=self._distinct)

    @property
    def known(self) -> Callable[[Band, tuple[IntArray, IntArray]], CountsOfSome]:
        """How statistics are made of the leaves of a band; public, and it can be pickled."""
        return partial(counts_of_band, distinct=self._distinct)

    def in_bands(self, cut: Cut) -> Callable[[int], tuple[IntArray, IntArray]]:
        """Sort the leaves into the bands of a cut, once.

        Returns:
            From the number of a band to its leaves with records, ascending, and how many each has: what `known` needs
            of it.
        """
        lengths = np.array([int(self.leaves_below(cut.depth, cut.nodes)[part].sum()) for part in cut.parts])
        if len(cut.parts) == 1 or isinstance(self._tree, Hierarchy):  # sorted already
            nodes, counts = self._leaves
        else:
            small = np.arange(self._tree.size(self._smallest_nodes), dtype=np.int64)
            band_of = cut.band_of(ancestors(self._tree, self._smallest_nodes, small, cut.depth))
            nodes, counts = partition_files(
                self._leaves,
                lambda leaves: band_of[self._small_nodes(leaves)],
                lengths,
                self._folder,
                "band",
                rows=self._rows,
            )
        begins = offsets_of(lengths)

        def read(number: int) -> tuple[IntArray, IntArray]:
            here = int(begins[number]), int(begins[number + 1])
            return nodes.read(*here), counts.read(*here)

        return read

    def leaf_blocks(self) -> Iterator[tuple[int, int, CountsOfSome]]:
        """All leaves in ranges first … stop − 1 of their numbers, ascending, with the counts of each range."""
        depth, nodes, counts = len(self._tree.levels) - 1, *self._leaves
        first, size = 0, self._tree.size(depth)
        for start in range(0, max(len(nodes), 1), self._rows):
            here, there = nodes.read(start, start + self._rows), counts.read(start, start + self._rows)
            stop = size if start + self._rows >= len(nodes) else int(here[-1]) + 1
            known = CountsOfSome(
                self._tree, {depth: (here, there)}, _within(depth, first, stop), distinct=self._distinct
            )
            yield first, stop, known
            first = stop


def counts_of_band(band: Band, leaves: tuple[IntArray, IntArray], *, distinct: bool) -> CountsOfSome:
    """The counts of a band's nodes at the levels below the cut.

    Args:
        band: the band.
        leaves: int64 (n,) each: its leaves with records, ascending, and how many records each has.
        distinct: see `TrueCounts`.
    """
    tree = band.tree
    levels = {len(tree.levels) - 1: leaves}
    for depth in range(len(tree.levels) - 1, band.depth + 1, -1):
        levels[depth - 1] = sum_by_key(tree.parents(depth, levels[depth][0]), levels[depth][1])
    return CountsOfSome(tree, levels, _in_band(band), distinct=distinct)


def ancestors(tree: Tree, depth: int, nodes: IntArray, above: int) -> IntArray:
    """The ancestor of each of some nodes of the level `depth` at the level `above`: int64 (n,)."""
    for level in range(depth, above, -1):
        nodes = tree.parents(level, nodes)
    return nodes


def ancestor_runs(tree: Tree, depth: int, nodes: IntArray, above: int) -> tuple[IntArray, IntArray]:
    """`ancestors` of nodes that come family after family, in fewer steps: one for each run of equal ancestors.

    Returns:
        The ancestors, int64 (runs,), and where each run begins, int64 (runs,).
    """
    starts = np.arange(len(nodes), dtype=np.int64)
    for level in range(depth, above, -1):
        nodes = tree.parents(level, nodes)
        begins = np.concatenate([np.ones(min(len(nodes), 1), dtype=np.bool_), nodes[1:] != nodes[:-1]])
        nodes, starts = nodes[begins], starts[begins]
    return nodes, starts


def _in_band(band: Band) -> Callable[[int, IntArray], bool]:
    """Whether all of some nodes of a level below the cut are below a band's nodes."""
    inside = np.sort(band.nodes)

    def covers(depth: int, nodes: IntArray) -> bool:
        if depth <= band.depth:
            return False
        if isinstance(band.tree, Hierarchy):
            first, stop = band.span(depth)
            return bool(not len(nodes) or (first <= nodes.min() and nodes.max() < stop))
        above, _ = ancestor_runs(band.tree, depth, nodes, band.depth)
        place = np.minimum(np.searchsorted(inside, above), len(inside) - 1)
        return bool((inside[place] == above).all())  # of no nodes too

    return covers


def _within(depth: int, first: int, stop: int) -> Callable[[int, IntArray], bool]:
    return lambda level, nodes: level == depth and bool(not len(nodes) or (first <= nodes.min() and nodes.max() < stop))


def _parents_of(tree: Tree, depth: int) -> Callable[[IntArray], IntArray]:
    return lambda nodes: tree.parents(depth, nodes)


def _written_leaves(tree: Tree, found: LeafCounts, folder: Path, rows: int) -> tuple[FileArray, FileArray]:
    """The leaf numbers, ascending, since the rows are in the order of their parts; and the counts."""
    with ArrayWriter(folder / "leaf-nodes") as nodes, ArrayWriter(folder / "leaf-counts") as counts:
        for start in range(0, len(found.counts), rows):
            part = slice(start, start + rows)
            parts = [each[part] for each in found.parts]
            nodes.append(tree.leaf_numbers(parts) if isinstance(tree, Product) else parts[0])
            counts.append(found.counts[part])
    return nodes.done(), counts.done()
