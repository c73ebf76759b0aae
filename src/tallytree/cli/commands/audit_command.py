"""`tallytree audit`: lower bounds on the privacy loss of every mechanism."""

from __future__ import annotations

from typing import Annotated

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.audits import show_audits
from tallytree.cli.rendering.terminal import open_console


def audit(
    context: typer.Context,
    mechanism: Annotated[
        str | None, typer.Option("--mechanism", metavar="NAME", help="Audit only this mechanism, such as TopDown.")
    ] = None,
    epsilon: Annotated[
        float, typer.Option("--epsilon", metavar="NUMBER", help="The privacy loss that the mechanisms state.")
    ] = 1.0,
    runs: Annotated[
        int, typer.Option("--runs", metavar="NUMBER", help="How many times each mechanism measures each input.")
    ] = 50_000,
) -> None:
    """Test whether mechanisms lose more privacy than they state.

    Every mechanism runs many times on small neighboring inputs. The exit code is 1 if any lost more than it stated.
    No data is read. An audit takes minutes.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.audit.library import library_cases
        from tallytree.progress import audit_progress

        cases = library_cases(epsilon, mechanism)
        results = []
        with audit_progress(logs.show_bar(), len(cases)) as begin:
            for case in cases:
                begin(case.name)
                results.append(case.run(runs=runs))
        show_audits(open_console(), cases, results, runs)
    if not all(result.passed for result in results):
        raise typer.Exit(1)
