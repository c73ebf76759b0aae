"""`tallytree total`: sums of published numbers over any areas, with their errors; spends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.terminal import fitted_table, printable
from tallytree.cli.shared_options import (
    AllowCodeOption,
    AlphaOption,
    ReplicatesOption,
    RowsOption,
    SavedFolder,
    SeedOption,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from tallytree.release import Release


def conditions(given: Sequence[str] | None) -> dict[str, list[str]] | None:
    """What `--where` says, by column.

    Raises:
        ValueError: one is not of the form COLUMN=LABEL.
    """
    if not given:
        return None
    found: dict[str, list[str]] = {}
    for each in given:
        column, sign, label = each.partition("=")
        if not sign or not column.strip():
            raise ValueError(f"where: {each[:80]!r} must be COLUMN=LABEL, such as sex=f")
        found.setdefault(column.strip(), []).append(label.strip())
    return found


def total(
    context: typer.Context,
    folder: SavedFolder,
    areas: Annotated[
        str | None,
        typer.Argument(
            metavar="[AREAS]",
            help="A table (CSV, Parquet): each row names a node by its path columns, those of lower levels empty. For "
            "tables it may be left out: all areas.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="A column of AREAS with each row's area; for tables without AREAS, a level."
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A column of AREAS: how often each row counts, such as 0.4 for a part."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=LABEL",
            help="For tables, a condition on an attribute's column; several labels of one column are alternatives.",
        ),
    ] = None,
    alpha: AlphaOption = 0.1,
    replicates: ReplicatesOption = None,
    out: RowsOption = None,
    seed: SeedOption = None,
    allow_code: AllowCodeOption = False,
) -> None:
    """Sum a release over areas, with the error of each sum.

    AREAS lists the nodes of one area, or, with --by, of several. No two rows may overlap. Tables, and counts by
    LeastSquares, have exact errors. Other errors come from a parametric bootstrap.
    Spends nothing.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.cli.rendering.statements import show_bound
        from tallytree.cli.rendering.terminal import open_console, show_line
        from tallytree.kinds.foreign import import_code
        from tallytree.release import Release
        from tallytree.release.files import checked_table_file, write_table_file
        from tallytree.release.intervals import COVERS
        from tallytree.release.remainders import NOT_LISTED_IN_TOTALS, lists_remainders

        target = None if out is None else checked_table_file(out)
        release = Release.load(folder)
        if allow_code:
            import_code(release.statement)
        made = release.total(
            areas,
            by=by,
            where=conditions(where),
            weight=weight,
            alpha=alpha,
            replicates=replicates,
            seed=seed,
            progress=logs.show_bar(),
        )
        console = open_console()
        if target is None:
            show_totals(console, made, release)
        else:
            write_table_file(made, target)
        show_bound(console, release.statement)
        if lists_remainders(release.statement):
            show_line(console, f"{NOT_LISTED_IN_TOTALS} {COVERS}")
        elif "std_dev" in made.column_names:
            show_line(console, COVERS)
        else:
            show_line(console, "The errors of these sums are not known: nothing published shows what they miss.")
        show_line(console, "Nothing was spent." if target is None else f"Nothing was spent. Totals: {out}")


def show_totals(console: Console, totals: pa.Table, release: Release) -> None:
    """Show every row, as it is in the table, with the names of the nodes of its last level."""
    from tallytree.release.view.sides import with_names
    from tallytree.sources.column_types import is_text_type

    totals = with_names(totals, release.tree, brief=True)
    named = [column.fill_null("") if is_text_type(column.type) else column for column in totals.columns]
    columns = [[_shown(value) for value in column.to_pylist()] for column in named]
    headings = [printable(name) for name in totals.column_names]
    console.print(fitted_table(console, headings, list(zip(*columns, strict=True))))


def _shown(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, str):
        return printable(value)
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
