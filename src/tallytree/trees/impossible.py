"""Combinations of attributes that no record can have, from public tables: cells that are 0 without being measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.sources.column_types import text_column
from tallytree.sources.locate import locate
from tallytree.sources.reading import column_names, read_public
from tallytree.support.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from tallytree.product import Attribute

ARGUMENT = "impossible"
MAX_COMBINATIONS = 10_000_000
"""Of leaves, that a table may stand for."""


@dataclass(frozen=True, eq=False)
class Impossible:
    """What a table says cannot be.

    Attributes:
        table: the table, as text: a column for every level that it names, a row for every combination.
        sides: which hierarchies of the product it is about, by number.
        leaves: int64 columns `leaf<side>`: every combination of their leaves that cannot be, once.
    """

    table: pa.Table
    sides: tuple[int, ...]
    leaves: pa.Table

    def described(self) -> dict[str, Any]:
        """Its columns and rows, JSON-able."""
        return {"columns": self.table.column_names, "rows": [list(row.values()) for row in self.table.to_pylist()]}

    def covers(self, groups: Sequence[IntArray]) -> BoolArray:
        """Whether a combination of groups of leaves has only combinations of leaves that cannot be.

        Args:
            groups: of every side in `sides`, int64 (leaves,): the group of each leaf, numbered from 0.

        Returns:
            Bool, with an axis for every side in `sides`: its groups.
        """
        shape = tuple(int(group.max()) + 1 for group in groups)
        named = [
            group[self.leaves.column(f"leaf{side}").to_numpy()] for side, group in zip(self.sides, groups, strict=True)
        ]
        found = np.bincount(np.ravel_multi_index(named, shape), minlength=int(np.prod(shape))).reshape(shape)
        whole = np.ones((), dtype=np.int64)
        for group in groups:
            whole = whole[..., None] * np.bincount(group)
        return np.asarray(found == whole, dtype=np.bool_)


STATED = "0{}, since no record can have it: {}"
_SHOWN = 20
"""Combinations that a statement lists; release.json has all."""


def stated(given: Sequence[Impossible], where: str = "") -> list[str]:
    """What a statement says of impossible combinations, among its invariants; `where` follows a 0 of all areas."""
    return [STATED.format(where if 0 not in each.sides else "", _listed(each.table)) for each in given]


def _listed(table: pa.Table) -> str:
    """The rows of a table, such as `age=00-14, work=employed; age=…`."""
    shown = [", ".join(f"{name}={value}" for name, value in row.items()) for row in table.slice(0, _SHOWN).to_pylist()]
    more = table.num_rows - len(shown)
    return "; ".join([*shown, *([f"and {more:,} more"] if more else [])])


@dataclass(frozen=True, eq=False)
class ImpossibleNodes:
    """The nodes of a product with an order of which no record can be: all their leaf cells are impossible.

    All tables are taken together, so a node is impossible if and only if all its children are. What is kept is the
    combinations of nodes of the hierarchies that the tables are about, numbered as cells of their cross; other
    hierarchies have no part.

    Attributes:
        about: which hierarchies these are, ascending.
        sizes: per level, how many nodes each hierarchy of the product has there.
        cells: per level, int64, ascending: the impossible combinations.
        children: per level but the last: distinct parents of impossible combinations below it, ascending, and how many
            of these each has; none where the level below refines another hierarchy.
    """

    about: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]
    cells: tuple[IntArray, ...]
    children: tuple[tuple[IntArray, IntArray] | None, ...]

    @classmethod
    def of(
        cls, given: Sequence[Impossible], sides: Sequence[Attribute], refined: Sequence[Sequence[int]]
    ) -> ImpossibleNodes:
        """Find them.

        Args:
            given: what cannot be, one table at least.
            sides: the hierarchies of the product.
            refined: per level, how many columns of each hierarchy are refined.

        Raises:
            ValueError: too many combinations of leaves, or no combination is left.
        """
        about = tuple(sorted({side for each in given for side in each.sides}))
        leaves = _combined(given, about, sides)
        sizes = tuple(tuple(side.size(depth) for side, depth in zip(sides, here, strict=True)) for here in refined)
        cells: list[IntArray] = []
        children: list[tuple[IntArray, IntArray] | None] = []
        for depth, here in enumerate(refined):
            above = [sides[side].ancestors(len(sides[side].columns), here[side]) for side in about]
            shape = tuple(sizes[depth][side] for side in about)
            number, found = np.unique(
                _raveled([a[c] for a, c in zip(above, leaves, strict=True)], shape), return_counts=True
            )
            whole = np.ones(len(number), dtype=np.int64)
            for groups, part in zip(above, np.unravel_index(number, shape), strict=True):
                whole *= np.bincount(groups)[part]
            cells.append(number[found == whole])
            if depth:
                step = int(np.flatnonzero(np.asarray(here) != np.asarray(refined[depth - 1]))[0])
                parents = None
                if step in about:
                    parts = list(np.unravel_index(cells[-1], shape))
                    place = about.index(step)
                    parts[place] = sides[step].parents(here[step], parts[place])
                    of = _raveled(parts, tuple(sizes[depth - 1][side] for side in about))
                    parents = np.unique(of, return_counts=True)
                children.append(parents)
        if len(cells[0]):
            raise ValueError(f"{ARGUMENT}: it leaves no combination of the hierarchies; list fewer")
        return cls(about, sizes, tuple(cells), tuple(children))

    def among_children(self, depth: int, nodes: IntArray) -> IntArray:
        """How many children of each of some nodes are impossible: int64 (n,)."""
        found = self.children[depth]
        if found is None or not len(found[0]):
            return np.zeros_like(nodes)
        own = self._combinations(depth, nodes)
        place = np.minimum(np.searchsorted(found[0], own), len(found[0]) - 1)
        return np.where(found[0][place] == own, found[1][place], 0)

    def are_possible(self, depth: int, nodes: IntArray) -> BoolArray:
        """Whether records can be in each of some nodes of a level that refines one of the hierarchies: bool (n,)."""
        cells = self.cells[depth]
        if not len(cells) or self.children[depth - 1] is None:
            return np.ones(len(nodes), dtype=np.bool_)
        own = self._combinations(depth, nodes)
        return np.asarray(cells[np.minimum(np.searchsorted(cells, own), len(cells) - 1)] != own)

    def size(self, depth: int) -> int:
        """How many nodes of a level are impossible."""
        others = [size for side, size in enumerate(self.sizes[depth]) if side not in self.about]
        return len(self.cells[depth]) * prod(others)

    def _combinations(self, depth: int, nodes: IntArray) -> IntArray:
        """The combination of the hierarchies `about` that each node has."""
        sizes, found = self.sizes[depth], np.zeros_like(nodes)
        for side in self.about:
            found = found * sizes[side] + nodes // prod(sizes[side + 1 :]) % sizes[side]
        return found


def _combined(given: Sequence[Impossible], about: tuple[int, ...], sides: Sequence[Attribute]) -> list[IntArray]:
    """All impossible combinations of leaves of these hierarchies, each once: their leaves, a column for each."""
    shape = tuple(sides[side].hierarchy.n_leaves for side in about)
    found = []
    for each in given:
        number = np.zeros(each.leaves.num_rows, dtype=np.int64)
        for side, size in zip(about, shape, strict=True):
            if side in each.sides:
                number = number * size + each.leaves.column(f"leaf{side}").to_numpy().reshape(
                    -1, *[1] * (number.ndim - 1)
                )
                continue
            if number.size * size > MAX_COMBINATIONS:
                raise ValueError(
                    f"{ARGUMENT}: its tables together stand for more than {MAX_COMBINATIONS:,} combinations of leaves; "
                    "list fewer, or name the same hierarchies in all tables"
                )
            number = number[..., None] * size + np.arange(size)
        found.append(number.ravel())
    return [np.asarray(part) for part in np.unravel_index(np.unique(np.concatenate(found)), shape)]


def _raveled(parts: Sequence[IntArray], shape: tuple[int, ...]) -> IntArray:
    return np.asarray(np.ravel_multi_index(tuple(parts), shape), dtype=np.int64)


def described_table(description: Mapping[str, Any]) -> pa.Table:
    """The table that `Impossible.described` describes."""
    columns = zip(*description["rows"], strict=True)
    return pa.table({name: list(column) for name, column in zip(description["columns"], columns, strict=True)})


def read_impossible(given: Any, sides: Sequence[Attribute]) -> tuple[Impossible, ...]:
    """The tables that were given: one, or a list of them.

    Args:
        given: see `tallytree.Product`.
        sides: the hierarchies of the product, the areas first.

    Raises:
        ValueError: a column that is no level of an attribute, fewer than two attributes, no rows, a null, a row that
            names what the hierarchies do not have, or too many combinations.
        TypeError: no table.
    """
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        return (_read(given, sides),)
    # Texts in a list may be a private column: messages show none of them, as of a list of files.
    return tuple(_read([each] if isinstance(each, str) else each, sides) for each in given)


def _read(given: Any, sides: Sequence[Attribute]) -> Impossible:
    source = locate(given, ARGUMENT, public=True)
    names = list(column_names(source, ARGUMENT))
    known = {column: side for side, each in enumerate(sides) for column in each.columns}
    strangers = [name for name in names if name not in known]
    levels = ", ".join(column for side in sides for column in side.columns)
    if strangers:
        raise ValueError(
            f"{ARGUMENT}: {len(strangers)} of its {len(names)} columns are no levels; its columns must be levels of "
            f"the attributes: {levels}"
        )
    about = sorted({known[name] for name in names})
    if len(about) < 2:
        raise ValueError(
            f"{ARGUMENT}: it names levels of one attribute; name those of two or more ({levels}), or leave a value "
            "that nobody has out of the attribute's hierarchy"
        )
    rows = read_public(source, names, ARGUMENT)
    if rows.num_rows == 0:
        raise ValueError(f"{ARGUMENT}: the table has no rows; list the combinations, or leave it out")
    table = pa.table({name: text_column(rows, name, ARGUMENT) for name in names})
    # Levels have any name, and columns are added: those of levels begin with a space.
    found = table.rename_columns([f" {name}" for name in names])
    found = found.append_column("row", pa.array(np.arange(found.num_rows)))
    times = found.group_by(found.column_names[:-1]).aggregate([("row", "max"), ("row", "count")])
    again = times.filter(pc.greater(times.column("row_count"), 1)).column("row_max")
    if len(again):
        raise ValueError(f"{ARGUMENT}: row {pc.min(again).as_py() + 1} repeats another one; list a combination once")
    paths = {side: _leaf_paths(sides[side], side, names) for side in about}
    combinations = np.ones(found.num_rows)
    for side in about:
        combinations *= _leaves_of_rows(found, paths[side], sides[side])
    if combinations.sum() > MAX_COMBINATIONS:
        raise ValueError(f"{ARGUMENT}: it stands for more than {MAX_COMBINATIONS:,} combinations of leaves; list fewer")
    for each in paths.values():
        found = found.join(each, keys=[name for name in each.column_names if name[0] == " "], join_type="inner")
    columns = [f"leaf{side}" for side in about]
    leaves = found.select(columns).group_by(columns).aggregate([]).sort_by([(name, "ascending") for name in columns])
    return Impossible(table, tuple(about), leaves)


def _leaf_paths(side: Attribute, number: int, names: Sequence[str]) -> pa.Table:
    """The labels of every leaf in the columns that are named, and its number."""
    labels = side.hierarchy.leaf_table().columns[-len(side.columns) :]
    columns = {f" {name}": each for name, each in zip(side.columns, labels, strict=True) if name in names}
    return pa.table({**columns, f"leaf{number}": np.arange(side.hierarchy.n_leaves, dtype=np.int64)})


def _leaves_of_rows(found: pa.Table, paths: pa.Table, side: Attribute) -> FloatArray:
    """How many leaves of a side each row stands for: float64 (rows,).

    Raises:
        ValueError: a row stands for none.
    """
    *keys, leaf = paths.column_names
    counted = found.join(paths.group_by(keys).aggregate([(leaf, "count")]), keys=keys, join_type="left outer")
    number = np.zeros(found.num_rows)
    number[counted.column("row").to_numpy()] = pc.fill_null(counted.column(f"{leaf}_count"), 0).to_numpy()
    if not number.all():
        what = f"a combination of {', '.join(key[1:] for key in keys)}" if keys[1:] else f"a label of {keys[0][1:]!r}"
        raise ValueError(
            f"{ARGUMENT}: row {int(np.argmin(number)) + 1} names {what} that the hierarchy of {side.name!r} does not "
            "have; correct it, or leave the row out"
        )
    return number
