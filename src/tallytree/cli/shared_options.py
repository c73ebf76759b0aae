"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SpecFile = Annotated[
    Path, typer.Argument(metavar="SPEC.yaml", help="The spec; docs/reference/spec.md explains its keys.")
]
OutFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to make; it must not exist yet.")]
ReleaseFolder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="The folder to make; --if-exists says what if it exists.")
]
IfExistsOption = Annotated[
    str,
    typer.Option(
        metavar="error|skip|replace",
        help="If DIR exists: an error; nothing to do, if it holds the run named by --run; or the new release takes its "
        "place.",
    ),
]
FallbackOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The folder in which the release is kept if --out cannot be written in the end; by default that of "
        "temporary files.",
    ),
]
RunOption = Annotated[
    str | None, typer.Option("--run", metavar="NAME", help="The name of the release, such as the day it is about.")
]
SecretOption = Annotated[
    Path | None,
    typer.Option(
        "--secret",
        metavar="FILE",
        envvar="TALLYTREE_SECRET_FILE",
        help="The publisher's secret, of `tallytree secret new`: with it a run can be repeated free of charge.",
    ),
]
OnChangedOption = Annotated[
    str | None,
    typer.Option(
        metavar="error|charge",
        help="If the ledger has the run with other records or another plan: an error, or a new, charged release.",
    ),
]
RevisesOption = Annotated[
    Path | None,
    typer.Option(
        "--revises",
        metavar="DIR",
        help="The folder of the earlier release that this one takes the place of: a new release, charged as one.",
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(metavar="AMOUNT", help="About how much memory the run may take, such as 4GB (default: the spec's)."),
]
ApprovedByOption = Annotated[str | None, typer.Option(metavar="NAME", help="For the ledger: who approved it.")]
ReasonOption = Annotated[str | None, typer.Option(metavar="TEXT", help="For the ledger: why.")]
TicketOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="For the ledger: a reference, such as a ticket.")
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Write every table as CSV too.")]
ReportOption = Annotated[
    bool,
    typer.Option(
        "--report/--no-report",
        envvar="TALLYTREE_REPORT",
        help="Write report.html into the folder, where the extra `report` is installed.",
    ),
]
BoundariesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--boundaries",
        metavar="LEVEL=FILE",
        help="For maps, the shapes of a level's areas: GeoJSON, TopoJSON or GeoParquet. May be repeated.",
    ),
]
BoundaryCodeOption = Annotated[
    str | None,
    typer.Option(
        "--boundary-code",
        metavar="COLUMN",
        help="The property of the shapes that has the areas' labels. If absent: named like the level, or the id.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A key of the spec, such as budget.epsilon=0.5, in its place."),
]
AllowCodeOption = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Import a mechanism that is named as module:Class. Its code runs beside the private data: read it first.",
    ),
]
LedgerFile = Annotated[
    Path, typer.Argument(metavar="LEDGER", help="The ledger, a file; docs/how-to/ledger.md explains it.")
]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="LEDGER",
        help="The ledger, a file, in place of the one in the spec. `release` writes to it, `check` does not.",
    ),
]
DatasetOption = Annotated[
    str | None, typer.Option("--dataset", metavar="NAME", help="The data set's name in the ledger.")
]

SavedFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")]
AlphaOption = Annotated[
    float, typer.Option("--alpha", metavar="NUMBER", help="The share of intervals that may miss the true number.")
]
ReplicatesOption = Annotated[
    int | None,
    typer.Option(
        "--replicates",
        metavar="NUMBER",
        help="The number of replicates of the bootstrap. If absent: none where the errors are known exactly, else "
        "those of the release's own errors, or 50.",
    ),
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", metavar="NUMBER", help="Makes the replicates reproducible, for tests.")
]
RowsOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="The file to make, .csv or .parquet; if absent, the rows are shown."),
]
