"""A crosswalk: a public table of which areas became which, where areas were merged, split or renamed.

An area that the table does not list as old stays itself, if the later hierarchy has it too. So "y became a part of x"
is one row. The number of a new area is the sum of what became it. Where only a part of an old area did, its weight says
how much, and the sum is an estimate: nothing published tells how records lie within an area.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.release.view.areas import weights_in
from tallytree.release.view.sides import TreeSide, named_nodes, row_codes
from tallytree.sources.column_types import text_column
from tallytree.sources.locate import locate
from tallytree.sources.reading import column_names, read_public
from tallytree.support.arrays import BoolArray, FloatArray, IntArray

ARGUMENT, OLD, NEW, WEIGHT = "crosswalk", "old", "new", "weight"
SAME, RENAMED, MERGED, BY_WEIGHT, ONLY_EARLIER, ONLY_LATER = HOW = (
    "same",
    "renamed",
    "merged",
    "by weight",
    "only earlier",
    "only later",
)
"""How an area is compared, in the column `areas`."""
CLOSE = 1e-4
"""What the weights of an area may miss 1 by, since published ones are rounded; they are scaled to 1."""


@dataclass(frozen=True, eq=False)
class Mapped:
    """What the areas of one release are in the hierarchy of another one.

    Attributes:
        target: int64 (old areas,), the new area that is this one, the whole of it and nothing else; −1 elsewhere.
        gone: bool (old areas,), whether nothing becomes of the area.
        how: int8 (new areas,), the place in `HOW`; of areas that nothing becomes `ONLY_LATER`.
        summed: int64 (sums,), the new areas that are sums of old ones.
        old: int64 (rows,), the old areas in these sums.
        sums: int64 (rows,), the sum of each.
        weights: float64 (rows,), how much of each lies in it.
    """

    target: IntArray
    gone: BoolArray
    how: IntArray
    summed: IntArray
    old: IntArray
    sums: IntArray
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Crosswalk:
    """The rows of a crosswalk, for areas that are named by so many columns.

    Attributes:
        named: how many columns name an area.
        rows: the labels, strings, under the names of `old` and `new`.
        old: by the columns of the hierarchy, those with the labels of old areas.
        new: likewise.
        weights: float64 (rows,).
    """

    named: int
    rows: pa.Table
    old: dict[str, str]
    new: dict[str, str]
    weights: FloatArray

    @classmethod
    def read(cls, table: Any, side: TreeSide, named: int) -> Crosswalk:
        """The rows of a table.

        Raises:
            ValueError: no rows, missing columns, nulls, a row that is listed twice, or weights that are no shares.
            TypeError: not a table, or labels that are neither text nor integers.
        """
        columns = side.columns[:named]
        if not named:
            raise ValueError(f"{ARGUMENT}: the table that is compared has no areas; name one that has, or leave it out")
        present = column_names(locate(table, ARGUMENT, (), public=True), ARGUMENT)
        for finer in (f"{prefix}_{column}" for prefix in (OLD, NEW) for column in side.columns[named:]):
            if finer in present:
                raise ValueError(
                    f"{ARGUMENT}: its column {finer!r} is of a finer level than {columns[-1]!r}, which is compared; "
                    f"give a table of what became of {columns[-1]!r}, or compare the finer level"
                )
        old, new = ({**_named(prefix, columns, present)} for prefix in (OLD, NEW))
        used = [*old.values(), *new.values()]
        weighted = [WEIGHT] if WEIGHT in present else []
        rows = read_public(table, [*used, *weighted], ARGUMENT)
        if not rows.num_rows:
            raise ValueError(f"{ARGUMENT}: the table has no rows; leave it out if no area changed")
        labels = pa.table({name: text_column(rows, name, ARGUMENT, "give each row its areas") for name in used})
        weights = weights_in(rows, WEIGHT, ARGUMENT) if weighted else np.ones(rows.num_rows)
        made = cls(named, labels, old, new, weights)
        made._refuse_repeated()
        return replace(made, weights=weights / made._sums_of_weights(weighted=bool(weighted)))

    def _refuse_repeated(self) -> None:
        (codes,) = row_codes([self.rows], self.rows.column_names)
        again = np.ones(len(codes), dtype=np.bool_)
        again[np.unique(codes, return_index=True)[1]] = False
        if again.any():
            raise ValueError(f"{ARGUMENT}: {self._shown(int(np.argmax(again)))} is listed twice; list it once")

    def _sums_of_weights(self, *, weighted: bool) -> FloatArray:
        """What the weights of each row's old area add up to, about 1: float64 (rows,)."""
        (codes,) = row_codes([self.rows], [*self.old.values()])
        together = np.bincount(codes, self.weights)[codes]
        wrong = np.abs(together - 1) > CLOSE
        if wrong.any():
            row = int(np.argmax(wrong))
            shown = self._shown(row, self.old.values())
            if not weighted:
                raise ValueError(
                    f"{ARGUMENT}: {shown} became {int(together[row])} areas; give a column {WEIGHT!r} with the share "
                    "of it that is in each, such as that of its dwellings"
                )
            raise ValueError(
                f"{ARGUMENT}: the weights of {shown} add up to {together[row]:.9g}; list all areas that it became, "
                f"with weights that add up to 1 (±{CLOSE:g})"
            )
        return np.asarray(together, dtype=np.float64)

    def _shown(self, row: int, names: Any = None) -> str:
        columns = self.rows.column_names if names is None else names
        return ", ".join(f"{name}={self.rows.column(name)[row].as_py()!r}" for name in columns)

    def old_nodes(self, side: TreeSide) -> IntArray:
        """The old area of each row in a hierarchy, −1 for one that it does not have: int64 (rows,)."""
        return self._nodes(side, self.old)

    def new_nodes(self, side: TreeSide) -> IntArray:
        """The new area of each row: int64 (rows,).

        Raises:
            ValueError: one is not in the hierarchy.
        """
        nodes = self._nodes(side, self.new)
        self.refuse_unknown(nodes >= 0, self.new, "the later release")
        return nodes

    def refuse_unknown(self, known: BoolArray, columns: dict[str, str], where: str) -> None:
        """Refuse rows whose area is not known.

        Raises:
            ValueError: there is one.
        """
        if not known.all():
            raise ValueError(
                f"{ARGUMENT}: {self._shown(int(np.argmin(known)), columns.values())} is no {next(reversed(columns))} "
                f"of {where}; name areas of the table that is compared, as the release does"
            )

    def refuse_staying(self, side: TreeSide, several: BoolArray) -> None:
        """Refuse rows of an area that several releases have, and the last one too: in which of them did it change?

        Raises:
            ValueError: there is one.
        """
        stays = several & (self._nodes(side, self.old) >= 0)
        if stays.any():
            raise ValueError(
                f"{ARGUMENT}: {self._shown(int(np.argmax(stays)), self.old.values())} is also in the last release and "
                "in several before it, so that the table does not say when it changed; give a list of tables, one for "
                "each release but the last"
            )

    def _nodes(self, side: TreeSide, columns: dict[str, str]) -> IntArray:
        nodes = named_nodes(side, self.named, self.rows.select([*columns.values()]).rename_columns([*columns]))
        if (nodes == -2).any():
            shown = self._shown(int(np.argmax(nodes == -2)), columns.values())
            prefix = OLD if columns is self.old else NEW
            paths = ", ".join(f"{prefix}_{column}" for column in side.columns[: self.named])
            raise ValueError(f"{ARGUMENT}: {shown} names several areas; give the columns {paths} in place of {prefix}")
        return nodes

    def mapped(self, earlier: TreeSide, later: TreeSide) -> Mapped:
        """What the areas of an earlier hierarchy are in a later one."""
        olds, news = earlier.size(self.named), later.size(self.named)
        listed = self.old_nodes(earlier)
        old, new = listed[listed >= 0], self.new_nodes(later)[listed >= 0]
        weights = self.weights[listed >= 0]
        old, new, weights = old[weights > 0], new[weights > 0], weights[weights > 0]
        own = named_nodes(later, self.named, earlier.paths(np.arange(olds), self.named))
        stays = np.setdiff1d(np.flatnonzero(own >= 0), old)
        old, new = np.concatenate([old, stays]), np.concatenate([new, own[stays]])
        weights = np.concatenate([weights, np.ones(len(stays))])
        sources = np.bincount(new, minlength=news)
        parts = np.bincount(new, np.bincount(old)[old] > 1, minlength=news) > 0  # of an area that became several
        simple = (sources == 1) & ~parts
        single = simple[new]
        target = np.full(olds, -1, dtype=np.int64)
        target[old[single]] = new[single]
        how = np.where(parts, HOW.index(BY_WEIGHT), np.where(sources > 1, HOW.index(MERGED), HOW.index(RENAMED)))
        how[new[single & (own[old] == new)]] = HOW.index(SAME)
        how[sources == 0] = HOW.index(ONLY_LATER)
        summed, sums = np.unique(new[~single], return_inverse=True)
        gone = np.bincount(old, minlength=olds) == 0
        return Mapped(target, gone, how, summed, old[~single], sums.astype(np.int64), weights[~single])


def _named(prefix: str, columns: Sequence[str], present: Sequence[str]) -> dict[str, str]:
    """By the columns of a hierarchy, those of a crosswalk that have their labels.

    Raises:
        ValueError: it names no area of the level.
    """
    last = columns[-1]
    found = {column: f"{prefix}_{column}" for column in columns if f"{prefix}_{column}" in present}
    if last not in found and prefix in present:
        found[last] = prefix
    if last not in found:
        raise ValueError(
            f"{ARGUMENT}: it has the columns {', '.join(map(repr, present))}; it needs {OLD!r} and {NEW!r} with labels "
            f"of {last!r}, or {', '.join(repr(f'{prefix}_{column}') for column in columns)} for areas by their paths"
        )
    return found
