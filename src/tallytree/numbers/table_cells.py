"""The released cells of tables: sums over areas and under conditions on attributes, with the errors of these.

All tables of a release are sums of one detail, which was fitted to all measurements. So the variance of any weighted
sum of cells follows from the precisions of what was measured (`solvers.tables.sums`), and so does the covariance of a
number and the one that it is a part of (`solvers.tables.variance`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import ROOT, TOTAL
from tallytree.kinds.columns import UNBIASED
from tallytree.numbers.cells import Estimates, ReleasedCells, Replication, Values, as_whole
from tallytree.numbers.conditions import (
    Classes,
    Weights,
    areas_of_level,
    chosen_areas,
    classes_of,
    columns_needed,
    conditions_of,
    paths_of_level,
    tree_of,
    weights_of,
)
from tallytree.numbers.table_estimates import fitted_precisions, of_possible_cells, unbiased_table
from tallytree.numbers.totals import Totals, beside
from tallytree.numbers.tree_cells import together
from tallytree.product import Attribute
from tallytree.release.view.areas import SummedAreas, areas_of_nodes, contrasted
from tallytree.release.view.layouts import exact_level_of
from tallytree.release.view.release_view import ReleaseView
from tallytree.release.view.sides import sides_of
from tallytree.solvers.tables.sums import AT_ONCE, sum_variances, sum_variances_at_most
from tallytree.solvers.tables.variance import nested_covariances, std_devs
from tallytree.support.arrays import FloatArray, IntArray, chunks
from tallytree.support.validate import safe_text
from tallytree.tables import TableLayout
from tallytree.tables.layout import Table, table_of


@dataclass(frozen=True, eq=False)
class TableCells(ReleasedCells):
    """The cells of tables."""

    derives: ClassVar[tuple[str, ...]] = (
        "share",
        "ratio",
        "mean",
        "quantile",
        "total",
        "change",
        "series",
        "difference",
        "total_of",
    )

    def level_of(self, names: Sequence[str]) -> str | None:
        """See `ReleasedCells`."""
        place = self.view.layout.place(table_of(self.view.layout.product, names, "table"))
        return None if place is None else self.view.levels[place]

    def lists_all(self, level: str) -> bool:
        """See `ReleasedCells`."""
        return self.view.rows(level) == self.view.layout.size(self.view.levels.index(level))

    def parts(self, level: str, within: Sequence[str], replication: Replication) -> Estimates:
        """See `ReleasedCells`."""
        _refuse_replicates(replication, "shares in tables")
        view, layout = self.view, self.view.layout
        depth = view.levels.index(level)
        fine = layout.tables[depth]
        coarse = table_of(layout.product, [] if list(within) == [ROOT] else within, "within")
        if any(map(int.__gt__, coarse.refined, fine.refined)):
            raise ValueError(
                f"within: {', '.join(coarse.levels)} is not a coarser table than "
                f"{', '.join(fine.levels) or 'the total'}; a share is of a number in one that holds it"
            )
        place, above = layout.place(coarse), _above(layout.product.attributes, fine.refined, coarse.refined)
        counts = view.cells_of_table(depth).ravel()
        cells = int(above.max()) + 1
        totals = np.bincount(above, counts, minlength=cells).astype(np.int64)[above]
        middle = np.stack([counts, totals]).astype(np.float64)
        unbiased = unbiased_table(view, depth)
        if unbiased is not None:
            middle[0] = unbiased.ravel()
            of_all = unbiased_table(view, place) if place is not None else None
            whole_of = np.bincount(above, middle[0], minlength=cells) if of_all is None else of_all.ravel()
            middle[1] = whole_of[above]
        paths = layout.path_table(depth, np.arange(layout.size(depth), dtype=np.int64))
        names = {name: paths.column(name) for name in paths.column_names}
        added_up = place is None and layout.impossible_cells(depth) is not None
        errors = of_possible_cells(view, depth, above) if added_up else self._nested_errors(depth, coarse, above)
        return Estimates(names, [counts, totals], middle, *errors)

    def _nested_errors(self, depth: int, coarse: Table, above: IntArray) -> tuple[FloatArray, FloatArray]:
        """The variances of the cells of a table and of those that hold them in a coarser one, and the covariances.

        Raises:
            ValueError: no table has a level of the coarser one, so its errors are not known.
        """
        view, layout = self.view, self.view.layout
        precisions, exact = fitted_precisions(view), exact_level_of(view.statement, layout)
        wanted, there = (layout.area_level(depth), layout.marginal(depth)), layout.place_at(coarse)
        if there is None:
            raise ValueError(
                f"within: no table of the release has a level of {', '.join(coarse.levels)}, so the errors of its "
                "numbers are not known; name one of the release's tables"
            )
        covariance = nested_covariances(
            layout.detail, layout.families, precisions, wanted, there, public_totals_level=exact
        ).ravel()
        tables = [[each[1] for each in {wanted, there} if each[0] == at] for at in range(len(layout.families) + 1)]
        deviations = std_devs(layout.detail, layout.families, precisions, tables, public_totals_level=exact)
        shape = layout.areas(depth), layout.width(depth)
        own = np.broadcast_to(deviations[wanted].reshape(shape[0], -1), shape).ravel() ** 2
        areas = layout.areas_per_level[there[0]]
        whole = np.broadcast_to(deviations[there].reshape(areas, -1), (areas, layout.detail.size(there[1])))
        zero = layout.impossible_cells(depth)
        if zero is not None:
            impossible = np.broadcast_to(zero, shape).ravel()
            own, covariance = np.where(impossible, 0.0, own), np.where(impossible, 0.0, covariance)
        return np.stack([own, whole.ravel()[above] ** 2]), covariance

    def pair(self, numerator: Any, denominator: Any, areas: Any, by: str | None, replication: Replication) -> Estimates:
        """See `ReleasedCells`."""
        _refuse_replicates(replication, "ratios in tables")
        product = self.view.layout.product
        conditions = [
            conditions_of(product, condition, argument)
            for condition, argument in ((numerator, "numerator"), (denominator, "denominator"))
        ]
        chosen, names = chosen_areas(product, areas, by)
        sums = TableSums.of(self.view, chosen, columns_needed(*conditions))
        return sums.estimates(names, weights_of(product, conditions), paired=True)

    def totals(
        self,
        areas: Any,
        by: str | None,
        where: Mapping[str, Any] | None,
        replication: Replication,
        weight: str | None = None,
    ) -> Totals:
        """See `ReleasedCells`."""
        _refuse_replicates(replication, "sums of tables")
        product = self.view.layout.product
        conditions = conditions_of(product, where)
        chosen, names = chosen_areas(product, areas, by, weight)
        sums = TableSums.of(self.view, chosen, columns_needed(conditions))
        return sums.totals(names, weights_of(product, [conditions]))

    def sums(self, level: str, named: int, nodes: IntArray, of: IntArray, weights: FloatArray | None) -> Totals:
        """See `ReleasedCells`."""
        layout = self.view.layout
        areas = areas_of_nodes(tree_of(layout.product.attributes[0]), named, nodes, of, weights)
        depth, sides = self.view.levels.index(level), layout.product.attributes[1:]
        wanted = layout.tables[depth].refined[1:]
        summed = TableSums.of(self.view, areas, wanted)

        def some(begin: int) -> Totals:
            cells = np.arange(begin, min(begin + at_once, layout.width(depth)))[:, None]
            return summed.totals({}, lambda refined: (_above(sides, refined, wanted) == cells).astype(np.float64))

        at_once = max(1, AT_ONCE // layout.detail.cells)
        return beside([some(begin) for begin in range(0, layout.width(depth), at_once)], len(areas))

    def contrast(
        self, nodes: Sequence[tuple[int, int]], where: Sequence[Mapping[str, str]], replication: Replication
    ) -> tuple[float, float, float, int | None]:
        """See `ReleasedCells`."""
        _refuse_replicates(replication, "differences in tables")
        product = self.view.layout.product
        conditions = [conditions_of(product, each, name) for each, name in zip(where, ("first", "second"), strict=True)]
        sides = weights_of(product, conditions)
        tree, (one, other) = tree_of(product.attributes[0]), nodes
        apart = one != other
        areas = areas_of_nodes(tree, one[0], np.array([one[1]]), np.zeros(1, dtype=np.int64))
        areas = contrasted(tree, one, other) if apart else areas

        def weights(refined: Sequence[int]) -> FloatArray:
            first, second = sides(refined)
            return np.asarray(first if apart else first - second)[None]

        summed = TableSums.of(self.view, areas, columns_needed(*conditions))
        found = summed.estimates({}, weights)
        variance = found.variances + summed.rounding(weights, found)
        return float(found.published[0][0]), float(found.middle[0, 0]), float(variance[0, 0]), None

    def values(self, level: str, replication: Replication, *, attribute: Any, values: Any, where: Any) -> Values:
        """See `ReleasedCells`."""
        _refuse_replicates(replication, "tables")
        product = self.view.layout.product
        side = product.attributes[0]
        if level not in (ROOT, TOTAL, *side.columns):
            raise ValueError(
                f"level: {safe_text(level)} is no level of the areas, which are {TOTAL}, {', '.join(side.columns)}"
            )
        refined = side.columns.index(level) + 1 if level in side.columns else 0
        classes, conditions = classes_of(product, attribute, values), conditions_of(product, where)
        needed = columns_needed(conditions)
        needed[classes.side] = max(needed[classes.side], classes.refined)
        sums = TableSums.of(self.view, areas_of_level(side, refined), needed)
        return ClassValues(sums, paths_of_level(side, refined), classes, weights_of(product, [conditions]))


def _refuse_replicates(replication: Replication, what: str) -> None:
    """Refuse replicates, which tables have no need of.

    Raises:
        ValueError: they are asked for.
    """
    if replication.asked is not None:
        raise ValueError(f"replicates: {replication.asked}, but {what} have exact errors; leave it out")


def _above(sides: Sequence[Attribute], fine: Sequence[int], coarse: Sequence[int]) -> IntArray:
    """The cell that holds each one, where more columns of hierarchies are refined: int64 (cells,)."""
    above = np.zeros(1, dtype=np.int64)
    for side, here, there in zip(sides, fine, coarse, strict=True):
        nodes = np.arange(side.size(here), dtype=np.int64)
        for refined in range(here, there, -1):
            nodes = side.parents(refined, nodes)
        above = (above[:, None] * side.size(there) + nodes[None, :]).ravel()
    return above


@dataclass(frozen=True, eq=False)
class TableSums:
    """Weighted sums of the cells of areas, in a release of tables.

    The areas are of any hierarchy. Those of an attribute are weights of the cells of all areas of the first hierarchy.

    Attributes:
        view: the release.
        depth: of the table that they are sums of.
        finest: per hierarchy, how many columns are refined where the fit's detail is.
        place: of the hierarchy whose areas they are over.
        areas: these; None for all.
    """

    view: ReleaseView
    depth: int
    finest: tuple[int, ...]
    place: int
    areas: SummedAreas | None

    @classmethod
    def of(cls, view: ReleaseView, areas: SummedAreas | None, attributes: Sequence[int]) -> TableSums:
        """The sums over areas, or over all, where so many columns of the attributes are needed.

        Raises:
            ValueError: no published table has these areas and attributes.
        """
        layout, place, needed = view.layout, 0, [0, *attributes]
        if areas is not None:
            place = [each.name for each in layout.product.attributes].index(sides_of(areas.tree)[0].name)
            needed[place] = max(needed[place], *(block.depth for block in areas.blocks))
        depth = _coarsest(layout, needed)
        # Of two levels with equally many nodes the layout has the coarser one; the condition may be on the other.
        return cls(view, depth, tuple(map(max, layout.finest_refined, needed)), place, areas)

    def estimates(
        self, names: Mapping[str, Any], weights: Weights, *, paired: bool = False, unit: float = 1.0
    ) -> Estimates:
        """The sums with their errors.

        Args:
            names: what each area is.
            weights: of the cells in the sums.
            paired: whether there are two, whose covariance is wanted.
            unit: of the first, see `Estimates`.
        """
        numbers = self.summed(self.view.cells_of_table(self.depth).astype(np.float64), weights).T
        table = unbiased_table(self.view, self.depth)
        middle = numbers if table is None else self.summed(table, weights).T
        if not paired:
            return Estimates(names, numbers, middle, self.variances(weights).T, unit=unit)
        *variances, covariance = together(self.variances(lambda refined: _with_sum(weights(refined)), 3).T)
        return Estimates(names, numbers, middle, np.stack(variances), covariance, unit=unit)

    def totals(self, names: Mapping[str, Any], weights: Weights) -> Totals:
        """The sums as totals, those of an area one after another.

        Args:
            names: what each total is.
            weights: of the cells in the sums.
        """
        found = self.estimates({}, weights)
        std_dev = np.sqrt(found.variances + self.rounding(weights, found)).T.ravel()
        count = np.asarray(found.published).T.ravel()
        weighted = self.areas is not None and self.areas.weighted
        count = count if weighted else count.astype(np.int64)
        unbiased = found.middle.T.ravel() if self.view.has(self.view.levels[self.depth], UNBIASED) else None
        return Totals({**names, "count": count}, count, std_dev, unbiased, whole=not weighted)

    def variances(self, weights: Weights, as_one: int = 1) -> FloatArray:
        """The variance of each sum: float64 (areas, sums). `as_one` sums, one after another, have a common bound."""
        layout = self.view.layout
        zero, cell_of = layout.impossible_cells(self.depth), layout.detail.cell_of(layout.marginal(self.depth))
        possible = np.ones((1, len(cell_of)), dtype=np.bool_) if zero is None else ~zero[:, cell_of]
        exact = exact_level_of(self.view.statement, layout)
        leaves, offsets, often = self._members(self.finest, layout.areas_per_level[-1])
        fit = layout.detail, layout.families, fitted_precisions(self.view)
        for family in layout.families[layout.area_level(self.depth) :] if len(possible) > 1 else ():
            possible = np.repeat(possible, np.diff(family), axis=0)

        def of_rows(rows: FloatArray) -> FloatArray:
            if len(possible) > 1:
                groups = (rows[first : first + as_one] for first in range(0, len(rows), as_one))
                return np.hstack(
                    [sum_variances_at_most(*fit, leaves, offsets, each, possible, often, exact) for each in groups]
                )
            where, begin, times, cells = leaves, offsets, often, [*rows * possible]
            if len(offsets) == 2:  # one area: its sums are found together
                where, begin = np.tile(leaves, len(rows)), np.arange(len(rows) + 1) * len(leaves)
                times, cells = np.tile(often, len(rows)), [rows * possible]
            variances = [
                sum_variances(*fit, where, begin, each, weights=times, public_totals_level=exact) for each in cells
            ]
            return np.stack(variances, axis=1).reshape(-1, len(rows))

        return self._of_areas(weights, self.finest, of_rows)

    def rounding(self, weights: Weights, estimates: Estimates) -> FloatArray:
        """What rounding adds to the variance of each sum, where weights are 0 or 1: float64 (sums, areas) or (1, 1).

        It is stated for one number. A sum of n has at most n times as much, about, and less where rounding kept it.
        """
        layout, level = self.view.layout, self.view.levels[self.depth]
        stated = self.view.statement.get("rounding", {}).get(level, 0.0) ** 2
        if not stated or not self.view.has(level, UNBIASED):
            return np.zeros((1, 1))
        ones = np.ones((layout.areas(self.depth), layout.width(self.depth)))
        number = self.summed(ones, lambda refined: weights(refined) ** 2, power=2).T
        moved = np.where(number > 1, (np.asarray(estimates.published) - estimates.middle) ** 2, stated)
        return np.asarray(np.minimum(4 * number * stated, moved))

    def summed(self, values: FloatArray, weights: Weights, *, power: int = 1) -> FloatArray:
        """Sums over the areas of each: (areas, sums), of values of the table's cells; or with powers of weights."""
        refined = self.view.layout.tables[self.depth].refined
        places, offsets, often = self._members(refined, self.view.layout.areas(self.depth))

        def of_rows(rows: FloatArray) -> FloatArray:
            cells = np.concatenate([(values @ rows.T)[places] * often[:, None] ** power, np.zeros((1, len(rows)))])
            return np.asarray(np.add.reduceat(cells, offsets[:-1], axis=0) * (np.diff(offsets) > 0)[:, None])

        return self._of_areas(weights, refined, of_rows)

    def _members(self, refined: Sequence[int], number: int) -> tuple[IntArray, IntArray, FloatArray]:
        """The nodes of the first hierarchy in each of its areas; all where the areas are of another one."""
        return _members(None if self.place else self.areas, refined[0], number)

    def _of_areas(
        self, weights: Weights, refined: Sequence[int], of_rows: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """What is found of sums with some weights, float64 (areas, sums), where so many columns are refined."""
        rows = weights(refined[1:])
        if self.areas is None or not self.place:
            return of_rows(rows)
        sizes = [side.size(each) for side, each in zip(self.view.layout.product.attributes, refined, strict=True)]
        places, offsets, often = _members(self.areas, refined[self.place], sizes[self.place])
        shape = (len(rows), int(np.prod(sizes[1 : self.place])), sizes[self.place], -1)
        parts = []
        for few in chunks(np.full(len(self.areas), rows.size + len(rows) * sizes[0]), AT_ONCE):
            begins = offsets[few.start : few.stop + 1]
            inside = np.zeros((few.stop - few.start, 1, 1, sizes[self.place], 1))
            here = slice(begins[0], begins[-1])
            inside[np.repeat(np.arange(len(inside)), np.diff(begins)), 0, 0, places[here], 0] = often[here]
            of_each = (inside * rows.reshape(shape)).reshape(-1, rows.shape[1])
            parts.append(of_rows(of_each).reshape(-1, len(rows)))
        return np.concatenate(parts)


def _with_sum(weights: FloatArray) -> FloatArray:
    """The weights of some sums, and of all of them together."""
    return np.concatenate([weights, weights.sum(axis=0, keepdims=True)])


def _coarsest(layout: TableLayout, needed: Sequence[int]) -> int:
    """The smallest table that has the areas and the attributes' levels that are needed.

    Raises:
        ValueError: there is none.
    """
    enough = [
        i
        for i, table in enumerate(layout.tables)
        if all(has >= need for has, need in zip(table.refined, needed, strict=True))
    ]
    if not enough:
        sides = zip(layout.product.attributes, needed, strict=True)
        levels = ", ".join(side.columns[depth - 1] for side, depth in sides if depth)
        raise ValueError(
            f"areas: no table of the release has {levels}, so its sums are not published; name coarser ones"
        )
    return min(enough, key=layout.size)


def _members(areas: SummedAreas | None, refined: int, number: int) -> tuple[IntArray, IntArray, FloatArray]:
    """The nodes of a level in each area, ascending, area after area; where those of each begin; and their weights."""
    nodes = np.arange(number, dtype=np.int64)
    if areas is None:
        return nodes, np.array([0, number], dtype=np.int64), np.ones(number)
    pairs = [areas.members(block, refined, nodes) for block in areas.blocks]
    places, of_area, often = (np.concatenate(each) for each in zip(*pairs, strict=True))
    order = np.lexsort((places, of_area))
    offsets = np.searchsorted(of_area[order], np.arange(len(areas) + 1)).astype(np.int64)
    return places[order], offsets, often[order]


@dataclass(frozen=True, eq=False)
class ClassValues(Values):
    """A numeric attribute of the records of areas, in classes. Within a class records lie evenly.

    Attributes:
        summed: the sums over the areas.
        paths: the columns that name the areas.
        classes: the labels as numbers.
        condition: the weights of the records that count.
    """

    summed: TableSums
    paths: Mapping[str, pa.Array]
    classes: Classes
    condition: Weights

    @property
    def center(self) -> float:
        """See `Values`: the covariance loses fewer digits, and the interval moves along."""
        return float(self.classes.middle.mean())

    @property
    def between(self) -> tuple[float, float]:
        """See `Values`."""
        middle = self.classes.middle
        return float(middle.min()) - self.center, float(middle.max()) - self.center

    def sums(self) -> Estimates:
        """See `Values`."""
        middle = self.classes.middle

        def weights(refined: Sequence[int]) -> FloatArray:
            (mask,) = self.condition(refined)
            return np.stack([mask * (middle[self._classes_of(refined)] - self.center), mask])

        unit = float(np.diff(middle).min()) if len(middle) > 1 else 0.0
        return self.summed.estimates(self.paths, weights, paired=True, unit=unit)

    def below(self, share: float) -> Estimates:
        """See `Values`: at the border of each class."""

        def weights(refined: Sequence[int]) -> FloatArray:
            below = self._classes_of(refined)[None, :] < np.arange(len(self.classes.low) + 1)[:, None]
            return np.asarray((below - share) * self.condition(refined)[0])

        return self.summed.estimates(self.paths, weights)

    def quantiles(self, below: Estimates, reach: FloatArray) -> dict[str, pa.Array]:
        """See `Values`."""
        gaps, middle = np.asarray(below.published, dtype=np.float64), below.middle
        estimate = self._crossing(gaps.T, last=False)
        count = as_whole(np.rint(gaps[-1] - gaps[0]))
        return {
            "count": count,
            "quantile": pa.array(estimate, mask=count.to_numpy() == 0),
            "ci_lower": pa.array(np.fmin(self._crossing((middle + reach).T, last=False), estimate)),
            "ci_upper": pa.array(np.fmax(self._crossing((middle - reach).T, last=True), estimate)),
        }

    def _classes_of(self, refined: Sequence[int]) -> IntArray:
        """The class of each cell of an area."""
        return self.classes.of_cells(self.summed.view.layout.product.attributes[1:], tuple(refined))

    def _crossing(self, curve: FloatArray, *, last: bool) -> FloatArray:
        """The value at which a curve that is given at the borders of all classes reaches 0: float64 (areas,).

        Args:
            curve: float64 (areas, classes + 1).
            last: where it leaves what is below 0 for the last time; else where it reaches 0 first.
        """
        borders = curve.shape[1]
        if last:
            here = borders - np.argmax((curve < 0)[:, ::-1], axis=1)
            here = np.where((curve < 0).any(axis=1), here, 0)
        else:
            here = np.where((curve >= 0).any(axis=1), np.argmax(curve >= 0, axis=1), borders)
        place = np.clip(here, 1, borders - 1)
        rows = np.arange(len(curve))
        before, after = curve[rows, place - 1], curve[rows, place]
        part = np.divide(-before, after - before, out=np.ones(len(curve)), where=after != before)
        part = np.where(here < 1, 0.0, np.where(here >= borders, 1.0, np.clip(part, 0.0, 1.0)))
        low, high = self.classes.low[place - 1], self.classes.high[place - 1]
        return np.asarray(low + part * (high - low), dtype=np.float64)
