"""`Release`: published tables, the noisy measurements behind them and the privacy statement; saved and loaded whole.

A release on disk is a folder (format version 1):

    release.json                 statement, spec, software versions, and rows and checksum of every file; written last
    tables/LEVEL.parquet         the published numbers (and LEVEL.csv when asked)
    measurements/LEVEL.parquet   the noisy measurements, enough to post-process again
    hierarchies/NAME.parquet     the leaves of the public hierarchies, in order

It is written to a temporary sibling folder that is renamed when whole, so what carries the name is never half-made.
Rows are in the hierarchy's own order, and Parquet files carry no column statistics.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tallytree.arrays import IntArray
from tallytree.hierarchy import Hierarchy, Tree
from tallytree.intervals import stated_errors, with_intervals
from tallytree.manifest import FORMAT_VERSION, MANIFEST, file_stem, read_manifest
from tallytree.product import Product
from tallytree.stored_tree import StoredTree, described_tree

ROWS_AT_ONCE = 1_000_000


class LevelTable(Protocol):
    """One table of a release, readable in slices."""

    @property
    def num_rows(self) -> int:
        """How many rows it has."""

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1."""

    def slices(self) -> Iterator[slice]:
        """All rows, in slices that may be read at once without much memory."""


@dataclass(frozen=True, eq=False)
class NodeTable:
    """A table in memory whose rows are about nodes; the path columns are made when they are read.

    Attributes:
        tree: the public tree.
        depth: the level.
        nodes: int64 (n,), the node of each row.
        columns: the other columns, n rows.
    """

    tree: Tree
    depth: int
    nodes: IntArray
    columns: pa.Table

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return len(self.nodes)

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1."""
        return beside_paths(self.tree, self.depth, self.nodes[start:stop], self.columns.slice(start, stop - start))

    def slices(self) -> Iterator[slice]:
        """Slices of equally many rows."""
        return (slice(start, start + ROWS_AT_ONCE) for start in range(0, self.num_rows, ROWS_AT_ONCE))


def beside_paths(tree: Tree, depth: int, nodes: IntArray, numbers: pa.Table) -> pa.Table:
    """Numbers about nodes of a level, with the nodes' path columns before them."""
    path = tree.path_table(depth, nodes)
    return pa.table({name: table.column(name) for table in (path, numbers) for name in table.column_names})


