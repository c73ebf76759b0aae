"""The records of counts and tables: how their schema is checked, and how they are counted."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from tallytree.engines import Engine
from tallytree.kinds.contributions import Contributions
from tallytree.kinds.mechanism import Mechanism
from tallytree.kinds.terms import OnUnknown
from tallytree.private import CountRecords, LeafCounts
from tallytree.product import LeafKey
from tallytree.run.arguments import PersonOptions, RecordOptions
from tallytree.run.person_bound import contribution_bound
from tallytree.trees.impossible import Impossible

MAX_RECORDS = 2**58
"""A family's noisy counts and its total are added up to 2^60 at most; what is drawn at a level stays below the rest."""


def counted_records(
    engine: Engine,
    given: RecordOptions,
    records: Any,
    keys: Sequence[LeafKey],
    argument: str,
    asked: Contributions | None,
    impossible: Sequence[Impossible] = (),
) -> LeafCounts:
    """The records of every combination of leaves, of every person no more than count; and people by their number.

    Args:
        engine: tabulates them.
        given: what counts.
        records: the private table.
        keys: its columns for each hierarchy.
        argument: its name in messages.
        asked: whether people are counted by their number of records.
        impossible: combinations of leaves that no record can have; see `Product`.

    Raises:
        ValueError: too many records, besides what the engine refuses. It is raised before the ledger records the
            release: mechanisms would fail once it is paid for.
    """
    bound = contribution_bound(given, asked, distinct=given.distinct)
    found = engine.tabulate(records, request_for(given, keys, argument, bound=bound, impossible=tuple(impossible)))
    if int(found.counts.sum()) > MAX_RECORDS:
        raise ValueError(f"{argument}: counts add up to more than 2^58; use a coarser unit")
    return found


def refuse_more_than(mechanism: Mechanism, found: int, argument: str, what: str) -> None:
    """Refuse more records or groups than a mechanism takes, while nothing is paid for.

    Args:
        mechanism: decides how many these are.
        found: how many there are; private, and not in the message.
        argument: the name of the table in messages.
        what: `"records"` or `"groups"`.

    Raises:
        ValueError: there are more.
    """
    most = mechanism.most
    if most is not None and found > operator.index(most):  # compared as a plain integer, so that none is told `found`
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
