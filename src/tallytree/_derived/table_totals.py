"""`Release.total` for tables: sums over areas and under conditions on attributes, with the error of each sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree._compute.arrays import BoolArray, FloatArray, IntArray
from tallytree._derived.summed_totals import Totals
from tallytree._solvers.tables.linear import NoisyTable, linear_estimate
from tallytree._solvers.tables.marginals import Marginal
from tallytree._solvers.tables.sums import sum_variances
from tallytree._validate import safe_text
from tallytree.product import Attribute, Product
from tallytree.release.intervals import UNBIASED
from tallytree.release.statement import mechanism_code
from tallytree.release.view.areas import Block, SummedAreas, read_areas
from tallytree.release.view.layouts import exact_level_of, published_totals
from tallytree.release.view.recorded_measurements import FRESH_COPY
from tallytree.release.view.release_view import ReleaseView
from tallytree.tables import TableLayout
from tallytree.tables.expected import MIN_VARIANCE, precisions_of

Weights = Callable[[Sequence[int]], FloatArray]
"""The weights of the cells of an area in some sums, (sums, cells), where so many columns of the attributes are refined.
"""


@dataclass(frozen=True, eq=False)
class TableSums:
    """Weighted sums of the cells of areas, in a release of tables.

    Attributes:
        view: the release.
        depth: of the table that they are sums of.
        finest: per hierarchy, how many columns are refined where the fit's detail is.
        members: the nodes of the table in each area, and where those of each begin.
        leaves: likewise those of the finest areas.
    """

    view: ReleaseView
    depth: int
    finest: tuple[int, ...]
    members: tuple[IntArray, IntArray]
    leaves: tuple[IntArray, IntArray]

    @classmethod
    def of(cls, view: ReleaseView, areas: SummedAreas | None, attributes: Sequence[int]) -> TableSums:
        """The sums over areas, or over all, where so many columns of the attributes are needed.

        Raises:
            ValueError: no published table has these areas and attributes.
        """
        layout = view.layout
        needed = [0 if areas is None else max(block.depth for block in areas.blocks), *attributes]
        depth = _coarsest(layout, needed)
        # Of two levels with equally many nodes the layout has the coarser one; the condition may be on the other.
        finest = tuple(map(max, layout.finest_refined, needed))
        members = _members(areas, layout.tables[depth].refined[0], layout.areas(depth))
        return cls(view, depth, finest, members, _members(areas, finest[0], layout.areas_per_level[-1]))

    def counts(self, weights: Weights) -> FloatArray:
        """The sums of published numbers: float64 (areas, sums)."""
        table = self.view.cells_of_table(self.depth).astype(np.float64)
        return self._summed(table @ weights(self._refined[1:]).T)

    def unbiased(self, weights: Weights) -> FloatArray | None:
        """The sums of unbiased estimates, float64 (areas, sums); None for a release without such estimates."""
        table = unbiased_table(self.view, self.depth)
        return None if table is None else self._summed(table @ weights(self._refined[1:]).T)

    def variances(self, weights: Weights) -> FloatArray:
        """The variance of each of these: float64 (areas, sums)."""
        layout = self.view.layout
        varying = weights(self.finest[1:])
        zero = layout.impossible_cells(self.depth)
        if zero is not None:
            varying = np.where(zero[layout.detail.cell_of(layout.marginal(self.depth))], 0.0, varying)
        precisions = fitted_precisions(self.view)
        exact = exact_level_of(self.view.statement, layout)
        found = [
            sum_variances(layout.detail, layout.families, precisions, *self.leaves, row, public_totals_level=exact)
            for row in varying
        ]
        return np.stack(found, axis=1)

    @property
    def _refined(self) -> tuple[int, ...]:
        return self.view.layout.tables[self.depth].refined

    def _summed(self, values: FloatArray) -> FloatArray:
        """Sums over the areas of each: (areas, sums), of values of the table's areas."""
        places, offsets = self.members
        rows = np.concatenate([values[places], np.zeros((1, values.shape[1]))])
        return np.asarray(np.add.reduceat(rows, offsets[:-1], axis=0) * (np.diff(offsets) > 0)[:, None])


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
    areas = None if table is None else areas_of(product.attributes[0], table, by)
    sums = TableSums.of(view, areas, columns_needed(conditions))
    weights = weights_of(product, [conditions])
    count = sums.counts(weights)[:, 0].astype(np.int64)
    std_dev = np.sqrt(sums.variances(weights)[:, 0])
    unbiased = sums.unbiased(weights)
    names: dict[str, Any] = {} if areas is None or by is None else {by: areas.names}
    return Totals(names | {"count": count}, count, std_dev, None if unbiased is None else unbiased[:, 0])


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


def areas_of(side: Attribute, table: Any, by: str | None) -> SummedAreas:
    """The areas of a table, over the hierarchy of the areas alone."""
    tree = Product({side.name: side.hierarchy}, [side.name] * len(side.columns), {side.name: side.columns})
    return read_areas(tree, table, by)


def areas_of_level(side: Attribute, refined: int) -> SummedAreas:
    """All nodes of a level of the areas, each an area of its own."""
    tree = Product({side.name: side.hierarchy}, [side.name] * len(side.columns), {side.name: side.columns})
    nodes = np.arange(side.size(refined), dtype=np.int64)
    return SummedAreas(tree, None, pa.nulls(len(nodes), pa.string()), (Block((refined,), refined, (nodes,), nodes),))


def paths_of_level(side: Attribute, refined: int) -> dict[str, pa.Array]:
    """The path columns of all nodes of a level of the areas."""
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

    None for a release without such estimates: an earlier tallytree wrote it, or its errors are those of replicates.

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
