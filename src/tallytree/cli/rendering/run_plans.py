"""What one of several runs may spend, at a terminal or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from tallytree._accounting.run_shares import RunShares
from tallytree._accounting.spending import Standing, granted, shown
from tallytree.cli.rendering.terminal import printable, show_line

if TYPE_CHECKING:
    from rich.console import Console


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


def run_shares_json(dataset: Standing, shares: RunShares) -> str:
    """The same as JSON, with exact amounts as text."""
    plain = {
        "dataset": dataset.name,
        "runs": shares.runs,
        "remaining": _exact(dataset.remaining or {}),
        "per_run": _exact(shares.exact),
        "asking": [{"amounts": _exact(each.amounts), "fits": each.fits, "note": each.note} for each in shares.asking],
    }
    return json.dumps(plain, indent=2, ensure_ascii=False)


def _exact(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
