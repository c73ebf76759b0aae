"""What the releases of a ledger spent in each week, month or year: at a terminal, as JSON, and as a page to print."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any, get_args

from tallytree.accounting import epsilon_from_rho
from tallytree.accounting.losses import LossSums, float_up
from tallytree.accounting.periods import ALL_TIME, Window
from tallytree.accounting.risk import by_epsilon_delta, by_rho, rounded_up
from tallytree.accounting.run_shares import DELTA
from tallytree.accounting.spending import DataSet, granted, shown
from tallytree.budget import BudgetKind
from tallytree.cli.rendering.ledgers import limit_words, protected_words
from tallytree.cli.rendering.terminal import filled_columns, fitted_table, printable, show_line
from tallytree.ledger.books import Books
from tallytree.support.markup import html_table

if TYPE_CHECKING:
    from rich.console import Console

HEADINGS = ("window", "releases", "spent", f"as (ε, δ), δ = {float(DELTA):g}", "limit", "left")

FALSE_SUSPICIONS = 0.05
"""The share of others that the attacker on the page may suspect wrongly."""

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#111}"
    "table{border-collapse:collapse;width:100%;margin:1rem 0}th,td{text-align:left;padding:.25rem .6rem .25rem 0;"
    "border-bottom:1px solid #bbb;vertical-align:top}h2{margin:2rem 0 .3rem;font-size:1.15rem}"
    "@media print{body{margin:0}h2{break-after:avoid}}"
)


def show_windows(console: Console, books: Books, window: Window) -> None:
    """Show what the releases of each data set spent in every window that one of them meets."""
    for dataset in books.datasets.values():
        show_line(console, f"{printable(dataset.name)}: {protected_words(dataset)}; {limit_words(dataset)}", "bold")
        rows = [*window_rows(dataset, window)]
        if rows:
            console.print(fitted_table(console, *filled_columns(HEADINGS, rows), prose=HEADINGS))
        else:
            show_line(console, "No release yet.")
        for line in remarks(dataset):
            show_line(console, line)
        show_line(console, "")


def windows_json(books: Books, window: Window) -> str:
    """The same as JSON, with exact amounts as text."""
    plain = [
        {
            "dataset": dataset.name,
            "windows": [_plain(days, sums) for days, sums in _spent(dataset, window)],
            "without_period": dataset.dated.get(None, LossSums()).number,
        }
        for dataset in books.datasets.values()
    ]
    return json.dumps({"per": window.length, "datasets": plain}, indent=2, ensure_ascii=False)


def window_rows(dataset: DataSet, window: Window) -> Iterator[list[str]]:
    """A row for each window: its days, releases, sums in the terms of the limit and as (ε, δ), limit and rest."""
    limit = dataset.limit_of(window)
    for days, sums in _spent(dataset, window):
        kind = dataset.kind if limit is None else limit.kind
        spent = sums.stated(kind)
        left = {} if limit is None else {name: each - spent[name] for name, each in granted(limit).items()}
        yield [
            days,
            str(sums.number),
            shown(spent),
            _as_epsilon(sums),
            "" if limit is None else shown(granted(limit)),
            shown(left, down=True),
        ]


def remarks(dataset: DataSet) -> list[str]:
    """What to know of the sums."""
    undated = dataset.dated.get(None, LossSums()).number
    if not undated:
        return []
    return [
        "1 release has no period, so it counts in every window."
        if undated == 1
        else f"{undated} releases have no period, so they count in every window."
    ]


def board_page(books: Books) -> str:
    """A page about what was spent, for a privacy board: a section a data set; everything in it is escaped."""
    sections = "".join(_section(dataset) for dataset in books.datasets.values())
    text = (
        "Sums are exact and rounded up. A limit of a window counts every release whose period has a day in common with "
        "it. It protects what a person has in that window if each release was made of records of its period alone, "
        "which the publisher states. Over several windows, the losses add up."
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Privacy budget report</title>'
        f"<style>{_STYLE}</style></head><body><h1>Privacy budget report</h1><p>{escape(text)}</p>{sections}"
        f"<p>Digest of the ledger: <code>{escape(books.head)}</code></p></body></html>\n"
    )


def _section(dataset: DataSet) -> str:
    facts = [f"Protected: {protected_words(dataset)}.", f"In force: {limit_words(dataset)}.", *remarks(dataset)]
    facts += _attack_words(dataset)
    parts = [f"<h2>{escape(dataset.name)}</h2>", *(f"<p>{escape(fact)}</p>" for fact in facts)]
    parts.append(_html_table("All time", [*window_rows(dataset, ALL_TIME)]))
    shown_windows = [*dataset.window_limits] or [Window("year")]
    parts += [_html_table(f"In {window.words}", [*window_rows(dataset, window)]) for window in shown_windows]
    parts.append("<p>Approved by (name, office, date, signature): ______________________________</p>")
    return "".join(parts)


def _attack_words(dataset: DataSet) -> list[str]:
    """What an attacker can find out from all releases together, in a sentence; none before the first release."""
    sums = dataset.sums
    bounds = [by_rho(float_up(sums.rho), FALSE_SUSPICIONS)] if sums.countable("zcdp") else []
    if sums.countable("approximate"):
        bounds.append(by_epsilon_delta(float_up(sums.epsilon), float_up(sums.delta), FALSE_SUSPICIONS))
    if not sums.number or not bounds:
        return []
    hidden = "is in the data" if dataset.neighboring == "add_remove" else "has one content or another"
    return [
        f"What an attacker learns: somebody who has all {sums.number:,} releases, knows everything about everybody "
        f"else, and accepts {FALSE_SUSPICIONS:.0%} of false suspicions, finds out whether what is protected {hidden} "
        f"in at most {math.ceil(100 * rounded_up(min(bounds)))} of 100 cases; blind guessing finds it out in "
        f"{FALSE_SUSPICIONS:.0%}. This holds for the protected unit above, and while the secret noise keys stay secret."
    ]


def _html_table(caption: str, rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return f"<p>{escape(caption)}: nothing was spent.</p>"
    return html_table(caption, *filled_columns(HEADINGS, rows), most=None)


def _spent(dataset: DataSet, window: Window) -> list[tuple[str, LossSums]]:
    if window == ALL_TIME:
        return [("all time", dataset.sums)]
    return [(str(days), sums) for days, sums in dataset.spent_in(window)]


def _as_epsilon(sums: LossSums) -> str:
    """The sums as ε at the δ of the heading, from ρ; empty where some release has no ρ, or nothing was spent."""
    if not sums.countable("zcdp") or not sums.rho:
        return ""
    return shown({"epsilon": epsilon_from_rho(sums.rho, DELTA, "zcdp")})


def _plain(days: str, sums: LossSums) -> dict[str, Any]:
    exact: dict[str, Fraction] = {}
    for kind in get_args(BudgetKind):
        if sums.countable(kind):
            exact |= sums.stated(kind)
    epsilon = _as_epsilon(sums)
    return {
        "window": days,
        "releases": sums.number,
        "exact": {name: str(amount) for name, amount in exact.items()},
        "as_epsilon_delta": None if not epsilon else {"epsilon": epsilon.split()[1], "delta": f"{float(DELTA):g}"},
    }
