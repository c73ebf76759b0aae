"""Writing the files of a release, and the place for its folder, with what killed runs left beside it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tallytree.release.level_tables import FileTable, LevelTable, in_slices
from tallytree.release.manifest import MANIFEST
from tallytree.sources.leaf_paths import decoded
from tallytree.support.spill_folders import is_locked, locked
from tallytree.support.validate import path_text
from tallytree.support.whole_files import flush, write_whole

MAX_DICTIONARY = 2**26
"""Bytes. A row group whose labels need more is written cell by cell, which takes ten times as long."""
SUFFIXES = (".partial", ".earlier")
"""Of folders beside a release. It is built in `.NAME.xxxxxxxx.partial`, and one that is replaced is renamed to
`.NAME.xxxxxxxx.earlier` before it is removed. A process that is killed leaves these; they hold published numbers only.
"""


def refuse_existing(folder: str | os.PathLike[str]) -> Path:
    """The folder as an absolute path, if nothing is there yet.

    Raises:
        FileExistsError: something is.
        ValueError, TypeError: no path.
    """
    path_text(folder, "folder", "the path of a folder to be made")
    if not os.fspath(folder):
        raise ValueError("folder: '' is no name; give the path of a folder to be made")
    path = Path(os.path.abspath(folder))  # noqa: PTH100  (resolve() would follow a dangling link)
    if os.path.lexists(path):
        raise FileExistsError(f"folder: {str(path)!r} exists; choose another folder, or move it away")
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
        os.rmdir(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=above))  # noqa: PTH106
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; {target.name!r} cannot be made there", str(above)) from None


@contextmanager
def building_folder(target: Path) -> Iterator[Path]:
    """A new folder beside `target` to build a release in; locked while it is used, and removed after an error.

    Yields:
        `.NAME.xxxxxxxx.partial`, mode 0700, on the file system of `target`; renaming it keeps it. The
        folders above it are made.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    try:
        with locked(building):  # others do not name the folder as one that a killed run left
            yield building
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A new folder that gets its name, on the disk, when the block has filled it: see `building_folder`.

    Raises:
        FileExistsError: something has taken the name in the meantime.
    """
    with building_folder(target) as building:
        yield building
        building.chmod(0o755)
        refuse_existing(target)
        flush(building)
        building.rename(target)
        flush(target.parent)


def write_parquet(table: LevelTable, path: Path) -> None:
    """Write a table as Parquet (see `TableWriter`), and wait until it is on the disk."""
    if isinstance(table, FileTable):  # as it was, byte for byte
        _link_or_copy(table, path)
        flush(path)
        return
    slices = in_slices(table)
    first = next(slices)
    with TableWriter(path, first.schema) as writer:
        writer.write(first)
        for rows in slices:
            writer.write(rows)
    flush(path)


class TableWriter:
    """Writes a table as Parquet, slice by slice, without statistics of its columns; to be closed, or used in `with`.

    Dictionaries are written as such: the labels once per row group, and a code per row. The schema says that these
    columns are strings, so that they are strings, not categories, for every reader. See docs/decisions/0033-seconds.md.

    Args:
        path: the file.
        schema: of every slice.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        described = base64.b64encode(decoded(schema.empty_table()).schema.serialize())
        self._metadata = {**(schema.metadata or {}), b"ARROW:schema": described}
        self._failed = False
        self._writer = pa.parquet.ParquetWriter(
            path,
            schema,
            write_statistics=False,
            compression="zstd",
            store_schema=False,
            dictionary_pagesize_limit=MAX_DICTIONARY,
        )

    def __enter__(self) -> Self:
        """The writer."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def write(self, rows: pa.Table) -> None:
        """Write a slice after those before."""
        try:
            self._writer.write_table(rows)
        except BaseException:
            self._failed = True
            raise

    def close(self) -> None:
        """Complete the file; a second time does nothing, nor does it after a failure, which is the error to be told."""
        if self._failed:
            with suppress(OSError, pa.ArrowException):
                self._writer.close()
        elif self._writer.is_open:
            self._writer.add_key_value_metadata(self._metadata)
            self._writer.close()


def _link_or_copy(table: FileTable, path: Path) -> None:
    """Give a file of this process a second name, which costs nothing; copy it where that cannot be, or is another's."""
    if table.folder is not None:
        with suppress(OSError):  # another file system, or one without links
            os.link(table.path, path)
            return
    shutil.copyfile(table.path, path)


