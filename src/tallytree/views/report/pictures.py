"""Pictures of a release, each with its rows as a table and its content in words: for the report and for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.hierarchy import Hierarchy
from tallytree.product import Product
from tallytree.release.counted_unit import counted_unit, worded, words_of
from tallytree.release.remainders import NOT_LISTED
from tallytree.release.risk_statement import of_hundred
from tallytree.release.view.release_view import ReleaseView, path_columns
from tallytree.release.view.sides import TreeSide, node_numbers
from tallytree.views import charts
from tallytree.views.boundaries import Boundaries
from tallytree.views.report.reading import (
    PublishedError,
    is_small,
    level_errors,
    parts_of,
    small_table,
)
from tallytree.views.report.wording import about, name, plural, rounded, whole

WIDE, NARROW = 820, 230
"""Widths of charts in pixels: for a screen or paper, and for a phone. Labels beside them need further 100."""
MAP_HEIGHT = 480
MOST_BARS, MOST_SIDE, MOST_ROWS = 15, 20, 60
MOST_CELLS = 10_000
"""A matrix has a box for each pair of nodes of its two sides, listed or not."""


@dataclass(frozen=True)
class Grid:
    """A small table of a page.

    Attributes:
        caption: what it shows.
        headings: of its columns.
        rows: texts; the first of a row says what the row is about.
        remark: what was left out; may be empty.
    """

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    remark: str = ""


@dataclass(frozen=True)
class Picture:
    """A chart that can be drawn in several widths.

    Attributes:
        title: its caption.
        description: what it shows, in words.
        draw: from a width in pixels to the Altair chart.
        grid: its numbers.
        widest: its width on a wide screen.
    """

    title: str
    description: str
    draw: Callable[[int], Any] = field(repr=False)
    grid: Grid
    widest: int = WIDE


# The tree


def tree_picture(view: ReleaseView) -> Picture | None:
    """The icicle of a hierarchy, as far down as levels are small; None for products, which are no simple tree."""
    tree = view.tree
    if not isinstance(tree, Hierarchy):
        return None
    levels = []
    for depth, level in enumerate(view.levels):
        if tree.size(depth) > 50_000:
            break
        counts, std_dev = _node_numbers(view, level, depth, tree)
        shown = tree.shown(depth, view.language)
        levels.append(charts.LevelNodes(view.word(level), tree.parent[depth], shown, counts, std_dev))
    if len(levels) < 2:
        return None
    rows = charts.boxes(levels)
    rows = rows.set_column(2, "label", pa.array([name(label) for label in rows.column("label").to_pylist()]))
    unit = counted_unit(view.statement)
    alone = [row for row in rows.to_pylist() if row["together"] == 1]
    kept = [row for row in alone if row["depth"] < 3][:MOST_ROWS]
    grid = Grid(
        f"{unit.capitalize()} of the larger nodes",
        ("node", "level", unit),
        [(name(row["label"]), name(row["level"]), whole(row["count"])) for row in kept],
        left_out(len(alone), len(kept)),
    )
    sizes = [
        f"{plural(tree.size(depth), 'node')} at {name(view.word(level))}" for depth, level in enumerate(view.levels)
    ]
    words = f"The tree from the top: {', '.join(sizes)}. Each box is as wide as its share of all {unit}."
    words += " Small nodes are drawn together, in the color of most of them."
    return Picture(
        "The tree, each box as wide as its share",
        words,
        lambda width: charts.icicle(rows, width=width, description=words),
        grid,
    )


def _node_numbers(view: ReleaseView, level: str, depth: int, tree: Hierarchy) -> tuple[Any, Any]:
    """One number for each node, in node order, with its standard deviation where that is known."""
    table = view.whole(level)
    value = view.number
    if value == "count" and table.num_rows == tree.size(depth):
        errors = table.column("std_dev").to_numpy() if "std_dev" in table.column_names else None
        return table.column("count").to_numpy(), errors
    nodes = node_numbers(tree, depth, table, table.num_rows)
    counts = np.bincount(nodes, weights=table.column(value).to_numpy(), minlength=tree.size(depth))
    public = any("number of groups in every" in str(fact) for fact in view.statement["invariants"])
    return counts, np.zeros(len(counts)) if public and value == "groups" else None


# Errors


def errors_picture(view: ReleaseView, found: Sequence[PublishedError] | None = None) -> Picture | None:
    """How far the numbers of each level are off; None where no level's errors are known."""
    errors = level_errors(view) if found is None else found
    known = [each for each in errors if each.median is not None][:MOST_ROWS]
    if not known:
        return None
    rows = [
        {"level": name(each.level), "median": each.median, "least": each.least, "most": each.most} for each in known
    ]
    grid = Grid(
        "Typical error of the numbers, by level",
        ("level", "smallest", "middle", "largest", "nine in ten numbers are within"),
        [
            (name(each.level), rounded(each.least or 0), rounded(each.median or 0), rounded(each.most or 0),
             about(each.reach or 0))
            for each in known
        ],
    )  # fmt: skip
    words = "The typical error of the numbers: " + ", ".join(
        f"{rounded(each.median or 0)} at {name(each.level)}" for each in known
    )
    return Picture(
        "How far the numbers are off, by level (dot: the middle number; line: from the surest to the least sure)",
        words + ".",
        lambda width: charts.errors_by_level(rows, width=width, description=words),
        grid,
        760,
    )


