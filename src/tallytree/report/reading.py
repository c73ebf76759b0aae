"""What a report reads of a release: small levels as a whole, large ones in slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.compute.arrays import FloatArray
from tallytree.hierarchy import RESERVED, decoded
from tallytree.release import Release
from tallytree.release.intervals import TAIL_COLUMNS, stated_errors, with_intervals
from tallytree.release.level_tables import in_slices

SMALL = 5_000
"""A level with at most so many rows is read as a whole, to be drawn."""
ALPHA = 0.1
"""Intervals of a report: nine in ten hold the true number."""
SAMPLED = 200_000
"""Of so many standard deviations the middle one is taken."""


@dataclass(frozen=True)
class LevelError:
    """What is known of the errors of a level's numbers.

    Attributes:
        level: its name.
        rows: how many numbers are published.
        least, median, most: of their standard deviations; None where they are unknown.
        noise: the standard deviation of the noise of a measured number; None where the level was not measured.
    """

    level: str
    rows: int
    least: float | None
    median: float | None
    most: float | None
    noise: float | None


def path_names(table: pa.Table) -> list[str]:
    """The columns of a published table that say what a row is about."""
    return [column for column in table.column_names if column not in RESERVED]


def labels_of(table: pa.Table, columns: Sequence[str] | None = None) -> list[str]:
    """What each row is about: its labels, from the top, in one text."""
    names = path_names(table) if columns is None else columns
    if not names:
        return ["all"] * table.num_rows
    texts = [[str(label) for label in table.column(column).to_pylist()] for column in names]
    return [" / ".join(parts) for parts in zip(*texts, strict=True)]


def small_table(release: Release, level: str) -> pa.Table:
    """A level with 90 % intervals where its errors are known."""
    table = decoded(release.level_tables[level].read(0, release.level_tables[level].num_rows))
    if "std_dev" in table.column_names or TAIL_COLUMNS[1] in table.column_names:
        return with_intervals(table, ALPHA, stated_errors(release.statement, level))
    return table


def is_small(release: Release, level: str) -> bool:
    """Whether a level can be drawn."""
    return release.level_tables[level].num_rows <= SMALL


def rows_at(release: Release, level: str, labels: Sequence[str]) -> pa.Table:
    """The rows of a node, by its labels from the top; read slice by slice.

    Raises:
        ValueError: there is no such node (of flows or group sizes: it has no row).
    """
    found: list[pa.Table] = []
    for rows in in_slices(release.level_tables[level]):
        kept = rows
        for column, label in zip(path_names(rows), labels, strict=True):
            kept = kept.filter(pc.equal(kept.column(column).cast(pa.large_string()), label))
        if kept.num_rows:
            found.append(decoded(kept))
    if not found:
        raise ValueError(f"node: {' / '.join(labels)!r} is no node of the level {level!r} with a published number")
    table = pa.concat_tables(found)
    if "std_dev" in table.column_names or TAIL_COLUMNS[1] in table.column_names:
        return with_intervals(table, ALPHA, stated_errors(release.statement, level))
    return table


def level_errors(release: Release) -> list[LevelError]:
    """What is known of the errors of every level, root first; tables are read slice by slice."""
    about = {each["level"]: each for each in release.statement["levels"]}
    return [_level_error(release, level, about[level]) for level in release.levels]


def _level_error(release: Release, level: str, about: Mapping[str, Any]) -> LevelError:
    table = release.level_tables[level]
    noise = about["noise"]["std_dev"] if about.get("measured") else None
    least, most, kept = np.inf, -np.inf, []
    step = max(table.num_rows // SAMPLED, 1)
    for found in _std_devs(release, level):
        if len(found):
            least, most = min(least, float(found.min())), max(most, float(found.max()))
            kept.append(found[::step])
    if not kept:
        return LevelError(level, table.num_rows, None, None, None, noise)
    return LevelError(level, table.num_rows, least, float(np.median(np.concatenate(kept))), most, noise)


def _std_devs(release: Release, level: str) -> Iterator[FloatArray]:
    """The standard deviations of a level, slice by slice; nothing where they are unknown."""
    for rows in in_slices(release.level_tables[level]):
        column = next((name for name in ("std_dev", TAIL_COLUMNS[1]) if name in rows.column_names), None)
        if column is None:
            return
        found = rows.column(column).to_numpy()
        yield found[np.isfinite(found)]


def largest_size(release: Release) -> int | None:
    """K of a release of group sizes: larger groups are counted as this size. None where it is not known."""
    maximum = release.statement.get("maximum") or {}
    found = maximum.get("max_group_size", release.spec.get("max_group_size"))
    return int(found) if isinstance(found, int) else None
