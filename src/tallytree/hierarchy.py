"""The public tree: levels root first, nodes numbered 0 … n−1 within their level.

`Tree` is all that mechanisms know of the public side; its methods take and return arrays of nodes. `Hierarchy`
holds such a tree in arrays; `tallytree.product.Product` crosses several without ever materialising the cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.sources.column_types import is_integer_column
from tallytree.sources.leaf_paths import decoded, ended, filled_branches, number_level, refuse_ends_beside_nodes
from tallytree.sources.parent_lists import leaves_of_parents
from tallytree.sources.public_names import (
    ByLanguage,
    columns_of_names,
    names_from_above,
    names_of_nodes,
    names_of_values,
    shown_names,
    texts_by_language,
)
from tallytree.sources.reading import read_public, refuse_repeated
from tallytree.support.arrays import IntArray, concatenate_ranges, numbered
from tallytree.support.markup import html_table
from tallytree.support.validate import safe_text, text

ROOT = "all"
"""The stored name of a root that was added above the supplied levels: in statements, and of files."""

TOTAL = "total"
"""The name by which people ask for what a root, or a table without levels, has, and are shown it."""

UNKNOWN = "unknown"
"""The label of the leaf, and of the nodes above it, for records of which only the parent is known."""

MAX_LEVELS = 100
"""Levels of a hierarchy. Each is a table of its own in a release."""

QUALITY = "quality"
"""The column with the verdict of a number. Tables have it where they are read, and not in the files of a release."""

RESERVED = ("count", "size", "groups", "value", "values", "std_dev", "ci_lower", "ci_upper", "tail_count",
            "tail_std_dev", "tail_ci_lower", "tail_ci_upper", "typical_error", "unbiased", "listed_from",
            "probability_zero", QUALITY)  # fmt: skip
"""Columns of the published tables, which a level may therefore not be named."""


class Levels(Protocol):
    """Levels of public nodes with paths; implemented by `Tree`, and by the tables of `tallytree.tables`.

    `depth` counts levels from 0. Node numbers are int64 and unique within their level.
    """

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, root first."""

    def size(self, depth: int) -> int:
        """How many nodes the level has."""

    def path_columns(self, depth: int) -> tuple[str, ...]:
        """Names of the columns that say which node a row is about."""

    def path_table(self, depth: int, nodes: IntArray) -> pa.Table:
        """The path of each of `nodes`: one row per node, one string column per name of `path_columns`."""

    def coded_paths(self, depth: int, nodes: IntArray) -> pa.Table:
        """The same as dictionaries: distinct labels, in the order in which they first appear, and a code per row."""


