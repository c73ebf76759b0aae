"""How a command fails: one line `error: …` on standard error, and exit code 1."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def errors_in_one_line(*, debug: bool) -> Iterator[None]:
    """Turn exceptions into one line on standard error and an exit code: 1, or 130 after an interruption.

    The message of an error that the library raises on purpose is shown. Of any other error only the type is shown,
    since its message may quote a record.

    Args:
        debug: show the traceback too, with the message, but without local variables.
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        typer.echo(f"interrupted{_notes(interruption)}", err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise  # the reader of our output has closed it; typer exits quietly
    except Exception as error:  # noqa: BLE001 (every error becomes one line)
        if debug:
            typer.echo(traceback.format_exc(), err=True, nl=False)
        typer.secho(f"error: {in_one_line(_message(error))}{_notes(error)}", fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from None


def _notes(error: BaseException) -> str:
    """What the library has added to an error: that the budget is spent, or where the release is."""
    from tallytree.errors import KEPT, SPENT

    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith((SPENT, KEPT))]
    return "".join(f"; {in_one_line(note)}" for note in notes)


def in_one_line(message: str) -> str:
    """The message with line breaks and other control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


def _message(error: Exception) -> str:
    """What may be shown of an error: the message where the library raised it on purpose, else the type."""
    from tallytree.errors import ARGUMENT, BudgetExceeded, SpecError

    if isinstance(error, SpecError | BudgetExceeded | ImportError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    # Subclasses of these are excluded: other libraries raise them.
    if type(error) in (ValueError, TypeError, MemoryError) and ARGUMENT.match(str(error)):
        return str(error)
    return (
        f"{type(error).__name__}, which was not expected; its message is withheld because it may quote a record. "
        "Run `tallytree --debug …` to see it, and please report it without private values"
    )
