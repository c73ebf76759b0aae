"""Checks that a reader of the files can make without trust: integers, none negative, sums that agree.

They read the published tables alone, slice by slice, and know nodes by their labels, as a reader would.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tallytree.release.view.release_view import ReleaseView
from tallytree.sources.leaf_paths import decoded

MOST_ROWS = 20_000_000
"""Of larger levels the sums are not checked: their partial sums are held in memory."""


@dataclass(frozen=True)
class Check:
    """One check and what it found.

    Attributes:
        name: what was checked.
        checked: how many numbers.
        failed: how many of them did not pass; None where it was not checked.
        remark: why it was not checked, or what a failure means; may be empty.
    """

    name: str
    checked: int
    failed: int | None
    remark: str = ""

    @property
    def passed(self) -> bool:
        """Whether all passed."""
        return self.failed == 0


def run_checks(view: ReleaseView) -> list[Check]:
    """All checks of a release's tables."""
    value = view.number
    numbers = negative = fractions = with_interval = outside = 0
    for level in view.levels:
        for rows in view.slices(level):
            column = rows.column(value)
            numbers += len(column)
            negative += _true(pc.less(column, 0))
            if not pa.types.is_integer(column.type):
                fractions += _true(pc.not_equal(column, pc.floor(column)))
            if {"ci_lower", "ci_upper"} <= {*rows.column_names}:
                with_interval += len(column)
                below, above = pc.less(column, rows.column("ci_lower")), pc.greater(column, rows.column("ci_upper"))
                outside += _true(pc.or_(below, above))
    free = "This mechanism gives such numbers." if view.statement.get("negative_numbers") else ""
    found = [
        Check("Numbers are whole", numbers, fractions),
        Check(
            "Numbers are 0 or more",
            numbers,
            negative,
            free if view.kind.reconciled or not negative else "Numbers of people with noise may be negative.",
        ),
    ]
    if with_interval:
        found.append(Check("Numbers lie within their own intervals", with_interval, outside))
    return found + [_sums(view, upper, lower, value) for upper, lower in _pairs(view)]


def _true(flags: pa.ChunkedArray) -> int:
    return int(pc.sum(flags).as_py() or 0)


def _pairs(view: ReleaseView) -> Iterable[tuple[str, str]]:
    """Levels of which one is to be the sums of the other: neighbors in a tree, any two tables that refine another."""
    if view.kind.nested:
        return [*zip(view.levels[:-1], view.levels[1:], strict=True)]
    columns = {level: view.paths(level) for level in view.levels}
    return [
        (upper, lower)
        for upper in view.levels
        for lower in view.levels
        if upper != lower and {*columns[upper]} < {*columns[lower]}
    ]


def _sums(view: ReleaseView, upper: str, lower: str, value: str) -> Check:
    """Whether the numbers of a level are the sums of those of a lower one: of every node, or node and size."""
    numbers = view.rows(upper)
    titles = {each["level"]: view.title_of(each["level"]) for each in view.statement["levels"]}
    name = f"Sums of “{titles[lower]}” are the numbers of “{titles[upper]}”"
    if numbers + view.rows(lower) > MOST_ROWS:
        return Check(name, numbers, None, f"not checked: more than {MOST_ROWS:,} rows")
    keys = [*view.paths(upper), *view.kind.keys]
    partial = [_summed(rows, keys, value, 1) for rows in view.slices(lower)]
    partial += [_summed(rows, keys, value, -1) for rows in view.slices(upper)]
    fractions = any(pa.types.is_floating(rows.schema.field(value).type) for rows in partial)
    kind = pa.float64() if fractions else pa.int64()
    alike = [rows.set_column(len(keys), value, rows.column(value).cast(kind)) for rows in partial]
    together = _summed(pa.concat_tables(alike), keys, value, 1)
    difference = together.column(value)
    return Check(name, together.num_rows, _true(pc.not_equal(difference, 0)))


def _summed(rows: pa.Table, keys: Sequence[str], value: str, sign: int) -> pa.Table:
    """The sums of a column by keys, times a sign."""
    plain = decoded(rows.select([*keys, value]))
    number = plain.column(len(keys))
    signed = pc.multiply(number, pa.scalar(sign, number.type))
    if not keys:
        return pa.table({value: [pc.sum(signed).as_py() or 0]})
    named = [f"key {place}" for place in range(len(keys))]  # names of levels might be those of sums
    table = pa.table([*plain.columns[: len(keys)], signed], names=[*named, "number"])
    made = table.group_by(named).aggregate([("number", "sum")]).select([*named, "number_sum"])
    return made.rename_columns([*keys, value])
