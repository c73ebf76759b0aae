"""`Release.total` for tables: sums over areas and under conditions on attributes, with the error of each sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.kinds.columns import UNBIASED
from tallytree.numbers.summed_totals import Totals
from tallytree.product import Attribute, Product
from tallytree.release.statement import mechanism_code
from tallytree.release.view.areas import ARGUMENT, Block, SummedAreas, read_areas
from tallytree.release.view.layouts import exact_level_of, published_totals
from tallytree.release.view.recorded_measurements import FRESH_COPY
from tallytree.release.view.release_view import ReleaseView
from tallytree.release.view.sides import sides_of
from tallytree.solvers.tables.linear import NoisyTable, linear_estimate
from tallytree.solvers.tables.marginals import Marginal
from tallytree.solvers.tables.sums import AT_ONCE, sum_variances
from tallytree.sources.locate import locate
from tallytree.sources.reading import column_names
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, chunks
from tallytree.support.validate import safe_text, text
from tallytree.tables import TableLayout
from tallytree.tables.expected import MIN_VARIANCE, precisions_of

Weights = Callable[[Sequence[int]], FloatArray]
"""The weights of the cells of an area in some sums, (sums, cells), where so many columns of the attributes are refined.
"""


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

    def counts(self, weights: Weights) -> FloatArray:
        """The sums of published numbers: float64 (areas, sums)."""
        return self._summed(self.view.cells_of_table(self.depth).astype(np.float64), weights)

    def unbiased(self, weights: Weights) -> FloatArray | None:
        """The sums of unbiased estimates, float64 (areas, sums); None for a release without such estimates."""
        table = unbiased_table(self.view, self.depth)
        return None if table is None else self._summed(table, weights)

    def variances(self, weights: Weights) -> FloatArray:
        """The variance of each of these: float64 (areas, sums)."""
        layout = self.view.layout
        zero = layout.impossible_cells(self.depth)
        known = True if zero is None else ~zero[layout.detail.cell_of(layout.marginal(self.depth))]
        precisions = fitted_precisions(self.view)
        exact = exact_level_of(self.view.statement, layout)
        leaves, offsets = self._members(self.finest, layout.areas_per_level[-1])

        def of_rows(rows: FloatArray) -> FloatArray:
            where, begin, cells = leaves, offsets, [*rows * known]
            if len(offsets) == 2:  # one area: its sums are found together
                where, begin = np.tile(leaves, len(rows)), np.arange(len(rows) + 1) * len(leaves)
                cells = [rows * known]
            found = [
                sum_variances(layout.detail, layout.families, precisions, where, begin, each, public_totals_level=exact)
                for each in cells
            ]
            return np.stack(found, axis=1).reshape(-1, len(rows))

        return self._of_areas(weights, self.finest, of_rows)

    def rounding(self, weights: Weights) -> FloatArray:
        """What rounding adds to each of these, where weights are 0 or 1: float64 (areas, sums), or one for all.

        It is stated for one number. A sum of n has at most n times as much, about, and less where rounding kept it.
        """
        stated = self.view.statement.get("rounding", {}).get(self.view.levels[self.depth], 0.0) ** 2
        unbiased = self.unbiased(weights) if stated else None
        if unbiased is None:
            return np.zeros((1, 1))
        layout = self.view.layout
        number = self._summed(np.ones((layout.areas(self.depth), layout.width(self.depth))), weights)
        moved = np.where(number > 1, (self.counts(weights) - unbiased) ** 2, stated)
        return np.asarray(np.minimum(4 * number * stated, moved))

    def _summed(self, values: FloatArray, weights: Weights) -> FloatArray:
        """Sums over the areas of each: (areas, sums), of values of the table's cells."""
        refined = self.view.layout.tables[self.depth].refined
        places, offsets = self._members(refined, self.view.layout.areas(self.depth))

        def of_rows(rows: FloatArray) -> FloatArray:
            cells = np.concatenate([(values @ rows.T)[places], np.zeros((1, len(rows)))])
            return np.asarray(np.add.reduceat(cells, offsets[:-1], axis=0) * (np.diff(offsets) > 0)[:, None])

        return self._of_areas(weights, refined, of_rows)

    def _members(self, refined: Sequence[int], number: int) -> tuple[IntArray, IntArray]:
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
        places, offsets = _members(self.areas, refined[self.place], sizes[self.place])
        shape = (len(rows), int(np.prod(sizes[1 : self.place])), sizes[self.place], -1)
        found = []
        for few in chunks(np.full(len(self.areas), rows.size + len(rows) * sizes[0]), AT_ONCE):
            begins = offsets[few.start : few.stop + 1]
            inside = np.zeros((few.stop - few.start, 1, 1, sizes[self.place], 1))
            inside[np.repeat(np.arange(len(inside)), np.diff(begins)), 0, 0, places[begins[0] : begins[-1]]] = 1.0
            of_each = (inside * rows.reshape(shape)).reshape(-1, rows.shape[1])
            found.append(of_rows(of_each).reshape(-1, len(rows)))
        return np.concatenate(found)


