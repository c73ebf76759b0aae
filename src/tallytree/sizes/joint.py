"""`Joint`: measure the tail counts of every node and estimate all of them together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tallytree.bands import Band, Cut
from tallytree.compute.arrays import FloatArray, IntArray
from tallytree.hierarchy import Hierarchy
from tallytree.measurements import Measures, Statistic
from tallytree.sizes.domain import SizesDomain, measured_everywhere
from tallytree.sizes.in_bands import Measurers, SizesInBands, nothing
from tallytree.sizes.noisy import measure_level, tails_of_every_size
from tallytree.sizes.released_sizes import ReleasedSizes, sum_over_tree
from tallytree.solvers import joint_families as joint
from tallytree.solvers.joint_downward import Tails
from tallytree.solvers.joint_rates import RawSums
from tallytree.solvers.joint_upward import Estimate, SizeModel
from tallytree.solvers.rates import DISPERSIONS
from tallytree.terms import Invariants
from tallytree.validate import safe_text


@dataclass(frozen=True, eq=False)
class TailErrors:
    """The standard deviations of the errors of one level's released tail counts.

    Attributes:
        first_size: the size s of the first column.
        std_dev: float32 (nodes, sizes), the standard deviation of the number of groups of size ≥ s in each node, from
            the noise alone, approximately (docs/joint.md). 0 where that number is public.
    """

    first_size: int
    std_dev: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Joint(SizesInBands):
    """Measure the tail counts of every node, and find smooth, monotone integers that fit all levels at once.

    The number of groups of one size in a node is expected to be near the average over similar sizes. How near is
    estimated from the noisy measurements, for each node and each range of sizes. Where the numbers are not near that
    average, tail counts are constrained to be monotone and nothing else. See docs/joint.md.

    Args:
        smoothness: `"auto"`, or one number for all nodes and sizes: 1/dispersion. The dispersion is the variance of the
            number of groups of one size about that average, divided by the average: 1 for Poisson numbers. 0 does not
            smooth.
        tolerance: how far, in groups (root mean square), a family may violate its constraints before its numbers are
            rounded. Released numbers violate none.

    Raises:
        ValueError: a smoothness that is neither `"auto"` nor ≥ 0 and finite, a tolerance that is not positive.
        TypeError: an option of the wrong type.
    """

    default_split: ClassVar[Literal["even", "auto"]] = "auto"

    smoothness: Literal["auto"] | float = "auto"
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        """Check the options."""
        if isinstance(self.smoothness, str):
            if self.smoothness != "auto":
                raise ValueError(f'smoothness: {self.smoothness!r} is not known; give "auto" or a number')
        elif not 0 <= _number("smoothness", self.smoothness) < math.inf:
            raise ValueError(f"smoothness: {self.smoothness!r} must be at least 0 and finite")
        if not 0 < _number("tolerance", self.tolerance) < math.inf:
            raise ValueError(f"tolerance: {self.tolerance!r} must be positive and finite")

    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""
        return measured_everywhere(hierarchy, "tail_counts")

    def leaves(self, domain: SizesDomain, cut: Cut, measurers: Measurers) -> Iterator[ReleasedSizes]:
        """See `SizesInBands.leaves`: two passes upward, with the levels down to the cut after each, and one downward.

        What a band sends up are the sums of raw cells, and then of estimates, below each of its nodes at the cut level.
        Of several bands each pass measures again what is below, so that one band is in memory at a time.
        """
        depths = domain.measured_depths
        above = [_measure(domain, depth, measurers.top()) for depth in depths if depth <= cut.depth]
        below = [depth for depth in depths if depth > cut.depth]
        if above[0].values.shape[1] == 0:
            yield from measurers.each_band(cut, partial(_without_cells, domain, below), nothing)
            return
        cells = above[0].values.shape[1]
        model = joint.size_model(cells, domain.smallest + domain.groups_are_public, self._dispersions())
        below_cut = _BelowCut(domain, below, model, self.tolerance)
        kept: list[joint.TailsLevel] | None = None
        under_raw = None
        if below and len(cut.parts) == 1:
            kept = below_cut.measured(cut.bands[0], measurers.band(0))
            under_raw = joint.raw_sums_under(kept, below_cut.first_child(cut.bands[0]))
        elif below:
            under_raw = _beside_each_other(measurers.each_band(cut, partial(_added_up, below_cut), nothing))
        joint.check_levels(above)
        own, rates = joint.own_estimates(above, joint.raw_sums(above, under_raw), model)

        def rates_of(number: int) -> FloatArray:
            return rates[slice(*cut.band(number).span(cut.depth))]

        under, climbed = None, None
        if kept is not None:
            climbed = below_cut.climbed(cut.bands[0], kept, rates)
            under = climbed.sent_up()
        elif below:
            under = _all_sent_up(measurers.each_band(cut, partial(_sent_up, below_cut), rates_of, again=True))
        top = joint.climb(above, own, model, under)
        root = joint.root_tails(top, above[0], None if domain.groups_are_public else domain.total)
        found = joint.descend(above[1:], above[0].first_child, top, 1, root, model, self.tolerance)
        parents, worst = [root, *found.levels][-1], found.worst

        def tails_of(number: int) -> Tails:
            return parents.of_nodes(*cut.band(number).span(cut.depth))

        made: Iterator[tuple[ReleasedSizes, tuple[int, float, float]]]
        if not below or climbed is not None:
            made = (below_cut.descended(band, climbed, tails_of(number)) for number, band in enumerate(cut.bands))
        else:

            def given(number: int) -> tuple[FloatArray, Tails]:
                return rates_of(number), tails_of(number)

            made = measurers.each_band(cut, partial(_descended, below_cut), given, again=True)
        for leaves, worst_here in made:
            worst = max(worst, worst_here)
            yield leaves
        joint.warn_of(worst)

    def release_with_errors(
        self, domain: SizesDomain, measurer: Measures
    ) -> tuple[Sequence[ReleasedSizes], Sequence[TailErrors]]:
        """Group sizes per level, root first, and the standard deviations of the errors of each level's tail counts."""
        fit = self._fit(domain, measurer)
        by_depth: list[TailErrors] = []
        measured = iter(fit.variances if fit else ())
        for depth in range(len(domain.hierarchy.levels)):
            if depth not in domain.measured_depths:
                by_depth.append(by_depth[-1])
                continue
            known = domain.groups[depth]
            if fit is None:  # one size only, so nothing was measured
                errors = np.zeros((domain.hierarchy.size(depth), 0), dtype=np.float32)
                by_depth.append(TailErrors(domain.smallest + 1, errors))
                continue
            # Rounding to integers adds a variance of 1/12, or the variance itself where that is smaller.
            variance = next(measured)
            errors = np.sqrt(variance + np.minimum(variance, 1 / 12)).astype(np.float32)
            if known is not None and not domain.groups_are_public:
                errors[:, 0] = 0
            by_depth.append(TailErrors(domain.smallest + domain.groups_are_public, errors))
        leaves = _of_leaves(domain, fit)
        return sum_over_tree(domain.hierarchy, leaves, domain.largest), by_depth

    def _fit(self, domain: SizesDomain, measurer: Measures) -> joint.TailsFit | None:
        """The fit of all measured levels; None where groups have one size only and their numbers are public."""
        levels = [_measure(domain, depth, measurer) for depth in domain.measured_depths]
        if levels[0].values.shape[1] == 0:
            return None
        return joint.fit(
            levels,
            first_size=domain.smallest + domain.groups_are_public,
            total=None if domain.groups_are_public else domain.total,
            dispersions=self._dispersions(),
            tolerance=self.tolerance,
        )

    def _dispersions(self) -> npt.ArrayLike:
        if isinstance(self.smoothness, str):
            return DISPERSIONS
        return math.inf if self.smoothness == 0 else 1 / self.smoothness


