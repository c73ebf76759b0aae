"""The columns in which records say which leaf of a hierarchy they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import UNKNOWN, Hierarchy
from tallytree.product import Product
from tallytree.support.arrays import IntArray
from tallytree.support.validate import safe_text, text
from tallytree.trees.leaf_codes import codes_by_side, other_leaf, others_by_level, require_unique_codes


@dataclass(frozen=True)
class LeafKey:
    """The columns in which records say which leaf of a hierarchy they belong to.

    Attributes:
        hierarchy: the public tree.
        columns: the records' columns, one per supplied level of the hierarchy, top level first. Where the top level has
            a single value (and is not the only one) it may be left out here, or be missing in the records.
        code: the one column of records that have the leaf's own label in place of its path; None where they have the
            path.
        other: the label of the leaf in which records outside the hierarchy count, also those with null codes; None
            where they do not count.

    Raises:
        ValueError: another number of columns; with a code, two leaves that have the same label; no leaf, or several,
            with the label `other`.
        TypeError: not a hierarchy, or columns that are not strings.
    """

    hierarchy: Hierarchy
    columns: tuple[str, ...]
    code: str | None = None
    other: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.hierarchy, Hierarchy):
            raise TypeError(f"hierarchy: {type(self.hierarchy).__name__} is not a tallytree.Hierarchy")
        columns: Any = self.columns
        if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
            raise TypeError(f"columns: {safe_text(columns)} must be a list of column names, top level first")
        object.__setattr__(self, "columns", tuple(columns))
        levels = len(self.hierarchy.columns)
        if len(self.columns) not in {levels, levels - (1 if self._top_is_optional else 0)}:
            raise ValueError(
                f"columns: it names {len(self.columns)} columns, but the hierarchy has the levels "
                f"{', '.join(self.hierarchy.columns)}; name one column for each, top level first"
            )
        if self.code is not None:
            if self.hierarchy.unknown_from is not None:
                raise ValueError(
                    'on_unknown: "parent" needs the columns of the levels above, and leaf names one column of codes; '
                    "leave leaf out, or name a leaf for unknown codes"
                )
            require_unique_codes(self.hierarchy)
        if self.other is not None:
            other_leaf(self.hierarchy, self.other)

    @property
    def other_leaf(self) -> int | None:
        """The number of the leaf in which records outside the hierarchy count; None where they do not count."""
        return None if self.other is None else other_leaf(self.hierarchy, self.other)

    @property
    def _top_is_optional(self) -> bool:
        return not self.hierarchy.root_added and len(self.hierarchy.columns) > 1

    def present(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns to match in a table that has the columns `names`."""
        if self.code is not None:
            return (self.code,)
        complete = len(self.columns) == len(self.hierarchy.columns)
        return self.columns[1:] if complete and self._top_is_optional and self.columns[0] not in names else self.columns

    def reach(self, present: Sequence[str]) -> IntArray:
        """How many of the columns in `present` the branch of each leaf has: int64 (leaves,)."""
        hierarchy = self.hierarchy
        if self.code is not None or hierarchy.reach is None:
            return np.full(hierarchy.n_leaves, len(present), dtype=np.int64)
        return np.maximum(hierarchy.reach - (len(hierarchy.columns) - len(present)), 0)

    def may_be_null(self, present: Sequence[str]) -> list[bool]:
        """Which of the columns in `present` are null in the records of some leaf, whose branch ends above."""
        return [bool(place >= self.reach(present).min()) for place in range(len(present))]

    def unknown_from(self, present: Sequence[str]) -> int:
        """The first of the columns in `present` of which an unknown label counts in the parent; their number: none."""
        hierarchy = self.hierarchy
        if hierarchy.unknown_from is None:
            return len(present)
        return hierarchy.unknown_from - (len(hierarchy.columns) - len(present))

    def parents(self, present: Sequence[str], place: int) -> tuple[pa.Table, IntArray, pa.Array]:
        """Where records count whose label in `present[place]` is unknown, and whose labels above it are known.

        Returns:
            The labels above of every node there, a column for each; the leaf of each, its last: "unknown", or that of
            the node itself where its branch ends; and the labels of `present[place]`, which are not unknown.
        """
        tree = self.hierarchy
        depth = len(tree.levels) - 1 - len(present) + place
        nodes, reach = np.arange(tree.size(depth), dtype=np.int64), tree.reach_at(depth)
        if reach is not None:
            nodes = nodes[reach == reach.max()]
        leaf = nodes + 1
        for level in range(depth, len(tree.levels) - 1):
            leaf = tree.first_child[level][leaf]
        above = tree.path_table(depth, nodes).columns
        names = [*tree.own_labels(depth + 1).to_pylist(), UNKNOWN]
        columns = {f"c{c}": each for c, each in enumerate(above[len(above) - place :])}
        return pa.table(columns), leaf - 1, pa.array(names, pa.large_string()).unique()

    def leaf_columns(self, present: Sequence[str]) -> list[pa.ChunkedArray]:
        """The labels of all leaves (row i is leaf i), one column per column in `present`."""
        return list(self.hierarchy.leaf_table().columns[-len(present) :])


def leaf_keys(tree: Hierarchy | Product, leaf: Any = None, on_unknown: Any = None) -> tuple[LeafKey, ...]:
    """The records' columns for each hierarchy of a tree.

    Args:
        tree: the hierarchies.
        leaf: the column with the leaf's own label, in place of the path's columns; or, of a product, such columns by
            attribute. A name alone is that of the attribute whose last column has it.
        on_unknown: a mapping from leaf levels to the label of the leaf for records outside; anything else has no part.

    Raises:
        ValueError: a level that is none of leaves, or without such a leaf; an unknown attribute, or one that a name
            does not tell; a column for two attributes; two leaves that have the same label.
        TypeError: neither a name nor, of a product, a mapping of names.
    """
    if isinstance(tree, Hierarchy):
        if leaf is not None:
            text(leaf, "leaf", "the column with the codes of leaves")
        last = tree.columns[-1]
        return (LeafKey(tree, tree.columns, leaf, others_by_level(on_unknown, [last]).get(last)),)
    leaves = {side.name: side.columns[-1] for side in tree.attributes}
    codes, others = codes_by_side(leaf, leaves), others_by_level(on_unknown, [*leaves.values()])
    return tuple(
        LeafKey(side.hierarchy, side.columns, codes.get(side.name), others.get(leaves[side.name]))
        for side in tree.attributes
    )
