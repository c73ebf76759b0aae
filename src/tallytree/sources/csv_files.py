"""CSV files: their header, and a stream of their rows that refuses misplaced quotes."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

_BOM = "\ufeff".encode()

_CSV_BLOCK = 1 << 23
"""Bytes of CSV parsed at once; no row may be longer."""

_UTF_8 = ("utf-8", "utf-8-sig")


@dataclass(frozen=True)
class Dialect:
    """How the cells of a CSV file are written: the character between them, and their encoding."""

    separator: str = ","
    encoding: str = "utf-8"


COMMAS = Dialect()
"""Comma-separated UTF-8."""


def csv_header(path: str, dialect: Dialect = COMMAS, source: Any = None) -> list[str]:
    """The names in the first row that is not empty.

    Args:
        path: the file's, or its name where `source` is given.
        dialect: how it is written.
        source: a file that is open for reading, in place of the path.
    """
    return _header(path, dialect, source)[0]


def _header(path: str, dialect: Dialect, source: Any = None) -> tuple[list[str], int]:
    """The names in the first row that is not empty, and how many empty lines are before it."""
    encoding = "utf-8-sig" if dialect.encoding in _UTF_8 else dialect.encoding
    compressed = gzip.open if is_gzip(path) else open
    opened: Any = compressed(path, "rb") if source is None else source
    if source is not None and is_gzip(path):
        opened = gzip.GzipFile(fileobj=source)
    # The block that is read holds rows too, which are not used: what is wrong in them is replaced.
    with opened, io.TextIOWrapper(opened, encoding, errors="replace", newline="") as lines:
        rows = csv.reader(lines, delimiter=dialect.separator)
        names, empty = next((row, empty) for empty, row in enumerate(rows) if row)
    return [names[0].removeprefix("\ufeff"), *names[1:]], empty


def is_gzip(path: str) -> bool:
    """Whether a file's name says that it is compressed."""
    return path.lower().endswith(".gz")


def _bytes_of(path: str, source: Any = None) -> Any:
    """The bytes of a file, decompressed where the name says so."""
    compression = "gzip" if is_gzip(path) else None
    if source is None:
        return pa.input_stream(path, compression=compression)
    if compression is None:
        return source
    # Without a buffer a server would be asked for every 64 kB.
    return pa.CompressedInputStream(pa.BufferedInputStream(source, _CSV_BLOCK), compression)


def open_csv(
    path: str, columns: Sequence[str], dialect: Dialect = COMMAS, sources: Any = None
) -> pa.csv.CSVStreamingReader:
    """A stream of some columns of a CSV file (gzip where the name says so): text as it is written, empty cells null.

    An empty line is a null where the file has one column: polars, Arrow and DuckDB write nulls so. It is no row where
    there are several, since a row of nulls has commas.

    Args:
        path: the file's, or its name where `sources` is given.
        columns: the wanted ones.
        dialect: how it is written.
        sources: opens the file for reading, in place of the path; it is called twice.
    """
    names, empty_lines = _header(path, dialect, None if sources is None else sources())
    one_column = len(names) == 1
    return pa.csv.open_csv(
        pa.PythonFile(_StrictQuotes(path, dialect, None if sources is None else sources()), mode="r"),
        read_options=pa.csv.ReadOptions(block_size=_CSV_BLOCK, skip_rows=empty_lines if one_column else 0),
        parse_options=pa.csv.ParseOptions(
            delimiter=dialect.separator, newlines_in_values=True, ignore_empty_lines=not one_column
        ),
        convert_options=pa.csv.ConvertOptions(
            include_columns=list(dict.fromkeys(columns)),
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


class _Transcoded(io.RawIOBase):
    """The bytes of a text in another encoding, in UTF-8."""

    def __init__(self, file: Any, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._waiting = b""
        self._at_end = False

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """At most `size` bytes; none at the end alone.

        Raises:
            ArrowInvalid: the bytes are no text in the encoding.
        """
        wanted = _CSV_BLOCK if size is None or size < 0 else size
        while not self._waiting and not self._at_end:
            block = self._file.read(wanted)
            self._at_end = not block
            self._waiting = self._decoded(block).encode()
        given, self._waiting = self._waiting[:wanted], self._waiting[wanted:]
        return given

    def _decoded(self, block: bytes) -> str:
        try:
            return self._decoder.decode(block, final=self._at_end)
        except UnicodeError:  # it quotes the bytes
            pass
        raise pa.ArrowInvalid("CSV: the text is not in the encoding that was given")

    def close(self) -> None:
        self._file.close()
        super().close()


class _StrictQuotes(io.RawIOBase):
    """The bytes of a CSV file in UTF-8, refused where a quote stands that RFC 4180 does not allow.

    Arrow's reader takes a quote that is never closed, or closed in another row, for text; the rows between would vanish
    in one cell without an error.
    """

    def __init__(self, path: str, dialect: Dialect = COMMAS, source: Any = None) -> None:
        opened = _bytes_of(path, source)
        self._file = opened if dialect.encoding in _UTF_8 else _Transcoded(opened, dialect.encoding)
        self._may_meet_quote = np.isin(np.arange(256), list(b'\r\n"' + dialect.separator.encode()))
        self._last = b"\n"
        self._quotes_before = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, checked."""
        block: bytes = self._file.read(None if size < 0 else size)
        self._check(block)
        return block

    def close(self) -> None:
        self._file.close()
        super().close()

    def _check(self, block: bytes) -> None:
        # In a sound file quotes alternate: an opening one (or the second of a doubled pair) follows a separator, a line
        # end or a quote; a closing one (or the first of a pair) precedes one. The last byte is kept for its successor.
        text = np.frombuffer(self._last + block.removeprefix(_BOM if self._last == b"\n" else b""), dtype=np.uint8)
        quotes = np.flatnonzero(text == ord('"'))
        opening, closing = (quotes[(self._quotes_before + i) % 2 :: 2] for i in (0, 1))
        followed = closing[closing < len(text) - 1] + 1
        preceded = opening[opening > 0] - 1
        at_end = not block
        if not self._may_meet_quote[text[np.concatenate([followed, preceded])]].all() or (
            at_end and (self._quotes_before + len(quotes)) % 2
        ):
            raise pa.ArrowInvalid("CSV: a quote is not closed, or stands where RFC 4180 does not allow one")
        self._quotes_before += int(np.count_nonzero(quotes < len(text) - 1))
        self._last = text[-1:].tobytes()
