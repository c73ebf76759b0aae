"""The data sets of a ledger, at a terminal or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallytree.accounting.losses import float_up
from tallytree.accounting.periods import ALL_TIME, Window
from tallytree.accounting.run_shares import RunShares
from tallytree.accounting.spending import Approval, DataSet, Entry, LimitEntry, Standing, granted, shown
from tallytree.budget import Budget
from tallytree.cli import logs
from tallytree.cli.logs import in_one_line
from tallytree.cli.rendering.terminal import filled_columns, fitted_table, printable, show_line
from tallytree.ledger import Ledger
from tallytree.ledger.books import Books

if TYPE_CHECKING:
    from rich.console import Console


_SHORT = 8
"""How many digits of an id or a digest are shown."""

_BROKEN = ("recorded (UTC)", "spent", "in all", "run", "period")
"""Columns whose cells may be broken at spaces."""


def show_books(console: Console, books: Books) -> None:
    """Show every data set with its terms, its releases and limits in order, and what they spent; then the head."""
    if not books.datasets:
        show_line(console, "The ledger is empty.")
    for dataset in books.datasets.values():
        show_line(console, f"{printable(dataset.name)}: {protected_words(dataset)}; {limit_words(dataset)}", "bold")
        if dataset.entries or dataset.limits:
            console.print(fitted_table(console, *_table(dataset), prose=_BROKEN))
        for line in _approvals(dataset):
            show_line(console, line)
        show_line(console, f"{_standing(dataset)}.")
        show_line(console, "")
    if books.strict:
        show_line(console, "Strict: releases of data sets without a limit are refused.")
    show_line(console, f"Head: {books.head}")


def show_account(console: Console, ledger: Path, dataset: str) -> None:
    """Show what a data set has spent and what is left.

    A release was saved or a limit was set before, so a ledger that cannot be read makes a warning and no error.
    """
    try:
        show_line(console, account_line(Ledger(ledger).standing(dataset), ledger))
    except (OSError, ValueError) as error:
        logs.warning(f"The ledger cannot be shown: {in_one_line(str(error))}")


def account_line(dataset: Standing, ledger: Path) -> str:
    """What a data set has spent and what is left, in one line."""
    return f"Ledger: {ledger}: {printable(dataset.name)}: {_standing(dataset)}."


def ledger_json(books: Books) -> str:
    """The ledger as JSON: what is spent is rounded up, what remains is rounded down, and `exact` has the fractions."""
    plain = {
        "strict": books.strict,
        "events": books.events,
        "head": books.head,
        "datasets": [_plain(dataset) for dataset in books.datasets.values()],
    }
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)


def protected_words(dataset: Standing) -> str:
    """The neighboring relation and what is protected."""
    most = dataset.max_contributions
    if dataset.unit == "person":
        stated = "" if most is None else f" of up to {most} record{'' if most == 1 else 's'}"
        return f"{dataset.neighboring}, unit person{stated}"
    if dataset.unit is None:
        return f"{dataset.neighboring}, at most {most} per person"
    one, many = dataset.unit, f"{dataset.unit}s"
    return f"{dataset.neighboring}, {f'one {one}' if most == 1 else f'at most {most} {many}'} per person"


def limit_words(dataset: Standing) -> str:
    """The limits that hold."""
    limits = {} if dataset.limit is None else {ALL_TIME: dataset.limit}
    stated = [_amount(window, limit) for window, limit in (limits | dataset.window_limits).items()]
    return f"limit {'; '.join(stated)}" if stated else "no limit"


def _amount(window: Window, limit: Budget) -> str:
    """The amounts of a limit, and what it is of."""
    return shown(granted(limit)) + ("" if window == ALL_TIME else f" in {window.words}")


def _standing(dataset: Standing) -> str:
    releases = f"{dataset.sums.number} release{'' if dataset.sums.number == 1 else 's'}"
    spent = f"{releases} spent {shown(dataset.spent)}"
    if dataset.limit is None or dataset.remaining is None:
        left = "no limit is set for all time" if dataset.limits else "no limit is set"
        return f"{spent}; {left} (`tallytree limit` sets one){_fullest(dataset)}"
    limit = shown(granted(dataset.limit))
    return f"{spent} of {limit}; {shown(dataset.remaining, down=True)} is left{_fullest(dataset)}"


def _fullest(dataset: Standing) -> str:
    """Of every limit of a window of time, the window in which most was spent; before the first release the limit."""
    found = []
    for window, limit in dataset.window_limits.items():
        if not dataset.sums.number:
            found.append(f"; at most {_amount(window, limit)}")
            continue
        name = next(iter(granted(limit)))
        days, most = max(window.sums(dataset.dated), key=lambda each: each[1].stated(limit.kind)[name])
        where = "in any window" if days is None else f"most in {days}:"
        spent = shown(most.stated(limit.kind))
        found.append(f"; {where} {spent} of the {shown(granted(limit))} of {window.words}")
    return "".join(found)


def _table(dataset: DataSet) -> tuple[list[str], list[list[str]]]:
    """The headings, and a row for every release and limit in order; columns that are empty everywhere are left out."""
    headings = ["entry", "recorded (UTC)", "statistic", "mechanism", "m", "spent", "in all", "state"]
    headings += ["run", "period", "release", "revises", "plan"]
    rows = [(limit.position, _limit_row(limit)) for limit in dataset.limits]
    for entry, so_far in zip(dataset.entries, dataset.running_totals(), strict=True):
        rows.append((entry.position, _release_row(entry, so_far)))
    return filled_columns(headings, [row for _, row in sorted(rows)])


def _release_row(entry: Entry, so_far: Mapping[str, Fraction]) -> list[str]:
    return [
        str(entry.number),
        _when(entry.recorded_at),
        entry.statistic,
        entry.mechanism,
        "any" if entry.protects_all_records else str(entry.max_contributions),
        shown(entry.loss.stated()),
        shown(so_far),
        entry.state,
        printable(entry.run or ""),
        "" if entry.period is None else str(entry.period),
        entry.release_id[:_SHORT],
        (entry.revises or "")[:_SHORT],
        (entry.plan or "")[:_SHORT],
    ]


def _limit_row(limit: LimitEntry) -> list[str]:
    amount = f"at most {_amount(limit.window, limit.limit)}"
    return ["limit", _when(limit.set_at), "", "", "", "", amount, "raised" if limit.raised else "set", *[""] * 5]


def _when(time: str) -> str:
    return time.replace("T", " ").rstrip("Z")


def _approvals(dataset: DataSet) -> list[str]:
    """Who approved what, and why: a line for each release and limit that has an approval."""
    known = [(each.position, f"Limit of {_when(each.set_at)}", each.approval) for each in dataset.limits]
    known += [(each.position, f"Entry {each.number}", each.approval) for each in dataset.entries]
    return [
        f"{name}: {_approval(approval)}." for _, name, approval in sorted(known, key=itemgetter(0)) if approval.stated()
    ]


def _approval(approval: Approval) -> str:
    words = {"approved_by": "approved by", "ticket": "ticket", "reason": "reason:"}
    stated = approval.stated()
    return "; ".join(f"{word} {printable(stated[name])}" for name, word in words.items() if name in stated)


def _plain(dataset: DataSet) -> dict[str, Any]:
    return {
        "dataset": dataset.name,
        "neighboring": dataset.neighboring,
        "max_contributions": dataset.max_contributions,
        "unit": dataset.unit,
        "limit": None if dataset.limit is None else _floats(granted(dataset.limit)),
        "spent": _floats(dataset.spent),
        "remaining": None if dataset.remaining is None else _floats(dataset.remaining, down=True),
        "window_limits": {str(window): _floats(granted(each)) for window, each in dataset.window_limits.items()},
        "limits": [_plain_limit(limit) for limit in dataset.limits],
        "releases": [_plain_entry(entry) for entry in dataset.entries],
    }


def _plain_limit(limit: LimitEntry) -> dict[str, Any]:
    return {
        "event": limit.position,
        "set_at": limit.set_at,
        "limit": _floats(granted(limit.limit)),
        "exact": {name: str(amount) for name, amount in granted(limit.limit).items()},
        "window": str(limit.window),
        "raised": limit.raised,
        **asdict(limit.approval),
    }


def _plain_entry(entry: Entry) -> dict[str, Any]:
    exact = {"epsilon": entry.loss.epsilon, "delta": entry.loss.delta, "rho": entry.loss.rho}
    return {
        "number": entry.number,
        "event": entry.position,
        "recorded_at": entry.recorded_at,
        "release_id": entry.release_id,
        "run": entry.run,
        "period": None if entry.period is None else str(entry.period),
        "revises": entry.revises,
        "prior": None if entry.prior is None else dict(entry.prior),
        "plan": entry.plan,
        "statistics": entry.statistics,
        "inputs": entry.inputs,
        "statistic": entry.statistic,
        "mechanism": entry.mechanism,
        "max_contributions": entry.max_contributions,
        "unit": entry.unit,
        "state": entry.state,
        "spent": _floats(entry.loss.stated()),
        "exact": {name: str(amount) for name, amount in exact.items() if amount is not None},
        **asdict(entry.approval),
        "version": entry.version,
    }


def _floats(amounts: Mapping[str, Fraction], *, down: bool = False) -> dict[str, float]:
    return {name: 0.0 - float_up(-amount) if down else float_up(amount) for name, amount in amounts.items()}


def show_run_shares(console: Console, dataset: Standing, shares: RunShares) -> None:
    """Show what is left, what one of the runs may spend, and what it may ask for in every kind of terms."""
    left, runs = dataset.remaining or {}, shares.runs
    limit = "" if dataset.limit is None else f" of the limit {shown(granted(dataset.limit))}"
    show_line(console, f"{printable(dataset.name)}: {shown(left, down=True)} is left{limit}.", "bold")
    of_runs = "The one run" if runs == 1 else f"Each of {runs} runs"
    exact = ", ".join(f"{name} {amount}" for name, amount in shares.exact.items())
    show_line(console, f"{of_runs} may spend {shown(shares.exact, down=True)} (exactly {exact}). It may ask for:")
    for each in shares.asking:
        verdict = "fits" if each.fits else "does not fit"
        show_line(console, f"  {shown(each.amounts, down=True)}: {verdict}{f' ({each.note})' if each.note else ''}")
    if dataset.window_limits:
        limits = "; ".join(_amount(window, limit) for window, limit in dataset.window_limits.items())
        show_line(console, f"This is the limit of all time alone. Each run also has to fit into its windows: {limits}.")


def run_shares_json(dataset: Standing, shares: RunShares) -> str:
    """The same as JSON, with exact amounts as text."""
    plain = {
        "dataset": dataset.name,
        "runs": shares.runs,
        "remaining": _exact(dataset.remaining or {}),
        "per_run": _exact(shares.exact),
        "window_limits": {str(window): _exact(granted(each)) for window, each in dataset.window_limits.items()},
        "asking": [{"amounts": _exact(each.amounts), "fits": each.fits, "note": each.note} for each in shares.asking],
    }
    return json.dumps(plain, indent=2, ensure_ascii=False)


def _exact(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