def fitted_precisions(view: ReleaseView) -> list[dict[Marginal, float]]:
    """The precisions of what was measured, from which the errors of sums of the fitted tables follow.

    Raises:
        ValueError: the tables were fitted by a mechanism from outside, whose errors nothing tells.
    """
    if mechanism_code(view.statement):
        raise ValueError(
            "release: its tables were made by a mechanism from outside, and the errors of their sums are not known; "
            "add up the rows of a table yourself, or release by tallytree.tables.LeastSquares()"
        )
    return precisions_of(view.layout, {name: law.variance for name, (_, law) in view.noise.items()})


def totals_of_tables(
    view: ReleaseView, table: Any, *, by: str | None, where: Mapping[str, Any] | None, replicates: int | None
) -> Totals:
    """The totals of a release of tables, and what is known of their errors."""
    if replicates is not None:
        raise ValueError(f"replicates: {safe_text(replicates)}, but sums of tables have exact errors; leave it out")
    product = view.layout.product
    conditions = conditions_of(product, where)
    areas, names = chosen_areas(product, table, by)
    sums = TableSums.of(view, areas, columns_needed(conditions))
    weights = weights_of(product, [conditions])
    count = sums.counts(weights)[:, 0].astype(np.int64)
    std_dev = np.sqrt((sums.variances(weights) + sums.rounding(weights))[:, 0])
    unbiased = sums.unbiased(weights)
    return Totals({**names, "count": count}, count, std_dev, None if unbiased is None else unbiased[:, 0])


Conditions = list[list[tuple[int, list[str]]]]
"""Per attribute, the levels that a condition is on (as columns refined), and the labels that meet it."""


def columns_needed(*conditions: Conditions) -> list[int]:
    """Per attribute, how many columns the conditions need refined."""
    return [max((depth for each in side for depth, _ in each), default=0) for side in zip(*conditions, strict=True)]


def weights_of(product: Product, conditions: Sequence[Conditions]) -> Weights:
    """The weights of sums of the cells that meet conditions: 1 for these."""

    def weights(refined: Sequence[int]) -> FloatArray:
        return np.stack([_mask(product.attributes[1:], refined, each) for each in conditions]).astype(np.float64)

    return weights


def conditions_of(product: Product, where: Mapping[str, Any] | None, argument: str = "where") -> Conditions:
    """What a condition says of each attribute.

    Raises:
        ValueError: no column of an attribute, or a label that is none of its level's.
        TypeError: no mapping, or labels that are neither text nor integers.
    """
    found: Conditions = [[] for _ in product.attributes[1:]]
    if where is None:
        return found
    if not isinstance(where, Mapping):
        raise TypeError(
            f'{argument}: {safe_text(where)} must be a mapping from attributes\' columns, such as {{"sex": "f"}}'
        )
    known = [column for side in product.attributes[1:] for column in side.columns]
    for column, given in where.items():
        place = next((i for i, side in enumerate(product.attributes[1:]) if column in side.columns), None)
        if not isinstance(column, str) or place is None:
            raise ValueError(
                f"{argument}: {repr(column[:80]) if isinstance(column, str) else safe_text(column)} is no column of an "
                f"attribute; these are {', '.join(known) or 'none'}"
            )
        side = product.attributes[1:][place]
        depth = side.columns.index(column) + 1
        values = list(given) if isinstance(given, list | tuple | set | frozenset) else [given]
        if not values or any(isinstance(value, bool) or not isinstance(value, str | int) for value in values):
            raise TypeError(f"{argument}: {column!r} must be given a label or a list of labels, texts or integers")
        labels = set(labels_of(side, depth, depth).to_pylist())
        for value in map(str, values):
            if value not in labels:
                raise ValueError(f"{argument}: {value[:80]!r} is no label of {column!r}; see the table of that level")
        found[place].append((depth, [str(value) for value in values]))
    return found


def labels_of(side: Attribute, refined: int, column: int) -> pa.Array:
    """One of the columns of all nodes where so many columns are refined."""
    return side.path_arrays(refined, np.arange(side.size(refined), dtype=np.int64))[column - 1]


def chosen_areas(product: Product, table: Any, by: str | None) -> tuple[SummedAreas | None, dict[str, pa.Array]]:
    """The areas that sums are over, None for all, and the columns that name them.

    They are those of a table, of the hierarchy whose columns it has; without a table all nodes of the level `by`.

    Raises:
        ValueError: no level of that name; a table with columns of several hierarchies, or as `read_areas`.
        TypeError: as `read_areas`.
    """
    if table is None:
        if by is None:
            return None, {}
        name = text(by, "by", "the name of a column")
        side = next((each for each in product.attributes if name in each.columns), None)
        if side is None:
            known = ", ".join(column for each in product.attributes for column in each.columns)
            raise ValueError(
                f"by: {name!r} is no level of the hierarchies, which are {known}; or give a table of areas"
            )
        refined = side.columns.index(name) + 1
        return areas_of_level(side, refined), paths_of_level(side, refined)
    columns = [column for each in product.attributes for column in each.columns]
    source = locate(table, ARGUMENT, [*columns, *filter(None, [by])], public=True)
    there = {*column_names(source, ARGUMENT)}
    named = [each for each in product.attributes if there & {*each.columns}]
    several = [each for each in named if there & {*each.columns} != {by}]
    if len(several) > 1:
        raise ValueError(
            f"{ARGUMENT}: it has columns of {several[0].name!r} and of {several[1].name!r}; name nodes of one of them, "
            "and leave other columns out"
        )
    areas = read_areas(_tree([*several, *named, product.attributes[0]][0]), source, by)
    return areas, {} if by is None else {by: areas.names}


