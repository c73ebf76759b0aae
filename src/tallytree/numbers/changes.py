"""How numbers change from one release to another, `change`, and over several, `series`; with their errors.

Two releases have noise of their own, so the errors of their numbers are independent, whoever the people are: the
variance of a change is the sum of both. Where both releases have unbiased estimates the interval is around the
difference of these. So it holds also where the later release has learned from the earlier one, its prior. It is half a
unit wider: most changes are few, and often 0, where the ends of counts would not do, since these cover on average over
integers. Where cells are listed by their measurements, an estimate says little of its error. The ends are then those of
both intervals, with their distances added as squares (MOVER: Zou and Donner 2008, Statistics in Medicine 27), which
needs independence, and has it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import TOTAL
from tallytree.numbers.cells import ReleasedCells
from tallytree.numbers.compared import ComparedNumbers, JoinedTables, ReleasedTable
from tallytree.numbers.crosswalk import ARGUMENT, BY_WEIGHT, HOW, ONLY_EARLIER, ONLY_LATER, SAME, Crosswalk
from tallytree.numbers.fieller import HALF
from tallytree.numbers.several_releases import cells_of_same, counted, refuse_repeated
from tallytree.release import Release
from tallytree.release.intervals import checked_alpha, quantile
from tallytree.release.view.release_view import path_columns
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.validate import safe_text, text

INCREASE, DECREASE, EQUAL, UNTOLD = VERDICTS = ("increase", "decrease", "no change", "no change can be told")
"""What a change is. "no change" needs numbers without an error."""
AREAS, EARLIER, RELEASE = "areas", "earlier", "release"
"""Columns: how an area is compared; the first one after the path columns of a change, and of a series."""


def change(
    earlier: Release | str | os.PathLike[str],
    later: Release | str | os.PathLike[str],
    table: str | Sequence[str] = (),
    *,
    crosswalk: Any = None,
    alpha: float = 0.1,
) -> pa.Table:
    """By how much every number of a level, or of a table, changed from one release to another, with its error.

    Releases have noise of their own, so the variance of a change is the sum of both variances. This holds also where
    the same people are in both: their change is what is estimated. (For what the two releases tell of such people
    together, their budgets add up, as the ledger counts them.) Nothing is spent.

    An area is the same if its path is. Areas that were merged, split or renamed need a crosswalk.

    Args:
        earlier: a release, or the folder of a saved one.
        later: another one, of the same statistic, with the same columns.
        table: the level, or the levels that name a table; by default the total.
        crosswalk: of counts and tables, a public table of the areas that changed: `old` and `new`, labels of the
            table's areas, and, where an old area was split, `weight`: the share of it that is in the new one. Where
            labels are not unique, `old_state`, `old_county`, `new_state`, `new_county`. An area that is not listed as
            old stays itself. `docs/how-to/changing-areas.md` has examples.
        alpha: intervals are to miss the true change with this probability.

    Returns:
        The path columns, with the areas of the later release; `earlier`, `later` and `change` (int64); `std_dev`;
        `ci_lower` and `ci_upper` (int64); and `verdict`: "increase" or "decrease" where the interval does not hold 0,
        "no change can be told" where it does, "no change" where both numbers are exact and equal. A cell that only one
        of the releases lists has no error: the other number is below what is listed, and its `std_dev`, interval and
        verdict are null.

        With a crosswalk, or where only one release has some areas, also `areas`: "same", "renamed", "merged" (the
        earlier number is the sum of several areas), "by weight" (it is an estimate: weights say how much of an old area
        counts, and intervals take them as exact), "only earlier", "only later" (nothing is compared).

    Raises:
        ValueError: one release twice; other statistics, units or columns; no area that both have; errors that are not
            known; an unknown table; a crosswalk with unknown areas, nulls, repeated rows, or weights that do not add up
            to 1 for an old area.
        TypeError: an argument of the wrong kind.
    """
    level_alpha, names = checked_alpha(alpha), ["earlier", "later"]
    walks = None if crosswalk is None else [crosswalk]
    joined = JoinedTables.of(_tables("change", [earlier, later], names, table, walks, level_alpha), names)
    there = joined.there[0] & joined.there[1]
    columns = _changed(joined, 1, level_alpha)
    made = {
        **joined.paths,
        EARLIER: pa.array(joined.numbers[0].count, mask=~joined.there[0]),
        "later": pa.array(joined.numbers[1].count, mask=~joined.there[1]),
        **columns,
    }
    if crosswalk is not None or not there.all():
        how = np.where(there, joined.how[0], HOW.index(ONLY_EARLIER))
        how = np.where(~joined.there[0], HOW.index(ONLY_LATER), how)
        made[AREAS] = _words(how, HOW)
    return pa.table(made)


def series(
    releases: Sequence[Release | str | os.PathLike[str]],
    table: str | Sequence[str] = (),
    *,
    crosswalk: Any = None,
    names: Sequence[str] | None = None,
    alpha: float = 0.1,
) -> pa.Table:
    """Every number of a level, or of a table, in several releases such as years, and its change to the one before.

    All numbers are of the areas of the last release. Nothing is spent.

    Args:
        releases: releases, or folders of saved ones, in the order of time; at least two.
        table: as in `change`.
        crosswalk: as in `change`, from the areas of all earlier releases to those of the last; or a list of such tables
            and None, one for each release but the last.
        names: of the releases, in the same order; by default their periods, else their runs, else their folders, else
            1, 2, ….
        alpha: intervals are to miss the true number, or change, with this probability.

    Returns:
        A row for each cell and each release that has it: the path columns; `release`; `count` (int64); `std_dev`,
        `ci_lower`, `ci_upper`; `change` to the release before (int64), null in the first; `change_std_dev`,
        `change_ci_lower`, `change_ci_upper` and `verdict`, as those of `change`; and `areas`, as there, how the number
        is made from the areas of its release.

    Raises:
        ValueError: as `change`; fewer than two releases; names that repeat or are not as many.
        TypeError: an argument of the wrong kind.
    """
    level_alpha = checked_alpha(alpha)
    if isinstance(releases, str | os.PathLike | Release) or not isinstance(releases, Sequence):
        raise TypeError(f"releases: {safe_text(releases)} must be a list of releases, or of folders of saved ones")
    if len(releases) < 2:
        raise ValueError(f"releases: the list has {len(releases)}; give at least two, in the order of time")
    arguments = [f"releases[{place}]" for place in range(len(releases))]
    walks = [crosswalk] * (len(releases) - 1) if not isinstance(crosswalk, list | tuple) else [*crosswalk]
    if len(walks) != len(releases) - 1:
        raise ValueError(
            f"{ARGUMENT}: the list has {len(walks)} tables; give {len(releases) - 1}, one for each release but the last"
        )
    tables = _tables("series", releases, arguments, table, walks, level_alpha)
    labels = _names_of(releases, [each.cells.view.release for each in tables], names)
    joined = JoinedTables.of(tables, arguments)
    parts = []
    for place, (numbers, there) in enumerate(zip(joined.numbers, joined.there, strict=True)):
        unknown = ~np.isfinite(numbers.variance)
        ends = [np.where(unknown, 0, each).astype(np.int64) for each in (numbers.lower, numbers.upper)]
        columns: dict[str, Any] = {
            "count": pa.array(numbers.count),
            "std_dev": pa.array(np.sqrt(np.where(unknown, 0.0, numbers.variance)), mask=unknown),
            "ci_lower": pa.array(ends[0], mask=unknown),
            "ci_upper": pa.array(ends[1], mask=unknown),
        }
        for name, column in _changed(joined, place, level_alpha).items():
            columns[name if name in ("change", "verdict") else f"change_{name}"] = column
        how = np.where(joined.how[place] == HOW.index(ONLY_LATER), HOW.index(SAME), joined.how[place])
        parts.append((np.flatnonzero(there), pa.table(columns | {AREAS: _words(how, HOW)})))
    row = np.concatenate([where for where, _ in parts])
    release = np.repeat(np.arange(len(parts)), [len(where) for where, _ in parts])
    order = pa.array(np.lexsort((release, row)))
    found = pa.concat_tables([part.take(pa.array(where)) for where, part in parts]).unify_dictionaries()
    numbers_of = dict(zip(found.column_names, found.columns, strict=True))
    paths = {name: column.take(pa.array(row)) for name, column in joined.paths.items()}
    return pa.table({**paths, RELEASE: _words(release, labels)} | numbers_of).take(order)


def _tables(
    derived: str,
    given: Sequence[Any],
    arguments: Sequence[str],
    table: str | Sequence[str],
    crosswalks: Sequence[Any] | None,
    alpha: float,
) -> list[ReleasedTable]:
    """The tables of several releases, with the areas of the last one.

    Raises:
        ValueError, TypeError: see `change`.
    """
    releases = [counted(each, name) for each, name in zip(given, arguments, strict=True)]
    refuse_repeated(releases, arguments)
    cells = cells_of_same(derived, releases, arguments)
    names = [table] if isinstance(table, str) else table
    if not isinstance(names, Sequence):
        raise TypeError(f"table: {safe_text(table)} must be the name of a level, or a tuple of names")
    tables = []
    for each in cells:
        level = _level(each, names)
        rows = _listed(each.view.release.table(level, alpha=alpha, unbiased=True))
        tables.append(ReleasedTable(each, level, rows, ComparedNumbers.published(each.view.release, level, rows)))
    *earlier, last = tables
    columns = path_columns(last.rows)
    for one, name in zip(earlier, arguments, strict=False):
        if path_columns(one.rows) != columns:
            raise ValueError(
                f"{arguments[-1]}: its table has the columns {', '.join(columns)}, and that of {name} "
                f"{', '.join(path_columns(one.rows))}; give releases over the same hierarchy"
            )
    walks = [None] * len(earlier) if crosswalks is None else crosswalks
    if any(walk is not None for walk in walks) and len(last.cells.view.sides) > 1 and last.cells.view.kind.counts_nodes:
        raise ValueError(f"{ARGUMENT}: it is for counts and tables; leave it out for {last.cells.view.statistic}")
    return [*_onto(earlier, last, walks, alpha), last]


def _onto(
    earlier: Sequence[ReleasedTable], last: ReleasedTable, walks: Sequence[Any], alpha: float
) -> list[ReleasedTable]:
    """Earlier tables with the areas of the last one.

    Raises:
        ValueError: a crosswalk names an area that no earlier release has, or one that stays, for several of them.
    """
    side, named = last.cells.view.sides[0], last.named[0]
    found, read = list(earlier), list[Any]()
    for place, walk in enumerate(walks):
        if walk is None or any(walk is each for each in read):
            continue
        read.append(walk)
        these = [at for at in range(place, len(walks)) if walks[at] is walk]
        crosswalk = Crosswalk.read(walk, side, named)
        known = np.stack([crosswalk.old_nodes(earlier[at].cells.view.sides[0]) >= 0 for at in these])
        where = "the earlier release" if len(these) == 1 else "the earlier releases"
        crosswalk.refuse_unknown(np.asarray(known.any(axis=0)), crosswalk.old, where)
        if len(these) > 1:
            crosswalk.refuse_staying(side, known.sum(axis=0) > 1)
        for at in these:
            found[at] = earlier[at].onto(last, crosswalk, alpha)
    return found


def _level(cells: ReleasedCells, names: Sequence[str]) -> str:
    """The level that somebody names, or the table; by default the total.

    Raises:
        ValueError: there is none.
    """
    level = cells.level_of(names)
    if level is None:
        known = "; ".join(", ".join(each) or TOTAL for each in cells.view.release.tables)
        raise ValueError(f"table: ({', '.join(names)}) is none of the tables of all releases, which are {known}")
    return level


def _listed(table: pa.Table) -> pa.Table:
    """A published table without the rows that say how much is not listed: two releases do not list the same cells."""
    there = np.ones(table.num_rows, dtype=np.bool_)
    for name in path_columns(table):
        there &= table.column(name).is_valid().to_numpy()
    return table if there.all() else table.filter(pa.array(there))


def _names_of(given: Sequence[Any], releases: Sequence[Release], names: Sequence[str] | None) -> Sequence[str]:
    """The names of releases.

    Raises:
        ValueError: they repeat, or are not as many.
        TypeError: they are no texts.
    """
    if names is not None:
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise TypeError(f"names: {safe_text(names)} must be a list of texts, one for each release")
        wanted = [text(name, "names", "text") for name in names]
        if len(wanted) != len(given) or len(set(wanted)) < len(wanted):
            raise ValueError(f"names: {wanted!r} must be {len(given)} different names, one for each release")
        return wanted
    about = [release.statement["release"] for release in releases]
    known = (
        [each.get("period") for each in about],
        [each.get("run") for each in about],
        [None if isinstance(each, Release) else os.path.basename(os.path.normpath(each)) for each in given],  # noqa: PTH119
    )
    numbers = [str(place) for place in range(1, len(given) + 1)]
    return next((list(map(str, each)) for each in known if all(each) and len(set(each)) == len(each)), numbers)


def _words(codes: IntArray, words: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(words)).cast(pa.string())


def _changed(joined: JoinedTables, place: int, alpha: float) -> dict[str, pa.Array]:
    """The change of every number to the release before, its error and what it is; null where there is none."""
    before = max(place - 1, 0)
    first, second = joined.numbers[before], joined.numbers[place]
    compared = joined.there[before] & joined.there[place] & (place > 0)
    changed = second.count - first.count
    variance = first.variance + second.variance
    unknown = ~np.isfinite(variance)
    std_dev = np.sqrt(np.where(unknown, 0.0, variance))
    rounds = min((each.replicates for each in (first, second) if each.replicates is not None), default=None)
    whole = (joined.how[before] != HOW.index(BY_WEIGHT)) & (joined.how[place] != HOW.index(BY_WEIGHT))
    reach = np.where(std_dev > 0, quantile(alpha, rounds) * std_dev + HALF, 0.0)
    middle = second.middle - first.middle
    lower = np.where(whole, np.ceil(middle - reach), np.floor(middle - reach + HALF)).astype(np.int64)
    upper = np.where(whole, np.floor(middle + reach), np.ceil(middle + reach - HALF)).astype(np.int64)
    by_listing = (first.listed | second.listed) & ~unknown
    low, high = _mover(first, second)
    lower[by_listing] = np.floor(low[by_listing]).astype(np.int64)
    upper[by_listing] = np.ceil(high[by_listing]).astype(np.int64)
    lower, upper = np.minimum(lower, changed), np.maximum(upper, changed)
    exact = (std_dev == 0) & (rounds is None)
    verdict = verdicts(changed, lower, upper, exact, VERDICTS)
    return {
        "change": pa.array(changed, mask=~compared),
        "std_dev": pa.array(std_dev, mask=unknown | ~compared),
        "ci_lower": pa.array(lower, mask=unknown | ~compared),
        "ci_upper": pa.array(upper, mask=unknown | ~compared),
        "verdict": pa.DictionaryArray.from_arrays(
            pa.array(verdict.astype(np.int8), mask=unknown | ~compared), pa.array(VERDICTS)
        ),
    }


def verdicts(
    difference: IntArray, lower: IntArray, upper: IntArray, exact: BoolArray, words: Sequence[str]
) -> IntArray:
    """What differences are, the place in `words`: more, less, equal, or not told; int64 (n,)."""
    more, less, equal, untold = range(len(words))
    told = np.where(lower > 0, more, np.where(upper < 0, less, untold))
    return np.where(exact & (difference == 0), equal, told)


def _mover(first: ComparedNumbers, second: ComparedNumbers) -> tuple[FloatArray, FloatArray]:
    """The ends of a difference from those of two independent intervals: float64 (n,) each."""
    point = (second.count - first.count).astype(np.float64)
    down = np.hypot(second.count - second.lower, first.upper - first.count)
    up = np.hypot(second.upper - second.count, first.count - first.lower)
    return point - down, point + up
