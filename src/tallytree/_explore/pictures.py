"""The pictures of a view, from the rows that it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tallytree._boundaries import Boundaries
from tallytree._charts import bars, choropleth, size_distribution
from tallytree._explore.address import Address
from tallytree._explore.walk import Page, Walk
from tallytree.release.counted_unit import counted_unit
from tallytree.release.quality import number_column
from tallytree.release.remainders import NOT_LISTED
from tallytree.release.view.release_view import PublishedTable
from tallytree.release.view.sides import TreePlace

HERE = "http://explorer.invalid/"
"""Stands for this server in the links of a drawing: vl-convert completes a link without a server by vega.github.io."""
MOST_BARS = 20
"""Bars of a picture; a page lists more rows."""


def page_picture(walk: Walk, address: Address, page: Page, *, width: int = 420) -> Any | None:
    """The first rows of a page as bars, with their intervals; None of a page without rows."""
    if page.rows.num_rows == 0:
        return None
    rows = page.rows.slice(0, MOST_BARS)
    name = number_column(rows)
    listed = [
        {
            "label": label,
            "value": row[name],
            "lower": row.get("ci_lower"),
            "upper": row.get("ci_upper"),
        }
        for label, row in zip(_bar_labels(walk, address, page)[:MOST_BARS], rows.to_pylist(), strict=True)
    ]
    return bars(listed, unit=counted_unit(walk.release.statement), width=width)


def short_labels(walk: Walk, address: Address, page: Page) -> list[str]:
    """What each row of a page is about, without what all rows of the view have in common."""
    if not walk.sides:
        columns = [name for name in ("records_from", "records_to") if name in page.rows.column_names]
        return ["-".join(str(row[name]) for name in columns) for row in page.rows.to_pylist()]
    shared = walk.shown_in(address.table, address.places)
    labels = []
    for places in page.places:
        parts = [
            " / ".join(path[common.named :])
            for path, common in zip(side_paths(walk, address.table, places), shared, strict=True)
        ]
        joined = " → ".join(parts) if walk.statistic == "flows" else ", ".join(part for part in parts if part)
        labels.append(joined or place_name(walk, places))
    return labels


def _bar_labels(walk: Walk, address: Address, page: Page) -> list[str]:
    """The same, shorter: of each side the lowest label alone."""
    joint = " → " if walk.statistic == "flows" else ", "
    short = [
        joint.join(part.rpartition(" / ")[2] for part in label.split(joint))
        for label in short_labels(walk, address, page)
    ]
    return short if len(set(short)) == len(short) else short_labels(walk, address, page)


def side_paths(walk: Walk, table: PublishedTable, places: Sequence[TreePlace]) -> list[tuple[str, ...]]:
    """Per side, the labels of the place that a row of a table is about, and that it is not listed where it is not."""
    return [
        (*side.path(place), *([NOT_LISTED] if place.named < named else []))
        for side, place, named in zip(walk.sides, places, table.named, strict=True)
    ]


def place_name(walk: Walk, places: tuple[TreePlace, ...]) -> str:
    """What places are called together."""
    names = [" / ".join(side.path(place)) for side, place in zip(walk.sides, places, strict=True)]
    if walk.statistic == "flows":
        return " → ".join(name or "everywhere" for name in names)
    return ", ".join(name for name in names if name) or "all"


def sizes_picture(walk: Walk, address: Address, *, width: int = 560) -> Any | None:
    """The group sizes of the place; None where the release is not of group sizes, or has no group there."""
    found = walk.sizes(address.places[0]) if len(address.places) == 1 else None
    if found is None or found.num_rows == 0:
        return None
    rows = walk.size_rows(found, address.alpha)
    last = walk.last_size
    reached = last is not None and rows[-1]["size"] == last
    return size_distribution(
        rows,
        log=address.log,
        cumulative=address.cumulative,
        last_label=f"{last}+" if reached else "",
        width=width,
    )


def map_picture(walk: Walk, address: Address, boundaries: Mapping[str, Boundaries], *, width: int = 420) -> Any | None:
    """The numbers of the table's level on a map; None where it has no boundaries, or several sides to choose from."""
    level = address.table.level
    if level not in boundaries or walk.statistic not in ("counts", "group_sizes"):
        return None
    everything = walk.page(
        address.table, tuple(TreePlace() for _ in address.places), alpha=None, order="hierarchy", length=MOST_AREAS + 1
    )
    if everything.total > MOST_AREAS:
        return None
    numbers = np.zeros(len(boundaries[level].frame))
    listed = np.array([walk.view.is_listed(address.table, places) for places in everything.places], dtype=np.bool_)
    nodes = np.array([places[0].node for places in everything.places], dtype=np.int64)[listed]
    numbers[nodes] = everything.rows.column(number_column(everything.rows)).to_numpy()[listed]
    links = [
        f"{HERE}{address.into(walk, (TreePlace(address.table.named[0], node),)).query(walk)}"
        for node in range(len(numbers))
    ]
    unit = counted_unit(walk.release.statement)
    return choropleth(boundaries[level], numbers.tolist(), unit=unit, width=width, links=links)


MOST_AREAS = 5000
"""Areas of a map."""
