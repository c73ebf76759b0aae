"""The hierarchies of a tree with their columns in the published tables, and from path columns back to nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.hierarchy import Hierarchy, Levels
from tallytree.product import Product
from tallytree.sources.public_names import ByLanguage, in_language
from tallytree.support.arrays import IntArray
from tallytree.tables import TableLayout


@dataclass(frozen=True)
class TreePlace:
    """A node of a side.

    Attributes:
        named: how many of the side's columns name it; 0 is all of the side.
        node: its number within its level; 0 for all.
    """

    named: int = 0
    node: int = 0


ALL = TreePlace()


@dataclass(frozen=True, eq=False)
class TreeSide:
    """One hierarchy of a tree, and its columns in the published tables; a hierarchy is a tree with one side.

    Attributes:
        name: of the attribute, such as `origin`; of a tree that is a hierarchy, `area`.
        hierarchy: the public tree.
        columns: the names of its columns in the published tables, top first. An added root has none.
        words: by column, and by the name of the side, what people read in its place, by language.
        language: of what people read; None for the first that there is.
    """

    name: str
    hierarchy: Hierarchy
    columns: tuple[str, ...]
    words: Mapping[str, ByLanguage] = field(default_factory=dict)
    language: str | None = None

    @cached_property
    def root(self) -> TreePlace:
        """All of the side: its only top node, where that has a column."""
        return TreePlace(1, 0) if self.size(1) == 1 and len(self.columns) == len(self.hierarchy.levels) else ALL

    def depth(self, named: int) -> int:
        """The level of the hierarchy that the first `named` columns go down to; 0 is the root."""
        return max(len(self.hierarchy.levels) - 1 - (len(self.columns) - named), 0)

    def named_in(self, columns: Collection[str]) -> int:
        """How many columns of the side are among these."""
        return sum(column in columns for column in self.columns)

    def size(self, named: int) -> int:
        """How many nodes are named by the first `named` columns."""
        return self.hierarchy.size(self.depth(named)) if named else 1

    def nodes(self, columns: Sequence[pa.ChunkedArray], rows: int) -> IntArray:
        """The nodes that the side's first columns name: int64 (rows,), −1 for a row that names none."""
        return nodes_by_labels(self.hierarchy, self.depth(len(columns)), columns, rows)

    def ancestors(self, nodes: IntArray, named: int, wanted: int) -> IntArray:
        """The ancestors, by the first `wanted` columns, of nodes that the first `named` columns name."""
        if not wanted:
            return np.zeros_like(nodes)
        for depth in range(self.depth(named), self.depth(wanted), -1):
            nodes = self.hierarchy.parents(depth, nodes)
        return nodes

    def spread(self, nodes: IntArray, named: int, wanted: int) -> tuple[IntArray, IntArray]:
        """The first node, and the one after the last, that `wanted` columns name below nodes that `named` name."""
        first, stop = nodes, nodes + 1
        for depth in range(self.depth(named), self.depth(wanted)):
            first, stop = (self.hierarchy.first_child[depth][each] for each in (first, stop))
        return first, stop

    def leaves(self, nodes: IntArray, named: int) -> IntArray:
        """How many leaves lie below each node."""
        first, stop = self.spread(nodes, named, len(self.columns))
        return stop - first

    def paths(self, nodes: IntArray, named: int) -> pa.Table:
        """The labels of nodes that the first `named` columns name, as strings, under the side's columns."""
        columns = self.hierarchy.path_table(self.depth(named), nodes).columns
        return pa.table(dict(zip(self.columns[:named], columns[len(columns) - named :], strict=True)))

    def word(self, name: str) -> str:
        """What people read in place of the name of a column, or of the side."""
        return str(in_language(self.words[name], self.language)) if name in self.words else name

    def level_word(self, named: int) -> str:
        """What people read in place of the name of a level, where it is known which side is meant."""
        column, level = self.columns[named - 1], self.hierarchy.levels[self.depth(named)]
        own = self.hierarchy.words.get(level, {"": level})
        return self.word(column) if column in self.words else str(in_language(own, self.language))

    def shown(self, rows: pa.Table) -> pa.Table:
        """Rows with what people read in place of the labels in the side's columns: strings."""
        for column, nodes in self._named_nodes(rows):
            texts = self.hierarchy.shown(self.depth(self.columns.index(column) + 1), self.language)
            place = rows.column_names.index(column)
            rows = rows.set_column(place, column, _taken(texts, nodes))
        return rows

    def with_names(self, rows: pa.Table, *, brief: bool = False) -> pa.Table:
        """Rows with a column for the names of each level that has any, and each language, after that of the labels.

        It is named like that of the labels, with `_name` and the language after it. In brief there is one column, with
        the names of the last level, in the first language that these have.
        """
        taken = {name.casefold() for name in rows.column_names}
        for column, nodes in self._named_nodes(rows)[-1 if brief else 0 :]:
            place = rows.column_names.index(column) + 1
            for language, texts in [*self._names(column).items()][: 1 if brief else None]:
                name = f"{column}_name_{language}" if language else f"{column}_name"
                while name.casefold() in taken:
                    name += "_"
                rows = rows.add_column(place, name, _taken(texts, nodes))
                taken.add(name.casefold())
                place += 1
        return rows

    def _names(self, column: str) -> Mapping[str, pa.Array]:
        """The names of the nodes that a column has, by language."""
        return self.hierarchy.names.get(self.hierarchy.levels[self.depth(self.columns.index(column) + 1)], {})

    def _named_nodes(self, rows: pa.Table) -> list[tuple[str, IntArray]]:
        """The columns of some rows whose nodes have names, and the node of each row; −1 where it names none."""
        present = [*takewhile(lambda column: column in rows.column_names, self.columns)]
        return [
            (column, self.nodes([rows.column(each) for each in present[: place + 1]], rows.num_rows))
            for place, column in enumerate(present)
            if self._names(column)
        ]

    def above(self, place: TreePlace, named: int) -> TreePlace:
        """The place, named by `named` columns, that a place lies in; the place itself where it is no deeper."""
        if place.named <= named:
            return place
        return TreePlace(named, int(self.ancestors(np.array([place.node]), place.named, named)[0]))

    def below(self, place: TreePlace, named: int) -> slice:
        """The nodes, of the level that `named` columns go down to, that lie in a place: they follow each other."""
        first, stop = self.spread(np.array([place.node]), place.named, named)
        return slice(int(first[0]), int(stop[0]))

    def path(self, place: TreePlace) -> tuple[str, ...]:
        """The labels of a place, top first; none for all."""
        return tuple(column[0].as_py() for column in self.paths(np.array([place.node]), place.named).columns)


