"""The program `tallytree`: its global options and its commands.

Results go to standard output; warnings, progress and errors to standard error. The modules of the commands import
NumPy, pyarrow and the like only when a command runs, so that help and shell completion are fast.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tallytree.cli import logs
from tallytree.cli.commands.audit_command import audit
from tallytree.cli.commands.contributions_command import contributions
from tallytree.cli.commands.demo_command import demo
from tallytree.cli.commands.ledger_and_limit import ledger_commands, limit
from tallytree.cli.commands.reconcile_and_error import reconcile, show_errors
from tallytree.cli.commands.release_and_check import check, release
from tallytree.cli.commands.secret_command import secret
from tallytree.cli.signals import ends_on_signals


class _InOrder(TyperGroup):
    """Lists the commands in the order below; typer lists a group of commands, such as `ledger`, elsewhere."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands."""
        names = [name for name in super().list_commands(ctx) if name != "ledger"]
        names.insert(names.index("limit"), "ledger")
        return names


app = typer.Typer(
    name="tallytree",
    cls=_InOrder,
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
COMMANDS: dict[str, Callable[..., None]] = {
    "release": release,
    "check": check,
    "reconcile": reconcile,
    "error": show_errors,
    "contributions": contributions,
    "limit": limit,
    "demo": demo,
    "audit": audit,
}
GROUPS = {"ledger": ledger_commands, "secret": secret}
for _name, _command in COMMANDS.items():
    app.command(_name)(logs.with_log_options(_command))
for _name, _group in GROUPS.items():
    for _info in _group.registered_commands:
        _info.callback = logs.with_log_options(_info.callback) if _info.callback is not None else None
    app.add_typer(_group, name=_name)


@ends_on_signals
def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A label that the terminal cannot show must not make a paid release fail.
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    try:
        app(prog_name="tallytree")
    except KeyboardInterrupt:
        sys.exit(130)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning of the library as one line, without its place in the code."""
    logs.warning(str(message))
