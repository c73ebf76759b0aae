"""Errors of tables that cannot be read to their end, in words of ours."""

from __future__ import annotations

from contextlib import AbstractContextManager


class SourceError(OSError):
    """A table changed, or could not be read to its end. The message quotes nothing that a library or a row says."""


class NowhereError(SourceError, FileNotFoundError):
    """A table is at an address that does not exist, such as a bucket whose name is misspelled: no second try helps."""


class Withheld(AbstractContextManager["Withheld"]):
    """Ends a block quietly after an error of a library, whose words may quote a row, so that ours can be said.

    A lack of memory is raised, also that of Arrow, which is one of its own exceptions; so is a `SourceError`.

    Args:
        *kinds: of errors that are withheld.

    Attributes:
        kind: of the error that was withheld; None where none was.
    """

    def __init__(self, *kinds: type[Exception]) -> None:
        self._kinds = kinds
        self.kind: type[Exception] | None = None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Whether the error is withheld."""
        withheld = isinstance(error, self._kinds) and not isinstance(error, SourceError | MemoryError)
        self.kind = type(error) if withheld and isinstance(error, Exception) else None
        return withheld