class Tree(Levels, Protocol):
    """A public tree, level by level; implemented by `Hierarchy` and `Product`. Level 0 is the root."""

    @property
    def enumerated(self) -> bool:
        """Whether a published table lists every node, zeros included (otherwise the non-zero ones)."""

    def possible(self, depth: int) -> int:
        """How many nodes of a level records can be in; the others are no children, and are 0."""

    def children(self, depth: int, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """The children of `nodes`, family after family, at `depth` + 1; and the offsets where families begin."""

    def child_counts(self, depth: int, nodes: IntArray) -> IntArray:
        """How many children each of `nodes` has."""

    def parents(self, depth: int, nodes: IntArray) -> IntArray:
        """The parent, at `depth` − 1, of each of `nodes`."""

    def only_children(self, depth: int) -> bool:
        """Whether no node of the level has a sibling, so that the level repeats the one above."""


@dataclass(frozen=True, eq=False, repr=False)
class Hierarchy:
    """A public tree from a table of its leaves, held as flat arrays per level.

    The children of a node are numbered one after the other, so a family is a slice. Siblings keep the order in which
    they first appear in the table of leaves: the hierarchy's own order, in which every published table is written.

    Attributes:
        levels: names, root first; the first is `"all"` where a root was added.
        columns: the supplied level names; an added root has no column.
        labels: per level, the nodes' own labels (a node is identified by its path, so labels may repeat).
        parent: per level, int64 (n,), the parent's number in the level above (empty for the root).
        first_child: per level but the last, int64 (n + 1,): node i's children are first_child[i] … first_child[i+1]−1.
        integer_columns: those supplied levels that the table of leaves has as integers; their labels are decimal text.
        reach: int64 (leaves,), how many of the supplied levels the branch of each leaf has; None where all have all. A
            branch that ends above the last level repeats its last label, one node a level, down to a leaf
            (decision 76).
        unknown_from: the first supplied level, from 0, from which every parent has a last child "unknown", in which
            records count whose own label is not known; None without. See `tallytree.trees.unknown_leaves`.
        names: by supplied level that has names, and by language (`""` where none is named): what its nodes are called,
            large_string (n,), null for a node without a name. Labels are the codes, and the keys; names change no
            number.
        words: by supplied level, and by language: what the level itself is called.
    """

    levels: tuple[str, ...]
    columns: tuple[str, ...]
    labels: tuple[pa.Array, ...]
    parent: tuple[IntArray, ...]
    first_child: tuple[IntArray, ...]
    integer_columns: tuple[str, ...] = ()
    reach: IntArray | None = None
    unknown_from: int | None = None
    names: Mapping[str, Mapping[str, pa.Array]] = field(default_factory=dict)
    words: Mapping[str, ByLanguage] = field(default_factory=dict)

    @classmethod
    def from_table(
        cls,
        table: Any,
        levels: Sequence[str],
        *,
        finer: bool = False,
        labels: Mapping[str, str | ByLanguage] | None = None,
        words: Mapping[str, str | ByLanguage] | None = None,
    ) -> Hierarchy:
        """Build the tree from a public table of its leaves, or of what lies below them.

        Args:
            table: a path or glob (Parquet, CSV), a pandas, polars or pyarrow table, or a DuckDB relation; with the
                columns named in `levels`, holding text or integers, and one row for each leaf. Where a branch ends
                above the last level, the levels below are null (or empty cells): a city state without counties.
            levels: the columns, top level first. Where the first has more than one value, a root `"all"` is added.
            finer: the table is one of smaller areas, so that rows with the same path are one leaf: a table of counties
                is one of states too, by the levels down to the state. To be asked for, since a table of records in the
                place of the public one would otherwise pass for it.
            labels: names beside codes: by level, the column of the table that has the names of its nodes, or such
                columns by language, of which the first is shown where no language is asked for:
                `{"county": {"en": "name_en", "de": "name_de"}}`. Names may repeat. A node without a name (null) is
                shown by its code.
            words: by level, what people read in place of the level's name, or such texts by language.

        Raises:
            ValueError: no rows, a missing column, a null at the top level or above a label, or beside other nodes below
                the same parent; a leaf listed twice and not `finer`, a level named twice or like a column of the
                published tables; several names of one node; names, or words, of no level.
            TypeError: a key column holds neither text nor integers, a column of names no text, or `table` is not a
                table.

        Example:
            >>> import pyarrow as pa, tallytree as tt
            >>> areas = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]})
            >>> tt.Hierarchy.from_table(areas, levels=["state", "county"])
            Hierarchy(all: 1, state: 2, county: 3)
        """
        names = check_level_names(levels, "levels")
        known = f"the levels {', '.join(names)}"
        wanted = texts_by_language(labels, "labels", names, known)
        called = texts_by_language(words, "words", names, known)
        of_names = [column for columns in wanted.values() for column in columns.values()]
        rows = read_public(table, [*dict.fromkeys((*names, *of_names))], "hierarchy")
        if rows.num_rows == 0:
            raise ValueError("hierarchy: the table of leaves is empty; give one row per leaf")
        texts, reach_of_row = filled_branches(rows, names)
        codes: list[pa.Array] = []
        parents: list[IntArray] = []
        named: dict[str, dict[str, pa.Array]] = {}
        node_of_row = np.zeros(rows.num_rows, dtype=np.int64)
        for place, (level, column) in enumerate(zip(names, texts, strict=True)):
            codes_here, parent_here, node_of_row = number_level(column, node_of_row)
            codes.append(codes_here)
            parents.append(parent_here)
            refuse_ends_beside_nodes(reach_of_row <= place, node_of_row, parent_here, level)
            if level in wanted:
                of_level = {
                    language: names_of_nodes(rows, each, node_of_row, codes_here, level)
                    for language, each in wanted[level].items()
                }
                repeated = np.unique(node_of_row[reach_of_row <= place])
                above = named.get(names[place - 1], {})
                named[level] = names_from_above(of_level, above, parent_here, repeated) if place else of_level
        if not finer and len(parents[-1]) < rows.num_rows:
            _, first, times = np.unique(node_of_row, return_index=True, return_counts=True)
            refuse_repeated(
                times,
                {name: text.take(pa.array(first)) for name, text in zip(names, texts, strict=True)},
                "hierarchy: the leaf",
                "list every leaf once, or, if this is a public table of smaller areas, set finer to true",
            )
        root_added = len(parents[0]) > 1
        if root_added:
            if any(name.casefold() == ROOT for name in names):
                raise ValueError(
                    f"levels: {ROOT!r} is the name of the root that is added above several top nodes; rename the level"
                )
            codes.insert(0, pa.array([ROOT], pa.large_string()))
            parents.insert(0, np.empty(0, dtype=np.int64))
        else:
            parents[0] = np.empty(0, dtype=np.int64)
        sizes = [len(each) for each in codes]
        first_child = tuple(
            np.searchsorted(below, np.arange(n + 1)).astype(np.int64)
            for n, below in zip(sizes[:-1], parents[1:], strict=True)
        )
        shown = (ROOT, *names) if root_added else names
        integers = tuple(name for name in names if is_integer_column(rows, name))
        reach = np.empty(sizes[-1], dtype=np.int64)
        reach[node_of_row] = reach_of_row
        short = None if (reach == len(names)).all() else reach
        return cls(shown, names, tuple(codes), tuple(parents), first_child, integers, short, names=named, words=called)

    @classmethod
    def from_parents(
        cls,
        table: Any,
        *,
        child: str,
        parent: str,
        level: str,
        labels: str | ByLanguage | None = None,
        words: Mapping[str, str | ByLanguage] | None = None,
    ) -> Hierarchy:
        """Build the tree from a public list of areas and their parents: one row for each area.

        Levels are ordered by the parents: the areas without one are the top level. An area without children above the
        last level is a branch that ends there. Siblings keep the order of their rows.

        Args:
            table: as for `from_table`.
            child: the column with the area's code, which is its label. No other area has it, at any level.
            parent: the column with the code of the area above; null at the top level.
            level: the column with the name of the area's level, such as `county`.
            labels: the column with the name of the area, or such columns by language; see `from_table`.
            words: see `from_table`.

        Raises:
            ValueError: an area listed twice, or with two parents; a parent that is not listed; areas in a circle; an
                area whose parent is not one level above; levels whose order the parents do not tell; null codes.
            TypeError: a column holds neither text nor integers, or `table` is not a table.

        Example:
            >>> import pyarrow as pa, tallytree as tt
            >>> codes, above = ["BE", "BY", "M", "N"], [None, None, "BY", "BY"]
            >>> areas = pa.table({"code": codes, "in": above, "kind": ["state", "state", "county", "county"]})
            >>> tt.Hierarchy.from_parents(areas, child="code", parent="in", level="kind")
            Hierarchy(all: 1, state: 2, county: 3)
        """
        asked = {"child": child, "parent": parent, "level": level}
        for argument, name in asked.items():
            text(name, argument, "the name of a column")
        if len(set(asked.values())) < 3:
            raise ValueError("child: of child, parent and level two name the same column; name three columns")
        names = columns_of_names(labels)
        rows = read_public(table, [*dict.fromkeys((*asked.values(), *names.values()))], "hierarchy")
        leaves, columns = leaves_of_parents(rows, child, parent, level, names)
        return cls.from_table(leaves, [*columns], labels=columns if names else None, words=words)

    @classmethod
    def from_values(
        cls,
        level: str,
        values: Sequence[str | int],
        *,
        labels: Mapping[Any, str | ByLanguage] | None = None,
        words: str | ByLanguage | None = None,
    ) -> Hierarchy:
        """A hierarchy of one level, such as the values of an attribute.

        Args:
            level: its name.
            values: texts or integers, in the order in which they are published. They are public: never those that the
                records happen to have.
            labels: names beside codes: by value, its name, or its names by language: `{"emp": "Employed"}`. A value
                without one is shown as it is.
            words: what people read in place of the level's name, or such texts by language.

        Raises:
            ValueError: no value, a null, or one that is listed twice; a name of something that is no value.
            TypeError: neither text nor integers, or no list; names, or words, that are no text.

        Example:
            >>> import tallytree as tt
            >>> tt.Hierarchy.from_values("sex", ["f", "m", "unknown"])
            Hierarchy(all: 1, sex: 3)
        """
        if isinstance(values, str | bytes) or not isinstance(values, Sequence):
            raise TypeError(f"values: {safe_text(values)} must be a list of texts or integers")
        strange = next((value for value in values if isinstance(value, bool) or not isinstance(value, str | int)), None)
        if strange is not None or len({isinstance(value, str) for value in values}) > 1:
            raise TypeError("values: they must be all texts or all integers")
        if len(set(values)) < len(values):
            first: dict[str | int, int] = {}
            twice = next(place for place, value in enumerate(values, 1) if first.setdefault(value, place) != place)
            raise ValueError(  # not shown: in a column that is given in place of values, one is soon repeated
                f"values: the values {first[values[twice - 1]]} and {twice} of the list are the same; list each once"
            )
        listed = pa.array(values, pa.string() if values and isinstance(values[0], str) else pa.int64())
        made = cls.from_table(
            pa.table({text(level, "level", "the name of a level"): listed}),
            [level],
            words=None if words is None else {level: words},
        )
        named = texts_by_language(labels, "labels", values, "the values")
        if not named:
            return made
        return replace(made, names={level: names_of_values(values, named)})

    def __repr__(self) -> str:
        """The levels with their numbers of nodes."""
        return f"Hierarchy({describe_levels(self)})"

    def _repr_html_(self) -> str:
        """The levels as a table, for notebooks."""
        every = range(len(self.levels))
        first = [", ".join(str(label)[:40] for label in self.shown(depth)[:3].to_pylist()) for depth in every]
        rows = zip(self.levels, map(self.size, every), first, strict=True)
        return html_table("Hierarchy", ("level", "nodes", "first labels"), rows)

    def possible(self, depth: int) -> int:
        """How many nodes of a level records can be in: all."""
        return self.size(depth)

    @property
    def enumerated(self) -> bool:
        """Published tables list every node."""
        return True

    @property
    def root_added(self) -> bool:
        """Whether the root is the added `"all"`, which has no column."""
        return len(self.columns) < len(self.levels)

    @property
    def n_leaves(self) -> int:
        """How many leaves the tree has."""
        return len(self.labels[-1])

    def size(self, depth: int) -> int:
        """How many nodes the level has."""
        return len(self.labels[depth])

    def shown(self, depth: int, language: str | None = None) -> pa.Array:
        """What people read in place of the labels of a level: large_string (n,).

        It is the name of a node; its label where it has none; and the name with the label in brackets where siblings
        would be shown alike. In the given language; where names are not in that, in the first that they are in.
        """
        names, parents = self.names.get(self.levels[depth], {}), self.parent[depth] if depth else None
        return shown_names(names, self.labels[depth].cast(pa.large_string()), parents, language)

    def children(self, depth: int, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """The children of `nodes`, family after family, and the offsets where families begin."""
        starts = self.first_child[depth][nodes]
        return concatenate_ranges(starts, self.first_child[depth][nodes + 1] - starts)

    def child_counts(self, depth: int, nodes: IntArray) -> IntArray:
        """How many children each of `nodes` has."""
        return self.first_child[depth][nodes + 1] - self.first_child[depth][nodes]

    def parents(self, depth: int, nodes: IntArray) -> IntArray:
        """The parent of each of `nodes`."""
        return self.parent[depth][nodes]

    def only_children(self, depth: int) -> bool:
        """Whether no node of the level has a sibling."""
        return depth > 0 and self.size(depth) == self.size(depth - 1)

    def path_columns(self, depth: int) -> tuple[str, ...]:
        """The supplied levels down to this one."""
        return self.columns[: depth + (0 if self.root_added else 1)]

    def path_table(self, depth: int, nodes: IntArray) -> pa.Table:
        """The path of each of `nodes`, one string column per supplied level."""
        return decoded(self.coded_paths(depth, nodes))

    def coded_paths(self, depth: int, nodes: IntArray) -> pa.Table:
        """The path of each of `nodes`, one dictionary per supplied level: its labels, and an int32 code per node."""
        columns: list[pa.Array] = []
        here, place = numbered(nodes, self.size(depth))  # rows of flows, or of sizes, repeat their nodes
        for level in range(depth, -1, -1):
            if not (level == 0 and self.root_added):
                labels, label_of_node = self._coded_labels[level]
                used, code = numbered(label_of_node[here], len(labels))
                codes = pa.array(code.astype(np.int32)[place])
                columns.append(pa.DictionaryArray.from_arrays(codes, labels.take(pa.array(used))))
            if level:
                here = self.parent[level][here]
        return pa.table(dict(zip(self.path_columns(depth), reversed(columns), strict=True)))

    @cached_property
    def _coded_labels(self) -> tuple[tuple[pa.Array, IntArray], ...]:
        """Per level its distinct labels, and the place of each node's label among them, int32 (n,)."""
        encoded = [labels.dictionary_encode() for labels in self.labels]
        return tuple((each.dictionary, each.indices.to_numpy()) for each in encoded)

    def reach_at(self, depth: int) -> IntArray | None:
        """How many supplied levels the branch of each node has, down to a level; None where all have all of these."""
        if self.reach is None:
            return None
        first = np.arange(self.size(depth), dtype=np.int64)
        for above in range(depth, len(self.levels) - 1):
            first = self.first_child[above][first]
        columns = len(self.path_columns(depth))
        reach = np.minimum(self.reach[first], columns)
        return None if (reach == columns).all() else reach

    def own_labels(self, depth: int) -> pa.Array:
        """The labels of a level, without those that a branch repeats below its end, or that were added as unknown."""
        reach, labels = self.reach_at(depth), self.labels[depth]
        column = len(self.path_columns(depth)) - 1
        if reach is not None:
            labels = labels.filter(pa.array(reach > column))
        if self.unknown_from is not None and column >= self.unknown_from:
            labels = labels.filter(pc.not_equal(labels, UNKNOWN))
        return labels

    def ended_paths(self, depth: int) -> pa.Table:
        """The paths of all nodes of a level as `from_table` takes them: null below the end of a branch."""
        paths = self.path_table(depth, np.arange(self.size(depth), dtype=np.int64))
        return ended(paths, self.reach_at(depth))

    def leaf_table(self) -> pa.Table:
        """The paths of all leaves in the hierarchy's order: row i is leaf i."""
        depth = len(self.levels) - 1
        return self.path_table(depth, np.arange(self.size(depth), dtype=np.int64))


def stored_level(given: str, root: str = ROOT) -> str:
    """The stored name of a level that somebody names: `"total"` is the root, whose name is `root`."""
    return root if given == TOTAL else given


def nodes_per_level(tree: Levels) -> dict[str, int]:
    """The levels, root first, with their numbers of nodes."""
    return {level: tree.size(depth) for depth, level in enumerate(tree.levels)}


def describe_levels(tree: Tree) -> str:
    """The levels with their numbers of nodes, for a `repr`."""
    return ", ".join(f"{level}: {size}" for level, size in nodes_per_level(tree).items())


def check_level_names(names: Sequence[str], argument: str) -> tuple[str, ...]:
    """The names as a tuple, once they can be columns and file names beside each other.

    Raises:
        TypeError: not a sequence of strings.
        ValueError: none, empty, repeated (capitals do not count), too long, or a column of the published tables.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"{argument}: {safe_text(names)} must be a list of column names, top level first")
    names = list(names)
    strange = next((type(name).__name__ for name in names if not isinstance(name, str)), None)
    if strange is not None:
        raise TypeError(f"{argument}: it must be a list of column names, top level first, but {strange} is in it")
    for name in names:
        text(name, argument)
    if not names:
        raise ValueError(f"{argument}: at least one column name is needed, top level first")
    if len(names) > MAX_LEVELS:
        raise ValueError(f"{argument}: {len(names)} columns are more than the {MAX_LEVELS} levels that a tree may have")
    first: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if name == "" or len(name.encode()) > 200:
            raise ValueError(f"{argument}: {name[:200]!r} must have between 1 and 200 bytes")
        if first.setdefault(name.casefold(), place) != place:
            # Not shown: in a column that is given in place of names, a value is soon repeated.
            raise ValueError(
                f"{argument}: the names {first[name.casefold()]} and {place} of the list are the same (capitals do not "
                "count); give each level its own name"
            )
        if name.casefold() == TOTAL:
            raise ValueError(f"{argument}: {name!r} is what all areas together are called; rename the level")
        if name.casefold() in RESERVED:
            raise ValueError(f"{argument}: {name!r} is a column of the published tables; rename the level")
    return tuple(names)
