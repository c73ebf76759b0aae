"""The report that commands write beside what they release: it never makes them fail."""

from __future__ import annotations

from pathlib import Path

from tallytree.cli import logs


def can_report() -> bool:
    """Whether the packages of the extra are installed; if not, a note says so."""
    try:
        from tallytree._charts import require_charts

        require_charts("report", "a report")
    except ModuleNotFoundError as error:
        logs.note(f"No report is written: {str(error).removeprefix('report: ')}", event="report")
        return False
    return True


def report_beside(folder: Path, *, wanted: bool) -> None:
    """Write report.html into the folder of a release, where that is wanted and can be done.

    The release is whole and paid for before. So a report that cannot be written is a note or a warning, not an error.

    Args:
        folder: of the release.
        wanted: whether it is wanted.
    """
    if not wanted or not can_report():
        return
    try:
        from tallytree._report import FILE, write_report
        from tallytree.release import Release

        write_report(Release.load(folder), folder / FILE, title=folder.absolute().name)
    except Exception as error:  # noqa: BLE001  (an error here would look like a release that was not made, and be retried)
        logs.warning(f"The report could not be written ({_reason(error)}). {_WHOLE}")
    except KeyboardInterrupt:
        logs.warning(f"The report was not written. {_WHOLE}")
        raise


def _reason(error: Exception) -> str:
    """What may be shown of an error; the message of a library may quote a number of the release."""
    if isinstance(error, ChildProcessError):
        return str(error)
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


_WHOLE = "The release is whole, and paid for once; `tallytree report` makes its report."
