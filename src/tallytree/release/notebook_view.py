"""A release as notebooks show it: its levels, and how many of their numbers can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallytree.release.counted_unit import bound_sentence, counted_unit
from tallytree.release.intervals import stated_errors
from tallytree.release.level_tables import LevelTable, in_slices
from tallytree.release.quality import usable_numbers
from tallytree.support.markup import html_table

MOST_ROWS = 5_000_000
"""Larger tables are not read for it."""


def release_html(statement: Mapping[str, Any], tables: Mapping[str, LevelTable]) -> str:
    """The levels with their rows and verdicts, what is counted, and the guarantee."""
    about = {each["level"]: each for each in statement["levels"]}
    rows = [
        (
            level,
            about.get(level, {}).get("nodes"),
            table.num_rows,
            bool(about.get(level, {}).get("measured")),
            *_verdicts(statement, level, table),
        )
        for level, table in tables.items()
    ]
    headings = ("level", "nodes", "published rows", "measured", "reliable", "with care", "not reliable")
    exact = f"Published exactly: {'; '.join(map(str, statement['invariants'])) or 'nothing'}."
    remark = " ".join(each for each in (bound_sentence(statement), statement["guarantee"], exact) if each)
    return html_table(f"Release of {statement['statistic']}: {counted_unit(statement)}", headings, rows, remark)


def _verdicts(statement: Mapping[str, Any], level: str, table: LevelTable) -> tuple[int | None, ...]:
    """How many numbers are reliable (exact ones too), to be used with care, and neither; None where it is not known."""
    if table.num_rows > MOST_ROWS:
        return None, None, None
    return usable_numbers(in_slices(table), stated_errors(statement, level)) or (None, None, None)
