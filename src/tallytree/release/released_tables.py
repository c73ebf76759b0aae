"""Released values as the tables of a release, and what a statement says about these tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.counts.released_counts import ListedErrors, ReleasedCounts
from tallytree.hierarchy import Hierarchy, Tree
from tallytree.kinds.columns import LISTED_FROM, PROBABILITY_ZERO, TAIL_COLUMNS, TYPICAL_ERROR, UNBIASED
from tallytree.release.level_tables import LevelTable, NodeTable, PartlyListedTable
from tallytree.sizes import SizesDomain
from tallytree.sizes.mechanism import (
    ReleasedSizes,
    count_fractional,
    count_negative,
    count_violations,
    keeps_public_groups,
)
from tallytree.tables import FittedTables, TableLayout


def count_tables(tree: Tree, levels: Sequence[ReleasedCounts]) -> dict[str, LevelTable]:
    """The released tables of counts, root first; with the standard deviation where the mechanism knows it.

    Below nodes that have children which are not listed, rows that are null in the finer columns say how much that is.
    """
    found: dict[str, LevelTable] = {}
    unlisted: list[NodeTable] = []
    for depth, (name, level) in enumerate(zip(tree.levels, levels, strict=True)):
        table = NodeTable(tree, depth, level.nodes, count_columns(level))
        found[name] = PartlyListedTable(table, tuple(unlisted)) if unlisted else table
        if level.unlisted is not None:
            unlisted.append(NodeTable(tree, depth, level.unlisted.nodes, count_columns(level.unlisted)))
    return found


def count_columns(level: ReleasedCounts) -> pa.Table:
    """The columns beside the paths of a table of counts."""
    known = {} if level.std_dev is None else {"std_dev": level.std_dev}
    if level.typical_error is not None:
        known[TYPICAL_ERROR] = level.typical_error
    if level.unbiased is not None:
        known[UNBIASED] = level.unbiased
    if level.errors is not None:
        known = _listed_columns(level.errors)
    return pa.table({"count": level.counts, **known})


def _listed_columns(errors: ListedErrors) -> dict[str, Any]:
    """The columns about the errors of nodes that are listed by their measurements; what is left over has no chance."""
    least = pa.array(np.where(np.isfinite(errors.listed_from), errors.listed_from, np.nan), from_pandas=True)
    columns: dict[str, Any] = {"std_dev": errors.std_dev, UNBIASED: errors.unbiased, LISTED_FROM: least}
    if errors.probability_zero is not None:
        columns[PROBABILITY_ZERO] = pa.array(errors.probability_zero, from_pandas=True)
    return columns


def published_tables(layout: TableLayout, fitted: FittedTables) -> dict[str, NodeTable]:
    """The released tables: all cells where these are not too many, else those that are not 0."""
    return {name: _published_table(layout, depth, fitted) for depth, name in enumerate(layout.levels)}


def _published_table(layout: TableLayout, depth: int, fitted: FittedTables) -> NodeTable:
    counts = layout.summed(fitted.leaves, depth)
    name = layout.levels[depth]
    known = {}
    if name in fitted.std_devs:  # a mechanism from outside may know no errors
        known["std_dev"] = np.broadcast_to(fitted.std_devs[name], counts.shape).ravel()
    if name in fitted.typical_errors:
        known[TYPICAL_ERROR] = fitted.typical_errors[name].ravel()
    if name in fitted.unbiased:
        known[UNBIASED] = fitted.unbiased[name].ravel()
    counts = counts.ravel()
    cells = np.arange(len(counts), dtype=np.int64) if layout.lists_zeros(depth) else np.flatnonzero(counts)
    columns = {"count": counts[cells], **{column: values[cells] for column, values in known.items()}}
    return NodeTable(layout, depth, cells, pa.table(columns))


def size_tables(hierarchy: Hierarchy, levels: Sequence[ReleasedSizes]) -> dict[str, LevelTable]:
    """The released tables of group sizes, root first."""
    return {
        name: NodeTable(hierarchy, depth, level.nodes, size_columns(level))
        for depth, (name, level) in enumerate(zip(hierarchy.levels, levels, strict=True))
    }


def size_columns(level: ReleasedSizes) -> pa.Table:
    """The columns beside the paths of a table of group sizes; with tail counts where their errors are known."""
    known = {} if level.std_dev is None else dict(zip(TAIL_COLUMNS, (level.tail_counts(), level.std_dev), strict=True))
    return pa.table({"size": level.sizes, "groups": level.groups, **known})


def about_size_tables(domain: SizesDomain, levels: Sequence[ReleasedSizes]) -> dict[str, Any]:
    """What a statement says about released tables of group sizes."""
    return {
        "constraint_violations": count_violations(domain.hierarchy, levels, domain.largest),
        "negative_numbers": count_negative(levels),
        "fractional_numbers": count_fractional(levels),
        "public_groups_kept": keeps_public_groups(domain, levels),
    }
