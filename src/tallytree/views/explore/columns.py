"""A release as columns that a page in the browser reads: its trees, its tables, and what both mean.

The columns are plain lists, which `json` writes. A column has an entry for each row of its table. Numbers, intervals
and verdicts are those of `Release.table(level, alpha=ALPHA)`. Nothing private is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.hierarchy import QUALITY
from tallytree.numbers.tree_cells import errors_are_exact, lists_by_measurement
from tallytree.release.counted_unit import bound_sentence, counted_noun, counted_unit
from tallytree.release.intervals import number_column, reach_of_households, stated_errors
from tallytree.release.quality import ALPHA, QUALITIES, with_quality
from tallytree.release.remainders import unlisted_sentence
from tallytree.release.statement import description_of, marks_of
from tallytree.release.view.release_view import PublishedTable, ReleaseView
from tallytree.release.view.sides import TreeSide
from tallytree.views.reasons import why_numbers_are_off

MOST_TOTALS = 2_000
"""Places of a level of flows whose totals are computed."""

MOST_SHARES = 100_000
"""Rows of a table with shares."""

_SHORT = {
    "ci_lower": "lower",
    "ci_upper": "upper",
    "tail_count": "tail",
    "tail_ci_lower": "tail_lower",
    "tail_ci_upper": "tail_upper",
    "size": "size",
    "persons": "members",
    "records_from": "from",
    "records_to": "to",
}
"""Columns of published tables, and their names in the page."""

Part = dict[str, Any]
"""Columns by name."""


def facts(view: ReleaseView, title: str) -> Part:
    """What the page says about the release: all but the labels of its trees and the rows of its tables."""
    statement = view.statement
    return {
        "title": title,
        "publisher": _publisher(statement),
        "statistic": view.statistic,
        "unit": counted_unit(statement),
        "noun": counted_noun(statement),
        "bound": bound_sentence(statement),
        "unlisted": _unlisted(view),
        "partly": view.partly_listed,
        "why": why_numbers_are_off(statement),
        "private": bool(statement["private"]),
        "marks": marks_of(statement),
        "sure": f"{100 - 100 * ALPHA:g} %",
        "qualities": list(QUALITIES),
        "last_size": view.largest_size,
        "public_groups": view.public_groups,
        "statement": dict(statement),
        "sides": [
            {
                "name": side.name,
                "columns": list(side.columns),
                "levels": list(side.hierarchy.columns),
                "title": side.word(side.name),
                "words": [_word(view, side, named) for named in range(1, len(side.columns) + 1)],
                "sizes": [side.size(named) for named in range(1, len(side.columns) + 1)],
                "root": side.root.named,
                "alike": _first_alike(view.sides, side),
            }
            for side in view.sides
        ],
        "tables": [
            {"title": table.title, "named": list(table.named), "within": (_larger(view, table) or ((), None))[1]}
            for table in view.tables
        ],
    }


def _word(view: ReleaseView, side: TreeSide, named: int) -> str:
    """What people read in place of the name of a level; of flows without the side, which stands beside it."""
    return side.level_word(named) if view.kind.sides else side.word(side.columns[named - 1])


def _first_alike(sides: tuple[TreeSide, ...], side: TreeSide) -> int:
    """The first side whose tree has the same labels in the same places, so that shapes of one are shapes of both."""
    same = (i for i, each in enumerate(sides) if each.hierarchy is side.hierarchy or _same_labels(each, side))
    return next(same)


def _same_labels(one: TreeSide, other: TreeSide) -> bool:
    pairs = zip(one.hierarchy.labels, other.hierarchy.labels, strict=False)
    above = zip(one.hierarchy.parent, other.hierarchy.parent, strict=False)
    return (
        len(one.hierarchy.levels) == len(other.hierarchy.levels)
        and len(one.columns) == len(other.columns)
        and all(a.equals(b) for a, b in pairs)
        and all(np.array_equal(a, b) for a, b in above)
    )


def _unlisted(view: ReleaseView) -> str:
    """What a cell without a row is."""
    if view.lists_all or view.kind.by_size or view.tree is None:
        return ""
    return unlisted_sentence(view.statement) or (
        "Cells without a row are published as 0. The true number of such a cell may be another."
    )


def labels_of(side: TreeSide, named: int) -> Part:
    """The labels of a level of a tree, what people read in their place, and the parent of each node."""
    depth = side.depth(named)
    labels, shown = side.hierarchy.labels[depth], side.hierarchy.shown(depth, side.language)
    return {
        "label": labels.to_pylist(),
        "shown": None if shown.equals(labels.cast(shown.type)) else shown.to_pylist(),
        "parent": side.hierarchy.parent[depth].tolist() if named > 1 else None,
    }


def rows_of(view: ReleaseView, table: PublishedTable) -> Part:
    """The rows of a published table.

    `number` is what was published. `lower`, `upper` and `quality` are absent where no error is known. Where rows do not
    list every node in its order, `node` has, for each side, the node of each row. Where rows say how much is not
    listed, such a row is about several nodes: `node` has the first, `stop` the one after the last, and `named` how many
    columns the row names. `share`, `share_lower` and `share_upper` are there where shares are known. Of households by
    size that agree with persons, `members` has how many persons each row has, and `all_reach` half the length of the
    interval of all households of the node.
    """
    parts = list(_slices(view, table))
    return {name: _joined([part[name] for part in parts]) for name in parts[0]} | _shares(view, table)


def _shares(view: ReleaseView, table: PublishedTable) -> Part:
    """What share of a larger number each row is, with the ends of its interval: those of `Release.share`.

    Of counts the larger number is that of the place above; of tables that of the area, or the total. There are none
    where errors would need replicates, not all cells are listed, or there are more than `MOST_SHARES` rows.
    """
    within = _larger(view, table)
    if within is None or view.rows(table.level) > MOST_SHARES:
        return {}
    found = view.release.share(table.level, within=within[0], alpha=ALPHA)
    published = pa.concat_tables(view.slices(table.level)).column("count").to_pylist()
    if found.num_rows > len(published):  # cells that are 0 have no row
        found = found.filter(pc.not_equal(found.column("count"), 0))
    if found.column("count").to_pylist() != published:
        return {}
    columns = (("share", "share"), ("share_lower", "ci_lower"), ("share_upper", "ci_upper"))
    return {name: _short_numbers(found.column(column)) for name, column in columns}


def _larger(view: ReleaseView, table: PublishedTable) -> tuple[tuple[str, ...], list[int]] | None:
    """The level or table of which the rows of a table are parts: its names, and how many columns each side names."""
    depth = view.levels.index(table.level)
    if not view.kind.has_tables:
        if depth == 0 or len(view.sides) > 1 or not view.lists_all or not errors_are_exact(view.release):
            return None
        return (view.levels[depth - 1],), [table.named[0] - 1]
    if not any(table.named):
        return None
    areas = view.sides[0].columns[: table.named[0]]
    of_area = bool(areas) and any(table.named[1:])
    named = [table.named[0] if of_area and side == 0 else 0 for side in range(len(view.sides))]
    return ((areas[-1],) if of_area else ()), named


def _short_numbers(column: pa.ChunkedArray) -> list[float | None]:
    return [None if each is None or math.isnan(each) else round(each, 5) for each in column.to_pylist()]


def _joined(parts: list[list[Any]]) -> list[Any]:
    """Columns one after the other; of those of several sides, side by side."""
    if parts[0] and isinstance(parts[0][0], list):
        return [[value for part in parts for value in part[side]] for side in range(len(parts[0]))]
    return [value for part in parts for value in part]


def _slices(view: ReleaseView, table: PublishedTable) -> Iterator[Part]:
    errors = stated_errors(view.statement, table.level)
    for rows in view.slices(table.level):
        found: Part = {}
        if view.sides and not view.lists_all:
            spans = view.spans(table, rows)
            found["node"] = [span.first.tolist() for span in spans]
            if view.partly_listed:
                found["stop"] = [span.stop.tolist() for span in spans]
                found["named"] = [span.named.tolist() for span in spans]
        yield found | _numbers(with_quality(view.with_intervals(table.level, rows, ALPHA), errors))


def _numbers(rows: pa.Table) -> Part:
    """The columns of numbers of published rows."""
    found: Part = {"number": rows.column(number_column(rows)).to_pylist()}
    for name in rows.column_names:
        if name in _SHORT and not pa.types.is_dictionary(rows.schema.field(name).type):
            found[_SHORT[name]] = rows.column(name).to_pylist()
    if "households_std_dev" in rows.column_names:
        found["all_reach"] = reach_of_households(rows, ALPHA).tolist()
    if QUALITY in rows.column_names:
        verdict = rows.column(QUALITY).cast(pa.string())
        found["quality"] = pc.index_in(verdict, pa.array(QUALITIES)).to_pylist()
    return found


def totals_of_flows(view: ReleaseView) -> Iterator[tuple[list[int], Part]]:
    """Totals of all places of a level of flows, to and from everywhere: how many columns each side names, and rows.

    They are those of `Release.total`. A level is left out where a table has them already, where it has more than
    `MOST_TOTALS` places, and where errors would need replicates.
    """
    if not view.kind.sides or not (view.partly_listed or lists_by_measurement(view) or errors_are_exact(view.release)):
        return
    published = {table.named for table in view.tables}
    for position, side in enumerate(view.sides):
        for named in range(1, len(side.columns) + 1):
            names = [named if each == position else 0 for each in range(len(view.sides))]
            if tuple(names) in published or not 1 < side.size(named) <= MOST_TOTALS:
                continue
            nodes = np.arange(side.size(named))
            areas = side.paths(nodes, named).append_column(_NODE, pa.array(nodes.astype(str)))
            rows = view.release.total(areas, by=_NODE, alpha=ALPHA)
            of_side = rows.column(_NODE).cast(pa.int64()).to_pylist()
            everywhere = [0] * rows.num_rows
            yield names, {"node": [of_side if each else everywhere for each in names]} | _numbers(rows)


_NODE = "number of the node"


def _publisher(statement: Mapping[str, Any]) -> str:
    """Who publishes the release, of which period, how final it is and whom to ask, as far as that is known."""
    said = description_of(statement)
    period = statement["release"].get("period")
    found = (
        f"Published by {said['publisher']}" if "publisher" in said else "",
        f"period {period}" if period else "",
        f"{said['status']} numbers" if "status" in said else "",
        f"contact: {said['contact']}" if "contact" in said else "",
    )
    return " · ".join(each for each in found if each)