@dataclass(frozen=True)
class FileTable:
    """A table of a saved release.

    Attributes:
        path: its Parquet file.
        num_rows: how many rows it has.
    """

    path: Path
    num_rows: int

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1; only the row groups that hold them are read."""
        with pa.parquet.ParquetFile(self.path) as file:
            ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
            first, last = np.searchsorted(ends, [start, stop - 1], side="right")
            rows = file.read_row_groups(range(first, min(last + 1, len(ends))))
        return rows.slice(start - (int(ends[first - 1]) if first else 0), stop - start)

    def slices(self) -> Iterator[slice]:
        """The row groups of the file, as they were written."""
        metadata = pa.parquet.read_metadata(self.path)
        ends = np.cumsum([0, *(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))])
        return (slice(int(start), int(stop)) for start, stop in pairwise(ends) if start < stop)


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
        hierarchy, and the non-zero cells of flows. Rows are in the hierarchy's own order.

        Then, where a fit or `tallytree.replicate_errors` knows them, `std_dev` (float64, of a number's error), and
        `ci_lower` and `ci_upper` (int64): an interval for the true number, which misses it with probability `alpha`. It
        covers the privacy noise only; `docs/errors.md` says how well.

        Args:
            level: its name.
            alpha: of the intervals; by default they are as they were stored, if they were.

        Raises:
            ValueError: an unknown level; with `alpha`, errors that are not known, or an `alpha` not between 0 and 1.
        """
        table = _whole(_level(self._tables, level, self.levels))
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
        return _whole(_level(self._measurements, level, self.levels))

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
            _flush(target.parent)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        return target

    def _write(self, folder: Path, *, csv: bool) -> None:
        files: dict[str, dict[str, Any]] = {}
        for kind, tables in (("tables", self._tables), ("measurements", self._measurements)):
            (folder / kind).mkdir()
            for level, table in tables.items():
                for write, suffix in ((_write_parquet, "parquet"), (_write_csv, "csv")):
                    if suffix == "csv" and not (csv and kind == "tables"):
                        continue
                    name = f"{kind}/{file_stem(level)}.{suffix}"
                    write(table, folder / name)
                    files[name] = {"level": level, "rows": table.num_rows, "sha256": _sha256(folder / name)}
            _flush(folder / kind)
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
        _flush(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Release:
        """Open a saved release; every file is checked against its checksum.

        Raises:
            ValueError: not a whole release, of another format version, or changed since it was written.
        """
        place = Path(os.path.abspath(folder))  # noqa: PTH100  (a later change of directory must not matter)
        manifest = read_manifest(place)
        for name, facts in manifest["files"].items():
            if not (place / name).is_file() or _sha256(place / name) != facts["sha256"]:
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


def refuse_existing(folder: str | os.PathLike[str]) -> Path:
    """The folder as an absolute path, if nothing is there yet.

    Raises:
        FileExistsError: something is.
    """
    path = Path(os.path.abspath(folder))  # noqa: PTH100  (resolve() would follow a dangling link)
    if os.path.lexists(path):
        raise FileExistsError(
            f"folder: {str(path)!r} exists; a release never overwrites, so choose another or move it away"
        )
    return path


def require_writable(target: Path) -> None:
    """Try whether a folder could be made, without leaving a trace.

    Args:
        target: the folder, an absolute path; the folders above it need not exist yet.

    Raises:
        OSError: it could not.
    """
    above = next(folder for folder in target.parents if os.path.lexists(folder))
    try:
        tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=".partial", dir=above).cleanup()
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; {target.name!r} cannot be made there", str(above)) from None


def _level(tables: Mapping[str, LevelTable], level: str, levels: tuple[str, ...]) -> LevelTable:
    if level not in tables:
        raise ValueError(f"level: {level!r} is not one of the release's levels {', '.join(levels)}")
    return tables[level]


def _whole(table: LevelTable) -> pa.Table:
    return table.read(0, table.num_rows)


def _slices(table: LevelTable) -> Iterator[pa.Table]:
    for rows in table.slices() if table.num_rows else (slice(0, 0),):
        yield table.read(rows.start, min(rows.stop, table.num_rows))


def _write_hierarchies(tree: Hierarchy | Product, folder: Path) -> dict[str, dict[str, Any]]:
    """Write the leaves of every hierarchy of the tree, in order; what the manifest says of these files."""
    (folder / "hierarchies").mkdir()
    files: dict[str, dict[str, Any]] = {}
    for name, hierarchy in described_tree(tree)[1].items():
        leaves = np.arange(hierarchy.n_leaves, dtype=np.int64)
        _write_parquet(NodeTable(hierarchy, len(hierarchy.levels) - 1, leaves, pa.table({})), folder / name)
        files[name] = {"rows": hierarchy.n_leaves, "sha256": _sha256(folder / name)}
    _flush(folder / "hierarchies")
    return files


def _write_parquet(table: LevelTable, path: Path) -> None:
    if isinstance(table, FileTable):  # as it was, byte for byte
        shutil.copyfile(table.path, path)
        _flush(path)
        return
    slices = _slices(table)
    first = next(slices)
    with pa.parquet.ParquetWriter(path, first.schema, write_statistics=False, compression="zstd") as writer:
        writer.write_table(first)
        for rows in slices:
            writer.write_table(rows)
    _flush(path)


def _write_csv(table: LevelTable, path: Path) -> None:
    slices = _slices(table)
    first = next(slices)
    with pa.csv.CSVWriter(path, first.schema) as writer:
        writer.write_table(first)
        for rows in slices:
            writer.write_table(rows)
    _flush(path)


def _flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
