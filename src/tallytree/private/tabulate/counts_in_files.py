"""True counts that need not fit in memory: in files of a run's private folder, read band by band.

Private: only a `Measurer` may hold what is read from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tallytree.hierarchy import Hierarchy, Tree
from tallytree.private.tabulate.array_digest import array_digest
from tallytree.private.tabulate.leaf_statistics import LeafCounts
from tallytree.private.tabulate.true_contributions import TrueContributions, digest_with
from tallytree.private.tabulate.true_counts import CountsOfSome
from tallytree.product import Product
from tallytree.support.arrays import IntArray, offsets_of, sum_by_key
from tallytree.support.file_arrays import ROWS_AT_ONCE, ArrayWriter, FileArray, partition_files, sum_files
from tallytree.trees.bands import MAX_CUT_NODES, Band, Cut


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
    def known(self) -> KnownCounts:
        """How statistics are made of the leaves of a band; public."""
        return KnownCounts(self._distinct)

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


@dataclass(frozen=True)
class KnownCounts:
    """How the statistics of a band are made of its leaves; public.

    Attributes:
        distinct: see `TrueCounts`.
    """

    distinct: bool

    def __call__(self, band: Band, leaves: tuple[IntArray, IntArray]) -> CountsOfSome:
        """The counts of a band's nodes at the levels below the cut."""
        return counts_of_band(band, *leaves, distinct=self.distinct)


def counts_of_band(band: Band, leaves: IntArray, counts: IntArray, *, distinct: bool) -> CountsOfSome:
    """The counts of a band's nodes at the levels below the cut.

    Args:
        band: the band.
        leaves: int64 (n,), its leaves with records, ascending.
        counts: int64 (n,), how many records each has.
        distinct: see `TrueCounts`.
    """
    tree = band.tree
    levels = {len(tree.levels) - 1: (leaves, counts)}
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
