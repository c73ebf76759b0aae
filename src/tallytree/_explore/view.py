"""All that a page shows of a view, read at once: rows, pictures, neighbours, what a search finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tallytree._charts import svg_in_page
from tallytree._explore.address import ALPHAS, Address
from tallytree._explore.downloads import shown_page
from tallytree._explore.pictures import (
    HERE,
    MOST_BARS,
    map_picture,
    page_picture,
    place_name,
    short_labels,
    side_paths,
    sizes_picture,
)
from tallytree._explore.shown import OpenedRelease
from tallytree._explore.walk import ORDERS, PAGE, Page, Walk
from tallytree.release.counted_unit import bound_sentence, counted_unit, is_bounded
from tallytree.release.quality import number_column
from tallytree.release.remainders import NOT_LISTED
from tallytree.release.view.release_view import PublishedTable
from tallytree.release.view.sides import ALL, TreePlace

NEIGHBOURS = 20
"""Siblings, and partners of flows, that are shown."""


@dataclass(frozen=True)
class Link:
    """A link of the page.

    Attributes:
        text: what it says.
        query: where it leads; None for the view that is shown.
        note: what stands beside it.
        plain: whether it is text alone, about no view.
    """

    text: str
    query: str | None
    note: str = ""
    plain: bool = False


@dataclass(frozen=True)
class Row:
    """A row of the table: its number on the page, what it is about, its numbers as text, and if it is of a place."""

    number: int
    label: Link
    cells: list[str]
    listed: bool


@dataclass(frozen=True)
class Figure:
    """A picture, and what it shows in words."""

    title: str
    drawing: str
    words: str


@dataclass(frozen=True)
class PageContents:
    """What a page shows."""

    title: str
    headline: str
    bound: str
    crumbs: list[tuple[str, list[Link]]]
    tables: list[Link]
    alphas: list[Link]
    orders: list[Link]
    columns: list[str]
    rows: list[Row]
    caption: str
    pages: list[Link]
    pictures: list[Figure]
    size_options: list[Link]
    siblings: list[Link]
    partners: list[tuple[str, list[Link]]]
    search: str
    found: list[Link]
    hidden: list[tuple[str, str]]
    query: str


def read_view(shown: OpenedRelease, address: Address) -> PageContents:
    """Read and draw all of a view."""
    walk = shown.walk
    page = shown_page(shown, address)
    columns = [name for name in page.rows.column_names if name not in _path_columns(walk)]
    query = address.query(walk)
    return PageContents(
        title=place_name(walk, address.places) if walk.sides else "People by their number of records",
        headline=_headline(walk, address),
        bound=bound_sentence(walk.release.statement),
        crumbs=_crumbs(walk, address),
        tables=_tables(walk, address),
        alphas=_choices(walk, address, "alpha", ALPHAS, lambda alpha: f"{100 - 100 * alpha:g} %"),
        orders=_choices(walk, address, "order", ORDERS, {"largest": "largest first", "hierarchy": "in order"}.get),
        columns=columns,
        rows=_rows(walk, address, page, columns),
        caption=_caption(walk, address, page),
        pages=_pages(walk, address, page),
        pictures=_pictures(shown, address, page),
        size_options=_size_options(walk, address),
        siblings=_siblings(walk, address),
        partners=_partners(walk, address),
        search=address.search,
        found=_found(walk, address),
        hidden=_hidden(query, "search"),
        query=query,
    )


def chosen_rows(shown: OpenedRelease, address: Address, ticks: Sequence[int]) -> list[tuple[TreePlace, ...]]:
    """The places of the rows of the page that are ticked."""
    places = shown_page(shown, address).places
    return [places[tick] for tick in ticks if tick < len(places)]


def _path_columns(walk: Walk) -> set[str]:
    return {column for side in walk.sides for column in side.columns}


def as_text(value: Any) -> str:
    """A number as a page shows it."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _headline(walk: Walk, address: Address) -> str:
    rows = walk.headline(address.places, address.alpha) if walk.sides else None
    if rows is None:
        cell = walk.view.partly_listed and walk.own_table(address.places) is not None
        return f"{NOT_LISTED.capitalize()}: its own number was not published, and is not known to be 0" if cell else ""
    row = rows.to_pylist()[0]
    name = number_column(rows)
    text = f"{as_text(row[name])} {counted_unit(walk.release.statement)}"
    if "members" in row:
        text += f" with {as_text(row['members'])} members"
    if row.get("ci_lower") is not None and row["ci_lower"] < row["ci_upper"]:
        text += f"; {probably_between(row, address.alpha)}"
    return text


