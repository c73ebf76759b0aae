"""`tallytree reconcile`: the tables of a release again, from its noisy measurements; spends nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallytree.cli import logs
from tallytree.cli.commands.report_command import report_beside
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.statements import (
    published_rows,
    show_measurements,
    show_noise,
    show_published,
    show_terms,
)
from tallytree.cli.rendering.terminal import open_console, show_line
from tallytree.cli.shared_options import AllowCodeOption, CsvOption, OutFolder, ReportOption, SetOption, SpecFile

if TYPE_CHECKING:
    pass


def reconcile(
    context: typer.Context,
    earlier: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release of group sizes.")],
    spec: SpecFile,
    out: OutFolder,
    changes: SetOption = None,
    allow_code: AllowCodeOption = False,
    csv: CsvOption = False,
    report: ReportOption = True,
) -> None:
    """Make the tables of a release again; spends nothing.

    The noisy measurements in DIR are reconciled by the mechanism in SPEC.yaml, over the hierarchy in SPEC.yaml. Other
    keys of the spec are not used, and records are not opened.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.release import Release
        from tallytree.spec import load_spec

        given = load_spec(spec, changes=changes or (), allow_code=allow_code)
        made = given.reconcile(Release.load(earlier), out, csv=csv)
        report_beside(out, wanted=report, earlier=earlier)
        if not made.statement["private"]:
            logs.loud_warning("NOT PRIVATE. The noise was drawn from a seed.")
        console = open_console()
        show_published(console, made.statement, published_rows(out))
        show_noise(console, made.statement)
        show_terms(console, made.statement, "Nothing was spent. The measurements had spent")
        show_measurements(console, made.statement)
        show_line(console, f"Release: {out}")
