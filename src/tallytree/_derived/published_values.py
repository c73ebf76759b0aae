"""What a release published, read back as arrays: its numbers, its tree and its mechanism."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree._compute.arrays import IntArray, NumberArray
from tallytree._derived.recorded_measurements import described_row, path_texts
from tallytree.hierarchy import Hierarchy, Levels
from tallytree.product import Product
from tallytree.release import LevelTable, NodeTable, Release
from tallytree.release.intervals import ERROR_COLUMNS, HIDDEN, PROBABILITY_ZERO
from tallytree.release.paths import node_numbers
from tallytree.tables import TableLayout


@dataclass(frozen=True, eq=False)
class TableWithErrors:
    """A published table with error columns, in place of any that it has.

    Attributes:
        table: the published table.
        columns: the error columns, as many rows.
    """

    table: LevelTable
    columns: pa.Table

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return self.table.num_rows

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1."""
        rows = self.table.read(start, stop)
        kept = rows.select(
            [name for name in rows.column_names if name not in (*ERROR_COLUMNS, *HIDDEN, PROBABILITY_ZERO)]
        )
        for name in self.columns.column_names:
            kept = kept.append_column(name, self.columns.column(name).slice(start, stop - start))
        return kept

    def slices(self) -> Iterator[slice]:
        """Those of the published table."""
        return self.table.slices()


@dataclass(frozen=True, eq=False)
class PublishedLevel:
    """A published table as arrays: node, size (of group sizes) and number of each row."""

    nodes: IntArray
    sizes: IntArray | None
    numbers: NumberArray


def tree_of(release: Release, given: Hierarchy | Product | None) -> Hierarchy | Product:
    """The public tree that was given, or that the release holds.

    Raises:
        ValueError: it holds none.
        TypeError: what was given is no tree.
    """
    if given is not None and not isinstance(given, Hierarchy | Product):
        raise TypeError(f"hierarchy: {type(given).__name__} must be a tallytree.Hierarchy or a tallytree.Product")
    tree = release.tree if given is None else given
    if tree is None:
        raise ValueError(
            "hierarchy: None was given, and the release does not hold its public tree, as an earlier tallytree wrote "
            "it; give the Hierarchy (for flows the Product) that it was released over to tallytree.replicate_errors"
        )
    return tree


def published_level(table: LevelTable, tree: Levels, depth: int) -> PublishedLevel:
    """A published table as arrays.

    Raises:
        ValueError: a column is missing, or a row is about no node of the tree.
    """
    while isinstance(table, TableWithErrors):
        table = table.table
    if isinstance(table, NodeTable) and _same_nodes(table, tree, depth):  # made in this process
        return PublishedLevel(table.nodes, *_numbers(table.columns))
    parts: list[PublishedLevel] = []
    where = f"release: the table of {tree.levels[depth]!r}"
    for rows in table.slices():
        part = table.read(rows.start, min(rows.stop, table.num_rows))
        numbers = "groups" if "groups" in part.column_names else "count"
        paths = path_texts(part, tree, depth, where, (numbers,))
        nodes = node_numbers(tree, depth, paths, part.num_rows)
        if (nodes < 0).any():
            raise ValueError(
                f"hierarchy: it has no node {described_row(paths, int(np.argmax(nodes < 0)))} at the level "
                f"{tree.levels[depth]!r}, which the release published; give the hierarchy of the release"
            )
        parts.append(PublishedLevel(nodes, *_numbers(part)))
    none = np.zeros(0, dtype=np.int64)
    listed_sizes = [part.sizes for part in parts if part.sizes is not None]
    return PublishedLevel(
        np.concatenate([none, *(part.nodes for part in parts)]),
        np.concatenate([none, *listed_sizes]) if len(listed_sizes) == len(parts) else None,
        np.concatenate([none, *(part.numbers for part in parts)]),
    )


def _same_nodes(table: NodeTable, tree: Levels, depth: int) -> bool:
    """Whether the nodes of a table are those of the tree; of tables, cells of the same table of the same product."""
    if isinstance(tree, TableLayout) and isinstance(table.tree, TableLayout):
        same = tree.product is table.tree.product
        return same and tree.tables[depth].refined == table.tree.tables[table.depth].refined
    return table.tree is tree


def _numbers(columns: pa.Table) -> tuple[IntArray | None, NumberArray]:
    """Sizes, if there are any, and numbers."""
    if "count" in columns.column_names:
        return None, columns.column("count").to_numpy()
    return columns.column("size").to_numpy(), columns.column("groups").to_numpy()


def mechanism_of(statement: Mapping[str, Any], package: Any, kind: Any) -> Any:
    """The mechanism that made the tables, with its options.

    Raises:
        ValueError: there is no such mechanism, or it does not take these options.
    """
    stated = statement.get("mechanism")
    name = stated.get("name") if isinstance(stated, Mapping) else None
    chosen = getattr(package, name) if isinstance(name, str) and name in package.__all__ else None
    if not (isinstance(chosen, type) and is_dataclass(chosen) and issubclass(chosen, kind)):
        raise ValueError(
            f"release: its mechanism is {name!r}, which is not among {package.__name__}'s; use the tallytree that made "
            "the release, or a later one"
        )
    try:
        return chosen(**stated["options"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"release: its mechanism {name} does not take the options that its statement has ({error}); use the "
            "tallytree that made the release, or a later one"
        ) from None
