"""Group sizes that need not fit in memory: measured and reconciled band by band, from and to files.

The work on a band is a function of the plan, the noise source (the key), the band's true sizes and what was found of
its nodes at the cut level; see `tallytree.sizes.mechanism`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tallytree.engines import Engine
from tallytree.hierarchy import Hierarchy
from tallytree.kinds.foreign import refuse_in_bands
from tallytree.kinds.measurements import Measures
from tallytree.private import (
    BandInputs,
    BandPlace,
    BandWork,
    Measurer,
    MeasuringPlan,
    NoiseSource,
    PlanBelow,
    SizesInFiles,
    TrueStatistics,
)
from tallytree.release.level_files import MeasurementFiles, TableFiles
from tallytree.release.released_tables import size_columns
from tallytree.run.planned import Reconciled
from tallytree.run.workspace import Taken, Workspace, band_bytes, not_taken, require_fits
from tallytree.sizes import SizesDomain, SizesMechanism
from tallytree.sizes.mechanism import (
    BandFunction,
    Given,
    Made,
    Measurers,
    ReleasedSizes,
    SizesInBands,
    count_fractional,
    count_negative,
    count_violations,
    joined_sizes,
    summed,
)
from tallytree.support.arrays import IntArray, NumberArray
from tallytree.trees.bands import Cut, chosen_cut

CELL_BYTES = 64
"""Bytes for a cell (a node and a size) that is worked on: what is measured, and what is estimated of it."""


@dataclass(frozen=True, eq=False)
class SizesMeasuring(Measurers):
    """How true sizes in files are measured; the `Measurers` of a mechanism.

    Attributes:
        true: the sizes.
        cut: where the tree is cut.
        plan: what may be measured.
        source: the noise: a function of its key and the cell.
        on_measure: called with a level's name before it is measured.
        take: is given every measurement once, in the order of its level's nodes; None where they are not wanted.
        place: where the work on bands is done.
    """

    true: SizesInFiles
    cut: Cut
    plan: MeasuringPlan
    source: NoiseSource
    on_measure: Callable[[str], None]
    take: Taken | None
    place: BandPlace

    def top(self) -> Measures:
        """See `Measurers.top`."""
        return self._measurer(self.true.top(self.cut.depth), self.take or not_taken)

    def band(self, number: int, *, again: bool = False) -> Measures:
        """See `Measurers.band`."""
        band = self.cut.band(number)
        known = self.true.known(band, self.true.runs_of_band(band))
        return self._measurer(known, not_taken if again or self.take is None else self.take)

    def each_band(
        self, cut: Cut, work: BandFunction[Given, Made], given: Callable[[int], Given], *, again: bool = False
    ) -> Iterator[Made]:
        """See `Measurers.each_band`."""
        kept = frozenset(() if again or self.take is None else cut.tree.levels)
        task = BandWork(cut, PlanBelow.of(self.plan, cut), self.true.known, work, kept)
        bands = cut.bands
        inputs = BandInputs(
            lambda number: self.true.runs_of_band(bands[number]),
            given,
            self.source,
            self.on_measure,
            self.take or not_taken,
        )
        return self.place.run(task, inputs)

    def _measurer(self, known: TrueStatistics, take: Taken) -> Measurer:
        return Measurer(known, self.plan, self.source, self.on_measure, take)


def check_memory(
    mechanism: SizesMechanism, hierarchy: Hierarchy, cells: int, memory: str | None, noise: str, engine: Engine
) -> None:
    """Refuse a run with `memory` that could not keep to it, from public facts.

    Args:
        mechanism: the mechanism.
        hierarchy: the public tree.
        cells: of every node.
        memory: the argument.
        noise: the argument.
        engine: tabulates, and may work on bands.

    Raises:
        ValueError: the mechanism does not work in bands, is from outside, works on more cells at once than fit, or
            would draw noise twice that is not a function of its cell.
    """
    if memory is None:
        return
    refuse_in_bands(mechanism)
    if noise == "opendp":
        raise ValueError(
            'memory: with noise="opendp" a cell can be drawn only once, and is kept in memory; leave memory out, or '
            'use noise="keyed"'
        )
    if not isinstance(mechanism, SizesInBands):
        raise ValueError(
            f"memory: {type(mechanism).__name__} works on the whole tree in memory; leave memory out, or choose "
            "Joint() or Matching()"
        )
    weights = _weights(hierarchy, cells)
    cut = chosen_cut(hierarchy, weights, band_bytes(memory, engine))
    top = CELL_BYTES * cells * sum(hierarchy.size(depth) for depth in range(cut.depth + 1))
    below = weights(cut.depth, cut.nodes)
    largest = max(int(below[part].sum()) for part in cut.parts)
    require_fits(
        memory,
        top + largest,
        f"at the level {hierarchy.levels[cut.depth]!r} the tree can best be cut for it; give more memory, fewer sizes, "
        "or a level in between",
    )


def reconcile_in_bands(
    mechanism: SizesMechanism,
    domain: SizesDomain,
    measured_by: Callable[[Cut, Taken | None], SizesMeasuring],
    work: Workspace,
    *,
    keep_measurements: bool,
    metadata: Mapping[bytes, bytes],
) -> Reconciled:
    """Measure and reconcile group sizes in bands.

    Args:
        mechanism: one that works in bands.
        domain: the public facts.
        measured_by: how they are measured, given a cut and what takes the measurements, if they are kept.
        work: where the files are made, and how much fits in memory.
        keep_measurements: whether the measurements are written.
        metadata: of the schemas of the released tables.
    """
    if not isinstance(mechanism, SizesInBands):
        raise TypeError(f"mechanism: {type(mechanism).__name__} does not work in bands")
    tree, none = domain.hierarchy, np.empty(0, dtype=np.int64)
    empty = size_columns(ReleasedSizes(none, none, none, np.empty(0) if mechanism.knows_errors else None))
    cut = chosen_cut(tree, _weights(tree, domain.width), work.band_bytes, work.forced)
    with (
        MeasurementFiles(tree, "values", work.published) as measured,
        TableFiles(tree, empty, work.published, metadata) as tables,
    ):
        measuring = measured_by(cut, measured.take if keep_measurements else None)
        facts = _Facts(domain, cut)
        for depth, part in mechanism.released(domain, cut, measuring):
            tables.append(depth, part.nodes, size_columns(part))
            facts.add(depth, part)
        return Reconciled(tables.done(), (), facts.about(), measured=measured.done())


@dataclass
class _Facts:
    """What a statement says about released tables, gathered part by part; see `about_size_tables`.

    Attributes:
        domain: the public facts.
        cut: where the tree is cut.
        negative: numbers of groups below 0.
        fractional: numbers of groups that are no integers.
        violations: (node, size) whose groups are not the sum of the children's.
    """

    domain: SizesDomain
    cut: Cut
    negative: int = 0
    fractional: int = 0
    violations: int = 0
    _found: dict[int, NumberArray] = field(default_factory=dict)
    _last: tuple[int, ReleasedSizes] | None = None
    _sums: list[ReleasedSizes] = field(default_factory=list)

    def add(self, depth: int, part: ReleasedSizes) -> None:
        """A part of a level, in the order of `SizesInBands.released`."""
        tree, largest = self.domain.hierarchy, self.domain.largest
        self.negative += count_negative([part])
        self.fractional += count_fractional([part])
        public = self.domain.groups[depth]
        if public is not None:
            found = self._found.setdefault(depth, np.zeros(len(public), dtype=part.groups.dtype))
            np.add.at(found, part.nodes, part.groups)
        if depth == self.cut.depth + 1:
            # Kept for the level above, which comes last.
            self._sums.append(summed(tree.parents(depth, part.nodes), part.sizes, part.groups, largest))
        elif depth > self.cut.depth and self._last is not None:
            self.violations += count_violations(tree, [self._last[1], part], largest, first=self._last[0])
        elif depth == self.cut.depth and self._sums:
            self.violations += _differences(part, joined_sizes(self._sums), largest)
        elif self._last is not None:  # above the cut, upward
            self.violations += count_violations(tree, [part, self._last[1]], largest, first=depth)
        self._last = depth, part

    def about(self) -> dict[str, object]:
        """What the statement says."""
        kept = all(
            public is None or np.array_equal(self._found[depth], public)
            for depth, public in enumerate(self.domain.groups)
        )
        return {
            "constraint_violations": self.violations,
            "negative_numbers": self.negative,
            "fractional_numbers": self.fractional,
            "public_groups_kept": kept,
        }


def _differences(one: ReleasedSizes, other: ReleasedSizes, largest: int) -> int:
    """How many (node, size) have other numbers of groups in two releases of a level."""
    columns = (np.concatenate([one.nodes, other.nodes]), np.concatenate([one.sizes, other.sizes]))
    rest = summed(*columns, np.concatenate([one.groups, -other.groups]), largest)
    return int(np.count_nonzero(rest.groups))


def _weights(tree: Hierarchy, cells: int) -> Callable[[int, IntArray], IntArray]:
    """From a level and its nodes to the bytes that the work on the subtree of each takes; from public facts alone."""

    def weights(depth: int, nodes: IntArray) -> IntArray:
        first = np.arange(tree.size(depth) + 1, dtype=np.int64)
        below = np.zeros(tree.size(depth), dtype=np.int64)
        for level in range(depth, len(tree.levels) - 1):
            first = tree.first_child[level][first]
            below += np.diff(first)
        return CELL_BYTES * cells * below[nodes]

    return weights
