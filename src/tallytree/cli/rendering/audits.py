"""The results of audits, at a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tallytree.cli.rendering.terminal import fitted_table, show_line

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.lab.audit import AuditResult
    from tallytree.lab.audit.library import Case
    from tallytree.lab.replay import Replay


def show_audits(console: Console, cases: Sequence[Case], results: Sequence[AuditResult], runs: int) -> None:
    """One row per audit, and how many passed."""
    from tallytree.lab.audit.auditing import DEFAULT_CONFIDENCE

    headings = ["mechanism", "neighboring", "m", "stated", "at least", "exact", "verdict"]
    rows = [
        [case.name, case.neighboring, str(case.max_contributions), *_result_cells(result)]
        for case, result in zip(cases, results, strict=True)
    ]
    console.print(fitted_table(console, headings, rows))
    passed = sum(result.passed for result in results)
    show_line(
        console,
        f"{passed} of {len(cases)} passed. Each lower bound is right with confidence "
        f"{DEFAULT_CONFIDENCE}, from {runs:,} runs; where noise is Gaussian, ε is at δ = 1e-06. "
        "docs/explanation/audit.md says what this shows.",
    )


def show_replay(console: Console, found: Replay) -> None:
    """What differed, and how many pairs were compared."""
    for fault in found.faults:
        show_line(console, fault)
    verdict = "nothing differs" if found.passed else f"{len(found.faults)} faults"
    show_line(
        console,
        f"{found.pairs} pairs of releases with equal noisy answers: {verdict}. {found.refused} more were refused, both "
        f"releases with the same words. Each of {len(found.covered)} values of options was in {found.least} pairs or "
        "more: a fault that shows in half of the pairs with a value is found with probability "
        f"{found.found_with(0.5):.1%} or more, in a tenth with {found.found_with(0.1):.1%}. docs/explanation/audit.md "
        "says what this shows.",
    )


def _result_cells(result: AuditResult) -> list[str]:
    """The stated loss, its lower bound, the exact loss, and the verdict."""
    losses: list[tuple[str, float, float | None, float | None]]
    losses = [("ε", result.epsilon_stated, result.epsilon_lower, result.exact_epsilon)]
    if result.rho_stated is not None and result.rho_lower is not None:
        losses.append(("ρ", result.rho_stated, result.rho_lower, result.exact_rho))
    elif result.exact_delta is not None:  # a threshold, whose loss is in δ
        losses.append(("δ", result.delta, None, result.exact_delta))
    columns = [[f"{name} {values[i]:.3g}" for name, *values in losses if values[i] is not None] for i in range(3)]
    return [*(", ".join(column) for column in columns), "passed" if result.passed else "FAILED"]
