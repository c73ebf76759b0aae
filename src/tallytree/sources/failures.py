"""The error of a table that cannot be read to its end, in words of ours."""

from __future__ import annotations


class SourceError(OSError):
    """A table changed, or could not be read to its end. The message quotes nothing that a library or a row says."""
