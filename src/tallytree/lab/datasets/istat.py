"""Reader of ISTAT's commuting files of the census of 2011 by census section ("pendolarismo per sezione di censimento").

One zip per region, each with a CSV: cells separated by semicolons, in ISO-8859-1, a row per pair of sections. The files
are given on request and hold people's commutes. Messages have line numbers and nothing of the cells.
"""

from __future__ import annotations

import csv
import glob
import io
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tallytree.lab.datasets.checked_lines import BadLineError, CheckedLines
from tallytree.lab.datasets.flows import SIDES, side_columns
from tallytree.lab.datasets.italy_areas import LEVELS

COLUMNS: Mapping[str, str] = {
    "origin_region": "CODREG_ORIG",
    "origin_province": "CODPRO_ORIG",
    "origin_municipality": "PROCOM_ORIG",
    "origin_section_area": "ACE_ORIG",
    "origin_section": "NSEZ_ORIG",
    "destination_region": "CODREG_DEST",
    "destination_province": "CODPRO_DEST",
    "destination_municipality": "PROCOM_DEST",
    "destination_section_area": "ACE_DEST",
    "destination_section": "NSEZ_DEST",
    "count": "TOTALE",
}
"""The files' columns. Those of municipalities, section areas, sections and totals are named in public code that reads
the files; CODREG_ and CODPRO_ follow ISTAT's naming and may have to be given."""

_BLOCK = 1 << 23
_MAX_HEADER = 1 << 20
_INTEGER = r"^[0-9]{1,18}$"
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


def read_istat(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    columns: Mapping[str, str] | None = None,
    level: str = "section",
    on_missing: Literal["error", "drop"] = "error",
    encoding: str = "iso-8859-1",
) -> pa.Table:
    """Read commutes from ISTAT's zips without unpacking them, some megabytes at a time.

    Args:
        paths: the zips: a path or glob, or several. A file that is named twice is read once.
        columns: what the files call a column, where that differs from `COLUMNS`: `{"origin_region": "REG_ORIG"}`.
        level: how deep the paths go: one of region, province, municipality, section_area, section. Rows with equal
            paths are not added up; `release_flows` does that.
        on_missing: what to do with a row that lacks a code, as for places of work abroad: `"error"` refuses it,
            `"drop"` leaves it out.
        encoding: of the CSVs.

    Returns:
        `origin_<level>` and `destination_<level>` for every level (strings as they are written, with leading zeros
        and without spaces around them; dictionary-encoded), and `count` (int64).

    Raises:
        ValueError: no such file, not a zip, a zip without a CSV, a column that is missing, a line that is malformed
            (the message has its number and nothing of its content), an unknown level, column, `on_missing` or encoding.

    Example:
        trips = read_istat("pendolarismo/*.zip", level="municipality", on_missing="drop")
    """
    wanted = _wanted(columns, level)
    if on_missing not in ("error", "drop"):
        raise ValueError(f'on_missing: {on_missing!r} is not known; choose "error" or "drop"')
    try:
        "".encode(encoding)
    except LookupError:
        raise ValueError(f"encoding: {encoding!r} is not known to Python; ISTAT's files are iso-8859-1") from None
    batches = [
        batch
        for path in _zips(paths)
        for batch in _read_zip(path, wanted, drop=on_missing == "drop", encoding=encoding)
    ]
    schema = pa.schema([(name, pa.int64() if name == "count" else _CODE) for name in wanted])
    return pa.Table.from_batches(batches, schema).unify_dictionaries()


_CODE = pa.dictionary(pa.int32(), pa.string())


def _wanted(columns: Mapping[str, str] | None, level: str) -> dict[str, str]:
    """For every column that is read: its name in the result and its name in the files."""
    if level not in LEVELS:
        raise ValueError(f"level: {level!r} is not known; choose one of {', '.join(LEVELS)}")
    for name in columns or {}:
        if name not in COLUMNS:
            raise ValueError(f"columns: {name!r} is not a column of the result; those are {', '.join(COLUMNS)}")
    named = {**COLUMNS, **(columns or {})}
    levels = LEVELS[: LEVELS.index(level) + 1]
    names = [*(name for side in SIDES for name in side_columns(side, levels)), "count"]
    return {name: named[name] for name in names}


