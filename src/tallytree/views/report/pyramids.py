"""Population pyramids of tables by two attributes of which one has two labels, such as age × sex."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tallytree.product import Product
from tallytree.release.counted_unit import counted_unit
from tallytree.release.view.release_view import ReleaseView
from tallytree.views import charts
from tallytree.views.report.pictures import MOST_ROWS, Grid, Picture, left_out, short_labels, side_order, side_size
from tallytree.views.report.reading import is_small, small_table
from tallytree.views.report.wording import capitalized, name, whole

LEAST_STEPS, MOST_STEPS = 4, 40
MOST_AREAS = 12
"""Small pyramids of one picture."""


def pyramid_sides(view: ReleaseView, groups: Sequence[Sequence[str]]) -> tuple[int, int] | None:
    """Of a table's attributes, by their path columns, the places of the one with steps and of that with two labels.

    None where the table is no pyramid. Areas, which are the first attribute of a release, are neither.
    """
    areas = {*view.sides[0].columns} if view.sides else set()
    beside = [place for place, columns in enumerate(groups) if not {*columns} & areas]
    if len(beside) != 2 or len(groups) - len(beside) > 1 or view.partly_listed:
        return None
    sizes = [side_size(view, groups[place]) for place in beside]
    for steps, two in ((0, 1), (1, 0)):
        if sizes[two] == 2 and LEAST_STEPS <= sizes[steps] <= MOST_STEPS:
            return beside[steps], beside[two]
    return None


def pyramid_picture(
    view: ReleaseView, table: pa.Table, groups: Sequence[Sequence[str]], sides: tuple[int, int]
) -> Picture:
    """The pyramid of a table, or small ones by area where it has areas: of the largest, if there are many."""
    steps, two = (groups[place] for place in sides)
    area = next((columns for place, columns in enumerate(groups) if place not in sides), None)
    table = view.shown(table)
    unit, counts = counted_unit(view.statement), table.column("count").to_pylist()
    has_ends = "ci_lower" in table.column_names
    ends = [table.column(end).to_pylist() if has_ends else [None] * len(counts) for end in ("ci_lower", "ci_upper")]
    where = [""] * len(counts) if area is None else short_labels(table, area)
    columns = zip(short_labels(table, two), short_labels(table, steps), counts, *ends, where, strict=True)
    keys = ("group", "step", "value", "lower", "upper", "area")
    rows: list[dict[str, Any]] = [dict(zip(keys, each, strict=True)) for each in columns]
    totals: dict[str, float] = {}
    for row in rows:
        totals[row["area"]] = totals.get(row["area"], 0) + row["value"]
    shown = {*sorted(totals, key=lambda each: -totals[each])[:MOST_AREAS]}
    areas = [] if area is None else [each for each in dict.fromkeys(where) if each in shown]
    rows = [row for row in rows if row["area"] in shown]
    called = [name(view.word(columns[-1])) for columns in (area or [""], steps, two)]
    by = "" if area is None else f" in each {called[0]}"
    title = f"{capitalized(unit)} by {called[1]} and {called[2]}{by}"
    if len(areas) < len(totals) and area is not None:
        title += f": the {len(areas)} largest of {len(totals):,}"
    nothing: dict[str, Any] = {"step": "", "group": "", "area": "", "value": 0}
    most = max(rows, key=lambda row: row["value"], default=nothing)
    at = ", ".join(filter(None, (most["area"], most["step"], most["group"])))
    words = f"{title}. The largest number is {whole(most['value'])}, for {at}."
    order, pair = side_order(view, steps) or [], side_order(view, two) or []
    return Picture(
        title,
        words,
        lambda width: charts.pyramid(
            rows, unit=unit, group_title=called[2], order_title=called[1], areas=areas, width=width,
            description=words, order=order, groups=pair,
        ),
        _grid(title, rows, called, unit, has_ends=has_ends),
    )  # fmt: skip


def _grid(title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], unit: str, *, has_ends: bool) -> Grid:
    """The numbers of a pyramid, in the order of the table."""
    heads = [each for each in columns if each]
    kept = rows[:MOST_ROWS]
    return Grid(
        title,
        (*heads, unit, *(("at least", "at most") if has_ends else ())),
        [
            (
                *([row["area"]] if columns[0] else []), row["step"], row["group"], whole(row["value"]),
                *((whole(row["lower"]), whole(row["upper"])) if has_ends else ()),
            )
            for row in kept
        ],
        left_out(len(rows), len(kept)),
    )  # fmt: skip


def column_groups(view: ReleaseView, columns: list[str]) -> list[list[str]]:
    """The path columns of a table by attribute."""
    if not isinstance(view.tree, Product):
        return [[column] for column in columns]
    sides = ([column for column in side.columns if column in columns] for side in view.sides)
    return [side for side in sides if side]


def first_pyramid(view: ReleaseView, levels: Sequence[str] = ()) -> Picture | None:
    """The pyramid of the table with these levels, in any order; without any, of the smallest that is one. Else None.

    Args:
        view: of a release of tables.
        levels: of a table.
    """
    named = {each["level"]: each.get("table", ()) for each in view.statement["levels"]}
    for published in sorted(view.tables, key=lambda each: len(view.paths(each.level))):
        if (levels and sorted(named[published.level]) != sorted(levels)) or not is_small(view, published.level):
            continue
        groups = column_groups(view, view.paths(published.level))
        sides = pyramid_sides(view, groups)
        if sides is not None:
            return pyramid_picture(view, small_table(view, published.level), groups, sides)
    return None
