"""The page of the explorer: a view as HTML, and what changes while it is open (a total, a release that is replaced)."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from nicegui import Client, run, ui

from tallytree._charts import DARK, LIGHT, css_variables
from tallytree._explore.address import Address
from tallytree._explore.shown import OpenedRelease, ReleaseReplacedError
from tallytree._explore.view import as_text, chosen_rows, probably_between, read_view
from tallytree._explore.walk import PAGE
from tallytree.release.counted_unit import counted_unit

if TYPE_CHECKING:
    from fastapi import Request

    from tallytree._explore.server import Explorer

REPLACED = "The release in this folder was replaced. What is shown here is not read from it any more."
NOT_PRIVATE = (
    "NOT PRIVATE. The noise of this release came from a fixed seed, so anybody can remove it. It is for tests and "
    "experiments only."
)
WATCH = 2.0
"""Seconds between looks at whether the release was replaced."""
MAX_WAITING = 32
"""Pages that were sent and that no browser has connected to yet."""


async def show_page(explorer: Explorer, request: Request) -> None:
    """Show the view that a request asks for."""
    shown, address = explorer.shown, explorer.address(request)
    _keep_few_waiting(ui.context.client)
    ui.colors(primary=LIGHT.accent)
    ui.add_head_html(f"<style>{_style()}</style>")
    ui.dark_mode(None)  # as the browser prefers
    with ui.element("header").classes("top"):
        ui.link("tallytree", "/").classes("brand")
        ui.label(_what(shown)).classes("note")
    main = ui.element("div").classes("explorer").props("id=explorer")
    with main:
        banner = ui.element("div").props("role=status")
        _watch(explorer, shown, banner)
        if not shown.walk.release.statement["private"]:
            with ui.element("div").classes("warning").props("role=note id=not-private"):
                ui.label(NOT_PRIVATE)
        given = request.query_params.getlist("tick")[:PAGE]
        ticks = [int(each) for each in given if each.isdecimal() and each.isascii() and len(each) < 6]
        try:
            view = await run.io_bound(shown.reading, lambda: read_view(shown, address))
        except ReleaseReplacedError:
            _say_replaced(explorer, banner)
            return
        if view is None:  # the server is ending
            return
        allowed = bool(shown.walk.sides)
        if ticks and allowed:
            _show_total(shown, address, ticks)
        text = _template().render(view=view, ticks=ticks, ticks_allowed=allowed)
        ui.html(text, sanitize=False)  # of our own template, which escapes every text


_WAITING: dict[str, Client] = {}


def _keep_few_waiting(page: Client) -> None:
    """Let go of the oldest pages that no browser has connected to, such as a script's; NiceGUI keeps each a minute."""
    _WAITING[page.id] = page
    for happened in (page.on_connect, page.on_delete):
        happened(lambda: _WAITING.pop(page.id, None))
    while len(_WAITING) > MAX_WAITING:
        next(iter(_WAITING.values())).delete()


def _what(shown: OpenedRelease) -> str:
    statistic = {
        "counts": "counts",
        "flows": "flows",
        "tables": "tables",
        "group_sizes": "group sizes",
        "contributions": "people by their number of records",
    }[shown.walk.statistic]
    return f"{statistic} in {shown.folder.name}"


def _watch(explorer: Explorer, shown: OpenedRelease, banner: Any) -> None:
    """Say it on the page, once, when the folder holds another release."""

    def look() -> None:
        if shown.replaced:
            watching.deactivate()
            _say_replaced(explorer, banner)

    watching = ui.timer(WATCH, look)


def _say_replaced(explorer: Explorer, banner: Any) -> None:
    async def reopen() -> None:
        try:
            await run.io_bound(explorer.reopen)
        except (ValueError, OSError) as error:
            said.text = f"{REPLACED} It cannot be opened: {error}"
            return
        ui.navigate.to("/")

    banner.clear()
    with banner, ui.element("div").classes("warning").props("id=replaced"):
        said = ui.label(REPLACED)
        ui.button("Open what is there now", on_click=reopen)


def _show_total(shown: OpenedRelease, address: Address, ticks: list[int]) -> None:
    """The total of the ticked rows, computed while the page is there already: replicates may take long."""
    with ui.element("section").classes("total").props('id=total role="status"'):
        said = ui.label(f"Adding up {len(ticks)} rows …")

    def summed() -> str:
        chosen, unit = chosen_rows(shown, address, ticks), counted_unit(shown.walk.release.statement)
        rows = shown.walk.total(address.table, chosen, address.alpha).to_pylist()
        if "size" in (rows[0] if rows else {}):
            groups = sum(row["groups"] for row in rows)
            members = sum(row["groups"] * row["size"] for row in rows)
            return f"Total of {len(chosen)} rows: {as_text(groups)} {unit} with {as_text(members)} members."
        row = rows[0]
        text = f"Total of {len(chosen)} rows: {as_text(row['count'])} {unit}"
        if row.get("ci_lower") is None:
            return f"{text}. Its error is not known."
        return f"{text}; {probably_between(row, address.alpha)}."

    async def add_up() -> None:
        try:
            said.text = await run.io_bound(shown.reading, summed)
        except ReleaseReplacedError:
            said.text = REPLACED
        except ValueError as error:
            said.text = str(error)

    ui.timer(0.05, add_up, once=True)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_text("view.html"))


def _style() -> str:
    light, dark = (
        "".join(f"{name}:{color};" for name, color in css_variables(scheme).items()) for scheme in (LIGHT, DARK)
    )
    return f":root{{{light}}}\n.body--dark{{{dark}}}\n{_text('view.css')}"


@cache
def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
