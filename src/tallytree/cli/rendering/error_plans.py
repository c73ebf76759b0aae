"""Expected errors and risk before a release, at a terminal or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tallytree.cli.rendering.terminal import fitted_table, printable, show_line

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree._accuracy.error_plan import ErrorPlan
    from tallytree._accuracy.expected_errors import ExpectedError

Row = Mapping[str, Any]


def show_error_plan(console: Console, plan: ErrorPlan) -> None:
    """Show the errors at the plan's budget, then those of other budgets and mechanisms, then the risk."""
    from tallytree._accuracy.expected_errors import shown

    show_line(console, f"Expected errors by {plan.mechanism}, {_budget(plan.levels[0])}:", "bold")
    rows = [
        [
            printable(row["level"]),
            f"{row['nodes']:,}",
            *(shown(row[name]) or "not known" for name in ("std_dev", "half_width")),
            shown(row["expected_maximum"]) or ("not known" if row["basis"] != "noise only" else ""),
            row["basis"],
        ]
        for row in plan.levels
    ]
    headings = ["level", "nodes", "std dev", "90 % within ±", "expected maximum", "basis"]
    console.print(fitted_table(console, headings, rows))
    by_budget = {_budget(row): row for row in plan.table.to_pylist() if row["mechanism"] == plan.mechanism}
    _show_std_devs(console, plan, "budgets", [*by_budget], lambda row: _budget(row), own_mechanism=True)
    at_budget = [row for row in plan.table.to_pylist() if _budget(row) == _budget(plan.levels[0])]
    mechanisms = list(dict.fromkeys(row["mechanism"] for row in at_budget))
    _show_std_devs(console, plan, "mechanisms", mechanisms, lambda row: row["mechanism"], own_mechanism=False)
    show_line(console, f"Risk: {plan.statement['summary']} {plan.statement['attack']}")
    for note in plan.notes:
        show_line(console, printable(note))
    show_line(console, "No private data were opened. Nothing was spent.")


def _show_std_devs(
    console: Console, plan: ErrorPlan, what: str, columns: Sequence[str], column_of: Any, *, own_mechanism: bool
) -> None:
    """Show the standard deviation of every level, one column for each budget or mechanism; nothing for one alone."""
    if len(columns) < 2:
        return
    from tallytree._accuracy.expected_errors import shown

    own = plan.levels[0]
    found = {
        (row["level"], column_of(row)): row["std_dev"]
        for row in plan.table.to_pylist()
        if (row["mechanism"] == plan.mechanism if own_mechanism else _budget(row) == _budget(own))
    }
    show_line(console, f"Standard deviations by other {what}:", "bold")
    rows = [
        [printable(row["level"]), *(shown(found.get((row["level"], column))) or "not known" for column in columns)]
        for row in plan.levels
    ]
    console.print(fitted_table(console, ["level", *columns], rows))


def show_expected_errors(console: Console, errors: Sequence[ExpectedError]) -> None:
    """Show the expected standard deviation of every level in one line, where there is a closed form."""
    from tallytree._accuracy.expected_errors import CLOSED_FORMS, shown

    known = [each for each in errors if each.basis in CLOSED_FORMS]
    if known:
        figures = ", ".join(f"{printable(each.level)} {shown(each.std_dev)}" for each in known)
        show_line(console, f"Expected std dev of counts that are not near 0: {figures} (tallytree plan shows more).")


def error_plan_json(plan: ErrorPlan) -> str:
    """The same as JSON."""
    own = plan.levels[0]
    plain = {
        "budget": {name: own[name] for name in ("epsilon", "delta", "rho") if own[name] is not None},
        "mechanism": plan.mechanism,
        "errors": plan.table.to_pylist(),
        "risk": {**plan.statement, "by_budget": plan.risk.to_pylist()},
        "notes": list(plan.notes),
    }
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)


def _budget(row: Row) -> str:
    """A budget's amounts as a heading; δ is the same for all, and left out."""
    name = "rho" if row["epsilon"] is None else "epsilon"
    return f"{name} {row[name]:.4g}"