def probably_between(row: Mapping[str, Any], alpha: float) -> str:
    """What the interval of a number says, in words."""
    sure = f"{100 - 100 * alpha:g} % sure"
    return f"the true number is probably between {as_text(row['ci_lower'])} and {as_text(row['ci_upper'])} ({sure})"


def _crumbs(walk: Walk, address: Address) -> list[tuple[str, list[Link]]]:
    found = []
    for number, (side, place) in enumerate(zip(walk.sides, address.places, strict=True)):
        steps = [side.above(place, named) for named in range(side.root.named, place.named)]
        links = [
            Link(side.path(step)[-1] if step.named else "all", _with_side(address, number, step, walk))
            for step in steps
        ]
        links.append(Link(side.path(place)[-1] if place.named else "all", None))
        found.append((side.name if len(walk.sides) > 1 else "", links))
    return found


def _with_side(address: Address, number: int, place: TreePlace, walk: Walk) -> str:
    places = tuple(place if i == number else other for i, other in enumerate(address.places))
    return address.to(places=places, table=walk.table_below(places)).query(walk)


def _tables(walk: Walk, address: Address) -> list[Link]:
    return [
        Link(table.title, None if table is address.table else address.to(table=table).query(walk))
        for table in walk.view.tables
    ]


def _choices(
    walk: Walk, address: Address, name: str, known: Sequence[Any], text: Callable[[Any], str | None]
) -> list[Link]:
    return [
        Link(str(text(each)), None if getattr(address, name) == each else address.to(**{name: each}).query(walk))
        for each in known
    ]


def _rows(walk: Walk, address: Address, page: Page, columns: list[str]) -> list[Row]:
    labels = short_labels(walk, address, page)
    found = []
    for number, (label, row, places) in enumerate(zip(labels, page.rows.to_pylist(), page.places, strict=True)):
        listed = walk.view.is_listed(address.table, places)
        deeper = places and listed and not walk.is_about(address.table, address.places)
        query = address.into(walk, places).query(walk) if deeper else None
        found.append(Row(number, Link(label, query), [as_text(row[name]) for name in columns], listed))
    return found


def _caption(walk: Walk, address: Address, page: Page) -> str:
    last = page.first + page.rows.num_rows
    which = f"rows {page.first + 1:,} to {last:,} of {page.total:,}" if page.total else "no rows"
    sparse = walk.sides and not walk.view.lists_all and walk.statistic != "group_sizes"
    rest = "; cells that are not listed are published as 0" if sparse else ""
    if walk.view.partly_listed:
        rest = "; cells without a row are not known to be 0" + _in_part(walk, page)
    unit = f"; numbers of {counted_unit(walk.release.statement)}" if is_bounded(walk.release.statement) else ""
    return f"{address.table.title}: {which}{rest}{unit}"


def _in_part(walk: Walk, page: Page) -> str:
    """How much more may lie in the place that is viewed."""
    if not page.in_part:
        return ""
    unit = counted_unit(walk.release.statement)
    return f"; up to {as_text(page.in_part)} more {unit} may lie here, which are not listed of larger cells"


def _pages(walk: Walk, address: Address, page: Page) -> list[Link]:
    found = []
    if page.first > 0:
        found.append(Link("previous rows", address.to(first=max(page.first - PAGE, 0)).query(walk)))
    if page.first + page.rows.num_rows < page.total and page.rows.num_rows:
        found.append(Link("next rows", address.to(first=page.first + PAGE).query(walk)))
    return found


def _pictures(shown: OpenedRelease, address: Address, page: Page) -> list[Figure]:
    walk, found = shown.walk, []
    rows = page_picture(walk, address, page)
    if rows is not None:
        words = f"Bars, at most {MOST_BARS}, of the first rows of the table, which has the same numbers."
        found.append(Figure("The first rows", svg_in_page(rows, "rows"), words))
    sizes = sizes_picture(walk, address)
    if sizes is not None:
        found.append(Figure("Sizes of the groups", svg_in_page(sizes, "sizes"), _size_words(walk, address)))
    drawn = map_picture(walk, address, shown.boundaries)
    if drawn is not None:
        words = "A map of the table's level; each area leads to its own view, as its row in the table does."
        found.append(Figure("Map", svg_in_page(drawn, "map").replace(HERE, "/"), words))
    return found


