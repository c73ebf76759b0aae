"""`SizesMechanism`: the base of the mechanisms for group sizes, what they know and give, and their way over trees.

What is public is a `SizesDomain`; what is released of a level is `ReleasedSizes`.

**Bands** (`tallytree.trees.bands`). The tree is cut into bands. A mechanism measures the levels down to the cut as a
whole, and the levels below it band by band, in one pass or in several. The work on a band depends on the band's
measurements and on what was estimated of its nodes at the cut level. No released number depends on the cut, and a run
all in memory is that of one band, so there is no other code for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, TypeVar

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measures, Statistic
from tallytree.kinds.mechanism import Mechanism
from tallytree.kinds.terms import Invariants
from tallytree.support.arrays import FloatArray, IntArray, NumberArray, sum_by_key
from tallytree.trees.bands import Band, Cut


@dataclass(frozen=True, eq=False)
class SizesDomain:
    """The public facts about group sizes.

    Attributes:
        hierarchy: the public tree.
        groups: per level, root first, int64 (nodes,), the number of groups of each node; None where it is private.
        smallest: the smallest size that is published; at least 1 where numbers of groups are private.
        largest: K, the largest size that is published.
    """

    hierarchy: Hierarchy
    groups: tuple[IntArray | None, ...]
    smallest: int
    largest: int

    @classmethod
    def from_leaves(
        cls,
        hierarchy: Hierarchy,
        groups_per_leaf: IntArray,
        smallest: int,
        largest: int,
        invariants: Invariants = "groups",
    ) -> SizesDomain:
        """Keep what is public of the numbers of groups of the leaves, int64 (n_leaves,), added up over the tree.

        Raises:
            ValueError: `smallest` is 0 where numbers of groups are private: tail counts do not count groups of size 0.
        """
        if invariants != "groups" and smallest < 1:
            raise ValueError(f"smallest: {smallest} must be at least 1 where the numbers of groups are private")
        by_level = [groups_per_leaf]
        for depth in range(len(hierarchy.levels) - 1, 0, -1):
            by_level.append(np.add.reduceat(by_level[-1], hierarchy.first_child[depth - 1][:-1]))
        groups = [
            here if invariants == "groups" or (invariants == "total" and len(here) == 1) else None
            for here in reversed(by_level)
        ]
        return cls(hierarchy, tuple(groups), smallest, largest)

    @property
    def width(self) -> int:
        """The number of sizes: smallest … largest."""
        return self.largest - self.smallest + 1

    @property
    def total(self) -> int | None:
        """The number of groups of the root, if it is public."""
        return None if self.groups[0] is None else int(self.groups[0][0])

    @property
    def groups_are_public(self) -> bool:
        """Whether the number of groups of every node is public."""
        return self.groups[-1] is not None

    @property
    def measured_depths(self) -> list[int]:
        """See `measured_depths`."""
        return measured_depths(self.hierarchy)


def measured_depths(hierarchy: Hierarchy) -> list[int]:
    """The depths of the levels to be measured, root first. A level that repeats the level above it is not measured."""
    return [depth for depth in range(len(hierarchy.levels)) if not hierarchy.only_children(depth)]


def measured_everywhere(hierarchy: Hierarchy, statistic: Statistic) -> dict[str, Statistic]:
    """The levels to be measured, root first, all with the same statistic."""
    return {hierarchy.levels[depth]: statistic for depth in measured_depths(hierarchy)}


@dataclass(frozen=True, eq=False)
class ReleasedSizes:
    """Released group sizes of one level: one entry per (node, size) with groups, in ascending order.

    Attributes:
        nodes: int64 (n,), node numbers.
        sizes: int64 (n,).
        groups: int64 (n,) > 0, the number of groups of that node and size. A mechanism kept for comparison may release
            float64 numbers ≠ 0.
        std_dev: float64 (n,), of the error of the node's tail count at that size (its number of groups of that size or
            more), where the mechanism knows it.
    """

    nodes: IntArray
    sizes: IntArray
    groups: NumberArray
    std_dev: FloatArray | None = None

    def tail_counts(self) -> NumberArray:
        """Of each entry, the node's number of groups of that size or more: (n,)."""
        totals = np.cumsum(self.groups[::-1])[::-1]
        last = np.append(self.nodes[1:] != self.nodes[:-1], True) if len(self.nodes) else np.zeros(0, dtype=bool)
        after = np.append(totals[1:], 0)[last]  # all groups of the later nodes, for each node
        found: NumberArray = totals - np.repeat(after, np.diff(np.flatnonzero(last), prepend=-1))
        return found


