"""Leaves by their codes alone: `leaf`, the column of codes; `on_unknown`, the leaf of unknown ones. All is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from tallytree.hierarchy import Hierarchy
from tallytree.support.validate import text

PARENT = "parent"
"""What `on_unknown` says of a level whose unknown codes count in the parent: see `tallytree.trees.unknown_leaves`."""


def codes_by_side(leaf: Any, sides: Mapping[str, str]) -> dict[str, str]:
    """The column with the leaf's own label, for those sides whose records have it in place of their path.

    Args:
        leaf: a mapping from sides to columns; or a column, which is that of the side whose last column it is.
        sides: their last columns by name.

    Raises:
        ValueError: an unknown side, or a column that is that of none, or would be that of two.
        TypeError: neither a column nor a mapping of columns.
    """
    if leaf is None:
        return {}
    if isinstance(leaf, Mapping):
        found = dict(leaf)
    else:
        text(leaf, "leaf", "the column with the codes of leaves, or a mapping of such columns by attribute")
        found = dict([(name, leaf) for name, last in sides.items() if last == leaf][:1])
        if not found:
            example = f"{{{next(iter(sides))!r}: {leaf!r}}}"
            raise ValueError(f"leaf: {leaf!r} is the last column of no attribute; give a mapping, such as {example}")
    refuse_strangers(found, [*sides], "leaf", "an attribute")
    for name, column in found.items():
        if text(name, "leaf", "the name of an attribute") not in sides:
            raise ValueError(f"leaf: {name!r} is not an attribute; the attributes are {', '.join(sides)}")
        text(column, "leaf", "the column with the codes of leaves")
    columns = [*{**sides, **found}.values()]
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise ValueError(f"leaf: {twice!r} would be the column of two attributes; each has a column of its own")
    return found


def others_by_level(on_unknown: Any, levels: Sequence[str]) -> Mapping[str, str]:
    """The label of the leaf for records outside a hierarchy, by its leaf level; none where `on_unknown` has none.

    Raises:
        ValueError: an unknown level, or none.
    """
    if not isinstance(on_unknown, Mapping):
        return {}
    if not on_unknown:
        raise ValueError('on_unknown: the mapping is empty; name a leaf level and a leaf, such as {"county": "other"}')
    others: dict[str, str] = {level: label for level, label in on_unknown.items() if label != PARENT}
    refuse_strangers(others, levels, "on_unknown", "a level of leaves")
    for level in others:
        if level not in levels:
            raise ValueError(
                f"on_unknown: {level!r} is not a level of leaves, which are {', '.join(levels)}; of a level above them "
                f"unknown labels count in the parent: {{{level!r}: {PARENT!r}}}"
            )
    return others


def refuse_strangers(given: Mapping[Any, Any], known: Sequence[str], argument: str, what: str) -> None:
    """Refuse several names of which none is known: these may be values of a private column, so none is shown.

    Raises:
        ValueError: it is so.
    """
    if len(given) > 1 and not any(name in known for name in given if isinstance(name, str)):
        raise ValueError(f"{argument}: none of its {len(given)} names is {what}; they are {', '.join(known)}")


def other_leaf(hierarchy: Hierarchy, label: str) -> int:
    """The number of the leaf with a label, in which records outside the hierarchy count.

    Raises:
        ValueError: there is none, or there are several.
    """
    found = np.flatnonzero(pc.equal(hierarchy.labels[-1], label).to_numpy(zero_copy_only=False))
    if len(found) != 1:
        how_many = f"{len(found)} leaves have" if len(found) else "no leaf has"
        raise ValueError(
            f"on_unknown: {how_many} the label {label!r} at {hierarchy.columns[-1]!r}; it needs one leaf of the public "
            "table, for records outside the hierarchy"
        )
    return int(found[0])


def require_unique_codes(hierarchy: Hierarchy) -> None:
    """Refuse codes that two leaves have: a record's code would not tell which one is meant.

    Raises:
        ValueError: naming both paths.
    """
    codes = hierarchy.labels[-1].dictionary_encode()
    if len(codes.dictionary) == len(codes):
        return
    places = codes.indices.to_numpy()
    twice = int(np.flatnonzero(np.bincount(places) > 1)[0])
    both = hierarchy.leaf_table().take(np.flatnonzero(places == twice)[:2]).to_pylist()
    paths = " and ".join(", ".join(f"{name}={label!r}" for name, label in path.items()) for path in both)
    raise ValueError(
        f"leaf: the code {codes.dictionary[twice].as_py()!r} is that of two leaves, {paths}; make the codes of the "
        "public table unique, or leave leaf out and give the records the columns of all levels"
    )
