"""The stages of a run, with their seconds: events for the log, and a line at the terminal.

A stage ends with one line at the level INFO of the logger `tallytree.stages`, such as `tabulate: 2.5 s`; one that fails
ends with `tabulate: failed after 2.5 s`. The line's attributes are in `ATTRIBUTES`. Seconds are rounded to a tenth. The
time of a stage over private data depends on these data, so the lines are for the operator, as standard error is, and
running time is outside the guarantee. No line holds a number of records, a value, or the name of a file.

Progress is drawn on standard error, and only where it is asked for. A run's display is an observer of its stages: it
says what is done, for how long, and where the engine can tell, how much of the records is read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


logger = logging.getLogger("tallytree.stages")

ATTRIBUTES = ("stage", "seconds", "dataset", "run")
"""What a record of the log has beside its message; `dataset` and `run` are None where they are not known."""


@dataclass
class _Stage:
    """A stage that has begun.

    Attributes:
        parts: the seconds of its parts, by name.
        elsewhere: the seconds of stages inside it, which have lines of their own.
    """

    parts: dict[str, float] = field(default_factory=dict)
    elsewhere: float = 0.0


_current: ContextVar[_Stage | None] = ContextVar("current stage", default=None)
_observer: ContextVar[_RunDisplay | None] = ContextVar("observer", default=None)


@contextmanager
def observed_by(observer: _RunDisplay) -> Iterator[None]:
    """Tell this observer of stages, in this thread, until the end of the block."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


@contextmanager
def stage(name: str, *, dataset: str | None = None, run: str | None = None) -> Iterator[None]:
    """A stage of a run: one line of the log when it ends, and one before it for each of its parts.

    The seconds of parts, and of stages inside this one, are not counted twice: this stage's are the rest.

    Args:
        name: what is done, a verb.
        dataset: the data set's name in the ledger.
        run: the name of the run.
    """
    own, above, observer = _Stage(), _current.get(), _observer.get()
    token, start = _current.set(own), time.monotonic()
    if observer is not None:
        observer.begin(name)
    failed = True
    try:
        yield
        failed = False
    finally:
        _current.reset(token)
        if observer is not None:
            observer.end(name)
        seconds = time.monotonic() - start
        if above is not None:
            above.elsewhere += seconds
        for part_name, of_part in own.parts.items():
            _log(part_name, of_part, False, dataset, run)
        _log(name, seconds - own.elsewhere - sum(own.parts.values()), failed, dataset, run)


@contextmanager
def part(name: str) -> Iterator[None]:
    """A part of the current stage that is done again and again: its seconds are added up, for one line.

    Outside of a stage, or in another thread than the stage's, nothing is noted.
    """
    own = _current.get()
    if own is None:
        yield
        return
    observer, start = _observer.get(), time.monotonic()
    if observer is not None:
        observer.begin(name)
    try:
        yield
    finally:
        own.parts[name] = own.parts.get(name, 0.0) + time.monotonic() - start
        if observer is not None:
            observer.end(name)


def step(text: str) -> None:
    """The current stage goes on with something else: a line of the log at once, and told to whoever shows progress.

    Args:
        text: what is done now, from public facts, such as `level 2: 600 areas`.
    """
    logger.info("%s", text)
    observer = _observer.get()
    if observer is not None:
        observer.step(text)


def observed() -> bool:
    """Whether somebody is told of the stages."""
    return _observer.get() is not None


@contextmanager
def reading(percent: Callable[[], float]) -> Iterator[None]:
    """Records are read by the block; `percent` may be called from another thread, and is not after the block."""
    observer = _observer.get()
    if observer is None:
        yield
        return
    observer.reading(percent)
    try:
        yield
    finally:
        observer.reading(None)


def _log(name: str, seconds: float, failed: bool, dataset: str | None, run: str | None) -> None:
    rounded = round(max(seconds, 0.0), 1)
    about = {"stage": name, "seconds": rounded, "dataset": dataset, "run": run}
    logger.info("%s: %s%.1f s", name, "failed after " if failed else "", rounded, extra=about)


_TITLES = {
    "start": "loading",
    "plan": "planning",
    "tabulate": "reading the records",
    "record": "recording in the ledger",
    "measure": "measuring",
    "reconcile": "fitting",
    "replicate": "replicates",
    "save": "saving",
    "report": "writing the report",
}
"""What a stage is called at the terminal."""

_WHOLE = 100
_REACHED = {"plan": 5, "tabulate": 15, "record": 40, "reconcile": 45, "save": 80, "report": 90}
"""Where the bar is, of `_WHOLE`, when a stage begins: about as much as runs have done by then."""

_COMPILED_IN = ("measure", "reconcile", "tabulate", "replicate")
"""Stages that call kernels; when they begin, numba is imported in any case."""


