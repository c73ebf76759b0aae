"""The address of a view: what is shown is in the query of the page, so a view can be kept, sent and gone back from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from tallytree._explore.walk import ORDERS, Walk
from tallytree.release.view.release_view import PublishedTable
from tallytree.release.view.sides import TreePlace

ALPHAS = (0.01, 0.05, 0.1, 0.32)
"""What a reader chooses from: 99, 95, 90 and 68 % intervals."""


@dataclass(frozen=True)
class Address:
    """What a view shows.

    Attributes:
        table: the table whose rows are listed.
        places: one per side.
        alpha: of intervals.
        order: of the rows.
        first: the first row of the page.
        log: show sizes on a logarithmic axis.
        cumulative: show groups of a size or more.
        search: the text that is searched for.
    """

    table: PublishedTable
    places: tuple[TreePlace, ...]
    alpha: float = 0.1
    order: str = ORDERS[0]
    first: int = 0
    log: bool = False
    cumulative: bool = False
    search: str = ""

    def to(self, **changes: Any) -> Address:
        """The same with changes; a page is left for the first one unless `first` is given."""
        return replace(self, **{"first": 0, "search": "", **changes})

    def query(self, walk: Walk) -> str:
        """As the query of a page, with the question mark."""
        plain = {
            "table": walk.view.tables.index(self.table),
            "at": ",".join(f"{place.named}.{place.node}" for place in self.places),
            "alpha": self.alpha,
            "order": self.order,
            "first": self.first,
            "log": int(self.log),
            "cumulative": int(self.cumulative),
            "search": self.search,
        }
        start = first_address(walk)
        usual = {
            "table": walk.view.tables.index(start.table),
            "at": ",".join(f"{place.named}.{place.node}" for place in start.places),
            "alpha": 0.1,
            "order": ORDERS[0],
            "first": 0,
            "log": 0,
            "cumulative": 0,
            "search": "",
        }
        return "?" + urlencode({name: value for name, value in plain.items() if value != usual[name]})

    def into(self, walk: Walk, places: tuple[TreePlace, ...]) -> Address:
        """The view of other places: the first finer table, or the present one where that is finer already."""
        finer = all(
            named >= place.named for named, place in zip(self.table.named, places, strict=True)
        ) and not walk.is_about(self.table, places)
        return self.to(places=places, table=self.table if finer else walk.table_below(places))


def first_address(walk: Walk) -> Address:
    """All of the release, by its first table below the root."""
    places = tuple(side.root for side in walk.sides)
    return Address(walk.table_below(places) if walk.sides else walk.view.tables[0], places)


def read_address(walk: Walk, query: Mapping[str, str]) -> Address:
    """The view that a query names; what it does not name, or names wrongly, is as at the start."""
    start = first_address(walk)
    tables = walk.view.tables
    number = _whole(query.get("table"), len(tables) - 1)
    alpha = next((each for each in ALPHAS if str(each) == query.get("alpha")), start.alpha)
    order = query.get("order", "")
    first = _whole(query.get("first"), 2**53)
    return Address(
        start.table if number is None else tables[number],
        _places(walk, query.get("at", "")) or start.places,
        alpha,
        order if order in ORDERS else start.order,
        0 if first is None else first,
        query.get("log") == "1",
        query.get("cumulative") == "1",
        query.get("search", "")[:100],
    )


def _places(walk: Walk, text: str) -> tuple[TreePlace, ...] | None:
    parts = text.split(",")
    if not walk.sides or len(parts) != len(walk.sides):
        return None
    places = []
    for side, part in zip(walk.sides, parts, strict=True):
        named_text, _, node_text = part.partition(".")
        named = _whole(named_text, len(side.columns))
        node = None if named is None else _whole(node_text, side.size(named) - 1)
        if named is None or node is None:
            return None
        places.append(TreePlace(named, node))
    return tuple(places)


def _whole(text: str | None, most: int) -> int | None:
    """A number 0 … `most` in decimal digits; None where the text is anything else."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 18:
        return None
    return int(text) if int(text) <= most else None
