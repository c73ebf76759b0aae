"""`Joint`: measure the tail counts of every node and estimate all of them together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measures, Statistic
from tallytree.kinds.terms import Invariants
from tallytree.sizes.mechanism import Measurers, ReleasedSizes, SizesDomain, SizesInBands, measured_everywhere, nothing
from tallytree.sizes.noisy import measure_level, tails_of_every_size
from tallytree.solvers.sizes import joint_families as joint
from tallytree.solvers.sizes.joint_downward import Tails
from tallytree.solvers.sizes.joint_rates import Estimate, RawSums, SizeModel
from tallytree.solvers.sizes.rates import DISPERSIONS
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.validate import safe_text
from tallytree.trees.bands import Band, Cut


@dataclass(frozen=True)
class Joint(SizesInBands):
    """Measure the tail counts of every node, and find smooth, monotone integers that fit all levels at once.

    The number of groups of one size in a node is expected to be near the average over similar sizes. How near is
    estimated from the noisy measurements, for each node and each range of sizes. Where the numbers are not near that
    average, tail counts are constrained to be monotone and nothing else. See docs/explanation/joint.md.

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
    knows_errors: ClassVar[bool] = True

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

    def released(self, domain: SizesDomain, cut: Cut, measurers: Measurers) -> Iterator[tuple[int, ReleasedSizes]]:
        """See `SizesInBands.released`: two passes upward, with the levels down to the cut after each, and one downward.

        What a band sends up are the sums of raw cells, and then of estimates, below each of its nodes at the cut level.
        Of several bands each pass measures again what is below, so that one band is in memory at a time.
        """
        depths = domain.measured_depths
        above = [_measure(domain, depth, measurers.top()) for depth in depths if depth <= cut.depth]
        below = [depth for depth in depths if depth > cut.depth]
        if above[0].values.shape[1] == 0:
            for levels in measurers.each_band(cut, partial(_without_cells, domain, below), nothing):
                yield from enumerate(levels, cut.depth + 1)
            for depth in range(cut.depth, -1, -1):
                yield depth, _without_sizes(domain, depth, 0, domain.hierarchy.size(depth))
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
        sums = joint.raw_sums(above, under_raw)
        own, rates = joint.own_estimates(above, sums, model)

        def rates_of(number: int) -> FloatArray:
            return rates[slice(*cut.band(number).span(cut.depth))]

        under, climbed = None, None
        if kept is not None:
            climbed = below_cut.climbed(cut.bands[0], kept, rates)
            under = climbed.sent_up()
        elif below:
            under = _all_sent_up(measurers.each_band(cut, partial(_sent_up, below_cut), rates_of, again=True))
        top = joint.climb(above, own, model, under)
        total = None if domain.groups_are_public else domain.total
        root = joint.root_tails(top, above[0], sums[0], model, total)
        found = joint.descend(above[1:], above[0].first_child, top, 1, root, model, self.tolerance)
        upper, worst = [root, *found.levels], found.worst

        def tails_of(number: int) -> Tails:
            return upper[-1].of_nodes(*cut.band(number).span(cut.depth))

        made: Iterator[tuple[list[ReleasedSizes], tuple[int, float, float]]]
        if not below or climbed is not None:
            made = (below_cut.descended(band, climbed, tails_of(number)) for number, band in enumerate(cut.bands))
        else:

            def given(number: int) -> tuple[FloatArray, Tails]:
                return rates_of(number), tails_of(number)

            made = measurers.each_band(cut, partial(_descended, below_cut), given, again=True)
        for levels, worst_here in made:
            worst = max(worst, worst_here)
            yield from enumerate(levels, cut.depth + 1)
        for depth in range(cut.depth, -1, -1):
            tails = upper[sum(measured <= depth for measured in depths) - 1]
            yield depth, _released(domain, tails, depth, 0, domain.hierarchy.size(depth))
        joint.warn_of(worst)

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
    ) -> tuple[list[ReleasedSizes], tuple[int, float, float]]:
        """The levels of a band, from the tail counts of its nodes at the cut level; and `Descended.worst`."""
        made = joint.Descended([], (0, 0.0, 0.0))
        if climbed is not None:
            each = (climbed.levels, climbed.first_child, climbed.estimates)
            made = joint.descend(*each, 0, tails, self.model, self.tolerance)
        by_depth = dict(zip(self.depths, made.levels, strict=True))
        levels = []
        for depth in range(band.depth + 1, len(self.domain.hierarchy.levels)):
            tails = by_depth.get(depth, tails)  # a level that is not measured repeats the one above, node for node
            levels.append(_released(self.domain, tails, depth, *band.span(depth)))
        return levels, made.worst


