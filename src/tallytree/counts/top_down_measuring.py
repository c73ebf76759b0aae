"""Top-down measuring: the children of the nodes that are not 0 are measured, family by family, in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tallytree.counts.released_counts import ReleasedCounts
from tallytree.hierarchy import Tree
from tallytree.kinds.measurements import Measures, Noise
from tallytree.support.arrays import IntArray, chunks

CELLS_AT_ONCE = 4_000_000
"""Families are measured and projected in chunks of about this many children, which bounds the memory of a step."""


@dataclass(frozen=True, eq=False)
class MeasuredFamilies:
    """The measured children of some nodes of the level above; a family is all children of one node.

    Attributes:
        parents: which entries of the `ReleasedCounts` of the level above are the parents.
        totals: int64 (parents,), the count of each parent.
        nodes: int64 (children,), node numbers, family after family.
        offsets: int64 (parents + 1,), where each family begins.
        noisy: int64 (children,), the noisy measurements.
        noise: the distribution of the noise in each of them.
    """

    parents: slice
    totals: IntArray
    nodes: IntArray
    offsets: IntArray
    noisy: IntArray
    noise: Noise


def measured_root(tree: Tree, measurer: Measures) -> tuple[int, Noise]:
    """The noisy total number of records, and the distribution of its noise."""
    measured = measurer.measure(tree.levels[0], np.zeros(1, dtype=np.int64), "total")
    return int(measured.values[0]), measured.noise


def measured_families(tree: Tree, depth: int, above: ReleasedCounts, measurer: Measures) -> Iterator[MeasuredFamilies]:
    """The children, at `depth`, of all nodes in `above`, measured chunk by chunk."""
    for parents in chunks(tree.child_counts(depth - 1, above.nodes), CELLS_AT_ONCE):
        nodes, offsets = tree.children(depth - 1, above.nodes[parents])
        measured = measurer.measure(tree.levels[depth], nodes, "counts")
        yield MeasuredFamilies(parents, above.counts[parents], nodes, offsets, measured.values, measured.noise)


def positive_nodes(level: ReleasedCounts) -> ReleasedCounts:
    """The nodes with a count above 0. Pruning is final: descendants of the other nodes are never measured."""
    kept = level.counts > 0
    return ReleasedCounts(level.nodes[kept], level.counts[kept])
