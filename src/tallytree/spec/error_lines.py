"""From the library's errors, which begin with an argument's name, to the file, line and key of that argument."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from tallytree.errors import ARGUMENT, SpecError
from tallytree.spec.document import Document, KeyPath

_HOMES: tuple[KeyPath, ...] = ((), ("budget",), ("mechanism", "options"), ("engine",), ("max_group_size",))
"""Where arguments are written."""


@contextmanager
def naming_lines(document: Document, *, elsewhere: Collection[str] = (), **keys: KeyPath) -> Iterator[None]:
    """Errors that begin with an argument's name also name the spec and the line of its key.

    Args:
        document: the spec.
        elsewhere: arguments that a spec does not give; errors about them stay as they are.
        **keys: where arguments are written that are in none of the usual places.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        argument = ARGUMENT.match(str(error))
        # Only the library's own errors begin so; what others say may quote a record, and is left alone.
        if type(error) not in (ValueError, TypeError) or argument is None or argument[0] in elsewhere:
            raise
        path = keys.get(argument[0]) or _key_of(document, argument[0])
        rest = str(error)[argument.end() :]
        explained = SpecError(f"{document.name}: {error}" if path is None else f"{document.place(path)}{rest}")
        for note in getattr(error, "__notes__", ()):
            explained.add_note(note)
        raise explained from error


def _key_of(document: Document, argument: str) -> KeyPath | None:
    return next(((*home, argument) for home in _HOMES if (*home, argument) in document.lines), None)
