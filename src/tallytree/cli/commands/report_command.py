"""`tallytree report`: one self-contained page about a release; spends nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.shared_options import (
    BoundariesOption,
    BoundaryCodeOption,
    CrosswalkOption,
    LanguageOption,
    NamesOption,
    series_options,
)
from tallytree.support.stages import stage


def report(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The .html file to make. If absent: report.html in DIR."),
    ] = None,
    boundaries: BoundariesOption = None,
    boundary_code: BoundaryCodeOption = None,
    language: LanguageOption = None,
    earlier: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="An earlier release, to show changes. May be repeated, in the order of time."),
    ] = None,
    level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="With --earlier: a level, or a table's levels.")
    ] = None,
    crosswalk: CrosswalkOption = None,
    names: NamesOption = None,
) -> None:
    """Write a page about a release, for readers; spends nothing.

    It shows the numbers, their errors, the guarantee and checks of the files. The page is one file. It needs no
    network, and is made from the published files alone. Boundaries are kept in DIR, for reports that are written later.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.views.charts import require_charts

        require_charts("report", "the page")
        from tallytree.cli.rendering.terminal import open_console, show_line
        from tallytree.release import Release
        from tallytree.views.boundaries import boundaries_of, keep_boundaries, kept_boundaries
        from tallytree.views.report import FILE, ComparedReleases, hierarchies_by_level, write_report

        if not earlier and (level or crosswalk or names):
            raise ValueError("earlier: none is given, and --level, --crosswalk and --names are about them; give some")
        release = Release.load(folder)
        trees = hierarchies_by_level(release.tree)
        given = boundaries_of(boundaries or (), trees, code=boundary_code)
        options: dict[str, Any] = {"boundaries": given or kept_boundaries(folder, trees), "language": language}
        if earlier:
            options["earlier"] = ComparedReleases([*earlier, folder], *series_options(level, crosswalk, names))
        made = write_report(release, out or folder / FILE, title=folder.absolute().name, **options)
        if out is None:
            keep_boundaries(folder, given)
        show_line(open_console(), f"Nothing was spent. Report: {made}")


def can_report() -> bool:
    """Whether the packages of the extra are installed; if not, a note says so."""
    try:
        from tallytree.views.charts import require_charts

        require_charts("report", "a report")
    except ModuleNotFoundError as error:
        logs.note(f"No report is written: {str(error).removeprefix('report: ')}", event="report")
        return False
    return True


def lacks_report(folder: Path) -> bool:
    """Whether a release has no report, for instance because its command was killed meanwhile."""
    from tallytree.views.report import FILE

    return not (folder / FILE).exists()


MOST_SECONDS = 60.0
"""For the report that a release ends with."""


class _Overdue(BaseException):
    """A report takes too long. No library's `except Exception` keeps it."""


@contextmanager
def _limited() -> Iterator[None]:
    """A block that a timer's signal interrupts after `MOST_SECONDS`, in the main thread of a system that has timers.

    It interrupts what Python runs, and the wait for the process that draws, which is then ended. So neither a thread
    nor a process stays behind.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise _Overdue

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def report_beside(folder: Path, *, wanted: bool, earlier: Path | None = None) -> None:
    """Write report.html into the folder of a release, where that is wanted and can be done.

    The release is whole and paid for before. So a report that cannot be written, or takes more than `MOST_SECONDS`, is
    a note or a warning, not an error.

    Args:
        folder: of the release.
        wanted: whether it is wanted.
        earlier: the folder of the release that this one was made from; its boundaries are kept in this one too.
    """
    if not wanted or not can_report():
        return
    try:
        from tallytree.release import Release
        from tallytree.views.boundaries import keep_boundaries, kept_boundaries
        from tallytree.views.report import FILE, hierarchies_by_level, write_report

        with stage("report"), _limited():
            release = Release.load(folder)
            shapes = kept_boundaries(earlier or folder, hierarchies_by_level(release.tree))
            if earlier is not None:
                keep_boundaries(folder, shapes)
            write_report(release, folder / FILE, title=folder.absolute().name, boundaries=shapes)
    except (Exception, _Overdue) as error:  # noqa: BLE001  (an error would look like a release that was not made)
        logs.warning(f"The report could not be written ({_reason(error)}). {_WHOLE}")
    except KeyboardInterrupt:
        logs.warning(f"The report was not written. {_WHOLE}")
        raise


def _reason(error: BaseException) -> str:
    """What may be shown of an error; the message of a library may quote a number of the release."""
    if isinstance(error, _Overdue):
        return f"it took more than {MOST_SECONDS:g} seconds"
    if isinstance(error, ChildProcessError):
        return str(error)
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


_WHOLE = "The release is whole, and paid for once; `tallytree report` makes its report."
