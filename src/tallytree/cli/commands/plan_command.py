"""`tallytree plan`: the expected errors and the risk of a spec, before it is paid for."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.terminal import open_console, show_line
from tallytree.cli.shared_options import SetOption, SpecFile

if TYPE_CHECKING:
    from tallytree._accuracy.error_plan import ErrorPlan


def plan(
    context: typer.Context,
    spec: SpecFile,
    epsilons: Annotated[
        list[str] | None,
        typer.Option("--epsilon", metavar="NUMBER", help="An epsilon to compare with; may be given several times."),
    ] = None,
    mechanisms: Annotated[
        list[str] | None,
        typer.Option("--mechanism", metavar="NAME", help="A mechanism to compare with; may be given several times."),
    ] = None,
    targets: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="LEVEL=STD_DEV",
            help="A wanted standard deviation, such as county=50; may be given several times. The budget is then the "
            "least that gives all of them.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="PATH",
            help="Public stand-in data to simulate on: the folder of a release, or a public table.",
        ),
    ] = None,
    replicates: Annotated[
        int | None, typer.Option("--replicates", metavar="NUMBER", help="The number of replicates of a simulation.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="NUMBER", help="Makes a simulation reproducible.")
    ] = None,
    write_spec: Annotated[
        Path | None,
        typer.Option(
            "--write-spec", metavar="OUT.yaml", help="Write the spec with the budget of the plan, in its folder."
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Draw the errors in an .svg or .html file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    changes: SetOption = None,
) -> None:
    """Show the expected errors of SPEC.yaml; spends nothing.

    Also the risk, at several budgets and by several mechanisms. Only the spec and its public tables are read. The
    private table need not exist.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree._accuracy.simulated_errors import DEFAULT_REPLICATES
        from tallytree.cli.rendering.error_plans import error_plan_json, show_error_plan
        from tallytree.cli.rendering.plan_picture import check_picture, save_picture
        from tallytree.spec.planned_errors import parsed_target, wanted_numbers
        from tallytree.spec.planned_errors import plan as planned_errors

        if picture is not None:
            check_picture(picture)
        if write_spec is not None:
            _check_written(spec, write_spec, changes)
        found = planned_errors(
            spec,
            epsilons=None if not epsilons else wanted_numbers(epsilons, "epsilon"),
            mechanisms=mechanisms or None,
            target=None if not targets else dict(_distinct([parsed_target(each) for each in targets])),
            like=like,
            replicates=DEFAULT_REPLICATES if replicates is None else replicates,
            seed=seed,
            changes=changes or (),
            progress=logs.show_bar(),
        )
        console = open_console()
        if as_json:
            typer.echo(error_plan_json(found))
        else:
            show_error_plan(console, found)
        if picture is not None:
            save_picture(found, picture)
            logs.note(f"Picture: {picture}", event="picture")
        if write_spec is not None:
            _write(spec, write_spec, found)
            logs.note(f"Spec: {write_spec}", event="spec")
        elif targets and not as_json:
            show_line(console, f"{_change(found)} in the spec gives the targets (--write-spec writes it).")


def _check_written(spec: Path, out: Path, changes: list[str] | None) -> None:
    """Refuse a place that the spec cannot be written to, before anything is computed.

    Raises:
        ValueError: another folder, to which the paths in the spec are not relative; or changes, which are in no file.
        FileExistsError: something is there.
    """
    if changes:
        raise ValueError("write_spec: a spec with --set is in no file; write the changes into the spec first")
    if out.absolute().parent.resolve() != spec.absolute().parent.resolve():
        raise ValueError(
            f"write_spec: {str(out)!r} must be in the folder of the spec, {str(spec.parent)!r}, since paths in a spec "
            "are relative to its folder"
        )
    if out.exists():
        raise FileExistsError(f"write_spec: {str(out)!r} exists; choose another name, or remove it first")


def _write(spec: Path, out: Path, found: ErrorPlan) -> None:
    """Write the spec with another budget; all else stays as it is written."""
    from tallytree._accuracy.targets import amount_of
    from tallytree.release.files import write_whole
    from tallytree.spec.budget_changes import decimal_text, rewritten

    name = "rho" if found.budget.kind == "zcdp" else "epsilon"
    text = rewritten(str(spec), ("budget", name), decimal_text(amount_of(found.budget)))
    write_whole(out, text)


def _change(found: ErrorPlan) -> str:
    """The budget of the plan as a change of a spec."""
    from tallytree._accuracy.targets import amount_of
    from tallytree.spec.budget_changes import decimal_text

    name = "rho" if found.budget.kind == "zcdp" else "epsilon"
    return f"budget.{name}={decimal_text(amount_of(found.budget))}"


def _distinct(pairs: list[tuple[str, Decimal]]) -> list[tuple[str, Decimal]]:
    """The pairs, if no level is wanted twice.

    Raises:
        ValueError: one is.
    """
    levels = [level for level, _ in pairs]
    for level in levels:
        if levels.count(level) > 1:
            raise ValueError(f"target: {level!r} is given twice; keep one")
    return pairs
