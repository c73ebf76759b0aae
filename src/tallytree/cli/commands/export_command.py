"""`tallytree export`: the published tables in another format; spends nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.shared_options import BoundariesOption, BoundaryCodeOption


def export(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")],
    to: Annotated[str, typer.Option("--to", metavar="csv|xlsx|parquet|geoparquet|duckdb|sdmx", help="The format.")],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="PATH", help="The file (xlsx, duckdb) or the folder to make; it must not exist."),
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME", help="A level, or a table such as county.sex; as often as needed."),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            metavar="NUMBER",
            help="Add intervals of which this share may miss the true number. If absent: those that are stored.",
        ),
    ] = None,
    boundaries: BoundariesOption = None,
    boundary_code: BoundaryCodeOption = None,
    for_spreadsheets: Annotated[
        bool,
        typer.Option(
            "--for-spreadsheets", help="In csv, an apostrophe before labels that spreadsheets take for formulas."
        ),
    ] = False,
    unreliable_above: Annotated[
        float | None,
        typer.Option(
            "--unreliable-above",
            metavar="SHARE",
            help="In sdmx, numbers with a larger standard deviation, as a share of the number, have the status U. If "
            "absent: a third.",
        ),
    ] = None,
    agency: Annotated[str, typer.Option("--agency", metavar="ID", help="In sdmx, who publishes.")] = "TALLYTREE",
) -> None:
    """Write the tables in another format; spends nothing.

    Each column is described. csv, parquet, geoparquet and sdmx make a folder with a file for each table and a data
    dictionary; xlsx and duckdb make one file.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree._boundaries import boundary_files
        from tallytree._export import export as write
        from tallytree._export.sdmx_files import LOW_RELIABILITY
        from tallytree.cli.rendering.terminal import open_console, printable, show_line

        made = write(
            folder,
            to,
            out,
            tables=tables,
            alpha=alpha,
            boundaries=boundary_files(boundaries or ()),
            boundary_code=boundary_code,
            for_spreadsheets=for_spreadsheets,
            unreliable_above=LOW_RELIABILITY if unreliable_above is None else unreliable_above,
            agency=agency,
        )
        console = open_console()
        for name, rows in made.tables.items():
            show_line(console, printable(f"{name}: {rows:,} rows"))
        if made.left_out:
            show_line(console, printable(f"Left out, without boundaries: {', '.join(made.left_out)}"))
        show_line(console, f"Nothing was spent. Export: {out}")