def _added_up(below: _BelowCut, band: Band, measurer: Measures, given: None) -> RawSums:
    """The first pass upward over a band."""
    return joint.raw_sums_under(below.measured(band, measurer), below.first_child(band))


def _sent_up(below: _BelowCut, band: Band, measurer: Measures, rates: FloatArray) -> joint.FromBelow:
    """The second pass upward over a band, which is measured again."""
    return below.climbed(band, below.measured(band, measurer), rates).sent_up()


def _descended(
    below: _BelowCut, band: Band, measurer: Measures, given: tuple[FloatArray, Tails]
) -> tuple[list[ReleasedSizes], tuple[int, float, float]]:
    """The pass downward over a band, which is measured and estimated again."""
    rates, tails = given
    return below.descended(band, below.climbed(band, below.measured(band, measurer), rates), tails)


def _without_cells(
    domain: SizesDomain, depths: Sequence[int], band: Band, measurer: Measures, given: None
) -> list[ReleasedSizes]:
    """The levels of a band where groups have one size only and their numbers are public; measured, without cells."""
    for depth in depths:
        _measure(domain, depth, measurer, band)
    below = range(band.depth + 1, len(domain.hierarchy.levels))
    return [_without_sizes(domain, depth, *band.span(depth)) for depth in below]


def _without_sizes(domain: SizesDomain, depth: int, first: int, stop: int) -> ReleasedSizes:
    """The nodes first … stop − 1 of a level where groups have one size only and their numbers are public."""
    public = domain.groups[depth]
    groups = np.zeros(0, dtype=np.int64) if public is None else public[first:stop]
    nodes = np.flatnonzero(groups)
    size = np.full(len(nodes), domain.smallest, dtype=np.int64)
    return ReleasedSizes(nodes + first, size, groups[nodes], np.zeros(len(nodes)))


def _beside_each_other(sent: Iterable[RawSums]) -> RawSums:
    """The raw sums that the bands have sent up, as one."""
    values, variances = zip(*sent, strict=True)
    return RawSums(np.concatenate(values), np.concatenate(variances))


def _all_sent_up(sent: Iterable[joint.FromBelow]) -> joint.FromBelow:
    """The estimates that the bands have sent up, as one."""
    sums, doubt = zip(*sent, strict=True)
    together = Estimate(*(np.concatenate(each) for each in zip(*sums, strict=True)))
    return joint.FromBelow(together, np.concatenate(doubt))


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


def _released(domain: SizesDomain, tails: Tails, depth: int, first: int, stop: int) -> ReleasedSizes:
    """Groups by size from the runs of equal tail counts of the nodes first … stop − 1 of a level.

    Where numbers of groups are public, cell j is the number of groups of size > smallest + j, so a drop before it is
    the number of groups of size smallest + j. Where they are private, cell 0 is the number of all groups, and a drop
    before cell j is the number of groups of size smallest + j − 1.
    """
    known = domain.groups[depth] if domain.groups_are_public else None
    public = None if known is None else known[first:stop]
    runs = np.diff(tails.offsets)
    node = np.repeat(np.arange(first, stop, dtype=np.int64), runs)
    begin, last = tails.offsets[:-1], tails.offsets[1:] - 1
    before, variance = np.empty_like(tails.value), np.empty_like(tails.variance)
    before[1:], variance[1:] = tails.value[:-1], tails.variance[:-1]
    before[begin], variance[begin] = tails.value[begin] if public is None else public, 0.0
    size = tails.start + domain.smallest - (public is None)
    # The last tail count of a node is its number of groups of the largest size.
    node = np.concatenate([node, np.arange(first, stop, dtype=np.int64)])
    size = np.concatenate([size, np.full(len(runs), domain.largest, dtype=np.int64)])
    groups = np.concatenate([before - tails.value, tails.value[last]])
    variance = np.concatenate([variance, tails.variance[last]])
    kept = np.flatnonzero(groups > 0)
    kept = kept[np.argsort(node[kept] * (domain.largest + 1) + size[kept], kind="stable")]
    return ReleasedSizes(node[kept], size[kept], groups[kept], _few_digits(np.sqrt(variance[kept])))


def _few_digits(values: FloatArray) -> FloatArray:
    """Values to one part in a thousand, which is more than is known of them; files are much smaller so."""
    fraction, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(fraction * 1024), exponent - 10))
