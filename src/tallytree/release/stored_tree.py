"""The public tree in the folder of a release: the leaves of its hierarchies, and how it is built from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Hierarchy
from tallytree.product import Product
from tallytree.release.files import sha256, write_parquet
from tallytree.release.level_tables import ChangedTable, NodeTable
from tallytree.release.manifest import NOT_ITS_TREE, file_stem
from tallytree.sources.leaf_paths import ended
from tallytree.support.whole_files import flush
from tallytree.trees.impossible import described_table


@dataclass(frozen=True)
class StoredTree:
    """The tree of a saved release, built when it is asked for.

    Attributes:
        folder: of the release.
        description: `tree` of its release.json, see `described_tree`.
    """

    folder: Path
    description: Mapping[str, Any]

    def load(self) -> Hierarchy | Product:
        """The tree, built at the first call; its nodes have the numbers that they had when it was written.

        Raises:
            ValueError: the description is not as tallytree writes it, or does not go with the files.
        """
        return self._built

    @cached_property
    def _built(self) -> Hierarchy | Product:
        try:
            if self.description["kind"] == "hierarchy":
                return self._hierarchy(self.description)
            sides = {side["name"]: side for side in self.description["attributes"]}
            read: dict[str, Hierarchy] = {}
            for side in sides.values():
                if side["file"] not in read:
                    read[side["file"]] = self._hierarchy(side)
            return Product(
                {name: read[side["file"]] for name, side in sides.items()},
                order=self.description["order"] or None,
                columns={name: side["columns"] for name, side in sides.items() if side["columns"] != side["levels"]},
                impossible=[described_table(each) for each in self.description.get("impossible", [])] or None,
                words=self.description.get("words"),
            )
        except (KeyError, OverflowError, TypeError, ValueError):
            pass
        # Raised out here: what the reader said may quote a row of a file.
        raise ValueError(f"folder: {str(self.folder)!r} {NOT_ITS_TREE}; take a fresh copy of the release")

    def _hierarchy(self, about: Mapping[str, Any]) -> Hierarchy:
        names: dict[str, Any] = {"labels": about.get("labels"), "words": about.get("words")}
        return Hierarchy.from_table(self.folder / about["file"], about["levels"], **names)


def described_tree(tree: Hierarchy | Product, *, names: bool = True) -> tuple[dict[str, Any], dict[str, Hierarchy]]:
    """How a tree is built, JSON-able, and the hierarchy whose leaves each of its files holds.

    Sides of a product that share a hierarchy share its file. Without `names` it says all but what nodes and levels are
    called.
    """
    if isinstance(tree, Hierarchy):
        file = "hierarchies/hierarchy.parquet"
        whole = {"kind": "hierarchy", "file": file, "levels": list(tree.columns)}
        called = {**_columns_of_names(tree), **({"words": tree.words} if tree.words else {})}
        return whole | (called if names else {}), {file: tree}
    files: dict[str, Hierarchy] = {}
    sides = []
    for attribute in tree.attributes:
        file = next(
            (name for name, known in files.items() if known is attribute.hierarchy),
            f"hierarchies/{file_stem(attribute.name)}.parquet",
        )
        files[file] = attribute.hierarchy
        levels, columns = list(attribute.hierarchy.columns), list(attribute.columns)
        side = {"name": attribute.name, "file": file, "levels": levels, "columns": columns}
        sides.append(side | (_columns_of_names(attribute.hierarchy) if names else {}))
    described: dict[str, Any] = {"kind": "product", "order": list(tree.order), "attributes": sides}
    if tree.words and names:
        described["words"] = tree.words
    if tree.impossible:
        described["impossible"] = [each.described() for each in tree.impossible]
    return described, files


def _columns_of_names(hierarchy: Hierarchy) -> dict[str, Any]:
    """`labels`: by level and language, the column that has the names in the hierarchy's file; empty without names."""
    before = "name "
    while any(column.casefold().startswith(before) for column in hierarchy.columns):
        before = f"_{before}"
    number = count(1)
    found = {
        level: {language: f"{before}{next(number)}" for language in names} for level, names in hierarchy.names.items()
    }
    return {"labels": found} if found else {}


def _names_of_leaves(hierarchy: Hierarchy) -> pa.Table:
    """The names of every leaf and of the nodes above it: the columns of `_columns_of_names`."""
    nodes = [np.arange(hierarchy.n_leaves, dtype=np.int64)]
    for depth in range(len(hierarchy.levels) - 1, 0, -1):
        nodes.insert(0, hierarchy.parent[depth][nodes[0]])
    of_level = dict(zip(hierarchy.levels, nodes, strict=True))
    return pa.table(
        {
            column: hierarchy.names[level][language].take(pa.array(of_level[level]))
            for level, columns in _columns_of_names(hierarchy).get("labels", {}).items()
            for language, column in columns.items()
        }
    )


def write_tree(tree: Hierarchy | Product, folder: Path) -> dict[str, dict[str, Any]]:
    """Write the leaves of every hierarchy of the tree, in order; what the manifest says of these files."""
    (folder / "hierarchies").mkdir()
    files: dict[str, dict[str, Any]] = {}
    for name, hierarchy in described_tree(tree)[1].items():
        leaves = np.arange(hierarchy.n_leaves, dtype=np.int64)
        table = NodeTable(hierarchy, len(hierarchy.levels) - 1, leaves, _names_of_leaves(hierarchy))
        write_parquet(ChangedTable(table, partial(_ended, hierarchy)), folder / name)
        files[name] = {"rows": hierarchy.n_leaves, "sha256": sha256(folder / name)}
    flush(folder / "hierarchies")
    return files


def _ended(hierarchy: Hierarchy, rows: pa.Table, start: int) -> pa.Table:
    """Leaves as `Hierarchy.from_table` reads them again: null below the end of a branch."""
    reach = hierarchy.reach
    return ended(rows, None if reach is None else reach[start : start + rows.num_rows], hierarchy.columns)
