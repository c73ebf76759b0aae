"""Leaves for records whose parent is known and whose own area is not: one below every parent, in the public tree.

They are there whether or not a record needs them, so that their existence tells nothing of the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.hierarchy import UNKNOWN, Hierarchy
from tallytree.product import Product
from tallytree.trees.leaf_codes import PARENT, refuse_strangers


def with_unknown_leaves(tree: Any, on_unknown: Any) -> Any:
    """The tree with a leaf "unknown" below every parent, at every level from the named ones down.

    Args:
        tree: a hierarchy or a product; anything else comes back as it is, and so does a tree that has these leaves.
        on_unknown: a mapping from levels to `"parent"`; other values, and anything else, have no part.

    Raises:
        ValueError: a level that the tree does not have, or that has none above it; two levels of one hierarchy, or
            another rule for its last level; a label "unknown" that is used already.
    """
    wanted = [level for level, rule in on_unknown.items() if rule == PARENT] if isinstance(on_unknown, Mapping) else []
    if not wanted or not isinstance(tree, Hierarchy | Product):
        return tree
    if isinstance(tree, Hierarchy):
        refuse_strangers(on_unknown, tree.columns, "on_unknown", "a level")
        return _extended(tree, tree.columns, wanted, on_unknown, tree.columns)
    columns = [column for side in tree.attributes for column in side.columns]
    refuse_strangers(on_unknown, columns, "on_unknown", "a level")
    done: dict[tuple[int, int | None], Hierarchy] = {}  # sides of one hierarchy share it
    sides = {}
    for side in tree.attributes:
        found = _extended(side.hierarchy, side.columns, wanted, on_unknown, columns)
        sides[side.name] = done.setdefault((id(side.hierarchy), found.unknown_from), found)
    if all(sides[side.name] is side.hierarchy for side in tree.attributes):
        return tree
    given = [each.table for each in tree.impossible] or None
    named = {side.name: side.columns for side in tree.attributes}
    return Product(sides, tree.order if tree.ordered else None, named, given, tree.words)


def _extended(
    tree: Hierarchy, names: Sequence[str], wanted: Sequence[str], rules: Mapping[str, str], known: Sequence[str]
) -> Hierarchy:
    """A hierarchy with these leaves, if one of its columns, under these names, is wanted."""
    for level in wanted:
        if level not in known:
            raise ValueError(f"on_unknown: {level!r} is not a level; the levels are {', '.join(known)}")
    own = [level for level in rules if level in names and (level in wanted or level == names[-1])]
    if not set(own) & set(wanted):
        return tree
    if len(own) > 1:
        raise ValueError(f"on_unknown: {own[0]!r} and {own[1]!r} are levels of one hierarchy; name one of them")
    place = names.index(own[0]) + len(tree.columns) - len(names)
    if tree.unknown_from == place:
        return tree
    if place == 0 and not tree.root_added:
        raise ValueError(f"on_unknown: {own[0]!r} is the top level, so nothing is above it; name a level below")
    paths = [tree.ended_paths(len(tree.levels) - 1)]
    for column in range(place, len(tree.columns)):
        depth = column + (1 if tree.root_added else 0)
        if bool(pc.any(pc.equal(tree.labels[depth], UNKNOWN)).as_py()):
            raise ValueError(
                f"on_unknown: the label {UNKNOWN!r} is used at {tree.columns[column]!r} already, and is the one of "
                "records whose parent alone is known; give that label another name in the public table"
            )
        nodes = np.arange(tree.size(depth - 1), dtype=np.int64)
        last = tree.reach_at(depth)
        goes_on = np.ones(len(nodes), dtype=np.bool_)
        if last is not None:  # a branch that ends takes these records itself
            goes_on[tree.parent[depth][last <= column]] = False
        above = tree.path_table(depth - 1, nodes[goes_on])
        label = pa.repeat(pa.scalar(UNKNOWN, pa.large_string()), int(goes_on.sum()))
        paths.append(
            pa.table({name: above.column(name) if name in above.column_names else label for name in tree.columns})
        )
    extended = Hierarchy.from_table(pa.concat_tables(paths), tree.columns)
    called = {
        level: {language: _at_known(own, extended, level, place) for language, own in by_language.items()}
        for level, by_language in tree.names.items()
    }
    return replace(extended, integer_columns=tree.integer_columns, unknown_from=place, names=called, words=tree.words)


def _at_known(names: pa.Array, extended: Hierarchy, level: str, place: int) -> pa.Array:
    """The names of a level of the tree that was extended; null at the nodes that were added."""
    added = np.zeros(extended.size(extended.levels.index(level)), dtype=np.bool_)
    if extended.columns.index(level) >= place:
        labels = extended.labels[extended.levels.index(level)]
        added = pc.equal(labels, UNKNOWN).to_numpy(zero_copy_only=False)
    return names.take(pa.array(np.cumsum(~added) - 1, mask=added))
