"""Public records, counted twice: with a contribution bound, and all of them. Nothing private is read."""

from __future__ import annotations

from typing import Any

from tallytree.engines import Local
from tallytree.hierarchy import Hierarchy
from tallytree.private import KEY_BYTES, ContributionBound, CountRecords
from tallytree.product import Product, leaf_keys
from tallytree.support.arrays import IntArray

LeafNumbers = tuple[tuple[IntArray, ...], IntArray]
"""Leaves per hierarchy, and the number of records of each combination."""

_ALL = 10**6
"""More records than a person has, as far as `max_contributions` goes."""


def bounded_and_all(
    table: Any,
    tree: Hierarchy | Product,
    *,
    leaf: Any = None,
    person: str,
    most: int,
    count: str | None,
    distinct: bool,
    argument: str,
) -> tuple[LeafNumbers, LeafNumbers]:
    """The records of every combination of leaves: those that a bound keeps, and all.

    The records are public, so the key that chooses which are kept is a constant. Records outside the hierarchy are left
    out.

    Args:
        table: the public records, with the columns that the release's records had.
        tree: the public hierarchy, or product.
        leaf: the column with the code of a leaf, as the release's records had it; see `tallytree.product.leaf_keys`.
        person: the column with the people's ids.
        most: m.
        count: the column with the number of records that a row stands for; None: each row is one.
        distinct: whether a person counts at most once in a leaf.
        argument: the table's name in messages.

    Raises:
        ValueError, TypeError: a missing column, or values that cannot be used; see `CountRecords`.
    """

    def counted(bound: int) -> LeafNumbers:
        kept = ContributionBound(person, bound, bytes(KEY_BYTES), distinct=distinct)
        found = Local().tabulate(table, CountRecords(leaf_keys(tree, leaf), count, "drop", argument, bound=kept))
        return found.parts, found.counts

    return counted(most), counted(_ALL)