def _size_words(walk: Walk, address: Address) -> str:
    sizes = walk.sizes(address.places[0])
    if sizes is None:
        return ""
    rows = sizes.to_pylist()
    most = max(rows, key=lambda row: row["groups"])
    return (
        f"Groups by size; sizes that occur: {len(rows):,}. The most common size is {most['size']:,}, with "
        f"{as_text(most['groups'])} groups; the largest is {rows[-1]['size']:,}."
    )


def _size_options(walk: Walk, address: Address) -> list[Link]:
    if walk.statistic != "group_sizes":
        return []
    keep = {"first": address.first}
    log = address.to(log=not address.log, **keep).query(walk)
    cumulative = address.to(cumulative=not address.cumulative, **keep).query(walk)
    return [
        Link("even axis of sizes" if address.log else "logarithmic axis of sizes", log),
        Link("groups of each size" if address.cumulative else "groups of a size or more", cumulative),
    ]


def _siblings(walk: Walk, address: Address) -> list[Link]:
    """The nodes beside the lowest place, with their numbers, largest first."""
    above, table = walk.siblings(address.places), walk.own_table(address.places)
    if above is None or table is None:
        return []
    page = walk.page(table, above, alpha=address.alpha, length=NEIGHBOURS)
    name = number_column(page.rows)
    found = []
    for places, row in zip(page.places, page.rows.to_pylist(), strict=True):
        listed = walk.view.is_listed(table, places)
        own = not listed or places == walk.shown_in(table, address.places)
        query = None if own else address.to(places=places, table=address.table).query(walk)
        text = place_name(walk, places).split(" / ")[-1] if listed else NOT_LISTED
        found.append(Link(text, query, _with_interval(row, name), plain=not listed))
    return found


def _with_interval(row: dict[str, Any], name: str) -> str:
    if row.get("ci_lower") is None:
        return as_text(row[name])
    return f"{as_text(row[name])} ({as_text(row['ci_lower'])} to {as_text(row['ci_upper'])})"


def _partners(walk: Walk, address: Address) -> list[tuple[str, list[Link]]]:
    """Of flows: where those from a node go, and where those to it come from."""
    if walk.statistic != "flows" or len(walk.sides) != 2:
        return []
    deepest = max((0, 1), key=lambda i: address.places[i].named)
    place = address.places[deepest]
    same = walk.sides[0].hierarchy.leaf_table().equals(walk.sides[1].hierarchy.leaf_table()) if place.named else False
    found = []
    for side in (0, 1) if same else (deepest,):
        table = _square_table(walk, place.named)
        if table is None or place.named == 0:
            continue
        places = tuple(place if i == side else ALL for i in (0, 1))
        page = walk.page(table, places, alpha=address.alpha, length=NEIGHBOURS)
        links = []
        for row_places, row in zip(page.places, page.rows.to_pylist(), strict=True):
            listed = walk.view.is_listed(table, row_places)
            query = address.to(places=row_places, table=walk.table_below(row_places)).query(walk) if listed else None
            text = " / ".join(side_paths(walk, table, row_places)[1 - side])
            links.append(Link(text, query, _with_interval(row, "count"), plain=not listed))
        if page.in_part:
            links.append(Link(NOT_LISTED, None, f"up to {as_text(page.in_part)}, of larger cells", plain=True))
        name = walk.sides[side].path(place)[-1]
        found.append((f"From {name} to" if side == 0 else f"To {name} from", links))
    return found


def _square_table(walk: Walk, named: int) -> PublishedTable | None:
    return next((table for table in walk.view.tables if table.named == (named, named)), None)


def _found(walk: Walk, address: Address) -> list[Link]:
    links = []
    for number, place, path in walk.search(address.search):
        side = walk.sides[number]
        note = f"{side.columns[place.named - 1]}{': ' + ' / '.join(path[:-1]) if len(path) > 1 else ''}"
        links.append(Link(path[-1], _with_side(address.to(), number, place, walk), note))
    return links


def _hidden(query: str, *without: str) -> list[tuple[str, str]]:
    from urllib.parse import parse_qsl

    return [(name, value) for name, value in parse_qsl(query[1:]) if name not in without]
