"""The leaves of a hierarchy as a table that records are joined with: a column per column of the path, and `leaf`.

A label is text. Where the records hold integers, the labels that are how an integer is written are compared as
integers: no integer is turned into text, and an integer never meets another label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.hierarchy import Hierarchy
from tallytree.private.tabulate.key_types import CANONICAL
from tallytree.private.tabulate.records import Records, enumerate_names
from tallytree.private.tabulate.session import Session
from tallytree.product import LeafKey

_ALL_FIT = 18
"""Characters of an integer that certainly fits into 64 bits."""


def joined_leaves(
    db: Session, records: Records, keys: Sequence[LeafKey]
) -> Iterator[tuple[LeafKey, Sequence[str], range, str]]:
    """Make the leaves of each hierarchy a table of the session, and say how records are joined with it.

    Args:
        db: where statements run; the ith table is `leaves{i}`.
        records: their columns.
        keys: the columns that say where a record belongs.

    Yields:
        The key, the columns of its path, the places of these among the columns of all paths, and the join.
    """
    first = 0
    for i, (key, present) in enumerate(zip(keys, records.keys, strict=True)):
        path = range(first, first + len(present))
        types = [[layout.types[k] for layout in records.layouts] for k in path]
        table, are_integers = leaf_table(key.hierarchy, key.leaf_columns(present), types)
        db.register(f"leaves{i}", table)
        yield key, present, path, f"LEFT JOIN leaves{i} ON {same_path(i, path, are_integers)}"
        first = path.stop


def leaf_table(
    hierarchy: Hierarchy, labels: Sequence[pa.ChunkedArray], types: Sequence[Sequence[pa.DataType]]
) -> tuple[pa.Table, list[bool]]:
    """The leaves with the columns c0, c1, … and `leaf`, their numbers; row i is leaf i.

    Args:
        hierarchy: the tree.
        labels: the labels of all leaves, for each column of the path.
        types: for each column of the path, its types in the records' files.

    Returns:
        The table, and for each column of the path whether its labels are integers (NULL where no integer is written
        so).
    """
    are_integers = [_compared_as_integers(kinds, column) for kinds, column in zip(types, labels, strict=True)]
    columns = [_integers(column) if is_ else column for is_, column in zip(are_integers, labels, strict=True)]
    kind = np.int32 if hierarchy.n_leaves < 2**31 else np.int64  # narrow rows are grouped and sorted faster
    return pa.table({**dict(enumerate_names(columns)), "leaf": np.arange(hierarchy.n_leaves, dtype=kind)}), are_integers


def same_path(i: int, path: range, are_integers: Sequence[bool]) -> str:
    """The condition under which the columns of a path are those of a row of the ith table of leaves."""
    return " AND ".join(
        f"{f'k{k}' if is_integer else f'CAST(k{k} AS VARCHAR)'} = leaves{i}.c{c}"
        for c, (k, is_integer) in enumerate(zip(path, are_integers, strict=True))
    )


def _compared_as_integers(kinds: Sequence[pa.DataType], labels: pa.ChunkedArray) -> bool:
    values = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    fits = all(pa.types.is_integer(kind) and kind != pa.uint64() for kind in values)
    # Of labels that are longer, some integers of 64 bits would be lost.
    return fits and bool(pc.all(pc.less_equal(pc.utf8_length(labels), _ALL_FIT)).as_py())


def _integers(labels: pa.ChunkedArray) -> pa.ChunkedArray:
    canonical = pc.match_substring_regex(labels, CANONICAL)
    return pc.if_else(canonical, labels, pa.scalar(None, labels.type)).cast(pa.int64())
