"""Everything that a release shows, as bytes that can be compared."""

from __future__ import annotations

import io
import json
import logging
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from tallytree.release import Release

SECONDS = re.compile(r"\d+(\.\d+)?(e-?\d+)?( ?s\b| seconds)|\d+(\.\d+)? [MG]B")
"""Times and memory in log lines, which are outside the guarantee."""
TEXTS = ("error", "ledger", "log", "warnings")
"""What is shown as lines of text."""
ABOUT_THE_MACHINE = re.compile(r"^(removed .*, which a run that was killed had left|what was computed of .*)\n", re.M)
"""Log lines about what other processes have left on the machine."""


def shown_by(make: Callable[[], Release]) -> dict[str, bytes]:
    """What a release shows, by where it is shown: tables, measurements, statement, spec, files, warnings, the log.

    An error is shown too: its type, message and notes.
    """
    shown: dict[str, bytes] = {}
    with _logged() as log, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            release = make()
            shown |= _of_release(release)
            shown |= _of_folder(release)
        except (ValueError, TypeError, OverflowError, ArithmeticError, LookupError, RuntimeError) as error:
            notes = "\n".join(getattr(error, "__notes__", ()))
            shown["error"] = f"{type(error).__name__}: {error}\n{notes}".encode()
    shown["warnings"] = "\n".join(str(each.message) for each in caught).encode()
    shown["log"] = SECONDS.sub("…", ABOUT_THE_MACHINE.sub("", log.getvalue())).encode()
    return shown


def differences(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> list[str]:
    """Where two releases show something else; of texts with the first lines that differ. The data are made up."""
    found = []
    for place in sorted({*first, *second}):
        one, other = first.get(place, b""), second.get(place, b"")
        if one != other:
            found.append(f"{place} differs{_first_difference(one, other) if place in TEXTS else ''}")
    return found


def _first_difference(one: bytes, other: bytes) -> str:
    lines = zip_longest(one.decode().splitlines(), other.decode().splitlines(), fillvalue="")
    return next((f": {mine!r} and {theirs!r}" for mine, theirs in lines if mine != theirs), "")


def refused(shown: Mapping[str, bytes]) -> bool:
    """Whether there was an error in place of a release."""
    return "error" in shown


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


def _of_folder(release: Release) -> dict[str, bytes]:
    """Every file of the saved release."""
    with tempfile.TemporaryDirectory() as place:
        folder = release.save(Path(place) / "out")
        files = sorted(each for each in folder.rglob("*") if each.is_file())
        return {f"file {each.relative_to(folder)}": each.read_bytes() for each in files}


def _text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=str).encode()


def _arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


@contextmanager
def _logged() -> Iterator[io.StringIO]:
    """All log lines of the library within, at every level."""
    lines = io.StringIO()
    handler, logger = logging.StreamHandler(lines), logging.getLogger("tallytree")
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
