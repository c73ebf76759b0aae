"""The stages of a run, with their seconds: events for the log, and for whoever shows progress.

A stage ends with one line at the level INFO of the logger `tallytree.stages`, such as `tabulate: 2.5 s`; one that fails
ends with `tabulate: failed after 2.5 s`. The line's attributes are in `ATTRIBUTES`. Seconds are rounded to a tenth. The
time of a stage over private data depends on these data, so the lines are for the operator, as standard error is, and
running time is outside the guarantee. No line holds a number of records, a value, or the name of a file.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

logger = logging.getLogger("tallytree.stages")

ATTRIBUTES = ("stage", "seconds", "dataset", "run")
"""What a record of the log has beside its message; `dataset` and `run` are None where they are not known."""


class Observer(Protocol):
    """Is told what a run does, as it does it; of the data it learns how much of the records is read."""

    def begin(self, stage: str) -> None:
        """A stage, or a part of one, begins."""

    def end(self, stage: str) -> None:
        """It is over, and what it is a part of goes on."""

    def step(self, text: str) -> None:
        """The stage goes on with something else."""

    def reading(self, percent: Callable[[], float] | None) -> None:
        """Records are read from now on, and `percent` tells how far; None: they are read."""


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
_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observed_by(observer: Observer) -> Iterator[None]:
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
