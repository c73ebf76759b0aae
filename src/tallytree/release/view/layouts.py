"""The tables of a release, read back: which they are, what their cells have, and what was published exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tallytree.product import Product
from tallytree.release.statement import TOTAL_IS_PUBLIC, TOTALS_ARE_PUBLIC
from tallytree.release.view.recorded_measurements import FRESH_COPY
from tallytree.support.arrays import IntArray
from tallytree.tables import PublicTotals, Table, TableLayout
from tallytree.tables.layout import table_of


def layout_of(statement: Mapping[str, Any], tree: object) -> TableLayout:
    """The tables of a release, from its statement and its hierarchies.

    Raises:
        ValueError: the statement does not list tables of these hierarchies as tallytree writes it.
        TypeError: the hierarchies are no product.
    """
    if not isinstance(tree, Product) or tree.ordered:
        raise TypeError(
            f"hierarchy: {type(tree).__name__} must be the tallytree.Product without an order that the tables were "
            "released over"
        )
    levels = statement["levels"]
    found = [_table(tree, each) for each in levels]
    asked = [each.get("asked") for each in levels]
    count = asked.count(True)
    if not count or asked != [True] * count + [False] * (len(asked) - count):
        raise ValueError(f"release: its statement does not say which tables were asked for, first of all; {FRESH_COPY}")
    # Below the finest table, totals of areas do not bear on any table.
    finest = max(table.refined[0] for table in found)
    return TableLayout(tree, found, count, min(finest, _totals_depth(statement, tree) or 0))


def _table(product: Product, stated: Mapping[str, Any]) -> Table:
    """A table by the levels that the statement lists, once these make its name.

    Raises:
        ValueError: they are no table of the product, or that of another name.
    """
    levels, name = stated.get("table"), stated.get("level")
    known = {column for side in product.attributes for column in side.columns}
    if isinstance(levels, list) and all(isinstance(level, str) and level in known for level in levels):
        try:
            table = table_of(product, levels, "release")
        except ValueError:
            table = None
        if table is not None and table.name == name:
            return table
    raise ValueError(
        f"hierarchy: it has no table with the levels that the release lists for {name!r}; give the hierarchy of the "
        "release"
    )


def _totals_depth(statement: Mapping[str, Any], product: Product) -> int | None:
    """How many columns of the areas are refined where totals are public; 0 for the root's, None for no totals."""
    invariants = statement.get("invariants", ())
    for depth, column in enumerate(product.attributes[0].columns, 1):
        if TOTALS_ARE_PUBLIC.format(column) in invariants:
            return depth
    return 0 if TOTAL_IS_PUBLIC in invariants else None


def exact_level_of(statement: Mapping[str, Any], layout: TableLayout) -> int | None:
    """The area level whose totals were published exactly, with those above it; None for none."""
    depth = _totals_depth(statement, layout.product)
    if depth is None:
        return None
    return layout.area_level_at(min(layout.finest_refined[0], depth))


def published_totals(
    statement: Mapping[str, Any], layout: TableLayout, tables: Mapping[str, IntArray]
) -> PublicTotals | None:
    """What the release published exactly, summed from its tables; None for nothing.

    Raises:
        ValueError: the published tables add up to less than 0 somewhere.
    """
    level = exact_level_of(statement, layout)
    if level is None:
        return None
    found = totals_at(layout, tables, level)
    if (found.totals < 0).any():
        raise ValueError(f"release: its tables add up to less than 0 records in an area; {FRESH_COPY}")
    return found


def totals_at(layout: TableLayout, tables: Mapping[str, IntArray], level: int) -> PublicTotals:
    """The totals of all areas of a level that some table reaches, summed from the table with the fewest cells."""
    enough = [i for i in range(len(layout.levels)) if layout.area_level(i) >= level]
    fewest = min(enough, key=layout.size)
    totals = tables[layout.levels[fewest]].reshape(layout.areas(fewest), -1).sum(axis=1, dtype=np.int64)
    for offsets in reversed(layout.families[level : layout.area_level(fewest)]):
        totals = np.add.reduceat(totals, offsets[:-1], dtype=np.int64)
    return PublicTotals(level, np.asarray(totals, dtype=np.int64))
