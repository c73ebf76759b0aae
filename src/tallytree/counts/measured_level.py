"""`MeasuredLevel`: what `LeastSquares` knows of one level, of the nodes that are not 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tallytree.support.arrays import BoolArray, FloatArray, IntArray

_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The measured children that are 0: they are not among the nodes of their level, and have no descendants here.

    Attributes:
        parents: int64 (m,), ascending, the index of each one's parent in the measured level above.
        noisy: int64 (m,), their noisy measurements.
        nodes: int64 (m,), node numbers.
    """

    parents: IntArray = field(default_factory=_NONE.copy)
    noisy: IntArray = field(default_factory=_NONE.copy)
    nodes: IntArray = field(default_factory=_NONE.copy)

    def below(self, above: BoolArray) -> LeftOut:
        """Those whose parents are kept."""
        here = above[self.parents]
        return LeftOut((np.cumsum(above) - 1)[self.parents[here]], self.noisy[here], self.nodes[here])

    def with_more(self, parents: IntArray, noisy: IntArray, nodes: IntArray) -> LeftOut:
        """These and others."""
        if not len(parents):
            return self
        both = np.concatenate([self.parents, parents])
        order = np.argsort(both, kind="stable")
        columns = (np.concatenate(each)[order] for each in ((self.noisy, noisy), (self.nodes, nodes)))
        return LeftOut(both[order], *columns)

    def sums(self, families: int) -> FloatArray:
        """The sum of the measurements by parent, float64 (families,)."""
        found: FloatArray = np.bincount(self.parents, self.noisy, minlength=families).astype(np.float64)
        return found


@dataclass(frozen=True, eq=False)
class MeasuredLevel:
    """The measurements and counts of the nodes of one level that are not 0.

    Every node has a child among the nodes of the next measured level, and its parent is among those of the measured
    level above.

    Attributes:
        depth: the level.
        nodes: int64 (n,), node numbers, family after family.
        parents: int64 (n,), ascending, the index of each node's parent in the measured level above.
        noisy: int64 (n,), the noisy measurements.
        variance: of the noise; 0 where the value is public.
        families: int64 (n above,), the number of measured children of each node of the measured level above.
        counts: int64 (n,), the estimates so far: positive, and a parent's count is the sum of its children's.
        left_out: the measured children that are 0; None where nothing needs them, or they are too many to keep.
        laplace: whether the noise is Laplace noise.
    """

    depth: int
    nodes: IntArray
    parents: IntArray
    noisy: IntArray
    variance: float
    families: IntArray
    counts: IntArray
    left_out: LeftOut | None = None
    laplace: bool = False

    @property
    def others(self) -> LeftOut:
        """What was left out.

        Raises:
            ValueError: it was not kept.
        """
        if self.left_out is None:
            raise ValueError(f"left_out: the level at depth {self.depth} was measured without it")
        return self.left_out

    @property
    def offsets(self) -> IntArray:
        """Where each family begins: int64 (n above + 1,)."""
        return np.searchsorted(self.parents, np.arange(len(self.families) + 1)).astype(np.int64)

    def kept(self, these: BoolArray, above: BoolArray) -> MeasuredLevel:
        """The level with some of its nodes only, and with some of the nodes of the level above only.

        Nodes that go and whose parents stay are left out from now on.
        """
        places = np.cumsum(above) - 1
        left_out = self.left_out
        if left_out is not None:
            gone = ~these & above[self.parents]
            left_out = left_out.below(above).with_more(places[self.parents[gone]], self.noisy[gone], self.nodes[gone])
        return replace(
            self,
            nodes=self.nodes[these],
            parents=places[self.parents[these]],
            noisy=self.noisy[these],
            families=self.families[above],
            counts=self.counts[these],
            left_out=left_out,
        )


def without(levels: Sequence[MeasuredLevel], kept: Sequence[BoolArray]) -> list[MeasuredLevel]:
    """The levels with the nodes that are kept."""
    above = [np.ones(1, dtype=np.bool_), *kept]
    return [level.kept(these, higher) for level, these, higher in zip(levels, kept, above, strict=False)]


def first_children(levels: Sequence[MeasuredLevel]) -> IntArray:
    """All levels as one tree or forest, see `tallytree.solvers`: `first_child`, with the nodes numbered in order."""
    sizes = np.array([len(level.nodes) for level in levels])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    below = [level.offsets[:-1] + start for level, start in zip(levels[1:], starts[1:], strict=False)]
    return np.concatenate([*below, np.full(sizes[-1] + 1, starts[-1])]).astype(np.int64)
