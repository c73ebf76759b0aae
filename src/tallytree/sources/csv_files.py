"""CSV files: their header, and a stream of their rows that refuses misplaced quotes."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv

_BOM = "\ufeff".encode()

_MAY_MEET_QUOTE = np.isin(np.arange(256), list(b',\r\n"'))

_CSV_BLOCK = 1 << 23
"""Bytes of CSV parsed at once; no row may be longer."""


def csv_header(path: str) -> list[str]:
    """The names in the first row that is not empty."""
    return _header(path)[0]


def _header(path: str) -> tuple[list[str], int]:
    """The names in the first row that is not empty, and how many empty lines are before it."""
    opened = gzip.open if _is_gzip(path) else open
    # The block that is read holds rows too, which are not used: what is not UTF-8 in them is replaced.
    with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
        return next((row, empty) for empty, row in enumerate(csv.reader(lines)) if row)


def _is_gzip(path: str) -> bool:
    return path.lower().endswith(".gz")


def open_csv(path: str, columns: Sequence[str]) -> pa.csv.CSVStreamingReader:
    """A stream of some columns of a CSV file (gzip where the name says so): text as it is written, empty cells null.

    An empty line is a null where the file has one column: polars, Arrow and DuckDB write nulls so. It is no row where
    there are several, since a row of nulls has commas.
    """
    names, empty_lines = _header(path)
    one_column = len(names) == 1
    return pa.csv.open_csv(
        pa.PythonFile(_StrictQuotes(path), mode="r"),
        read_options=pa.csv.ReadOptions(block_size=_CSV_BLOCK, skip_rows=empty_lines if one_column else 0),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=not one_column),
        convert_options=pa.csv.ConvertOptions(
            include_columns=list(dict.fromkeys(columns)),
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


class _StrictQuotes(io.RawIOBase):
    """The bytes of a CSV file, refused where a quote stands that RFC 4180 does not allow.

    Arrow's reader takes a quote that is never closed, or closed in another row, for text; the rows between would vanish
    in one cell without an error.
    """

    def __init__(self, path: str) -> None:
        self._file = pa.input_stream(path, compression="gzip" if _is_gzip(path) else None)
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
        # In a sound file quotes alternate: an opening one (or the second of a doubled pair) follows a comma, a line end
        # or a quote; a closing one (or the first of a pair) precedes one. The last byte is kept for its successor.
        text = np.frombuffer(self._last + block.removeprefix(_BOM if self._last == b"\n" else b""), dtype=np.uint8)
        quotes = np.flatnonzero(text == ord('"'))
        opening, closing = (quotes[(self._quotes_before + i) % 2 :: 2] for i in (0, 1))
        followed = closing[closing < len(text) - 1] + 1
        preceded = opening[opening > 0] - 1
        at_end = not block
        if not _MAY_MEET_QUOTE[text[np.concatenate([followed, preceded])]].all() or (
            at_end and (self._quotes_before + len(quotes)) % 2
        ):
            raise pa.ArrowInvalid("CSV: a quote is not closed, or stands where RFC 4180 does not allow one")
        self._quotes_before += int(np.count_nonzero(quotes < len(text) - 1))
        self._last = text[-1:].tobytes()
