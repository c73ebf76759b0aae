"""`Matching`: estimate every node, then match and merge groups between levels (Kuo et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tallytree.arrays import chunks
from tallytree.hierarchy import Hierarchy
from tallytree.measurements import Measures, Statistic
from tallytree.sizes.estimators import ESTIMATORS, Bounds, EstimatorName
from tallytree.sizes.mechanism import LevelSizes, SizesDomain, sum_over_tree
from tallytree.solvers.isotonic import Norm
from tallytree.solvers.matching import NodeRuns, match_families

Merge = Literal["weighted", "average"]

CELLS_AT_ONCE = 4_000_000
"""Nodes are measured and estimated in chunks of about this many cells, which bounds the memory of a step."""


@dataclass(frozen=True)
class Matching:
    """Estimate group sizes at every node, then match each parent's groups with its children's and merge the two sizes.

    From the root down, groups are matched in order of size, which is the cheapest perfect matching (Lemma 5); a matched
    pair gets one size, and the leaves' sizes are published and added up. All is done on runs of equal groups.

    Args:
        estimator: `"cumulative"` (accurate for small sizes; measures tail counts), `"sorted"` (accurate for large
            sizes) or `"naive"` (for comparison only); one for all levels, or a mapping from every level's name to one.
        norm: 1 or 2, of the isotonic regression of `"cumulative"` and `"sorted"`.
        merge: `"weighted"` by the inverse of the estimated variances, or plain `"average"`.

    Raises:
        ValueError: an unknown estimator, norm or merge.
        TypeError: an estimator that is neither a name nor a mapping.
    """

    estimator: EstimatorName | Mapping[str, EstimatorName] = "cumulative"
    norm: Norm = 1
    merge: Merge = "weighted"

    def __post_init__(self) -> None:
        """Check the options."""
        if not isinstance(self.estimator, str | Mapping):
            raise TypeError(f"estimator: {self.estimator!r} must be a name, or a mapping from level names to names")
        for name in [self.estimator] if isinstance(self.estimator, str) else self.estimator.values():
            if name not in ESTIMATORS:
                raise ValueError(f"estimator: {name!r} is not known; choose one of {', '.join(ESTIMATORS)}")
        if self.norm not in get_args(Norm) or isinstance(self.norm, bool):
            raise ValueError(f"norm: {self.norm!r} must be 1 or 2")
        object.__setattr__(self, "norm", int(self.norm))
        if self.merge not in get_args(Merge):
            raise ValueError(f'merge: {self.merge!r} is not known; choose "weighted" or "average"')

    def statistics(self, hierarchy: Hierarchy) -> dict[str, Statistic]:
        """The levels to be measured, root first (none that repeats the one above it), and what is measured there."""
        chosen = self._estimators(hierarchy)
        return {
            level: ESTIMATORS[chosen[level]].statistic
            for depth, level in enumerate(hierarchy.levels)
            if not hierarchy.only_children(depth)
        }

    def release_sizes(self, domain: SizesDomain, measurer: Measures) -> Sequence[LevelSizes]:
        """Group sizes per level, root first."""
        hierarchy = domain.hierarchy
        runs = self._estimate(domain, 0, measurer)
        for depth in range(1, len(hierarchy.levels)):
            if hierarchy.only_children(depth):
                continue  # every node is its parent, and has its parent's runs
            below = self._estimate(domain, depth, measurer)
            runs = match_families(runs, hierarchy.first_child[depth - 1], below, merge=self.merge)
        leaves = np.repeat(np.arange(hierarchy.n_leaves), np.diff(runs.offsets))
        return sum_over_tree(hierarchy, LevelSizes(leaves, runs.size, runs.groups), domain.largest)

    def _estimate(self, domain: SizesDomain, depth: int, measurer: Measures) -> NodeRuns:
        level = domain.hierarchy.levels[depth]
        estimator = ESTIMATORS[self._estimators(domain.hierarchy)[level]]
        groups = domain.groups[depth]
        cells = estimator.cells(Bounds(groups, domain.smallest, domain.largest))
        parts = []
        for chunk in chunks(cells, CELLS_AT_ONCE):
            nodes = np.arange(chunk.start, chunk.stop, dtype=np.int64)
            measured = measurer.measure(level, nodes, estimator.statistic)
            parts.append(
                estimator.estimate(measured, Bounds(groups[nodes], domain.smallest, domain.largest), self.norm)
            )
        return _joined(parts)

    def _estimators(self, hierarchy: Hierarchy) -> dict[str, EstimatorName]:
        """The estimator of every level."""
        if isinstance(self.estimator, str):
            return dict.fromkeys(hierarchy.levels, self.estimator)
        for level in hierarchy.levels:
            if level not in self.estimator:
                raise ValueError(f"estimator: none is given for the level {level!r}; name one for every level")
        for level in self.estimator:
            if level not in hierarchy.levels:
                raise ValueError(f"estimator: {level!r} is not a level; the levels are {', '.join(hierarchy.levels)}")
        return dict(self.estimator)


def _joined(parts: Sequence[NodeRuns]) -> NodeRuns:
    """The rows of all parts, one after the other."""
    begins = np.cumsum([0, *(len(part.size) for part in parts)])
    offsets = [part.offsets[:-1] + begin for part, begin in zip(parts, begins[:-1], strict=True)]
    return NodeRuns(
        np.concatenate([*offsets, begins[-1:]]),
        np.concatenate([part.size for part in parts]),
        np.concatenate([part.groups for part in parts]),
        np.concatenate([part.variance for part in parts]),
    )
