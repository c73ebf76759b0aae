"""Estimates of every node of some levels, each by itself, level by level (Kuo et al. 2018, section 4), as runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import cast, get_args

import numpy as np

from tallytree.compute.arrays import IntArray, NumberArray, chunks
from tallytree.compute.threads import side_by_side
from tallytree.hierarchy import Hierarchy
from tallytree.measurements import Measurement, Measures, Statistic
from tallytree.sizes.domain import SizesDomain
from tallytree.sizes.estimators import ESTIMATORS, Bounds, Estimator, EstimatorName, FittedCells
from tallytree.sizes.nearest_consistent import project_group_numbers
from tallytree.sizes.noisy import CELLS_AT_ONCE
from tallytree.solvers.isotonic import Norm
from tallytree.solvers.matching import NodeRuns, rounded_sizes
from tallytree.terms import Invariants
from tallytree.validate import safe_text, text

EstimatorOption = EstimatorName | Mapping[str, EstimatorName]


def checked_norm(norm: object) -> Norm:
    """The option `norm` as 1 or 2.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(norm, bool) or not isinstance(norm, Real) or norm not in get_args(Norm):
        raise ValueError(f"norm: {safe_text(norm)} must be 1 or 2")
    return cast(Norm, int(cast(int, norm)))


def check_estimator(estimator: object) -> None:
    """Refuse an option `estimator` that is neither the name of an estimator nor a mapping to such names.

    Raises:
        ValueError: an unknown name.
        TypeError: neither a name nor a mapping.
    """
    if not isinstance(estimator, str | Mapping):
        raise TypeError(f"estimator: {safe_text(estimator)} must be a name, or a mapping from level names to names")
    for name in [estimator] if isinstance(estimator, str) else estimator.values():
        if text(name, "estimator", "a name, or a mapping from level names to names") not in ESTIMATORS:
            raise ValueError(f"estimator: {name!r} is not known; choose one of {', '.join(ESTIMATORS)}")