def _tree(side: Attribute) -> Product:
    return Product({side.name: side.hierarchy}, [side.name] * len(side.columns), {side.name: side.columns})


def areas_of_level(side: Attribute, refined: int) -> SummedAreas:
    """All nodes of a level of a hierarchy, each an area of its own."""
    nodes = np.arange(side.size(refined), dtype=np.int64)
    return SummedAreas(
        _tree(side), None, pa.nulls(len(nodes), pa.string()), (Block((refined,), refined, (nodes,), nodes),)
    )


def paths_of_level(side: Attribute, refined: int) -> dict[str, pa.Array]:
    """The path columns of all nodes of a level of a hierarchy."""
    nodes = np.arange(side.size(refined), dtype=np.int64)
    return dict(zip(side.columns, side.path_arrays(refined, nodes), strict=False)) if refined else {}


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


def _mask(sides: Sequence[Attribute], refined: Sequence[int], conditions: Conditions) -> BoolArray:
    """Which cells of an area meet all conditions, where so many columns of the attributes are refined."""
    mask = np.ones(1, dtype=np.bool_)
    for side, depth, of_side in zip(sides, refined, conditions, strict=True):
        meets = np.ones(side.size(depth), dtype=np.bool_)
        for column, labels in of_side:
            meets &= np.isin(np.array(labels_of(side, depth, column).to_pylist(), dtype=object), labels)
        mask = (mask[:, None] & meets[None, :]).ravel()
    return mask


def _members(areas: SummedAreas | None, refined: int, number: int) -> tuple[IntArray, IntArray]:
    """The nodes of a level in each area, ascending, one area after another, and where those of each begin."""
    nodes = np.arange(number, dtype=np.int64)
    if areas is None:
        return nodes, np.array([0, number], dtype=np.int64)
    pairs = [areas.members(block, refined, nodes) for block in areas.blocks]
    places, of_area = (np.concatenate(each) for each in zip(*pairs, strict=True))
    order = np.lexsort((places, of_area))
    offsets = np.searchsorted(of_area[order], np.arange(len(areas) + 1)).astype(np.int64)
    return places[order], offsets


def unbiased_table(view: ReleaseView, depth: int) -> FloatArray | None:
    """The unbiased estimate of every cell of a table, float64 (areas, cells of an area), as published or measured.

    None for a release without such estimates: its errors are those of replicates, or its mechanism has none.

    Raises:
        ValueError: the release has them, but not all cells are listed, and its measurements are not whole.
    """
    layout, name = view.layout, view.levels[depth]
    if not view.has(name, UNBIASED):
        return None
    if view.rows(name) == layout.size(depth):
        return np.asarray(view.column(name, UNBIASED), dtype=np.float64).reshape(layout.areas(depth), -1)
    return _from_measurements(view, depth)


def _from_measurements(view: ReleaseView, depth: int) -> FloatArray:
    """The estimate of a table whose zeros are not listed."""
    layout, noise = view.layout, view.noise
    measured: list[list[NoisyTable]] = [[] for _ in range(len(layout.families) + 1)]
    for place, name in enumerate(layout.levels):
        if name in noise:
            values = view.release.measurements(name).column("value").to_numpy().astype(np.int64)
            if len(values) != layout.size(place):
                raise ValueError(f"release: the measurements of {name!r} do not list all its cells; {FRESH_COPY}")
            variance = max(noise[name][1].variance, MIN_VARIANCE)
            shape = (layout.areas(place), -1)
            measured[layout.area_level(place)].append(
                NoisyTable(layout.marginal(place), values.reshape(shape), variance)
            )
    found = linear_estimate(
        layout.detail, layout.families, measured, layout.area_level(depth), layout.marginal(depth), _exact_totals(view)
    )
    zero = layout.impossible_cells(depth)
    if zero is not None:
        found[:, zero] = 0.0
    return found


def _exact_totals(view: ReleaseView) -> list[IntArray]:
    """The totals that were published exactly, per level from the root."""
    exact = published_totals(view.statement, view.layout, view.all_cells())
    if exact is None:
        return []
    found = [exact.totals]
    for family in reversed(view.layout.families[: exact.area_level]):
        found.insert(0, np.add.reduceat(found[0], family[:-1]))
    return found
