"""Made-up statistics of the shape of a planned release; see `rehearsal.py`."""

from __future__ import annotations

import copy

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.private import LeafCounts
from tallytree.product import Product
from tallytree.support.arrays import IntArray
from tallytree.tables import PublicTotals, TableLayout

MOST_LEAVES = 500
"""A tree with more is cut."""
MOST_CELLS = 200_000
"""Of the leaf level, where a leaf has several cells; but at least `LEAST_LEAVES` leaves."""
LEAST_LEAVES = 8


def cut_tree(tree: Hierarchy | Product) -> Hierarchy | Product:
    """The tree with some of its leaves, under the same names of levels."""
    if isinstance(tree, Hierarchy):
        return cut(tree, 1)
    most = max(LEAST_LEAVES, round(MOST_LEAVES ** (1 / len(tree.attributes))))
    trees = {each.name: _cut(each.hierarchy, most) for each in tree.attributes}
    return Product(trees, order=tree.order, columns={each.name: each.columns for each in tree.attributes})


def cut(tree: Hierarchy, cells: int) -> Hierarchy:
    """The hierarchy with some of its leaves, each of which has so many cells."""
    return _cut(tree, min(MOST_LEAVES, max(LEAST_LEAVES, MOST_CELLS // cells)))


def _cut(tree: Hierarchy, most: int) -> Hierarchy:
    """A copy, which a mechanism may spoil; the first and last leaves are kept, so that a root that was added stays."""
    if tree.n_leaves <= most:
        return copy.deepcopy(tree)
    kept = np.unique(np.linspace(0, tree.n_leaves - 1, most).astype(np.int64))
    return Hierarchy.from_table(tree.path_table(len(tree.levels) - 1, kept), tree.columns)


def cut_layout(layout: TableLayout) -> TableLayout:
    """The same tables of some of the areas; of all, where combinations are impossible, which are named by labels."""
    product = layout.product
    if product.impossible:
        product = copy.deepcopy(product)
    else:
        areas, *others = product.attributes
        trees = {areas.name: cut(areas.hierarchy, layout.detail.cells)}
        trees |= {each.name: copy.deepcopy(each.hierarchy) for each in others}
        product = Product(trees, columns={each.name: each.columns for each in product.attributes})
    return TableLayout(product, layout.tables, layout.asked, layout.finest_refined[0])


def leaf_numbers(leaves: int, records: int) -> tuple[IntArray, IntArray]:
    """At most so many distinct leaves, ascending, and a number > 0 of each."""
    rng = np.random.default_rng(records)
    nodes = np.unique(rng.integers(0, leaves, records))
    return nodes, _numbers(rng, len(nodes))


def sizes(groups: int, least: int, greatest: int) -> IntArray:
    """A size for each of some entries, most of them small."""
    drawn = np.random.default_rng(groups).geometric(0.3, groups)
    return np.clip(drawn + least - 1, least, greatest).astype(np.int64)


def cell_numbers(layout: TableLayout, records: int) -> LeafCounts:
    """At most so many combinations of leaves that records can have, and a number > 0 of each."""
    rng = np.random.default_rng(records)
    drawn = [rng.integers(0, each.hierarchy.n_leaves, records) for each in layout.product.attributes]
    parts = [np.ascontiguousarray(column) for column in np.unique(np.column_stack(drawn), axis=0).T]
    if layout.impossible is not None:
        there = ~layout.impossible[layout.detail_cells(parts) % layout.detail.cells]
        parts = [part[there] for part in parts]
    return LeafCounts(tuple(parts), _numbers(rng, len(parts[0])))


def totals_of(layout: TableLayout, found: LeafCounts, level: int) -> PublicTotals:
    """The totals of the areas of a level."""
    areas = np.zeros(layout.areas_per_level[-1], dtype=np.int64)
    np.add.at(areas, layout.detail_cells(found.parts) // layout.detail.cells, found.counts)
    for offsets in reversed(layout.families[level:]):
        areas = np.add.reduceat(areas, offsets[:-1])
    return PublicTotals(level, areas)


def _numbers(rng: np.random.Generator, size: int) -> IntArray:
    """Numbers from 1 to some ten thousand, most of them small."""
    return np.ceil(np.exp(rng.normal(2.0, 2.0, size))).astype(np.int64)
