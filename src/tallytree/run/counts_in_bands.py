"""Counts and flows that need not fit in memory: measured and reconciled band by band, from and to files.

`released_band` is the work on one band: a function of the plan, the noise source (the key), the band's true counts and
what was released of its nodes at the cut level. Nothing else is shared by bands, so they may be worked on anywhere and
in any order (`tallytree.private.band_work`); what is made of them is written in the order in which it is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.counts import CountsMechanism
from tallytree.counts.mechanism import AddsUp, GoesDown
from tallytree.counts.released_counts import ReleasedCounts, count_negative, count_violations, dense_level
from tallytree.hierarchy import Hierarchy, Tree
from tallytree.kinds.foreign import refuse_in_bands
from tallytree.kinds.measurements import Measurement, Measures, Statistic
from tallytree.private import (
    BandInputs,
    BandPlace,
    BandWork,
    CountsInFiles,
    Measurer,
    MeasuringPlan,
    NoiseSource,
    PlanBelow,
    TrueStatistics,
    ancestor_runs,
    ancestors,
    as_it_is,
)
from tallytree.release import LevelTable
from tallytree.release.level_files import MeasurementFiles, TableFiles
from tallytree.release.released_tables import count_columns
from tallytree.run.planned import Reconciled
from tallytree.run.planning import warn_beyond_machine, warn_caller
from tallytree.run.workspace import Taken, Workspace, not_taken, require_fits
from tallytree.support.arrays import IntArray
from tallytree.support.file_arrays import ROWS_AT_ONCE, ArrayWriter, FileArray, sum_files
from tallytree.support.machine import enough_memory, memory_bytes
from tallytree.trees.bands import Band, Cut, all_leaves_below, chosen_cut

LEAF_BYTES = 64
"""Bytes for a leaf with records at each level below the cut: its true count, and what is measured and released."""

DENSE_BYTES = 64
"""Bytes for a leaf of a hierarchy, with records or without: all nodes of its levels are written out."""


@dataclass(frozen=True, eq=False)
class CountsMeasuring:
    """How true counts are measured, wherever they are.

    Attributes:
        plan: what may be measured.
        source: the noise: a function of its key and the cell.
        on_measure: called with a level's name before it is measured.
        measures: from a measurer to what the mechanism measures with.
        take: is given every measurement, in the order of its level's nodes; None where they are not wanted.
    """

    plan: MeasuringPlan
    source: NoiseSource
    on_measure: Callable[[str], None]
    measures: Callable[[Measures], Measures] = as_it_is
    take: Taken | None = None

    def plain(self, known: TrueStatistics, *, taken: bool = False) -> Measurer:
        """A measurer of some true counts; with `taken`, its measurements were taken before."""
        take = not_taken if taken or self.take is None else self.take
        return Measurer(known, self.plan, self.source, self.on_measure, take)

    def inputs(self, true: Callable[[int], Any], given: Callable[[int], Any]) -> BandInputs:
        """What the work on bands needs besides: see `BandInputs`."""
        return BandInputs(true, given, self.source, self.on_measure, self.take or not_taken)

    def measurer(self, known: TrueStatistics, *, taken: bool = False) -> Measures:
        """What a mechanism measures some true counts with."""
        return self.measures(self.plain(known, taken=taken))


@dataclass(frozen=True, eq=False)
class Bands:
    """A release of counts that is worked on in bands.

    Attributes:
        tree: the public tree.
        true: the true counts.
        measuring: how they are measured.
        place: where the work on bands is done.
        rows: how many rows of files are in memory at once.
    """

    tree: Tree
    true: CountsInFiles
    measuring: CountsMeasuring
    place: BandPlace
    rows: int = ROWS_AT_ONCE


def reconcile_in_bands(
    mechanism: CountsMechanism,
    bands: Bands,
    work: Workspace,
    total: int | None,
    *,
    keep_measurements: bool,
    metadata: Mapping[bytes, bytes],
) -> Reconciled:
    """Measure and reconcile counts in bands.

    Args:
        mechanism: one that goes down or adds up.
        bands: how; its measurements are written, not given to `take`.
        work: where the files are made, and how much fits in memory.
        total: the public total; None where it is private or not used.
        keep_measurements: whether the measurements are written.
        metadata: of the schemas of the released tables.
    """
    tree = bands.tree

    def files(empty: pa.Table) -> TableFiles:
        return TableFiles(tree, empty, work.published, metadata)

    with MeasurementFiles(tree, "value", work.published) as measured:
        take = measured.take if keep_measurements else None
        bands = replace(bands, measuring=replace(bands.measuring, take=take))
        if isinstance(mechanism, GoesDown):
            facts = go_down(mechanism, bands, chosen_bands(tree, bands.true, work), total, files)
        elif isinstance(mechanism, AddsUp):
            facts = add_up(mechanism, bands, work, files)
        else:
            raise TypeError(f"mechanism: {type(mechanism).__name__} does not work in bands")
        about: dict[str, Any] = {
            "constraint_violations": facts.constraint_violations,
            "negative_numbers": facts.negative_numbers,
        }
        return Reconciled(facts.tables, (), about | dict(facts.told), measured=measured.done())


def check_memory(mechanism: CountsMechanism, tree: Tree, memory: str | None, noise: str) -> None:
    """Refuse a run with `memory` that could not keep to it, from public facts; warn of one that might not.

    A hierarchy has all its nodes. Of a product those are worked on that are not 0, often a small part of them; how many
    there are is known after the payment.

    Raises:
        ValueError: the mechanism is from outside, or works on more nodes at once than fit; or the noise is kept in
            memory.
    """
    needed = mechanism.bytes_at_once(tree) if isinstance(mechanism, GoesDown) else 0
    if memory is None:
        if isinstance(tree, Hierarchy):
            warn_beyond_machine(needed, "give memory (--memory), with TopDown or a smaller largest_fit")
        return
    refuse_in_bands(mechanism)
    if noise == "opendp":
        raise ValueError(
            'memory: with noise="opendp" every cell that was drawn is kept in memory; leave memory out, or use '
            'noise="keyed"'
        )
    if isinstance(mechanism, GoesDown) and isinstance(tree, Hierarchy):
        require_fits(memory, needed, mechanism.why_whole())
    elif isinstance(mechanism, GoesDown) and needed > memory_bytes(memory, "memory"):
        warn_caller(
            f"memory: {memory!r} is less than the {enough_memory(needed)} that this takes where most cells have "
            f"records; {mechanism.why_whole()}"
        )


def chosen_bands(tree: Tree, true: CountsInFiles, work: Workspace) -> Cut:
    """Where the tree is cut: see `tallytree.trees.bands.chosen_cut`."""

    def weights(depth: int, nodes: IntArray) -> IntArray:
        present = true.leaves_below(depth, nodes) * (LEAF_BYTES * (len(tree.levels) - depth))
        return present + (DENSE_BYTES * all_leaves_below(tree, depth) if isinstance(tree, Hierarchy) else 0)

    return chosen_cut(tree, weights, work.band_bytes, work.forced)


def go_down(mechanism: GoesDown, bands: Bands, cut: Cut, total: int | None, files: Callable[..., TableFiles]) -> Facts:
    """Release level by level down to the cut, then band by band.

    Args:
        mechanism: makes each level from the level above.
        bands: how.
        cut: where the tree is cut.
        total: the public total; None where it is private.
        files: from an empty table with the columns of numbers to the files of the released tables.

    Returns:
        What the statement says, and the tables.
    """
    tree, measuring, true_leaves = bands.tree, bands.measuring, bands.true.in_bands(cut)
    begun = mechanism.begin(tree, total, measuring.measures(_Everywhere(bands, cut, true_leaves)), whole=False)
    levels, measured = begun.levels, len(begun.levels) if begun.measured_below else 0
    while len(levels) <= cut.depth:
        above = measuring.measurer(bands.true.top(cut.depth), taken=len(levels) == measured)
        levels.append(mechanism.descend(tree, len(levels), levels[-1], above))
    with files(count_columns(levels[0]).slice(0, 0)) as tables:
        for depth, level in enumerate(levels):
            _append(tables, tree, depth, level, dense=begun.dense)
        facts = Facts(count_violations(tree, levels), count_negative(levels), begun.facts)
        last = len(levels) - 1
        if last < len(tree.levels) - 1:
            part_above = parts_of(cut, last, levels[last])
            work = BandWork(
                cut,
                PlanBelow.of(measuring.plan, cut),
                bands.true.known,
                partial(released_band, mechanism, last),
                # Of the level that `begin` has measured, the measurements were taken before.
                frozenset(() if measuring.take is None else tree.levels[measured + 1 if measured else 0 :]),
                measuring.measures,
            )
            for number, made in enumerate(bands.place.run(work, measuring.inputs(true_leaves, part_above))):
                for depth, level in enumerate(made, last + 1):
                    _append_band(tables, cut.band(number), depth, level)
                facts.constraint_violations += count_violations(tree, [part_above(number), *made], first=last)
                facts.negative_numbers += count_negative(made)
        facts.tables = tables.done()
    return facts


def released_band(
    mechanism: GoesDown, depth: int, band: Band, measurer: Measures, above: ReleasedCounts
) -> list[ReleasedCounts]:
    """The released counts of all levels of a band below one.

    Args:
        mechanism: makes each level from the level above.
        depth: the last level that is released; the cut level or a lower one.
        band: the band.
        measurer: measures its nodes.
        above: the band's nodes there that are not 0.
    """
    levels = [above]
    for below in range(depth + 1, len(band.tree.levels)):
        levels.append(mechanism.descend(band.tree, below, levels[-1], measurer))
    return levels[1:]


def add_up(mechanism: AddsUp, bands: Bands, work: Workspace, files: Callable[..., TableFiles]) -> Facts:
    """Release the leaves in ranges, and the sums of them at every level above.

    Args:
        mechanism: makes the leaves.
        bands: how.
        work: where the files are made.
        files: as for `go_down`.
    """
    tree, last = bands.tree, len(bands.tree.levels) - 1
    with ArrayWriter(work.private / "released-nodes") as nodes, ArrayWriter(work.private / "released-counts") as counts:
        for first, stop, known in bands.true.leaf_blocks():
            for piece in mechanism.leaves(tree, first, stop, bands.measuring.measurer(known)):
                nodes.append(piece.nodes)
                counts.append(piece.counts)
    levels = [(nodes.done(), counts.done())]
    for depth in range(last, 0, -1):
        parents = _parents_of(tree, depth)
        levels.append(sum_files(*levels[-1], parents, work.private, f"released-{depth - 1}", rows=bands.rows))
    # Every level is the sum of the one below, so no constraint is violated; numbers may be negative.
    facts = Facts(0, 0)
    with files(count_columns(ReleasedCounts(_NONE, _NONE))) as tables:
        for depth, level in enumerate(reversed(levels)):
            for piece in _pieces(tree, depth, *level, rows=bands.rows):
                tables.append(depth, piece.nodes, count_columns(piece))
                facts.negative_numbers += count_negative([piece])
        facts.tables = tables.done()
    return facts


@dataclass
class Facts:
    """What is known of released counts.

    Attributes:
        constraint_violations: nodes whose count is not the sum of their children's.
        negative_numbers: nodes with a negative count.
        told: what the mechanism tells of how the counts were made.
        tables: the released tables by level, root first.
    """

    constraint_violations: int
    negative_numbers: int
    told: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, LevelTable] = field(default_factory=dict)


class _Everywhere:
    """Measures any nodes, in the order in which they are asked for: below the cut, band by band.

    One band's counts are in memory at a time, so nodes are best asked for in descent order.
    """

    def __init__(self, bands: Bands, cut: Cut, read: Callable[[int], tuple[IntArray, IntArray]]) -> None:
        self._bands, self._cut, self._read = bands, cut, read
        self._depths = {level: depth for depth, level in enumerate(bands.tree.levels)}
        self._top = bands.measuring.plain(bands.true.top(cut.depth))
        self._band: tuple[int, Measures] | None = None

    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """See `tallytree.kinds.measurements.Measures`."""
        depth = self._depths[str(level)]
        if depth <= self._cut.depth or not len(nodes):
            return self._top.measure(level, nodes, statistic, cells)
        above, starts = ancestor_runs(self._bands.tree, depth, nodes, self._cut.depth)
        band = self._cut.band_of(above)
        changes = np.flatnonzero(np.concatenate([[True], band[1:] != band[:-1]]))
        parts = [
            self._of_band(number).measure(level, nodes[begin:end], statistic, cells)
            for number, (begin, end) in zip(
                band[changes].tolist(), pairwise([*starts[changes].tolist(), len(nodes)]), strict=True
            )
        ]
        values = np.concatenate([part.values for part in parts])
        offsets = np.arange(len(nodes) + 1, dtype=np.int64)
        return Measurement(parts[0].level, parts[0].statistic, nodes, values, offsets, parts[0].noise)

    def measure_stable(self, level: str) -> Measurement:
        """See `tallytree.kinds.measurements.Measures`; no mechanism that goes down asks for it."""
        return self._top.measure_stable(level)

    def _of_band(self, number: int) -> Measures:
        if self._band is None or self._band[0] != number:
            self._band = None  # its counts are freed before the others are read
            known = self._bands.true.known(self._cut.band(number), self._read(number))
            self._band = number, self._bands.measuring.plain(known)
        return self._band[1]


_NONE = np.empty(0, dtype=np.int64)


def parts_of(cut: Cut, depth: int, level: ReleasedCounts) -> Callable[[int], ReleasedCounts]:
    """From the number of a band to its part of a level, the cut level or a lower one, in descent order."""
    band = cut.band_of(ancestors(cut.tree, depth, level.nodes, cut.depth))
    ends = np.searchsorted(band, np.arange(len(cut.parts) + 1))

    def part(number: int) -> ReleasedCounts:
        here = slice(int(ends[number]), int(ends[number + 1]))
        return ReleasedCounts(level.nodes[here], level.counts[here])

    return part


def _append(tables: TableFiles, tree: Tree, depth: int, level: ReleasedCounts, *, dense: bool) -> None:
    """Write a level of the whole tree; every node of it where the tree is enumerated."""
    shown = dense_level(tree, depth, level) if tree.enumerated and not dense else level
    tables.append(depth, shown.nodes, count_columns(shown))


def _append_band(tables: TableFiles, band: Band, depth: int, level: ReleasedCounts) -> None:
    """Write a band's part of a level; every node of it where the tree is enumerated."""
    if isinstance(band.tree, Hierarchy):
        first, stop = band.span(depth)
        counts = np.zeros(stop - first, dtype=np.int64)
        counts[level.nodes - first] = level.counts
        level = ReleasedCounts(np.arange(first, stop, dtype=np.int64), counts)
    tables.append(depth, level.nodes, count_columns(level))


def _pieces(tree: Tree, depth: int, nodes: FileArray, counts: FileArray, *, rows: int) -> Iterator[ReleasedCounts]:
    """A level as it is published, from the ascending nodes in files: every node of an enumerated tree, else not 0."""
    if not tree.enumerated:
        for start in range(0, len(nodes), rows):
            here, numbers = nodes.read(start, start + rows), counts.read(start, start + rows)
            yield ReleasedCounts(here[numbers != 0], numbers[numbers != 0])
        return
    for first in range(0, tree.size(depth), rows):
        stop = min(first + rows, tree.size(depth))
        begin, end = nodes.place(first), nodes.place(stop)
        dense = np.zeros(stop - first, dtype=np.int64)
        dense[nodes.read(begin, end) - first] = counts.read(begin, end)
        yield ReleasedCounts(np.arange(first, stop, dtype=np.int64), dense)


def _parents_of(tree: Tree, depth: int) -> Callable[[IntArray], IntArray]:
    return lambda nodes: tree.parents(depth, nodes)
