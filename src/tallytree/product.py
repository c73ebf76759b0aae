"""The cross of several hierarchies, refined one attribute at a time: origin/destination trees and their like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import ROOT, Hierarchy, check_level_names, describe_levels
from tallytree.sources.leaf_paths import decoded
from tallytree.sources.public_names import ByLanguage, texts_by_language
from tallytree.support.arrays import IntArray, concatenate_ranges
from tallytree.support.markup import html_table
from tallytree.support.validate import safe_text, text
from tallytree.trees.impossible import ImpossibleNodes, read_impossible

MAX_PRODUCT_CELLS = 2**62
"""Node numbers are 64-bit; a bit is kept free so that arithmetic on them cannot wrap."""


class Product:
    """The cross of several hierarchies; a tree that is never materialised.

    A node is one node of each attribute's hierarchy. Its number is their mixed-radix combination, the first attribute
    most significant. The root crosses everything with everything; each step of `order` then refines one attribute by
    one supplied level. Origin/destination trees (Boninsegna and Silvestri 2025, section 3) are products of two
    hierarchies in alternating order.

    Without an `order` it is no tree: it says which hierarchies the tables of `tallytree.release_tables` are made of.

    Args:
        hierarchies: name of each attribute and its hierarchy.
        order: the attribute refined at each step; each attribute as often as it has columns. None for tables.
        columns: per attribute, the names of its columns, top first. They name the columns of the records, of the
            released tables, and the levels. The column of a top level with a single value may be left out. Without
            `columns` an attribute has the level names of its hierarchy. Where one of these is also a column of another
            attribute, or `"all"`, the name of the root, all columns of that attribute are named
            `"<attribute>_<level>"`. Capitals do not count.
        impossible: combinations that no record can have, such as ages under 15 with an employment, or trips from a zone
            to itself: a public table, or a list of tables, whose columns are levels of two or more attributes. The
            areas are one of them. Their cells are published as 0, and get no noise. A record in one is treated as one
            outside the hierarchies (`on_unknown`). A label stands for all nodes that have it; name the levels above it
            too where these are several. Name only what is impossible by definition, by a source that does not depend on
            the records. What no record happens to have is private.
        words: by column, or by attribute, what people read in place of its name, or such texts by language:
            `{"o_municipality": "homes"}`. Columns that are named as the levels of their hierarchy have its words.

    Raises:
        ValueError: an order that names an attribute too often, too rarely or that does not exist; column names that
            repeat; more cells than 64-bit numbers can address; impossible combinations that the hierarchies do not
            have, or that leave nothing; words of what is neither a column nor an attribute.
        TypeError: something that is not a `Hierarchy`, or no table; words that are no text.

    Example:
        >>> import pyarrow as pa, tallytree as tt
        >>> towns = tt.Hierarchy.from_table(pa.table({"town": ["A", "B"]}), levels=["town"])
        >>> sexes = tt.Hierarchy.from_table(pa.table({"sex": ["f", "m"]}), levels=["sex"])
        >>> tt.Product({"home": towns, "patient": sexes}, order=["home", "patient"])
        Product(all: 1, town: 2, sex: 4)
        >>> tt.Product({"origin": towns, "destination": towns}, order=["destination", "origin"])
        Product(all: 1, destination_town: 2, origin_town: 4)
        >>> tt.Product({"home": towns, "patient": sexes})
        Product(home: town 2; patient: sex 2)
    """

    def __init__(
        self,
        hierarchies: Mapping[str, Hierarchy],
        order: Sequence[str] | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
        impossible: Any = None,
        words: Mapping[str, str | ByLanguage] | None = None,
    ) -> None:
        if not isinstance(hierarchies, Mapping):
            raise TypeError(
                f"hierarchies: {type(hierarchies).__name__} must be a mapping from attributes to hierarchies, such as "
                '{"sex": sexes}'
            )
        if not hierarchies:
            raise ValueError("hierarchies: a product needs at least one hierarchy")
        if not isinstance(columns, Mapping | None):
            raise TypeError(f"columns: {safe_text(columns)} must be a mapping from attributes to lists of column names")
        named = _column_names(hierarchies, columns or {})
        self.attributes = tuple(Attribute(name, hierarchies[name], named[name]) for name in hierarchies)
        position = {attribute.name: i for i, attribute in enumerate(self.attributes)}
        self.ordered = order is not None
        order = () if order is None else order
        if self.ordered:
            _check_order(order, self.attributes)
        self._refined_attribute = tuple(position[name] for name in order)
        self._refined = refined = np.zeros((len(order) + 1, len(self.attributes)), dtype=np.int64)
        refined[np.arange(1, len(order) + 1), list(self._refined_attribute)] = 1
        refined.cumsum(axis=0, out=refined)
        steps = enumerate(self._refined_attribute)
        names = [self.attributes[each].columns[refined[step, each]] for step, each in steps]
        self.levels = (ROOT, *names)  # of the root alone without an order
        if self.size(len(order)) >= MAX_PRODUCT_CELLS:
            raise ValueError(f"hierarchies: {self.size(len(order))} cells are more than 64 bits number; drop a level")
        self.impossible = read_impossible(impossible, self.attributes)
        self._never: ImpossibleNodes | None = None
        if self.ordered and self.impossible:
            self._never = ImpossibleNodes.of(self.impossible, self.attributes, refined.tolist())
        known = {column: side.hierarchy.words.get(column) for side in self.attributes for column in side.columns}
        shown = f"the columns {', '.join(known)} and the attributes {', '.join(hierarchies)}"
        self.words = {column: texts for column, texts in known.items() if texts}
        self.words |= texts_by_language(words, "words", [*known, *hierarchies], shown)

    def __repr__(self) -> str:
        """The levels with their numbers of nodes; without an order, those of each attribute."""
        impossible = [f"impossible: {sum(each.table.num_rows for each in self.impossible)}"] if self.impossible else []
        if self.ordered:
            return f"Product({'; '.join([describe_levels(self), *impossible])})"
        levels = [[f"{column} {side.size(i)}" for i, column in enumerate(side.columns, 1)] for side in self.attributes]
        sides = [f"{side.name}: {', '.join(each)}" for side, each in zip(self.attributes, levels, strict=True)]
        return f"Product({'; '.join([*sides, *impossible])})"

    def _repr_html_(self) -> str:
        """The levels of every attribute as a table, for notebooks."""
        rows = [
            (side.name, column, side.size(depth))
            for side in self.attributes
            for depth, column in enumerate(side.columns, 1)
        ]
        order = f"Refined in the order {', '.join(self.order)}." if self.ordered else "Without an order: for tables."
        return html_table("Product", ("attribute", "level", "nodes"), rows, order)

    def with_attribute(self, name: str, values: Sequence[str]) -> Product:
        """This product without an order, and a further attribute after the others, of one level with these values.

        Raises:
            ValueError: an attribute or a column has that name already.
        """
        hierarchies = {side.name: side.hierarchy for side in self.attributes}
        hierarchies |= {name: Hierarchy.from_values(name, values)}
        columns = {side.name: side.columns for side in self.attributes} | {name: (name,)}
        if len(hierarchies) == len(self.attributes):
            raise ValueError(f"hierarchies: {name!r} is an attribute already; give it another name")
        made = Product(hierarchies, columns=columns, words=self.words)
        made.impossible = self.impossible  # its sides are those of the attributes before
        return made

    @property
    def enumerated(self) -> bool:
        """Published tables list the non-zero nodes only."""
        return False

    @property
    def order(self) -> tuple[str, ...]:
        """The attribute that is refined at each step; empty without an order."""
        return tuple(self.attributes[attribute].name for attribute in self._refined_attribute)

    def parts(self, depth: int) -> tuple[tuple[Hierarchy, tuple[str, ...], int], ...]:
        """Per attribute, most significant first: its hierarchy, its columns down to this level, and how many in all."""
        return tuple(
            (attribute.hierarchy, attribute.columns[:refined], len(attribute.columns))
            for attribute, refined in zip(self.attributes, self._refined[depth], strict=True)
        )

    def size(self, depth: int) -> int:
        """How many nodes the level has (a Python integer, which cannot wrap)."""
        size = 1
        for attribute, refined in zip(self.attributes, self._refined[depth], strict=True):
            size *= attribute.size(int(refined))
        return size

    def possible(self, depth: int) -> int:
        """How many nodes of a level records can be in."""
        return self.size(depth) - (0 if self._never is None else self._never.size(depth))

    def children(self, depth: int, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """The children of `nodes`, family after family, and the offsets where families begin.

        Nodes that are impossible are no children. Which these are is public, and what has an order is worked on from
        the root down, so nothing is measured of them, and they are 0.
        """
        stride, radix, refined = self._step(depth)
        attribute = self.attributes[self._refined_attribute[depth]]
        rest, below = np.divmod(nodes, stride)
        above, part = np.divmod(rest, radix)
        first_child = attribute.first_child(refined)
        counts = first_child[part + 1] - first_child[part]
        parts, offsets = concatenate_ranges(first_child[part], counts)
        radix_below = attribute.size(refined + 1)
        children = (np.repeat(above * radix_below, counts) + parts) * stride + np.repeat(below, counts)
        if self._never is None:
            return children, offsets
        possible = self._never.are_possible(depth + 1, children)
        return children[possible], np.append(0, np.cumsum(possible))[offsets]

    def child_counts(self, depth: int, nodes: IntArray) -> IntArray:
        """How many children each of `nodes` has."""
        stride, radix, refined = self._step(depth)
        first_child = self.attributes[self._refined_attribute[depth]].first_child(refined)
        part = (nodes // stride) % radix
        counts = first_child[part + 1] - first_child[part]
        return counts if self._never is None else counts - self._never.among_children(depth, nodes)

    def parents(self, depth: int, nodes: IntArray) -> IntArray:
        """The parent of each of `nodes`."""
        stride, radix, refined = self._step(depth - 1)
        attribute = self.attributes[self._refined_attribute[depth - 1]]
        rest, below = np.divmod(nodes, stride)
        above, part = np.divmod(rest, attribute.size(refined + 1))
        return (above * radix + attribute.parents(refined + 1, part)) * stride + below

    def nodes_of_table(self, refined: Sequence[int], parts: Sequence[IntArray]) -> tuple[int, IntArray] | None:
        """The finest level that a table has, and the node of each of its rows there; None where it has none.

        Args:
            refined: per attribute, how many of its columns the table has.
            parts: for every attribute of which it has any, the node of each row.
        """
        depth = int(np.flatnonzero((self._refined <= np.asarray(refined)).all(axis=1))[-1])
        if depth == 0:
            return None
        number, given = np.zeros(len(parts[0]), dtype=np.int64), iter(parts)
        for attribute, fine, coarse in zip(self.attributes, refined, self._refined[depth].tolist(), strict=True):
            number *= attribute.size(coarse)
            if fine:
                number += attribute.ancestors(fine, coarse)[next(given)]
        return depth, number

    def refined_nodes(self, depth: int, nodes: IntArray) -> IntArray:
        """The node of the attribute that a level refines, of each of `nodes`: what siblings differ in."""
        stride, _, refined = self._step(depth - 1)
        return (nodes // stride) % self.attributes[self._refined_attribute[depth - 1]].size(refined + 1)

    def only_children(self, depth: int) -> bool:
        """Whether no node of the level has a sibling."""
        return depth > 0 and self.size(depth) == self.size(depth - 1)

    def path_columns(self, depth: int) -> tuple[str, ...]:
        """The columns refined down to this level, attribute by attribute, top first."""
        return tuple(
            column
            for attribute, refined in zip(self.attributes, self._refined[depth], strict=True)
            for column in attribute.columns[:refined]
        )

    def path_table(self, depth: int, nodes: IntArray) -> pa.Table:
        """The path of each of `nodes`, one string column per refined column."""
        return decoded(self.coded_paths(depth, nodes))

    def coded_paths(self, depth: int, nodes: IntArray) -> pa.Table:
        """The path of each of `nodes`, one dictionary per refined column."""
        columns = crossed_paths(self.attributes, self._refined[depth].tolist(), nodes)
        return pa.table(dict(zip(self.path_columns(depth), columns, strict=True)))

    def leaf_numbers(self, parts: Sequence[IntArray]) -> IntArray:
        """The leaf cell of each row of `parts`: per attribute, int64 leaf numbers of its own hierarchy."""
        number = np.zeros(len(parts[0]), dtype=np.int64)
        for attribute, part in zip(self.attributes, parts, strict=True):
            number = number * attribute.hierarchy.n_leaves + part
        return number

    def _step(self, depth: int) -> tuple[int, int, int]:
        """For the refinement below `depth`: stride and radix of the refined attribute, and how far it is refined."""
        attribute = self._refined_attribute[depth]
        sizes = [a.size(int(refined)) for a, refined in zip(self.attributes, self._refined[depth], strict=True)]
        stride = int(np.prod(sizes[attribute + 1 :], dtype=np.int64))
        return stride, sizes[attribute], int(self._refined[depth, attribute])


@dataclass(frozen=True, eq=False)
class Attribute:
    """One side of a product: its columns, refined in turn below a virtual root of one node."""

    name: str
    hierarchy: Hierarchy
    columns: tuple[str, ...]

    def size(self, refined: int) -> int:
        """How many nodes there are where so many columns are refined."""
        return self.hierarchy.size(self._depth(refined)) if refined else 1

    def first_child(self, refined: int) -> IntArray:
        """Where the children of each of these nodes begin: int64 (n + 1,)."""
        depth = self._depth(refined + 1)
        # Where the first column is the hierarchy's own root, the virtual root has that one child.
        return self.hierarchy.first_child[depth - 1] if depth else np.array([0, 1], dtype=np.int64)

    def parents(self, refined: int, nodes: IntArray) -> IntArray:
        """The parents of some nodes."""
        depth = self._depth(refined)
        return self.hierarchy.parent[depth][nodes] if depth else np.zeros(len(nodes), dtype=np.int64)

    def ancestors(self, fine: int, coarse: int) -> IntArray:
        """The node, where `coarse` columns are refined, above each node where `fine` are: int64 (n,)."""
        nodes = np.arange(self.size(fine), dtype=np.int64)
        for refined in range(fine, coarse, -1):
            nodes = self.parents(refined, nodes)
        return nodes

    def path_arrays(self, refined: int, nodes: IntArray) -> list[pa.Array]:
        """The refined columns of some nodes, as strings."""
        return [array.cast(pa.large_string()) for array in self.coded_path_arrays(refined, nodes)]

    def coded_path_arrays(self, refined: int, nodes: IntArray) -> list[pa.Array]:
        """The refined columns of some nodes, as dictionaries."""
        if refined == 0:
            return []
        arrays = self.hierarchy.coded_paths(self._depth(refined), nodes).columns
        return [array.chunk(0) for array in arrays[len(arrays) - refined :]]

    def _depth(self, refined: int) -> int:
        """The level of the hierarchy reached after `refined` columns."""
        return len(self.hierarchy.levels) - 1 - len(self.columns) + refined


def crossed_paths(attributes: Sequence[Attribute], refined: Sequence[int], nodes: IntArray) -> list[pa.Array]:
    """The refined columns of all attributes, as dictionaries.

    Args:
        attributes: most significant first.
        refined: how many columns of each are refined.
        nodes: the cells of their cross.
    """
    columns: list[pa.Array] = []
    rest = nodes
    for place in reversed(range(len(attributes))):
        part = rest
        if place:
            rest, part = np.divmod(rest, attributes[place].size(refined[place]))
        columns = attributes[place].coded_path_arrays(refined[place], part) + columns
    return columns


def check_columns(hierarchy: Hierarchy, columns: Sequence[str], argument: str) -> tuple[str, ...]:
    """The names as a tuple, once there is one for every level (of a top level with a single value there need not be).

    Raises:
        ValueError: another number of names.
        TypeError: a string, or no sequence.
    """
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise TypeError(f"{argument}: {safe_text(columns)} must be a list of column names, top level first")
    without_top = len(hierarchy.columns) - (0 if hierarchy.root_added else 1)
    if len(columns) not in (len(hierarchy.columns), max(without_top, 1)):
        raise ValueError(
            f"{argument}: it names {len(columns)} columns, but its hierarchy has the levels "
            f"{', '.join(hierarchy.columns)}; name one column for each, top level first"
        )
    return tuple(columns)


def _column_names(
    hierarchies: Mapping[str, Hierarchy], given: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """The columns of every attribute, top first: those given, else the level names, prefixed where they are ambiguous.

    Raises:
        ValueError: columns of an attribute that does not exist, too many or too few, or with names that cannot be used.
        TypeError: something that is not a `Hierarchy`, or not a list of names.
    """
    for name, hierarchy in hierarchies.items():
        text(name, "hierarchies", "the name of an attribute")
        if not isinstance(hierarchy, Hierarchy):
            raise TypeError(
                f"hierarchies: {safe_text(hierarchy)} is not a tallytree.Hierarchy; give a mapping from attributes to "
                "hierarchies"
            )
    if len(given) > len(hierarchies) and not set(given) & set(hierarchies):
        raise ValueError(
            f"columns: it names {len(given)} attributes, but the attributes are {', '.join(hierarchies)}; give the "
            "columns of these"
        )
    for name in given:
        if text(name, "columns", "the name of an attribute") not in hierarchies:
            raise ValueError(f"columns: {name!r} is not an attribute; the attributes are {', '.join(hierarchies)}")
    named = {name: hierarchy.columns for name, hierarchy in hierarchies.items()}
    for name, columns in given.items():
        argument = f"columns[{name!r}]"
        named[name] = check_level_names(check_columns(hierarchies[name], columns, argument), argument)
    own = [name for name in hierarchies if name not in given]
    # A prefixed name can be the name of another attribute's level, so look again until none is ambiguous.
    while ambiguous := [name for name in own if _clash(name, named) is not None]:
        for name in ambiguous:
            prefixed = [f"{name}_{level}" for level in hierarchies[name].columns]
            named[name] = check_level_names(prefixed, f"columns[{name!r}]")
        own = [name for name in own if name not in ambiguous]
    defaults_last = [*(name for name in named if name in given), *(name for name in named if name not in given)]
    for name in defaults_last:  # an argument that was given can be changed
        if (clash := _clash(name, named)) is not None:
            column, holder = clash
            raise ValueError(
                f"columns[{name!r}]: {column!r} is {holder} (capitals do not count); give each column a name of its own"
            )
    return named


def _clash(attribute: str, named: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """The first column of an attribute whose name is taken, and by what; None where there is none."""
    taken = {
        column.casefold(): f"a column of the attribute {other!r} too"
        for other, columns in named.items()
        for column in columns
        if other != attribute
    }
    taken[ROOT] = "the name of the root of a product"
    return next(((column, taken[column.casefold()]) for column in named[attribute] if column.casefold() in taken), None)


def _check_order(order: Sequence[str], attributes: tuple[Attribute, ...]) -> None:
    if isinstance(order, str) or not isinstance(order, Sequence):
        raise TypeError(f"order: {safe_text(order)} must be a list of attribute names, one per refinement step")
    names = [attribute.name for attribute in attributes]
    steps_wanted = sum(len(attribute.columns) for attribute in attributes)
    if len(order) > steps_wanted and not set(names) & {name for name in order if isinstance(name, str)}:
        raise ValueError(
            f"order: it has {len(order)} steps, but the attributes have {steps_wanted} columns; name each attribute "
            "once for each of its columns"
        )
    for name in order:
        if text(name, "order", "the name of an attribute") not in names:
            raise ValueError(f"order: {name!r} is not an attribute; the attributes are {', '.join(names)}")
    for attribute in attributes:
        steps, wanted = list(order).count(attribute.name), len(attribute.columns)
        if steps != wanted:
            raise ValueError(
                f"order: {attribute.name!r} is refined {steps} times but has {wanted} columns; name it {wanted} times"
            )