# Bars

ENDS = ("at least", "at most")
"""Headings of the ends of intervals."""


def _ends(table: pa.Table) -> list[list[Any]]:
    """The ends of the intervals of a table, where it has them."""
    return [table.column(end).to_pylist() for end in ("ci_lower", "ci_upper") if end in table.column_names]


def bars_picture(table: pa.Table, value: str, unit: str, title: str, most_bars: int = MOST_BARS) -> Picture:
    """Bars of the rows of a small table, with intervals where these are known: the largest, if there are many."""
    names = path_columns(table)
    chosen = table
    if table.num_rows > most_bars:
        largest = pc.sort_indices(table, sort_keys=[(value, "descending")])[:most_bars]
        chosen = table.take(largest)
        title = f"{title}: the {most_bars} largest of {table.num_rows:,}"
    ends = _ends(chosen)
    columns = [short_labels(chosen, names), chosen.column(value).to_pylist(), *(ends or [[None] * chosen.num_rows] * 2)]
    rows = [dict(zip(("label", "value", "lower", "upper"), each, strict=True)) for each in zip(*columns, strict=True)]
    grid = Grid(
        title,
        ("what", unit, *ENDS[: len(ends)]),
        [(label, *map(whole, numbers)) for label, *numbers in zip(*columns[: 2 + len(ends)], strict=True)],
        "The ends hold the true number nine times in ten." if ends else "",
    )
    nothing: dict[str, Any] = {"label": "nothing", "value": 0}
    most = max(rows, key=lambda row: row["value"], default=nothing)
    words = f"{title}. The largest is {most['label']} with {whole(most['value'])} {unit}."
    return Picture(title, words, lambda width: charts.bars(rows, unit=unit, width=width, description=words), grid, 720)


# Matrices


def matrix_picture(
    view: ReleaseView, table: pa.Table, down: Sequence[str], across: Sequence[str], title: str
) -> Picture:
    """A matrix of two groups of columns of a small table of counts, in the order of their hierarchies."""
    table = view.shown(table)
    unit, partly = counted_unit(view.statement), view.partly_listed
    counts = table.column("count").to_pylist()
    labels = [_listed_labels(table, side) for side in (down, across)]
    rows = [{"row": row, "column": column, "value": value} for row, column, value in zip(*labels, counts, strict=True)]
    ends = _ends(table)
    order = sorted(range(len(rows)), key=lambda place: -rows[place]["value"])[:MOST_ROWS]
    one, other = (name(view.word(each[-1])) for each in (down, across))
    grid = Grid(
        title,
        (one, other, unit, *ENDS[: len(ends)]),
        [
            (rows[place]["row"], rows[place]["column"], whole(rows[place]["value"]),
             *(whole(end[place]) for end in ends))
            for place in order
        ],
        left_out(len(rows), len(order)),
    )  # fmt: skip
    nothing: dict[str, Any] = {"row": "", "column": "", "value": 0}
    top = rows[order[0]] if order else nothing
    words = f"{title}. The largest number is {whole(top['value'])}, for {one} {top['row']} and {other} {top['column']}."
    orders = [side_order(view, side) for side in (down, across)]
    if partly:
        orders = [[*(order or ()), *([NOT_LISTED] if NOT_LISTED in own else [])]
                  for order, own in zip(orders, labels, strict=True)]  # fmt: skip
        words += " What is not listed has a row or column of its own. A pair without a color is not known to be 0."
    return Picture(
        title,
        words,
        lambda width: charts.matrix(
            _summed(rows) if partly else rows,
            row_title=one,
            column_title=other,
            unit=unit,
            width=width,
            description=words,
            row_order=orders[0],
            column_order=orders[1],
            absent=None if partly else 0,
        ),
        grid,
        760,
    )