@dataclass(frozen=True)
class LevelEstimates:
    """How the nodes of some levels are estimated.

    Attributes:
        hierarchy: the public tree.
        depths: the levels that are measured, root first.
        estimator: the name of an estimator, or a mapping from every level of the hierarchy to one.
        norm: of the isotonic regression.

    Raises:
        ValueError: a mapping without a level of the hierarchy, or with another one.
    """

    hierarchy: Hierarchy
    depths: Sequence[int]
    estimator: EstimatorOption
    norm: Norm

    def __post_init__(self) -> None:
        """Check that a mapping names exactly the hierarchy's levels."""
        if isinstance(self.estimator, str):
            return
        for level in self.hierarchy.levels:
            if level not in self.estimator:
                raise ValueError(f"estimator: none is given for the level {level!r}; name one for every level")
        for level in self.estimator:
            if level not in self.hierarchy.levels:
                levels = ", ".join(self.hierarchy.levels)
                raise ValueError(f"estimator: {level!r} is not a level; the levels are {levels}")

    def statistics(self, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each.

        Raises:
            ValueError: an estimator that needs public numbers of groups where these are private.
        """
        chosen = {self.hierarchy.levels[depth]: self._name(depth) for depth in self.depths}
        for level, name in chosen.items():
            if invariants != "groups" and ESTIMATORS[name].numbers is None:
                raise ValueError(
                    f"estimator: {name!r} at {level!r} needs the public number of groups of every node; give "
                    f'public_groups, or use "cumulative" with invariants={invariants!r}'
                )
        return {level: ESTIMATORS[name].statistic for level, name in chosen.items()}

    def of(self, domain: SizesDomain, measurer: Measures) -> Iterator[NodeRuns]:
        """The runs of every node, level by level, root first."""
        if domain.groups_are_public:
            return iter(self._estimate(domain, depth, measurer) for depth in self.depths)
        return self._estimate_privately(domain, measurer)

    def _estimate(self, domain: SizesDomain, depth: int, measurer: Measures) -> NodeRuns:
        """The runs of every node of a level whose numbers of groups are public, in chunks that bound the memory.

        A node with more cells than a chunk is measured in parts if its estimator has `fit_parts`.
        """
        groups = cast(IntArray, domain.groups[depth])
        estimator = self._estimator(depth)
        by_group = estimator.statistic == "sorted_sizes"
        cells = groups if by_group else np.full(len(groups), domain.width, dtype=np.int64)

        def measured() -> Iterator[tuple[slice, Measurement | FittedCells]]:
            for chunk in chunks(cells, CELLS_AT_ONCE):
                if estimator.fit_parts is not None and cells[chunk.start] > CELLS_AT_ONCE:
                    parts = self._measure_parts(depth, measurer, chunk.start, int(cells[chunk.start]))
                    yield chunk, estimator.fit_parts(parts, bounds(chunk), self.norm)
                else:
                    yield chunk, self._measure(depth, measurer, chunk)

        def bounds(chunk: slice) -> Bounds:
            return Bounds(groups[chunk], domain.smallest, domain.largest)

        def estimate(taken: tuple[slice, Measurement | FittedCells]) -> NodeRuns:
            chunk, found = taken
            here = bounds(chunk)
            fit = found if isinstance(found, FittedCells) else estimator.fit(found, here, self.norm)
            return estimator.estimate(fit, groups[chunk], here)

        return joined(list(side_by_side(estimate, measured())))

    def _estimate_privately(self, domain: SizesDomain, measurer: Measures) -> Iterator[NodeRuns]:
        """The runs of every level, root first, where numbers of groups are private.

        First the numbers of groups are estimated from the fits, and projected on the tree. Then every node is estimated
        as if the projected numbers were public.
        """
        fits: list[list[tuple[slice, Bounds, FittedCells]]] = []
        for depth in self.depths:
            groups = domain.groups[depth]
            cells = np.full(self.hierarchy.size(depth), domain.width, dtype=np.int64)
            fits.append([])
            for chunk in chunks(cells, CELLS_AT_ONCE):
                bounds = Bounds(None if groups is None else groups[chunk], domain.smallest, domain.largest)
                fits[-1].append((chunk, bounds, self._fit(depth, measurer, chunk, bounds)))
        estimators = [self._estimator(depth) for depth in self.depths]
        numbers = project_group_numbers(
            domain,
            self.depths,
            [
                np.concatenate([_numbers(estimator, bounds, fit) for _, bounds, fit in level])
                for estimator, level in zip(estimators, fits, strict=True)
            ],
            [level[0][2].noise_variance for level in fits],
        )
        for estimator, level, groups in zip(estimators, fits, numbers, strict=True):
            yield joined([estimator.estimate(fit, groups[chunk], bounds) for chunk, bounds, fit in level])

    def _fit(self, depth: int, measurer: Measures, chunk: slice, bounds: Bounds) -> FittedCells:
        return self._estimator(depth).fit(self._measure(depth, measurer, chunk), bounds, self.norm)

    def _measure(self, depth: int, measurer: Measures, chunk: slice) -> Measurement:
        nodes = np.arange(chunk.start, chunk.stop, dtype=np.int64)
        return measurer.measure(self.hierarchy.levels[depth], nodes, self._estimator(depth).statistic)

    def _measure_parts(self, depth: int, measurer: Measures, node: int, cells: int) -> Iterator[Measurement]:
        """The noisy cells of one node, part by part."""
        level, statistic = self.hierarchy.levels[depth], self._estimator(depth).statistic
        for first in range(0, cells, CELLS_AT_ONCE):
            part = first, min(first + CELLS_AT_ONCE, cells)
            yield measurer.measure(level, np.array([node]), statistic, part)

    def _estimator(self, depth: int) -> Estimator:
        return ESTIMATORS[self._name(depth)]

    def _name(self, depth: int) -> EstimatorName:
        return self.estimator if isinstance(self.estimator, str) else self.estimator[self.hierarchy.levels[depth]]


def _numbers(estimator: Estimator, bounds: Bounds, fit: FittedCells) -> IntArray:
    """The number of groups of each node: the public one, or the estimate from the fit."""
    if bounds.groups is not None or estimator.numbers is None:
        return cast(IntArray, bounds.groups)
    return estimator.numbers(fit)


def estimated_sizes(runs: NodeRuns) -> tuple[IntArray, IntArray, NumberArray]:
    """Estimated runs as columns of `ReleasedSizes`: the node, the rounded size and the number of groups of each."""
    nodes = np.repeat(np.arange(len(runs.offsets) - 1, dtype=np.int64), np.diff(runs.offsets))
    return nodes, rounded_sizes(runs), runs.groups


def joined(parts: Sequence[NodeRuns]) -> NodeRuns:
    """The rows of all parts, in order."""
    begins = np.cumsum([0, *(len(part.size) for part in parts)])
    offsets = [part.offsets[:-1] + begin for part, begin in zip(parts, begins[:-1], strict=True)]
    return NodeRuns(
        np.concatenate([*offsets, begins[-1:]]),
        np.concatenate([part.size for part in parts]),
        np.concatenate([part.groups for part in parts]),
        np.concatenate([part.variance for part in parts]),
    )
