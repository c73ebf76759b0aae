"""Small tables in HTML, for notebooks; everything in them is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 30
"""Longer tables are cut, with a line that says so."""


def html_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    remark: str = "",
    *,
    most: int | None = MOST_ROWS,
) -> str:
    """A table with a caption; cells with numbers stand at the right.

    Args:
        title: the caption.
        headings: of the columns.
        rows: their cells; numbers are written with separators, None as nothing.
        remark: a sentence below it.
        most: how many rows are shown at most; None for all.
    """
    listed = [*rows]
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in listed[:most])
    left_out = f"{len(listed) - most:,} more rows. " if most is not None and len(listed) > most else ""
    below = f"<p>{escape(left_out + remark)}</p>" if left_out or remark else ""
    table = f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div>{table}{below}</div>"


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        shown = "" if value is None else str(value)
        return f'<td style="text-align:left"><bdi>{escape(shown)}</bdi></td>'
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    return f'<td style="text-align:right">{escape(shown)}</td>'
