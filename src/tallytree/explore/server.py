"""The server of the explorer: this machine alone reaches it, and it has the pages of one release and nothing else."""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from nicegui import app, ui
from starlette.middleware.trustedhost import TrustedHostMiddleware

from tallytree.charts import one_drawing_process
from tallytree.explore.address import Address, read_address
from tallytree.explore.downloads import csv_of_page, svg_of_view
from tallytree.explore.page import show_page
from tallytree.explore.shown import ReleaseReplacedError, Shown, open_release

HOST = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost")
NOT_FRAMED = (
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
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


class OwnOrigin:
    """ASGI middleware: refuses what a page of another site sends from this machine's browser, or wants to frame."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer 403, or close the socket, where the Origin is that of another site."""
        headers = dict(scope.get("headers") or [])
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != headers.get(b"host", b""):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"another site"})
            return

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *NOT_FRAMED]
            await send(message)

        await self.app(scope, receive, sent)


class Explorer:
    """What is served: a release that can be opened again after it was replaced."""

    def __init__(self, shown: Shown, boundaries: list[str], code: str | None) -> None:
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


def serve(explorer: Explorer, port: int, *, show: bool, dark: bool | None = None) -> None:
    """Serve until the program is ended. There is no session, so no cookie, and nothing is written to the disk."""
    app.add_middleware(OwnOrigin)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(NAMES))
    app.get("/view.csv")(_download(explorer, csv_of_page, "text/csv; charset=utf-8", "view.csv"))
    app.get("/view.svg")(_download(explorer, svg_of_view, "image/svg+xml", "view.svg"))

    async def index(request: Request) -> None:
        await show_page(explorer, request)

    ui.page("/", title="tallytree", language="en-US")(index)
    logging.getLogger("nicegui").setLevel(logging.ERROR)  # paths that are asked for do not go to the terminal
    with one_drawing_process():
        ui.run(
            host=HOST,
            port=port,
            title="tallytree",
            reload=False,
            show=show,
            dark=dark,
            favicon=str(Path(__file__).parent / "icon.svg"),
            show_welcome_message=False,
            uvicorn_logging_level="error",
        )


def _download(
    explorer: Explorer, make: Callable[[Shown, Address], str], kind: str, name: str
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
