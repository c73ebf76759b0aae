"""What a mechanism for group sizes offers so that a release need not fit in memory; see `tallytree.trees.bands`.

The tree is cut into bands. A mechanism measures the levels down to the cut as a whole, and the levels below it band by
band, in one pass or in several. The work on a band depends on the band's measurements and on what was found of its
nodes at the cut level. No released number depends on the cut, and a run all in memory is that of one band, so there is
no other code for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measures
from tallytree.sizes.domain import SizesDomain
from tallytree.sizes.mechanism import SizesMechanism
from tallytree.sizes.released_sizes import ReleasedSizes, summed
from tallytree.trees.bands import Band, Cut

Given = TypeVar("Given")
Made = TypeVar("Made")

BandFunction = Callable[[Band, Measures, Given], Made]
"""The work on one band: from the band, its measurer and what is given of it to what is needed of all this."""


def nothing(number: int) -> None:
    """What is given of a band where the work on it needs nothing."""


class Measurers(ABC):
    """Who measures what; nodes have the numbers that they have in the whole tree."""

    @abstractmethod
    def top(self) -> Measures:
        """Measures the levels down to the cut."""

    @abstractmethod
    def band(self, number: int, *, again: bool = False) -> Measures:
        """Measures the nodes of a band below the cut.

        With `again`, they were measured in an earlier pass. The cells get the same noise, so this is not a second
        release, and the measurements are not recorded again.
        """

    def each_band(
        self, cut: Cut, work: BandFunction[Given, Made], given: Callable[[int], Given], *, again: bool = False
    ) -> Iterator[Made]:
        """What the work makes of every band, in order: here one after the other; elsewhere perhaps on other machines.

        Args:
            cut: the bands.
            work: a pure function that can be pickled (of a module, or `functools.partial` of one, with public values).
            given: from the number of a band to what the work on it needs of what was released or estimated above; any
                thread may call it, more than once.
            again: see `band`.
        """
        for number, band in enumerate(cut.bands):
            yield work(band, self.band(number, again=again), given(number))


class MeasurerOfAll(Measurers):
    """One measurer of the whole tree, for a run all in memory.

    Args:
        measurer: measures every node.
    """

    def __init__(self, measurer: Measures) -> None:
        self._measurer = measurer

    def top(self) -> Measures:
        """See `Measurers.top`."""
        return self._measurer

    def band(self, number: int, *, again: bool = False) -> Measures:
        """See `Measurers.band`.

        Raises:
            ValueError: `again`, since this measurer records everything; a run of one band measures once.
        """
        if again:
            raise ValueError("again: what is measured in memory is measured once")
        return self._measurer


class SizesInBands(SizesMechanism):
    """A mechanism that makes the released sizes band by band."""

    @abstractmethod
    def released(self, domain: SizesDomain, cut: Cut, measurers: Measurers) -> Iterator[tuple[int, ReleasedSizes]]:
        """Measure, and compute group sizes with the depth of their level: of each level in ascending order, in parts.

        The parts of the levels below the cut come band by band. What is above is held in memory and comes last, from
        the level of the cut up to the root.
        """

    def reconcile(self, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
        """Measure, and compute the group sizes of every level, root first: one band in memory."""
        cut = whole_tree(domain.hierarchy)
        parts: list[list[ReleasedSizes]] = [[] for _ in domain.hierarchy.levels]
        for depth, part in self.released(domain, cut, MeasurerOfAll(measurer)):
            parts[depth].append(part)
        return [joined_sizes(level) for level in parts]


class LeavesInBands(SizesInBands):
    """A mechanism that makes the leaves band by band; the released sizes of the other levels are their sums."""

    @abstractmethod
    def leaves(self, domain: SizesDomain, cut: Cut, measurers: Measurers) -> Iterator[ReleasedSizes]:
        """Measure, and compute the group sizes of the leaves of every band, in order of the bands."""

    def released(self, domain: SizesDomain, cut: Cut, measurers: Measurers) -> Iterator[tuple[int, ReleasedSizes]]:
        """See `SizesInBands.released`."""
        at_cut: list[ReleasedSizes] = []
        for band, leaves in zip(cut.bands, self.leaves(domain, cut, measurers), strict=True):
            levels = _levels_of_band(band, summed(leaves.nodes, leaves.sizes, leaves.groups, domain.largest), domain)
            at_cut.append(levels[0])
            yield from enumerate(levels[1:], cut.depth + 1)
        level = joined_sizes(at_cut)
        yield cut.depth, level
        for depth in range(cut.depth, 0, -1):
            parents = domain.hierarchy.parents(depth, level.nodes)
            level = summed(parents, level.sizes, level.groups, domain.largest)
            yield depth - 1, level


def whole_tree(hierarchy: Hierarchy) -> Cut:
    """The cut into one band, below the root."""
    return Cut(hierarchy, 0, np.zeros(1, dtype=np.int64), [slice(0, 1)])


def joined_sizes(parts: Sequence[ReleasedSizes]) -> ReleasedSizes:
    """Consecutive parts of a level as one."""
    if len(parts) == 1:
        return parts[0]
    known = [part.std_dev for part in parts if part.std_dev is not None]
    return ReleasedSizes(
        np.concatenate([part.nodes for part in parts]),
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([part.groups for part in parts]),
        np.concatenate(known) if len(known) == len(parts) else None,
    )


def _levels_of_band(band: Band, leaves: ReleasedSizes, domain: SizesDomain) -> list[ReleasedSizes]:
    """The levels of a band, from the cut level down to the leaves."""
    levels = [leaves]
    for depth in range(len(domain.hierarchy.levels) - 1, band.depth, -1):
        below = levels[-1]
        parents = domain.hierarchy.parents(depth, below.nodes)
        levels.append(summed(parents, below.sizes, below.groups, domain.largest))
    return levels[::-1]
