"""`tallytree plan`: the expected errors and the risk of a spec, before it is paid for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.statements import show_marks
from tallytree.cli.rendering.terminal import fitted_table, open_console, printable, show_line
from tallytree.cli.shared_options import AllowCodeOption, SetOption, SpecFile, takes_options_of_a_run

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.numbers.accuracy.error_plan import ErrorPlan


@takes_options_of_a_run(only=["revises"])
def plan(
    context: typer.Context,
    spec: SpecFile,
    options: Mapping[str, Any],
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
    allow_code: AllowCodeOption = False,
) -> None:
    """Show the expected errors of SPEC.yaml; spends nothing.

    Also the risk, at several budgets and by several mechanisms. With --revises also how many numbers move by how much,
    if no record changed. Only the spec and its public tables are read. The private table need not exist.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.numbers.accuracy.simulated_errors import DEFAULT_REPLICATES
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
            **options,
            replicates=DEFAULT_REPLICATES if replicates is None else replicates,
            seed=seed,
            changes=changes or (),
            allow_code=allow_code,
            progress=logs.show_bar(),
        )
        console = open_console()
        if as_json:
            typer.echo(error_plan_json(found))
        else:
            show_error_plan(console, found, revised=options["revises"] is not None)
        if picture is not None:
            save_picture(found, picture)
            logs.note(f"Picture: {picture}", event="picture")
        if write_spec is not None:
            _write(spec, write_spec, found)
            logs.note(f"Spec: {write_spec}", event="spec")
        elif targets and not as_json:
            shares = "" if found.precision is None else f", precision: {json.dumps(dict(found.precision))}"
            show_line(console, f"{_change(found)}{shares} in the spec gives the targets (--write-spec writes it).")


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
    """Write the spec with another budget, and the precision of the plan; all else stays as it is written."""
    from tallytree.numbers.accuracy.targets import amount_of
    from tallytree.spec.budget_changes import decimal_text, rewritten, with_precision
    from tallytree.support.whole_files import write_whole

    name = "rho" if found.budget.kind == "zcdp" else "epsilon"
    text = rewritten(str(spec), ("budget", name), decimal_text(amount_of(found.budget)))
    write_whole(out, text if found.precision is None else with_precision(text, found.precision))


def _change(found: ErrorPlan) -> str:
    """The budget of the plan as a change of a spec."""
    from tallytree.numbers.accuracy.targets import amount_of
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


Row = Mapping[str, Any]


def show_error_plan(console: Console, plan: ErrorPlan, *, revised: bool = False) -> None:
    """Show the errors at the plan's budget, then those of other budgets and mechanisms, then the risk."""
    from tallytree.numbers.accuracy.expected_errors import shown

    show_marks(console, plan.statement)
    show_line(console, f"Expected errors by {plan.mechanism}, {_budget(plan.levels[0])}:", "bold")
    judged = any(row["unreliable"] is not None for row in plan.levels)
    rows = [
        [
            printable(row["level"]),
            f"{row['nodes']:,}",
            *(shown(row[name]) or "not known" for name in ("std_dev", "half_width")),
            shown(row["expected_maximum"]) or "not known",
            *([_percent(row["unreliable"])] if judged else []),
            *([_percent(row["moved"])] if revised else []),
            row["basis"],
        ]
        for row in plan.levels
    ]
    headings = [
        "level",
        "nodes",
        "std dev",
        "90 % within ±",
        "expected maximum",
        *(["unreliable"] if judged else []),
        *(["moved"] if revised else []),
    ]
    console.print(fitted_table(console, [*headings, "basis"], rows))
    if plan.advice is not None:
        show_line(console, printable(str(plan.advice)))
    by_budget = {_budget(row): row for row in plan.table.to_pylist() if row["mechanism"] == plan.mechanism}
    _show_std_devs(console, plan, "budgets", [*by_budget], lambda row: _budget(row), own_mechanism=True)
    at_budget = [row for row in plan.table.to_pylist() if _budget(row) == _budget(plan.levels[0])]
    mechanisms = list(dict.fromkeys(row["mechanism"] for row in at_budget))
    _show_std_devs(console, plan, "mechanisms", mechanisms, lambda row: row["mechanism"], own_mechanism=False)
    show_line(console, f"Risk: {plan.statement['summary']} {plan.statement['attack']}")
    for note in plan.notes:
        show_line(console, printable(note))
    show_line(console, "No private data were opened. Nothing was spent.")


