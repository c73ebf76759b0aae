"""The mean and the quantiles of the sizes of groups, with errors from replicates.

Of a node with G groups let T(s) be how many have size s or more. The quantile q is below s where G − T(s) ≥ q·G. So its
interval follows from those of (1 − q)·G − T(s) at the sizes that the release lists: between these no group is listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import stored_level
from tallytree.numbers.accuracy.bootstrap import SizeReplicates
from tallytree.numbers.accuracy.replicate_errors import Cells, checked_replicates
from tallytree.numbers.fieller import HALF, RatioErrors, ratio_columns
from tallytree.numbers.moments import replicates_for, rounds_of, second_moments
from tallytree.numbers.shares import ratio_of
from tallytree.release.intervals import quantile
from tallytree.release.view.recorded_measurements import published_range
from tallytree.release.view.release_view import ReleaseView
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.validate import integer


@dataclass(frozen=True, eq=False)
class ListedSizes:
    """The sizes that a level lists, node after node; and of each node the size after the last one, with no groups.

    Attributes:
        depth: the level.
        nodes: int64 (n,).
        sizes: int64 (n,), ascending in each node.
        groups: float64 (n,).
        width: K + 1, of cells node · width + size.
        all_nodes: how many nodes the level has.
    """

    depth: int
    nodes: IntArray
    sizes: IntArray
    groups: FloatArray
    width: int
    all_nodes: int

    @classmethod
    def of(cls, view: ReleaseView, level: Any) -> ListedSizes:
        """Those of a level, by its name.

        Raises:
            ValueError: there is no such level.
        """
        level = stored_level(level, view.levels[0])
        if level not in view.levels:
            raise ValueError(f"level: {level!r} is not one of the release's levels {', '.join(view.levels)}")
        depth = view.levels.index(level)
        published = view.published(depth)
        sizes = np.zeros(0, dtype=np.int64) if published.sizes is None else published.sizes
        order = np.lexsort((sizes, published.nodes))
        nodes, sizes, groups = published.nodes[order], sizes[order], published.numbers.astype(np.float64)[order]
        width = published_range(view.release.spec, view.statement)[2] + 1
        last = np.append(nodes[1:] != nodes[:-1], [True] * (len(nodes) > 0)) & (sizes < width - 1)
        place = np.repeat(np.arange(len(nodes)), 1 + last)
        after = np.append([False] * (len(place) > 0), place[1:] == place[:-1])
        found = sizes[place] + after, np.where(after, 0.0, groups[place])
        return cls(depth, nodes[place], *found, width, view.known_tree.size(depth))

    @property
    def keys(self) -> IntArray:
        """The cell of each row."""
        return self.nodes * self.width + self.sizes

    def sums(self, levels: list[Cells]) -> FloatArray:
        """Members and groups of every node: float64 (2, nodes), of the cells of all levels."""
        cells, groups = levels[self.depth]
        nodes, sizes = np.divmod(cells, self.width)
        return np.stack(
            [np.bincount(nodes, weights, minlength=self.all_nodes) for weights in (sizes * groups, 1.0 * groups)]
        )

    def gaps(self, q: float, levels: list[Cells]) -> FloatArray:
        """(1 − q) · G − T(s) of every row: float64 (1, n), of the cells of all levels."""
        cells, groups = levels[self.depth]
        order = np.argsort(cells)
        until = np.concatenate([[0.0], np.cumsum(groups[order], dtype=np.float64)])
        first, here, stop = (
            until[np.searchsorted(cells[order], keys)]
            for keys in (self.nodes * self.width, self.keys, (self.nodes + 1) * self.width)
        )
        return np.asarray((1 - q) * (stop - first) - (stop - here))[None, :]


def mean_size(view: ReleaseView, level: Any, alpha: float, replicates: int | None, seed: int | None) -> pa.Table:
    """`Release.mean` of group sizes."""
    listed = ListedSizes.of(view, level)
    rounds, fixed = _rounds(view, replicates), None if seed is None else integer(seed, "seed")
    replicated = _replicates(view)
    published: list[Cells] = [(np.zeros(0, np.int64), np.zeros(0))] * listed.depth
    numbers = listed.sums([*published, (listed.keys, listed.groups)])
    moments = second_moments(replicated, listed.sums, rounds, fixed)
    errors = RatioErrors.of(numbers, (moments[0, 0], moments[1, 1], moments[0, 1]), rounds)
    columns = ratio_columns(ratio_of(*numbers), errors, alpha, 0.0, float(listed.width - 1), "mean")
    return pa.table(_paths(view, listed) | {"count": _groups(numbers[1])} | columns)


def size_quantile(
    view: ReleaseView, level: Any, q: float, alpha: float, replicates: int | None, seed: int | None
) -> pa.Table:
    """`Release.quantile` of group sizes."""
    listed = ListedSizes.of(view, level)
    published: list[Cells] = [(np.zeros(0, np.int64), np.zeros(0))] * listed.depth
    gap = listed.gaps(q, [*published, (listed.keys, listed.groups)])[0]
    rounds, fixed = _rounds(view, replicates), None if seed is None else integer(seed, "seed")
    std_dev = np.sqrt(second_moments(_replicates(view), partial(listed.gaps, q), rounds, fixed)[0, 0])
    reach = quantile(alpha, rounds) * std_dev
    reach = np.where(std_dev > 0, reach + HALF, 0.0)
    groups: FloatArray = np.zeros(listed.all_nodes)
    np.add.at(groups, listed.nodes, listed.groups)
    smallest, largest = published_range(view.release.spec, view.statement)[1:]
    estimate = _last(listed, gap < 0, smallest)
    lower = _before(listed, gap + reach >= 0, smallest)
    upper = _after(listed, gap - reach < 0, largest)
    known = groups > 0
    columns = {
        "quantile": pa.array(estimate, mask=~known),
        "ci_lower": pa.array(np.minimum(lower, estimate), mask=~known),
        "ci_upper": pa.array(np.maximum(upper, estimate), mask=~known),
    }
    return pa.table(_paths(view, listed) | {"count": _groups(groups)} | columns)


def _last(listed: ListedSizes, below: np.ndarray[Any, Any], otherwise: int) -> IntArray:
    """Of every node the largest listed size with `below`: int64 (nodes,)."""
    found = np.full(listed.all_nodes, otherwise, dtype=np.int64)
    np.maximum.at(found, listed.nodes[below], listed.sizes[below])
    return found


def _before(listed: ListedSizes, reached: np.ndarray[Any, Any], smallest: int) -> IntArray:
    """Of every node the listed size before the first one below which the quantile may be: int64 (nodes,)."""
    never = np.iinfo(np.int64).max
    first = np.full(listed.all_nodes, never, dtype=np.int64)
    np.minimum.at(first, listed.nodes[reached], listed.sizes[reached])
    return _last(listed, listed.sizes < first[listed.nodes], smallest)


def _after(listed: ListedSizes, not_yet: np.ndarray[Any, Any], largest: int) -> IntArray:
    """Of every node the size before the first listed one from which on the quantile is surely below: (nodes,)."""
    last = _last(listed, not_yet, -1)
    later = listed.sizes > last[listed.nodes]
    found = np.full(listed.all_nodes, largest + 1, dtype=np.int64)
    np.minimum.at(found, listed.nodes[later], listed.sizes[later])
    return found - 1


def _rounds(view: ReleaseView, replicates: int | None) -> int:
    return rounds_of(view, None if replicates is None else checked_replicates(replicates))


def _replicates(view: ReleaseView) -> SizeReplicates:
    found = replicates_for(view)
    assert isinstance(found, SizeReplicates)  # noqa: S101  (the release is of group sizes)
    return found


def _groups(numbers: FloatArray) -> pa.Array:
    """Numbers of groups, as integers where they are."""
    whole = np.rint(numbers)
    return pa.array(whole.astype(np.int64) if (whole == numbers).all() else numbers)


def _paths(view: ReleaseView, listed: ListedSizes) -> dict[str, pa.Array]:
    paths = view.known_tree.path_table(listed.depth, np.arange(listed.all_nodes, dtype=np.int64))
    return {name: paths.column(name) for name in paths.column_names}
