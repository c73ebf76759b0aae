"""What a report reads of a release: small levels as a whole, large ones in slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.kinds.columns import TAIL_COLUMNS, TYPICAL_ERROR
from tallytree.release.intervals import LevelErrors, ends_of, interval, number_column, stated_errors
from tallytree.release.quality import STANDARD, typical_errors, usable_numbers
from tallytree.release.remainders import NOT_LISTED
from tallytree.release.view.release_view import ReleaseView, path_columns
from tallytree.sources.leaf_paths import decoded
from tallytree.views.report.wording import name

SMALL = 5_000
"""A level with at most so many rows is read as a whole, to be drawn."""
ALPHA = 0.1
"""Intervals of a report: nine in ten hold the true number."""
SAMPLED = 20_000
"""Of so many numbers the middle standard deviation and the errors are taken."""
TAILS = 20
"""Intervals of which the errors of numbers are read."""


@dataclass(frozen=True)
class PublishedError:
    """What is known of the errors of a level's numbers.

    Attributes:
        level: what it is called, see `titled`.
        rows: how many numbers are published.
        least, median, most: of their errors, as `typical_errors` has them; None where they are unknown.
        reach: how far off nine in ten of the numbers are at most, see `reach_of`; None where it is unknown.
        noise: the standard deviation of the noise of a measured number; None where the level was not measured.
        usable: how many numbers are reliable (exact ones too), to be used with care, and neither; None where no number
            has a verdict. Of group sizes whose sizes have no errors, of the numbers of groups of a size or more.
        usable_from: from which number on they are usable, about; None where no error is known.
    """

    level: str
    rows: int
    least: float | None
    median: float | None
    most: float | None
    reach: float | None
    noise: float | None
    usable: tuple[int, int, int] | None = None
    usable_from: float | None = None


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
    of_tails = not view.has(level, "std_dev")
    stated = LevelErrors() if of_tails else stated_errors(view.statement, level)
    least, most, sampled = np.inf, -np.inf, []
    usable = np.zeros(3, dtype=np.int64)
    for part in map(_of_tails, view.slices(level)):
        usable += usable_numbers([part], stated) or 0
        if "std_dev" not in part.column_names:
            continue
        known = part.filter(pc.is_finite(part.column("std_dev")))
        found = typical_errors(known, stated)
        least, most = float(found.min(initial=least)), float(found.max(initial=most))
        sampled.append(known.take(np.arange(0, known.num_rows, max(rows // SAMPLED, 1))))
    title = view.title_of(level)
    if most < 0:
        return PublishedError(title, rows, None, None, None, None, noise)
    taken = pa.concat_tables(sampled)
    good, care, poor = usable.tolist()
    verdicts = (good, care, poor) if usable.any() else None
    reach = max(reach_of(taken, stated), 0.1 if most > 0 else 0.0)  # 0 would be called exact
    off = typical_errors(taken, stated)
    shares = off / np.maximum(np.abs(taken.column(number_column(taken)).to_numpy()), 1e-9)
    near = off[(shares > STANDARD.with_care / 2) & (shares < STANDARD.with_care * 2)]  # errors grow with the numbers
    least_usable = None  # of tables errors differ by more than one number says
    if not about.get("table"):
        least_usable = STANDARD.least_usable(float(np.median(near if len(near) else off)))
    return PublishedError(title, rows, least, float(np.median(off)), most, reach, noise, verdicts, least_usable)


def _of_tails(rows: pa.Table) -> pa.Table:
    """Rows whose numbers have verdicts: of group sizes without errors of their own, groups of a size or more."""
    if "std_dev" in rows.column_names or TAIL_COLUMNS[1] not in rows.column_names:
        return rows
    return rows.select(TAIL_COLUMNS).rename_columns(["groups", "std_dev"])


def reach_of(rows: pa.Table, errors: LevelErrors) -> float:
    """How far off nine in ten of several numbers are at most.

    An interval misses the true number with probability alpha/2 at either end. So the distances of the ends at many
    alpha, evenly spread, are errors in equal shares. Nine in ten of those of all numbers do not exceed the reach.
    Standard deviations alone would leave out that cells are listed because their noise was large, and that numbers are
    not below 0. Where typical errors are known, the ends are those that they give.

    Args:
        rows: of a published table with standard deviations, one or more.
        errors: of the level.
    """
    numbers = rows.column(number_column(rows)).to_numpy()
    alphas = (np.arange(TAILS) + 0.5) / TAILS
    if TYPICAL_ERROR in rows.column_names:
        typical = typical_errors(rows, errors)
        ends = [end for alpha in alphas.tolist() for end in interval(numbers, typical, alpha, LevelErrors())]
    else:
        ends = [end for alpha in alphas.tolist() for end in ends_of(rows, alpha, errors)]
    off = [np.abs(end - numbers) for end in ends]
    return float(np.quantile(np.concatenate(off), 0.9, method="hazen"))