def write_csv(table: LevelTable, path: Path) -> None:
    """Write a table as CSV, and wait until it is on the disk."""
    slices = map(decoded, in_slices(table))
    first = next(slices)
    with pa.csv.CSVWriter(path, first.schema) as writer:
        writer.write_table(first)
        for rows in slices:
            writer.write_table(rows)
    flush(path)


def checked_table_file(file: str | os.PathLike[str]) -> Path:
    """The path of a table to be made, absolute.

    Raises:
        FileExistsError: something is there.
        ValueError: its name ends neither in .csv nor in .parquet.
    """
    if Path(path_text(file, "out", "the path of a file to be made")).suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"out: {str(file)!r} must end in .csv or .parquet, which decides the format")
    return free_file(file)


def free_file(file: str | os.PathLike[str]) -> Path:
    """The path of a file to be made, absolute.

    Raises:
        FileExistsError: something is there.
    """
    path = Path(os.path.abspath(path_text(file, "out", "the path of a file to be made")))  # noqa: PTH100
    if os.path.lexists(path):
        raise FileExistsError(f"out: {str(path)!r} exists; choose another file, or move it away")
    return path


def write_table_file(table: pa.Table, path: Path) -> None:
    """Write a table as CSV or Parquet, as the suffix says; the file is there when it is complete."""

    def write(building: Path) -> None:
        if path.suffix.lower() == ".csv":
            pa.csv.write_csv(table, building)
        else:
            pa.parquet.write_table(table, building, write_statistics=False, compression="zstd")

    write_whole(path, write)


def write_text(text: str, path: Path) -> None:
    """Write a text file, and wait until it is on the disk."""
    path.write_text(text, encoding="utf-8")
    flush(path)


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def leftovers_of(target: Path) -> list[Path]:
    """The folders beside a release that a dead run left while it made or replaced the release, in order.

    Args:
        target: the release's folder, an absolute path; it need not exist.
    """
    # tempfile's random names have eight characters.
    name = re.compile(re.escape(f".{target.name}.") + r"[a-z0-9_]{8}(" + "|".join(map(re.escape, SUFFIXES)) + ")")
    try:
        beside = [entry for entry in os.scandir(target.parent) if name.fullmatch(entry.name)]
    except OSError:  # the folder above does not exist yet, or may not be listed
        return []
    found = [target.parent / entry.name for entry in beside if entry.is_dir(follow_symlinks=False)]
    return sorted(path for path in found if not is_locked(path))


def warn_of_leftovers(target: Path) -> None:
    """Warn of what killed runs left beside a folder that is written or replaced now, each with the remedy."""
    for left in leftovers_of(target):
        whole = _whole_release(left, target.name)
        if whole is None:
            remedy = f"it holds no whole release; remove it with: rm -r {_quoted(left)}"
        else:
            remedy = (
                f"{str(whole)!r} is a whole release (one that was to take the place of {target.name!r}, or that was "
                f"replaced); keep it with: mv {_quoted(whole)} OTHER-NAME, or remove it with: rm -r {_quoted(left)}"
            )
        warnings.warn(f"folder: {str(left)!r} was left by a run that was killed; {remedy}", stacklevel=3)


def how_to_put_back(target: Path) -> str:
    """For the message that a release is missing: where a killed run left it whole, and how to put it back; or ''."""
    if os.path.lexists(target):
        return ""
    whole = [found for left in leftovers_of(target) if (found := _whole_release(left, target.name)) is not None]
    # What was renamed away last is what had the name.
    whole.sort(key=lambda path: path.suffix == ".partial" or path.parent.suffix == ".partial")
    ways = " or ".join(f"mv {_quoted(path)} {_quoted(target)}" for path in whole)
    return f"; a run that was killed left a whole release beside it: put it back with {ways}" if ways else ""


def _whole_release(left: Path, name: str) -> Path | None:
    """Where in a leftover folder a release lies; its manifest is written last, so that its presence means whole."""
    return next((place for place in (left, left / name) if (place / MANIFEST).is_file()), None)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
