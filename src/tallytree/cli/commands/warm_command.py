"""`tallytree warm`: all code compiled ahead, for a container image."""

from __future__ import annotations

import os

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.terminal import open_console, show_line


def warm(context: typer.Context) -> None:
    """Compile all numeric code ahead.

    This is for container images. Small synthetic releases are made and thrown away; no data is read. The compiled code
    is cached beside the package, or in the folder that the environment variable NUMBA_CACHE_DIR names, and is used by
    later runs of the same user.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.cli.warming import synthetic_runs, warm_up
        from tallytree.support.stages import step_progress

        runs = sum(1 for _ in synthetic_runs())
        with step_progress(logs.show_bar(), runs, "synthetic releases") as done:
            made = warm_up(lambda name: done())
        if made.new and not made.folders:
            raise OSError("no folder for compiled code can be written to; set NUMBA_CACHE_DIR to a folder of this user")
        place = f" The cache is in {os.path.commonpath(made.folders)}." if made.folders else ""
        show_line(open_console(), f"{made.new} kernels are compiled now, {made.found} were found compiled.{place}")
