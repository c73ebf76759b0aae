"""`tallytree release` and `tallytree check`: from a spec to a release, or to what it would measure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallytree.cli import logs
from tallytree.cli.commands.report_command import can_report, lacks_report, report_beside
from tallytree.cli.failures import errors_in_one_line, fail_if_broken
from tallytree.cli.opened_spec import is_finished, opened_spec, show_end, showing_what_is_paid
from tallytree.cli.rendering.statements import (
    note_invariants,
    published_rows,
    say_repeated,
    show_drowned,
    show_measurements,
    show_noise,
    show_published,
    show_terms,
)
from tallytree.cli.rendering.terminal import open_console, printable, show_line
from tallytree.cli.shared_options import (
    AllowCodeOption,
    ApprovedByOption,
    CsvOption,
    DatasetOption,
    FallbackOption,
    IfExistsOption,
    LedgerOption,
    MemoryOption,
    OnChangedOption,
    ReasonOption,
    ReleaseFolder,
    ReportOption,
    RevisesOption,
    RunOption,
    SecretOption,
    SetOption,
    SpecFile,
    TicketOption,
)
from tallytree.kinds.registry import kind_of
from tallytree.support.progress import run_progress

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.numbers.accuracy.expected_errors import ExpectedError
    from tallytree.release import Release
    from tallytree.spec import Spec


def release(
    context: typer.Context,
    spec: SpecFile,
    out: ReleaseFolder,
    run: RunOption = None,
    secret: SecretOption = None,
    on_changed: OnChangedOption = None,
    revises: RevisesOption = None,
    if_exists: IfExistsOption = "error",
    fallback_out: FallbackOption = None,
    ledger: LedgerOption = None,
    dataset: DatasetOption = None,
    approved_by: ApprovedByOption = None,
    reason: ReasonOption = None,
    ticket: TicketOption = None,
    memory: MemoryOption = None,
    changes: SetOption = None,
    allow_code: AllowCodeOption = False,
    csv: CsvOption = False,
    report: ReportOption = True,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress and no summary, only warnings and invariants.")
    ] = False,
) -> None:
    """Release what SPEC.yaml describes; spends its budget."""
    with errors_in_one_line(debug=context.obj):
        from tallytree.support.address_space import require_address_space

        require_address_space()  # compiled libraries cannot even be loaded in a very small one
        with run_progress(logs.show_bar(quiet=quiet)):
            from tallytree.release.surprises import surprises
            from tallytree.run.output import Output

            options = {"ledger": ledger, "dataset": dataset, "run": run, "secret": secret, "on_changed": on_changed}
            options |= {"approved_by": approved_by, "reason": reason, "ticket": ticket}
            options |= {"memory": memory, "revises": revises}
            loaded = opened_spec(context, spec, changes, allow_code=allow_code, **options)
            output = Output(out, if_exists, fallback_out, csv, on_repeated=say_repeated)
            if is_finished(loaded, output):
                if report and lacks_report(out) and can_report():
                    show_line(open_console(), "It has no report; that is made now.")
                    report_beside(out, wanted=True)
                return
            released = loaded.release(output)
            report_beside(out, wanted=report)
        with showing_what_is_paid(loaded, released, out):
            for said in surprises(released, out):
                logs.warning(f"{said} Are the files and the period right? `tallytree lint` looks at the records.")
            if quiet:
                note_invariants(released.statement)
            else:
                _show_released(loaded, released, out)
    fail_if_broken(released.statement, out)


def _show_released(loaded: Spec, released: Release, out: Path) -> None:
    """The summary of a release."""
    console = open_console()
    show_published(console, released.statement, published_rows(out))
    show_drowned(console, released)
    show_noise(console, released.statement)
    show_end(console, loaded, released, out)


def check(
    context: typer.Context,
    spec: SpecFile,
    run: RunOption = None,
    secret: SecretOption = None,
    on_changed: OnChangedOption = None,
    revises: RevisesOption = None,
    ledger: LedgerOption = None,
    dataset: DatasetOption = None,
    changes: SetOption = None,
    allow_code: AllowCodeOption = False,
) -> None:
    """Show what SPEC.yaml would publish; spends nothing.

    The spec and its public tables are checked. No private row is read.
    """
    with errors_in_one_line(debug=context.obj):
        options = {"ledger": ledger, "dataset": dataset, "run": run, "secret": secret, "on_changed": on_changed}
        from tallytree.kinds.terms import AUTO
        from tallytree.numbers.accuracy.expected_errors import expected_errors
        from tallytree.release.described import described_statement
        from tallytree.release.risk_statement import weak_protection

        loaded = opened_spec(context, spec, changes, allow_code=allow_code, **options, revises=revises)
        planned = loaded.check()
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
