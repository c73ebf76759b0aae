"""Numbers of several releases: `change`, from one to another, and `total_of`, of all together, with their errors.

Two releases have noise of their own, so the errors of their numbers are independent, whoever the people are: the
variance of a change is the sum of both. Where both releases have unbiased estimates the interval is around the
difference of these. It is half a unit wider: most changes are few, and often 0, where the ends of counts would not do,
since these cover on average over integers. Where cells are listed by their measurements, an estimate says little of its
error. The ends are then those of both intervals, with their distances added as squares (MOVER: Zou and Donner 2008,
Statistics in Medicine 27), which needs independence, and has it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import RESERVED, TOTAL
from tallytree.kinds.columns import LISTED_FROM, UNBIASED
from tallytree.numbers.accuracy.replicate_errors import opened
from tallytree.numbers.cells import ReleasedCells, Replication, with_floor
from tallytree.numbers.derived import cells_of
from tallytree.numbers.fieller import HALF
from tallytree.numbers.totals import Totals, added
from tallytree.release import HouseholdsRelease, Release
from tallytree.release.contributions_table import description
from tallytree.release.counted_unit import counted_unit, is_bounded
from tallytree.release.intervals import checked_alpha, quantile, stated_errors
from tallytree.release.view.release_view import path_columns
from tallytree.sources.leaf_paths import decoded
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.validate import safe_text

INCREASE, DECREASE, SAME, UNTOLD = VERDICTS = ("increase", "decrease", "no change", "no change can be told")
"""What a change is. "no change" needs numbers without an error."""
SHARE = "share_left_out"
"""The column with the accumulated share."""


@dataclass(frozen=True, eq=False)
class ComparedNumbers:
    """The numbers of one release, in the order of the rows of a change: (n,) each.

    Attributes:
        count: int64, published; 0 where there is no row.
        middle: float64, unbiased where the release has such estimates, else as published.
        variance: float64, NaN where it is not known.
        lower: float64, the interval of the number alone; NaN where it is not known.
        upper: float64, its other end.
        listed: bool, whether the cell has a row because of its measurement.
        replicates: from which the errors are; None where they are known.
    """

    count: IntArray
    middle: FloatArray
    variance: FloatArray
    lower: FloatArray
    upper: FloatArray
    listed: BoolArray
    replicates: int | None


def change(
    earlier: Release | str | os.PathLike[str],
    later: Release | str | os.PathLike[str],
    table: str | Sequence[str] = (),
    *,
    alpha: float = 0.1,
) -> pa.Table:
    """By how much every number of a level, or of a table, changed from one release to another, with its error.

    Releases have noise of their own, so the variance of a change is the sum of both variances. This holds also where
    the same people are in both: their change is what is estimated. (For what the two releases tell of such people
    together, their budgets add up, as the ledger counts them.) Nothing is spent.

    Args:
        earlier: a release, or the folder of a saved one.
        later: another one, of the same statistic over the same hierarchy.
        table: the level, or the levels that name a table; by default the total.
        alpha: intervals are to miss the true change with this probability.

    Returns:
        The path columns; `earlier`, `later` and `change` (int64); `std_dev`; `ci_lower` and `ci_upper` (int64); and
        `verdict`: "increase" or "decrease" where the interval does not hold 0, "no change can be told" where it does,
        "no change" where both numbers are exact and equal. A cell that only one of the releases lists has no error: the
        other number is below what is listed, and its `std_dev`, interval and verdict are null.

    Raises:
        ValueError: one release twice; other statistics, units or nodes; errors that are not known; an unknown table.
        TypeError: an argument of the wrong kind.
    """
    level_alpha = checked_alpha(alpha)
    pair = [_counted(given, name) for given, name in ((earlier, "earlier"), (later, "later"))]
    _refuse_repeated(pair, ["earlier", "later"])
    cells = _cells_of_same("change", pair, ["earlier", "later"])
    names = [table] if isinstance(table, str) else table
    if not isinstance(names, Sequence):
        raise TypeError(f"table: {safe_text(table)} must be the name of a level, or a tuple of names")
    levels = [_level(each, names) for each in cells]
    tables = [
        _listed(release.table(level, alpha=level_alpha, unbiased=True))
        for release, level in zip(pair, levels, strict=True)
    ]
    paths, places = _joined(
        tables[0], tables[1], whole=all(each.lists_all(level) for each, level in zip(cells, levels, strict=True))
    )
    first, second = map(_estimates, pair, levels, tables, places)
    return pa.table(paths | _columns(first, second, level_alpha))


def _counted(given: Any, argument: str) -> Release:
    """A release that was given, or that of a folder; of persons and households the tables of persons.

    Raises:
        TypeError: neither.
    """
    release = opened(given, argument)
    return release.persons if isinstance(release, HouseholdsRelease) else release


def _refuse_repeated(releases: Sequence[Release], names: Sequence[str]) -> None:
    """Refuse releases that have the same noise: their errors are not independent.

    Raises:
        ValueError: two have one id.
    """
    seen: dict[Any, str] = {}
    for release, name in zip(releases, names, strict=True):
        statement = release.statement
        identity = statement["release"]["id"]
        if identity in seen:
            raise ValueError(
                f"{name}: it is the same release as {seen[identity]} (or has its seed), with the same noise; give "
                "releases that were made on their own"
            )
        seen[identity] = name


def _cells_of_same(derived: str, releases: Sequence[Release], names: Sequence[str]) -> list[ReleasedCells]:
    """The cells of releases whose numbers are of the same things.

    Raises:
        ValueError: something else is derived from one of them, or the numbers are of different things.
    """
    several = []
    for release, name in zip(releases, names, strict=True):
        several.append(cells_of(release, derived, name))
        for what, of in (("statistic", lambda each: each["statistic"]), ("unit", counted_unit)):
            if of(release.statement) != of(releases[0].statement):
                raise ValueError(
                    f"{name}: its {what} is {of(release.statement)!r}, and that of {names[0]} is "
                    f"{of(releases[0].statement)!r}; give releases of the same numbers"
                )
    return several


def _level(cells: ReleasedCells, names: Sequence[str]) -> str:
    """The level that somebody names, or the table; by default the total.

    Raises:
        ValueError: there is none.
    """
    level = cells.level_of(names)
    if level is None:
        known = "; ".join(", ".join(each) or TOTAL for each in cells.view.release.tables)
        raise ValueError(f"table: ({', '.join(names)}) is none of the tables of both releases, which are {known}")
    return level


def _listed(table: pa.Table) -> pa.Table:
    """A published table without the rows that say how much is not listed: two releases do not list the same cells."""
    there = np.ones(table.num_rows, dtype=np.bool_)
    for name in path_columns(table):
        there &= table.column(name).is_valid().to_numpy()
    return table if there.all() else table.filter(pa.array(there))


def _joined(first: pa.Table, second: pa.Table, *, whole: bool) -> tuple[dict[str, pa.Array], list[IntArray]]:
    """The path columns of both tables together, and per table its row for each of these rows, −1 for none.

    Rows of the first table come first, in its order; then those that only the second one has.

    Args:
        first: a published table.
        second: another one.
        whole: whether both list all their cells, so that their rows must be the same.

    Raises:
        ValueError: they have other columns, or other rows where all are listed.
    """
    names = path_columns(first)
    if names != path_columns(second):
        raise ValueError(
            f"later: its table has the columns {', '.join(path_columns(second))}, and that of earlier "
            f"{', '.join(names)}; give releases over the same hierarchy"
        )
    codes = np.zeros(first.num_rows + second.num_rows, dtype=np.int64)
    for name in names:
        column = _stacked(first, second, name).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes * (len(column.dictionary) + 1) + column.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    of_first, of_second = codes[: first.num_rows], codes[first.num_rows :]
    new = ~np.isin(of_second, of_first)
    missing = int(new.sum()) + int((~np.isin(of_first, of_second)).sum())
    if whole and missing:
        raise ValueError(
            f"later: {missing} rows of its table or of that of earlier are not in the other; give releases over the "
            "same hierarchy"
        )
    wanted = np.concatenate([of_first, of_second[new]])
    rows = np.concatenate([np.arange(first.num_rows), first.num_rows + np.flatnonzero(new)])
    stacked = {name: _stacked(first, second, name).take(pa.array(rows)) for name in names}
    return stacked, [_places(wanted, each) for each in (of_first, of_second)]


def _stacked(first: pa.Table, second: pa.Table, name: str) -> pa.ChunkedArray:
    """A column of labels of both tables, one after the other."""
    columns = [table.column(name).cast(pa.large_string()) for table in (first, second)]
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.large_string())


def _places(wanted: IntArray, there: IntArray) -> IntArray:
    """Where each code is, −1 where it is not: int64 (n,)."""
    place = np.full(int(max(wanted.max(initial=-1), there.max(initial=-1))) + 1, -1, dtype=np.int64)
    place[there] = np.arange(len(there))
    return place[wanted]


def _estimates(release: Release, level: str, table: pa.Table, places: IntArray) -> ComparedNumbers:
    """The numbers of a published table at some of its rows."""
    there = places >= 0

    def column(name: str, absent: float) -> FloatArray:
        numbers = np.full(len(places), absent)
        numbers[there] = table.column(name).to_numpy()[places[there]]
        return numbers

    errors = stated_errors(release.statement, level)
    count = column("count", 0.0)
    variance = column("std_dev", np.nan) ** 2
    unbiased = UNBIASED in table.column_names
    variance = variance + (0.0 if unbiased else errors.rounding) * (variance > 0)
    if errors.replicates is not None:
        variance = with_floor(variance, count, errors.upward_std_dev)
    listed = np.isfinite(column(LISTED_FROM, -np.inf)) if LISTED_FROM in table.column_names else ~there
    middle = column(UNBIASED, 0.0) if unbiased else count
    ends = column("ci_lower", np.nan), column("ci_upper", np.nan)
    return ComparedNumbers(count.astype(np.int64), middle, variance, *ends, listed, errors.replicates)


def _columns(first: ComparedNumbers, second: ComparedNumbers, alpha: float) -> dict[str, pa.Array]:
    """The numbers, their change, its error and what it is."""
    changed = second.count - first.count
    variance = first.variance + second.variance
    unknown = ~np.isfinite(variance)
    std_dev = np.sqrt(np.where(unknown, 0.0, variance))
    rounds = min((each.replicates for each in (first, second) if each.replicates is not None), default=None)
    reach = np.where(std_dev > 0, quantile(alpha, rounds) * std_dev + HALF, 0.0)
    middle = second.middle - first.middle
    lower = np.ceil(middle - reach).astype(np.int64)
    upper = np.floor(middle + reach).astype(np.int64)
    by_listing = (first.listed | second.listed) & ~unknown
    low, high = _mover(first, second)
    lower[by_listing] = np.floor(low[by_listing]).astype(np.int64)
    upper[by_listing] = np.ceil(high[by_listing]).astype(np.int64)
    lower, upper = np.minimum(lower, changed), np.maximum(upper, changed)
    verdict = np.where(lower > 0, VERDICTS.index(INCREASE), VERDICTS.index(UNTOLD))
    verdict = np.where(upper < 0, VERDICTS.index(DECREASE), verdict)
    verdict = np.where((std_dev == 0) & (rounds is None) & (changed == 0), VERDICTS.index(SAME), verdict)
    codes = pa.array(verdict.astype(np.int8), mask=unknown)
    return {
        "earlier": pa.array(first.count),
        "later": pa.array(second.count),
        "change": pa.array(changed),
        "std_dev": pa.array(std_dev, mask=unknown),
        "ci_lower": pa.array(lower, mask=unknown),
        "ci_upper": pa.array(upper, mask=unknown),
        "verdict": pa.DictionaryArray.from_arrays(codes, pa.array(VERDICTS)),
    }


def _mover(first: ComparedNumbers, second: ComparedNumbers) -> tuple[FloatArray, FloatArray]:
    """The ends of a difference from those of two independent intervals: float64 (n,) each."""
    point = (second.count - first.count).astype(np.float64)
    down = np.hypot(second.count - second.lower, first.upper - first.count)
    up = np.hypot(second.upper - second.count, first.count - first.lower)
    return point - down, point + up


def total_of(
    releases: Sequence[Release | str | os.PathLike[str]],
    areas: Any = None,
    *,
    by: str | None = None,
    where: Mapping[str, Any] | None = None,
    alpha: float = 0.1,
    replicates: int | None = None,
    seed: int | None = None,
    progress: bool = False,
) -> pa.Table:
    """The totals of several releases together, such as the days of a week, with the error of each.

    Releases have noise of their own, so the variances of their totals add up. Nothing is spent.

    Args:
        releases: releases, or folders of saved ones; of one statistic and unit.
        areas: a public table of areas, as in `Release.total`; of tables it may be left out.
        by: as in `Release.total`.
        where: as in `Release.total`.
        alpha: intervals are to miss the true number with this probability.
        replicates: as in `Release.total`, of each release.
        seed: makes the replicates reproducible, for tests.
        progress: show the progress of replicates on standard error.

    Returns:
        The column `by` (or the path columns of the level), if it is given; `count`; `std_dev`, `ci_lower`, `ci_upper`
        and `quality`, as of `Release.total`. With an enforced contribution bound also `share_left_out`: the share of
        all records that the bounds of all releases left out of the area, taken that each left out the same share
        everywhere; null where a release did not measure it.

    Raises:
        ValueError: no releases, one twice, one beside its revision, or such of different statistics or units; what
            `Release.total` refuses.
        TypeError: an argument of the wrong kind.
    """
    level_alpha = checked_alpha(alpha)
    if isinstance(releases, str | os.PathLike | Release) or not isinstance(releases, Sequence):
        raise TypeError(f"releases: {safe_text(releases)} must be a list of releases, or of folders of saved ones")
    if not releases:
        raise ValueError("releases: the list is empty; give at least one release")
    names = [f"releases[{place}]" for place in range(len(releases))]
    several = [_counted(given, name) for given, name in zip(releases, names, strict=True)]
    _refuse_repeated(several, names)
    _refuse_revised(several, names)
    cells = _cells_of_same("total_of", several, names)
    replication = Replication.checked(replicates, seed, progress=progress)
    of_each = [each.totals(areas, by, where, replication.with_seed_of(place)) for place, each in enumerate(cells)]
    paths = [{name: each.columns[name] for name in each.columns if name not in RESERVED} for each in of_each]
    for name, other in zip(names, paths, strict=True):
        if not pa.table(other).equals(pa.table(paths[0])):
            raise ValueError(
                f"{name}: its areas at {by!r} are others than those of {names[0]}, or in another order; give a table "
                "of areas"
            )
    together = added(of_each, paths[0])
    table = decoded(together.judged(level_alpha))
    if is_bounded(several[0].statement):
        table = table.append_column(SHARE, _share_left_out(several, of_each))
    return table.replace_schema_metadata(description(several[0].statement) or None)


def _refuse_revised(several: Sequence[Release], names: Sequence[str]) -> None:
    """Refuse a release beside the one that takes its place: both are of the same records."""
    entries = [release.statement["release"] for release in several]
    place_of = {each["id"]: name for each, name in zip(entries, names, strict=True)}
    for each, name in zip(entries, names, strict=True):
        earlier = place_of.get((each.get("revises") or {}).get("id"))
        if earlier is not None:
            raise ValueError(f"releases: {name} takes the place of {earlier}, and has the same records; keep one")


def _share_left_out(several: Sequence[Release], of_each: Sequence[Totals]) -> pa.Array:
    """The share of all records that the bounds left out, of each area: what is left out of each over all of them.

    A release that counted C records and left out the share s is of C / (1 − s) records.
    """
    shares = [
        (release.statement.get("contributions") or {}).get(SHARE, {}).get("estimate", np.nan) for release in several
    ]
    counted = np.array([each.numbers for each in of_each], dtype=np.float64)
    records = counted / (1 - np.minimum(np.array(shares, dtype=np.float64), 1 - 1e-9))[:, None]
    every: FloatArray = records.sum(axis=0)
    share = np.divide(every - counted.sum(axis=0), every, out=np.zeros(len(every)), where=every != 0)
    return pa.array(share, mask=np.isnan(share))
