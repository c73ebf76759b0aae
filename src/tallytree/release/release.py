"""`Release`: published tables, the noisy measurements behind them and the privacy statement.

A release on disk is a folder (format version 1):

    release.json                 statement, spec, software versions, and rows and checksum of every file; written last
    tables/LEVEL.parquet         the published numbers (and LEVEL.csv when asked)
    measurements/LEVEL.parquet   the noisy measurements, enough to post-process again
    hierarchies/NAME.parquet     the leaves of the public hierarchies, in order

It is written to a temporary sibling folder, which is renamed when it is complete. So a folder of that name is never
half-made. Rows are in the hierarchy's own order, and Parquet files carry no column statistics.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Hierarchy
from tallytree.product import Product
from tallytree.release.files import flush, refuse_existing, require_writable, sha256, write_csv, write_parquet
from tallytree.release.intervals import stated_errors, with_intervals
from tallytree.release.level_tables import FileTable, LevelTable, NodeTable, read_all
from tallytree.release.manifest import FORMAT_VERSION, MANIFEST, file_stem, read_manifest
from tallytree.release.stored_tree import StoredTree, described_tree
from tallytree.validate import path_text, text


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A differentially private release: consistent tables, noisy measurements and the privacy statement.

    Attributes:
        statement: the privacy statement, JSON-able; its keys are documented in `docs/statement.md`.
        spec: what was asked for, JSON-able, without any private table.
    """

    statement: Mapping[str, Any]
    spec: Mapping[str, Any]
    _tables: Mapping[str, LevelTable]
    _measurements: Mapping[str, LevelTable]
    _tree: Hierarchy | Product | StoredTree | None = None

    def __repr__(self) -> str:
        """The levels with their numbers of published rows."""
        rows = ", ".join(f"{level}: {table.num_rows} rows" for level, table in self._tables.items())
        return f"Release({rows})"

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, root first."""
        return tuple(self._tables)

    @property
    def tree(self) -> Hierarchy | Product | None:
        """The public tree; None for a folder that an earlier tallytree wrote without it."""
        return self._tree.load() if isinstance(self._tree, StoredTree) else self._tree

    def table(self, level: str, *, alpha: float | None = None) -> pa.Table:
        """The published numbers of a level, with their errors where these are known.

        Path columns (strings), then `count`; or, for group sizes, `size` and `groups`, one row per (node, size) with
        groups; int64 (`groups` is float64 where the mechanism releases fractions). Counts list every node of a
        hierarchy, and the non-zero cells of flows and other products. Rows are in the hierarchy's own order.

        Then, where a fit or `tallytree.replicate_errors` knows them, `std_dev` (float64, of a number's error), and
        `ci_lower` and `ci_upper` (int64): an interval for the true number, which misses it with probability `alpha`. It
        covers the privacy noise only; `docs/errors.md` says how well.

        Args:
            level: its name.
            alpha: of the intervals; by default they are as they were stored, if they were.

        Raises:
            ValueError: an unknown level; with `alpha`, errors that are not known, or an `alpha` not between 0 and 1.
        """
        table = read_all(_level(self._tables, level, self.levels))
        return table if alpha is None else with_intervals(table, alpha, stated_errors(self.statement, level))

    def to_pandas(self, level: str, *, alpha: float | None = None) -> Any:
        """`table(level, alpha=alpha)` as a pandas data frame.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        if importlib.util.find_spec("pandas") is None:
            raise ModuleNotFoundError("to_pandas needs pandas: pip install pandas; table(level) is a pyarrow table")
        return self.table(level, alpha=alpha).to_pandas()

    def measurements(self, level: str) -> pa.Table:
        """The noisy measurements of a level, before any post-processing, with the standard deviation of their noise.

        Path columns, then `value` (counts) or `values: list<int64>` (group sizes, one row per node; the statement says
        what they measure), then `std_dev`. A level that was not measured has no rows.

        Raises:
            ValueError: an unknown level.
        """
        return read_all(_level(self._measurements, level, self.levels))

    def with_tables(self, tables: Mapping[str, LevelTable], statement: Mapping[str, Any]) -> Release:
        """The same noisy measurements under other tables; for `reconcile_group_sizes` and `replicate_errors`."""
        return Release(statement, self.spec, tables, self._measurements, self._tree)

    @property
    def tables(self) -> Mapping[str, LevelTable]:
        """The published tables by level, root first, to be read in slices."""
        return self._tables

    def save(self, folder: str | os.PathLike[str], *, csv: bool = False) -> Path:
        """Write the release as a folder, all or nothing.

        Args:
            folder: where to; it must not exist yet.
            csv: write every published table as CSV too.

        Returns:
            The folder's path.

        Raises:
            FileExistsError: the folder exists.
            OSError: the disk is full, or the place cannot be written to; nothing is left behind.
        """
        target = refuse_existing(folder)
        require_writable(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
        try:
            self._write(building, csv=csv)
            building.chmod(0o755)
            refuse_existing(target)
            building.rename(target)
            flush(target.parent)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        return target

    def _write(self, folder: Path, *, csv: bool) -> None:
        files: dict[str, dict[str, Any]] = {}
        for kind, tables in (("tables", self._tables), ("measurements", self._measurements)):
            (folder / kind).mkdir()
            for level, table in tables.items():
                for write, suffix in ((write_parquet, "parquet"), (write_csv, "csv")):
                    if suffix == "csv" and not (csv and kind == "tables"):
                        continue
                    name = f"{kind}/{file_stem(level)}.{suffix}"
                    write(table, folder / name)
                    files[name] = {"level": level, "rows": table.num_rows, "sha256": sha256(folder / name)}
            flush(folder / kind)
        tree = self.tree
        if tree is not None:
            files |= _write_hierarchies(tree, folder)
        manifest = {
            "format_version": FORMAT_VERSION,
            "levels": list(self.levels),
            "statement": self.statement,
            "spec": self.spec,
            "files": files,
            **({} if tree is None else {"tree": described_tree(tree)[0]}),
        }
        text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False)
        with (folder / MANIFEST).open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        flush(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Release:
        """Open a saved release; every file is checked against its checksum.

        Raises:
            ValueError: not a complete release, of another format version, or changed since it was written.
            TypeError: not a path.
        """
        path_text(folder, "folder", "the path of a saved release")
        place = Path(os.path.abspath(folder))  # noqa: PTH100  (a later change of directory must not matter)
        manifest = read_manifest(place)
        for name, facts in manifest["files"].items():
            if not (place / name).is_file() or sha256(place / name) != facts["sha256"]:
                raise ValueError(
                    f"folder: {str(place / name)!r} is missing or was changed; take a fresh copy of the release"
                )

        def tables(kind: str) -> dict[str, LevelTable]:
            return {
                level: FileTable(place / name, manifest["files"][name]["rows"])
                for level in manifest["levels"]
                for name in (f"{kind}/{file_stem(level)}.parquet",)
            }

        tree = None if "tree" not in manifest else StoredTree(place, manifest["tree"])
        return cls(manifest["statement"], manifest["spec"], tables("tables"), tables("measurements"), tree)


def _level(tables: Mapping[str, LevelTable], level: str, levels: tuple[str, ...]) -> LevelTable:
    if text(level, "level", "the name of a level") not in tables:
        raise ValueError(f"level: {level!r} is not one of the release's levels {', '.join(levels)}")
    return tables[level]


def _write_hierarchies(tree: Hierarchy | Product, folder: Path) -> dict[str, dict[str, Any]]:
    """Write the leaves of every hierarchy of the tree, in order; what the manifest says of these files."""
    (folder / "hierarchies").mkdir()
    files: dict[str, dict[str, Any]] = {}
    for name, hierarchy in described_tree(tree)[1].items():
        leaves = np.arange(hierarchy.n_leaves, dtype=np.int64)
        write_parquet(NodeTable(hierarchy, len(hierarchy.levels) - 1, leaves, pa.table({})), folder / name)
        files[name] = {"rows": hierarchy.n_leaves, "sha256": sha256(folder / name)}
    flush(folder / "hierarchies")
    return files
