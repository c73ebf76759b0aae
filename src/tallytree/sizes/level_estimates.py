"""Estimates of every node of some levels, each by itself, level by level (Kuo et al. 2018, section 4), as runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from numbers import Real
from typing import NamedTuple, cast, get_args

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measurement, Measures, Statistic
from tallytree.kinds.terms import Invariants
from tallytree.sizes.estimators import ESTIMATORS, Bounds, Estimator, EstimatorName, FittedCells
from tallytree.sizes.mechanism import (
    Given,
    Made,
    MeasurerOfAll,
    Measurers,
    ReleasedSizes,
    SizesDomain,
    nothing,
    whole_tree,
)
from tallytree.sizes.nearest_consistent import project_group_numbers
from tallytree.sizes.noisy import CELLS_AT_ONCE
from tallytree.solvers.sizes.isotonic import Norm
from tallytree.solvers.sizes.matching import NodeRuns, rounded_sizes
from tallytree.support.arrays import IntArray, NumberArray, chunks
from tallytree.support.machine import side_by_side
from tallytree.support.validate import safe_text, text
from tallytree.trees.bands import Band, Cut

EstimatorOption = EstimatorName | Mapping[str, EstimatorName]
NormOption = Norm | Mapping[str, Norm]


def checked_norms(norm: object) -> NormOption:
    """The option `norm` as 1 or 2, or as a mapping to these.

    Raises:
        ValueError: another value.
    """
    if isinstance(norm, Mapping):
        return {level: checked_norm(each) for level, each in norm.items()}
    return checked_norm(norm)


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


class FittedLevel(NamedTuple):
    """The fit of some consecutive nodes of a level.

    Attributes:
        nodes: which.
        bounds: the public facts about them.
        cells: the fit.
    """

    nodes: slice
    bounds: Bounds
    cells: FittedCells


@dataclass(frozen=True)
class LevelEstimates:
    """How the nodes of some levels are estimated.

    Attributes:
        hierarchy: the public tree.
        depths: the levels that are measured, root first.
        estimator: the name of an estimator, or a mapping from every level of the hierarchy to one.
        norm: of the isotonic regression, or a mapping from every level of the hierarchy to one.

    Raises:
        ValueError: a mapping without a level of the hierarchy, or with another one.
    """

    hierarchy: Hierarchy
    depths: Sequence[int]
    estimator: EstimatorOption
    norm: NormOption

    def __post_init__(self) -> None:
        """Check that mappings name exactly the hierarchy's levels."""
        for option, given in (("estimator", self.estimator), ("norm", self.norm)):
            if not isinstance(given, Mapping):
                continue
            for level in self.hierarchy.levels:
                if level not in given:
                    raise ValueError(f"{option}: none is given for the level {level!r}; name one for every level")
            for level in given:
                if level not in self.hierarchy.levels:
                    levels = ", ".join(self.hierarchy.levels)
                    raise ValueError(f"{option}: {level!r} is not a level; the levels are {levels}")

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
        found = self.in_bands(domain, whole_tree(self.hierarchy), MeasurerOfAll(measurer))
        return chain(found.top(), found.band(0))

    def in_bands(self, domain: SizesDomain, cut: Cut, measurers: Measurers) -> EstimatesInBands:
        """The estimates of the levels down to the cut, and of each band.

        Where numbers of groups are private, all levels are measured here, and the numbers are estimated from the fits
        and projected on the tree. Then every node is estimated as if the projected numbers were public. The fits of a
        single band are kept for that; those of several bands are made again, of the same noisy cells.
        """
        if domain.groups_are_public:
            numbers = [cast(IntArray, domain.groups[depth]) for depth in self.depths]
            return EstimatesInBands(self, domain, cut, measurers, dict(zip(self.depths, numbers, strict=True)), {})
        kept: dict[tuple[int, int | None], list[FittedLevel]] = {}
        found: dict[int, list[IntArray]] = {depth: [] for depth in self.depths}
        variances: dict[int, float] = {}
        for depth in self.depths:
            if depth <= cut.depth:
                kept[depth, None] = list(self.fits(domain, depth, measurers.top(), (0, self.hierarchy.size(depth))))
                self._note_numbers(depth, kept[depth, None], found, variances)
        below = [depth for depth in self.depths if depth > cut.depth]
        if len(cut.parts) == 1:
            for depth in below:
                kept[depth, 0] = list(self.fits(domain, depth, measurers.band(0), cut.bands[0].span(depth)))
                self._note_numbers(depth, kept[depth, 0], found, variances)
        elif below:
            for numbers_here, variances_here in measurers.each_band(
                cut, partial(_fitted_numbers, self, domain), nothing
            ):
                for depth, numbers in numbers_here.items():
                    found[depth].extend(numbers)
                variances |= variances_here
        projected = project_group_numbers(
            domain,
            self.depths,
            [np.concatenate(found[depth]) for depth in self.depths],
            [variances[depth] for depth in self.depths],
        )
        numbers_by_depth = dict(zip(self.depths, projected, strict=True))
        return EstimatesInBands(self, domain, cut, measurers, numbers_by_depth, kept, measured=True)

    def _note_numbers(
        self, depth: int, fits: Sequence[FittedLevel], found: dict[int, list[IntArray]], variances: dict[int, float]
    ) -> None:
        """Add the numbers of groups that are estimated from fits, and the variance of the noise."""
        estimator = self._estimator(depth)
        found.setdefault(depth, []).extend(_numbers(estimator, fitted.bounds, fitted.cells) for fitted in fits)
        variances[depth] = fits[0].cells.noise_variance

    def numbers_of_band(
        self, domain: SizesDomain, band: Band, measurer: Measures
    ) -> tuple[dict[int, list[IntArray]], dict[int, float]]:
        """By depth the numbers of groups of a band's nodes below the cut, in chunks, and the variance of the noise."""
        found: dict[int, list[IntArray]] = {}
        variances: dict[int, float] = {}
        for depth in self.depths:
            if depth > band.depth:
                fits = list(self.fits(domain, depth, measurer, band.span(depth)))
                self._note_numbers(depth, fits, found, variances)
        return found, variances

    def of_band(
        self, domain: SizesDomain, band: Band, measurer: Measures, groups: Mapping[int, IntArray]
    ) -> Iterator[NodeRuns]:
        """The runs of a band's nodes at the measured levels below the cut, given their numbers of groups by depth."""
        for depth in self.depths:
            if depth > band.depth:
                yield self.estimated(domain, depth, measurer, band.span(depth), groups[depth])

    def fits(self, domain: SizesDomain, depth: int, measurer: Measures, span: tuple[int, int]) -> Iterator[FittedLevel]:
        """Measure some consecutive nodes of a level and fit them, in chunks that bound the memory, side by side.

        A node with more cells than a chunk is measured in parts if its estimator has `fit_parts`. A chunk has no
        influence on the fit of a node.
        """
        estimator = self._estimator(depth)

        def fit(taken: tuple[slice, Bounds, Measurement | FittedCells]) -> FittedLevel:
            nodes, bounds, found = taken
            cells = found if isinstance(found, FittedCells) else estimator.fit(found, bounds, self._norm(depth))
            return FittedLevel(nodes, bounds, cells)

        yield from side_by_side(fit, self._measured(domain, depth, measurer, span))

    def estimated(
        self, domain: SizesDomain, depth: int, measurer: Measures, span: tuple[int, int], groups: IntArray
    ) -> NodeRuns:
        """Measure, fit and estimate some consecutive nodes of a level, given their numbers of groups."""
        estimator = self._estimator(depth)

        def estimate(taken: tuple[slice, Bounds, Measurement | FittedCells]) -> NodeRuns:
            nodes, bounds, found = taken
            fit = found if isinstance(found, FittedCells) else estimator.fit(found, bounds, self._norm(depth))
            return estimator.estimate(fit, groups[nodes.start - span[0] : nodes.stop - span[0]], bounds)

        return joined(list(side_by_side(estimate, self._measured(domain, depth, measurer, span))))

    def estimated_from(self, depth: int, fits: Sequence[FittedLevel], groups: IntArray) -> NodeRuns:
        """The runs of nodes that are fitted, given the numbers of groups of all nodes of the level."""
        estimate = self._estimator(depth).estimate
        return joined([estimate(fitted.cells, groups[fitted.nodes], fitted.bounds) for fitted in fits])

    def _measured(
        self, domain: SizesDomain, depth: int, measurer: Measures, span: tuple[int, int]
    ) -> Iterator[tuple[slice, Bounds, Measurement | FittedCells]]:
        """The noisy cells of some consecutive nodes of a level, in chunks; of a very long node, its fit."""
        groups, estimator = domain.groups[depth], self._estimator(depth)
        first, stop = span
        if estimator.statistic == "sorted_sizes":
            cells = cast(IntArray, groups)[first:stop]
        else:
            cells = np.full(stop - first, domain.width, dtype=np.int64)
        for chunk in chunks(cells, CELLS_AT_ONCE):
            nodes = slice(first + chunk.start, first + chunk.stop)
            bounds = Bounds(None if groups is None else groups[nodes], domain.smallest, domain.largest)
            if estimator.fit_parts is not None and cells[chunk.start] > CELLS_AT_ONCE:
                parts = self._measure_parts(depth, measurer, nodes.start, int(cells[chunk.start]))
                yield nodes, bounds, estimator.fit_parts(parts, bounds, self._norm(depth))
            else:
                yield nodes, bounds, self._measure(depth, measurer, nodes)

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

    def _norm(self, depth: int) -> Norm:
        return self.norm[self.hierarchy.levels[depth]] if isinstance(self.norm, Mapping) else self.norm


