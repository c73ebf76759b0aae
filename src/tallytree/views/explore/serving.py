"""The page of a release on this machine alone, for who has the address that was printed.

Every user of the machine reaches a port of 127.0.0.1. So the address has a token, drawn anew at each start, as its
first folder; without it nothing is answered. The server has the files of one folder, which was made for it.
"""

from __future__ import annotations

import secrets
import signal
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from html import escape
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
FIRST_PORT, PORTS = 8080, 100
HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page has the rest of its policy
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class PageHandler(SimpleHTTPRequestHandler):
    """Answers with a file of the folder to who knows the token, and with 403 to others.

    Args:
        token: the first folder of every address.
        directory: the folder.
    """

    server_version, sys_version = "tallytree", ""

    def __init__(self, *args: Any, token: str, **options: Any) -> None:
        self._token = token
        super().__init__(*args, **options)

    def send_head(self) -> Any:
        """The headers of the answer, and the file; None after a refusal."""
        first, _, rest = urlsplit(self.path).path.removeprefix("/").partition("/")
        if self.headers.get("Host", "").rpartition(":")[0] not in NAMES or not self._is_token(first):
            self.send_error(HTTPStatus.FORBIDDEN, explain="Open the address that tallytree explore printed.")
            return None
        self.path = f"/{rest}"
        return super().send_head()

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())

    def list_directory(self, path: Any) -> BytesIO | None:
        """Folders are not listed."""
        self.send_error(HTTPStatus.NOT_FOUND)
        return None

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file; a browser that leaves before the end is no error."""
        with suppress(ConnectionError):
            super().copyfile(source, outputfile)

    def end_headers(self) -> None:
        """Every answer has the headers above."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the base class)
        """What is asked for, with the token, does not go to the terminal."""


def opened_server(folder: Path, wanted: int | None, token: str) -> ThreadingHTTPServer:
    """A server of a folder, at the wanted port; by default at the first free one from 8080 on.

    Raises:
        OSError: it is in use, or none is free.
    """
    handler = partial(PageHandler, token=token, directory=str(folder))
    for port in range(FIRST_PORT, FIRST_PORT + PORTS) if wanted is None else (wanted,):
        try:
            return ThreadingHTTPServer((HOST, port), handler)
        except OSError:
            continue
    if wanted is None:
        raise OSError(f"port: none of {FIRST_PORT} to {FIRST_PORT + PORTS - 1} is free; give one with --port")
    raise OSError(f"port: {wanted} is in use, or not allowed; give another with --port, or leave it out")


def address_of(server: ThreadingHTTPServer, token: str) -> str:
    """The address to be opened."""
    return f"http://{HOST}:{server.server_port}/{token}/"


def serve(server: ThreadingHTTPServer) -> None:
    """Serve until Ctrl-C or SIGTERM ends it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.serve_forever(poll_interval=0.1)
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def opened_browser(address: str) -> Iterator[None]:
    """Open the browser at an address of a server that is there.

    It opens a file that only this user can read and that leads to the address: every user of the machine sees the
    arguments of the browser's command.
    """
    with TemporaryDirectory(prefix="tallytree-open-") as folder:
        leading = Path(folder) / "explore.html"
        leading.write_text(
            '<!doctype html><html lang="en"><title>tallytree</title>'
            f'<meta http-equiv="refresh" content="0; url={escape(address)}"></html>',
            encoding="utf-8",
        )
        Thread(target=webbrowser.open, args=(leading.as_uri(),), daemon=True).start()
        yield
