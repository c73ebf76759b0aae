"""The tables of a product of hierarchies: what each is named by, how its cells are numbered, and the areas' tree.

The first hierarchy has the areas; the others are attributes. A table names at most one level of each hierarchy. Its
cells are the combinations of their nodes, numbered with the last hierarchy fastest; a hierarchy that it does not name
contributes one node, its root.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import ROOT, TOTAL, Hierarchy
from tallytree.product import Attribute, Product, crossed_paths
from tallytree.solvers.tables.marginals import Detail, Marginal, masks_of_levels
from tallytree.sources.leaf_paths import decoded
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.large_arrays import LargeArrays
from tallytree.support.validate import safe_text
from tallytree.trees.impossible import MAX_COMBINATIONS

MAX_DETAIL = 2**16
"""The most combinations of the attributes' values."""
MAX_CELLS = 2**33
"""The most detail cells of all areas together: every one is estimated."""
MAX_LISTED = 2**24
"""A table of more cells is published without its zeros."""
MAX_TABLES = 1_000


@dataclass(frozen=True)
class Table:
    """A table, by the levels that name it.

    Attributes:
        levels: their names, in the order of the hierarchies; none for the total.
        refined: per hierarchy, how many of its columns are refined: 0 where the table names no level of it.
    """

    levels: tuple[str, ...]
    refined: tuple[int, ...]

    @property
    def name(self) -> str:
        """The stored name: the levels joined with dots, such as `county.age.sex`; `all` for the total."""
        return ".".join(level.replace("%", "%25").replace(".", "%2E") for level in self.levels) or ROOT


def shown_tables(names: Sequence[str]) -> list[str]:
    """The names of tables as people are shown them: the total is `total`, unless a level has that name."""
    return [TOTAL if name == ROOT and TOTAL not in names else name for name in names]


def levels_of(name: str) -> tuple[str, ...]:
    """The levels of a table with this stored name."""
    return () if name == ROOT else tuple(unquote(part) for part in name.split("."))


def table_of(product: Product, given: Any, argument: str) -> Table:
    """The table that somebody names: level names, each of another hierarchy, in any order.

    Args:
        product: the hierarchies.
        given: a sequence of names; or text, with commas between several names. `"total"` alone, or none, is the total.
        argument: what is named, for messages.

    Raises:
        ValueError: a name that is unknown, ambiguous or repeated, or two levels of one hierarchy.
        TypeError: neither names nor text.
    """
    names = [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else given
    if not isinstance(names, Iterable) or isinstance(names, Mapping | bytes):
        raise TypeError(f'{argument}: {safe_text(given)} must be a tuple of level names, such as ("county", "sex")')
    names = list(names)
    refuse_strangers(product, [names], argument)
    if names == [TOTAL] and not any(TOTAL in side.columns for side in product.attributes):
        names = []
    refined = [0] * len(product.attributes)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f'{argument}: {safe_text(name)} must be the name of a level, such as "county"')
        side, depth = _found(product, name, argument)
        if refined[side]:
            taken = product.attributes[side].columns[refined[side] - 1]
            raise ValueError(
                f"{argument}: {taken!r} and {name!r} are levels of one hierarchy; name one of them, the finer one has "
                "a column for the other too"
                if taken != name
                else f"{argument}: {name!r} is named twice in one table; name each level once"
            )
        refined[side] = depth
    levels = tuple(
        side.columns[depth - 1] for side, depth in zip(product.attributes, refined, strict=True) if depth > 0
    )
    return Table(levels, tuple(refined))


def refuse_strangers(product: Product, given: Iterable[Any], argument: str) -> None:
    """Refuse tables that have several names of which none is a level: these may be values of a private column.

    Raises:
        ValueError: saying how many names there are, and none of them.
    """
    names = [
        name
        for table in given
        for name in (table.split(",") if isinstance(table, str) else table if isinstance(table, Sequence) else ())
        if isinstance(name, str)
    ]
    known = [column for side in product.attributes for column in side.columns]
    levels = {
        *known,
        ROOT,
        TOTAL,
        *(column.removeprefix(f"{side.name}_") for side in product.attributes for column in known),
    }
    if len(names) > 1 and not any(name.strip() in levels for name in names):
        raise ValueError(f"{argument}: none of its {len(names)} names is a level; the levels are {', '.join(known)}")


