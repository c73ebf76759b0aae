"""`tallytree explore`: a release in the browser."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.shared_options import BoundariesOption, BoundaryCodeOption


def explore(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")],
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="NUMBER", min=1, max=65535, help="If absent: the first free one from 8080 on."),
    ] = None,
    boundaries: BoundariesOption = None,
    boundary_code: BoundaryCodeOption = None,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the browser.")] = True,
) -> None:
    """Walk a release in the browser; spends nothing.

    Down the tree, on a map, by name, with intervals, and the total of any selection with its own. Only this machine
    can reach it, and only with the token of the printed address. It has the pages of this release and nothing else.
    Ctrl-C ends it.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree._explore import require_explorer

        require_explorer()
        from tallytree._explore.server import Explorer, address_at, free_port, serve
        from tallytree._explore.shown import open_release
        from tallytree.cli.rendering.terminal import open_console, show_line

        shapes = list(boundaries or ())
        explorer = Explorer(open_release(folder, shapes, boundary_code), shapes, boundary_code)
        chosen, token = free_port(port), secrets.token_urlsafe()
        show_line(open_console(), f"Exploring {folder} at {address_at(chosen, token)} (Ctrl-C ends it).")
        serve(explorer, chosen, token, show=show)
        show_line(open_console(), "Ended.")