def _zips(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Each file once, since trips that were read twice would have half the protection."""
    given = [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    if not given:
        raise ValueError("paths: [] names no file; give the paths of ISTAT's zips")
    found: dict[tuple[int, int], str] = {}
    for path in given:
        matches = [path] if Path(path).exists() else sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (absolute patterns)
        if not matches:
            raise ValueError(f"paths: no file at {path!r}; give the paths of ISTAT's zips")
        for match in matches:
            status = Path(match).stat()
            found.setdefault((status.st_dev, status.st_ino), match)
    return list(found.values())


def _read_zip(path: str, wanted: Mapping[str, str], *, drop: bool, encoding: str) -> Iterator[pa.RecordBatch]:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"paths: {path!r} is not a zip; give the files as ISTAT hands them out, one zip per region")
    problem = None
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                member
                for member in archive.infolist()
                if member.filename.lower().endswith(".csv") and not member.filename.startswith("__MACOSX/")
            ]
            if not members:
                raise BadLineError(f"paths: {path!r} holds no .csv file")
            for member in members:
                where = f"paths: {member.filename!r} in {path!r}"
                yield from _read_member(archive, member, wanted, drop=drop, encoding=encoding, where=where)
    except BadLineError as error:
        problem = str(error)
    except _UNREADABLE:
        problem = f"paths: {path!r} is damaged, encrypted or packed in a way that Python does not know; get it again"
    if problem:  # raised here, so that no library's message, which may quote a cell, is in its context
        raise ValueError(problem)


def _read_member(
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    wanted: Mapping[str, str],
    *,
    drop: bool,
    encoding: str,
    where: str,
) -> Iterator[pa.RecordBatch]:
    with archive.open(member) as file:
        _check_header(file.readline(_MAX_HEADER), wanted, encoding, where)
    short: list[pa.csv.InvalidRow] = []

    def refuse(row: pa.csv.InvalidRow) -> str:
        short.append(row)
        return "error"

    with archive.open(member) as file:
        lines = CheckedLines(file, encoding)
        first_line = 2
        batches = _batches(lines, wanted, refuse)
        while True:
            failed = False
            try:
                batch = next(batches, None)
            except (pa.ArrowException, BadLineError, *_UNREADABLE):  # Arrow may wrap what its stream raises
                failed = True
            if failed:
                raise BadLineError(f"{where}{_what_failed(lines, short)}")
            if batch is None:
                return
            yield _checked(batch, wanted, first_line, drop=drop, where=where)
            first_line += batch.num_rows


def _check_header(header: bytes, wanted: Mapping[str, str], encoding: str, where: str) -> None:
    names = next(csv.reader(io.StringIO(header.decode(encoding, errors="replace")), delimiter=";"), [])
    for ours, theirs in wanted.items():
        found = names.count(theirs)
        if found != 1:
            lacks = "has no" if found == 0 else f"has {found} times the"
            hint = "; the file is UTF-8: give encoding='utf-8-sig'" if header.startswith(b"\xef\xbb\xbf") else ""
            if len(names) == 1:
                hint += "; cells must be separated by semicolons"
            elif theirs.casefold() in {name.strip().casefold() for name in names}:
                hint += "; it has one that differs in capitals or spaces only"
            # What is there instead is not said: a file without a header starts with people's ways.
            raise BadLineError(
                f"{where}: the header (line 1) {lacks} column {theirs!r}; say what {ours} is called with "
                f"columns={{{ours!r}: …}}{hint}"
            )


def _batches(lines: CheckedLines, wanted: Mapping[str, str], refuse: object) -> Iterator[pa.RecordBatch]:
    yield from pa.csv.open_csv(
        pa.PythonFile(lines, mode="r"),
        read_options=pa.csv.ReadOptions(block_size=_BLOCK, use_threads=False),  # with threads it cannot number lines
        parse_options=pa.csv.ParseOptions(delimiter=";", invalid_row_handler=refuse),
        convert_options=pa.csv.ConvertOptions(
            include_columns=list(dict.fromkeys(wanted.values())),
            column_types=dict.fromkeys(wanted.values(), pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


def _what_failed(lines: CheckedLines, short: Sequence[pa.csv.InvalidRow]) -> str:
    if lines.problem:
        return lines.problem
    if short:
        row = short[0]
        return f", line {row.number}: it has {row.actual_columns} cells where the header has {row.expected_columns}"
    return ": it cannot be read as CSV; are its lines as long as ISTAT's?"


def _checked(
    batch: pa.RecordBatch, wanted: Mapping[str, str], first_line: int, *, drop: bool, where: str
) -> pa.RecordBatch:
    """The batch with the names of the result, codes dictionary-encoded and counts as integers."""
    text = {theirs: pc.utf8_trim_whitespace(batch.column(theirs)) for theirs in wanted.values()}
    missing = np.zeros(batch.num_rows, dtype=np.bool_)
    for ours, theirs in wanted.items():
        empty = pc.fill_null(pc.equal(text[theirs], ""), True).to_numpy(zero_copy_only=False)
        if ours == "count":
            right = pc.fill_null(pc.match_substring_regex(text[theirs], _INTEGER), False)
            _refuse_first(~right.to_numpy(zero_copy_only=False), f"{theirs!r} is not an integer ≥ 0", first_line, where)
        elif drop:
            missing |= empty
        else:
            _refuse_first(empty, f'{theirs!r} is empty; on_missing="drop" leaves such rows out', first_line, where)
    arrays = [
        pc.cast(text[theirs], pa.int64()) if ours == "count" else text[theirs].dictionary_encode()
        for ours, theirs in wanted.items()
    ]
    checked = pa.RecordBatch.from_arrays(arrays, names=list(wanted))
    return checked.filter(pa.array(~missing)) if missing.any() else checked


def _refuse_first(bad: np.ndarray[tuple[int], np.dtype[np.bool_]], what: str, first_line: int, where: str) -> None:
    if bad.any():
        raise BadLineError(f"{where}, line {first_line + int(np.argmax(bad))}: {what}")
