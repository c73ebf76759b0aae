"""What a report reads of a release: small levels as a whole, large ones in slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree._compute.arrays import FloatArray
from tallytree._report.wording import name
from tallytree.hierarchy import RESERVED, Hierarchy, decoded
from tallytree.product import Product
from tallytree.release import Release
from tallytree.release.intervals import TAIL_COLUMNS, stated_errors, with_intervals
from tallytree.release.level_tables import in_slices, read_all
from tallytree.release.remainders import NOT_LISTED

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
        reach: how far off nine in ten of the numbers are at most, see `reach_of`; None where it is unknown.
        noise: the standard deviation of the noise of a measured number; None where the level was not measured.
    """

    level: str
    rows: int
    least: float | None
    median: float | None
    most: float | None
    reach: float | None
    noise: float | None


def path_names(table: pa.Table) -> list[str]:
    """The columns of a published table that say what a row is about."""
    return [column for column in table.column_names if column not in RESERVED]


def labels_of(table: pa.Table, columns: Sequence[str] | None = None) -> list[str]:
    """What each row is about: its labels, from the top, in one text; each label is cleaned and isolated.

    A row without a label says how much is not listed of the node that its other labels name.
    """
    return [" / ".join(parts) for parts in parts_of(table, path_names(table) if columns is None else columns)]


def parts_of(table: pa.Table, columns: Sequence[str]) -> list[list[str]]:
    """The labels of each row, from the top, cleaned and isolated; `NOT_LISTED` last where the row says how much is."""
    if not columns:
        return [["all"]] * table.num_rows
    columns_of_labels = (table.column(column).to_pylist() for column in columns)
    return [_named(labels) for labels in zip(*columns_of_labels, strict=True)]


def _named(labels: Sequence[str | None]) -> list[str]:
    known = [name(label, 60) for label in labels if label is not None]
    return known if len(known) == len(labels) else [*known, NOT_LISTED]


def small_table(release: Release, level: str) -> pa.Table:
    """A level with 90 % intervals where its errors are known."""
    return _with_known_intervals(release, level, decoded(read_all(release.level_tables[level])))


def _with_known_intervals(release: Release, level: str, table: pa.Table) -> pa.Table:
    if "std_dev" in table.column_names or TAIL_COLUMNS[1] in table.column_names:
        return with_intervals(table, ALPHA, stated_errors(release.statement, level))
    return table


def is_small(release: Release, level: str) -> bool:
    """Whether a level can be drawn."""
    return release.level_tables[level].num_rows <= SMALL


def has_groups(release: Release) -> bool:
    """Whether a release of group sizes has any group."""
    return release.level_tables[release.levels[0]].num_rows > 0


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
    return _with_known_intervals(release, level, pa.concat_tables(found))


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
        return LevelError(level, table.num_rows, None, None, None, None, noise)
    std_devs = np.concatenate(kept)
    median, reach = float(np.median(std_devs)), reach_of(std_devs)
    return LevelError(level, table.num_rows, least, median, most, reach, noise)


def reach_of(std_devs: FloatArray) -> float:
    """How far off nine in ten of several numbers are at most: r with the mean of P(|error| ≤ r) = 0.9.

    Errors are taken as normal. The middle standard deviation would say too little where some are much larger.

    Args:
        std_devs: float64 (n,), of the errors, n > 0.
    """
    from scipy.optimize import brentq  # 0.3 s: only where it is needed
    from scipy.special import ndtr

    moved = std_devs[std_devs > 0]
    if len(moved) < 0.1 * len(std_devs) or not len(moved):
        return 0.0
    share = 1 - 0.1 * len(std_devs) / len(moved)  # of those that can be off at all
    most = 2 * float(moved.max())
    return float(brentq(lambda reach: float((2 * ndtr(reach / moved) - 1).mean()) - share, 0.0, most))


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


def hierarchies_by_level(tree: Hierarchy | Product | None) -> dict[str, Hierarchy]:
    """By the name of a level that boundaries may be given for, the public tree that has it."""
    if tree is None:
        return {}
    trees = [tree] if isinstance(tree, Hierarchy) else [side.hierarchy for side in tree.attributes]
    return {column: each for each in reversed(trees) for column in each.columns}
