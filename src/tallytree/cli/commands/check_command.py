"""`tallytree check`: what a spec would measure and publish, before it is paid for."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.opened_spec import opened_spec, with_prior_run
from tallytree.cli.rendering.statements import (
    show_measurements,
    show_noise,
    show_published,
    show_terms,
)
from tallytree.cli.rendering.terminal import open_console, printable, show_line
from tallytree.cli.shared_options import (
    AllowCodeOption,
    CheckedFolder,
    PriorRunOption,
    SetOption,
    SpecFile,
    takes_options_of_a_run,
)
from tallytree.kinds.registry import kind_of

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.numbers.accuracy.expected_errors import ExpectedError


@takes_options_of_a_run("approved_by", "reason", "ticket", "memory")
def check(
    context: typer.Context,
    spec: SpecFile,
    options: Mapping[str, Any],
    out: CheckedFolder = None,
    changes: SetOption = None,
    allow_code: AllowCodeOption = False,
    prior_run: PriorRunOption = None,
) -> None:
    """Show what SPEC.yaml would publish; spends nothing.

    The spec and its public tables are checked. No private row is read, and no ledger is written to.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.kinds.terms import AUTO
        from tallytree.numbers.accuracy.expected_errors import expected_errors
        from tallytree.release.risk_statement import weak_protection
        from tallytree.release.statement import described_statement

        loaded = opened_spec(context, spec, changes, allow_code=allow_code, **options)
        planned = with_prior_run(loaded, prior_run, out).check()
        statement = {**planned.statement, **planned.risk()}
        statement = described_statement(weak_protection(statement) | statement, planned.arguments.description)
        console = open_console()
        errors = None if statement["max_contributions"] == AUTO else expected_errors(planned)
        _show_numbers(console, statement, errors, spec)
        show_noise(console, statement)
        show_terms(console, statement)
        show_measurements(console, statement)
        if planned.expected_work:
            show_line(console, planned.expected_work)
        if planned.account is not None:
            from tallytree.cli.rendering.ledgers import account_line

            found = planned.account.check()
            show_line(console, account_line(found, planned.account.ledger.path))
            account = planned.account
            last = None
            if loaded.run is not None and account.ledger.path.exists():
                last = account.ledger.last_of_run(found.name, loaded.run)
            if last is not None:
                entry = f"entry {last.number}, {last.state}"
                again = "With the same secret and the same records it is made again free of charge."
                if account.on_changed == "charge" and last.state == "finished":
                    again = "It is finished, and changes are charged: another release of it is charged."
                show_line(console, f"The ledger has the run {loaded.run!r} as {entry}. {again}")
        show_line(console, f"{spec} is ready to be released. No private row was read, nothing was spent.")


def _show_numbers(
    console: Console, statement: Mapping[str, Any], errors: Sequence[ExpectedError] | None, spec: Path
) -> None:
    """Show what would be published, and how accurate that will be; `errors` are None where the bound is not known."""
    from tallytree.numbers.accuracy.expected_errors import CLOSED_FORMS, LEARNS, NO_ERRORS_OF_AUTO, unreliable_below
    from tallytree.views.report.wording import about

    known = [each for each in errors or () if each.half_width is not None]
    plan = f"tallytree plan {shlex.quote(printable(str(spec)))}"
    show_published(console, statement, accuracy={each.level: about(each.half_width or 0) for each in known})
    if errors is None:
        show_line(console, NO_ERRORS_OF_AUTO)
    elif len(known) < len(errors):
        show_line(
            console,
            f"How accurate they will be depends on the data: `{plan} --like PUBLIC` simulates it on public data.",
        )
    measured = [each for each in known if each.basis in CLOSED_FORMS]
    if measured:
        show_line(
            console,
            f"Nine of ten numbers that are not near 0 will be off by less than the accuracy; `{plan}` shows more.",
        )
        show_line(console, printable(unreliable_below(measured)))
        if kind_of(statement).has_attributes:
            show_line(console, LEARNS)
