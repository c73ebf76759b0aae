"""Pictures of group sizes: the groups of a node by size, and its numbers of groups of a size or more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tallytree.release.counted_unit import worded, words_of
from tallytree.release.view.release_view import ReleaseView
from tallytree.views import charts
from tallytree.views.charts.sizes import spread, tails
from tallytree.views.report.pictures import MOST_ROWS, Grid, Picture, left_out
from tallytree.views.report.reading import labels_of, rows_at
from tallytree.views.report.wording import capitalized, name, whole

MOST_SIZES = 21


def sizes_picture(view: ReleaseView, level: str, labels: Sequence[str], *, log: bool = False) -> Picture:
    """The size distribution of a node: groups by size."""
    table = rows_at(view, level, labels)
    return _sizes_shown(view, table, _where(view, table, labels), log)


def cumulative_picture(view: ReleaseView, level: str, labels: Sequence[str], *, log: bool | None = None) -> Picture:
    """The numbers of groups of a size or more of a node; by default on a logarithmic axis where sizes go beyond 20."""
    table = rows_at(view, level, labels)
    return _tails_shown(view, table, _where(view, table, labels), log)


def _where(view: ReleaseView, rows: pa.Table, labels: Sequence[str]) -> str:
    """The node that rows are about, by what people read in place of its labels."""
    return labels_of(view.shown(rows.slice(0, 1)))[0] if labels else "all areas"


def _last_label(view: ReleaseView, table: pa.Table) -> str:
    """What the last size is called: with a plus where larger groups are counted as this size."""
    largest, sizes = view.largest_size, table.column("size").to_pylist()
    return f"{largest:,}+" if largest is not None and sizes and sizes[-1] == largest else ""


def _sizes_shown(view: ReleaseView, table: pa.Table, where: str, log: bool) -> Picture:
    ends, one, noun = _last_label(view, table), _named(view, "group"), _named(view, "groups")
    begin = capitalized(noun)
    lower, upper = (_column(table, end) for end in ("ci_lower", "ci_upper"))
    rows = [
        {"size": size, "groups": groups, "lower": low, "upper": high}
        for size, groups, low, high in zip(
            table.column("size").to_pylist(), table.column("groups").to_pylist(), lower, upper, strict=True
        )
    ]
    first = rows[0]["size"] if rows else 0
    listed = {row["size"]: row for row in rows if row["size"] < first + MOST_SIZES}
    empty = {"groups": 0, "lower": None, "upper": None}
    shown = [listed.get(size, {"size": size, **empty}) for size in range(first, max(listed, default=0) + 1)]
    called = ends if len(listed) == len(rows) else ""
    has_ends = bool(rows) and rows[0]["lower"] is not None
    grid = Grid(
        f"{begin} by size, {where}",
        ("size", noun, *(("at least", "at most") if has_ends else ())),
        [
            (ends if ends and row is rows[-1] else f"{row['size']:,}", whole(row["groups"]),
             *((whole(row["lower"]), whole(row["upper"])) if has_ends else ()))
            for row in rows[:MOST_ROWS]
        ],
        left_out(len(rows), min(len(rows), MOST_ROWS)),
    )  # fmt: skip
    most = max(rows, key=lambda row: row["groups"], default={"size": 0, "groups": 0})
    words = f"{begin} by size, {where}. Most {noun}, {whole(most['groups'])}, have size {most['size']:,}."
    title = f"{begin} by size, {where}" + ("" if len(listed) == len(rows) else ": the smallest sizes")
    return Picture(
        title,
        words,
        lambda width: charts.size_distribution(
            rows if log else shown,
            log=log,
            last_label=ends if log else called,
            width=width,
            description=words,
            unit=noun,
            one=one,
        ),
        grid,
        840,
    )


def _tails_shown(view: ReleaseView, table: pa.Table, where: str, log: bool | None) -> Picture:
    ends, one, noun = _last_label(view, table), _named(view, "group"), _named(view, "groups")
    begin = capitalized(noun)
    names = ("tail_count", "tail_ci_lower", "tail_ci_upper")
    columns = [_column(table, each) for each in names]
    sizes, groups = (table.column(each).to_pylist() for each in ("size", "groups"))
    rows = [
        {"size": size, "groups": number, "tail": tail, "tail_lower": low, "tail_upper": high}
        for size, number, tail, low, high in zip(sizes, groups, *columns, strict=True)
    ]
    found = tails(rows)
    on_log = (bool(sizes) and sizes[-1] > 20) if log is None else log
    has_ends = bool(found) and found[0].get("lower") is not None
    picked = spread(found, 25)
    grid = Grid(
        f"{begin} of a size or more, {where}",
        ("size or more", noun, *(("at least", "at most") if has_ends else ())),
        [
            (f"{row['size']:,}", whole(row["groups"]),
             *((whole(row["lower"]), whole(row["upper"])) if has_ends else ()))
            for row in picked
        ],
        left_out(len(found), len(picked)),
    )  # fmt: skip
    middle = found[len(found) // 2] if found else {"size": 0, "groups": 0}
    words = (
        f"{begin} of a size or more, {where}. {whole(middle['groups'])} {noun} have {middle['size']:,} members or more."
    )
    band = ", with the band that holds the true number nine times in ten" if has_ends else ""
    return Picture(
        f"{begin} of a size or more, {where}{band}",
        words,
        lambda width: charts.size_distribution(
            rows, log=on_log, cumulative=True, last_label=ends, width=width, description=words, unit=noun, one=one
        ),
        grid,
        840,
    )


def _named(view: ReleaseView, noun: str) -> str:
    """What a group is called, or groups are, in the publisher's words."""
    return name(worded(noun, words_of(view.statement)))


def _column(table: pa.Table, column: str) -> list[Any]:
    return table.column(column).to_pylist() if column in table.column_names else [None] * table.num_rows
