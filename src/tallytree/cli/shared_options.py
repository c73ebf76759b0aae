"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC.yaml", help="The spec; docs/spec.md explains its keys.")]
OutFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to make; it must not exist yet.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Write every table as CSV too.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A key of the spec, such as budget.epsilon=0.5, in its place."),
]
LedgerFile = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger, a file; docs/ledger.md explains it.")]
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
