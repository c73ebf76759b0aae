"""Going down a tree: the children of the nodes that are not zero are measured, family after family, in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tallytree.compute.arrays import IntArray, chunks
from tallytree.counts.released_counts import ReleasedCounts
from tallytree.hierarchy import Tree
from tallytree.measurements import Measures, Noise

CELLS_AT_ONCE = 4_000_000
"""Families are measured and projected in chunks of about this many children, which bounds the memory of a step."""


@dataclass(frozen=True, eq=False)
class Families:
    """The measured children of some nodes of the level above.

    Attributes:
        parents: which nodes of the level above, as places in its `ReleasedCounts`.
        totals: int64 (parents,), the count of each parent.
        nodes: int64 (children,), family after family.
        offsets: int64 (parents + 1,), where each family begins.
        noisy: int64 (children,), what was measured.
        noise: the noise in it.
    """

    parents: slice
    totals: IntArray
    nodes: IntArray
    offsets: IntArray
    noisy: IntArray
    noise: Noise


def measured_root(tree: Tree, measurer: Measures) -> tuple[int, Noise]:
    """The noisy number of records in all, and its noise."""
    measured = measurer.measure(tree.levels[0], np.zeros(1, dtype=np.int64), "total")
    return int(measured.values[0]), measured.noise


def measured_families(tree: Tree, depth: int, above: ReleasedCounts, measurer: Measures) -> Iterator[Families]:
    """The children, at `depth`, of all nodes in `above`, measured chunk by chunk."""
    for parents in chunks(tree.child_counts(depth - 1, above.nodes), CELLS_AT_ONCE):
        nodes, offsets = tree.children(depth - 1, above.nodes[parents])
        measured = measurer.measure(tree.levels[depth], nodes, "counts")
        yield Families(parents, above.counts[parents], nodes, offsets, measured.values, measured.noise)


def positive(level: ReleasedCounts) -> ReleasedCounts:
    """The nodes that are not zero."""
    kept = level.counts > 0
    return ReleasedCounts(level.nodes[kept], level.counts[kept])
