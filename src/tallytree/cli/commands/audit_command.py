"""`tallytree audit`: lower bounds on the privacy loss of every mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.terminal import filled_columns, fitted_table, open_console, show_line
from tallytree.cli.shared_options import AllowCodeOption

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.kinds.mechanism import Mechanism
    from tallytree.lab.audit import AuditResult
    from tallytree.lab.audit.library import Case
    from tallytree.lab.replay import Replay


def audit(
    context: typer.Context,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism",
            metavar="NAME",
            help="Audit only this mechanism, such as TopDown; or one from outside: an installed one, or module:Class.",
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="An option of a mechanism from outside. May be repeated."),
    ] = None,
    allow_code: AllowCodeOption = False,
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
        _replay(context, pairs, seed, mechanism, options or (), allow_code=allow_code)
        return
    with errors_in_one_line(debug=context.obj):
        from tallytree.lab.audit.library import library_cases, mechanism_cases
        from tallytree.support.stages import audit_progress

        given: Any = _from_outside(mechanism, options or (), allow_code=allow_code)
        cases = library_cases(epsilon, mechanism) if given is None else mechanism_cases(given, epsilon)
        results = []
        with audit_progress(logs.show_bar(), len(cases)) as begin:
            for case in cases:
                begin(case.name)
                results.append(case.run(runs=runs))
        show_audits(open_console(), cases, results, runs)
    if not all(result.passed for result in results):
        raise typer.Exit(1)


def _from_outside(name: str | None, written: Sequence[str], *, allow_code: bool) -> Mechanism | None:
    """The mechanism from outside that a name and options are of; None for the library's own, which take no options.

    Raises:
        ValueError: options of no such mechanism, or not of the form KEY=VALUE; or see `named_mechanism`.
    """
    from tallytree.kinds.foreign import named_mechanism
    from tallytree.spec import MechanismSpec
    from tallytree.spec.document import read_scalar

    pairs = [each.partition("=") for each in written]
    for key, sign, _ in pairs:
        if not key or not sign:
            raise ValueError(f"option: {key[:80]!r} must be KEY=VALUE, such as level=county")
    options = {key.strip(): read_scalar(value, f"--option {key}") for key, _, value in pairs}
    found = None
    if name is not None:
        found = named_mechanism(name, MechanismSpec(name=name, options=options).options, allow_code=allow_code)
    if found is None and options:
        raise ValueError("option: it is of a mechanism from outside; name one with --mechanism, or leave it out")
    return found


def _replay(
    context: typer.Context, pairs: int, seed: int, mechanism: str | None, options: Sequence[str], *, allow_code: bool
) -> None:
    with errors_in_one_line(debug=context.obj):
        from tallytree.lab.replay import replay
        from tallytree.support.stages import audit_progress

        given: Any = _from_outside(mechanism, options, allow_code=allow_code)
        if mechanism is not None and given is None:
            raise ValueError(f"mechanism: {mechanism!r} is no mechanism from outside; a replay has all others at once")
        chosen = () if given is None else (given,)
        with audit_progress(logs.show_bar(), pairs) as begin:
            found = replay(pairs, seed=seed, mechanisms=chosen, begin=lambda number: begin("replay"))
        show_replay(open_console(), found)
    if not found.passed:
        raise typer.Exit(1)


def show_audits(console: Console, cases: Sequence[Case], results: Sequence[AuditResult], runs: int) -> None:
    """One row per audit, and how many passed."""
    from tallytree.lab.audit.auditing import DEFAULT_CONFIDENCE

    headings = ["mechanism", "neighboring", "m", "stated", "at least", "exact", "verdict"]
    rows = [
        [case.name, case.neighboring, str(case.max_contributions), *_result_cells(result)]
        for case, result in zip(cases, results, strict=True)
    ]
    broken = ("mechanism", "stated", "at least", "exact")
    console.print(fitted_table(console, *filled_columns(headings, rows), prose=broken))
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