@dataclass(frozen=True, eq=False)
class _ClimbedBand:
    """A band below the cut after the pass upward: its levels, where their families begin, and the estimates."""

    levels: list[joint.TailsLevel]
    first_child: IntArray
    estimates: joint.Climbed

    def sent_up(self) -> joint.FromBelow:
        """What the level of the cut gets from below."""
        return self.estimates.sent_up(self.first_child)


@dataclass(frozen=True, eq=False)
class _BelowCut:
    """What the work on every band below the cut needs; all of it is public.

    Attributes:
        domain: the public facts.
        depths: the measured levels below the cut.
        model: of the numbers of groups.
        tolerance: see `Joint`.
    """

    domain: SizesDomain
    depths: Sequence[int]
    model: SizeModel
    tolerance: float

    def measured(self, band: Band, measurer: Measures) -> list[joint.TailsLevel]:
        """The levels of a band are measured."""
        levels = [_measure(self.domain, depth, measurer, band) for depth in self.depths]
        joint.check_levels(levels, [self.domain.hierarchy.size(depth) for depth in self.depths])
        return levels

    def first_child(self, band: Band) -> IntArray:
        """Where the children of each node of the cut level begin in the first of the levels."""
        return band.first_child(self.depths[0] - 1)

    def climbed(self, band: Band, levels: list[joint.TailsLevel], rates: FloatArray) -> _ClimbedBand:
        """A band is estimated from below, with the rates that its nodes at the cut level hand down."""
        first_child = self.first_child(band)
        own, _ = joint.own_estimates(levels, joint.raw_sums(levels), self.model, first_child, rates)
        return _ClimbedBand(levels, first_child, joint.climb(levels, own, self.model))

    def descended(
        self, band: Band, climbed: _ClimbedBand | None, tails: Tails
    ) -> tuple[ReleasedSizes, tuple[int, float, float]]:
        """The leaves of a band, from the tail counts of its nodes at the cut level; and `Descended.worst`."""
        worst = (0, 0.0, 0.0)
        if climbed is not None:
            each = (climbed.levels, climbed.first_child, climbed.estimates)
            made = joint.descend(*each, 0, tails, self.model, self.tolerance)
            tails, worst = made.levels[-1], made.worst
        return _leaf_sizes(self.domain, tails, *band.span(len(self.domain.hierarchy.levels) - 1)), worst


