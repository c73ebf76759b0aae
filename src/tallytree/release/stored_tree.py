"""The public tree in the folder of a release: the leaves of its hierarchies, and how it is built from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Hierarchy, ended
from tallytree.product import Product
from tallytree.release.files import sha256, write_parquet
from tallytree.release.level_tables import ChangedTable, NodeTable
from tallytree.release.manifest import NOT_ITS_TREE, file_stem
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
                return self._hierarchy(self.description["file"], self.description["levels"])
            sides = {side["name"]: side for side in self.description["attributes"]}
            read: dict[str, Hierarchy] = {}
            for side in sides.values():
                if side["file"] not in read:
                    read[side["file"]] = self._hierarchy(side["file"], side["levels"])
            return Product(
                {name: read[side["file"]] for name, side in sides.items()},
                order=self.description["order"] or None,
                columns={name: side["columns"] for name, side in sides.items() if side["columns"] != side["levels"]},
                impossible=[described_table(each) for each in self.description.get("impossible", [])] or None,
            )
        except (KeyError, OverflowError, TypeError, ValueError):
            pass
        # Raised out here: what the reader said may quote a row of a file.
        raise ValueError(f"folder: {str(self.folder)!r} {NOT_ITS_TREE}; take a fresh copy of the release")

    def _hierarchy(self, file: str, levels: list[str]) -> Hierarchy:
        return Hierarchy.from_table(self.folder / file, levels)


def described_tree(tree: Hierarchy | Product) -> tuple[dict[str, Any], dict[str, Hierarchy]]:
    """How a tree is built, JSON-able, and the hierarchy whose leaves each of its files holds.

    Sides of a product that share a hierarchy share its file.
    """
    if isinstance(tree, Hierarchy):
        file = "hierarchies/hierarchy.parquet"
        return {"kind": "hierarchy", "file": file, "levels": list(tree.columns)}, {file: tree}
    files: dict[str, Hierarchy] = {}
    sides = []
    for attribute in tree.attributes:
        file = next(
            (name for name, known in files.items() if known is attribute.hierarchy),
            f"hierarchies/{file_stem(attribute.name)}.parquet",
        )
        files[file] = attribute.hierarchy
        levels, columns = list(attribute.hierarchy.columns), list(attribute.columns)
        sides.append({"name": attribute.name, "file": file, "levels": levels, "columns": columns})
    described: dict[str, Any] = {"kind": "product", "order": list(tree.order), "attributes": sides}
    if tree.impossible:
        described["impossible"] = [each.described() for each in tree.impossible]
    return described, files


def write_tree(tree: Hierarchy | Product, folder: Path) -> dict[str, dict[str, Any]]:
    """Write the leaves of every hierarchy of the tree, in order; what the manifest says of these files."""
    (folder / "hierarchies").mkdir()
    files: dict[str, dict[str, Any]] = {}
    for name, hierarchy in described_tree(tree)[1].items():
        leaves = np.arange(hierarchy.n_leaves, dtype=np.int64)
        table = NodeTable(hierarchy, len(hierarchy.levels) - 1, leaves, pa.table({}))
        write_parquet(ChangedTable(table, partial(_ended, hierarchy)), folder / name)
        files[name] = {"rows": hierarchy.n_leaves, "sha256": sha256(folder / name)}
    flush(folder / "hierarchies")
    return files


def _ended(hierarchy: Hierarchy, rows: pa.Table, start: int) -> pa.Table:
    """Leaves as `Hierarchy.from_table` reads them again: null below the end of a branch."""
    reach = hierarchy.reach
    return ended(rows, None if reach is None else reach[start : start + rows.num_rows])