def _percent(share: float | None) -> str:
    from tallytree.numbers.accuracy.advice import percent

    return "not known" if share is None else percent(share)


def _show_std_devs(
    console: Console, plan: ErrorPlan, what: str, columns: Sequence[str], column_of: Any, *, own_mechanism: bool
) -> None:
    """Show the standard deviation of every level, one column for each budget or mechanism; nothing for one alone."""
    if len(columns) < 2:
        return
    from tallytree.numbers.accuracy.expected_errors import shown

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


def error_plan_json(plan: ErrorPlan) -> str:
    """The same as JSON."""
    own = plan.levels[0]
    plain = {
        "budget": {name: own[name] for name in ("epsilon", "delta", "rho") if own[name] is not None},
        "mechanism": plan.mechanism,
        "precision": None if plan.precision is None else dict(plan.precision),
        "errors": plan.table.to_pylist(),
        "advice": None if plan.advice is None else plan.advice.fields(),
        "risk": {**plan.statement, "by_budget": plan.risk.to_pylist()},
        "notes": list(plan.notes),
    }
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)


def _budget(row: Row) -> str:
    """A budget's amounts as a heading; δ is the same for all, and left out."""
    name = "rho" if row["epsilon"] is None else "epsilon"
    return f"{name} {row[name]:.4g}"


FORMATS = (".svg", ".html")
WIDTH, HEIGHT = 360, 240


def check_picture(path: Path) -> None:
    """Refuse a picture that cannot be drawn, before anything is computed.

    Raises:
        ValueError: neither SVG nor HTML.
        ModuleNotFoundError: a package of the extra is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"picture: {path.name!r} must end in .svg or .html")
    from tallytree.views.charts import require_charts

    require_charts("picture", repr(path.name))


def save_picture(plan: ErrorPlan, path: Path) -> None:
    """Draw the standard deviation of every level, by budget and by mechanism.

    Raises:
        OSError: the file cannot be written, or the process that draws ended.
    """
    from tallytree.support.whole_files import write_whole
    from tallytree.views.charts import html, svg

    drawn = svg if path.suffix.lower() == ".svg" else html
    write_whole(path, drawn(_chart(plan)))


def _chart(plan: ErrorPlan) -> Any:
    import altair

    from tallytree.views.charts import styled

    rows = [row for row in plan.table.to_pylist() if row["std_dev"]]
    amount = "rho" if plan.budget.kind == "zcdp" else "epsilon"
    levels = [row["level"] for row in plan.levels]
    color = altair.Color("level:N", sort=levels, title="level")
    budgets = altair.Chart(
        altair.Data(values=[row for row in rows if row["mechanism"] == plan.mechanism]),
        title=f"By budget ({plan.mechanism})",
        width=WIDTH,
        height=HEIGHT,
    )
    lines = budgets.mark_line(point=True).encode(
        altair.X(f"{amount}:Q", scale=altair.Scale(type="log"), title=amount),
        altair.Y("std_dev:Q", scale=altair.Scale(type="log"), title="expected std_dev"),
        color,
    )
    own = plan.levels[0][amount]
    mechanisms = altair.Chart(
        altair.Data(values=[row for row in rows if row[amount] == own]),
        title=f"By mechanism ({amount} {own:.4g})",
        width=WIDTH,
        height=HEIGHT,
    )
    points = mechanisms.mark_point(filled=True, size=70).encode(
        altair.X("level:N", sort=levels, title="level"),
        altair.Y("std_dev:Q", scale=altair.Scale(type="log"), title="expected std_dev"),
        altair.Shape("mechanism:N", title="mechanism"),
        color,
    )
    return styled(altair.hconcat(lines, points))
