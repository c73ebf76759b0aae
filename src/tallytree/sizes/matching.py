"""`Matching`: estimate every node, then match and merge groups between levels (Kuo et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np

from tallytree.arrays import IntArray, chunks
from tallytree.hierarchy import Hierarchy
from tallytree.measurements import Measures, Statistic
from tallytree.sizes.estimators import ESTIMATORS, Bounds, Estimator, EstimatorName, Fit
from tallytree.sizes.mechanism import LevelSizes, SizesDomain, measured_depths, sum_over_tree
from tallytree.sizes.noisy import CELLS_AT_ONCE
from tallytree.sizes.reconcile import project_group_numbers
from tallytree.solvers.isotonic import Norm
from tallytree.solvers.matching import NodeRuns, match_families
from tallytree.terms import Invariants

Merge = Literal["weighted", "average"]


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

    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first (none that repeats the one above it), and what is measured there."""
        chosen = self._estimators(hierarchy)
        levels = [hierarchy.levels[depth] for depth in measured_depths(hierarchy)]
        for level in levels:
            if invariants != "groups" and ESTIMATORS[chosen[level]].numbers is None:
                raise ValueError(
                    f"estimator: {chosen[level]!r} at {level!r} needs the public number of groups of every node; give "
                    f'public_groups, or use "cumulative" with invariants={invariants!r}'
                )
        return {level: ESTIMATORS[chosen[level]].statistic for level in levels}

    def release_sizes(self, domain: SizesDomain, measurer: Measures) -> Sequence[LevelSizes]:
        """Group sizes per level, root first."""
        hierarchy = domain.hierarchy
        estimates: Iterator[NodeRuns]
        if domain.groups_are_public:
            estimates = iter(self._estimate(domain, depth, measurer) for depth in domain.measured_depths)
        else:
            estimates = self._estimate_privately(domain, measurer)
        runs = next(estimates)
        for depth, below in zip(domain.measured_depths[1:], estimates, strict=True):
            # Levels in between that are not measured repeat the one above them, and have its runs.
            runs = match_families(runs, hierarchy.first_child[depth - 1], below, merge=self.merge)
        leaves = np.repeat(np.arange(hierarchy.n_leaves), np.diff(runs.offsets))
        return sum_over_tree(hierarchy, LevelSizes(leaves, runs.size, runs.groups), domain.largest)

    def _estimate(self, domain: SizesDomain, depth: int, measurer: Measures) -> NodeRuns:
        """Every node of a level whose numbers of groups are public, in chunks that bound the memory."""
        groups = cast(IntArray, domain.groups[depth])
        estimator = self._estimator(domain, depth)
        cells = groups if estimator.statistic == "sorted_sizes" else np.full(len(groups), domain.width, dtype=np.int64)
        parts = []
        for chunk in chunks(cells, CELLS_AT_ONCE):
            bounds = Bounds(groups[chunk], domain.smallest, domain.largest)
            fit = self._fit(domain, depth, measurer, chunk, bounds)
            parts.append(estimator.estimate(fit, groups[chunk], bounds))
        return joined(parts)

    def _estimate_privately(self, domain: SizesDomain, measurer: Measures) -> Iterator[NodeRuns]:
        """Every measured level, root first, where numbers of groups are private: they are estimated first.

        Each fit says how many groups its node has; these estimates are projected on the tree, and with the numbers that
        come out every node is estimated as if they were public.
        """
        fits: list[list[tuple[slice, Bounds, Fit]]] = []
        for depth in domain.measured_depths:
            groups = domain.groups[depth]
            cells = np.full(domain.hierarchy.size(depth), domain.width, dtype=np.int64)
            fits.append([])
            for chunk in chunks(cells, CELLS_AT_ONCE):
                bounds = Bounds(None if groups is None else groups[chunk], domain.smallest, domain.largest)
                fits[-1].append((chunk, bounds, self._fit(domain, depth, measurer, chunk, bounds)))
        estimators = [self._estimator(domain, depth) for depth in domain.measured_depths]
        numbers = project_group_numbers(
            domain,
            [
                np.concatenate([_numbers(estimator, bounds, fit) for _, bounds, fit in level])
                for estimator, level in zip(estimators, fits, strict=True)
            ],
            [level[0][2].noise_variance for level in fits],
        )
        for estimator, level, groups in zip(estimators, fits, numbers, strict=True):
            yield joined([estimator.estimate(fit, groups[chunk], bounds) for chunk, bounds, fit in level])

    def _fit(self, domain: SizesDomain, depth: int, measurer: Measures, chunk: slice, bounds: Bounds) -> Fit:
        nodes = np.arange(chunk.start, chunk.stop, dtype=np.int64)
        estimator = self._estimator(domain, depth)
        measured = measurer.measure(domain.hierarchy.levels[depth], nodes, estimator.statistic)
        return estimator.fit(measured, bounds, self.norm)

    def _estimator(self, domain: SizesDomain, depth: int) -> Estimator:
        return ESTIMATORS[self._estimators(domain.hierarchy)[domain.hierarchy.levels[depth]]]

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


def _numbers(estimator: Estimator, bounds: Bounds, fit: Fit) -> IntArray:
    """Each node's number of groups: the public one, or what the fit says."""
    if bounds.groups is not None or estimator.numbers is None:
        return cast(IntArray, bounds.groups)
    return estimator.numbers(fit)


def joined(parts: Sequence[NodeRuns]) -> NodeRuns:
    """The rows of all parts, one after the other."""
    begins = np.cumsum([0, *(len(part.size) for part in parts)])
    offsets = [part.offsets[:-1] + begin for part, begin in zip(parts, begins[:-1], strict=True)]
    return NodeRuns(
        np.concatenate([*offsets, begins[-1:]]),
        np.concatenate([part.size for part in parts]),
        np.concatenate([part.groups for part in parts]),
        np.concatenate([part.variance for part in parts]),
    )
