"""Everything that a release shows, as bytes that can be compared.

The clock of stages stands still meanwhile, so that log lines are compared with their seconds.
"""

from __future__ import annotations

import io
import json
import logging
import re
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa

from tallytree.lab._internals import charts, export, pld, report_page, spill_folders, stages
from tallytree.release import Release

TEXTS = ("error", "ledger", "log", "times", "warnings")
"""What is shown as lines of text."""
ABOUT_THE_MACHINE = frozenset((spill_folders.logger.name, pld.logger.name))
"""The loggers whose lines are about what other processes have left on the machine."""
ONCE = "PySpark does not yet fully support pandas"
"""A warning of PySpark's versions, which a process gives once."""
ATTRIBUTES = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
"""What every record of a log has; others are written to a log in JSON."""
EXPORTS = {"csv": (), "parquet": (), "xlsx": ("xlsxwriter",), "sdmx": ("pysdmx",)}
"""Formats that are compared, with the packages that they need; no two DuckDB files have the same bytes."""
CREATED = "docProps/core.xml"
"""The part of an XLSX file that says when it was made."""
MESSAGE_ID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The random name of a message in SDMX."""
PIECE = 8
"""Bytes of a key that are looked for."""


def shown_by(make: Callable[[], Release], *, widely: bool = False) -> dict[str, bytes]:
    """What a release shows, by where it is shown: tables, measurements, statement, spec, files, warnings, the log.

    An error is shown too: its type, message and notes.

    Args:
        make: makes the release.
        widely: also its report and its exports, which take seconds.
    """
    shown: dict[str, bytes] = {}
    with _logged() as log, warnings.catch_warnings(record=True) as caught, clock_stopped():
        warnings.simplefilter("always")
        begun = time.time() - 1  # files of a run in bands are written before it is saved
        try:
            release = make()
            shown |= _of_release(release)
            shown |= _of_folder(release, begun, widely=widely)
        except (ValueError, TypeError, OverflowError, ArithmeticError, LookupError, RuntimeError) as error:
            notes = "\n".join(getattr(error, "__notes__", ()))
            shown["error"] = f"{type(error).__name__}: {error}\n{notes}".encode()
    said = (str(each.message) for each in caught)
    shown["warnings"] = "\n".join(text for text in said if not text.startswith(ONCE)).encode()
    shown["log"] = log.getvalue().encode()
    return shown


def differences(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> list[str]:
    """Where two releases show something else; of texts with the first lines that differ. The data are made up."""
    found = []
    for place in sorted({*first, *second}):
        one, other = first.get(place, b""), second.get(place, b"")
        if one != other:
            found.append(f"{place} differs{_first_difference(one, other) if place in TEXTS else ''}")
    return found


def keys_shown(shown: Mapping[str, bytes], keys: Iterable[bytes]) -> list[str]:
    """Where a piece of a key is shown, as bytes or as hexadecimal digits: it is the same in both runs, and a secret."""
    pieces = {key[start : start + PIECE] for key in keys for start in range(0, len(key) - PIECE + 1, PIECE // 2)}
    pieces |= {piece.hex().encode() for piece in pieces}
    return [
        f"{place} has a piece of a key"
        for place, content in shown.items()
        for both in [content + content.lower()]
        if any(piece in both for piece in pieces)
    ]


def _first_difference(one: bytes, other: bytes) -> str:
    lines = zip_longest(one.decode().splitlines(), other.decode().splitlines(), fillvalue="")
    return next((f": {mine!r} and {theirs!r}" for mine, theirs in lines if mine != theirs), "")


def _of_release(release: Release) -> dict[str, bytes]:
    """The tables and texts that a user of the library sees."""
    found = {
        "statement": _text(release.statement),
        "spec": _text(release.spec),
        "repr": (repr(release) + release._repr_html_()).encode(),
    }
    for level in release.levels:
        found[f"table {level}"] = _arrow(release.table(level))
    return found


def _of_folder(release: Release, begun: float, *, widely: bool) -> dict[str, bytes]:
    """Every file of the saved release with its mode; which of them have times outside of the run; and what is made."""
    with tempfile.TemporaryDirectory() as place:
        folder = release.save(Path(place) / "out", csv=True)
        ended = time.time() + 1
        paths = sorted(folder.rglob("*"))
        about = [(each.relative_to(folder), each.stat()) for each in paths]
        others = [f"{name}: {status.st_mtime}" for name, status in about if not begun <= status.st_mtime <= ended]
        found = {f"file {each.relative_to(folder)}": each.read_bytes() for each in paths if each.is_file()}
        found |= {f"mode {name}": oct(status.st_mode).encode() for name, status in about}
        return found | {"times": "\n".join(others).encode()} | (_made_of(folder, Path(place)) if widely else {})


def _made_of(folder: Path, place: Path) -> dict[str, bytes]:
    """The report and the exports of a saved release, where the packages that they need are installed.

    The report has what its pictures are drawn from in place of the pictures.
    """
    found = {}
    if find_spec("jinja2") and find_spec("altair"):
        with mock.patch.object(charts, "svg_in_page", lambda chart, prefix: prefix + chart.to_json()):
            found["report"] = report_page(Release.load(folder)).encode()
    for kind, packages in EXPORTS.items():
        if all(map(find_spec, packages)):
            out = export(folder, kind, place / f"out.{kind}").path
            files = sorted(each for each in out.rglob("*") if each.is_file()) if out.is_dir() else [out]
            found |= {f"export {kind} {each.name}": _content(each) for each in files}
    return found


def _content(file: Path) -> bytes:
    """The bytes of a file; of an XLSX file those of its parts, without the date."""
    if file.suffix != ".xlsx":
        return MESSAGE_ID.sub(b"", file.read_bytes())
    with zipfile.ZipFile(file) as parts:
        return b"".join(parts.read(name) for name in sorted(parts.namelist()) if name != CREATED)


def _text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=str).encode()


def _arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


class _Whole(logging.Formatter):
    """A line of the log with its level, its logger and all that a log in JSON has."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        more = {name: value for name, value in record.__dict__.items() if name not in ATTRIBUTES}
        return f"{super().format(record)} [{record.levelname} {record.name} {sorted(more.items())}]"


@contextmanager
def clock_stopped() -> Iterator[None]:
    """The stages within take no time."""
    with mock.patch.object(stages, "time", SimpleNamespace(monotonic=lambda: 0.0)):
        yield


@contextmanager
def _logged() -> Iterator[io.StringIO]:
    """All log lines of the library within, at every level."""
    lines = io.StringIO()
    handler, logger = logging.StreamHandler(lines), logging.getLogger("tallytree")
    handler.setFormatter(_Whole())
    handler.addFilter(lambda record: record.name not in ABOUT_THE_MACHINE)
    level, passed_on = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = passed_on