@dataclass(frozen=True, eq=False)
class EstimatesInBands:
    """Estimates of levels that are cut into bands. They do not depend on the cut.

    Attributes:
        how: how nodes are estimated.
        domain: the public facts.
        cut: where the tree is cut.
        measurers: of the levels down to the cut, and of the bands.
        groups: per measured depth, int64, the number of groups of each node: public, or estimated.
        kept: fits that need not be made again, by depth and band (None: not of a band).
        measured: whether everything was measured before.
    """

    how: LevelEstimates
    domain: SizesDomain
    cut: Cut
    measurers: Measurers
    groups: Mapping[int, IntArray]
    kept: Mapping[tuple[int, int | None], Sequence[FittedLevel]]
    measured: bool = False

    def top(self) -> Iterator[NodeRuns]:
        """The runs of every node of the measured levels down to the cut, root first."""
        for depth in self.how.depths:
            if depth <= self.cut.depth:
                yield self._runs(depth, None, (0, self.how.hierarchy.size(depth)))

    def band(self, number: int) -> Iterator[NodeRuns]:
        """The runs of the band's nodes at the measured levels below the cut, in memory."""
        band = self.cut.band(number)
        for depth in self.how.depths:
            if depth > self.cut.depth:
                yield self._runs(depth, number, band.span(depth))

    def each_band(
        self, work: Callable[[Band, Iterator[NodeRuns], Given], Made], given: Callable[[int], Given]
    ) -> Iterator[Made]:
        """What the work makes of the runs of every band, in order; see `Measurers.each_band`."""
        if len(self.cut.parts) == 1:
            yield work(self.cut.bands[0], self.band(0), given(0))
            return

        def needed(number: int) -> tuple[dict[int, IntArray], Given]:
            band = self.cut.band(number)
            depths = [depth for depth in self.how.depths if depth > self.cut.depth]
            return {depth: self.groups[depth][slice(*band.span(depth))] for depth in depths}, given(number)

        task = partial(_of_estimates, self.how, self.domain, work)
        yield from self.measurers.each_band(self.cut, task, needed, again=self.measured)

    def _runs(self, depth: int, number: int | None, span: tuple[int, int]) -> NodeRuns:
        if (depth, number) in self.kept:
            return self.how.estimated_from(depth, self.kept[depth, number], self.groups[depth])
        measurers = self.measurers
        measurer = measurers.top() if number is None else measurers.band(number, again=self.measured)
        return self.how.estimated(self.domain, depth, measurer, span, self.groups[depth][slice(*span)])


