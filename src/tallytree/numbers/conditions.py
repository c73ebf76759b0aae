"""What a sum over tables is of: conditions on attributes, labels of an attribute as numbers, and areas."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.product import Attribute, Product
from tallytree.release.view.areas import ARGUMENT, SummedAreas, areas_of_nodes, read_areas
from tallytree.sources.locate import locate
from tallytree.sources.reading import column_names
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.validate import safe_text, text

Weights = Callable[[Sequence[int]], FloatArray]
"""The weights of the cells of an area in some sums, (sums, cells), where so many columns of the attributes are refined.
"""


Conditions = list[list[tuple[int, list[str]]]]
"""Per attribute, the levels that a condition is on (as columns refined), and the labels that meet it."""


def columns_needed(*conditions: Conditions) -> list[int]:
    """Per attribute, how many columns the conditions need refined."""
    return [max((depth for each in side for depth, _ in each), default=0) for side in zip(*conditions, strict=True)]


def weights_of(product: Product, conditions: Sequence[Conditions]) -> Weights:
    """The weights of sums of the cells that meet conditions: 1 for these."""

    def weights(refined: Sequence[int]) -> FloatArray:
        return np.stack([_mask(product.attributes[1:], refined, each) for each in conditions]).astype(np.float64)

    return weights


def conditions_of(product: Product, where: Mapping[str, Any] | None, argument: str = "where") -> Conditions:
    """What a condition says of each attribute.

    Raises:
        ValueError: no column of an attribute, or a label that is none of its level's.
        TypeError: no mapping, or labels that are neither text nor integers.
    """
    conditions: Conditions = [[] for _ in product.attributes[1:]]
    if where is None:
        return conditions
    if not isinstance(where, Mapping):
        raise TypeError(
            f'{argument}: {safe_text(where)} must be a mapping from attributes\' columns, such as {{"sex": "f"}}'
        )
    for column, wanted in where.items():
        number, side, depth = _attribute_with(product, column, argument)
        values = list(wanted) if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
        if not values or any(isinstance(value, bool) or not isinstance(value, str | int) for value in values):
            raise TypeError(f"{argument}: {column!r} must be given a label or a list of labels, texts or integers")
        labels = set(labels_of(side, depth, depth).to_pylist())
        for value in map(str, values):
            if value not in labels:
                raise ValueError(f"{argument}: {value[:80]!r} is no label of {column!r}; see the table of that level")
        conditions[number].append((depth, [str(value) for value in values]))
    return conditions


def _attribute_with(product: Product, column: Any, argument: str) -> tuple[int, Attribute, int]:
    """The number of the attribute that has a column, the attribute, and how many of its columns are refined there.

    Raises:
        ValueError: none has it.
    """
    for number, side in enumerate(product.attributes[1:]):
        if isinstance(column, str) and column in side.columns:
            return number, side, side.columns.index(column) + 1
    known = ", ".join(each for side in product.attributes[1:] for each in side.columns)
    shown = repr(column[:80]) if isinstance(column, str) else safe_text(column)
    raise ValueError(f"{argument}: {shown} is no column of an attribute; these are {known or 'none'}")


def _mask(sides: Sequence[Attribute], refined: Sequence[int], conditions: Conditions) -> BoolArray:
    """Which cells of an area meet all conditions, where so many columns of the attributes are refined."""
    mask = np.ones(1, dtype=np.bool_)
    for side, depth, of_side in zip(sides, refined, conditions, strict=True):
        meets = np.ones(side.size(depth), dtype=np.bool_)
        for column, labels in of_side:
            meets &= np.isin(np.array(labels_of(side, depth, column).to_pylist(), dtype=object), labels)
        mask = (mask[:, None] & meets[None, :]).ravel()
    return mask


def labels_of(side: Attribute, refined: int, column: int) -> pa.Array:
    """One of the columns of all nodes where so many columns are refined."""
    return side.path_arrays(refined, np.arange(side.size(refined), dtype=np.int64))[column - 1]


def chosen_areas(
    product: Product, table: Any, by: str | None, weight: str | None = None
) -> tuple[SummedAreas | None, dict[str, pa.Array]]:
    """The areas that sums are over, None for all, and the columns that name them.

    They are those of a table, of the hierarchy whose columns it has; without a table all nodes of the level `by`.

    Raises:
        ValueError: no level of that name; a table with columns of several hierarchies, or as `read_areas`.
        TypeError: as `read_areas`.
    """
    if table is None:
        if weight is not None:
            raise ValueError(f"weight: {weight!r} must be a column of areas; give a table of areas that has it")
        if by is None:
            return None, {}
        name = text(by, "by", "the name of a column")
        side = next((each for each in product.attributes if name in each.columns), None)
        if side is None:
            known = ", ".join(column for each in product.attributes for column in each.columns)
            raise ValueError(
                f"by: {name!r} is no level of the hierarchies, which are {known}; or give a table of areas"
            )
        refined = side.columns.index(name) + 1
        return areas_of_level(side, refined), paths_of_level(side, refined)
    columns = [column for each in product.attributes for column in each.columns]
    source = locate(table, ARGUMENT, [*columns, *filter(None, [by, weight])], public=True)
    there = {*column_names(source, ARGUMENT)}
    named = [each for each in product.attributes if there & {*each.columns}]
    several = [each for each in named if there & {*each.columns} != {by}]
    if len(several) > 1:
        raise ValueError(
            f"{ARGUMENT}: it has columns of {several[0].name!r} and of {several[1].name!r}; name nodes of one of them, "
            "and leave other columns out"
        )
    areas = read_areas(tree_of([*several, *named, product.attributes[0]][0]), source, by, weight)
    return areas, {} if by is None else {by: areas.names}


def tree_of(side: Attribute) -> Product:
    """A hierarchy as a product of its own."""
    return Product({side.name: side.hierarchy}, [side.name] * len(side.columns), {side.name: side.columns})


def areas_of_level(side: Attribute, refined: int) -> SummedAreas:
    """All nodes of a level of a hierarchy, each an area of its own."""
    nodes = np.arange(side.size(refined), dtype=np.int64)
    return areas_of_nodes(tree_of(side), refined, nodes, nodes)


def paths_of_level(side: Attribute, refined: int) -> dict[str, pa.Array]:
    """The path columns of all nodes of a level of a hierarchy."""
    nodes = np.arange(side.size(refined), dtype=np.int64)
    return dict(zip(side.columns, side.path_arrays(refined, nodes), strict=False)) if refined else {}


_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
_RANGE = re.compile(r"(\d+) ?[-–] ?(\d+)")


@dataclass(frozen=True, eq=False)
class Classes:
    """The values of an attribute, ascending.

    Attributes:
        side: which attribute, from 0.
        refined: how many of its columns are refined at the labels' level.
        low: float64 (classes,), where each class begins.
        high: float64 (classes,), where it ends; equal to `low` for a value.
        of: int64 (nodes,), the class of each node of the level.
    """

    side: int
    refined: int
    low: FloatArray
    high: FloatArray
    of: IntArray

    @property
    def middle(self) -> FloatArray:
        """The middle of each class."""
        return (self.low + self.high) / 2

    def of_cells(self, sides: tuple[Attribute, ...], refined: tuple[int, ...]) -> IntArray:
        """The class of each cell of an area, where so many columns of the attributes are refined: int64 (cells,)."""
        numbers = np.zeros(1, dtype=np.int64)
        for number, (side, depth) in enumerate(zip(sides, refined, strict=True)):
            classes = np.zeros(side.size(depth), dtype=np.int64)
            if number == self.side:
                nodes = np.arange(side.size(depth), dtype=np.int64)
                for at in range(depth, self.refined, -1):
                    nodes = side.parents(at, nodes)
                classes = self.of[nodes]
            numbers = (numbers[:, None] + classes[None, :]).ravel()
        return numbers


def classes_of(product: Product, attribute: Any, values: Mapping[str, Any] | None) -> Classes:
    """The values that the labels of an attribute stand for.

    Raises:
        ValueError: no column of an attribute; a label without a value; classes that overlap.
        TypeError: no text, or values that are no numbers or pairs.
    """
    if attribute is None:
        known = ", ".join(column for side in product.attributes[1:] for column in side.columns)
        raise ValueError(f"attribute: None is given; name one of the columns {known or '(there are none)'}")
    name = text(attribute, "attribute", "the name of a column")
    number, side, refined = _attribute_with(product, name, "attribute")
    if values is not None and not isinstance(values, Mapping):
        raise TypeError(f'values: {safe_text(values)} must be a mapping from labels, such as {{"85+": (85, 100)}}')
    labels = labels_of(side, refined, refined).to_pylist()
    meanings = {str(label): value for label, value in (values or {}).items()}
    strange = next((label for label in meanings if label not in labels), None)
    if strange is not None:
        raise ValueError(f"values: {strange[:80]!r} is no label of {name!r}; leave it out")
    pairs = [_pair(name, label, meanings) for label in labels]
    order = sorted(set(pairs))
    for first, second in pairwise(order):
        if second[0] < first[1] or second[0] == first[0]:
            raise ValueError(f"values: the classes {first} and {second} of {name!r} overlap; give each label its own")
    code = {pair: number for number, pair in enumerate(order)}
    low, high = np.array(order, dtype=np.float64).T
    return Classes(number, refined, low, high, np.array([code[pair] for pair in pairs], dtype=np.int64))


def _pair(attribute: str, label: str, meanings: Mapping[str, Any]) -> tuple[float, float]:
    """Where the class of a label begins and ends."""
    if label in meanings:
        value = meanings[label]
        pair = tuple(value) if isinstance(value, list | tuple) else (value, value)
        if len(pair) != 2 or any(isinstance(end, bool) or not isinstance(end, int | float) for end in pair):
            raise TypeError(f"values: {label[:80]!r} must be given a number, or a pair (from, to)")
        if not all(map(math.isfinite, pair)) or pair[0] > pair[1]:
            raise ValueError(f"values: {label[:80]!r} is given {pair}, which must be finite and ascend")
        return float(pair[0]), float(pair[1])
    if _NUMBER.fullmatch(label):
        return float(label), float(label)
    ends = _RANGE.fullmatch(label)
    if ends and int(ends[1]) <= int(ends[2]):
        return float(ends[1]), float(ends[2]) + 1
    raise ValueError(
        f"values: the label {label[:80]!r} of {attribute!r} is no number and no range; say what it means, such as "
        f'values={{"{label[:20]}": (85, 100)}}'
    )
