"""The released cells of a tree: nodes with counts, as counts and flows have them, and with groups by size.

The error of a sum does not follow from the errors of its parts: these are correlated. It is computed for the sum
itself, exactly where the release is a linear fit (`FittedTree`), and from replicates of the sums elsewhere. The
covariance of two sums is half of what the variance of both together has more than theirs: (Var(n + d) − Var(n) −
Var(d)) / 2. In n + d, what lies in both sums counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Hierarchy, stored_level
from tallytree.kinds.columns import LISTED_FROM, UNBIASED
from tallytree.numbers.accuracy.bootstrap import LevelCells, StatedPlan
from tallytree.numbers.accuracy.fitted_errors import FittedTree, has_fitted_errors
from tallytree.numbers.accuracy.replicate_errors import sparsity_dropped, stated_plan
from tallytree.numbers.accuracy.squared_errors import looked_up
from tallytree.numbers.cells import Estimates, ReleasedCells, Replication
from tallytree.numbers.remainder_totals import sums_with_remainders
from tallytree.numbers.totals import Totals, with_floor
from tallytree.product import Product
from tallytree.release import Release
from tallytree.release.intervals import LevelErrors, stated_rounding
from tallytree.release.remainders import NO_REPLICATES, refuse_remainders
from tallytree.release.statement import own_mechanism
from tallytree.release.view.areas import SummedAreas, areas_of_nodes, contrasted, read_areas
from tallytree.release.view.release_view import PublishedLevel, ReleaseView
from tallytree.support.arrays import FloatArray, IntArray, NumberArray, sum_by_key

Variances = tuple[FloatArray, FloatArray, FloatArray]
"""Of two functionals, and their covariance: float64 (n,) each."""


@dataclass(frozen=True, eq=False)
class AreaSums:
    """The published sums of areas.

    Attributes:
        rows: int64 (n,), the area of each sum.
        columns: the sums, and what they are of: `count`; or `size` and `groups`.
        numbers: (n,) the sums.
        in_levels: from the cells of all levels of a replicate, root first, to its sums: float64 (1, n).
        floors: float64 (n,), what upper ends use at least where errors are from replicates.
    """

    rows: IntArray
    columns: dict[str, NumberArray]
    numbers: NumberArray
    in_levels: Callable[[list[LevelCells]], FloatArray]
    floors: FloatArray


@dataclass(frozen=True, eq=False)
class TreeCells(ReleasedCells):
    """The nodes of a tree with a count each, of counts and flows."""

    derives: ClassVar[tuple[str, ...]] = ("share", "ratio", "total", "change", "series", "difference", "total_of")

    @cached_property
    def _published(self) -> list[PublishedLevel]:
        """All published levels as arrays, root first."""
        return self.view.all_published()

    def level_of(self, names: Sequence[str]) -> str | None:
        """See `ReleasedCells`."""
        levels = self.view.levels
        named = [stored_level(name, levels[0]) for name in names] or [levels[0]]
        return named[0] if len(named) == 1 and named[0] in levels else None

    def lists_all(self, level: str) -> bool:
        """See `ReleasedCells`."""
        return self.view.lists_all

    def parts(self, level: str, within: Sequence[str], replication: Replication) -> Estimates:
        """See `ReleasedCells`."""
        view = self.view
        self._refuse_partly_listed("a cell with its sum")
        tree = view.known_tree
        depth, above = view.levels.index(level), self._level_above(level, within)
        published = self._published
        nodes, numbers = published[depth].nodes, published[depth].numbers
        ancestors = nodes
        for at in range(depth, above, -1):
            ancestors = tree.parents(at, ancestors)
        places = (depth, nodes), (above, ancestors)
        pair = [numbers, looked_up(ancestors, published[above].nodes, published[above].numbers)]

        def exact(fit: FittedTree | IndependentLeaves) -> Variances:
            if isinstance(fit, IndependentLeaves):
                own, whole = (fit.of_nodes(*each) for each in places)
                return own, whole, own
            own, whole = (
                looked_up(each, published[at].nodes, view.column(view.levels[at], "std_dev").astype(np.float64)) ** 2
                for at, each in places
            )
            return own, whole, fit.parts(depth, above, nodes) * whole

        def in_levels(levels: list[LevelCells]) -> FloatArray:
            return np.stack([looked_up(each, *levels[at]).astype(np.float64) for at, each in places])

        paths = tree.path_table(depth, nodes)
        floors = stated_plan(view).std_devs(tree)
        return self._estimates(
            {name: paths.column(name) for name in paths.column_names},
            pair,
            in_levels,
            [floors[depth], floors[above]],
            exact,
            [self._unbiased_of(*each) for each in places],
            0.0 if view.has(view.levels[-1], UNBIASED) else stated_rounding(view.statement),
            replication,
        )

    def _level_above(self, level: str, within: Sequence[str]) -> int:
        """The level that somebody names `within`; by default the root."""
        levels = self.view.levels
        within = [stored_level(name, levels[0]) for name in within]
        if len(within) > 1 or (within and within[0] not in levels):
            raise ValueError(f"within: {within!r} must be one of the levels {', '.join(levels)}")
        above = levels.index(within[0]) if within else 0
        if above > levels.index(level):
            raise ValueError(
                f"within: {levels[above]!r} is below {level!r}; a share is of a number in one that holds it"
            )
        return above

    def pair(self, numerator: Any, denominator: Any, areas: Any, by: str | None, replication: Replication) -> Estimates:
        """See `ReleasedCells`."""
        view, tree = self.view, self.view.known_tree
        if areas is not None:
            raise ValueError("areas: of counts the numerator and the denominator are tables of areas; leave it out")
        self._refuse_partly_listed("its sums")
        first = _named(partial(read_areas, tree, numerator, by), "numerator")
        second = _matched(first, _named(partial(read_areas, tree, denominator, by), "denominator"))
        pair, published = (first, second), self._published

        def exact(fit: FittedTree | IndependentLeaves) -> Variances:
            return together(np.stack([fit.variances(first), fit.variances(second), fit.variances(*pair)]))

        def in_levels(levels: list[LevelCells]) -> FloatArray:
            return np.stack([_sums_of(each, levels) for each in pair])

        unbiased = [unbiased_sums(view, each) for each in pair]
        plan = stated_plan(view)
        return self._estimates(
            {} if by is None else {by: first.names},
            list(in_levels(_cells(published))),
            in_levels,
            [upward_of_areas(each, plan) for each in pair],
            exact,
            unbiased,
            stated_rounding(view.statement) if any(each is None for each in unbiased) else 0.0,
            replication,
        )

    def _estimates(
        self,
        names: dict[str, Any],
        published: Sequence[NumberArray],
        in_levels: Callable[[list[LevelCells]], FloatArray],
        floors: Sequence[FloatArray | float],
        exact: Callable[[FittedTree | IndependentLeaves], Variances],
        unbiased: Sequence[FloatArray | None],
        rounding: float,
        replication: Replication,
    ) -> Estimates:
        """Two functionals with their covariance: exactly where the release is a linear fit, else from replicates.

        Args:
            names: what each thing is.
            published: both numbers, (n,) each.
            in_levels: from the cells of all levels of a replicate to both numbers of it, float64 (2, n).
            floors: of both, the standard deviation that numbers near 0 have at least in replicates.
            exact: from the fit to the exact variances.
            unbiased: unbiased estimates of both, where there are any.
            rounding: the variance that rounding adds to the exact ones.
            replication: how replicates are made.
        """
        middle = np.stack([np.asarray(each, dtype=np.float64) for each in published])
        if replication.asked is None and errors_are_exact(self.view.release):
            *own, covariance = exact(self._fit())
            known = [each for each in unbiased if each is not None]
            middle = np.stack(known) if len(known) == len(middle) else middle
            variances = np.stack([each + rounding * (each > 0) for each in own])
            return Estimates(names, published, middle, variances, covariance)
        moments, rounds = replication.second_moments(self.view, in_levels, chained=True)
        own = [with_floor(moments[i, i], number, floors[i]) for i, number in enumerate(published)]
        return Estimates(names, published, middle, np.stack(own), moments[0, 1], rounds)

    def _fit(self) -> FittedTree | IndependentLeaves:
        """What gives the exact variances of sums."""
        view, plan = self.view, stated_plan(self.view)
        if own_mechanism(view.statement) == "LeafGaussian":
            return IndependentLeaves(view.known_tree, plan.levels[view.levels[-1]][1].variance)
        return FittedTree.of(view.known_tree, plan.levels, self._published)

    def _refuse_partly_listed(self, what: str) -> None:
        """Refuse a release that does not list all its cells."""
        if self.view.partly_listed or lists_by_measurement(self.view):
            raise ValueError(
                f"release: not all of its cells are listed, so that no covariance of {what} is known; give totals of "
                "both with release.total, or release tables or a hierarchy"
            )

    def _unbiased_of(self, depth: int, nodes: IntArray) -> FloatArray | None:
        """The unbiased estimates of nodes of a hierarchy, float64 (n,); None where there are none of all nodes."""
        level = self.view.levels[depth]
        if not self.view.lists_all or not self.view.has(level, UNBIASED):
            return None
        return np.asarray(self.view.column(level, UNBIASED), dtype=np.float64)[nodes]

    def totals(
        self, areas: Any, by: str | None, where: Any, replication: Replication, weight: str | None = None
    ) -> Totals:
        """See `ReleasedCells`."""
        view = self.view
        if where is not None:
            raise ValueError(
                f"where: it is a condition on the attributes of tables; {view.statistic} have none, leave it out"
            )
        if areas is None:
            raise ValueError("areas: None is given; give a table of areas, which may be left out for tables only")
        if weight is not None and view.kind.by_size:
            raise ValueError(
                f"weight: {weight!r}, but a group has one size and cannot be divided; give it for counts and "
                "tables only"
            )
        chosen = read_areas(view.known_tree, areas, by, weight)
        if not (view.partly_listed or lists_by_measurement(view)):
            return self._totals_of(chosen, replication)
        if weight is not None:
            raise ValueError(
                f"weight: {weight!r}, but not all cells of the release are listed, so that the error of a sum "
                "with weights is not known; leave it out"
            )
        return self._of_partly_listed(chosen, stated_plan(view), replication)

    def sums(self, level: str, named: int, nodes: IntArray, of: IntArray, weights: FloatArray | None) -> Totals:
        """See `ReleasedCells`."""
        self._refuse_partly_listed("its sums")
        return self._totals_of(areas_of_nodes(self.view.known_tree, named, nodes, of, weights), Replication(None, None))

    def contrast(
        self, nodes: Sequence[tuple[int, int]], where: Sequence[Mapping[str, str]], replication: Replication
    ) -> tuple[float, float, float, int | None]:
        """See `ReleasedCells`."""
        self._refuse_partly_listed("two of them")
        totals = self._totals_of(contrasted(self.view.known_tree, nodes[0], nodes[1]), replication)
        if totals.std_dev is None:
            raise ValueError("release: what its mechanism leaves out is not known, so neither is the error")
        variance, rounds = float(totals.variance[0]), totals.errors.replicates
        if rounds is not None:  # of a number near 0 replicates show too little
            variance = max(variance, float(np.square(totals.errors.upward_std_dev)[0]))
        return float(totals.numbers[0]), float(totals.estimate[0]), variance, rounds

    def _totals_of(self, chosen: SummedAreas, replication: Replication) -> Totals:
        """The sums of areas, where all cells are listed."""
        view, plan, whole = self.view, stated_plan(self.view), not chosen.weighted
        sums = self._area_sums(chosen, plan, self._published)
        columns = ({} if chosen.by is None else {chosen.by: chosen.names.take(pa.array(sums.rows))}) | sums.columns
        if plan.thresholds:
            if replication.asked is not None:
                raise ValueError(
                    f"replicates: {replication.asked} of them cannot show what lies below the threshold and is missing "
                    "from every sum; leave replicates out, for sums without errors"
                )
            return Totals(columns, sums.numbers)
        if replication.asked is None and errors_are_exact(view.release):
            variances = self._fit().variances(chosen)
            named = chosen.sums_of_rows(lambda block: block.often**2)
            rounding = stated_rounding(view.statement) * named[sums.rows]
            std_dev, unbiased = np.sqrt(variances)[sums.rows], unbiased_sums(view, chosen)
            return Totals(columns, sums.numbers, std_dev, unbiased, LevelErrors(rounding=rounding), whole=whole)
        if chosen.weighted and sparsity_dropped(view.statement):
            raise ValueError(
                "release: what its sparsity left out is not in its numbers, so the errors of differences and of sums "
                "with weights are not known; give a release by LeastSquares without a sparsity"
            )
        moments, rounds = replication.second_moments(view, sums.in_levels, chained=False)
        std_dev = np.sqrt(moments[0, 0])
        return Totals(columns, sums.numbers, std_dev, None, LevelErrors(rounds, sums.floors), whole=whole)

    def _of_partly_listed(self, areas: SummedAreas, plan: StatedPlan, replication: Replication) -> Totals:
        """The totals where cells are listed because their measurements were large, remainders or not.

        Raises:
            ValueError: replicates are asked for.
        """
        if replication.asked is not None:
            refuse_remainders(self.view.statement, "replicates", NO_REPLICATES)
            raise ValueError(
                f"replicates: {replication.asked} of them cannot show what is in cells that are not listed; leave "
                "replicates out, for the error of the measurements"
            )
        columns = {} if areas.by is None else {areas.by: areas.names}
        return Totals.of_remainders(columns, sums_with_remainders(self.view, areas, plan.levels))

    def _area_sums(self, areas: SummedAreas, plan: StatedPlan, published: Sequence[PublishedLevel]) -> AreaSums:
        """The sums of the published counts of areas."""
        every = np.arange(len(areas), dtype=np.int64)
        at, numbers = area_cells(areas, _cells(published), 1)
        counts = np.zeros(len(areas), dtype=numbers.dtype)
        counts[at] = numbers

        def in_levels(levels: list[LevelCells]) -> FloatArray:
            return _sums_of(areas, levels)[None]

        return AreaSums(every, {"count": counts}, counts, in_levels, upward_of_areas(areas, plan))


def together(variances: FloatArray) -> Variances:
    """Variances of both sums and their covariance, from the variances of the first, the second, and both together.

    Args:
        variances: float64 (3, n).
    """
    first, second, both = variances
    with np.errstate(invalid="ignore"):
        return first, second, (both - first - second) / 2


def lists_by_measurement(view: ReleaseView) -> bool:
    """Whether cells have rows because their measurements were large, so that sums of published numbers are too large.

    Where nothing was dropped and the measurements were not kept, the published numbers are all there is.
    """
    if not has_fitted_errors(view.release) or not view.has(view.levels[-1], LISTED_FROM):
        return False
    dropped = (view.statement.get("sparsity") or {}).get("applied", False)
    return bool(dropped or view.statement.get("measurements_kept") is not False)


def errors_are_exact(release: Release) -> bool:
    """Whether the errors of sums follow from the release, without replicates."""
    mechanism = own_mechanism(release.statement)
    return mechanism == "LeafGaussian" or (mechanism == "LeastSquares" and has_fitted_errors(release))


def unbiased_sums(view: ReleaseView, areas: SummedAreas) -> FloatArray | None:
    """The sum of the unbiased estimates of every area, float64 (areas,); None where there are none of all nodes."""
    if not isinstance(areas.tree, Hierarchy) or not view.has(view.levels[-1], UNBIASED):
        return None
    columns = [view.column(level, UNBIASED) for level in view.levels]
    return _sums_of(areas, [(np.arange(len(column)), column) for column in columns])


def area_cells(areas: SummedAreas, levels: Sequence[LevelCells], width: int) -> LevelCells:
    """Sums over areas of the cells of all levels: cell node · width + rest becomes area · width + rest, ascending."""
    keys = [np.empty(0, dtype=np.int64)]
    values: list[NumberArray] = [np.empty(0, dtype=levels[-1][1].dtype)]
    for block in areas.blocks:
        cells, numbers = levels[block.depth]
        nodes, rest = np.divmod(cells, width)
        places, of_area, often = areas.members(block, block.depth, nodes)
        keys.append(of_area * width + rest[places])
        values.append(numbers[places] if block.weights is None else numbers[places] * often)
    return sum_by_key(np.concatenate(keys), np.concatenate(values))


def _cells(published: Sequence[PublishedLevel]) -> list[LevelCells]:
    return [(level.nodes, level.numbers) for level in published]


def _sums_of(areas: SummedAreas, levels: Sequence[LevelCells]) -> FloatArray:
    """The numbers of nodes, summed over areas: float64 (areas,)."""
    sums = np.zeros(len(areas))
    at, numbers = area_cells(areas, levels, 1)
    sums[at] = numbers
    return sums


def upward_of_areas(areas: SummedAreas, plan: StatedPlan) -> FloatArray:
    """What the upper ends use at least: the greatest noise of one node that an area's rows name; of all, the root's."""
    floors = plan.std_devs(areas.tree)
    greatest = np.zeros(len(areas))
    for block in areas.blocks:
        np.maximum.at(greatest, block.areas, floors[block.depth] * np.abs(block.often))
    greatest[areas.leaves == areas.tree.size(len(areas.tree.levels) - 1)] = floors[0]
    return greatest


def _named(read: Callable[[], SummedAreas], argument: str) -> SummedAreas:
    """A table of areas, with the argument's own name in messages.

    Raises:
        ValueError, TypeError: it cannot be used.
    """
    try:
        return read()
    except (ValueError, TypeError) as error:
        raise type(error)(str(error).replace("areas:", f"{argument}:", 1)) from None


def _matched(first: SummedAreas, second: SummedAreas) -> SummedAreas:
    """The areas of the second table that the first one has, in the order of the first.

    Raises:
        ValueError: one is missing.
    """
    if first.by is None:
        return second
    place = {name: number for number, name in enumerate(first.names.to_pylist())}
    number_of = np.array([place.get(name, -1) for name in second.names.to_pylist()], dtype=np.int64)
    missing = sorted(set(range(len(first))) - set(number_of.tolist()))
    if missing:
        raise ValueError(
            f"denominator: it has no rows with {first.by}={first.names[missing[0]].as_py()!r}, as the numerator has; "
            "give rows for each area"
        )
    blocks = []
    for block in second.blocks:
        kept = number_of[block.areas] >= 0
        if kept.any():
            nodes = tuple(each[kept] for each in block.nodes)
            blocks.append(replace(block, nodes=nodes, areas=number_of[block.areas][kept]))
    return SummedAreas(second.tree, second.by, first.names, tuple(blocks))


@dataclass(frozen=True, eq=False)
class IndependentLeaves:
    """Noisy leaves, whose errors are independent: all else are sums of them.

    Attributes:
        tree: the public tree.
        variance: of the noise of a leaf.
    """

    tree: Hierarchy | Product
    variance: float

    def variances(self, *together: SummedAreas) -> FloatArray:
        """The variance of the error of every area's count; of two areas together what lies in both counts twice."""
        own = [self.variance * each.squares for each in together]
        if len(own) == 1:
            return own[0]
        shared = np.zeros(len(own[0]))
        common = np.intersect1d(self._leaves(together[0]), self._leaves(together[1]))
        np.add.at(shared, common % max(len(shared), 1), self.variance)
        return own[0] + own[1] + 2 * shared

    def of_nodes(self, depth: int, nodes: IntArray) -> FloatArray:
        """The variance of the error of each of some nodes of a level: float64 (n,)."""
        no_areas = SummedAreas(self.tree, None, pa.nulls(0, pa.string()), ())
        return np.asarray(self.variance * no_areas.leaves_below(depth, nodes).astype(np.float64))

    def _leaves(self, areas: SummedAreas) -> IntArray:
        """The leaves of areas, as leaf · areas + area."""
        bottom = len(self.tree.levels) - 1
        leaves = np.arange(self.tree.size(bottom), dtype=np.int64)
        pairs = [areas.members(block, bottom, leaves) for block in areas.blocks]
        return np.concatenate([places * len(areas) + of for places, of, _ in pairs])
