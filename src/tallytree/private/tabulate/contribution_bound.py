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

Of group sizes a record is a membership, and a cell is a leaf, a group and a quantity (cut to the most that counts);
memberships of quantity 0 change no size and are left out first. What is hashed is

    sha256(key ‖ leaf number, ‖ quantity, ‖ bytes of the group's id, ‖ group's id ‖ person's id)

with the numbers in decimal, each with a comma, and the ids as text in UTF-8. Of persons and households a record is a
person, and a cell is a combination of leaves and a household, or none:

    sha256(key ‖ leaf numbers, each with a comma ‖ bytes of the household's id, ‖ household's id ‖ person's id)

An id is its text, as the labels of keys are: the integer 7 and the text 7 are one person, 7 and 007 are two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tallytree.private.tabulate.session import Session
from tallytree.support.arrays import IntArray
from tallytree.support.validate import safe_text

KEY_BYTES = 32


@dataclass(frozen=True)
class ContributionBound:
    """The most that counts of one person.

    Attributes:
        person: the column with the person's id.
        most: m, the most records of a person that count.
        key: 32 secret bytes, independent of the records, that choose which.
        distinct: whether a person counts at most once in a cell.
        people_up_to: count people by their number of records too, before the bound: 1, 2, … records, the last number
            for so many or more; 0 where they are not counted.
        fingerprint: find a fingerprint of all records that could count too, before the bound; see `fingerprint`.

    Raises:
        ValueError: a bound below 1, or a key of another length.
        TypeError: the column is not named by text.
    """

    person: str
    most: int
    key: bytes = field(repr=False)
    distinct: bool = False
    people_up_to: int = 0
    fingerprint: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.person, str):
            raise TypeError(f"person: {safe_text(self.person)} must be the name of a column")
        if self.most < 1:
            raise ValueError(f"most: {self.most} must be at least 1")
        if len(self.key) != KEY_BYTES:
            raise ValueError(f"key: it must be {KEY_BYTES} bytes long, got {len(self.key)}")


@dataclass(frozen=True)
class Cells:
    """What the records of a person are grouped by: columns of `matched`, beside the person and the `amount` of records.

    Attributes:
        columns: a cell's columns.
        person: the column with the person's id.
        known: the condition under which a row can count at all.
        content: what is hashed after the key, as an expression.
    """

    columns: tuple[str, ...]
    person: str
    known: str
    content: str

    @classmethod
    def of_records(cls, leaves: Sequence[str]) -> Cells:
        """Combinations of leaves."""
        known = " AND ".join([*(f"{leaf} IS NOT NULL" for leaf in leaves), "amount > 0"])
        content = " || ".join([*(f"CAST({leaf} AS VARCHAR) || ','" for leaf in leaves), "CAST(g AS VARCHAR)"])
        return cls(tuple(leaves), "g", known, content)

    @classmethod
    def of_persons(cls, leaves: Sequence[str]) -> Cells:
        """Combinations of leaves and a household `g`, which may be null, of a person `p`."""
        household = "coalesce(CAST(g AS VARCHAR), '')"  # an empty text is no id
        numbers = [f"CAST({number} AS VARCHAR) || ','" for number in (*leaves, f"utf8_length({household})")]
        content = " || ".join([*numbers, household, "CAST(p AS VARCHAR)"])
        known = " AND ".join(f"{leaf} IS NOT NULL" for leaf in leaves)
        return cls((*leaves, "g"), "p", known, content)

    @classmethod
    def of_memberships(cls) -> Cells:
        """A leaf, a group `g` and a quantity `size`, of a person `p`."""
        group = "CAST(g AS VARCHAR)"
        numbers = [f"CAST({number} AS VARCHAR) || ','" for number in ("leaf0", "size", f"utf8_length({group})")]
        content = " || ".join([*numbers, group, "CAST(p AS VARCHAR)"])
        return cls(("leaf0", "g", "size"), "p", "leaf0 IS NOT NULL AND size > 0", content)


def count_people(db: Session, bound: ContributionBound, cells: Cells) -> IntArray | None:
    """How many people have 1, 2, … records that could count, int64 (people_up_to,); the last, so many or more.

    Of `matched`, as `keep_bounded` finds it. A person has one number, of all their records: `accounting.sensitivity`.
    """
    if not bound.people_up_to:
        return None
    counted = "least(amount, 1)" if bound.distinct else "amount"
    rows = db.run(
        f"""
        WITH everybody AS (
            SELECT least(exact_sum({counted}), $most) AS records FROM matched
            WHERE {cells.known} GROUP BY {cells.person}
        )
        SELECT CAST(records AS BIGINT) AS records, count(*) AS people FROM everybody GROUP BY records
        """,
        most=bound.people_up_to,
    )
    people = np.zeros(bound.people_up_to, dtype=np.int64)
    for records, number in rows:
        people[records - 1] = number
    return people


def fingerprint(db: Session, bound: ContributionBound, cells: Cells) -> IntArray | None:
    """A keyed fingerprint of all that could count, int64 (2,): of every person the number of records in every cell.

    What counts under any bound follows from these numbers and the key. So data sets of one fingerprint have the same
    statistics under every bound, although only some bounds are tabulated: `tallytree.run.auto_bound` says
    what for. It is the sum, over people and cells, of the first 60 bits of sha256(key ‖ number ‖ , ‖ content), with the
    content as above. For two given data sets that differ, the sums are equal with probability 2^-60, over the key.

    Of `matched`, as `keep_bounded` finds it.
    """
    if not bound.fingerprint:
        return None
    counted = "least(amount, 1)" if bound.distinct else "amount"
    db.make(
        "hashed",
        f"""
        WITH each_cell AS (
            SELECT keyed_place($key, CAST({counted} AS VARCHAR) || ',' || {cells.content}) AS place
            FROM matched WHERE {cells.known}
        )
        SELECT coalesce(exact_sum(place), 0) AS places FROM each_cell
        """,
        key=bound.key,
    )
    ((places,),) = db.run("SELECT places FROM hashed")
    db.drop("hashed")
    return np.array(divmod(int(places), 2**60), dtype=np.int64)


def keep_bounded(db: Session, bound: ContributionBound, cells: Cells) -> None:
    """Make `counting` of `matched` (a row per person and cell, with its `amount`): a row per cell, what counts of it.

    Rows that cannot count (outside the hierarchy, or without an amount) are left out first. `matched` is dropped.
    """
    columns, person, known = ", ".join(cells.columns), cells.person, cells.known
    counted = "least(amount, 1)" if bound.distinct else "amount"
    if db.spread:
        db.make("counting", moved_once(bound, cells), most=bound.most, key=bound.key)
        db.drop("matched")
        return
    db.make(
        "over_bound",
        f"""
        SELECT {person}, bool_or({counted} > 1) AS repeats
        FROM matched WHERE {known} GROUP BY {person} HAVING exact_sum({counted}) > $most
        """,
        most=bound.most,
    )
    db.make(
        "placed",
        f"""
        SELECT {columns}, {person} AS who, {counted} AS amount, repeats,
            CASE WHEN repeats IS NOT NULL THEN keyed_place($key, {cells.content}) END AS place
        FROM matched LEFT JOIN over_bound USING ({person}) WHERE {known}
        """,
        key=bound.key,
    )
    db.drop("matched")
    db.drop("over_bound")
    # People within the bound have no `repeats`: all their records count. Where a person has one record in each cell,
    # the cells themselves are counted, which is faster than a sum.
    db.make(
        "counting",
        f"""
        WITH numbered AS (
            SELECT {columns}, row_number() OVER (PARTITION BY who ORDER BY place, {columns}) AS number
            FROM placed WHERE NOT repeats
        ), summed AS (
            SELECT {columns}, amount, coalesce(exact_sum(amount) OVER (
                PARTITION BY who ORDER BY place, {columns} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), 0) AS before FROM placed WHERE repeats
        ), kept AS (
            SELECT {columns}, 1 AS amount FROM numbered WHERE number <= $most
            UNION ALL
            SELECT {columns}, least(amount, $most - before) AS amount FROM summed WHERE before < $most
            UNION ALL
            SELECT {columns}, amount FROM placed WHERE repeats IS NULL
        )
        SELECT {columns}, exact_sum(amount) AS amount FROM kept GROUP BY {columns}
        """,
        most=bound.most,
    )
    db.drop("placed")


def moved_once(bound: ContributionBound, cells: Cells) -> str:
    """The query of `counting` in one statement, which brings the rows of a person together once.

    It numbers the cells of all people, which DuckDB does more slowly than a join with those over the bound. Sums are of
    amounts that are cut to what decides: so they fit into 64 bits, and are above the bound where the whole sum is.
    """
    columns, counted = ", ".join(cells.columns), "least(amount, 1)" if bound.distinct else "amount"
    return f"""
        WITH people AS (
            SELECT {columns}, {cells.person} AS who, {counted} AS amount, {cells.content} AS content,
                CAST(sum(least({counted}, $most + 1)) OVER (PARTITION BY {cells.person}) AS BIGINT) AS records
            FROM matched WHERE {cells.known}
        ), placed AS (
            SELECT {columns}, who, amount, records,
                keyed_place($key, CASE WHEN records > $most THEN content END) AS place
            FROM people
        ), ordered AS (
            SELECT {columns}, amount, records, coalesce(CAST(sum(least(amount, $most)) OVER (
                PARTITION BY who ORDER BY place, {columns} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS BIGINT), 0) AS before FROM placed
        ), kept AS (
            SELECT {columns}, CASE WHEN records > $most THEN least(amount, $most - before) ELSE amount END AS amount
            FROM ordered WHERE records <= $most OR before < $most
        )
        SELECT {columns}, exact_sum(amount) AS amount FROM kept GROUP BY {columns}
        """
