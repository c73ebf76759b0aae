"""The error of every published number: `replicate_errors`.

The release is taken as the truth, measured with the noise that its statement states, and reconciled by its mechanism,
again and again. What the replicates miss of the release, the release is taken to miss of the truth.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree import counts, sizes
from tallytree.compute.arrays import IntArray, NumberArray
from tallytree.counts import CountsMechanism
from tallytree.hierarchy import Hierarchy, Tree
from tallytree.measurements import Noise, Statistic
from tallytree.pipeline.progress import step_progress
from tallytree.postprocess.bootstrap import CountReplicates, SizeReplicates, StatedPlan, fresh_sources
from tallytree.postprocess.reconcile_sizes import published_range
from tallytree.postprocess.recorded_measurements import FRESH_COPY, described_row, path_texts, recorded_noise
from tallytree.postprocess.squared_errors import SquaredErrors
from tallytree.product import Product
from tallytree.release import LevelTable, NodeTable, Release
from tallytree.release.intervals import COVERS, ERROR_COLUMNS, MIN_REPLICATES, LevelErrors, checked_alpha, interval
from tallytree.release.paths import node_numbers
from tallytree.release.statement import TABLES_MADE_BY, TOTAL_IS_PUBLIC, versions
from tallytree.sizes import ReleasedSizes, SizesDomain, SizesMechanism
from tallytree.validate import integer

STATISTICS = ("counts", "flows", "group_sizes")


def replicate_errors(
    release: Release | str | os.PathLike[str],
    replicates: int = 50,
    *,
    alpha: float = 0.1,
    hierarchy: Hierarchy | Product | None = None,
    seed: int | None = None,
    progress: bool = False,
) -> Release:
    """Estimate the error of every published number of a release, from replicates.

    The published numbers are taken as the true ones, measured with the noise that the statement states, and reconciled
    by the release's mechanism, `replicates` times. No private data is read and nothing is spent: replicates see the
    release, and fresh noise. See `docs/errors.md`.

    Args:
        release: a release, or the folder of a saved one.
        replicates: how many; at least 10. The time is that of as many releases, without reading records.
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
    rounds = _checked_replicates(replicates)
    level_alpha = checked_alpha(alpha)
    fixed = None if seed is None else integer(seed, "seed")
    found = Release.load(release) if isinstance(release, str | os.PathLike) else release
    if not isinstance(found, Release):
        raise TypeError(f"release: {type(found).__name__} must be a tallytree.Release, or the folder of a saved one")
    tree = _tree_of(found, hierarchy)
    statistic = found.statement.get("statistic")
    if statistic not in STATISTICS:
        raise ValueError(f"release: its statistic is {statistic!r}, which must be one of {', '.join(STATISTICS)}")
    noise = recorded_noise(found.statement, tree)
    plan = StatedPlan(noise, _thresholds(found.statement, noise))
    published = [_published(table, tree, depth) for depth, table in enumerate(found.tables.values())]
    replicated: CountReplicates | SizeReplicates
    if statistic == "group_sizes":
        replicated, keys = _of_sizes(found, tree, plan, published)
    else:
        replicated, keys = _of_counts(found, tree, plan, published)
    errors = [SquaredErrors(cells, replicated.truth_at(depth, cells)) for depth, cells in enumerate(keys)]
    with step_progress(progress, rounds, "replicates") as done:
        for levels in replicated.run(fresh_sources(rounds, fixed)):
            for level, (cells, numbers) in zip(errors, levels, strict=True):
                level.add(cells, numbers)
            done()
    floors = [0.0] * len(errors) if statistic == "group_sizes" else _upward_floors(tree, plan)
    zeros_are_listed = statistic == "counts" and tree.enumerated
    tables: dict[str, LevelTable] = dict(found.tables)
    stated: list[dict[str, Any]] = [
        {"level": name, "upward_std_dev": None, "unlisted_ci_upper": None} for name in tables
    ]
    for depth, name in enumerate(found.levels):
        if plan.thresholds and name not in plan.thresholds:
            continue  # nothing published tells what its sums miss
        of_level, std_dev = LevelErrors(rounds, floors[depth]), errors[depth].std_dev
        lower, upper = interval(published[depth].numbers, std_dev, level_alpha, of_level)
        columns = pa.table({"std_dev": std_dev, "ci_lower": lower, "ci_upper": upper})
        tables[name] = TableWithErrors(tables[name], columns)
        stated[depth]["upward_std_dev"] = of_level.upward_std_dev
        if not zeros_are_listed:
            stated[depth]["unlisted_ci_upper"] = _hidden(
                errors[depth].largest_unlisted(level_alpha), level_alpha, of_level
            )
    entry = {
        "method": "replicates",
        "replicates": rounds,
        "alpha": level_alpha,
        "seeded": fixed is not None,
        "covers": " ".join([COVERS, *_not_seen(found.statement, plan)]),
        "levels": stated,
        "software": versions(TABLES_MADE_BY),
    }
    return found.with_tables(tables, {**found.statement, "errors": entry})