def _fitted_numbers(
    how: LevelEstimates, domain: SizesDomain, band: Band, measurer: Measures, given: None
) -> tuple[dict[int, list[IntArray]], dict[int, float]]:
    """The first pass over a band; see `LevelEstimates.numbers_of_band`."""
    return how.numbers_of_band(domain, band, measurer)


def _of_estimates(
    how: LevelEstimates,
    domain: SizesDomain,
    work: Callable[[Band, Iterator[NodeRuns], Given], Made],
    band: Band,
    measurer: Measures,
    given: tuple[Mapping[int, IntArray], Given],
) -> Made:
    """What the work makes of a band's estimates."""
    groups, more = given
    return work(band, how.of_band(domain, band, measurer, groups), more)


def _numbers(estimator: Estimator, bounds: Bounds, fit: FittedCells) -> IntArray:
    """The number of groups of each node: the public one, or the estimate from the fit."""
    if bounds.groups is not None or estimator.numbers is None:
        return cast(IntArray, bounds.groups)
    return estimator.numbers(fit)


def estimated_sizes(runs: NodeRuns) -> tuple[IntArray, IntArray, NumberArray]:
    """Estimated runs as columns of `ReleasedSizes`: the node, the rounded size and the number of groups of each."""
    nodes = np.repeat(np.arange(len(runs.offsets) - 1, dtype=np.int64), np.diff(runs.offsets))
    return nodes, rounded_sizes(runs), runs.groups


def leaves_of(band: Band, runs: NodeRuns) -> ReleasedSizes:
    """The released sizes of a band's leaves, from the estimated runs of its nodes at the last measured level."""
    nodes, sizes, groups = estimated_sizes(runs)
    return ReleasedSizes(nodes + band.span(len(band.tree.levels) - 1)[0], sizes, groups)


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


def runs_of(runs: NodeRuns, first: int, stop: int) -> NodeRuns:
    """The runs of the nodes first … stop − 1."""
    begin, end = int(runs.offsets[first]), int(runs.offsets[stop])
    here = slice(begin, end)
    return NodeRuns(runs.offsets[first : stop + 1] - begin, runs.size[here], runs.groups[here], runs.variance[here])
