"""A stream of lines that are checked and converted to UTF-8 before a CSV reader gets them."""

from __future__ import annotations

import codecs
import io
import zipfile
import zlib
from typing import IO

import numpy as np
import numpy.typing as npt

_NEWLINE, _RETURN, _QUOTE, _NUL = b'\n\r"\0'


class BadLineError(ValueError):
    """A line or a file that is malformed. The message has the number of the line and never its content."""


class CheckedLines(io.RawIOBase):
    r"""The bytes of a text file as UTF-8, where every row is one line.

    Arrow's reader takes the rows after a quote that is never closed for one cell, and does not count empty lines. Here
    each line must have an even number of quotes, no line but the last may be empty, and lines must end in `\n` or
    `\r\n`. Then every row is one line, and Arrow's row numbers are the line numbers that an editor shows.

    Args:
        file: the bytes.
        encoding: of the bytes.

    Attributes:
        problem: after a line was refused, its number and the reason; a message has it after the name of the file.
    """

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file = file
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._lines = 0
        self._quotes = 0
        self._at_line_start = False
        self._after_return = False
        self._empty_line = 0
        self.problem = ""

    def readable(self) -> bool:
        """True, as `io.RawIOBase` asks for."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes, checked: about `size` of them, none at the end of the file."""
        while True:
            raw = self._read(size)
            block = self._decode(raw).encode()
            self._check(np.frombuffer(block, dtype=np.uint8), at_end=not raw)
            if block or not raw:
                return block

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except (zipfile.BadZipFile, zlib.error, EOFError):
            self.problem = f", after line {self._lines}: the zip is damaged; get it again"
        raise BadLineError(self.problem)

    def _decode(self, raw: bytes) -> str:
        broken = None
        try:
            return self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            broken = error.object[: error.start].count(b"\n")
        return self._refuse(self._lines + broken + 1, f"it is not {self._encoding}; give the encoding= it has")

    def _refuse(self, line: int, what: str) -> str:
        self.problem = f", line {line}: {what}"
        raise BadLineError(self.problem)

    def _check(self, block: npt.NDArray[np.uint8], *, at_end: bool) -> None:
        returns = np.flatnonzero(block == _RETURN)
        before = np.concatenate([[self._after_return], block[:-1] == _RETURN])[: len(block)]
        lone = np.flatnonzero(before & (block != _NEWLINE))
        for places, what in (
            (np.flatnonzero(block == _NUL), "it has a NUL character; is the file UTF-16? Then give encoding='utf-16'"),
            (lone, "a carriage return stands alone in it; lines have to end in \\n or \\r\\n"),
        ):
            if len(places):
                self._refuse(self._lines + int(np.count_nonzero(block[: places[0]] == _NEWLINE)) + 1, what)
        if len(block):
            self._after_return = bool(block[-1] == _RETURN)
        text = np.delete(block, returns)
        ends = np.flatnonzero(text == _NEWLINE)
        self._check_quotes(text, ends, at_end=at_end)
        self._check_empty_lines(text, ends)
        self._lines += len(ends)

    def _check_quotes(self, text: npt.NDArray[np.uint8], ends: npt.NDArray[np.intp], *, at_end: bool) -> None:
        quotes = np.flatnonzero(text == _QUOTE)
        odd = np.flatnonzero((self._quotes + np.searchsorted(quotes, ends)) % 2)
        self._quotes += len(quotes)
        if len(odd) or (at_end and self._quotes % 2):
            line = self._lines + (int(odd[0]) if len(odd) else len(ends)) + 1
            self._refuse(line, "a quote in it is not closed")

    def _check_empty_lines(self, text: npt.NDArray[np.uint8], ends: npt.NDArray[np.intp]) -> None:
        """Refuse an empty line that is followed by another line; empty lines at the end of the file are allowed."""
        if not len(text):
            return
        starts = np.concatenate([[self._at_line_start], text[:-1] == _NEWLINE])
        empty = np.flatnonzero(starts[ends])
        last_content = int(np.max(np.flatnonzero(text != _NEWLINE), initial=-1))
        if self._empty_line and last_content >= 0:
            self._refuse(self._empty_line, "it is empty")
        if len(empty):
            line = self._lines + int(empty[0]) + 1
            if ends[empty[0]] < last_content:
                self._refuse(line, "it is empty")
            self._empty_line = self._empty_line or line
        self._at_line_start = bool(text[-1] == _NEWLINE)
