"""The parametric bootstrap: published numbers, taken as the true ones, measured and reconciled again with fresh noise.

Why this costs no privacy: a replicate is a function of published numbers, of public facts and of noise whose key is
derived from entropy that was drawn after the release (or, in tests, from a seed under a label of its own). It sees no
record, no true statistic, and neither the release's key nor its noise. So it is post-processing of the release. Were
the release's own key used, the same cells would get the same noise, and subtracting it from the published
measurements would show the true statistics; that is why no key is taken from outside this module.

The `Measurer` is the same as in a release, over other statistics: here `TrueCounts`, `TrueSizes` and `PublishedTables`
hold what was published.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tallytree.accounting import Plan, StabilityPlan
from tallytree.counts import CountsMechanism, TopDown
from tallytree.hierarchy import Hierarchy, Levels
from tallytree.kinds.foreign import is_foreign
from tallytree.kinds.measurements import Noise, Statistic
from tallytree.kinds.terms import Invariants
from tallytree.private import KeyedNoise, Measurer, NoiseSource, TrueCounts, TrueRanks, TrueSizes, entropy
from tallytree.product import Product
from tallytree.release.intervals import number_column
from tallytree.release.level_tables import NodeTable
from tallytree.release.released_tables import count_columns, published_tables
from tallytree.release.view.release_view import PublishedLevel
from tallytree.run import PlannedHouseholds
from tallytree.run.checked_results import counts_by, sizes_by, tables_by
from tallytree.run.planned_households import size_level
from tallytree.sizes import SizesDomain, SizesMechanism
from tallytree.sizes.mechanism import ReleasedSizes, sum_over_tree
from tallytree.support.arrays import IntArray, NumberArray, sum_by_key
from tallytree.support.machine import side_by_side
from tallytree.tables import PublicTotals, TableLayout, TablesMechanism

LEAVES_AT_ONCE = 1_000_000
"""Counts with more leaves that are not 0 are replicated one after the other; that many take about 0.5 GB."""

SETTLING = 5
"""Replicates of a chain that are not counted: its errors grow from those of smooth numbers to those of a release."""

LevelCells: TypeAlias = tuple[IntArray, NumberArray]
"""Cells of a level, and their numbers."""

LABEL = "replicate errors"
"""Keys of replicates are derived under this label, those of releases under another (`run.planned`)."""


@dataclass(frozen=True)
class StatedNoise:
    """The noise of one level as a statement states it."""

    level: str
    statistic: Statistic
    noise: Noise


@dataclass(frozen=True)
class StatedThreshold(StatedNoise):
    """The noise and the threshold of one level as a statement states them."""

    threshold: int


@dataclass(frozen=True)
class StatedPlan:
    """What may be measured, as the statement of the release says: no more than was measured then.

    Published numbers of leaves are measured as they are: as counts also where people were counted once a leaf.

    Attributes:
        levels: statistic and noise of every measured level.
        thresholds: of the levels of which only what is above one was published.
    """

    levels: Mapping[str, tuple[Statistic, Noise]]
    thresholds: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan) -> StatedPlan:
        """A plan as replicates take it."""
        thresholds = {plan.stable.level: plan.stable.threshold} if isinstance(plan, StabilityPlan) else {}
        return cls({level: (each.statistic, each.noise) for level, each in plan.levels.items()}, thresholds)

    def std_devs(self, tree: Levels) -> list[float]:
        """That of each level's noise; of a level that only repeats the one above, of that; else 0."""
        deviations: list[float] = []
        for depth, level in enumerate(tree.levels):
            if level in self.levels:
                deviations.append(self.levels[level][1].std_dev)
            else:
                repeats = isinstance(tree, Hierarchy | Product) and tree.only_children(depth)
                deviations.append(deviations[-1] if repeats else 0.0)
        return deviations

    def planned(self, level: str, statistic: str) -> StatedNoise | None:
        """How this statistic of a level is measured; None where it was not."""
        if level not in self.levels or level in self.thresholds:
            return None
        counted = self.asked(level)
        return StatedNoise(level, counted, self.levels[level][1]) if counted == statistic else None

    def asked(self, level: str) -> Statistic:
        """What a measured level is measured as."""
        stated = self.levels[level][0]
        return "counts" if stated == "distinct_counts" else stated

    def planned_stable(self, level: str) -> StatedThreshold | None:
        """How counts above a threshold are measured at a level; None where they are not."""
        threshold = self.thresholds.get(level)
        return None if threshold is None else StatedThreshold(level, *self.levels[level], threshold)


