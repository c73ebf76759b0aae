"""`tallytree ledger` and `tallytree limit`: what releases have spent, and what they may spend."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.terminal import open_console
from tallytree.cli.shared_options import DatasetOption, LedgerFile


def show_ledger(
    context: typer.Context,
    ledger: LedgerFile,
    dataset: DatasetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with exact amounts.")] = False,
) -> None:
    """List the releases in LEDGER, what they spent, and limits."""
    with errors_in_one_line(debug=context.obj):
        from tallytree.cli.rendering.ledgers import ledger_json, show_datasets
        from tallytree.ledger import Ledger

        opened = Ledger(ledger)
        found = opened.datasets() if dataset is None else (opened.dataset(dataset),)
        if as_json:
            typer.echo(ledger_json(found))
        else:
            show_datasets(open_console(), found)


def limit(
    context: typer.Context,
    ledger: LedgerFile,
    dataset: Annotated[str, typer.Argument(metavar="NAME", help="The data set's name in the ledger.")],
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
        typer.Option(metavar="NUMBER", help="The most records of one person; for a data set that is new, 1 if absent."),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(metavar="UNIT", help="record, trip or membership; if absent, that of the first release."),
    ] = None,
) -> None:
    """Set what all releases of a data set together may spend.

    LEDGER is made if it does not exist. Releases that it already has count too.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.budget import Budget
        from tallytree.cli.rendering.ledgers import show_account
        from tallytree.ledger import Ledger
        from tallytree.spec.scalars import written_number

        amounts: dict[str, Any] = {
            name: written_number(text, name)
            for name, text in (("epsilon", epsilon), ("delta", delta), ("rho", rho))
            if text is not None
        }
        if not amounts:
            raise ValueError(
                "epsilon: no amount is given; add --epsilon NUMBER, with --delta or without, or --rho NUMBER"
            )
        terms: dict[str, Any] = {"neighboring": neighboring, "max_contributions": max_contributions, "unit": unit}
        Ledger(ledger).set_limit(dataset, Budget(**amounts), **terms)
        show_account(open_console(), ledger, dataset)
