"""Charts as SVG, drawn by vl-convert, which needs neither a browser nor a network.

vl-convert runs V8, which reserves gigabytes of address space and aborts the process where it gets none (`ulimit -v`).
So it runs in a child process. The release whose report is drawn may have been paid for a moment before: its command
must not end as if it had failed.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tallytree.support.validate import require_packages
from tallytree.views.charts.theme import LIGHT, css_variables

PACKAGES = {"altair": "altair", "vl_convert": "vl-convert-python", "jinja2": "jinja2"}
"""Modules of the extra `report`, and the packages that have them."""
SPOKEN = re.compile(r'\s(?:role|aria-label|aria-roledescription|aria-hidden|tabindex)="[^"]*"')
PROGRAM = Path(__file__).with_name("drawing_process.py")


class _Drawer:
    """The child process that draws, while somebody draws: see `one_drawing_process`.

    Attributes:
        process: the child; None before the first drawing, and where the last child was ended.
        users: how many blocks of `one_drawing_process` are open.
    """

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.users = 0
        self.lock = threading.RLock()

    def drawn(self, function: str, chart: Any, options: dict[str, Any]) -> Any:
        """What a function of vl-convert makes of a chart.

        Raises:
            ChildProcessError: the child ended before it answered.
            RuntimeError: vl-convert refuses the chart.
        """
        asked = {"function": function, "chart": chart.to_dict(format="vega-lite"), "options": options}
        line = json.dumps(asked).encode() + b"\n"
        with self.lock:
            try:
                answer = self._answer(line)
            except BaseException:
                self.end()  # it may yet write an answer, which would be taken for that of the next request
                raise
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["text"] if "text" in answer else base64.b64decode(answer["bytes"])

    def _answer(self, line: bytes) -> dict[str, Any]:
        if self.process is None:
            self.process = subprocess.Popen(  # noqa: S603  (this file, by this Python)
                [sys.executable, "-I", str(PROGRAM), json.dumps(sys.path)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        child = self.process
        assert child.stdin is not None  # noqa: S101  (both are pipes)
        assert child.stdout is not None  # noqa: S101
        try:
            child.stdin.write(line)
            child.stdin.flush()
            answered = child.stdout.readline()
        except BrokenPipeError:
            answered = b""
        if not answered.endswith(b"\n"):
            raise ChildProcessError(
                f"drawing: the process that draws charts ended with code {child.wait()} before it had drawn one. It "
                "reserves gigabytes of address space: remove or raise the limit (ulimit -v), or leave the pictures out"
            )
        found: dict[str, Any] = json.loads(answered)
        return found

    def end(self) -> None:
        """End the child; it holds nothing that would be lost."""
        child, self.process = self.process, None
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    _close(stream)


def _close(stream: Any) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        return  # a request that the child did not read


_DRAWER = _Drawer()


@contextmanager
def one_drawing_process() -> Iterator[None]:
    """Draw all charts of the block in one child process, whose start takes as long as ten drawings.

    Without a block each drawing has a process of its own.
    """
    with _DRAWER.lock:
        _DRAWER.users += 1
    try:
        yield
    finally:
        with _DRAWER.lock:
            _DRAWER.users -= 1
            if _DRAWER.users == 0:
                _DRAWER.end()


def _drawn(function: str, chart: Any, **options: Any) -> Any:
    with one_drawing_process():
        return _DRAWER.drawn(function, chart, options)


def svg(chart: Any) -> str:
    """A chart as SVG, in the colors of its scheme.

    Raises:
        ChildProcessError: the process that draws ended, for instance for want of address space.
    """
    return str(_drawn("vegalite_to_svg", chart))


def png(chart: Any) -> bytes:
    """A chart as PNG, twice as many pixels across as the SVG has.

    Raises:
        ChildProcessError: see `svg`.
    """
    return bytes(_drawn("vegalite_to_png", chart, scale=2))


def html(chart: Any) -> str:
    """A chart as a page with its scripts, which needs no network.

    Raises:
        ChildProcessError: see `svg`.
    """
    return str(_drawn("vegalite_to_html", chart, bundle=True))


def svg_in_page(chart: Any, prefix: str = "chart") -> str:
    """A chart in the light scheme as SVG whose colors are variables of the page's style sheet.

    One drawing then serves a light and a dark page, and print. What a screen reader says is up to the element around
    it: the drawing's own hundreds of labels are dropped.

    Args:
        chart: in the light scheme.
        prefix: of the ids within the drawing, unique within the page.
    """
    drawn = svg(chart)
    names = {color: f"var({name})" for name, color in css_variables(LIGHT).items()}
    colored = re.sub(
        r'(fill|stroke|stop-color)="(#[0-9a-fA-F]{6})"',
        lambda found: f'{found[1]}="{names.get(found[2].lower(), found[2])}"',
        drawn,
    )
    named = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{prefix}-", colored)
    return SPOKEN.sub("", named)


def require_charts(argument: str, what: str) -> None:
    """Refuse to draw where the packages of the extra `report` are absent.

    Raises:
        ModuleNotFoundError: a package is not installed.
    """
    require_packages(argument, what, PACKAGES, "report")
