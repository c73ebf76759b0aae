"""From the path columns of a published table back to node numbers, for hierarchies and products alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree._compute.arrays import IntArray
from tallytree.hierarchy import Hierarchy, Levels
from tallytree.product import Product
from tallytree.tables import TableLayout


def node_numbers(tree: Levels, depth: int, paths: pa.Table, rows: int) -> IntArray:
    """Which node of a level each row is about: int64 (rows,), −1 for a row that is about none.

    Args:
        tree: the public tree; or tables, whose cells are nodes.
        depth: the level.
        paths: its path columns, as strings or dictionaries of strings; other columns do not matter.
        rows: how many rows it has, which a table without columns (of a root that was added) does not know.
    """
    if isinstance(tree, Hierarchy):
        return nodes_by_labels(tree, depth, [paths.column(name) for name in tree.path_columns(depth)], rows)
    if not isinstance(tree, Product | TableLayout):
        raise TypeError(f"tree: {type(tree).__name__} must be a tallytree.Hierarchy or a tallytree.Product")
    nodes = np.zeros(rows, dtype=np.int64)
    unknown = np.zeros(rows, dtype=np.bool_)
    for hierarchy, columns, n_columns in tree.parts(depth):
        if not columns:  # not refined yet
            continue
        below = len(hierarchy.levels) - 1 - (n_columns - len(columns))
        part = nodes_by_labels(hierarchy, below, [paths.column(name) for name in columns], rows)
        unknown |= part < 0
        nodes = nodes * hierarchy.size(below) + part
    nodes[unknown] = -1
    return nodes


def nodes_by_labels(hierarchy: Hierarchy, depth: int, columns: Sequence[pa.ChunkedArray], rows: int) -> IntArray:
    """The nodes of a level by their lowest labels, one column per level down to it; −1 for none."""
    nodes = np.zeros(rows, dtype=np.int64)
    first = depth + 1 - len(columns)
    if first == 0:  # the root has a column
        nodes[_places(columns[0], hierarchy.labels[0].cast(pa.large_string())) < 0] = -1
        columns, first = columns[1:], 1
    for level, column in enumerate(columns, start=first):
        labels = hierarchy.labels[level].cast(pa.large_string()).dictionary_encode()
        codes = _places(column, labels.dictionary)
        # A node is known by its parent and its label; both together are one key.
        width = len(labels.dictionary)
        keys = hierarchy.parent[level] * width + labels.indices.to_numpy()
        order = np.argsort(keys)
        wanted = nodes * width + codes
        place = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
        found = (nodes >= 0) & (codes >= 0) & (keys[order[place]] == wanted)
        nodes = np.where(found, order[place], -1)
    return nodes


def _places(column: pa.ChunkedArray, labels: pa.Array) -> IntArray:
    """The place of each row's label among distinct labels, −1 for none; labels of a dictionary are looked up once."""
    if not pa.types.is_dictionary(column.type):
        return _found(column, labels)
    parts = [np.zeros(0, dtype=np.int64)]
    for chunk in column.chunks:
        place_of_code = np.append(_found(pa.chunked_array([chunk.dictionary]), labels), -1)  # the last one: of a null
        parts.append(place_of_code[chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy()])
    return np.concatenate(parts)


def _found(texts: pa.ChunkedArray, labels: pa.Array) -> IntArray:
    """The place of each text among distinct labels, −1 for none."""
    places = pc.index_in(texts.cast(pa.large_string()), labels)
    return np.asarray(places.fill_null(-1).to_numpy(), dtype=np.int64)