@dataclass(frozen=True, eq=False)
class TableWithErrors:
    """A published table with error columns, in place of any that it has.

    Attributes:
        table: the published table.
        columns: the error columns, as many rows.
    """

    table: LevelTable
    columns: pa.Table

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return self.table.num_rows

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1."""
        rows = self.table.read(start, stop)
        kept = rows.select([name for name in rows.column_names if name not in ERROR_COLUMNS])
        for name in self.columns.column_names:
            kept = kept.append_column(name, self.columns.column(name).slice(start, stop - start))
        return kept

    def slices(self) -> Iterator[slice]:
        """Those of the published table."""
        return self.table.slices()


@dataclass(frozen=True, eq=False)
class _Published:
    """A published table as arrays: node, size (of group sizes) and number of each row."""

    nodes: IntArray
    sizes: IntArray | None
    numbers: NumberArray


def _checked_replicates(replicates: int) -> int:
    """The number of replicates, if it is one and not too small.

    Raises:
        ValueError: fewer than are needed for a standard deviation.
        TypeError: not an integer.
    """
    rounds = integer(replicates, "replicates")
    if rounds < MIN_REPLICATES:
        raise ValueError(
            f"replicates: {rounds} are too few for a standard deviation; give at least {MIN_REPLICATES} (50 is the "
            "default)"
        )
    return rounds


def _tree_of(release: Release, given: Hierarchy | Product | None) -> Hierarchy | Product:
    """The public tree that was given, or that the release holds.

    Raises:
        ValueError: it holds none.
        TypeError: what was given is no tree.
    """
    if given is not None and not isinstance(given, Hierarchy | Product):
        raise TypeError(f"hierarchy: {type(given).__name__} must be a tallytree.Hierarchy or a tallytree.Product")
    tree = release.tree if given is None else given
    if tree is None:
        raise ValueError(
            "hierarchy: None was given, and the release does not hold its public tree, as an earlier tallytree wrote "
            "it; give the Hierarchy (for flows the Product) that it was released over to tallytree.replicate_errors"
        )
    return tree


def _published(table: LevelTable, tree: Tree, depth: int) -> _Published:
    """A published table as arrays.

    Raises:
        ValueError: a column is missing, or a row is about no node of the tree.
    """
    while isinstance(table, TableWithErrors):
        table = table.table
    if isinstance(table, NodeTable) and table.tree is tree:  # made in this process
        return _Published(table.nodes, *_numbers(table.columns))
    parts: list[_Published] = []
    where = f"release: the table of {tree.levels[depth]!r}"
    for rows in table.slices():
        part = table.read(rows.start, min(rows.stop, table.num_rows))
        numbers = "groups" if "groups" in part.column_names else "count"
        paths = path_texts(part, tree, depth, where, (numbers,))
        nodes = node_numbers(tree, depth, paths, part.num_rows)
        if (nodes < 0).any():
            raise ValueError(
                f"hierarchy: it has no node {described_row(paths, int(np.argmax(nodes < 0)))} at the level "
                f"{tree.levels[depth]!r}, which the release published; give the hierarchy of the release"
            )
        parts.append(_Published(nodes, *_numbers(part)))
    none = np.zeros(0, dtype=np.int64)
    listed_sizes = [part.sizes for part in parts if part.sizes is not None]
    return _Published(
        np.concatenate([none, *(part.nodes for part in parts)]),
        np.concatenate([none, *listed_sizes]) if len(listed_sizes) == len(parts) else None,
        np.concatenate([none, *(part.numbers for part in parts)]),
    )


def _numbers(columns: pa.Table) -> tuple[IntArray | None, NumberArray]:
    """Sizes, if there are any, and numbers."""
    if "count" in columns.column_names:
        return None, columns.column("count").to_numpy()
    return columns.column("size").to_numpy(), columns.column("groups").to_numpy()


def _of_counts(
    release: Release, tree: Hierarchy | Product, plan: StatedPlan, published: list[_Published]
) -> tuple[CountReplicates, list[IntArray]]:
    """What replicates of counts need, and the published cells of every level."""
    mechanism = _mechanism(release.statement, counts, CountsMechanism)
    leaves, whole = published[-1].nodes, np.rint(published[-1].numbers).astype(np.int64)
    there = whole > 0
    public = TOTAL_IS_PUBLIC in release.statement.get("invariants", ())
    replicated = CountReplicates(tree, mechanism, plan, public, leaves[there], whole[there])
    return replicated, [level.nodes for level in published]


def _of_sizes(
    release: Release, tree: Hierarchy | Product, plan: StatedPlan, published: list[_Published]
) -> tuple[SizeReplicates, list[IntArray]]:
    """What replicates of group sizes need, and the published cells of every level.

    Where fractions or negative numbers were released, the nearest whole numbers from 0 on are measured.
    """
    if not isinstance(tree, Hierarchy):
        raise TypeError(f"hierarchy: {type(tree).__name__} must be a tallytree.Hierarchy for group sizes")
    mechanism = _mechanism(release.statement, sizes, SizesMechanism)
    invariants, smallest, largest = published_range(release.spec, release.statement)
    keys = []
    for depth, level in enumerate(published):
        if level.sizes is None or (len(level.sizes) and not 0 <= level.sizes.min() <= level.sizes.max() <= largest):
            raise ValueError(f"release: the table of {tree.levels[depth]!r} has sizes beyond {largest}; {FRESH_COPY}")
        keys.append(level.nodes * (largest + 1) + level.sizes)
    whole = np.rint(published[-1].numbers).astype(np.int64)
    there = whole > 0
    groups_per_leaf = np.zeros(tree.n_leaves, dtype=np.int64)
    np.add.at(groups_per_leaf, published[-1].nodes[there], whole[there])
    domain = SizesDomain.from_leaves(tree, groups_per_leaf, smallest, largest, invariants)
    nodes, kept = np.divmod(keys[-1][there], largest + 1)
    return SizeReplicates(domain, mechanism, plan, ReleasedSizes(nodes, kept, whole[there])), keys


def _mechanism(statement: Mapping[str, Any], package: Any, kind: Any) -> Any:
    """The mechanism that made the tables, with its options.

    Raises:
        ValueError: there is no such mechanism, or it does not take these options.
    """
    stated = statement.get("mechanism")
    name = stated.get("name") if isinstance(stated, Mapping) else None
    chosen = getattr(package, name) if isinstance(name, str) and name in package.__all__ else None
    if not (isinstance(chosen, type) and is_dataclass(chosen) and issubclass(chosen, kind)):
        raise ValueError(
            f"release: its mechanism is {name!r}, which is not among {package.__name__}'s; use the tallytree that made "
            "the release, or a later one"
        )
    try:
        return chosen(**stated["options"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"release: its mechanism {name} does not take the options that its statement has ({error}); use the "
            "tallytree that made the release, or a later one"
        ) from None


def _not_seen(statement: Mapping[str, Any], plan: StatedPlan) -> list[str]:
    """What replicates of the published numbers cannot show, in sentences."""
    sentences = []
    if plan.thresholds:
        sentences.append(
            "Cells below the threshold are missing from every sum, and nothing published tells how much they had: only "
            f"{', '.join(plan.thresholds)} has intervals, of the cells that it lists."
        )
    if statement["mechanism"]["options"].get("sparsity"):
        sentences.append(
            "What sparsity left out is not in the published numbers, so replicates do not leave it out again: "
            "intervals miss more often than alpha says, by far where the data are not sparse."
        )
    return sentences


def _thresholds(statement: Mapping[str, Any], measured: Mapping[str, tuple[Statistic, Noise]]) -> dict[str, int]:
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
    zero = np.zeros(1)
    return None if unlisted is None else max(unlisted, int(interval(zero, zero, alpha, errors)[1][0]))


def _upward_floors(tree: Tree, plan: StatedPlan) -> list[float]:
    """The standard deviation of each level's noise; of a level that only repeats the one above, of that; else 0."""
    floors: list[float] = []
    for depth, level in enumerate(tree.levels):
        if level in plan.levels:
            floors.append(plan.levels[level][1].std_dev)
        else:
            floors.append(floors[-1] if tree.only_children(depth) else 0.0)
    return floors