class _RunDisplay:
    """One line that says what a run does, with a bar that only goes forward; the observer of its stages.

    Of the data it learns how much of the records is read.
    """

    def __init__(self, bars: Progress, cleanup: ExitStack) -> None:
        self._bars = bars
        self._cleanup = cleanup
        self._task = bars.add_task(_TITLES["start"], total=_WHOLE)
        self._reached = 0.0
        self._stage = "start"
        self._stages: list[str] = []
        self._compiling: list[str] = []
        self._step = ""
        self._begun: dict[str, None] = {}
        self._percent: Callable[[], float] | None = None
        self._reading = threading.Lock()
        self._listens = False

    def begin(self, stage: str) -> None:
        """A stage, or a part of one, begins."""
        self._stages.append(stage)
        if stage in _COMPILED_IN and not self._listens:
            from tallytree.support.kernels import compilations

            self._listens = True
            self._cleanup.enter_context(compilations(self._begin_compiling, self._end_compiling))
        self._reach(_REACHED.get(stage, 0))
        self._show()

    def end(self, stage: str) -> None:
        """It is over, and what it is a part of goes on."""
        self._stages.pop()
        self._step = ""
        self._show()

    def step(self, text: str) -> None:
        """The stage goes on with something else."""
        self._step = text
        self._show()

    def reading(self, percent: Callable[[], float] | None) -> None:
        """Records are read from now on, and `percent` tells how far; None: they are read."""
        with self._reading:  # when this returns, the drawing thread is out of an earlier `percent`
            self._percent = percent

    def read(self) -> str:
        """How much of the records is read; nothing where the engine cannot tell."""
        with self._reading:
            percent = -1.0 if self._percent is None else self._percent()
        if not 0 <= percent <= 100:
            return ""
        self._reach(_between("tabulate", "record", percent / 100))
        return f"{percent:.0f} %"

    def measure(self, level: str, levels: int) -> None:
        """A level is measured."""
        self._begun[level] = None
        self._reach(_between("reconcile", "save", (len(self._begun) - 1) / levels))
        self._show()

    def _reach(self, place: float) -> None:
        """Move the bar to a place, if it is not further already."""
        self._reached = max(self._reached, place)
        self._bars.update(self._task, completed=self._reached)

    def _begin_compiling(self, kernel: str) -> None:
        self._compiling.append(kernel)
        self._show()

    def _end_compiling(self, kernel: str) -> None:
        self._compiling.pop()
        self._show()

    def _show(self) -> None:
        self._stage = self._stages[-1] if self._stages else self._stage  # between two stages the last one is shown
        title = _TITLES.get(self._stage, self._stage)
        if self._stage == "measure" and self._begun:
            title = f"{title} {next(reversed(self._begun))}"
        if self._step:
            title = f"{title}: {self._step}"
        if self._compiling:
            title = f"compiling {self._compiling[0]} (only the first time)"
        self._bars.update(self._task, description=title)


def _between(stage: str, following: str, share: float) -> float:
    """Where the bar is when this share of a stage is done."""
    return _REACHED[stage] + share * (_REACHED[following] - _REACHED[stage])


_display: ContextVar[_RunDisplay | None] = ContextVar("display of a run", default=None)


@contextmanager
def run_progress(shown: bool) -> Iterator[None]:
    """Draw one line about what the block does, a run or a part of it, on standard error where `shown`.

    Inside the block of another display that one goes on.
    """
    if not shown or _display.get() is not None:
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class ReadColumn(TextColumn):
        """How much is read, asked for whenever the line is drawn."""

        def render(self, task: Task) -> Text:
            return Text(display.read())

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), ReadColumn(""))
    with ExitStack() as cleanup:
        bars = Progress(
            *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True, refresh_per_second=4
        )
        display = _RunDisplay(bars, cleanup)
        cleanup.enter_context(bars)
        cleanup.enter_context(observed_by(display))
        token = _display.set(display)
        cleanup.callback(_display.reset, token)
        yield


@contextmanager
def level_progress(shown: bool, levels: Collection[str]) -> Iterator[Callable[[str], None]]:
    """A callback that is called with each level as it begins; draws a line on standard error where `shown`."""
    with run_progress(shown):
        display = _display.get()
        yield (lambda level: None) if display is None else (lambda level: display.measure(level, len(levels)))


@contextmanager
def step_progress(shown: bool, total: int, what: str) -> Iterator[Callable[[], None]]:
    """A callback to be called after each of `total` equal steps; draws a bar on standard error where `shown`."""
    if not shown:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=total)
        yield lambda: bars.advance(task)


@contextmanager
def audit_progress(shown: bool, audits: int) -> Iterator[Callable[[str], None]]:
    """A callback that is called with each audit's name as it begins; draws a bar on standard error where `shown`."""
    if not shown:
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} audits"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True, markup=False), transient=True) as bars:
        task = bars.add_task("", total=audits)
        begun = 0

        def begin(name: str) -> None:
            nonlocal begun
            bars.update(task, description=name, completed=begun)
            begun += 1

        yield begin
