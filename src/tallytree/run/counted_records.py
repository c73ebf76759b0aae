"""The records of counts and tables: how their schema is checked, and how they are counted; and public records."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from tallytree.engines import Engine, Local
from tallytree.hierarchy import Hierarchy
from tallytree.kinds.mechanism import Mechanism
from tallytree.kinds.terms import OnUnknown
from tallytree.private import KEY_BYTES, ContributionBound, CountRecords, LeafCounts
from tallytree.product import Product
from tallytree.run.options import PersonOptions, RecordOptions
from tallytree.run.people import CountedPeople, contribution_bound
from tallytree.support.arrays import IntArray
from tallytree.trees.impossible import Impossible
from tallytree.trees.leaf_keys import LeafKey, leaf_keys

MAX_RECORDS = 2**58
"""A family's noisy counts and its total are added up to 2^60 at most; what is drawn at a level stays below the rest."""


def counted_records(
    engine: Engine,
    given: RecordOptions,
    keys: Sequence[LeafKey],
    argument: str,
    people: CountedPeople | None,
    impossible: Sequence[Impossible] = (),
) -> LeafCounts:
    """The records of every combination of leaves, of every person no more than count; and people by their number.

    Args:
        engine: tabulates them.
        given: what counts.
        keys: the records' columns for each hierarchy.
        argument: its name in messages.
        people: how people are counted by their number of records; None where they are not.
        impossible: combinations of leaves that no record can have; see `Product`.

    Raises:
        ValueError: too many records, besides what the engine refuses. It is raised before the ledger records the
            release: mechanisms would fail once it is paid for.
    """
    bound = contribution_bound(given, people, distinct=given.distinct)
    request = request_for(given, keys, argument, bound=bound, impossible=tuple(impossible))
    leaves = engine.tabulate(given.private_table, request)
    if int(leaves.counts.sum()) > MAX_RECORDS:
        raise ValueError(f"{argument}: counts add up to more than 2^58; use a coarser unit")
    return leaves


def refuse_more_than(mechanism: Mechanism, number: int, argument: str, what: str) -> None:
    """Refuse more records or groups than a mechanism takes, while nothing is paid for.

    Args:
        mechanism: decides how many these are.
        number: how many there are; private, and not in the message.
        argument: the name of the table in messages.
        what: `"records"` or `"groups"`.

    Raises:
        ValueError: there are more.
    """
    most = mechanism.most
    if most is not None and number > operator.index(most):  # compared as a plain integer, so that none is told `number`
        raise ValueError(
            f"{argument}: there are more {what} than {mechanism!r} takes, {most:,}; use a mechanism without a general "
            "solver"
        )


def listed_counts(engine: Engine, table: Any, keys: Sequence[LeafKey], count: str, argument: str) -> LeafCounts:
    """What a public table lists in the column `count`, per combination of leaves."""
    return engine.tabulate(table, CountRecords(tuple(keys), count, argument=argument))


def request_for(given: RecordOptions, keys: Sequence[LeafKey], argument: str, **whose: Any) -> CountRecords:
    """What an engine is asked to count; `whose` are further fields of the request."""
    return CountRecords(tuple(keys), given.count, dropped_or_refused(given), argument, period=given.in_period, **whose)


def dropped_or_refused(given: PersonOptions) -> OnUnknown:
    """What becomes of a record that is outside all hierarchies' leaves, those for unknown codes too."""
    return "drop" if given.on_unknown == "drop" else "error"


# --- Public records, counted twice: with a contribution bound, and all of them; nothing private is read ---

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
        leaf: the column with the code of a leaf, as the release's records had it; see `leaf_keys`.
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
