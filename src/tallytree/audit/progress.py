"""Progress at a terminal: which audit is running, of how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def case_progress(shown: bool, cases: int) -> Iterator[Callable[[str], None]]:
    """A callback to be told each audit's name as it begins; draws a bar on standard error where `shown`."""
    if not shown:
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} audits"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True, markup=False), transient=True) as bars:
        task = bars.add_task("", total=cases)
        begun = 0

        def begin(name: str) -> None:
            nonlocal begun
            bars.update(task, description=name, completed=begun)
            begun += 1

        yield begin
