"""The error of every published number: `replicate_errors`.

The release is taken as the truth, measured with the noise that its statement states, and reconciled by its mechanism,
again and again. What the replicates miss of the release, the release is taken to miss of the truth.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree import counts, sizes, tables
from tallytree._compute.arrays import IntArray
from tallytree._derived.bootstrap import (
    CountReplicates,
    PublishedTables,
    SizeReplicates,
    StatedPlan,
    TableReplicates,
    fresh_sources,
)
from tallytree._derived.published_tables import all_cells, layout_of, published_totals
from tallytree._derived.published_values import (
    PublishedLevel,
    TableWithErrors,
    mechanism_of,
    published_level,
    tree_of,
)
from tallytree._derived.reconcile_sizes import published_range
from tallytree._derived.recorded_measurements import FRESH_COPY, recorded_noise
from tallytree._derived.squared_errors import SquaredErrors
from tallytree._measurements import Noise, Statistic
from tallytree._progress import step_progress
from tallytree._stages import stage
from tallytree._validate import integer
from tallytree.counts import CountsMechanism
from tallytree.hierarchy import Hierarchy, Levels
from tallytree.product import Product
from tallytree.release import LevelTable, Release
from tallytree.release.intervals import COVERS, MIN_REPLICATES, LevelErrors, checked_alpha, interval
from tallytree.release.manifest import TABLES
from tallytree.release.remainders import NO_REPLICATES, refuse_remainders
from tallytree.release.statement import TABLES_MADE_BY, TOTAL_IS_PUBLIC, versions
from tallytree.sizes import ReleasedSizes, SizesDomain, SizesMechanism
from tallytree.tables import TableLayout, TablesMechanism

DEFAULT_REPLICATES = 50
MAX_REPLICATES = 10_000
"""Each takes about the time of a release. The standard deviations of so many are known to 1 %."""

STATISTICS = ("counts", "flows", "tables", "group_sizes")


def replicate_errors(
    release: Release | str | os.PathLike[str],
    replicates: int = DEFAULT_REPLICATES,
    *,
    alpha: float = 0.1,
    hierarchy: Hierarchy | Product | None = None,
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
        hierarchy: the public tree, for a folder that was written without it.
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
    found = Release.load(release) if isinstance(release, str | os.PathLike) else release
    if not isinstance(found, Release):
        raise TypeError(f"release: {type(found).__name__} must be a tallytree.Release, or the folder of a saved one")
    statistic = found.statement.get("statistic")
    if statistic not in STATISTICS:
        raise ValueError(f"release: its statistic is {statistic!r}, which must be one of {', '.join(STATISTICS)}")
    refuse_remainders(found.statement, "release", NO_REPLICATES)
    tree: Levels = tree_of(found, hierarchy)
    if statistic == TABLES:
        tree = layout_of(found.statement, tree)
        if tree.impossible is not None:
            raise ValueError(
                "release: it has cells that are impossible, which replicates would give an interval; tables have "
                "intervals of their own, so leave replicates out"
            )
    noise = recorded_noise(found.statement, tree)
    plan = StatedPlan(noise, stated_thresholds(found.statement, noise))
    published = [published_level(table, tree, depth) for depth, table in enumerate(found.level_tables.values())]
    errors = _squared_errors(found, tree, plan, published, rounds, fixed, progress)
    floors = [0.0] * len(errors) if statistic == "group_sizes" else upward_floors(tree, plan)
    made: dict[str, LevelTable] = dict(found.level_tables)
    stated: list[dict[str, Any]] = []
    for depth, name in enumerate(found.levels):
        facts: dict[str, Any] = {"level": name, "upward_std_dev": None, "unlisted_ci_upper": None}
        stated.append(facts)
        if plan.thresholds and name not in plan.thresholds:
            continue  # nothing that was published shows what its sums miss
        of_level = LevelErrors(rounds, floors[depth])
        made[name] = _with_errors(made[name], published[depth], errors[depth], level_alpha, of_level)
        facts["upward_std_dev"] = of_level.upward_std_dev
        if statistic == "group_sizes" or not _lists_zeros(tree, depth, len(published[depth].nodes)):
            unlisted = errors[depth].largest_unlisted(level_alpha)
            facts["unlisted_ci_upper"] = _hidden(unlisted, level_alpha, of_level)
    entry = {
        "method": "replicates",
        "replicates": rounds,
        "alpha": level_alpha,
        "seeded": fixed is not None,
        "covers": " ".join([COVERS, *_not_seen(found.statement, plan)]),
        "levels": stated,
        "software": versions(TABLES_MADE_BY),
    }
    return found.with_tables(made, {**found.statement, "errors": entry})


def _lists_zeros(tree: Levels, depth: int, rows: int) -> bool:
    """Whether a published table of counts lists the cells that are 0 too."""
    if isinstance(tree, TableLayout):
        return rows == tree.size(depth)
    return isinstance(tree, Hierarchy)


def _squared_errors(
    release: Release,
    tree: Levels,
    plan: StatedPlan,
    published: list[PublishedLevel],
    rounds: int,
    seed: int | None,
    progress: bool,
) -> list[SquaredErrors]:
    """The errors of the replicates at the published cells of every level, root first."""
    replicated: CountReplicates | SizeReplicates | TableReplicates
    if isinstance(tree, TableLayout):
        replicated, keys = _of_tables(release, tree, plan, published)
    elif release.statement["statistic"] == "group_sizes":
        replicated, keys = replicates_of_sizes(release, tree, plan, published)
    else:
        replicated, keys = replicates_of_counts(release, tree, plan, published)
    errors = [SquaredErrors(cells, replicated.truth_at(depth, cells)) for depth, cells in enumerate(keys)]
    with stage("replicate"), step_progress(progress, rounds, "replicates") as done:
        for levels in replicated.run(fresh_sources(rounds, seed)):
            for level, (cells, numbers) in zip(errors, levels, strict=True):
                level.add(cells, numbers)
            done()
    return errors


def _with_errors(
    table: LevelTable, published: PublishedLevel, errors: SquaredErrors, alpha: float, of_level: LevelErrors
) -> LevelTable:
    """A published table with the standard deviation and the interval of each number."""
    std_dev = errors.std_dev
    lower, upper = interval(published.numbers, std_dev, alpha, of_level)
    return TableWithErrors(table, pa.table({"std_dev": std_dev, "ci_lower": lower, "ci_upper": upper}))


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


def replicates_of_counts(
    release: Release, tree: Levels, plan: StatedPlan, published: list[PublishedLevel]
) -> tuple[CountReplicates, list[IntArray]]:
    """What replicates of counts need, and the published cells of every level."""
    if not isinstance(tree, Hierarchy | Product):
        raise TypeError(f"hierarchy: {type(tree).__name__} must be a tallytree.Hierarchy or a tallytree.Product")
    mechanism = mechanism_of(release.statement, counts, CountsMechanism)
    leaves, numbers = published[-1].nodes, np.rint(published[-1].numbers).astype(np.int64)
    there = numbers > 0
    public = TOTAL_IS_PUBLIC in release.statement.get("invariants", ())
    replicated = CountReplicates(tree, mechanism, plan, public, leaves[there], numbers[there])
    return replicated, [level.nodes for level in published]


def _of_tables(
    release: Release, layout: TableLayout, plan: StatedPlan, published: list[PublishedLevel]
) -> tuple[TableReplicates, list[IntArray]]:
    """What replicates of tables need, and the published cells of every table."""
    mechanism = mechanism_of(release.statement, tables, TablesMechanism)
    cells = all_cells(layout, published)
    totals = published_totals(release.statement, layout, cells)
    replicated = TableReplicates(PublishedTables(layout, cells), mechanism, plan, totals)
    return replicated, [level.nodes for level in published]


def replicates_of_sizes(
    release: Release, tree: Levels, plan: StatedPlan, published: list[PublishedLevel]
) -> tuple[SizeReplicates, list[IntArray]]:
    """What replicates of group sizes need, and the published cells of every level.

    Where fractions or negative numbers were released, the nearest integers ≥ 0 are measured.
    """
    if not isinstance(tree, Hierarchy):
        raise TypeError(f"hierarchy: {type(tree).__name__} must be a tallytree.Hierarchy for group sizes")
    mechanism = mechanism_of(release.statement, sizes, SizesMechanism)
    invariants, smallest, largest = published_range(release.spec, release.statement)
    keys = []
    for depth, level in enumerate(published):
        if level.sizes is None or (len(level.sizes) and not 0 <= level.sizes.min() <= level.sizes.max() <= largest):
            raise ValueError(f"release: the table of {tree.levels[depth]!r} has sizes beyond {largest}; {FRESH_COPY}")
        keys.append(level.nodes * (largest + 1) + level.sizes)
    groups = np.rint(published[-1].numbers).astype(np.int64)
    there = groups > 0
    groups_per_leaf = np.zeros(tree.n_leaves, dtype=np.int64)
    np.add.at(groups_per_leaf, published[-1].nodes[there], groups[there])
    domain = SizesDomain.from_leaves(tree, groups_per_leaf, smallest, largest, invariants)
    nodes, kept = np.divmod(keys[-1][there], largest + 1)
    return SizeReplicates(domain, mechanism, plan, ReleasedSizes(nodes, kept, groups[there])), keys


def _not_seen(statement: Mapping[str, Any], plan: StatedPlan) -> list[str]:
    """What replicates of the published numbers cannot show, in sentences."""
    sentences = []
    if plan.thresholds:
        sentences.append(
            "Cells below the threshold are missing from every sum, and nothing published tells how much they had: only "
            f"{', '.join(plan.thresholds)} has intervals, of the cells that it lists."
        )
    dropped = statement.get("sparsity", {"applied": True})["applied"]  # "auto" says whether it dropped anything
    if statement["mechanism"]["options"].get("sparsity") and dropped:
        sentences.append(
            "What sparsity left out is not in the published numbers, so replicates do not leave it out again: "
            "intervals miss more often than alpha says, by far where the data are not sparse."
        )
    return sentences


def stated_thresholds(statement: Mapping[str, Any], measured: Mapping[str, tuple[Statistic, Noise]]) -> dict[str, int]:
    """The threshold of every level of which only what is above one was published.

    Raises:
        ValueError: the statement does not say it.
    """
    stable = {level for level, (statistic, _) in measured.items() if statistic == "stable_counts"}
    found = {level["level"]: level.get("threshold") for level in statement["levels"] if level["level"] in stable}
    for level, threshold in found.items():
        if type(threshold) is not int or threshold < 1:
            raise ValueError(
                f"release: its statement has threshold = {threshold!r} at the level {level!r}; {FRESH_COPY}"
            )
    return found


def _hidden(unlisted: int | None, alpha: float, errors: LevelErrors) -> int | None:
    """What an absent cell may hide: what replicates left out, and at least the upper end of an interval around 0."""
    zero = np.zeros(1, dtype=np.int64)
    upper = interval(zero, np.zeros(1), alpha, errors)[1]
    return None if unlisted is None else max(unlisted, int(upper[0]))


def upward_floors(tree: Levels, plan: StatedPlan) -> list[float]:
    """The standard deviation of each level's noise; of a level that only repeats the one above, of that; else 0."""
    floors: list[float] = []
    for depth, level in enumerate(tree.levels):
        if level in plan.levels:
            floors.append(plan.levels[level][1].std_dev)
        else:
            repeats = isinstance(tree, Hierarchy | Product) and tree.only_children(depth)
            floors.append(floors[-1] if repeats else 0.0)
    return floors
