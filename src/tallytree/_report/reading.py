"""What a report reads of a release: small levels as a whole, large ones in slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree._compute.arrays import FloatArray
from tallytree._report.wording import name, titled
from tallytree.hierarchy import decoded
from tallytree.release.intervals import TAIL_COLUMNS, stated_errors
from tallytree.release.quality import usable_numbers
from tallytree.release.remainders import NOT_LISTED
from tallytree.release.view.release_view import ReleaseView, path_columns

SMALL = 5_000
"""A level with at most so many rows is read as a whole, to be drawn."""
ALPHA = 0.1
"""Intervals of a report: nine in ten hold the true number."""
SAMPLED = 200_000
"""Of so many standard deviations the middle one is taken."""


@dataclass(frozen=True)
class PublishedError:
    """What is known of the errors of a level's numbers.

    Attributes:
        level: what it is called, see `titled`.
        rows: how many numbers are published.
        least, median, most: of their standard deviations; None where they are unknown.
        reach: how far off nine in ten of the numbers are at most, see `reach_of`; None where it is unknown.
        noise: the standard deviation of the noise of a measured number; None where the level was not measured.
        usable: how many numbers are reliable (exact ones too), to be used with care, and neither; None where no number
            has a verdict. Of group sizes whose sizes have no errors, of the numbers of groups of a size or more.
    """

    level: str
    rows: int
    least: float | None
    median: float | None
    most: float | None
    reach: float | None
    noise: float | None
    usable: tuple[int, int, int] | None = None


def labels_of(table: pa.Table, columns: Sequence[str] | None = None) -> list[str]:
    """What each row is about: its labels, from the top, in one text; each label is cleaned and isolated.

    A row without a label says how much is not listed of the node that its other labels name.
    """
    return [" / ".join(parts) for parts in parts_of(table, path_columns(table) if columns is None else columns)]


def parts_of(table: pa.Table, columns: Sequence[str]) -> list[list[str]]:
    """The labels of each row, from the top, cleaned and isolated; `NOT_LISTED` last where the row says how much is."""
    if not columns:
        return [["all"]] * table.num_rows
    columns_of_labels = (table.column(column).to_pylist() for column in columns)
    return [_named(labels) for labels in zip(*columns_of_labels, strict=True)]


def _named(labels: Sequence[str | None]) -> list[str]:
    known = [name(label, 60) for label in labels if label is not None]
    return known if len(known) == len(labels) else [*known, NOT_LISTED]


def small_table(view: ReleaseView, level: str) -> pa.Table:
    """A level with 90 % intervals where its errors are known."""
    return view.whole(level, ALPHA)


def is_small(view: ReleaseView, level: str) -> bool:
    """Whether a level can be drawn."""
    return view.rows(level) <= SMALL


def has_groups(view: ReleaseView) -> bool:
    """Whether a release of group sizes has any group."""
    return view.rows(view.levels[0]) > 0


def root_labels(view: ReleaseView) -> list[str]:
    """The label of the root, where it has a column."""
    root = view.read(view.levels[0], 0, 1)
    return [str(root.column(column)[0].as_py()) for column in path_columns(root)]


def rows_at(view: ReleaseView, level: str, labels: Sequence[str]) -> pa.Table:
    """The rows of a node, by its labels from the top; read slice by slice.

    Raises:
        ValueError: there is no such node (of flows or group sizes: it has no row).
    """
    found: list[pa.Table] = []
    for rows in view.slices(level):
        kept = rows
        for column, label in zip(path_columns(rows), labels, strict=True):
            kept = kept.filter(pc.equal(kept.column(column).cast(pa.large_string()), label))
        if kept.num_rows:
            found.append(decoded(kept))
    if not found:
        raise ValueError(f"node: {' / '.join(labels)!r} is no node of the level {level!r} with a published number")
    return view.with_intervals(level, pa.concat_tables(found), ALPHA)


def level_errors(view: ReleaseView) -> list[PublishedError]:
    """What is known of the errors of every level, root first; tables are read slice by slice."""
    about = {each["level"]: each for each in view.statement["levels"]}
    return [_level_error(view, level, about[level]) for level in view.levels]


def _level_error(view: ReleaseView, level: str, about: Mapping[str, Any]) -> PublishedError:
    rows = view.rows(level)
    noise = about["noise"]["std_dev"] if about.get("measured") else None
    least, most, kept = np.inf, -np.inf, []
    step = max(rows // SAMPLED, 1)
    usable = np.zeros(3, dtype=np.int64)
    stated = stated_errors(view.statement, level)
    for part in view.slices(level):
        usable += usable_numbers([_of_tails(part)], stated) or 0
        found = _std_devs(part)
        if len(found):
            least, most = min(least, float(found.min())), max(most, float(found.max()))
            kept.append(found[::step])
    title = titled(about)
    if not kept:
        return PublishedError(title, rows, None, None, None, None, noise)
    std_devs = np.concatenate(kept)
    good, care, poor = usable.tolist()
    verdicts = (good, care, poor) if usable.any() else None
    return PublishedError(title, rows, least, float(np.median(std_devs)), most, reach_of(std_devs), noise, verdicts)


def _of_tails(rows: pa.Table) -> pa.Table:
    """Rows whose numbers have verdicts: of group sizes without errors of their own, groups of a size or more."""
    if "std_dev" in rows.column_names or TAIL_COLUMNS[1] not in rows.column_names:
        return rows
    return rows.select(TAIL_COLUMNS).rename_columns(["groups", "std_dev"])


def _std_devs(rows: pa.Table) -> FloatArray:
    """The standard deviations of rows, where they are known."""
    column = next((name for name in ("std_dev", TAIL_COLUMNS[1]) if name in rows.column_names), None)
    if column is None:
        return np.zeros(0)
    found: FloatArray = rows.column(column).to_numpy()
    return found[np.isfinite(found)]


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
