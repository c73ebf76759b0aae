"""`tallytree report`: one self-contained page about a release; spends nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.shared_options import BoundariesOption, BoundaryCodeOption


def report(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The .html file to make. If absent: report.html in DIR."),
    ] = None,
    boundaries: BoundariesOption = None,
    boundary_code: BoundaryCodeOption = None,
) -> None:
    """Write a page about a release, for readers; spends nothing.

    It shows the numbers, their errors, the guarantee and checks of the files. The page is one file. It needs no
    network, and is made from the published files alone.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree._charts import require_charts

        require_charts("report", "the page")
        from tallytree._boundaries import boundaries_of
        from tallytree._report import FILE, hierarchies_by_level, write_report
        from tallytree.cli.rendering.terminal import open_console, show_line
        from tallytree.release import Release

        release = Release.load(folder)
        shapes = boundaries_of(boundaries, hierarchies_by_level(release.tree), code=boundary_code) if boundaries else {}
        made = write_report(release, out or folder / FILE, title=folder.absolute().name, boundaries=shapes)
        show_line(open_console(), f"Nothing was spent. Report: {made}")
