"""The error of every published number: `replicate_errors`.

The release is taken as the truth, measured with the noise that its statement states, and reconciled by its mechanism,
again and again. What the replicates miss of the release, the release is taken to miss of the truth.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree import counts, sizes, tables
from tallytree.counts import CountsMechanism
from tallytree.hierarchy import Hierarchy
from tallytree.kinds.columns import ERROR_COLUMNS, MADE_OF
from tallytree.kinds.foreign import known_class, made_by
from tallytree.kinds.measurements import Noise, Statistic
from tallytree.kinds.registry import KINDS
from tallytree.numbers.accuracy.bootstrap import (
    CountReplicates,
    PublishedTables,
    Replicates,
    SizeReplicates,
    StatedPlan,
    TableReplicates,
    fresh_sources,
)
from tallytree.numbers.accuracy.fitted_errors import stated_errors_of
from tallytree.numbers.accuracy.squared_errors import SquaredErrors
from tallytree.release import LevelTable, Release
from tallytree.release.intervals import (
    MIN_REPLICATES,
    LevelErrors,
    checked_alpha,
    interval,
)
from tallytree.release.level_tables import ChangedTable
from tallytree.release.remainders import NO_REPLICATES, refuse_remainders
from tallytree.release.statement import TOTAL_IS_PUBLIC, fitted_to_persons, mechanism_code
from tallytree.release.view.layouts import published_totals
from tallytree.release.view.recorded_measurements import FRESH_COPY, published_range
from tallytree.release.view.release_view import PublishedLevel, ReleaseView
from tallytree.sizes import ReleasedSizes, SizesMechanism
from tallytree.support.stages import stage, step_progress
from tallytree.support.validate import integer
from tallytree.tables import TableLayout, TablesMechanism

DEFAULT_REPLICATES = 50
MAX_REPLICATES = 10_000
"""Each takes about the time of a release. The standard deviations of so many are known to 1 %."""


def replicate_errors(
    release: Release | str | os.PathLike[str],
    replicates: int = DEFAULT_REPLICATES,
    *,
    alpha: float = 0.1,
    seed: int | None = None,
    progress: bool = False,
) -> Release:
    """Estimate the error of every published number of a release, from replicates.

    The published numbers are taken as the true ones, measured with the noise that the statement states, and reconciled
    by the release's mechanism, `replicates` times. No private data is read and nothing is spent: replicates see the
    release, and fresh noise. See `docs/explanation/errors.md`.

    Args:
        release: a release, or the folder of a saved one.
        replicates: how many; from 10 to 10,000. The time is that of as many releases, without reading records.
        alpha: intervals are to miss the true number with this probability.
        seed: makes the replicates reproducible, for tests; by default their noise is the operating system's entropy. Do
            not use the seed of a seeded release: its noise would not come out again, since replicates derive their keys
            under another label, but neither is it needed.
        progress: show a progress bar on standard error.

    Returns:
        The same release, whose tables have `std_dev` (the root mean square error of the replicates, bias included),
        `ci_lower` and `ci_upper`, in place of any that they had; its statement says so under `errors`. Of
        `counts.StabilityHistogram` only the leaves have them: what its sums miss, nothing that was published tells.

    Raises:
        ValueError: the release is damaged, does not hold its tree, is not of the hierarchy, or is by a mechanism that
            is not known; too few replicates; an `alpha` not between 0 and 1.
        TypeError: an argument of the wrong kind.

    Example:
        >>> import pyarrow as pa, tallytree as tt
        >>> areas = tt.Hierarchy.from_table(pa.table({"state": ["A", "B"]}), levels=["state"])
        >>> people = pa.table({"state": ["A"] * 900 + ["B"] * 100})
        >>> release = tt.release_counts(people, areas, tt.Budget(epsilon=1), neighboring="change_one")
        >>> tt.replicate_errors(release).table("state").column_names
        ['state', 'count', 'std_dev', 'ci_lower', 'ci_upper']
    """
    rounds = checked_replicates(replicates)
    level_alpha = checked_alpha(alpha)
    fixed = None if seed is None else integer(seed, "seed")
    earlier = opened(release, "release")
    statistic = earlier.statement.get("statistic")
    names = [name for name, kind in KINDS.items() if kind.has_tree]
    if statistic not in names:
        raise ValueError(f"release: its statistic is {statistic!r}, which must be one of {', '.join(names)}")
    refuse_remainders(earlier.statement, "release", NO_REPLICATES)
    view = ReleaseView(earlier)
    if isinstance(view.cells, TableLayout) and view.layout.impossible is not None:
        raise ValueError(
            "release: it has cells that are impossible, which replicates would give an interval; tables have "
            "intervals of their own, so leave replicates out"
        )
    plan, published = stated_plan(view), view.all_published()
    replicated = replicates_of(view, plan, published)
    errors = [
        SquaredErrors.against(replicated.keys(level), *true)
        for level, true in zip(published, replicated.truths(), strict=True)
    ]
    with stage("replicate"), step_progress(progress, rounds, "replicates") as done:
        for levels in replicated.run(fresh_sources(rounds, fixed)):
            for of_level, cells in zip(errors, levels, strict=True):
                of_level.add(*cells)
            done()
    floors = replicated.floors()
    tables: dict[str, LevelTable] = dict(earlier.level_tables)
    stated: list[dict[str, Any]] = []
    for depth, name in enumerate(earlier.levels):
        facts: dict[str, Any] = {"level": name, "upward_std_dev": None, "unlisted_ci_upper": None}
        stated.append(facts)
        if plan.thresholds and name not in plan.thresholds:
            continue  # nothing that was published shows what its sums miss
        known = LevelErrors(rounds, floors[depth])
        tables[name] = _with_errors(tables[name], published[depth], errors[depth], level_alpha, known)
        facts["upward_std_dev"] = known.upward_std_dev
        if not replicated.lists_zeros(depth, len(published[depth].nodes)):
            unlisted = errors[depth].largest_unlisted(level_alpha)
            facts["unlisted_ci_upper"] = _hidden(unlisted, level_alpha, known)
    not_seen, seeded = _not_seen(earlier.statement, plan), fixed is not None
    entry = stated_errors_of("replicates", stated, level_alpha, replicates=rounds, seeded=seeded, not_seen=not_seen)
    return earlier.with_tables(tables, {**earlier.statement, "errors": entry})


def opened(release: Any, argument: str) -> Release:
    """A release that was given, or that of a folder.

    Raises:
        TypeError: neither.
    """
    loaded = Release.load(release) if isinstance(release, str | os.PathLike) else release
    if not isinstance(loaded, Release):
        kind = type(loaded).__name__
        raise TypeError(f"{argument}: {kind} must be a tallytree.Release, or the folder of a saved one")
    return loaded


def _with_errors(
    table: LevelTable, published: PublishedLevel, errors: SquaredErrors, alpha: float, of_level: LevelErrors
) -> LevelTable:
    """A published table with the standard deviation and the interval of each number."""
    std_dev = errors.std_dev
    lower, upper = interval(published.numbers, std_dev, alpha, of_level)
    columns = pa.table({"std_dev": std_dev, "ci_lower": lower, "ci_upper": upper})
    return ChangedTable(table, partial(_beside, columns))


def _beside(columns: pa.Table, rows: pa.Table, start: int) -> pa.Table:
    """Rows of a published table with the error columns in place of any that it has."""
    rows = rows.select([name for name in rows.column_names if name not in (*ERROR_COLUMNS, *MADE_OF)])
    for name in columns.column_names:
        rows = rows.append_column(name, columns.column(name).slice(start, rows.num_rows))
    return rows


def checked_replicates(replicates: int) -> int:
    """The number of replicates, if it is one and not too small.

    Raises:
        ValueError: fewer than are needed for a standard deviation.
        TypeError: not an integer.
    """
    rounds = integer(replicates, "replicates", most=MAX_REPLICATES)
    if rounds < MIN_REPLICATES:
        raise ValueError(
            f"replicates: {rounds} are too few for a standard deviation; give at least {MIN_REPLICATES} (50 is the "
            "default)"
        )
    return rounds


def replicates_of(view: ReleaseView, plan: StatedPlan, published: list[PublishedLevel]) -> Replicates:
    """What measures and reconciles a release again."""
    if "prior" in view.statement:
        raise ValueError(
            "release: its numbers were moved towards a prior, which no release keeps, so they cannot be made again; "
            "their errors are in its tables"
        )
    of_kind = _of_tables if view.kind.has_tables else _of_sizes if view.kind.by_size else _of_counts
    return of_kind(view, plan, published)


def _of_counts(view: ReleaseView, plan: StatedPlan, published: list[PublishedLevel]) -> CountReplicates:
    mechanism = mechanism_of(view.statement, counts, CountsMechanism)
    leaves, numbers = published[-1].nodes, np.rint(published[-1].numbers).astype(np.int64)
    there = numbers > 0
    public = TOTAL_IS_PUBLIC in view.statement.get("invariants", ())
    return CountReplicates(view.known_tree, mechanism, plan, public, leaves[there], numbers[there])


def _of_tables(view: ReleaseView, plan: StatedPlan, published: list[PublishedLevel]) -> TableReplicates:
    mechanism = mechanism_of(view.statement, tables, TablesMechanism)
    cells = view.all_cells()
    totals = published_totals(view.statement, view.layout, cells)
    return TableReplicates(PublishedTables(view.layout, cells), mechanism, plan, totals)


def _of_sizes(view: ReleaseView, plan: StatedPlan, published: list[PublishedLevel]) -> SizeReplicates:
    """Where fractions or negative numbers were released, the nearest integers ≥ 0 are measured."""
    tree = view.known_tree
    if not isinstance(tree, Hierarchy):
        raise TypeError(f"hierarchy: {type(tree).__name__} must be a tallytree.Hierarchy for group sizes")
    mechanism = mechanism_of(view.statement, sizes, SizesMechanism)
    invariants, smallest, largest = published_range(view.release.spec, view.statement)
    listed = np.zeros(0, dtype=np.int64)
    for name, level in zip(tree.levels, published, strict=True):
        listed = np.array([-1]) if level.sizes is None else level.sizes
        if len(listed) and not 0 <= listed.min() <= listed.max() <= largest:
            raise ValueError(f"release: the table of {name!r} has sizes beyond {largest}; {FRESH_COPY}")
    groups = np.rint(published[-1].numbers).astype(np.int64)
    there = groups > 0
    leaves = ReleasedSizes(published[-1].nodes[there], listed[there], groups[there])
    return SizeReplicates.of(tree, leaves, (smallest, largest), invariants, mechanism, plan)


def _not_seen(statement: Mapping[str, Any], plan: StatedPlan) -> list[str]:
    """What replicates of the published numbers cannot show, in sentences."""
    sentences = []
    if plan.thresholds:
        sentences.append(
            "Cells below the threshold are missing from every sum, and nothing published tells how much they had: only "
            f"{', '.join(plan.thresholds)} has intervals, of the cells that it lists."
        )
    if mechanism_code(statement):
        sentences.append(
            "The mechanism is from outside. What it assumes beside its measurements is in the published numbers, so "
            "replicates do not show by how much that is wrong."
        )
    if sparsity_dropped(statement):
        sentences.append(
            "What sparsity left out is not in the published numbers, so replicates do not leave it out again: "
            "intervals miss more often than alpha says, by far where the data are not sparse."
        )
    return sentences


def sparsity_dropped(statement: Mapping[str, Any]) -> bool:
    """Whether numbers may be missing because of `sparsity`; replicates do not show these errors."""
    dropped = statement.get("sparsity", {"applied": True})["applied"]  # "auto" says whether it dropped anything
    return bool(statement["mechanism"]["options"].get("sparsity") and dropped)


def mechanism_of(statement: Mapping[str, Any], package: Any, kind: Any) -> Any:
    """The mechanism that made the tables, with its options.

    Raises:
        ValueError: there is no such mechanism, or it does not take these options.
    """
    if fitted_to_persons(statement):
        raise ValueError(
            "release: its households by size were fitted to the persons of the same release, and replicates of that "
            "are not made; its tables have the std_dev of every number, and mean of the whole release the mean size"
        )
    stated = statement["mechanism"]
    name = stated["name"]
    if isinstance(stated.get("code"), str):
        return _mechanism_from_outside(stated["code"], stated.get("options"), kind)
    chosen = getattr(package, name) if name in package.__all__ else None
    if not (isinstance(chosen, type) and is_dataclass(chosen) and issubclass(chosen, kind)):
        raise ValueError(
            f"release: its mechanism is {name!r}, which is not among {package.__name__}'s; use the tallytree that made "
            "the release, or a later one"
        )
    try:
        return chosen(**stated["options"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"release: its mechanism {name} does not take the options that its statement has ({error}); use the "
            "tallytree that made the release, or a later one"
        ) from None


def _mechanism_from_outside(code: str, options: Any, kind: Any) -> Any:
    """The mechanism that a statement names as `module:Class`: what is not known here is not imported.

    Raises:
        ValueError: it is not known here, or does not take the options.
    """
    known = known_class(code, kind)
    if known is None:
        raise ValueError(
            f"release: its mechanism {code!r} is code from outside, which is not installed here; import its module "
            "first (on the command line: --allow-code, with the module on PYTHONPATH)"
        )
    return made_by(known, options if isinstance(options, Mapping) else {})


def stated_plan(view: ReleaseView) -> StatedPlan:
    """What a release measured, with which noise and thresholds, as its statement says."""
    noise = view.noise
    return StatedPlan(noise, _stated_thresholds(view.statement, noise))


def _stated_thresholds(statement: Mapping[str, Any], measured: Mapping[str, tuple[Statistic, Noise]]) -> dict[str, int]:
    """The threshold of every level of which only what is above one was published.

    Raises:
        ValueError: the statement does not say it.
    """
    stable = {level for level, (statistic, _) in measured.items() if statistic == "stable_counts"}
    thresholds = {level["level"]: level.get("threshold") for level in statement["levels"] if level["level"] in stable}
    for level, threshold in thresholds.items():
        if type(threshold) is not int or threshold < 1:
            raise ValueError(
                f"release: its statement has threshold = {threshold!r} at the level {level!r}; {FRESH_COPY}"
            )
    return thresholds


def _hidden(unlisted: int | None, alpha: float, errors: LevelErrors) -> int | None:
    """What an absent cell may hide: what replicates left out, and at least the upper end of an interval around 0."""
    zero = np.zeros(1, dtype=np.int64)
    upper = interval(zero, np.zeros(1), alpha, errors)[1]
    return None if unlisted is None else max(unlisted, int(upper[0]))