def _taken(texts: pa.Array, nodes: IntArray) -> pa.Array:
    """The texts of nodes; null of −1."""
    return texts.take(pa.array(nodes, mask=nodes < 0))


def sides_of(tree: Levels | None, language: str | None = None) -> tuple[TreeSide, ...]:
    """The hierarchies of a tree, the first most significant in the numbers of nodes; none without a tree.

    Raises:
        TypeError: something that is no tree, nor tables over one.
    """
    if tree is None:
        return ()
    if isinstance(tree, Hierarchy):
        return (TreeSide("area", tree, tree.columns, tree.words, language),)
    if not isinstance(tree, Product | TableLayout):
        raise TypeError(f"tree: {type(tree).__name__} must be a tallytree.Hierarchy or a tallytree.Product")
    product = tree.product if isinstance(tree, TableLayout) else tree
    return tuple(
        TreeSide(each.name, each.hierarchy, tuple(each.columns), product.words, language) for each in product.attributes
    )


def with_names(rows: pa.Table, tree: Levels | None, *, brief: bool = False) -> pa.Table:
    """Rows of a table with columns of names beside the labels; see `TreeSide.with_names`."""
    for side in sides_of(tree):
        rows = side.with_names(rows, brief=brief)
    return rows


def hierarchies_by_level(tree: Levels | None) -> dict[str, Hierarchy]:
    """By the name of a level that boundaries may be given for, the public tree that has it."""
    return {column: side.hierarchy for side in reversed(sides_of(tree)) for column in side.hierarchy.columns}


def named_at(tree: Levels, depth: int) -> tuple[int, ...]:
    """Per side, how many of its columns name a node of a level."""
    if isinstance(tree, Product | TableLayout):
        return tuple(len(columns) for _, columns, _ in tree.parts(depth))
    return (len(tree.path_columns(depth)),)


def node_numbers(tree: Levels, depth: int, paths: pa.Table, rows: int) -> IntArray:
    """Which node of a level each row is about: int64 (rows,), −1 for a row that is about none.

    Args:
        tree: the public tree; or tables, whose cells are nodes.
        depth: the level.
        paths: its path columns, as strings or dictionaries of strings; other columns do not matter.
        rows: how many rows it has, which a table without columns (of a root that was added) does not know.
    """
    nodes, unknown = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.bool_)
    for side, named in zip(sides_of(tree), named_at(tree, depth), strict=True):
        if named:
            part = side.nodes([paths.column(name) for name in side.columns[:named]], rows)
            unknown |= part < 0
            nodes = nodes * side.size(named) + part
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


def named_nodes(side: TreeSide, named: int, labels: pa.Table) -> IntArray:
    """The nodes, of the level that `named` columns go down to, with labels in some of these columns: int64 (rows,).

    −1 for a row that names none, and −2 for one that names several.
    """
    nodes = np.arange(side.size(named), dtype=np.int64)
    own, wanted = row_codes([side.paths(nodes, named), labels], labels.column_names)
    times = np.bincount(own, minlength=int(wanted.max(initial=-1)) + 1)
    node_of = np.full(len(times), -1, dtype=np.int64)
    node_of[own] = nodes
    node_of[times > 1] = -2
    return node_of[wanted]


def row_codes(tables: Sequence[pa.Table], names: Sequence[str]) -> list[IntArray]:
    """A number for each row of several tables, int64 (rows,) each: equal where the columns `names` are."""
    rows = [table.num_rows for table in tables]
    codes = np.zeros(sum(rows), dtype=np.int64)
    for name in names:
        texts = [chunk for table in tables for chunk in table.column(name).cast(pa.large_string()).chunks]
        column = pa.chunked_array(texts, pa.large_string()).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes * (len(column.dictionary) + 1) + column.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return np.split(codes, np.cumsum(rows)[:-1])


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