def sum_over_tree(hierarchy: Hierarchy, leaves: ReleasedSizes, largest: int) -> list[ReleasedSizes]:
    """Group sizes of every level, root first, from those of the leaves."""
    levels = [summed(leaves.nodes, leaves.sizes, leaves.groups, largest)]
    for depth in range(len(hierarchy.levels) - 1, 0, -1):
        below = levels[-1]
        levels.append(summed(hierarchy.parents(depth, below.nodes), below.sizes, below.groups, largest))
    return levels[::-1]


def summed(nodes: IntArray, sizes: IntArray, groups: NumberArray, largest: int) -> ReleasedSizes:
    """One entry per (node, size), in ascending order, from any number of entries in any order."""
    keys, total = sum_by_key(nodes * (largest + 1) + sizes, groups)
    return ReleasedSizes(*np.divmod(keys, largest + 1), total)


def keeps_public_groups(domain: SizesDomain, levels: Sequence[ReleasedSizes]) -> bool:
    """Whether the released number of groups of every node is the public one, where it is public."""
    for groups, released in zip(domain.groups, levels, strict=True):
        if groups is not None:
            found = np.zeros(len(groups), dtype=released.groups.dtype)
            np.add.at(found, released.nodes, released.groups)
            if not np.array_equal(found, groups):
                return False
    return True


def count_negative(levels: Sequence[ReleasedSizes]) -> int:
    """The number of (node, size) with a negative number of groups."""
    return sum(int(np.count_nonzero(level.groups < 0)) for level in levels)


def count_fractional(levels: Sequence[ReleasedSizes]) -> int:
    """The number of (node, size) with a number of groups that is not an integer."""
    return sum(int(np.count_nonzero(level.groups != np.rint(level.groups))) for level in levels)


def count_violations(hierarchy: Hierarchy, levels: Sequence[ReleasedSizes], largest: int, *, first: int = 0) -> int:
    """The number of (node, size) whose groups are not the sum of the children's (Fioretto et al. 2021, Table 7).

    Args:
        hierarchy: the public tree.
        levels: consecutive levels, of the whole tree or of a band.
        largest: the greatest size.
        first: the depth of the first of them.
    """
    violations = 0
    for depth, (above, below) in enumerate(pairwise(levels), first + 1):
        nodes = np.concatenate([above.nodes, hierarchy.parents(depth, below.nodes)])
        sizes = np.concatenate([above.sizes, below.sizes])
        _, rest = sum_by_key(nodes * (largest + 1) + sizes, np.concatenate([above.groups, -below.groups]))
        violations += int(np.count_nonzero(rest))
    return violations


class SizesMechanism(Mechanism):
    """Computes released group sizes from noisy measurements; the base of the mechanisms of `tallytree.sizes`."""

    package: ClassVar[str] = "tallytree.sizes"
    default_split: ClassVar[Literal["even", "auto"]] = "even"
    """What `budget_split=None` means. `"auto"` estimates the errors of `Joint`, not of the papers' mechanisms."""
    knows_errors: ClassVar[bool] = False
    """Whether its released sizes have standard deviations (`ReleasedSizes.std_dev`)."""

    @abstractmethod
    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each.

        Raises:
            ValueError: the options do not fit the hierarchy or the invariants.
        """

    @abstractmethod
    def reconcile(self, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
        """Measure, and compute the released group sizes of every level, root first."""

    def check_cells(self, hierarchy: Hierarchy, sizes: int) -> None:
        """Refuse more (node, size) cells than fit in memory, before any budget is spent.

        Raises:
            ValueError: too many cells.
        """

    def understatement(self, hierarchy: Hierarchy) -> dict[str, int]:
        """Per measured level, its true privacy loss divided by the calibrated one; empty where the two are equal.

        Only a published calibration that is wrong has such factors. It is kept to reproduce published results.
        """
        return {}


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
