"""`tallytree ledger` and its commands `plan` and `report`: what is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tallytree.cli.commands.limit_command import amounts_of
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.terminal import open_console, show_line
from tallytree.cli.shared_options import DatasetOption, LedgerFile

if TYPE_CHECKING:
    from tallytree.ledger.books import Books

_LISTING = "show"
"""The command of the group that stands for the group itself."""


class ListingByDefault(TyperGroup):
    """`tallytree ledger LEDGER` lists a ledger; only a first word that is a command's name is a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the listing's name before what names no command."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_LISTING, *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


ledger_commands = typer.Typer(
    cls=ListingByDefault,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List the releases in LEDGER, what they spent, and limits.\n\n"
    "`tallytree ledger LEDGER` is short for `tallytree ledger show LEDGER`. A file that has the name of a command is "
    "reached as ./NAME.",
)

JsonOption = Annotated[bool, typer.Option("--json", help="As JSON, with exact amounts.")]


@ledger_commands.command(_LISTING)
def show_ledger(
    context: typer.Context,
    ledger: LedgerFile,
    dataset: DatasetOption = None,
    period: Annotated[
        str | None,
        typer.Option(metavar="WINDOW", help="week, month or year: what each of them spent, in place of the entries."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the releases in LEDGER, what they spent, and limits.

    The word `show` can be left out.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.accounting.periods import Window, named_length
        from tallytree.cli.rendering.ledgers import ledger_json, show_books
        from tallytree.cli.rendering.windows import show_windows, windows_json

        books = _books(ledger, dataset)
        if period is not None:
            window = Window(named_length(period, "period"))
            if as_json:
                typer.echo(windows_json(books, window))
            else:
                show_windows(open_console(), books, window)
        elif as_json:
            typer.echo(ledger_json(books))
        else:
            show_books(open_console(), books)


@ledger_commands.command("report")
def write_board_page(
    context: typer.Context,
    ledger: LedgerFile,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The page to write; it must not exist.")],
    dataset: DatasetOption = None,
) -> None:
    """Write a page about what was spent, to print, for a privacy board."""
    with errors_in_one_line(debug=context.obj):
        from tallytree.cli.rendering.windows import board_page
        from tallytree.support.whole_files import write_whole

        books = _books(ledger, dataset)
        try:
            write_whole(out, board_page(books), replace=False)
        except FileExistsError:
            raise FileExistsError(f"out: {str(out)!r} exists; choose another name, or move it away") from None
        show_line(open_console(), f"Report: {out}")


@ledger_commands.command("plan")
def plan_runs(
    context: typer.Context,
    ledger: LedgerFile,
    dataset: Annotated[str, typer.Option("--dataset", metavar="NAME", help="The data set's name in the ledger.")],
    runs: Annotated[int, typer.Option(metavar="NUMBER", help="How many runs are to fit into what is left.")],
    delta: Annotated[
        str, typer.Option(metavar="NUMBER", help="δ of a run that asks for ε and δ where the limit is one in ρ.")
    ] = "1e-8",
    as_json: JsonOption = False,
) -> None:
    """Show what each of several equal runs may spend.

    All of them then fit into what is left.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.accounting.run_shares import run_shares
        from tallytree.cli.rendering.ledgers import run_shares_json, show_run_shares
        from tallytree.ledger import Ledger
        from tallytree.support.validate import integer

        number = integer(runs, "runs", least=1, most=10**6)
        asked = amounts_of(delta=delta)["delta"]
        found = Ledger(ledger).standing(dataset)
        shares = run_shares(found, number, asked)
        if as_json:
            typer.echo(run_shares_json(found, shares))
        else:
            show_run_shares(open_console(), found, shares)


def _books(ledger: Path, dataset: str | None) -> Books:
    """All that a ledger holds, or what it holds of one data set."""
    from dataclasses import replace

    from tallytree.ledger import Ledger, checked_name

    opened = Ledger(ledger)
    books = opened.contents()
    if dataset is None:
        return books
    found = books.known(checked_name(dataset), opened.path)
    return replace(books, datasets={found.name: found})
