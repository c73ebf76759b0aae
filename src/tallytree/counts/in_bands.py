"""What a mechanism for counts offers so that a release need not fit in memory; see `tallytree._bands`.

Every mechanism works in one of two ways. One that goes down (`GoesDown`) makes each level from the level above, so the
work below a node depends on the node's released count and on what is measured below it. One that adds up (`AddsUp`)
makes the leaves, some after others, and the levels above are their sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tallytree._measurements import Measures
from tallytree.counts.released_counts import ReleasedCounts
from tallytree.hierarchy import Tree


@dataclass(frozen=True, eq=False)
class Begun:
    """The first levels of a release, root first.

    Attributes:
        levels: the nodes that are not 0, in descent order; all nodes where `dense`.
        measured_below: whether the level below them was measured already.
        dense: whether they are as they are published.
        facts: what the statement says of how they were made, see `CountsMechanism.reconcile_and_tell`.
    """

    levels: list[ReleasedCounts]
    measured_below: bool = False
    dense: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class GoesDown(Protocol):
    """A mechanism that makes each level from the level above, family by family."""

    def begin(self, tree: Tree, total: int | None, measurer: Measures) -> Begun:
        """The root, or some of the first levels, of the whole tree."""

    def descend(self, tree: Tree, depth: int, above: ReleasedCounts, measurer: Measures) -> ReleasedCounts:
        """The nodes that are not 0 of the level `depth` whose parents are in `above`, in descent order."""

    def bytes_at_once(self, tree: Tree) -> int:
        """What `begin` takes in memory, at most; from public facts."""

    def why_whole(self) -> str:
        """Why `begin` takes that, and what to do about it, for a message."""


@runtime_checkable
class AddsUp(Protocol):
    """A mechanism that makes the leaves, and releases their sums at the levels above."""

    def leaves(self, tree: Tree, first: int, stop: int, measurer: Measures) -> Iterator[ReleasedCounts]:
        """The leaves first … stop − 1 that are not 0, ascending, in pieces; the measurer measures these leaves."""