@dataclass(frozen=True, eq=False)
class ReplicatedLevel:
    """The rows of one level of a replicate, as a release would publish them.

    Attributes:
        cells: int64 (n,), what each row is about.
        columns: n rows: what is published, and what of its error would be.
    """

    cells: IntArray
    columns: pa.Table

    @property
    def numbers(self) -> NumberArray:
        """What is published, (n,)."""
        return np.asarray(self.columns.column(number_column(self.columns)).to_numpy())


class Replicates(ABC):
    """What measures and reconciles published numbers again and again."""

    @abstractmethod
    def truths(self) -> list[LevelCells]:
        """The cells and numbers that count as true, per level, root first; what is not there is 0."""

    @abstractmethod
    def releases(self, sources: Iterator[NoiseSource]) -> Iterator[list[ReplicatedLevel]]:
        """For each source, in their order, what a release would publish, root first, with its errors."""

    def run(self, sources: Iterator[NoiseSource]) -> Iterator[list[LevelCells]]:
        """What `releases` gives: cells and numbers per level, root first. Cells that are not there are 0."""
        for levels in self.releases(sources):
            yield [(level.cells, level.numbers) for level in levels]

    def keys(self, level: PublishedLevel) -> IntArray:
        """The cells of a published level: int64 (n,)."""
        return level.nodes

    @abstractmethod
    def floors(self) -> list[float]:
        """What upper ends use at least as standard deviation, per level."""

    @abstractmethod
    def lists_zeros(self, depth: int, rows: int) -> bool:
        """Whether a published level with so many rows lists the cells that are 0 too."""


@dataclass(frozen=True, eq=False)
class CountReplicates(Replicates):
    """Replicates of counts. Cells are known by their node.

    Attributes:
        tree: the public tree.
        mechanism: that of the release.
        plan: its noise.
        total_is_public: whether it kept the total.
        nodes: int64 (n,), leaves with published counts > 0.
        counts: int64 (n,), these.
        prior: what `reconcile_and_tell` takes of a prior, by argument; nothing without one.
    """

    tree: Hierarchy | Product
    mechanism: CountsMechanism
    plan: StatedPlan
    total_is_public: bool
    nodes: IntArray
    counts: IntArray
    prior: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def truth(self) -> TrueCounts:
        """What is measured: sums of the published leaves."""
        return TrueCounts(self.tree, self.nodes, self.counts)

    def truths(self) -> list[LevelCells]:
        """The cells and numbers that count as true, per level, root first; what is not there is 0."""
        return [self.truth.present(level) for level in self.tree.levels]

    def releases(self, sources: Iterator[NoiseSource]) -> Iterator[list[ReplicatedLevel]]:
        """See `Replicates`.

        Replicates know nothing of each other, so they are made side by side where their arrays are small enough to be
        held at once.
        """
        truth = self.truth
        total = truth.total if self.total_is_public else None

        def replicate(source: NoiseSource) -> list[ReplicatedLevel]:
            measurer = Measurer(truth, self.plan, source)
            levels = counts_by(self.mechanism, self.tree, total, measurer, **self.prior)
            return [ReplicatedLevel(level.nodes, count_columns(level)) for level in levels]

        return side_by_side(replicate, sources, threads=None if self._several_at_once else 1)

    def floors(self) -> list[float]:
        """See `Replicates`."""
        return self.plan.std_devs(self.tree)

    def lists_zeros(self, depth: int, rows: int) -> bool:
        """See `Replicates`."""
        return isinstance(self.tree, Hierarchy)

    @property
    def _several_at_once(self) -> bool:
        """Whether replicates are small, and made by our own code: CVXPY numbers its variables without a lock."""
        if is_foreign(self.mechanism):
            return False
        ours = not isinstance(self.mechanism, TopDown) or not self.mechanism.projection.startswith("cvxpy")
        return ours and len(self.nodes) <= LEAVES_AT_ONCE