def _found(product: Product, name: str, argument: str) -> tuple[int, int]:
    """The hierarchy that has a level, and how many of its columns are refined there."""
    for i, side in enumerate(product.attributes):
        if name in side.columns:
            return i, side.columns.index(name) + 1
    known = [column for side in product.attributes for column in side.columns]
    like = [f"{side.name}_{name}" for side in product.attributes if f"{side.name}_{name}" in side.columns]
    if len(like) > 1:
        raise ValueError(f"{argument}: {name!r} is a level of several hierarchies; write one of {', '.join(like)}")
    if name in (ROOT, TOTAL):
        raise ValueError(f"{argument}: {name!r} is no level; name the table 'total' alone, for the total")
    raise ValueError(f"{argument}: {name[:200]!r} is not a level; the levels are {', '.join(known)}")


def tables_of(product: Product, given: Any, argument: str) -> tuple[Table, ...]:
    """The tables that somebody lists; see `table_of`.

    Raises:
        ValueError: none, too many, or two that have the same cells.
        TypeError: no list.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise TypeError(
            f'{argument}: {safe_text(given)} must be a list of tables, such as [("county", "sex"), ("state",)]'
        )
    if not given:
        raise ValueError(f'{argument}: it is empty; name at least one table, such as ("county", "sex")')
    if len(given) > MAX_TABLES:
        raise ValueError(
            f"{argument}: {len(given)} tables are more than {MAX_TABLES}; a coarser one follows from a finer one"
        )
    refuse_strangers(product, given, argument)
    found = tuple(table_of(product, each, argument) for each in given)
    seen: dict[tuple[int, ...], Table] = {}
    for table in found:
        twin = seen.setdefault(sizes_of(product, table), table)
        if twin is not table:
            raise ValueError(
                f"{argument}: {_shown(twin)} and {_shown(table)} have the same cells; name one of them"
                if twin != table
                else f"{argument}: {_shown(table)} is listed twice; list each table once"
            )
    return found


def sizes_of(product: Product, table: Table) -> tuple[int, ...]:
    """The number of nodes of each hierarchy: equal for tables with the same cells."""
    return tuple(side.size(depth) for side, depth in zip(product.attributes, table.refined, strict=True))


def _shown(table: Table) -> str:
    return f"({', '.join(table.levels) or TOTAL})"


class TableLayout:
    """The tables of a release, and the areas and attributes that they need. Implements `Levels`.

    Args:
        product: the hierarchies, the areas first; without an order.
        tables: all that are published, each with cells of its own: those that were asked for first.
        asked: how many of them were asked for; the others are measured to help these.
        areas_at: how many columns of the areas are refined at a further level that is needed.

    Raises:
        ValueError: too many combinations of attributes, or too many cells; all combinations are impossible.
    """

    def __init__(self, product: Product, tables: Sequence[Table], asked: int, areas_at: int = 0) -> None:
        self.product = product
        self.tables = tuple(tables)
        self.asked = asked
        self.levels = tuple(table.name for table in self.tables)
        self._sides = tuple(
            _Side.of(attribute, {areas_at if i == 0 else 0, *(table.refined[i] for table in self.tables)})
            for i, attribute in enumerate(product.attributes)
        )
        cells = int(np.prod([side.sizes[-1] for side in self._sides[1:]], dtype=np.float64))
        if cells > MAX_DETAIL:
            raise ValueError(
                f"tables: their attributes have {cells:,} combinations, more than {MAX_DETAIL:,}; name coarser levels "
                "of the attributes, or fewer of them"
            )
        if self.areas_per_level[-1] * cells > MAX_CELLS:
            raise ValueError(
                f"tables: their areas by all their attributes are {self.areas_per_level[-1] * cells:,} cells, more "
                f"than {MAX_CELLS:,}; name coarser levels"
            )
        if self.impossible is not None and self.impossible.all(axis=1).any():
            where = " in some area" if self.areas_differ else ""
            raise ValueError(f"impossible: it leaves no combination of the attributes{where}; list fewer")

    def __repr__(self) -> str:
        """The tables with their numbers of cells."""
        return f"Tables({', '.join(f'{name}: {self.size(i)}' for i, name in enumerate(self.levels))})"

    def size(self, depth: int) -> int:
        """How many cells a table has."""
        return int(np.prod([float(size) for size in sizes_of(self.product, self.tables[depth])]))

    def place(self, table: Table) -> int | None:
        """Which of the tables has the same cells; None if none has."""
        wanted = sizes_of(self.product, table)
        return next((i for i, each in enumerate(self.tables) if sizes_of(self.product, each) == wanted), None)

    def name_of(self, table: Table) -> str:
        """The name of the table with the same cells."""
        place = self.place(table)
        return table.name if place is None else self.levels[place]

    def lists_zeros(self, depth: int) -> bool:
        """Whether the published table has all its cells, not only those that are not 0."""
        return self.size(depth) <= MAX_LISTED

    @cached_property
    def families(self) -> tuple[IntArray, ...]:
        """The areas' tree: per area level but the last, int64 (areas + 1,), where the children of each begin."""
        return tuple(self._sides[0].families())

    @cached_property
    def detail(self) -> Detail:
        """The detail cells of an area: the attributes at the finest levels that a table names."""
        return Detail(tuple(side.groups() for side in self._sides[1:]))

    @cached_property
    def impossible(self) -> BoolArray | None:
        """The detail cells that are 0, all of whose leaves are in `Product.impossible`: bool (finest areas, cells).

        There is one row for all areas where none of the tables that are given names a level of theirs. These tables may
        cover a cell together. Where the hierarchies that they name have more than MAX_COMBINATIONS leaves, only cells
        that one table covers alone are found. None where there are none.
        """
        given = self.product.impossible
        about = sorted({side for each in given for side in each.sides})
        leaves = [self._sides[side].attribute.hierarchy.n_leaves for side in about]
        whole = bool(given) and np.prod(leaves, dtype=np.float64) <= MAX_COMBINATIONS
        found = np.zeros(leaves if whole else [self._sides[side].sizes[-1] for side in about], dtype=np.bool_)
        for each in given:
            groups = [self._cells_of_leaves(side) for side in each.sides]
            axes = tuple(axis for axis, side in enumerate(about) if side not in each.sides)
            found |= np.expand_dims(each.covers([np.arange(len(g)) for g in groups] if whole else groups), axes)
        for axis, side in enumerate(about if whole else ()):
            begins = np.flatnonzero(np.diff(self._cells_of_leaves(side), prepend=-1))
            found = np.logical_and.reduceat(found, begins, axis=axis)
        areas = self.areas_per_level[-1] if 0 in about else 1
        detail = np.zeros((areas, *self.detail.sizes), dtype=np.bool_)
        detail |= np.expand_dims(found, tuple(axis for axis in range(detail.ndim) if axis not in about))
        return detail.reshape(areas, -1) if detail.any() else None

    @property
    def areas_differ(self) -> bool:
        """Whether other cells are impossible in some areas than in others."""
        return self.impossible is not None and len(self.impossible) > 1

    def _cells_of_leaves(self, side: int) -> IntArray:
        """The value of the detail, in one hierarchy, that each of its leaves belongs to: int64 (leaves,)."""
        own = self._sides[side]
        return own.attribute.ancestors(len(own.attribute.columns), own.refined[-1])

    def impossible_cells(self, depth: int) -> BoolArray | None:
        """The cells of a table that are 0, bool (areas, cells of an area); one row for all areas, as in `impossible`.

        None where there are none.
        """
        if not self._impossible_by_level:
            return None
        found = self.detail.holds_all(self._impossible_by_level[self.area_level(depth)], self.marginal(depth))
        return found if found.any() else None

    @cached_property
    def _impossible_by_level(self) -> list[BoolArray]:
        """`impossible` for each level of areas, root first; empty where there are no such cells."""
        return [] if self.impossible is None else masks_of_levels(self.impossible, self.families)

    def work(self, measured: Collection[str]) -> tuple[int, int]:
        """How much a fit has to do: cells of the levels' own details, and detail cells of the finest areas.

        The own detail of a level of areas has the attributes at the finest levels that are measured there or below.

        Args:
            measured: the names of the tables that are measured.
        """
        depths = [depth for depth, name in enumerate(self.levels) if name in measured]
        cells = 0
        for level, areas in enumerate(self.areas_per_level):
            known = [self.marginal(depth) for depth in depths if self.area_level(depth) >= level]
            finest = tuple(max(levels) for levels in zip(*known, strict=True))
            cells += areas * (self.detail.size(finest) if known else 1)
        return cells, self.areas_per_level[-1] * self.detail.cells

    @property
    def finest_refined(self) -> tuple[int, ...]:
        """Per hierarchy, how many columns are refined at the finest level that is needed."""
        return tuple(side.refined[-1] for side in self._sides)

    @property
    def finest(self) -> Table:
        """The table of all detail cells of the finest areas, which need not be published.

        It has the columns of every table: where a level repeats the one above node for node, the finer one is named.
        """
        named = [max(depths) for depths in zip(*(table.refined for table in self.tables), strict=True)]
        refined = tuple(map(max, self.finest_refined, named))
        sides = zip(self.product.attributes, refined, strict=True)
        return Table(tuple(side.columns[depth - 1] for side, depth in sides if depth), refined)

    @property
    def areas_per_level(self) -> tuple[int, ...]:
        """The number of areas of each level in `families`; 1 at the root."""
        return self._sides[0].sizes

    def area_level(self, depth: int) -> int:
        """The level of a table's areas in `families`; 0 is the root."""
        return self._sides[0].level(self.tables[depth].refined[0])

    def refined_at(self, level: int, marginal: Marginal) -> tuple[int, ...]:
        """Per hierarchy, how many columns are refined in a marginal of areas of a level of `families`."""
        return tuple(side.refined[at] for side, at in zip(self._sides, (level, *marginal), strict=True))

    def area_level_at(self, refined: int) -> int:
        """The level, in `families`, at which so many columns of the areas are refined."""
        return self._sides[0].level(refined)

    def areas(self, depth: int) -> int:
        """How many areas a table has."""
        return self._sides[0].sizes[self.area_level(depth)]

    def marginal(self, depth: int) -> Marginal:
        """A table's marginal of the detail cells."""
        return tuple(
            side.level(refined) for side, refined in zip(self._sides[1:], self.tables[depth].refined[1:], strict=True)
        )

    def place_at(self, table: Table) -> tuple[int, Marginal] | None:
        """The level of the areas in `families`, and the marginal, of any table; None where it has a level of no other.

        Args:
            table: one that need not be published.
        """
        if any(side.attribute.size(at) not in side.sizes for side, at in zip(self._sides, table.refined, strict=True)):
            return None
        area, *others = (side.level(at) for side, at in zip(self._sides, table.refined, strict=True))
        return area, tuple(others)

    def summed_at(
        self, refined: Sequence[int], nodes: Sequence[IntArray], counts: IntArray
    ) -> tuple[int, Marginal, FloatArray]:
        """What a table has at the finest levels that this layout has too: a level of the areas, a marginal, and cells.

        Args:
            refined: per hierarchy, how many of its columns the table has.
            nodes: for every hierarchy of which it has any, the node of each row.
            counts: the number of each row.

        Returns:
            The cells are float64 (areas, cells of the marginal).
        """
        rows, place = np.zeros(len(counts), dtype=np.int64), []
        given = iter(nodes)
        for side, fine in zip(self._sides, refined, strict=True):
            level = max(at for at, coarse in enumerate(side.refined) if coarse <= fine)
            place.append(level)
            rows *= side.sizes[level]
            if fine:
                rows += side.attribute.ancestors(fine, side.refined[level])[next(given)]
        area, marginal = place[0], tuple(place[1:])
        shape = self.areas_per_level[area], self.detail.size(marginal)
        return area, marginal, np.bincount(rows, counts, shape[0] * shape[1]).reshape(shape).astype(np.float64)

    def width(self, depth: int) -> int:
        """How many cells a table has in an area."""
        return self.size(depth) // self.areas(depth)

    def is_finest(self, depth: int) -> bool:
        """Whether a table's cells are the combinations of the leaves of all hierarchies."""
        leaves = tuple(attribute.hierarchy.n_leaves for attribute in self.product.attributes)
        return sizes_of(self.product, self.tables[depth]) == leaves

    def detail_cells(self, leaves: Sequence[IntArray]) -> IntArray:
        """The detail cell, of all finest areas, that each combination of leaves of the hierarchies belongs to: (n,)."""
        cell = np.zeros(len(leaves[0]), dtype=np.int64)
        for side, leaf in zip(self._sides, leaves, strict=True):
            ancestors = side.attribute.ancestors(len(side.attribute.columns), side.refined[-1])
            cell = cell * side.sizes[-1] + ancestors[leaf]
        return cell

    def parts(self, depth: int) -> tuple[tuple[Hierarchy, tuple[str, ...], int], ...]:
        """Per hierarchy: itself, its columns that a table has, and how many it has in all; see `Product.parts`."""
        return tuple(
            (side.hierarchy, side.columns[:refined], len(side.columns))
            for side, refined in zip(self.product.attributes, self.tables[depth].refined, strict=True)
        )

    def path_columns(self, depth: int) -> tuple[str, ...]:
        """The columns of a table that say which cell a row is about."""
        refined = self.tables[depth].refined
        return tuple(
            name for side, r in zip(self.product.attributes, refined, strict=True) for name in side.columns[:r]
        )

    def path_table(self, depth: int, nodes: IntArray) -> pa.Table:
        """The path of each of some cells: one string column per name of `path_columns`."""
        return decoded(self.coded_paths(depth, nodes))

    def coded_paths(self, depth: int, nodes: IntArray) -> pa.Table:
        """The path of each of some cells, one dictionary per name of `path_columns`."""
        columns = crossed_paths(self.product.attributes, self.tables[depth].refined, nodes)
        names = self.path_columns(depth)
        return pa.table(dict(zip(names, columns, strict=True))) if names else pa.table({})

    def summed(self, leaves: IntArray, depth: int, arrays: LargeArrays | None = None) -> IntArray:
        """A table of the detail cells of the finest areas, (areas, cells): (areas, cells of the table in an area).

        Args:
            leaves: the detail cells, integers.
            depth: the table.
            arrays: makes it; None has it in memory.
        """
        arrays, first = arrays or LargeArrays(), np.arange(self.areas(depth), dtype=np.int64)
        for offsets in self.families[self.area_level(depth) :]:
            first = offsets[first]
        area = np.repeat(np.arange(len(first)), np.diff(first, append=len(leaves)))
        found: IntArray = arrays.zeros((len(first), self.width(depth)), np.int64)
        for part in arrays.parts(np.full(*leaves.shape)):
            begins = np.flatnonzero(np.diff(area[part], prepend=-1))
            counts = self.detail.summed(leaves[part], self.marginal(depth))
            found[area[part][begins]] += np.add.reduceat(counts, begins, axis=0, dtype=np.int64)
        return found


@dataclass(frozen=True, eq=False)
class _Side:
    """One hierarchy, with those of its levels that tables name and that differ.

    Attributes:
        attribute: the hierarchy and its columns.
        refined: per level, root first, how many columns are refined there.
        sizes: per level, its number of nodes: 1, then growing.
    """

    attribute: Attribute
    refined: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, attribute: Attribute, named: Iterable[int]) -> _Side:
        found = {1: 0}
        for refined in sorted(named):
            found.setdefault(attribute.size(refined), refined)
        return cls(attribute, tuple(found.values()), tuple(found))

    def level(self, refined: int) -> int:
        return self.sizes.index(self.attribute.size(refined))

    def families(self) -> Iterator[IntArray]:
        for above, below in pairwise(self.refined):
            offsets = np.arange(self.attribute.size(above) + 1, dtype=np.int64)
            for refined in range(above, below):
                offsets = self.attribute.first_child(refined)[offsets]
            yield offsets

    def groups(self) -> tuple[IntArray, ...]:
        return tuple(self.attribute.ancestors(self.refined[-1], refined) for refined in self.refined)
