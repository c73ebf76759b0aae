"""`tallytree limit`: what releases of a data set together may spend."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

import typer

from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.terminal import open_console, show_line
from tallytree.cli.shared_options import LedgerFile

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
        amounts = amounts_of(epsilon=epsilon, delta=delta, rho=rho)
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


def amounts_of(**given: str | None) -> dict[str, Fraction]:
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
