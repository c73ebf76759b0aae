"""`tallytree ledger`, its commands `plan` and `report`, and `tallytree limit`: what is spent, and what may be spent."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

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
UnitOption = Annotated[
    str | None,
    typer.Option(metavar="UNIT", help="person (if absent), or record, trip or membership for one statistic alone."),
]
StrictOption = Annotated[
    bool | None,
    typer.Option(
        "--strict/--no-strict",
        help="Refuse releases of data sets without a limit; --strict is the default of a ledger that is made here.",
    ),
]


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
        asked = _amounts(delta=delta)["delta"]
        found = Ledger(ledger).standing(dataset)
        shares = run_shares(found, number, asked)
        if as_json:
            typer.echo(run_shares_json(found, shares))
        else:
            show_run_shares(open_console(), found, shares)


def limit(
    context: typer.Context,
    ledger: LedgerFile,
    dataset: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The data set's name in the ledger.", show_default=False),
    ] = None,
    epsilon: Annotated[str | None, typer.Option(metavar="NUMBER", help="ε, alone or with --delta.")] = None,
    delta: Annotated[str | None, typer.Option(metavar="NUMBER", help="δ, with --epsilon.")] = None,
    rho: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="ρ, alone; it counts every kind of release.")
    ] = None,
    neighboring: Annotated[
        str | None,
        typer.Option(metavar="RELATION", help="add_remove or change_one; required for a data set that is new."),
    ] = None,
    max_contributions: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="The most records of one person, below which no release may be; else each has its own.",
        ),
    ] = None,
    unit: UnitOption = None,
    per: Annotated[
        str,
        typer.Option(
            metavar="WINDOW",
            help="all, or each week, month or year: what the releases about its days may spend. Several limits hold at "
            "once.",
        ),
    ] = "all",
    rolling: Annotated[
        bool, typer.Option("--rolling", help="Of any 7, 31 or 366 days that follow each other.")
    ] = False,
    begins: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="A day on which a window begins; else they follow the calendar."),
    ] = None,
    strict: StrictOption = None,
    approved_by: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who approved it; the ledger keeps it.")
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why; needed to raise a limit.")] = None,
    ticket: Annotated[str | None, typer.Option(metavar="TEXT", help="A reference, such as a ticket's number.")] = None,
) -> None:
    """Set what releases of a data set together may spend.

    In all, or in each week, month or year. LEDGER is made if it does not exist. Releases that it already has count too.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.accounting.periods import named_day, named_length
        from tallytree.accounting.spending import Approval
        from tallytree.budget import Budget
        from tallytree.cli.rendering.ledgers import show_account
        from tallytree.ledger import Ledger

        opened, approval = Ledger(ledger), Approval(approved_by=approved_by, reason=reason, ticket=ticket)
        amounts = _amounts(epsilon=epsilon, delta=delta, rho=rho)
        if dataset is None:
            if strict is None or amounts:
                raise ValueError("dataset: no data set is named; give its name after the ledger")
            if not strict and reason is None:
                raise ValueError("strict: the ledger is to refuse less; say why (--reason)")
            opened.set_strict(strict, approval=approval)
            show_line(open_console(), f"Ledger: {ledger}: {'strict' if strict else 'not strict any more'}.")
            return
        if not amounts:
            raise ValueError(
                "epsilon: no amount is given; add --epsilon NUMBER, with --delta or without, or --rho NUMBER"
            )
        terms: dict[str, Any] = {"neighboring": neighboring, "max_contributions": max_contributions, "unit": unit}
        terms |= {"per": named_length(per), "rolling": rolling, "begins": named_day(begins, "begins")}
        opened.set_limit(dataset, Budget(**amounts), **terms, strict=strict, approval=approval)
        show_account(open_console(), ledger, dataset)


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


def _amounts(**given: str | None) -> dict[str, Fraction]:
    """The amounts that are given, by name.

    Raises:
        ValueError: one of them is no amount, or does not go with the others; the message has it as it was written.
    """
    from tallytree.spec.scalars import written_number

    amounts = {name: written_number(text, name) for name, text in given.items() if text is not None}
    for name, amount in amounts.items():
        if amount <= 0:
            raise ValueError(f"{name}: {given[name]} must be greater than 0")
    if amounts.get("delta", 0) >= 1:
        raise ValueError(f"delta: {given['delta']} must lie strictly between 0 and 1 (for instance 1e-8)")
    if "rho" in amounts and len(amounts) > 1:
        other = "delta" if "delta" in amounts else "epsilon"
        raise ValueError(f"{other}: {given[other]} has no place beside --rho; give one or the other")
    if "delta" in amounts and "epsilon" in given and "epsilon" not in amounts:
        raise ValueError(f"epsilon: none is given beside the delta {given['delta']}; add --epsilon NUMBER")
    return amounts
