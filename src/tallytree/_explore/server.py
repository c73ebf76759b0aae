"""The server of the explorer: on this machine alone, for who has its token; it has the pages of one release only."""

from __future__ import annotations

import logging
import socket
import webbrowser
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from markupsafe import escape
from nicegui import app, ui
from nicegui.client import templates
from starlette.middleware.trustedhost import TrustedHostMiddleware

from tallytree._charts import one_drawing_process
from tallytree._explore.address import Address, read_address
from tallytree._explore.downloads import csv_of_page, svg_of_view
from tallytree._explore.gate import PAGE, TOKEN, Gate, mark_scripts
from tallytree._explore.page import show_page
from tallytree._explore.shown import OpenedRelease, ReleaseReplacedError, open_release

HOST = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost")
FIRST_PORT, PORTS = 8080, 100


def free_port(wanted: int | None) -> int:
    """The port to serve at: the wanted one; by default the first free one from 8080 on.

    Raises:
        OSError: it is in use, or none is free.
    """
    for port in range(FIRST_PORT, FIRST_PORT + PORTS) if wanted is None else (wanted,):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((HOST, port))
            except OSError:
                continue
            return port
    if wanted is None:
        raise OSError(f"port: none of {FIRST_PORT} to {FIRST_PORT + PORTS - 1} is free; give one with --port")
    raise OSError(f"port: {wanted} is in use, or not allowed; give another with --port, or leave it out")


class Explorer:
    """What is served: a release that can be opened again after it was replaced."""

    def __init__(self, shown: OpenedRelease, boundaries: list[str], code: str | None) -> None:
        self.shown = shown
        self._boundaries, self._code = boundaries, code

    def reopen(self) -> None:
        """Open the release that the folder holds now.

        Raises:
            ValueError: it holds no complete release.
        """
        self.shown = open_release(self.shown.folder, self._boundaries, self._code)

    def address(self, request: Request) -> Address:
        """The view that a request asks for."""
        return read_address(self.shown.walk, dict(request.query_params))


def address_at(port: int, token: str) -> str:
    """The address to be opened."""
    return f"http://{HOST}:{port}/?{TOKEN}={token}"


def serve(explorer: Explorer, port: int, token: str, *, show: bool, dark: bool | None = None) -> None:
    """Serve until the program is ended. There is no session, and nothing of the release is written to the disk."""
    app.add_middleware(Gate, token=token, port=port)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(NAMES))
    mark_scripts(templates.env)
    app.get("/view.csv")(_download(explorer, csv_of_page, "text/csv; charset=utf-8", "view.csv"))
    app.get("/view.svg")(_download(explorer, svg_of_view, "image/svg+xml", "view.svg"))

    async def index(request: Request) -> None:
        await show_page(explorer, request)

    ui.page("/", title="tallytree", language="en-US")(index)
    logging.getLogger("nicegui").setLevel(logging.ERROR)  # paths that are asked for do not go to the terminal
    with one_drawing_process(), opened_browser(address_at(port, token), port) if show else nullcontext():
        ui.run(
            host=HOST,
            port=port,
            title="tallytree",
            reload=False,
            show=False,
            dark=dark,
            tailwind=False,
            favicon=str(Path(__file__).parent / "icon.svg"),
            show_welcome_message=False,
            uvicorn_logging_level="error",
        )


@contextmanager
def opened_browser(address: str, port: int) -> Iterator[None]:
    """Open the browser when the server answers.

    It opens a file that only this user can read and that leads to the address: every user of the machine sees the
    arguments of the browser's command.
    """
    with TemporaryDirectory(prefix="tallytree-open-") as folder:
        leading = Path(folder) / "explore.html"
        leading.write_text(PAGE.format(f'<meta http-equiv="refresh" content="0; url={escape(address)}">'))
        ended = Event()

        def when_it_answers() -> None:
            while not ended.wait(0.1):
                with socket.socket() as tried:
                    answers = tried.connect_ex((HOST, port)) == 0
                if answers:
                    webbrowser.open(leading.as_uri())
                    return

        Thread(target=when_it_answers, daemon=True).start()
        try:
            yield
        finally:
            ended.set()


def _download(
    explorer: Explorer, make: Callable[[OpenedRelease, Address], str], kind: str, name: str
) -> Callable[[Request], Awaitable[Response]]:
    """A route that gives what a view shows as a file."""

    async def download(request: Request) -> Response:
        shown, address = explorer.shown, explorer.address(request)
        try:
            text = await run_in_threadpool(shown.reading, lambda: make(shown, address))
        except ReleaseReplacedError:
            return Response("The release was replaced; reload the page.", 409, media_type="text/plain")
        return Response(text, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})

    return download
