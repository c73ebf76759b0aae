"""The labels of an attribute as numbers: values, or classes of values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tallytree.numbers.table_totals import labels_of
from tallytree.product import Attribute, Product
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.validate import safe_text, text

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
        found = np.zeros(1, dtype=np.int64)
        for place, (side, depth) in enumerate(zip(sides, refined, strict=True)):
            classes = np.zeros(side.size(depth), dtype=np.int64)
            if place == self.side:
                nodes = np.arange(side.size(depth), dtype=np.int64)
                for at in range(depth, self.refined, -1):
                    nodes = side.parents(at, nodes)
                classes = self.of[nodes]
            found = (found[:, None] + classes[None, :]).ravel()
        return found


def classes_of(product: Product, attribute: Any, values: Mapping[str, Any] | None) -> Classes:
    """The values that the labels of an attribute stand for.

    Raises:
        ValueError: no column of an attribute; a label without a value; classes that overlap.
        TypeError: no text, or values that are no numbers or pairs.
    """
    known = [column for side in product.attributes[1:] for column in side.columns]
    if attribute is None:
        raise ValueError(f"attribute: None is given; name one of the columns {', '.join(known) or '(there are none)'}")
    name = text(attribute, "attribute", "the name of a column")
    place = next((i for i, side in enumerate(product.attributes[1:]) if name in side.columns), None)
    if place is None:
        raise ValueError(
            f"attribute: {name[:80]!r} is no column of an attribute; these are {', '.join(known) or 'none'}"
        )
    if values is not None and not isinstance(values, Mapping):
        raise TypeError(f'values: {safe_text(values)} must be a mapping from labels, such as {{"85+": (85, 100)}}')
    side = product.attributes[1:][place]
    refined = side.columns.index(name) + 1
    labels = labels_of(side, refined, refined).to_pylist()
    given = {str(label): value for label, value in (values or {}).items()}
    strange = next((label for label in given if label not in labels), None)
    if strange is not None:
        raise ValueError(f"values: {strange[:80]!r} is no label of {name!r}; leave it out")
    pairs = [_pair(name, label, given) for label in labels]
    order = sorted(set(pairs))
    for first, second in pairwise(order):
        if second[0] < first[1] or second[0] == first[0]:
            raise ValueError(f"values: the classes {first} and {second} of {name!r} overlap; give each label its own")
    code = {pair: number for number, pair in enumerate(order)}
    low, high = np.array(order, dtype=np.float64).T
    return Classes(place, refined, low, high, np.array([code[pair] for pair in pairs], dtype=np.int64))


def _pair(attribute: str, label: str, given: Mapping[str, Any]) -> tuple[float, float]:
    """Where the class of a label begins and ends."""
    if label in given:
        value = given[label]
        pair = tuple(value) if isinstance(value, list | tuple) else (value, value)
        if len(pair) != 2 or any(isinstance(end, bool) or not isinstance(end, int | float) for end in pair):
            raise TypeError(f"values: {label[:80]!r} must be given a number, or a pair (from, to)")
        if not all(map(math.isfinite, pair)) or pair[0] > pair[1]:
            raise ValueError(f"values: {label[:80]!r} is given {pair}, which must be finite and ascend")
        return float(pair[0]), float(pair[1])
    if _NUMBER.fullmatch(label):
        return float(label), float(label)
    found = _RANGE.fullmatch(label)
    if found and int(found[1]) <= int(found[2]):
        return float(found[1]), float(found[2]) + 1
    raise ValueError(
        f"values: the label {label[:80]!r} of {attribute!r} is no number and no range; say what it means, such as "
        f'values={{"{label[:20]}": (85, 100)}}'
    )