@dataclass(frozen=True, eq=False)
class SizeReplicates(Replicates):
    """Replicates of group sizes. Cells are known by node · (K + 1) + size.

    Attributes:
        domain: the public facts, as the release has them.
        mechanism: that of the release.
        plan: its noise.
        leaves: the published group sizes of the leaves, integers > 0.
        invariants: which numbers of groups are public.
    """

    domain: SizesDomain
    mechanism: SizesMechanism
    plan: StatedPlan
    leaves: ReleasedSizes
    invariants: Invariants

    @classmethod
    def of(
        cls,
        tree: Hierarchy,
        leaves: ReleasedSizes,
        sizes: tuple[int, int],
        invariants: Invariants,
        mechanism: SizesMechanism,
        plan: StatedPlan,
    ) -> SizeReplicates:
        """Replicates of the sizes of leaves, whose numbers of groups count as the public ones.

        Args:
            tree: the public tree.
            leaves: their group sizes.
            sizes: the least and the greatest size.
            invariants: which numbers of groups are public.
            mechanism: of the release.
            plan: its noise.
        """
        groups = np.zeros(tree.n_leaves, dtype=np.int64)
        np.add.at(groups, leaves.nodes, leaves.groups)
        return cls(SizesDomain.from_leaves(tree, groups, *sizes, invariants), mechanism, plan, leaves, invariants)

    def truths(self) -> list[LevelCells]:
        """The cells and numbers that count as true, per level, root first; what is not there is 0."""
        return [self._cells(level) for level in self._levels]

    def releases(self, sources: Iterator[NoiseSource]) -> Iterator[list[ReplicatedLevel]]:
        """See `Replicates`; the numbers of groups of one size have no errors beside them."""
        domain = self.domain
        truth = TrueSizes(
            domain.hierarchy,
            self.leaves.nodes,
            self.leaves.sizes,
            self.leaves.groups.astype(np.int64),
            domain.groups,
            domain.smallest,
            domain.largest,
        )
        for source in sources:
            levels = sizes_by(self.mechanism, domain, Measurer(truth, self.plan, source))
            cells = map(self._cells, levels)
            yield [ReplicatedLevel(nodes, pa.table({"groups": numbers})) for nodes, numbers in cells]

    def keys(self, level: PublishedLevel) -> IntArray:
        """See `Replicates`."""
        sizes = np.zeros(0, dtype=np.int64) if level.sizes is None else level.sizes
        return level.nodes * (self.domain.largest + 1) + sizes

    def floors(self) -> list[float]:
        """See `Replicates`: none."""
        return [0.0] * len(self._levels)

    def lists_zeros(self, depth: int, rows: int) -> bool:
        """See `Replicates`."""
        return False

    def chained(self, sources: Iterator[NoiseSource]) -> Iterator[tuple[list[LevelCells], list[LevelCells]]]:
        """What counts as true, and what a replicate makes of it; the first `SETTLING` sources give none.

        The true sizes are the published ones less their error: that of the replicate before, at first none. Published
        sizes are smooth where the mechanism smooths, so replicates of these err too little: nothing is left to smooth
        away. In this chain the error of a smoothed number settles at that of the release: of a number that keeps the
        part g of how far its node is from the expected, v = (1 − g)²·(published scatter + v) + noise.
        """
        here = self
        for place, source in enumerate(sources):
            true, (replicate,) = here.truths(), here.run(iter([source]))
            if place >= SETTLING:
                yield true, replicate
            here = self._less(true[-1], replicate[-1])

    def _less(self, true: LevelCells, replicate: LevelCells) -> SizeReplicates:
        """These sizes of leaves less replicate − true; tail counts that rise are sorted, negative ones are 0."""
        (cells, numbers), domain = replicate, self.domain
        parts = [self._cells(self.leaves), true, (cells, -np.rint(numbers).astype(np.int64))]
        keys, groups = sum_by_key(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        nodes, sizes = np.divmod(keys, domain.largest + 1)
        tails = np.maximum(ReleasedSizes(nodes, sizes, groups).tail_counts(), 0)
        if domain.groups_are_public:
            tails = np.minimum(tails, tails[np.searchsorted(nodes, nodes)])
        tails = tails[np.lexsort((-tails, nodes))]
        groups = tails - np.append(tails[1:] * (nodes[1:] == nodes[:-1]), 0)[: len(tails)]
        leaves = ReleasedSizes(*(each[groups > 0] for each in (nodes, sizes, groups)))
        between = domain.smallest, domain.largest
        return SizeReplicates.of(domain.hierarchy, leaves, between, self.invariants, self.mechanism, self.plan)

    @cached_property
    def _levels(self) -> list[ReleasedSizes]:
        """Sums of the published leaves, root first."""
        return sum_over_tree(self.domain.hierarchy, self.leaves, self.domain.largest)

    def _cells(self, level: ReleasedSizes) -> LevelCells:
        return level.nodes * (self.domain.largest + 1) + level.sizes, level.groups


@dataclass(frozen=True, eq=False)
class PublishedTables:
    """Published tables in place of true ones.

    Attributes:
        layout: which they are.
        tables: by name, int64 (cells,): every cell.
    """

    layout: TableLayout
    tables: Mapping[str, IntArray]

    @classmethod
    def of_detail(cls, layout: TableLayout, detail: IntArray) -> PublishedTables:
        """All tables of the records of every detail cell, int64 (finest areas, cells)."""
        sums = (layout.summed(detail, depth).ravel() for depth in range(len(layout.levels)))
        return cls(layout, dict(zip(layout.levels, sums, strict=True)))

    def size(self, level: str) -> int:
        """How many areas the table has."""
        return self.layout.areas(self.layout.levels.index(level))

    def width(self, level: str, node: int, statistic: Statistic) -> int:
        """How many cells it has in an area."""
        return self.layout.width(self.layout.levels.index(level))

    def cells(
        self, level: str, nodes: IntArray, statistic: Statistic, part: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The published counts of all cells of each of some areas; a cell's number is that within the table."""
        width = self.width(level, 0, statistic)
        first, stop = (0, width) if part is None else part
        numbers = ((nodes * width)[:, None] + np.arange(first, stop, dtype=np.int64)).ravel()
        return self.tables[level][numbers], np.arange(len(nodes) + 1, dtype=np.int64) * (stop - first), numbers


@dataclass(frozen=True, eq=False)
class TableReplicates(Replicates):
    """Replicates of tables. Cells are known by their number in the table.

    Attributes:
        truth: the published tables.
        mechanism: that of the release.
        plan: its noise.
        totals: what it published exactly.
        prior: what `reconcile` takes of a prior, by argument; nothing without one.
    """

    truth: PublishedTables
    mechanism: TablesMechanism
    plan: StatedPlan
    totals: PublicTotals | None
    prior: Mapping[str, Any] = field(default_factory=dict)

    def truths(self) -> list[LevelCells]:
        """The cells and numbers that count as true, table by table."""
        tables = (self.truth.tables[name] for name in self.truth.layout.levels)
        return [(np.arange(len(table), dtype=np.int64), table) for table in tables]

    def run(self, sources: Iterator[NoiseSource]) -> Iterator[list[LevelCells]]:
        """See `Replicates`: cells that are not 0."""
        for tables in self.releases(sources):
            yield [(table.cells[there], table.numbers[there]) for table in tables for there in (table.numbers != 0,)]

    def releases(self, sources: Iterator[NoiseSource]) -> Iterator[list[ReplicatedLevel]]:
        """See `Replicates`: all cells that would be listed."""
        layout = self.truth.layout
        measured = {name: self.plan.asked(name) for name in self.plan.levels}
        for source in sources:
            measurer = Measurer(self.truth, self.plan, source)
            fitted = tables_by(self.mechanism, layout, measured, self.totals, measurer, **self.prior)
            tables = published_tables(layout, fitted).values()
            yield [ReplicatedLevel(table.nodes, table.columns) for table in tables]

    def floors(self) -> list[float]:
        """See `Replicates`."""
        return self.plan.std_devs(self.truth.layout)

    def lists_zeros(self, depth: int, rows: int) -> bool:
        """See `Replicates`."""
        return rows == self.truth.layout.size(depth)


@dataclass(frozen=True, eq=False)
class HouseholdReplicates:
    """Replicates of persons and households: the tables of persons, then households by size, level by level.

    Cells of the latter are known by node · K + size − 1.

    Attributes:
        planned: the release.
        persons: replicates of the tables of persons.
        ranks: the persons by rank that count as true.
    """

    planned: PlannedHouseholds
    persons: TableReplicates
    ranks: TrueRanks

    def truths(self) -> list[LevelCells]:
        """The cells and numbers that count as true."""
        cells_of_parts = self.persons.truths()
        for level in map(size_level, self.planned.areas.levels):
            nodes = np.arange(self.ranks.size(level), dtype=np.int64)
            cells = self.ranks.cells(level, nodes, "persons_by_rank")[0].reshape(len(nodes), -1)
            households = -np.diff(cells[:, :-1], axis=1, append=0).ravel()
            cells_of_parts.append((np.arange(len(households), dtype=np.int64), households))
        return cells_of_parts

    def releases(self, sources: Iterator[NoiseSource]) -> Iterator[list[ReplicatedLevel]]:
        """For each source what a release would publish, with its errors."""
        layout = self.persons.truth.layout
        for source in sources:
            (levels,) = self.persons.releases(iter([source]))
            tables = {
                name: NodeTable(layout, depth, level.cells, level.columns)
                for depth, (name, level) in enumerate(zip(layout.levels, levels, strict=True))
            }
            sizes = self.planned.sizes_given(tables, self.ranks, source, lambda level: None)
            for table in sizes.tables.values():
                assert isinstance(table, NodeTable)  # noqa: S101  (they were made in this process)
                size = table.columns.column("size").to_numpy()
                levels.append(ReplicatedLevel(table.nodes * self.planned.largest + size - 1, table.columns))
            yield levels


def fresh_sources(replicates: int, seed: int | None) -> Iterator[NoiseSource]:
    """Noise for each replicate, independent of one another and of every release's.

    Without a seed the entropy is the operating system's. With one, the key is derived from it under a label that no
    release uses, so that even the seed of the release itself does not give its noise again.
    """
    key = entropy.fresh_key() if seed is None else entropy.key_from_seed(seed)
    for replicate in range(replicates):
        yield KeyedNoise(entropy.derive(key, LABEL, replicate))