def _added_up(below: _BelowCut, band: Band, measurer: Measures, given: None) -> RawSums:
    """The first pass upward over a band."""
    return joint.raw_sums_under(below.measured(band, measurer), below.first_child(band))


def _sent_up(below: _BelowCut, band: Band, measurer: Measures, rates: FloatArray) -> joint.FromBelow:
    """The second pass upward over a band, which is measured again."""
    return below.climbed(band, below.measured(band, measurer), rates).sent_up()


def _descended(
    below: _BelowCut, band: Band, measurer: Measures, given: tuple[FloatArray, Tails]
) -> tuple[ReleasedSizes, tuple[int, float, float]]:
    """The pass downward over a band, which is measured and estimated again."""
    rates, tails = given
    return below.descended(band, below.climbed(band, below.measured(band, measurer), rates), tails)


def _without_cells(
    domain: SizesDomain, depths: Sequence[int], band: Band, measurer: Measures, given: None
) -> ReleasedSizes:
    """The leaves of a band where groups have one size only and their numbers are public; measured, without cells."""
    for depth in depths:
        _measure(domain, depth, measurer, band)
    return _without_sizes(domain, *band.span(len(domain.hierarchy.levels) - 1))


def _of_leaves(domain: SizesDomain, fit: joint.TailsFit | None) -> ReleasedSizes:
    leaves = 0, domain.hierarchy.n_leaves
    return _without_sizes(domain, *leaves) if fit is None else _leaf_sizes(domain, fit.levels[-1], *leaves)


def _without_sizes(domain: SizesDomain, first: int, stop: int) -> ReleasedSizes:
    """The leaves first … stop − 1 where groups have one size only and their numbers are public."""
    public = domain.groups[-1]
    groups = np.zeros(0, dtype=np.int64) if public is None else public[first:stop]
    nodes = np.flatnonzero(groups)
    return ReleasedSizes(nodes + first, np.full(len(nodes), domain.smallest, dtype=np.int64), groups[nodes])


