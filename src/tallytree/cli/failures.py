"""How a command fails: one line on standard error, and an exit code that says what kind of failure it is."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

import typer

from tallytree.cli import logs
from tallytree.cli.logs import in_one_line

__all__ = ["ExitCode", "errors_in_one_line", "exit_code", "fail_if_broken", "in_one_line"]


class ExitCode(IntEnum):
    """What the exit code of a command means; `docs/how-to/operations.md` says what to do about each."""

    DONE = 0
    INTERNAL = 1
    """Something unexpected: a defect of tallytree or of a library. Of `audit` also: a mechanism lost more."""
    INPUT = 2
    """The command line, the spec, or a table is wrong; it fails again until that is corrected."""
    BUDGET = 3
    """More would be spent than the budget, or the limit in the ledger, allows."""
    EXISTS = 4
    """What is to be made exists."""
    SYSTEM = 5
    """The machine: memory, the disk, permissions, a ledger that is locked, a package that is missing."""
    CHANGED = 6
    """A finished run was left as it is, and its input may have changed since."""
    BROKEN = 7
    """A release was made and saved, and its mechanism, which is from outside, broke a promise."""


INTERRUPTED = 130
MOST = 4_000
"""Characters of a message."""
_SHORT_OF_MEMORY = MemoryError | SystemError
"""NumPy raises the second where it forgets to say that it got no memory."""


@contextmanager
def errors_in_one_line(*, debug: bool) -> Iterator[None]:
    """Turn exceptions into one line on standard error and an exit code: see `ExitCode`, or 130 after an interruption.

    The message of an error that the library raises on purpose is shown. Of any other error only the type is shown,
    since its message may quote a record.

    Args:
        debug: show the traceback too, with the message, but without local variables.
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        logs.note(f"interrupted{_notes(interruption)}", event="interrupted", exit_code=INTERRUPTED)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise  # the reader of our output has closed it; typer exits quietly
    except Exception as error:  # noqa: BLE001 (every error becomes one line)
        if debug:
            typer.echo(traceback.format_exc(), err=True, nl=False)
        code = exit_code(error)
        logs.error(in_one_line(_shortened(_message(error))) + _notes(error), exit_code=code)
        raise typer.Exit(code) from None


def fail_if_broken(statement: Mapping[str, Any], out: Path) -> None:
    """End with an exit code of its own where a release that is saved and paid for broke a promise of its mechanism."""
    from tallytree.release.statement import BROKEN

    if BROKEN in statement:
        which = ", ".join(statement[BROKEN])
        logs.error(f"{out} is saved, and marked: its mechanism broke a promise ({which})", exit_code=ExitCode.BROKEN)
        raise typer.Exit(ExitCode.BROKEN)


def _shortened(message: str) -> str:
    """The message without its middle, where it is longer than a page: a label may have a million characters."""
    return message if len(message) <= MOST else f"{message[: MOST // 2]} … {message[-MOST // 2 :]}"


def _notes(error: BaseException) -> str:
    """What the library has added to an error: that the budget is spent, or where the release is."""
    from tallytree.errors import KEPT, MAY_BE_SPENT, SPENT

    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith((SPENT, MAY_BE_SPENT, KEPT))]
    return "".join(f"; {in_one_line(note)}" for note in notes)


def exit_code(error: Exception) -> ExitCode:
    """What kind of failure an error is."""
    from tallytree.errors import BudgetExceeded, InputMayHaveChanged, SpecError

    if isinstance(error, BudgetExceeded):
        return ExitCode.BUDGET
    if isinstance(error, InputMayHaveChanged):
        return ExitCode.CHANGED
    if isinstance(error, FileExistsError):
        return ExitCode.EXISTS
    # Of OSErrors, those about a path that the user gave wrongly. Each is raised before anything is spent.
    if isinstance(error, SpecError | FileNotFoundError | NotADirectoryError | IsADirectoryError):
        return ExitCode.INPUT
    if isinstance(error, OSError | ImportError | _SHORT_OF_MEMORY):
        return ExitCode.SYSTEM
    return ExitCode.INPUT if _is_on_purpose(error) else ExitCode.INTERNAL


def _is_on_purpose(error: Exception) -> bool:
    """Whether the library raised the error itself; subclasses are excluded, since other libraries raise them."""
    from tallytree.errors import ARGUMENT

    return type(error) in (ValueError, TypeError, MemoryError) and ARGUMENT.match(str(error)) is not None


def _message(error: Exception) -> str:
    """What may be shown of an error: the message where the library raised it on purpose, else the type."""
    from tallytree.errors import BudgetExceeded, InputMayHaveChanged, SpecError

    if isinstance(error, SpecError | BudgetExceeded | InputMayHaveChanged | ImportError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    if _is_on_purpose(error):
        return str(error)
    if isinstance(error, _SHORT_OF_MEMORY):
        return (
            f"memory: this machine had too little of it ({type(error).__name__}); end other programs, raise the limit "
            "(ulimit -v, the container's), or release in parts (--memory)"
        )
    return (
        f"{type(error).__name__}, which was not expected; its message is withheld because it may quote a record. "
        "Run `tallytree --debug …` to see it, and please report it without private values"
    )
