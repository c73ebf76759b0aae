"""The program `tallytree`: its global options and its commands.

Results go to standard output; warnings, progress and errors to standard error. The modules of the commands import
NumPy, pyarrow and the like only when a command runs, so that help and shell completion are fast.
"""

from __future__ import annotations

import signal
import sys
import warnings
from typing import Annotated, Any

import typer

from tallytree.cli.commands.audit_command import audit
from tallytree.cli.commands.demo_command import demo
from tallytree.cli.commands.ledger_and_limit import limit, show_ledger
from tallytree.cli.commands.reconcile_and_error import reconcile, show_errors
from tallytree.cli.commands.release_and_check import check, release
from tallytree.cli.streams import prepare_streams

app = typer.Typer(
    name="tallytree",
    help="Differentially private counts over a public hierarchy, consistent at every level.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,  # they would print local variables, which are private data
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tallytree {version('tallytree')}")
        raise typer.Exit


@app.callback()
def _global_options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", envvar="TALLYTREE_DEBUG", hidden=True)] = False,
) -> None:
    context.obj = debug


# In the order of the help.
app.command()(release)
app.command()(check)
app.command()(reconcile)
app.command("error")(show_errors)
app.command("ledger")(show_ledger)
app.command()(limit)
app.command()(demo)
app.command()(audit)


def main() -> None:
    """Run the command line."""
    prepare_streams()
    warnings.showwarning = _show_warning
    # SIGTERM raises an exception, so that temporary folders with private rows are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app(prog_name="tallytree")
    except KeyboardInterrupt:
        sys.exit(130)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning of the library as one line, without its place in the code."""
    print(f"warning: {message}", file=sys.stderr)  # noqa: T201
