"""`tallytree audit`: lower bounds on the privacy loss of every mechanism."""

from __future__ import annotations

from typing import Annotated

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.audits import show_audits, show_replay
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
    replayed: Annotated[
        bool,
        typer.Option("--replay", help="Give neighboring data sets equal noisy answers, and compare all that is shown."),
    ] = False,
    pairs: Annotated[
        int,
        typer.Option("--pairs", metavar="NUMBER", help="With --replay: how many pairs of releases to compare.", min=1),
    ] = 500,
    seed: Annotated[
        int, typer.Option("--seed", metavar="NUMBER", help="With --replay: the seed of data and options.", min=0)
    ] = 0,
) -> None:
    """Test whether mechanisms lose more privacy than they state.

    Every mechanism runs many times on small neighboring inputs. The exit code is 1 if any lost more than it stated.
    No data is read. An audit takes minutes. With --replay, whole releases of random data are compared instead.
    """
    if replayed:
        _replay(context, pairs, seed)
        return
    with errors_in_one_line(debug=context.obj):
        from tallytree._progress import audit_progress
        from tallytree.lab.audit.library import library_cases

        cases = library_cases(epsilon, mechanism)
        results = []
        with audit_progress(logs.show_bar(), len(cases)) as begin:
            for case in cases:
                begin(case.name)
                results.append(case.run(runs=runs))
        show_audits(open_console(), cases, results, runs)
    if not all(result.passed for result in results):
        raise typer.Exit(1)


def _replay(context: typer.Context, pairs: int, seed: int) -> None:
    with errors_in_one_line(debug=context.obj):
        from tallytree._progress import audit_progress
        from tallytree.lab.replay import replay

        with audit_progress(logs.show_bar(), pairs) as begin:
            found = replay(pairs, seed=seed, begin=lambda number: begin("replay"))
        show_replay(open_console(), found)
    if not found.passed:
        raise typer.Exit(1)
