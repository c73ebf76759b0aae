"""Paths from the root to a node: the columns of a public table of leaves, and of published tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.sources.column_types import text_column, text_or_null
from tallytree.support.arrays import BoolArray, IntArray

_ENDS = (
    "leave the levels below the end of a branch null, in the one row that it has (state Berlin, county null), or give "
    "a list of areas and their parents to Hierarchy.from_parents; other rows need a label, so drop or fill those"
)


def decoded(table: pa.Table) -> pa.Table:
    """A table with plain strings in place of dictionaries of strings."""
    for place, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            texts = table.column(place).cast(pa.large_string())
            table = table.set_column(place, column.with_type(pa.large_string()), texts)
    return table


def ended(paths: pa.Table, reach: IntArray | None, columns: Sequence[str] | None = None) -> pa.Table:
    """Paths with nulls in the columns that the branch of a row does not reach, of all columns or of some."""
    if reach is None:
        return paths
    for place, name in enumerate(paths.column_names if columns is None else columns):
        column = decoded(paths.select([name])).column(0)
        paths = paths.set_column(place, name, pc.if_else(pa.array(reach > place), column, pa.scalar(None, column.type)))
    return paths


def filled_branches(rows: pa.Table, names: Sequence[str]) -> tuple[list[pa.Array], IntArray]:
    """The columns as text, with the last label of a branch repeated below its end; and how many each row has.

    Raises:
        ValueError: a null at the top level, or above a label.
    """
    texts = [text_column(rows, names[0], "hierarchy")]
    reach = np.full(rows.num_rows, len(names), dtype=np.int64)
    for place, name in enumerate(names[1:], 1):
        column = text_or_null(rows, name, "hierarchy").combine_chunks()
        there = column.is_valid().to_numpy(zero_copy_only=False)
        wrong = there & (reach < place)
        if wrong.any():
            raise ValueError(
                f"hierarchy: row {int(np.argmax(wrong)) + 1} has a label at {name!r}, but null (or an empty cell) at "
                f"{names[place - 1]!r} above it; {_ENDS}"
            )
        reach = np.where(there, reach, np.minimum(reach, place))
        texts.append(pc.coalesce(column, texts[-1]))
    return texts, reach


def refuse_ends_beside_nodes(ends: BoolArray, node_of_row: IntArray, parents: IntArray, level: str) -> None:
    """Refuse branches that end, by one row, and go on by another one.

    Raises:
        ValueError: there are such.
    """
    if not ends.any():
        return
    families = np.bincount(parents)[parents[node_of_row]]
    named = np.zeros(len(parents), dtype=np.bool_)
    named[node_of_row[~ends]] = True
    wrong = ends & ((families > 1) | named[node_of_row])
    if wrong.any():
        raise ValueError(
            f"hierarchy: row {int(np.argmax(wrong)) + 1} has null keys (or empty cells) at {level!r}, but other rows "
            f"have areas of that level below the same parent; {_ENDS}"
        )


def number_level(text: pa.Array, parent_of_row: IntArray) -> tuple[pa.Array, IntArray, IntArray]:
    """Number the nodes of one level: by parent, then by first appearance.

    Returns their labels, their parents, and each row's node.
    """
    encoded = text.dictionary_encode()
    label_of_row = encoded.indices.to_numpy().astype(np.int64)
    key = parent_of_row * len(encoded.dictionary) + label_of_row
    _, first_row, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.lexsort((first_row, parent_of_row[first_row]))
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    rows = first_row[order]
    return text.take(pa.array(rows)), parent_of_row[rows], number[inverse].astype(np.int64)
