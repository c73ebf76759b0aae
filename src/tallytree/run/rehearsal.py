"""A mechanism from outside is tried on made-up statistics before a release is paid for.

A mechanism that fails, or breaks a promise, would do so after the payment. So it is run before, on statistics of the
shape that is planned: the same levels, the same noise, the same options, but made-up records, in a tree that is cut to
some hundred leaves where it has more. Nothing private is tabulated by then. The records and the noise follow from fixed
seeds under a label of their own, so what is tried is public, and no release has that noise.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.foreign import is_foreign
from tallytree.private import KeyedNoise, LeafCounts, entropy
from tallytree.product import Product
from tallytree.run.checked_results import broken, described, in_words
from tallytree.run.people import PublishedContributions
from tallytree.support.arrays import IntArray
from tallytree.support.stages import stage
from tallytree.tables import PublicTotals, TableLayout

LABEL = "rehearsal"
"""Keys are derived under this label, those of releases and replicates under others."""
RECORDS = (400, 2, 0)
"""Leaves with records in each data set, at most; in the last there is nothing."""
MOST_LEAVES = 500
"""A tree with more is cut."""
MOST_CELLS = 200_000
"""Of the leaf level, where a leaf has several cells; but at least `LEAST_LEAVES` leaves."""
LEAST_LEAVES = 8


class CanBeTried(Protocol):
    """A planned release, as far as a rehearsal needs it; see `planned.Planned`."""

    @property
    def mechanism(self) -> Any:
        """Turns noisy measurements into released tables."""

    def made_up(self, records: int) -> tuple[Any, Any]:
        """Made-up statistics with records in so many leaves, and the release of them."""


def rehearse(planned: CanBeTried) -> None:
    """Try a mechanism from outside; those of this library are tested, and not tried.

    Args:
        planned: the release that it is to make.

    Raises:
        ValueError: the mechanism fails, or breaks a promise that it does not declare.
    """
    mechanism = planned.mechanism
    if not is_foreign(mechanism):
        return
    who = described(mechanism)
    with stage("rehearse"):
        for number, records in enumerate(RECORDS):
            small, true = planned.made_up(records)
            key = entropy.derive(entropy.key_from_seed(0), LABEL, number)
            try:
                made = small.fit(true, KeyedNoise(key), _not_shown, None, PublishedContributions())
            except Exception as error:  # any code runs here, and all that it has seen is made up
                raise ValueError(
                    f"mechanism: {who} was tried on made-up statistics with records in at most {records} leaves, and "
                    f"failed ({type(error).__name__}: {error}). Nothing was spent; correct it"
                ) from error
            names = broken(mechanism, made.about)
            if names:
                declared = ", ".join(f'"{name}"' for name in sorted({*names, *mechanism.breaks}))
                raise ValueError(
                    f"mechanism: {who} was tried on made-up statistics, and in what it made of them it does not hold "
                    f"{in_words(names)}. Nothing was spent; correct it, or declare it: breaks = "
                    f"frozenset({{{declared}}})"
                )


def _not_shown(level: str) -> None:
    """Show no progress."""


# --- Made-up statistics of the shape of a planned release ---


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
    return Hierarchy.from_table(tree.ended_paths(len(tree.levels) - 1).take(kept), tree.columns)


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
        areas, cells = np.divmod(layout.detail_cells(parts), layout.detail.cells)
        there = ~layout.impossible[areas if layout.areas_differ else 0, cells]
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
