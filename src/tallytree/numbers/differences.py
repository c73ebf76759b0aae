"""The difference between two numbers of one release, with its error.

Two numbers of one release err together: a fit moves siblings against each other, so that their difference errs by more
than it would if they were independent. The difference is a sum of cells with the weights 1 and −1, and its variance is
that of this sum: exact where sums have exact errors, else from replicates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.numbers.cells import Replication
from tallytree.numbers.changes import verdicts
from tallytree.numbers.derived import cells_of
from tallytree.numbers.fieller import HALF
from tallytree.release import Release
from tallytree.release.intervals import checked_alpha, quantile
from tallytree.release.view.sides import TreeSide, named_nodes
from tallytree.support.arrays import IntArray
from tallytree.support.validate import safe_text

MORE, FEWER, EQUAL, UNTOLD = VERDICTS = ("more", "fewer", "no difference", "no difference can be told")
"""What a difference is. "no difference" needs numbers without an error."""

Place = tuple[tuple[int, int], dict[str, str]]
"""The columns that name an area and the area; and conditions on attributes."""


def difference(
    release: Release, first: Any, second: Any, *, alpha: float, replicates: int | None, seed: int | None
) -> pa.Table:
    """`Release.difference`, which documents the arguments."""
    level_alpha, cells = checked_alpha(alpha), cells_of(release, "difference")
    replication, view = Replication.checked(replicates, seed), cells.view
    attributes = view.sides[1:] if view.kind.has_tables else ()
    side = view.sides[0]
    if len(view.sides) > 1 and not attributes:
        raise ValueError("release: differences are of counts and tables; of flows give totals of both")
    (one, where), (other, other_where) = (
        _place(side, attributes, given, name) for given, name in ((first, "first"), (second, "second"))
    )
    if one != other and where != other_where:
        raise ValueError(
            "second: it differs from first by its area and by its attributes; let it differ by one of them"
        )
    if one == other and where == other_where:
        raise ValueError("second: it is the same as first; give another area, or another label of an attribute")
    if one != other and _overlap(side, one, other):
        raise ValueError("second: one of the two areas lies in the other; give areas that have nothing in common")
    published, middle, variance, rounds = cells.contrast((one, other), (where, other_where), replication)
    number = round(published)
    std_dev = float(np.sqrt(variance))
    reach = quantile(level_alpha, rounds) * std_dev + HALF if std_dev > 0 else 0.0
    ends = min(int(np.ceil(middle - reach)), number), max(int(np.floor(middle + reach)), number)
    lower, upper, value = (np.array([each], dtype=np.int64) for each in (*ends, number))
    (verdict,) = verdicts(value, lower, upper, np.array([std_dev == 0 and rounds is None]), VERDICTS)
    shown = [_shown(given) for given in (first, second)]
    return pa.table(
        {
            "first": [shown[0]],
            "second": [shown[1]],
            "difference": value,
            "std_dev": [std_dev],
            "ci_lower": lower,
            "ci_upper": upper,
            "verdict": [VERDICTS[verdict]],
        }
    )


def _shown(given: Any) -> str:
    return given if isinstance(given, str) else ", ".join(map(str, given.values()))


def _place(side: TreeSide, attributes: tuple[TreeSide, ...], given: Any, argument: str) -> Place:
    """The area, and the labels of attributes, that somebody names.

    Raises:
        ValueError: there is none, or there are several.
        TypeError: no label and no mapping.
    """
    if isinstance(given, str):
        found = {named: named_nodes(side, named, pa.table({side.columns[named - 1]: [given]}))[0] for named in
                 range(len(side.columns), 0, -1)}  # fmt: skip
        known = {named: int(node) for named, node in found.items() if node != -1}
        if not known:
            raise ValueError(f"{argument}: {given[:80]!r} is no label of {', '.join(side.columns)}; give one that is")
        named = max(known)
        return _one(side, named, known[named], given, argument), {}
    if not isinstance(given, Mapping) or not given or not all(isinstance(each, str) for each in given.values()):
        raise TypeError(f'{argument}: {safe_text(given)} must be a label, or labels by columns: {{"county": "01001"}}')
    columns = [name for name in side.columns if name in given]
    inside = {name: label for name, label in given.items() if name not in columns}
    known_columns = [name for each in attributes for name in each.columns]
    strange = [name for name in inside if name not in known_columns]
    if strange:
        raise ValueError(
            f"{argument}: {strange[0]!r} is none of the columns {', '.join([*side.columns, *known_columns])}"
        )
    if not columns:
        return (0, 0), inside
    named = side.columns.index(columns[-1]) + 1
    node = int(named_nodes(side, named, pa.table({name: [given[name]] for name in columns}))[0])
    return _one(side, named, node, ", ".join(given[name] for name in columns), argument), inside


def _one(side: TreeSide, named: int, node: int, label: str, argument: str) -> tuple[int, int]:
    if node == -1:
        raise ValueError(f"{argument}: {label[:80]!r} is no {side.columns[named - 1]} of the release; give one that is")
    if node == -2:
        paths = ", ".join(f"{name!r}: …" for name in side.columns[:named])
        raise ValueError(f"{argument}: {label[:80]!r} names several areas; give its path, {{{paths}}}")
    return named, node


def _overlap(side: TreeSide, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether one of two areas lies in the other."""
    (few, above), (many, below) = sorted((one, other))
    node: IntArray = side.ancestors(np.array([below]), many, few)
    return int(node[0]) == above
