"""The standard streams of the program: what cannot be written to them must not stop a release."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TextIO


def prepare_streams() -> None:
    """Open the standard streams that are closed, on the null device, and keep errors of standard error from programs.

    A descriptor that is closed is given to the next file that is opened, a ledger for instance, and messages of a
    library would be written into it. So 0, 1 and 2 are taken first.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least descriptor that is free: this one
    if sys.stdout is None:
        sys.stdout = _opened(1)
    if sys.stderr is None:
        sys.stderr = _opened(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A label that the terminal cannot show must not make a paid release fail.
            stream.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding, by_line = sys.stdout.encoding, sys.stdout.line_buffering
        sys.stdout = _Named(sys.stdout.detach(), encoding, "backslashreplace", line_buffering=by_line)
    if isinstance(sys.stderr, io.TextIOWrapper):
        encoding = sys.stderr.encoding
        sys.stderr = _Unfailing(sys.stderr.detach(), encoding, "backslashreplace", line_buffering=True)


def flush_output() -> None:
    """Write what standard output holds.

    Raises:
        OSError: it cannot be written.
    """
    sys.stdout.flush()


def discard_output() -> None:
    """Lose what standard output holds and gets: it could not be written, and would fail again when the program ends."""
    with suppress(OSError):  # a stream of a test has no descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _opened(descriptor: int) -> TextIO:
    return open(descriptor, "w", encoding="utf-8", closefd=False)


class _Named(io.TextIOWrapper):
    """Standard output: an error of it names it, as one of a file names the file."""

    def write(self, text: str) -> int:
        """Write, or name what cannot be written to."""
        try:
            return super().write(text)
        except OSError as error:
            error.filename = "standard output"
            raise

    def flush(self) -> None:
        """Flush, or name what cannot be written to."""
        try:
            super().flush()
        except OSError as error:
            error.filename = "standard output"
            raise


class _Unfailing(io.TextIOWrapper):
    """Standard error: its reader may be gone, or its disk full, and then what it would say is lost, not a release."""

    def write(self, text: str) -> int:
        """Write what can be written."""
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        """Flush what can be written."""
        try:
            super().flush()
        except OSError:
            return