def _listed_labels(table: pa.Table, columns: Sequence[str]) -> list[str]:
    """`short_labels` of the rows that name a node of the table's level, and `NOT_LISTED` of the others."""
    listed = table.column(columns[-1]).is_valid()
    own = iter(short_labels(table.filter(listed), columns))
    return [next(own) if each else NOT_LISTED for each in listed.to_pylist()]


def _summed(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a matrix, one for each pair: what is not listed of several nodes is one number."""
    found: dict[tuple[str, str], int] = {}
    for each in rows:
        pair = each["row"], each["column"]
        found[pair] = found.get(pair, 0) + each["value"]
    return [{"row": row, "column": column, "value": value} for (row, column), value in found.items()]


def flow_sides(view: ReleaseView, level: str) -> tuple[list[str], list[str]]:
    """The path columns of the origin and of the destination at a level of flows."""
    tree = view.tree
    if not isinstance(tree, Product) or len(tree.attributes) != 2:
        raise ValueError("level: flows have two sides, and this release has no tree of two; see release.tree")
    columns = {*view.paths(level)}
    origin, destination = ([each for each in side.columns if each in columns] for side in tree.attributes)
    return origin, destination


def flows_picture(view: ReleaseView, level: str | None = None) -> Picture | None:
    """The matrix of origins and destinations at a level; by default the finest that fits into a picture."""
    if not view.kind.sides:
        return None
    given = [level] if level is not None else [*view.levels][::-1]
    for each in given:
        origin, destination = flow_sides(view, each)
        if not origin or not destination or not is_small(view, each):
            continue
        sizes = side_size(view, origin), side_size(view, destination)
        if sizes[0] * sizes[1] > MOST_CELLS or (level is None and max(sizes) > MOST_SIDE):
            continue
        title = f"Trips by origin and destination, at {name(view.word(each))}"
        return matrix_picture(view, small_table(view, each), origin, destination, title)
    return None


def side_size(view: ReleaseView, columns: Sequence[str]) -> int:
    """How many nodes an attribute has at a level, which its path columns name."""
    return next(side.size(len(columns)) for side in view.sides if columns[-1] in side.columns)


def side_order(view: ReleaseView, columns: Sequence[str]) -> list[str] | None:
    """All labels of an attribute of a product at a level, as `short_labels` has them, in the hierarchy's order."""
    if not isinstance(view.tree, Product):
        return None
    side, named = next(side for side in view.sides if columns[-1] in side.columns), len(columns)
    return short_labels(side.shown(side.paths(np.arange(side.size(named)), named)), columns)


# Maps


def map_picture(boundaries: Boundaries, side: TreeSide, table: pa.Table, nodes: Any, value: str, unit: str) -> Picture:
    """A map of the numbers of a level of a side; `nodes` are the nodes of the table's rows."""
    numbers = np.bincount(nodes, weights=table.column(value).to_numpy(), minlength=len(boundaries.frame))
    level, labels = _mapped(boundaries, side)
    order = np.argsort(-numbers, kind="stable")[:MOST_ROWS]
    title = f"Map: {unit} by {level}"
    grid = Grid(
        title,
        (level, unit),
        [(labels[int(place)], whole(numbers[place])) for place in order],
        left_out(len(labels), len(order)),
    )
    words = f"{title}. The largest number is that of {labels[int(order[0])]}, {whole(numbers[order[0]])}."
    return Picture(
        title
        + _without_shape(boundaries, [f"{each} {whole(number)}" for each, number in zip(labels, numbers, strict=True)]),
        words,
        lambda width: charts.choropleth(
            boundaries, numbers.tolist(), unit=unit, width=width, height=min(width, MAP_HEIGHT), description=words
        ),
        grid,
        720,
    )


def _without_shape(boundaries: Boundaries, said: Sequence[str]) -> str:
    """What a caption says of the areas that a map cannot show; `said` of each node."""
    missing = np.setdiff1d(boundaries.frame["node"], boundaries.drawn["node"])
    more = f" and {len(missing) - MOST_SIDE:,} more" if len(missing) > MOST_SIDE else ""
    return f". Without a shape: {', '.join(said[node] for node in missing[:MOST_SIDE])}{more}" if len(missing) else ""


def _mapped(boundaries: Boundaries, side: TreeSide) -> tuple[str, list[str]]:
    """What people read in place of the level that a map shows, and of its nodes."""
    depth = side.hierarchy.levels.index(boundaries.level)
    level = side.level_word(len(side.columns) - (len(side.hierarchy.levels) - 1 - depth))
    return name(level), [name(label) for label in side.hierarchy.shown(depth, side.language).to_pylist()]


def flow_map_picture(boundaries: Boundaries, side: TreeSide, flows: Sequence[Mapping[str, Any]], unit: str) -> Picture:
    """The largest flows between areas of a side on a map."""
    level, labels = _mapped(boundaries, side)
    between = sorted(
        (row for row in flows if row["origin"] != row["destination"]), key=lambda row: -row["value"]
    )[:40]  # fmt: skip
    title = f"Map: the largest flows between areas of the level {level}"
    grid = Grid(
        title,
        ("from", "to", unit),
        [(labels[row["origin"]], labels[row["destination"]], whole(row["value"])) for row in between],
    )
    first = between[0] if between else None
    words = title + (
        f". The largest goes from {labels[first['origin']]} to {labels[first['destination']]}, "
        f"{whole(first['value'])} {unit}." if first else ". There is none."
    )  # fmt: skip
    return Picture(
        title + _without_shape(boundaries, labels),
        words,
        lambda width: charts.flow_map(
            boundaries, flows, unit=unit, width=width, height=min(width, MAP_HEIGHT), description=words
        ),
        grid,
        720,
    )


def short_labels(table: pa.Table, columns: Sequence[str]) -> list[str]:
    """What each row is about by its own labels alone, where these tell the nodes apart; else by their paths.

    Of a row that says how much is not listed, they are those of the last node that it names.
    """
    paths = [tuple(parts) for parts in parts_of(table, columns)]
    own = [" / ".join(parts[-2:] if parts[-1] == NOT_LISTED else parts[-1:]) for parts in paths]
    alone = len({*zip(own, paths, strict=True)}) == len({*own})
    return own if alone else [" / ".join(parts) for parts in paths]


def left_out(all_rows: int, shown: int) -> str:
    """How many rows a table on the page has not; empty where it has all."""
    return f"{shown:,} of {all_rows:,} rows; the files have all." if shown < all_rows else ""


def risk_picture(statement: Mapping[str, Any]) -> Picture:
    """What an attacker finds out, of 100 cases: a statement with `risk` has the rates, of which the last is drawn."""
    blind, found = of_hundred(statement)
    words = (
        f"Of 100 cases an attacker who knows all other records finds out {found} at most, with {blind} false "
        f"suspicions in 100; a blind guess finds out {blind}"
    )
    words = worded(words, words_of(statement))
    grid = Grid(
        "Cases of 100 that are found out", ("how", "of 100"),
        [("by a blind guess", str(blind)), ("by an attacker, at most", str(found))],
    )  # fmt: skip
    return Picture(
        words,
        f"{words}.",
        lambda width: charts.hundred_dots(blind, found, width=width, description=words),
        grid,
        640,
    )
