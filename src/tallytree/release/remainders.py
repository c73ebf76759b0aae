"""Rows that say how much is not listed: which releases have them, what they are about, and what refuses them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Levels
from tallytree.release.statement import own_mechanism
from tallytree.support.arrays import IntArray

NOTE = (
    "Cells are listed where that lowers the expected error. A row without a label in some columns counts what is not "
    "listed of the cell that its other columns name; every table adds up to the total."
)

NOT_LISTED = "not listed"
"""What a reader sees in place of the labels that such a row does not have."""

NOT_LISTED_IN_TOTALS = (
    "Of cells that an area has a part of, what is not listed lies in the area or outside. A count has the share of "
    "their leaves. An interval holds none of it and all of it."
)

LEAST_SAID = 0.005
"""A smaller share of records in cells that are not listed is not named."""

NO_REPLICATES = (
    "a replicate needs a number for every cell, and nothing published says where what is not listed lies; "
    "use Release.total (`tallytree total`), without replicates, for sums with intervals"
)


def lists_remainders(statement: Mapping[str, Any]) -> bool:
    """Whether tables have rows, null in the finer columns, with how much is not listed."""
    return own_mechanism(statement) == "Remainders"


def unlisted_sentence(statement: Mapping[str, Any]) -> str:
    """What a cell without a row is, of flows whose cells are mostly 0; empty where nothing is known of it."""
    if lists_remainders(statement):
        share = _in_unlisted(statement.get("unlisted") or {})
        rows = "Cells without a row are not known to be 0: rows without a label say how much is not listed."
        return f"{rows} At the finest level {share}." if share else rows
    told = statement.get("sparsity") or {}
    below = told.get("unlisted_below")
    if below is None:
        return ""
    nine = "0 in truth, too" if below == 1 else f"below {below:,}"
    share = _in_unlisted(told)
    placed = f" There {share}, and are counted at others beside them." if share else ""
    return (
        "Cells without a row are published as 0. By an estimate, nine in ten of those at the finest level are "
        f"{nine}; at coarser levels fewer are.{placed}"
    )


def _in_unlisted(told: Mapping[str, Any]) -> str:
    """Which share of records is not listed; empty where that is not known, or next to nothing."""
    share = told.get("unlisted_at_most")
    if share is None or share < LEAST_SAID:
        return ""
    return f"at most {math.ceil(100 * share)} % of all records are in cells without a row, nine times in ten"


def refuse_remainders(statement: Mapping[str, Any], argument: str, what: str) -> None:
    """Refuse what needs every count to lie at a node.

    Args:
        statement: of the release.
        argument: the name of the argument that is refused, for the message.
        what: why, and what to do instead.

    Raises:
        ValueError: tables have rows with how much is not listed.
    """
    if lists_remainders(statement):
        raise ValueError(f"{argument}: the release has rows with how much is not listed (unlisted='remainder'); {what}")


def depths_of_rows(tree: Levels, depth: int, rows: pa.Table) -> IntArray:
    """The level of the node that each row of a table names: int64 (rows,).

    It is the table's own level where the node is listed. A row that says how much is not listed names a node above, and
    is null in the finer columns. Every level of a product adds one column.

    Args:
        tree: the public tree.
        depth: the table's level.
        rows: with its path columns, as strings or dictionaries.
    """
    found = np.full(rows.num_rows, depth, dtype=np.int64)
    for name in tree.path_columns(depth):
        found -= rows.column(name).is_null().to_numpy()
    return found
