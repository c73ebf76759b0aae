"""Progress at a terminal: of the levels that are measured, of equal steps, and of audits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager


@contextmanager
def level_progress(shown: bool, levels: Collection[str]) -> Iterator[Callable[[str], None]]:
    """A callback that is called with each level as it begins; draws a bar on standard error where `shown`."""
    if not shown:
        yield lambda level: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} levels"))
    begun: set[str] = set()
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("measuring", total=len(levels))

        def begin(level: str) -> None:
            if level not in begun:
                begun.add(level)
                bars.update(task, description=f"measuring {level}", completed=len(begun) - 1)

        yield begin
        bars.update(task, completed=len(levels))


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
