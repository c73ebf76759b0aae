"""`tallytree demo`: a small synthetic data set and its releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallytree.cli import logs
from tallytree.cli.commands.report_command import can_report
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.terminal import open_console
from tallytree.cli.shared_options import ReportOption


def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder to make, or an earlier demo to replace.")
    ] = Path("tallytree-demo"),
    report: ReportOption = True,
) -> None:
    """Make a small synthetic data set and release it.

    The data are households by size, and commutes. The published numbers are compared with the true ones.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.cli.demo import make_demo

        console = open_console()
        make_demo(out, console, progress=logs.show_bar(), report=report and can_report())
