"""The spec of a command, with the options of the command line in place of its keys; and what is shown of its run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tallytree.cli import logs
from tallytree.cli.rendering.statements import show_measurements, show_terms, warn_of_seed
from tallytree.cli.rendering.terminal import open_console, printable, show_line
from tallytree.cli.streams import discard_output, flush_output
from tallytree.kinds.registry import kind_of

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.release import Release
    from tallytree.run.output import Output
    from tallytree.spec import Spec


def opened_spec(
    context: typer.Context, path: Path, changes: Sequence[str] | None, *, allow_code: bool = False, **options: Any
) -> Spec:
    """The spec at a path, with other values of some keys; what is None stays.

    A secret that the environment names is used by commands that make a named run, and left alone by others.

    Raises:
        SpecError, ValueError, OSError: see `tallytree.spec.load_spec` and `Spec.with_options`.
    """
    from tallytree.spec import load_spec

    loaded = load_spec(path, changes=changes or (), allow_code=allow_code)
    source = context.get_parameter_source("secret")
    if source is not None and source.name == "ENVIRONMENT" and options.get("run") is None and loaded.run is None:
        options["secret"] = None
    loaded = loaded.with_options(**options)
    logs.about(dataset=loaded.dataset, run=loaded.run)
    warn_of_seed(loaded.seed)
    return loaded


def with_prior_run(loaded: Spec, run: str | None, folder: Path | None) -> Spec:
    """The spec with the release of a run as its prior, from a folder beside the one that is made; as it is without one.

    Raises:
        ValueError: the statistic takes none, the spec has one, no folder is named, or the run's release is not found.
        OSError: the ledger, or a folder, cannot be read.
    """
    from tallytree.ledger import Ledger
    from tallytree.run.options import PriorOptions
    from tallytree.run.prior import folder_of_run

    if run is None:
        return loaded
    if folder is None:
        raise ValueError("prior_run: its folder is one of those beside the folder of the release; name that by --out")
    if not issubclass(loaded.arguments_class, PriorOptions):
        raise ValueError(f"prior_run: {loaded.statistic} take no prior; leave it out")
    if loaded.table("prior") is not None:
        raise ValueError("prior_run: the spec names a prior; leave one of the two out")
    ledger = None if loaded.ledger_path is None else Ledger(loaded.ledger_path)
    return loaded.with_options(prior=str(folder_of_run(run, folder, ledger, loaded.dataset, loaded.run)))


def is_finished(loaded: Spec, output: Output, *, statistic: str | None = None) -> bool:
    """Whether the folder holds the finished run, which is to be skipped; then it says so."""
    found = loaded.finished(output, statistic=statistic)
    if found is None:
        return False
    known = "" if found.inputs == "same" else " Whether its input has changed since is not known."
    revised = "" if found.revised_by is None else f" Entry {found.revised_by} of the ledger revises it."
    line = f"{output.folder} holds the run {loaded.run!r}, finished. Nothing was done or spent.{revised}{known}"
    show_line(open_console(), line)
    return True


def show_end(console: Console, loaded: Spec, released: Release, out: Path) -> None:
    """Show what was protected and spent, how it was measured, what the ledger has left, and where the release is."""
    show_terms(console, released.statement)
    revises = released.statement["release"].get("revises")
    if revises is not None:
        show_line(console, f"Takes the place of the release {revises['id'][:8]} in {printable(revises['folder'])}.")
    if kind_of(released.statement).reconciled:  # else its one measurement is its table
        show_measurements(console, released.statement)
    if loaded.ledger_path is not None:
        from tallytree.cli.rendering.ledgers import show_account

        show_account(console, loaded.ledger_path, released.statement["ledger"]["dataset"])
    show_line(console, f"Release: {out}")


@contextmanager
def showing_what_is_paid(loaded: Spec, released: Release, out: Path) -> Iterator[None]:
    """A block that shows a release which is saved and paid for: what goes wrong in it is a warning.

    The disk of the log may be full, or the reader of a pipe gone. A command that failed for that would be repeated, and
    charged again.
    """
    try:
        yield
        flush_output()
    except Exception as error:  # noqa: BLE001  (any error here would look like a release that was not made)
        discard_output()
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        logs.warning(f"The summary could not be shown ({reason}). {_paid(loaded, released, out)}")
    except KeyboardInterrupt:
        logs.warning(f"The summary was not shown. {_paid(loaded, released, out)}")
        raise


def _paid(loaded: Spec, released: Release, out: Path) -> str:
    """That a release is whole, and where it and its entry in the ledger are."""
    whole = f"The release is whole, and paid for once: {out}"
    if loaded.ledger_path is None:
        return whole
    number = _entry_number(loaded.ledger_path, released)
    return f"{whole}, {'' if number is None else f'entry {number} of '}ledger {loaded.ledger_path}"


def _entry_number(ledger: Path, released: Release) -> int | None:
    """The number of a release in the ledger; None where the ledger cannot be read just now."""
    from tallytree.ledger import Ledger

    try:
        entries = Ledger(ledger).entries()
    except Exception:  # noqa: BLE001  (the warning is shown all the same)
        return None
    own = released.statement["release"]["id"]
    return next((entry.number for entry in entries if entry.release_id == own), None)
