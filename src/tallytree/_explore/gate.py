"""Who gets an answer: only who knows the token of the address that was printed; and what a browser may do with it.

Every user of this machine reaches a port of 127.0.0.1. So the printed address has a token, drawn anew at each start.
Who opens it gets a cookie in its place, so no link and no address of a view has the token.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, DictLoader
from markupsafe import escape
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse

TOKEN = "token"  # noqa: S105 (a name)
"""The name of the token in the query of an address."""
REFUSED = (
    "<p>This page is shown only to who has the token of the address that <code>tallytree explore</code> printed. Open "
    "that address, as it is in the terminal. Each start of the explorer has another one.</p>"
)
OTHER_SITE = "<p>This request came from a page of another site.</p>"
PAGE = '<!doctype html><html lang="en-US"><title>tallytree</title><link rel="icon" href="data:,">{}</html>'
"""Its icon is empty, so that the browser does not ask for one, and does not break that off when it is led on."""


class Gate:
    """ASGI middleware: refuses requests without the token and those of other sites, and sets the headers of answers.

    Args:
        app: what answers the others.
        token: of the address.
        port: where it is served; cookies do not differ by port, so it is in the cookie's name.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], token: str, port: int) -> None:
        self.app = app
        self._token = token.encode()
        self._cookie = f"tallytree-{port}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer 403, or close the socket, where the token is missing or the Origin is that of another site."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        scope["nonce"] = secrets.token_urlsafe(16)

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_headers(scope["nonce"])]
            await send(message)

        asked = HTTPConnection(scope)
        if _of_another_site(asked):
            await _refuse(OTHER_SITE, scope, receive, sent)
        elif self._is_token(asked.cookies.get(self._cookie)):
            await self.app(scope, receive, sent)
        elif scope["type"] == "http" and scope["path"] == "/" and self._is_token(asked.query_params.get(TOKEN)):
            await self._let_in(asked)(scope, receive, sent)
        else:
            await _refuse(REFUSED, scope, receive, sent)

    def _is_token(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode(), self._token)

    def _let_in(self, asked: HTTPConnection) -> HTMLResponse:
        """A page that leads to the view, with the cookie.

        It is no redirect: to the target of a redirect that began elsewhere, browsers send no SameSite=Strict cookie.
        """
        view = [(name, value) for name, value in asked.query_params.multi_items() if name != TOKEN]
        target = "/" + (f"?{urlencode(view)}" if view else "")
        answer = HTMLResponse(PAGE.format(f'<p><a href="{escape(target)}">Explore the release</a></p>'))
        answer.headers["Refresh"] = f"0; url={target}"
        answer.headers["Cache-Control"] = "no-store"
        answer.set_cookie(self._cookie, self._token.decode(), httponly=True, samesite="strict")
        return answer


def _of_another_site(asked: HTTPConnection) -> bool:
    origin = asked.headers.get("origin")
    return origin is not None and origin.partition("://")[2] != asked.headers.get("host", "")


async def _refuse(why: str, scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await HTMLResponse(PAGE.format(why), HTTPStatus.FORBIDDEN)(scope, receive, send)


def _headers(nonce: str) -> list[tuple[bytes, bytes]]:
    """Of every answer. NiceGUI compiles templates in the browser ('unsafe-eval'); drawings have styles of their own."""
    policy = (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    return [
        (b"content-security-policy", policy.encode()),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
    ]


def mark_scripts(environment: Any) -> None:
    """Let each script of NiceGUI's own page have the nonce of the answer; a script that gets in otherwise has none.

    Args:
        environment: NiceGUI's templates.
    """
    source = environment.loader.get_source(environment, "index.html")[0]
    marked = source.replace("<script", '<script nonce="{{ request.scope.nonce }}"')
    environment.loader = ChoiceLoader([DictLoader({"index.html": marked}), environment.loader])
