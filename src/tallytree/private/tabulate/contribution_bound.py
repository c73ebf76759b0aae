"""Contribution bounding: which records of a person count where the person has more than m.

Of every person at most m records count. Which ones is a function of a key and of that person's records alone, so data
sets that differ in one person's records differ in that person's kept records and in no other's: neighboring data sets
stay neighboring, whatever the key is (`accounting.sensitivity`). The choice depends on nothing else: not on the
position of a row or its neighbors, not on the order in which an engine or its threads read rows, not on their number.

A person's records are grouped by cell (a combination of leaves: nothing else of a record is counted, so nothing else of
its content matters), and the cells are put in the order of the first 60 bits of

    sha256(key ‖ leaf numbers in decimal, each with a comma ‖ id as text in UTF-8)

(ties, which are practically impossible, by leaf numbers) and are kept up to the mth record, the last cell in part.
What is hashed is unambiguous: the key has 32 bytes, each leaf number ends at its comma, there are as many as the table
has keys, and all the rest is the id. The hash is a plain one with a secret prefix, not HMAC: no hash leaves the private
side, and privacy does not depend on the key. The key is secret so that a person cannot choose records that are certain
to count. All this is the same in every engine.

An id is its text, as the labels of keys are: the integer 7 and the text 7 are one person, 7 and 007 are two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tallytree.validate import safe_text

KEY_BYTES = 32


class Session(Protocol):
    """What is needed of `tallytree.private.tabulate.with_duckdb.Session`."""

    def run(self, sql: str, **parameters: Any) -> Any:
        """Run a statement."""


@dataclass(frozen=True)
class ContributionBound:
    """The most that counts of one person.

    Attributes:
        person: the column with the person's id.
        most: m, the most records of a person that count.
        key: 32 secret bytes, independent of the records, that choose which.
        distinct: whether a person counts at most once in a cell.

    Raises:
        ValueError: a bound below 1, or a key of another length.
        TypeError: the column is not named by text.
    """

    person: str
    most: int
    key: bytes = field(repr=False)
    distinct: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.person, str):
            raise TypeError(f"person: {safe_text(self.person)} must be the name of a column")
        if self.most < 1:
            raise ValueError(f"most: {self.most} must be at least 1")
        if len(self.key) != KEY_BYTES:
            raise ValueError(f"key: it must be {KEY_BYTES} bytes long, got {len(self.key)}")


def keep_bounded(db: Session, bound: ContributionBound, leaves: Sequence[str]) -> None:
    """Turn `matched` (columns `leaves`, g, amount; a row per person and cell) into what counts (`leaves`, amount).

    Rows outside the hierarchy (a leaf is NULL) and without an amount are left out first.
    """
    cells, known = ", ".join(leaves), " AND ".join(f"{leaf} IS NOT NULL" for leaf in leaves)
    counted = "least(amount, 1)" if bound.distinct else "amount"
    content = " || ".join([*(f"{leaf} || ','" for leaf in leaves), "CAST(g AS VARCHAR)"])
    db.run("ALTER TABLE matched RENAME TO everyone")
    db.run(
        f"""
        CREATE TEMP TABLE over_bound AS
        SELECT g FROM everyone WHERE {known} AND amount > 0 GROUP BY g HAVING sum({counted}) > $most
        """,
        most=bound.most,
    )
    db.run(
        f"""
        CREATE TEMP TABLE placed AS
        SELECT {cells}, g, {counted} AS amount,
            CAST('0x' || left(sha256($key || encode({content})), 15) AS BIGINT) AS place
        FROM everyone SEMI JOIN over_bound USING (g) WHERE {known} AND amount > 0
        """,
        key=bound.key,
    )
    db.run(
        f"""
        CREATE TEMP TABLE matched AS
        WITH ordered AS (
            SELECT {cells}, amount, coalesce(sum(amount) OVER (
                PARTITION BY g ORDER BY place, {cells} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), 0) AS before FROM placed
        ), kept AS (
            SELECT {cells}, least(amount, $most - before) AS amount FROM ordered WHERE before < $most
            UNION ALL
            SELECT {cells}, {counted} FROM everyone ANTI JOIN over_bound USING (g) WHERE {known} AND amount > 0
        )
        SELECT {cells}, sum(amount) AS amount FROM kept GROUP BY {cells}
        """,
        most=bound.most,
    )
    for table in ("everyone", "over_bound", "placed"):
        db.run(f"DROP TABLE {table}")
