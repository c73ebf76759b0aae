"""Combinations of attributes that no record can have, from public tables: cells that are 0 without being measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
        ValueError: a column that is no level of an attribute, fewer than two attributes, a level of the areas, no rows,
            a null, a row that names what the hierarchies do not have, or too many combinations.
        TypeError: no table.
    """
    if given is None:
        return ()
    tables = list(given) if isinstance(given, list | tuple) else [given]
    return tuple(_read(each, sides) for each in tables)


def _read(given: Any, sides: Sequence[Attribute]) -> Impossible:
    source = locate(given, ARGUMENT, public=True)
    names = list(column_names(source, ARGUMENT))
    known = {column: side for side, each in enumerate(sides) for column in each.columns}
    strangers = [name for name in names if name not in known]
    levels = ", ".join(column for side in sides[1:] for column in side.columns)
    if strangers:
        raise ValueError(
            f"{ARGUMENT}: {len(strangers)} of its {len(names)} columns are no levels; its columns must be levels of "
            f"the attributes: {levels}"
        )
    about = sorted({known[name] for name in names})
    if 0 in about:
        raise ValueError(
            f"{ARGUMENT}: it names the areas ({sides[0].name}); what is impossible must be so in every area, so name "
            f"levels of the attributes only: {levels}"
        )
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
