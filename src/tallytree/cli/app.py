"""The program `tallytree`: its global options and its commands.

Results go to standard output; warnings, progress and errors to standard error. The modules of the commands import
NumPy, pyarrow and the like only when a command runs, so that help and shell completion are fast.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from tallytree.cli import logs
from tallytree.cli.commands.audit_command import audit
from tallytree.cli.commands.check_command import check
from tallytree.cli.commands.contributions_command import contributions
from tallytree.cli.commands.demo_command import demo
from tallytree.cli.commands.derive_command import derive_commands
from tallytree.cli.commands.error_command import show_errors
from tallytree.cli.commands.explore_command import explore
from tallytree.cli.commands.export_command import export
from tallytree.cli.commands.ledger_command import ledger_commands
from tallytree.cli.commands.limit_command import limit
from tallytree.cli.commands.lint_command import lint
from tallytree.cli.commands.plan_command import plan
from tallytree.cli.commands.reconcile_command import reconcile
from tallytree.cli.commands.registry_command import registry
from tallytree.cli.commands.release_command import release
from tallytree.cli.commands.report_command import report
from tallytree.cli.commands.reproduce_command import reproduce
from tallytree.cli.commands.secret_command import secret
from tallytree.cli.commands.total_command import total
from tallytree.cli.commands.warm_command import warm
from tallytree.cli.signals import ends_on_signals
from tallytree.cli.streams import prepare_streams

COMMANDS: dict[str, Callable[..., None] | typer.Typer] = {
    "release": release,
    "check": check,
    "lint": lint,
    "plan": plan,
    "contributions": contributions,
    "reconcile": reconcile,
    "error": show_errors,
    "total": total,
    "derive": derive_commands,
    "report": report,
    "explore": explore,
    "export": export,
    "registry": registry,
    "ledger": ledger_commands,
    "limit": limit,
    "secret": secret,
    "demo": demo,
    "audit": audit,
    "reproduce": reproduce,
    "warm": warm,
}
"""The commands and groups of commands, in the order of the help."""


class _InOrder(TyperGroup):
    """Lists the commands in their order; typer would list groups last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands."""
        return [*COMMANDS]


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


for _name, _command in COMMANDS.items():
    if isinstance(_command, typer.Typer):
        for _info in _command.registered_commands:
            _info.callback = logs.with_log_options(cast(Callable[..., None], _info.callback))
        app.add_typer(_command, name=_name)
    else:
        app.command(_name)(logs.with_log_options(_command))


@ends_on_signals
def main() -> None:
    """Run the command line."""
    prepare_streams()
    warnings.showwarning = _show_warning
    try:
        app(prog_name="tallytree")
    except KeyboardInterrupt:
        sys.exit(130)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning of the library as one line, without its place in the code."""
    logs.warning(str(message))
