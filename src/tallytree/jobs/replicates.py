"""Replicates: published numbers, taken as the true ones, measured and reconciled again with fresh noise.

Why this costs no privacy: a replicate is a function of published numbers, of public facts and of noise whose key is
derived from entropy that was drawn after the release (or, in tests, from a seed under a label of its own). It sees no
record, no true statistic, and neither the release's key nor its noise. So it is post-processing of the release. Were
the release's own key used, the same cells would get the same noise, and subtracting it from the published
measurements would show the true statistics; that is why no key is taken from outside this module.

The door is the same `Measurer` as everywhere, over other statistics: `CountLevels` and `SizeLevels` hold what was
published here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tallytree.arrays import IntArray, NumberArray
from tallytree.counts import CountsMechanism
from tallytree.counts.mechanism import MeasuresInPlace
from tallytree.hierarchy import Hierarchy
from tallytree.measure import Measurer
from tallytree.measurements import Measures, Noise, Statistic
from tallytree.privacy import entropy
from tallytree.privacy.sources import KeyedNoise, NoiseSource
from tallytree.product import Product
from tallytree.sizes import SizesDomain, SizesMechanism
from tallytree.sizes.mechanism import LevelSizes, sum_over_tree
from tallytree.squared_errors import looked_up
from tallytree.tabulate.levels import CountLevels, SizeLevels

LABEL = "replicate errors"
"""Keys of replicates are derived under this label, those of releases under another (`jobs.common`)."""


@dataclass(frozen=True)
class StatedNoise:
    """The noise of one level as a statement states it."""

    level: str
    statistic: Statistic
    noise: Noise


@dataclass(frozen=True)
class StatedPlan:
    """What may be measured, as the statement of the release says: no more than was measured then.

    Attributes:
        levels: statistic and noise of every measured level.
    """

    levels: Mapping[str, tuple[Statistic, Noise]]

    def planned(self, level: str, statistic: str) -> StatedNoise | None:
        """How this statistic of a level is measured; None where it was not."""
        found = self.levels.get(level)
        return None if found is None or found[0] != statistic else StatedNoise(level, *found)


@dataclass(frozen=True)
class StatedStable(StatedNoise):
    """Noise and threshold of the one level of which counts above a threshold were measured."""

    threshold: int


@dataclass(frozen=True)
class StatedThreshold:
    """That counts above a threshold may be measured, as the statement says."""

    stable: StatedStable


@dataclass(frozen=True, eq=False)
class CountReplicates:
    """Replicates of counts. Cells are known by their node.

    Attributes:
        tree: the public tree.
        mechanism: that of the release.
        plan: its noise, and its threshold if it has one.
        distinct: whether people are counted once in a leaf.
        total_is_public: whether it kept the total.
        nodes: int64 (n,), leaves with published counts > 0.
        counts: int64 (n,), these.
    """

    tree: Hierarchy | Product
    mechanism: CountsMechanism
    plan: StatedPlan | StatedThreshold
    distinct: bool
    total_is_public: bool
    nodes: IntArray
    counts: IntArray

    @cached_property
    def truth(self) -> CountLevels:
        """What is measured: sums of the published leaves."""
        return CountLevels(self.tree, self.nodes, self.counts, distinct=self.distinct)

    def truth_at(self, depth: int, keys: IntArray) -> IntArray:
        """The numbers that count as true, of some cells of a level: int64 (n,)."""
        leaf = depth == len(self.tree.levels) - 1
        statistic: Statistic = "total" if depth == 0 else "distinct_counts" if leaf and self.distinct else "counts"
        return self.truth.cells(self.tree.levels[depth], keys, statistic)[0]

    def run(self, sources: Iterator[NoiseSource]) -> Iterator[list[tuple[IntArray, NumberArray]]]:
        """One replicate for each source: cells and numbers per level, root first."""
        truth = self.truth
        total = truth.total if self.total_is_public else None
        for source in sources:
            measurer: Measures = Measurer(truth, self.plan, source)
            door = MeasuresInPlace(measurer, self.tree.levels[-1]) if self.distinct else measurer
            levels = self.mechanism.release_counts(self.tree, total, door)
            yield [(level.nodes, level.counts) for level in levels]


@dataclass(frozen=True, eq=False)
class SizeReplicates:
    """Replicates of group sizes. Cells are known by node · (K + 1) + size.

    Attributes:
        domain: the public facts, as the release has them.
        mechanism: that of the release.
        plan: its noise.
        leaves: the published group sizes of the leaves, whole and > 0.
    """

    domain: SizesDomain
    mechanism: SizesMechanism
    plan: StatedPlan
    leaves: LevelSizes

    def truth_at(self, depth: int, keys: IntArray) -> IntArray:
        """The numbers that count as true, of some cells of a level: int64 (n,)."""
        return np.asarray(looked_up(keys, *self._cells(self._levels[depth])), dtype=np.int64)

    def run(self, sources: Iterator[NoiseSource]) -> Iterator[list[tuple[IntArray, NumberArray]]]:
        """One replicate for each source: cells and numbers per level, root first."""
        domain = self.domain
        truth = SizeLevels(
            domain.hierarchy,
            self.leaves.nodes,
            self.leaves.sizes,
            self.leaves.groups.astype(np.int64),
            domain.groups,
            domain.smallest,
            domain.largest,
        )
        for source in sources:
            levels = self.mechanism.release_sizes(domain, Measurer(truth, self.plan, source))
            yield [self._cells(level) for level in levels]

    @cached_property
    def _levels(self) -> list[LevelSizes]:
        """Sums of the published leaves, root first."""
        return sum_over_tree(self.domain.hierarchy, self.leaves, self.domain.largest)

    def _cells(self, level: LevelSizes) -> tuple[IntArray, NumberArray]:
        return level.nodes * (self.domain.largest + 1) + level.sizes, level.groups


def fresh_sources(replicates: int, seed: int | None) -> Iterator[NoiseSource]:
    """Noise for each replicate, independent of one another and of every release's.

    Without a seed the entropy is the operating system's. With one, the key is derived from it under a label that no
    release uses, so that even the seed of the release itself does not give its noise again.
    """
    key = entropy.fresh_key() if seed is None else entropy.key_from_seed(seed)
    for replicate in range(replicates):
        yield KeyedNoise(entropy.derive(key, LABEL, replicate))
