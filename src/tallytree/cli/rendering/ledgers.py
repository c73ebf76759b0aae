"""The data sets of a ledger, at a terminal or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallytree.accounting.amounts import float_up
from tallytree.accounting.spending import DataSet, Entry, granted, shown
from tallytree.cli.failures import in_one_line
from tallytree.cli.rendering.terminal import fitted_table, open_console, printable, show_line
from tallytree.ledger import Ledger

if TYPE_CHECKING:
    from rich.console import Console

_UNITS = {
    "person": ("record", "records"),
    "record": ("record", "records"),
    "trip": ("trip", "trips"),
    "membership": ("membership", "memberships"),
}


def show_datasets(console: Console, found: Sequence[DataSet]) -> None:
    """Show every data set with its terms, its releases in order, and what they spent together."""
    if not found:
        show_line(console, "The ledger is empty.")
    for position, dataset in enumerate(found):
        if position:
            show_line(console, "")
        show_line(console, f"{printable(dataset.name)}: {_terms(dataset)}; {_limit(dataset)}", "bold")
        if dataset.entries:
            headings = ["recorded (UTC)", "statistic", "mechanism", "spent", "in all", "state"]
            console.print(fitted_table(console, headings, [*_rows(dataset)]))
        show_line(console, f"{_standing(dataset)}.")


def show_account(console: Console, ledger: Path, dataset: str) -> None:
    """Show what a data set has spent and what is left.

    A release was saved or a limit was set before, so a ledger that cannot be read makes a warning and no error.
    """
    try:
        show_line(console, account_line(Ledger(ledger).dataset(dataset), ledger))
    except (OSError, ValueError) as error:
        show_line(open_console(stderr=True), f"The ledger cannot be shown: {in_one_line(str(error))}", "yellow")


def account_line(dataset: DataSet, ledger: Path) -> str:
    """What a data set has spent and what is left, in one line."""
    return f"Ledger: {ledger}: {printable(dataset.name)}: {_standing(dataset)}."


def ledger_json(found: Sequence[DataSet]) -> str:
    """The data sets as JSON; `docs/ledger.md` explains the keys."""
    return json.dumps([_plain(dataset) for dataset in found], indent=2, ensure_ascii=False, allow_nan=False)


def _terms(dataset: DataSet) -> str:
    if dataset.max_contributions is None:
        return f"{dataset.neighboring}, unit person"
    if dataset.unit is None:
        return f"{dataset.neighboring}, at most {dataset.max_contributions} per person"
    one, many = _UNITS[dataset.unit]
    if dataset.max_contributions == 1:
        return f"{dataset.neighboring}, one {one} per person"
    return f"{dataset.neighboring}, at most {dataset.max_contributions} {many} per person"


def _limit(dataset: DataSet) -> str:
    return "no limit" if dataset.limit is None else f"limit {shown(granted(dataset.limit))}"


def _standing(dataset: DataSet) -> str:
    releases = f"{len(dataset.entries)} release{'' if len(dataset.entries) == 1 else 's'}"
    spent = f"{releases} spent {shown(dataset.spent)}"
    if dataset.limit is None or dataset.remaining is None:
        return f"{spent}; no limit is set (`tallytree limit` sets one)"
    return f"{spent} of {shown(granted(dataset.limit))}; {shown(dataset.remaining, down=True)} is left"


def _rows(dataset: DataSet) -> list[list[str]]:
    return [
        [
            entry.recorded_at.replace("T", " ").rstrip("Z"),
            entry.statistic,
            entry.mechanism,
            shown(entry.loss.stated()),
            shown(so_far),
            entry.state,
        ]
        for entry, so_far in zip(dataset.entries, dataset.running_totals(), strict=True)
    ]


def _plain(dataset: DataSet) -> dict[str, Any]:
    return {
        "dataset": dataset.name,
        "neighboring": dataset.neighboring,
        "max_contributions": dataset.max_contributions,
        "unit": dataset.unit,
        "limit": None if dataset.limit is None else _floats(granted(dataset.limit)),
        "spent": _floats(dataset.spent),
        "remaining": None if dataset.remaining is None else _floats(dataset.remaining, down=True),
        "releases": [_plain_entry(entry) for entry in dataset.entries],
    }


def _plain_entry(entry: Entry) -> dict[str, Any]:
    exact = {"epsilon": entry.loss.epsilon, "delta": entry.loss.delta, "rho": entry.loss.rho}
    return {
        "number": entry.number,
        "recorded_at": entry.recorded_at,
        "statistic": entry.statistic,
        "mechanism": entry.mechanism,
        "state": entry.state,
        "spent": _floats(entry.loss.stated()),
        "exact": {name: str(amount) for name, amount in exact.items() if amount is not None},
    }


def _floats(amounts: Mapping[str, Fraction], *, down: bool = False) -> dict[str, float]:
    return {name: 0.0 - float_up(-amount) if down else float_up(amount) for name, amount in amounts.items()}
