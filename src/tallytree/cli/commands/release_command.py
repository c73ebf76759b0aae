"""`tallytree release`: from a spec to a release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallytree.cli import logs
from tallytree.cli.commands.report_command import can_report, lacks_report, report_beside
from tallytree.cli.failures import errors_in_one_line, fail_if_broken
from tallytree.cli.opened_spec import is_finished, opened_spec, show_end, showing_what_is_paid, with_prior_run
from tallytree.cli.rendering.statements import (
    note_invariants,
    published_rows,
    say_repeated,
    show_drowned,
    show_noise,
    show_published,
)
from tallytree.cli.rendering.terminal import open_console, show_line
from tallytree.cli.shared_options import (
    AllowCodeOption,
    CsvOption,
    FallbackOption,
    IfExistsOption,
    PriorRunOption,
    ReleaseFolder,
    ReportOption,
    SetOption,
    SpecFile,
    takes_options_of_a_run,
)
from tallytree.support.stages import run_progress

if TYPE_CHECKING:
    from tallytree.release import Release
    from tallytree.spec import Spec


@takes_options_of_a_run()
def release(
    context: typer.Context,
    spec: SpecFile,
    out: ReleaseFolder,
    options: Mapping[str, Any],
    if_exists: IfExistsOption = "error",
    fallback_out: FallbackOption = None,
    changes: SetOption = None,
    allow_code: AllowCodeOption = False,
    csv: CsvOption = False,
    prior_run: PriorRunOption = None,
    report: ReportOption = True,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress and no summary, only warnings and invariants.")
    ] = False,
) -> None:
    """Release what SPEC.yaml describes; spends its budget."""
    with errors_in_one_line(debug=context.obj):
        from tallytree.support.machine import require_address_space

        require_address_space()  # compiled libraries cannot even be loaded in a very small one
        with run_progress(logs.show_bar(quiet=quiet)):
            from tallytree.release.surprises import surprises
            from tallytree.run.output import Output

            loaded = opened_spec(context, spec, changes, allow_code=allow_code, **options)
            loaded = with_prior_run(loaded, prior_run, out)
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