def _beside_each_other(sent: Iterable[RawSums]) -> RawSums:
    """The raw sums that the bands have sent up, as one."""
    values, variances = zip(*sent, strict=True)
    return RawSums(np.concatenate(values), np.concatenate(variances))


def _all_sent_up(sent: Iterable[joint.FromBelow]) -> joint.FromBelow:
    """The estimates that the bands have sent up, as one."""
    sums, doubt = zip(*sent, strict=True)
    means, variances = zip(*sums, strict=True)
    return joint.FromBelow(Estimate(np.concatenate(means), np.concatenate(variances)), np.concatenate(doubt))


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}: {safe_text(value)} must be a number")
    return float(value)


def _measure(domain: SizesDomain, depth: int, measurer: Measures, band: Band | None = None) -> joint.TailsLevel:
    """The noisy tail counts of one level, or of a band's nodes there.

    Where only the total number of groups is public, it is the root's first.
    """
    nodes = domain.hierarchy.size(depth)
    first, stop = (0, nodes) if band is None else band.span(depth)
    level = measure_level(domain, depth, measurer, "tail_counts", (first, stop))
    known = domain.groups[depth]
    if known is not None:
        most = known[first:stop].astype(np.float64)
    else:
        most = np.full(len(level.values), math.inf if domain.total is None else float(domain.total))
    values = level.values if domain.groups_are_public else tails_of_every_size(domain, level)
    largest = joint.MAX_TAIL_SUM // nodes - 1  # larger values are noise alone, and sums must be exact in doubles
    return joint.TailsLevel(
        np.clip(values, -largest, largest) if max(values.max(initial=0), -values.min(initial=0)) > largest else values,
        _children(domain, depth, band),
        float(level.noise.scale),
        level.noise.distribution == "discrete_laplace",
        most,
    )


def _children(domain: SizesDomain, depth: int, band: Band | None) -> IntArray:
    """Where the children of each node in the next measured level begin; the last measured level has no children."""
    later = [other for other in domain.measured_depths if other > depth]
    if not later:
        first, stop = (0, domain.hierarchy.size(depth)) if band is None else band.span(depth)
        return np.zeros(stop - first + 1, dtype=np.int64)
    # Levels between are not measured because they repeat this one, node for node.
    above = later[0] - 1
    return domain.hierarchy.first_child[above] if band is None else band.first_child(above)


def _leaf_sizes(domain: SizesDomain, tails: Tails, first_leaf: int, stop: int) -> ReleasedSizes:
    """Groups by size from the runs of equal tail counts of the leaves first_leaf … stop − 1.

    Where numbers of groups are public, cell j is the number of groups of size > smallest + j, so a drop before it is
    the number of groups of size smallest + j. Where they are private, cell 0 is the number of all groups, and a drop
    before cell j is the number of groups of size smallest + j − 1.
    """
    public = None if domain.groups[-1] is None else domain.groups[-1][first_leaf:stop]
    smallest, largest = domain.smallest, domain.largest
    runs = np.diff(tails.offsets)
    leaf = np.repeat(np.arange(len(runs), dtype=np.int64), runs)
    first, last = tails.offsets[:-1], tails.offsets[1:] - 1
    before = np.empty_like(tails.value)
    before[1:] = tails.value[:-1]
    before[first] = tails.value[first] if public is None else public
    size = tails.start + smallest - (1 if public is None else 0)
    # The last tail count of a node is its number of groups of the largest size.
    leaf = np.concatenate([leaf, np.arange(len(runs), dtype=np.int64)])
    size = np.concatenate([size, np.full(len(runs), largest, dtype=np.int64)])
    groups = np.concatenate([before - tails.value, tails.value[last]])
    kept = groups > 0
    return ReleasedSizes(leaf[kept] + first_leaf, size[kept], groups[kept])
