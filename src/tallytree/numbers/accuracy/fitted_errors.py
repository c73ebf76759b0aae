"""The errors that a release has of its own, without replicates: from the `std_dev` of its fit, and of sums in it.

The mechanism keeps the nodes with a positive count, and measures the children of those. So the published counts show
which nodes were kept and which were measured, and the statement has the variances: no measurement is read. A node that
was pruned enters the fit as a measured node without descendants, as in the `std_dev` of the tables. An area that has a
part of the leaves below a pruned node is taken to have all of them, since nothing tells the parts apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.counts.least_squares import MIN_VARIANCE
from tallytree.hierarchy import Tree
from tallytree.kinds.measurements import Noise, Statistic
from tallytree.kinds.registry import kind_of
from tallytree.release import Release
from tallytree.release.intervals import COVERS, checked_alpha
from tallytree.release.level_tables import ChangedTable
from tallytree.release.statement import TABLES_MADE_BY, versions
from tallytree.release.view.areas import Block, SummedAreas
from tallytree.release.view.release_view import PublishedLevel, ReleaseView
from tallytree.solvers.trees.linear import InSums, sum_variances, upward_variances
from tallytree.support.arrays import FloatArray, IntArray, chunks, sum_by_key

METHOD = "fit"
"""How `errors` of the statement names these."""
CELLS_AT_ONCE = 4_000_000
"""Measured children are listed in chunks of about this many, which bounds the memory."""

_NONE = np.empty(0, dtype=np.int64)


def has_fitted_errors(release: Release) -> bool:
    """Whether every published table has the `std_dev` of its fit, and not that of replicates."""
    by = (release.statement.get("errors") or {}).get("method", METHOD)
    own = by == METHOD and bool(release.level_tables)  # of persons and households each part has its own
    return own and all(ReleaseView(release).has(level, "std_dev") for level in release.levels)


def stated_errors_of(
    method: str,
    levels: Sequence[Mapping[str, Any]],
    alpha: float,
    *,
    replicates: int | None = None,
    seeded: bool = False,
    not_seen: Sequence[str] = (),
) -> dict[str, Any]:
    """`errors` of a statement: how they were found, at which alpha, and what they do not cover."""
    return {
        "method": method,
        "replicates": replicates,
        "alpha": alpha,
        "seeded": seeded,
        "covers": " ".join([COVERS, *not_seen]),
        "levels": levels,
        "software": versions(TABLES_MADE_BY),
    }


def fitted_errors(release: Release, *, alpha: float = 0.1) -> Release:
    """The release with intervals around every published number, from the standard deviations of its own fit.

    They cost no time, and are narrower than those of replicates. `docs/explanation/errors.md` says how well they cover.

    Args:
        release: one whose tables have `std_dev`, such as those of `counts.LeastSquares`.
        alpha: intervals are to miss the true number with this probability.

    Returns:
        The same release, whose tables also have `ci_lower` and `ci_upper`; `std_dev` stays as it is.

    Raises:
        ValueError: its tables have no `std_dev` of a fit; an `alpha` not between 0 and 1.
        TypeError: an `alpha` that is no number.
    """
    level_alpha = checked_alpha(alpha)
    if not kind_of(release.statement).reconciled:
        raise ValueError("release: it counts people by their number of records; its table has their std_dev")
    if not has_fitted_errors(release):
        raise ValueError(
            "release: its tables have no std_dev of a fit (LeastSquares without a sparsity gives one); estimate the "
            "errors from replicates instead, with tallytree.replicate_errors"
        )
    levels = [{"level": level, "upward_std_dev": None, "unlisted_ci_upper": None} for level in release.levels]
    entry = stated_errors_of(METHOD, levels, level_alpha)
    view = ReleaseView(release)
    tables = {
        level: ChangedTable(table, partial(_with_ends, view, level, level_alpha))
        for level, table in release.level_tables.items()
    }
    return release.with_tables(tables, {**release.statement, "errors": entry})


def _with_ends(view: ReleaseView, level: str, alpha: float, rows: pa.Table, _: int) -> pa.Table:
    return view.with_intervals(level, rows, alpha)


@dataclass(frozen=True, eq=False)
class _KeptLevel:
    """The nodes of one measured level that were kept, family after family.

    Attributes:
        depth: the level.
        nodes: int64 (n,).
        ascending: int64 (n,), the places of the nodes in the order of their numbers.
        first_child: of the measured level above, see `solvers.trees.linear`.
        parents_at: int64 (n above,), the measured level's kept nodes above, as nodes of the level `depth` − 1.
        others: int64 (n above,), how many children of each were measured and not kept.
    """

    depth: int
    nodes: IntArray
    ascending: IntArray
    first_child: IntArray
    parents_at: IntArray
    others: IntArray

    def place(self, nodes: IntArray) -> IntArray:
        """Where each node is among those that were kept; −1 for one that was not: int64 (n,)."""
        if not len(self.nodes):
            return np.full(len(nodes), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.nodes, nodes, sorter=self.ascending), len(self.nodes) - 1)
        place = self.ascending[at]
        return np.where(self.nodes[place] == nodes, place, -1)


@dataclass(frozen=True, eq=False)
class FittedTree:
    """The nodes that a release kept and measured, and the variances of the noise.

    Attributes:
        tree: the public tree.
        own: per measured level, the variance of its noise.
        levels: the measured levels, root first; the root alone where nothing else was measured.
    """

    tree: Tree
    own: list[float]
    levels: list[_KeptLevel]

    @classmethod
    def of(
        cls, tree: Tree, noise: Mapping[str, tuple[Statistic, Noise]], published: Sequence[PublishedLevel]
    ) -> FittedTree:
        """Those of a release.

        Args:
            tree: the public tree.
            noise: statistic and noise of every measured level; without the root where the total is public.
            published: the counts of every level, root first.
        """
        depths = [depth for depth in range(len(tree.levels)) if depth == 0 or not tree.only_children(depth)]
        laws = [noise.get(tree.levels[depth]) for depth in depths]
        own = [0.0 if law is None else max(law[1].variance, MIN_VARIANCE) for law in laws]
        levels = [_root(published[0])]
        for depth in depths[1:] if len(levels[0].nodes) else ():
            levels.append(_kept(tree, depth, levels[-1], published[depth]))
        return cls(tree, own, levels)

    def variances(self, *together: SummedAreas) -> FloatArray:
        """The variance of the error of every area's count, float64 (areas,).

        Args:
            together: areas; where there are several, as many each, and their counts are added, area by area. What lies
                in several of them then counts as often. Of a node that was pruned the largest weight counts.
        """
        areas = len(together[0])
        if not len(self.levels[0].nodes):  # nothing but the root was measured
            most: FloatArray = np.sum([each.largest for each in together], axis=0)
            return most**2 * self.own[0]
        inside = [_inside(together, self.levels, place) for place in range(len(self.levels))]
        return sum_variances(self._first_child, self.own, self._others, inside, areas)

    def parts(self, depth: int, above: int, nodes: IntArray) -> FloatArray:
        """Of nodes, the covariance of each with its ancestor over the variance of the ancestor: float64 (n,).

        Given its ancestor, a node errs by what the ancestor does not know. So the covariance is a / A of the children
        of every node between (`solvers.trees.linear` has these), times the variance of the ancestor.

        Args:
            depth: the level of the nodes.
            above: that of the ancestors, above it or the same.
            nodes: int64 (n,), of the level.
        """
        part = np.ones(len(nodes))
        if not len(self.levels[0].nodes):
            return part
        upward, families = upward_variances(self._first_child, np.array(self.own), self._others)
        places = {level.depth: place for place, level in enumerate(self.levels)}
        for level in range(depth, above, -1):
            parents = self.tree.parents(level, nodes)
            place = places.get(level)
            if place is not None:
                known = parents
                for between in range(level - 1, self.levels[place - 1].depth, -1):
                    known = self.tree.parents(between, known)
                at, parent = self.levels[place].place(nodes), self.levels[place - 1].place(known)
                a = np.full(len(nodes), self.own[place])
                a[at >= 0] = upward[place][at[at >= 0]]
                measured = parent >= 0  # below a node that was not kept, a node is taken to have all of it
                part[measured] *= a[measured] / families[place - 1][parent[measured]]
            nodes = parents
        return part

    @property
    def _first_child(self) -> list[IntArray]:
        return [level.first_child for level in self.levels[1:]]

    @property
    def _others(self) -> list[IntArray]:
        return [level.others for level in self.levels[1:]]


def _root(published: PublishedLevel) -> _KeptLevel:
    nodes = published.nodes[published.numbers > 0]
    return _KeptLevel(0, nodes, np.arange(len(nodes)), _NONE, _NONE, _NONE)


def _kept(tree: Tree, depth: int, above: _KeptLevel, published: PublishedLevel) -> _KeptLevel:
    """The kept nodes of a measured level, and how many of their siblings were not kept."""
    nodes = published.nodes[published.numbers > 0]
    parents = nodes
    for level in range(depth, above.depth, -1):
        parents = tree.parents(level, parents)
    places = above.place(parents)
    order = np.lexsort((nodes, places))
    first_child = np.searchsorted(places[order], np.arange(len(above.nodes) + 1)).astype(np.int64)
    parents_at = above.nodes
    for level in range(above.depth, depth - 1):  # in between every node has one child
        parents_at = tree.children(level, parents_at)[0]
    others = tree.child_counts(depth - 1, parents_at) - np.diff(first_child)
    return _KeptLevel(depth, nodes[order], np.argsort(nodes[order]), first_child, parents_at, others)


def _inside(together: Sequence[SummedAreas], levels: Sequence[_KeptLevel], place: int) -> InSums:
    """What of a level lies in which area: kept nodes that end there, and nodes that were not kept."""
    level = levels[place]
    whole = [(_NONE, _NONE, np.zeros(0))]
    for areas in together:
        below = levels[place + 1].depth if place + 1 < len(levels) else len(areas.tree.levels)
        ending = [block for block in areas.blocks if level.depth <= block.depth < below]
        whole += [areas.members(block, level.depth, level.nodes) for block in ending]
    nodes, sums, weights = (np.concatenate(each) for each in zip(*whole, strict=True))
    others = _others(together, level) if place else (_NONE, _NONE, _NONE, None)
    return InSums(sums, nodes, others[0], others[1], others[2], others[3], weights)


def _others(together: Sequence[SummedAreas], level: _KeptLevel) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Areas, parents, how many measured children of each parent were not kept and have leaves in the area, how often.

    A child that lies in an area of several of them counts as often.
    """
    tree, depth = together[0].tree, level.depth
    blocks = [[block for block in areas.blocks if block.depth >= depth] for areas in together]
    reached = np.zeros(len(level.parents_at), dtype=np.bool_)
    for areas, of_areas in zip(together, blocks, strict=True):
        for block in of_areas:
            reached[areas.members(block, depth - 1, level.parents_at)[0]] = True
    parents = np.flatnonzero(reached & (level.others > 0))
    found = [(_NONE, _NONE, np.zeros(0))]
    for chunk in chunks(tree.child_counts(depth - 1, level.parents_at[parents]), CELLS_AT_ONCE):
        nodes, offsets = tree.children(depth - 1, level.parents_at[parents[chunk]])
        of_child = np.repeat(parents[chunk], np.diff(offsets))
        pruned = level.place(nodes) < 0
        nodes, of_child = nodes[pruned], of_child[pruned]
        each_once = [_pairs(areas, of_areas, depth, nodes) for areas, of_areas in zip(together, blocks, strict=True)]
        once, often = sum_by_key(*(np.concatenate(each) for each in zip(*each_once, strict=True)))
        sums, child = np.divmod(once, max(len(nodes), 1))
        found.append((sums * len(level.parents_at) + of_child[child], np.ones_like(child), often))
    cases, numbers, times = (np.concatenate(each) for each in zip(*found, strict=True))
    values, place = np.unique(times, return_inverse=True)
    key, number = sum_by_key(cases * max(len(values), 1) + place, numbers)
    key, place = np.divmod(key, max(len(values), 1))
    sums, parent = np.divmod(key, max(len(level.parents_at), 1))
    return sums, parent, number, values[place]


def _pairs(areas: SummedAreas, blocks: Sequence[Block], depth: int, nodes: IntArray) -> tuple[IntArray, FloatArray]:
    """Areas and nodes of a level with leaves in common, as one number each, and how often the node counts.

    A node that several rows of an area share is in it once, with the largest of their weights.
    """
    found = [(_NONE, _NONE, np.zeros(0)), *(areas.members(block, depth, nodes) for block in blocks)]
    child, sums, weights = (np.concatenate(each) for each in zip(*found, strict=True))
    pairs = sums * len(nodes) + child
    order = np.lexsort((-np.abs(weights), pairs))
    once, first = np.unique(pairs[order], return_index=True)
    return once, weights[order][first]
