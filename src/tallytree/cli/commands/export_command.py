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
    to: Annotated[
        str, typer.Option("--to", metavar="csv|xlsx|parquet|geoparquet|duckdb|sdmx|records", help="The format.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="PATH",
            help="The file (xlsx, duckdb; records: .parquet or .csv) or the folder to make; it must not exist.",
        ),
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
            "--for-spreadsheets", help="In csv, an apostrophe before labels that spreadsheets take for other values."
        ),
    ] = False,
    reliable_below: Annotated[
        float,
        typer.Option(
            "--reliable-below", metavar="SHARE", help="Reliable numbers: std_dev is below this share of the number."
        ),
    ] = 0.166,
    unreliable_above: Annotated[
        float,
        typer.Option(
            "--unreliable-above", metavar="SHARE", help="Unreliable ones: std_dev is above this share of the number."
        ),
    ] = 0.333,
    suppress: Annotated[
        str | None,
        typer.Option(
            "--suppress",
            metavar="unreliable",
            help="Leave numbers empty that are unreliable or not distinguishable from 0; their verdict stays.",
        ),
    ] = None,
    agency: Annotated[str, typer.Option("--agency", metavar="ID", help="In sdmx, who publishes.")] = "TALLYTREE",
) -> None:
    """Write the tables in another format; spends nothing.

    Each column is described. csv, parquet, geoparquet and sdmx make a folder with a file for each table and a data
    dictionary; xlsx and duckdb make one file. records makes a file of made-up rows, to be counted, which give every
    published number back.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.cli.rendering.terminal import open_console, printable, show_line
        from tallytree.release import QualityThresholds
        from tallytree.views.boundaries import boundary_files
        from tallytree.views.export import export as write

        made = write(
            folder,
            to,
            out,
            tables=tables,
            alpha=alpha,
            boundaries=boundary_files(boundaries or ()),
            boundary_code=boundary_code,
            for_spreadsheets=for_spreadsheets,
            thresholds=QualityThresholds(min(reliable_below, unreliable_above), unreliable_above),
            suppress=suppress,
            agency=agency,
        )
        console = open_console()
        for name, rows in made.tables.items():
            show_line(console, printable(f"{name}: {rows:,} rows"))
        if suppress is not None:
            show_line(console, "Coarser levels and other sums are of all numbers, also of those that are left empty.")
        if made.left_out:
            show_line(console, printable(f"Left out, without boundaries: {', '.join(made.left_out)}"))
        show_line(console, f"Nothing was spent. Export: {out}")
