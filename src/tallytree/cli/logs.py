"""Lines on standard error: warnings, errors, notes and stages, as text or as JSON.

Each is a record of the standard library's `logging`, of a logger below `tallytree`; one handler writes them all. With
`--log-format json` every line is a JSON object with the keys `KEYS`, in this order, null where one does not apply.
"""

from __future__ import annotations

import inspect
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from tallytree.cli.shared_options import in_place_of

KEYS = ("time", "level", "event", "stage", "seconds", "dataset", "run", "exit_code", "message")
"""The keys of a line of JSON; `docs/how-to/operations.md` explains them."""

LogFormat = Annotated[
    Literal["text", "json"],
    typer.Option("--log-format", envvar="TALLYTREE_LOG_FORMAT", help="How warnings, errors and -v are written."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="A line for each stage, with its seconds.")]

logger = logging.getLogger("tallytree.cli")
_ROOT = logging.getLogger("tallytree")
_STAGES = "tallytree.stages"
_COLORS = {logging.WARNING: typer.colors.YELLOW, logging.ERROR: typer.colors.RED}


class _Lines(logging.Handler):
    """Writes records to standard error, as it is at that time.

    Attributes:
        as_json: whether as JSON.
        was_json: whether the last command wrote JSON; it stays when the command is over.
        verbose: whether stages are shown.
        about: the data set and the run that the command is about, once it knows them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.as_json, self.verbose, self.was_json = False, False, False
        self.about: dict[str, str | None] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Stages where they are wanted, notes of the program, and all warnings; other notes are for programmers."""
        wanted = record.name == logger.name or (self.verbose and record.name == _STAGES)
        return wanted or record.levelno >= logging.WARNING

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        if self.as_json:
            typer.echo(_as_json(record, self.about), err=True)
            return
        message = in_one_line(record.getMessage())
        if record.name == _STAGES:
            message = f"{_time(record)} {message}"
        elif record.name != logger.name:
            message = f"{record.levelname.lower()}: {message}"
        color, bold = getattr(record, "color", None), getattr(record, "bold", None)
        for line in _lines_at_a_terminal(message) if sys.stderr.isatty() else [message]:
            typer.secho(line, fg=color, bold=bold, err=True)


_lines = _Lines()


@contextmanager
def written_as(log_format: str, *, verbose: bool) -> Iterator[None]:
    """Write the lines of the block, a command, in this format."""
    _lines.as_json, _lines.verbose, _lines.about = log_format == "json", verbose, {}
    _lines.was_json = _lines.as_json
    level = _ROOT.level
    _ROOT.addHandler(_lines)
    _ROOT.setLevel(logging.INFO)
    try:
        yield
    finally:
        _ROOT.removeHandler(_lines)
        _ROOT.setLevel(level)
        _lines.as_json, _lines.verbose, _lines.about = False, False, {}


def about(*, dataset: str | None = None, run: str | None = None) -> None:
    """Name in every further line of JSON the data set and the run that the command is about."""
    _lines.about = {"dataset": dataset, "run": run}


def show_bar(*, quiet: bool = False) -> bool:
    """Whether progress is drawn: at a terminal, where no lines would come between."""
    return not quiet and sys.stderr.isatty() and not (_lines.as_json or _lines.verbose)


def error(message: str, *, exit_code: int) -> None:
    """Why the command fails."""
    _say(logging.ERROR, message if _lines.as_json else f"error: {message}", "error", exit_code=exit_code)


def warning(message: str) -> None:
    """Something that the user should know, while the command goes on."""
    _say(logging.WARNING, message if _lines.as_json else f"warning: {message}", "warning", color=None)


def loud_warning(message: str) -> None:
    """A warning that nobody may overlook."""
    _say(logging.WARNING, message if _lines.as_json else f"WARNING: {message}", "warning", color="red", bold=True)


def note(message: str, *, event: str, bullet: str = "", **more: Any) -> None:
    """A line that is neither a warning nor an error; in text it begins with the bullet."""
    _say(logging.INFO, message if _lines.as_json else f"{bullet}{message}", event, **more)


def last_line(message: str, event: str, *, exit_code: int) -> str:
    """A line in the format of the command that was interrupted, to be written after its end."""
    if not _lines.was_json:
        return f"{message}\n"
    made = {"level": logging.WARNING, "name": logger.name, "msg": message, "event": event, "exit_code": exit_code}
    return _as_json(logging.makeLogRecord({**made, "levelno": logging.WARNING, "levelname": "WARNING"}), {}) + "\n"


def in_one_line(message: str) -> str:
    """The message with line breaks and other control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


def _say(level: int, message: str, event: str, **more: Any) -> None:
    logger.log(level, "%s", message, extra={"event": event, "color": _COLORS.get(level), **more})


def _lines_at_a_terminal(message: str) -> list[str]:
    from tallytree.cli.rendering.terminal import open_console, wrapped

    return wrapped(message, open_console(stderr=True).width)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _as_json(record: logging.LogRecord, known: dict[str, str | None]) -> str:
    usual = "stage" if record.name == _STAGES else record.levelname.lower()
    line = {
        "time": _time(record),
        "level": record.levelname.lower(),
        "event": getattr(record, "event", usual),
        "message": record.getMessage(),
    }
    for key in ("stage", "seconds", "exit_code"):
        line[key] = getattr(record, key, None)
    for key in ("dataset", "run"):
        line[key] = getattr(record, key, None) or known.get(key)
    return json.dumps({key: line[key] for key in KEYS}, ensure_ascii=True)


def with_log_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with `--log-format` and `--verbose`, which are chosen before it runs."""

    def configured(*arguments: Any, log_format: str, verbose: bool, **options: Any) -> None:
        with written_as(log_format, verbose=verbose):
            command(*arguments, **options)

    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter("log_format", keyword, default="text", annotation=LogFormat),
        inspect.Parameter("verbose", keyword, default=False, annotation=Verbose),
    ]
    return in_place_of(command, configured, added)
