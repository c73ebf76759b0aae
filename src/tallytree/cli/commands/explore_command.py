"""`tallytree explore`: a release in the browser."""

from __future__ import annotations

import secrets
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.shared_options import BoundariesOption, BoundaryCodeOption, LanguageOption


def explore(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")],
    static: Annotated[
        Path | None,
        typer.Option("--static", metavar="OUT", help="Write the page as this folder, for any web server, and end."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="NUMBER", min=1, max=65535, help="If absent: the first free one from 8080 on."),
    ] = None,
    boundaries: BoundariesOption = None,
    boundary_code: BoundaryCodeOption = None,
    language: LanguageOption = None,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the browser.")] = True,
) -> None:
    """Walk a release in the browser; spends nothing.

    Down the tree, by name, in tables, between places and on maps; every number with its error. The page is made from
    the published files, needs no network, and is served on this machine alone until Ctrl-C. Only the printed address
    opens it. With --static it is written instead.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.cli.rendering.terminal import open_console, show_line
        from tallytree.views.explore.opening import fill_folder, write_static
        from tallytree.views.explore.serving import address_of, opened_browser, opened_server, serve

        shapes = list(boundaries or ())
        if static is not None:
            if port is not None:
                raise ValueError(f"port: {port} has no use with --static, which serves nothing; leave it out")
            write_static(folder, static, shapes, boundary_code, language)
            show_line(open_console(), f"Nothing was spent. Page: {static / 'index.html'}")
            return
        token = secrets.token_urlsafe()
        with TemporaryDirectory(prefix="tallytree-explore-") as made:
            server = opened_server(Path(made), port, token)
            with server:
                fill_folder(Path(made), folder, shapes, boundary_code, language)
                address = address_of(server, token)
                show_line(open_console(), f"Exploring {folder} at {address} (Ctrl-C ends it).")
                with opened_browser(address) if show else nullcontext():
                    serve(server)
        show_line(open_console(), "Ended.")
