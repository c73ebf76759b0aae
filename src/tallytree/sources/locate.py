"""Every table argument is read the same way: files here or elsewhere, data frames, Arrow, or a table of a database.

Files stay files here (`Files`), so that the engine can scan private records itself; what is in memory becomes Arrow;
what is read in batches of some columns is a `Scan`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from narwhals.dependencies import is_into_dataframe

from tallytree.sources import local_files
from tallytree.sources.addresses import CLOUD, DATABASES, check_address, scheme_of
from tallytree.sources.csv_files import COMMAS, Dialect
from tallytree.sources.kinds import CSV, DuckDB, Parquet, PostgreSQL
from tallytree.sources.libraries import arrow_of_frame, columns_of_relation
from tallytree.sources.local_files import FileFormat, common_format
from tallytree.sources.partitions import Values, path_in_messages, values_in
from tallytree.sources.scans import Scan, scan_of_dataset, scan_of_lazy_frame

if TYPE_CHECKING:
    from tallytree.sources.cloud import CloudPlace

__all__ = ["FileFormat", "Files", "Scan", "Source", "locate"]


@dataclass(frozen=True)
class Files:
    """The files of one table, not opened yet.

    Attributes:
        paths: where they are; each file once.
        format: of all of them.
        dialect: how CSV is written.
        partitions: per file, the columns in the names of its folders; () where there are none.
        place: the file system that has them; None: this machine's.
        names: paths of this machine, each with how messages name it; those that are missing are named as they are.
    """

    paths: tuple[str, ...]
    format: FileFormat
    dialect: Dialect = COMMAS
    partitions: tuple[Values, ...] = ()
    place: CloudPlace | None = field(default=None, repr=False, compare=False)
    names: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    _values: dict[str, Values] = field(default_factory=dict, init=False, repr=False, compare=False)

    def partition_values(self, path: str) -> Values:
        """The partition columns of a file, with their values."""
        return self._values[path] if self.partitions else ()

    def __post_init__(self) -> None:
        values = dict(zip(self.paths, self.partitions, strict=True)) if self.partitions else {}
        object.__setattr__(self, "_values", values)

    def named(self, path: str) -> str:
        """A file as messages name it: its path, or its URL; see `path_in_messages`."""
        return self.names.get(path, path) if self.place is None else self.place.url(path)


Source: TypeAlias = Files | Scan | pa.Table | pa.RecordBatchReader
"""A located table: files, what is read in batches of some columns, Arrow in memory, or a stream to be read once."""


def locate(table: Any, argument: str, columns: Collection[str] | None = None, *, public: bool = False) -> Source:
    """Find out what `table` is and where its rows are, without reading private rows from a file.

    Args:
        table: a path, a folder, a glob or a URL of Parquet or CSV files, or a list of these; one of
            `tallytree.sources`; a pandas (its index is ignored) or polars frame, or a polars LazyFrame; a pyarrow
            table, record batch, data set or stream; or a DuckDB relation.
        argument: its name in messages.
        columns: those that will be read; None: all. Of a frame or a relation no other is converted.
        public: whether messages may show the whole path of a file of it; of a private one see `path_in_messages`.

    Raises:
        ValueError: no file matches, or the format is not known; two columns of a frame have one name; a URL holds a
            credential.
        TypeError: it is none of the kinds above, or a column of a frame that will be read has no Arrow type.
        OSError: a server or a database cannot be read.
        ModuleNotFoundError: an optional extra is not installed.
    """
    if isinstance(table, str | os.PathLike | list | tuple):
        return _files(_given(table, argument), None, COMMAS, None, argument, public=public)
    if isinstance(table, Parquet):
        return _files(_given(table.path, argument), "parquet", COMMAS, table.partitions, argument, public=public)
    if isinstance(table, CSV):
        dialect = Dialect(table.separator, table.encoding)
        return _files(_given(table.path, argument), "csv", dialect, table.partitions, argument, public=public)
    if isinstance(table, PostgreSQL):
        from tallytree.sources.postgresql import scan_of_postgresql

        return scan_of_postgresql(table, argument)
    if isinstance(table, DuckDB):
        from tallytree.sources.duckdb_files import scan_of_duckdb

        return scan_of_duckdb(table, argument)
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if isinstance(table, pa.Table | pa.RecordBatchReader):
        return table
    return _of_a_library(table, argument, columns)


def _of_a_library(table: Any, argument: str, columns: Collection[str] | None) -> Source:
    library, name = type(table).__module__.partition(".")[0], type(table).__name__
    if library == "polars" and name == "LazyFrame":
        return scan_of_lazy_frame(table, argument, columns)
    if library == "pyarrow" and hasattr(table, "scanner"):
        return scan_of_dataset(table, argument)
    if name == "Series":
        raise TypeError(f"{argument}: a Series is one column, not a table; give a data frame")
    if is_into_dataframe(table):
        return arrow_of_frame(table, argument, columns)
    # What a library says when a conversion fails may quote a value of a record. So here and elsewhere the error is
    # raised outside the `except`: then the library's is neither printed with it nor found in its `__context__`.
    try:
        if hasattr(table, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(columns_of_relation(table, columns))
        known = False
    except Exception:  # noqa: BLE001 (every library has exceptions of its own)
        known = True
    if known:
        raise TypeError(
            f"{argument}: this {name} cannot be read as Arrow; its query may fail, its connection may "
            "be busy with another result, or a column may have a type that Arrow does not know"
        )
    raise TypeError(
        f"{argument}: {name} is not a table; give a path or glob (Parquet, CSV), a pandas or polars "
        "data frame, a pyarrow table, or a DuckDB relation"
    )


@dataclass(frozen=True)
class _Given:
    """A path that is given, and how messages name it."""

    text: str
    said: str


def _given(table: Any, argument: str) -> list[_Given]:
    """The paths that are given. An item of a list is named by its place: the list may be a private column."""
    if isinstance(table, str | os.PathLike):
        path = _file_name(os.fspath(table), argument)
        return [_Given(path, repr(path))]
    if not table:
        raise ValueError(f"{argument}: the list is empty; give the paths of Parquet or CSV files")
    paths = []
    for place, each in enumerate(table, 1):
        if not isinstance(each, str | os.PathLike):
            raise TypeError(
                f"{argument}: item {place} of the list is {type(each).__name__}; give a list of paths, or a table "
                "(pyarrow.Table.from_pylist makes one of a list of dicts)"
            )
        paths.append(_Given(_file_name(os.fspath(each), argument), f"item {place} of the list"))
    return paths


def _file_name(path: str | bytes, argument: str) -> str:
    """A path that can be looked for; of text that is none, such as the content of a file, nothing is shown."""
    if isinstance(path, bytes):
        raise TypeError(f"{argument}: bytes must be the path as text")
    if not path:
        raise ValueError(f"{argument}: '' is empty; give the path or glob of Parquet or CSV files")
    if any(letter in path for letter in "\0\r\n") or len(path) > 4_000:
        raise ValueError(
            f"{argument}: the text that is given is no path (it has a line break or a NUL, or is too long); give "
            "a path, or a table in memory"
        )
    check_address(path, argument)
    if scheme_of(path) in DATABASES:
        raise ValueError(
            f"{argument}: of a database a table is read; give tt.sources.PostgreSQL(url, table=…), in a spec "
            "{postgresql: url, table: …}"
        )
    local_files.refuse_other_encodings(path, path, argument)
    return path


def _files(
    given: Sequence[_Given],
    file_format: FileFormat | None,
    dialect: Dialect,
    partitions: Sequence[str] | None,
    argument: str,
    *,
    public: bool,
) -> Files:
    families = {CLOUD.get(scheme_of(each.text) or "") for each in given}
    if len(families) != 1:
        raise ValueError(f"{argument}: the list has files of several file systems; give those of one")
    said = given[0].said if len(given) == 1 else "the list"
    names: dict[str, str] = {}
    if families == {None}:
        place = None
        for each in given:
            for path in _found_here(each, file_format, argument):
                names.setdefault(path, path if public else path_in_messages(path, each.text))
        paths = local_files.without_repeats(names, argument)
    else:
        place, paths = _found_elsewhere(given, file_format, argument, public=public)
    known = file_format or common_format(paths, said, argument)
    files = Files(tuple(paths), known, dialect, (), place, names)
    values = tuple(values_in(path, partitions, files.named(path), argument) for path in paths)
    return replace(files, partitions=values) if any(values) else files


def _found_here(each: _Given, file_format: FileFormat | None, argument: str) -> list[str]:
    found = local_files.files_at(each.text, each.said, file_format, argument)
    if not found:
        raise ValueError(f"{argument}: no file at {each.said}; give the path or glob of Parquet or CSV files")
    return found


def _found_elsewhere(
    given: Sequence[_Given], file_format: FileFormat | None, argument: str, *, public: bool
) -> tuple[CloudPlace, list[str]]:
    from tallytree.sources import cloud

    found = [cloud.files_at(each.text, each.said, file_format, argument, public=public) for each in given]
    place = found[0][0]
    for other, paths in found[1:]:
        if (other.family, other.prefix, other.account) != (place.family, place.prefix, place.account) and (
            other.family != "s3"
        ):
            raise ValueError(f"{argument}: the list has files of several file systems; give those of one")
        place.stamps.update({path: other.stamps[path] for path in paths})
        place.names.update(other.names)
    return place, list(dict.fromkeys(path for _, paths in found for path in paths))
