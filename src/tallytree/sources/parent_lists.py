"""Public lists of areas and their parents, as tables of leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.sources.column_types import text_column, text_or_null

_ARGUMENT = "hierarchy"


def leaves_of_parents(
    rows: pa.Table, child: str, parent: str, level: str, names: Mapping[str, str]
) -> tuple[pa.Table, dict[str, dict[str, str]]]:
    """The table of leaves: a column for each level, top first, with null below an area that has no children.

    After these come columns of names, which the mapping names by level and language.

    Args:
        rows: one for each area.
        child: the column with the area's code.
        parent: the column with the code of the area above; null at the top level.
        level: the column with the name of the area's level.
        names: by language, the column with the area's name; empty without names.

    Raises:
        ValueError: see `tallytree.Hierarchy.from_parents`.
        TypeError: a column holds neither text nor integers.
    """
    if rows.num_rows == 0:
        raise ValueError(f"{_ARGUMENT}: the list of areas is empty; give one row per area")
    codes, kinds = text_column(rows, child, _ARGUMENT), text_column(rows, level, _ARGUMENT).dictionary_encode()
    above = text_or_null(rows, parent, _ARGUMENT)
    levels, level_of = kinds.dictionary.to_pylist(), kinds.indices.to_numpy().astype(np.int64)
    if set(names) & set(levels):
        raise ValueError(
            "labels: a key is a level of the list, which has one column of names for all levels; name that column, "
            'labels="name", or such columns by language, labels={"en": "name_en"}'
        )
    distinct = codes.dictionary_encode()
    if len(distinct.dictionary) < len(codes):
        first = np.unique(distinct.indices.to_numpy(), return_index=True)[1]
        twice = int(np.setdiff1d(np.arange(len(codes)), first)[0])
        _refuse(codes, twice, "is listed twice", "an area has one row and one parent, and codes repeat at no level")
    parents = pc.index_in(above, codes).fill_null(-1).to_numpy().astype(np.int64)
    orphan = above.is_valid().to_numpy() & (parents < 0)
    if orphan.any():
        _refuse(codes, int(np.argmax(orphan)), "has a parent that is not listed", "list the parent, or leave it null")
    has = np.flatnonzero(parents >= 0)
    pairs = np.unique(np.stack([level_of[parents[has]], level_of[has]], axis=1), axis=0).tolist()
    order = _ordered(len(levels), pairs)
    if order is None:
        raise ValueError(
            f"{_ARGUMENT}: its parents do not put the levels {', '.join(map(repr, levels[:20]))} in one order: there "
            "is a circle, or two levels lie side by side; each area's parent must be of the level above"
        )
    rank = np.argsort(order)[level_of]
    expected = np.where(parents >= 0, rank[parents] + 1, 0)
    if (rank != expected).any():
        place = int(np.argmax(rank != expected))
        level_above = "no area" if parents[place] < 0 else f"one of the level {levels[level_of[parents[place]]]!r}"
        _refuse(
            codes,
            place,
            f"of the level {levels[level_of[place]]!r} has {level_above} above it",
            f"its parent must be of the level {levels[order[rank[place] - 1]]!r}: list one between them"
            if rank[place]
            else "leave its parent null",
        )
    leaf = np.ones(len(codes), dtype=np.bool_)
    leaf[parents[has]] = False
    here = np.flatnonzero(leaf)
    paths = np.full((len(here), len(order)), -1, dtype=np.int64)
    for _ in order:
        known = np.flatnonzero(here >= 0)
        paths[known, rank[here[known]]] = here[known]
        here[known] = parents[here[known]]
    columns = [codes.take(pa.array(places, mask=places < 0)) for places in np.ascontiguousarray(paths.T)]
    leaves = pa.table(dict(zip([levels[i] for i in order], columns, strict=True)))
    of_levels: dict[str, dict[str, str]] = {}
    for place, name in enumerate(leaves.column_names):
        of_levels[name] = {language: f"{''.join(levels)} {place} {column}" for language, column in names.items()}
        for language, column in of_levels[name].items():
            row = paths[:, place]
            leaves = leaves.append_column(column, rows.column(names[language]).take(pa.array(row, mask=row < 0)))
    return leaves, of_levels


def _ordered(levels: int, pairs: Iterable[list[int]]) -> list[int] | None:
    """The levels, top first, where pairs of one and a level below it tell one order; else None."""
    left, order = {*range(levels)}, list[int]()
    remaining = [*pairs]
    while left:
        top = left - {below for _, below in remaining}
        if len(top) != 1:
            return None
        order += top
        left -= top
        remaining = [pair for pair in remaining if pair[0] not in top]
    return order


def _refuse(codes: pa.Array, row: int, what: str, remedy: str) -> NoReturn:
    raise ValueError(f"{_ARGUMENT}: row {row + 1}, the area {codes[row].as_py()[:80]!r}, {what}; {remedy}")
