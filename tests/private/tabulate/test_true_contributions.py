"""People by their number of records: what the engine counts, and what a measurer is told of it."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.inside import LeafKey
from helpers.tabulating import count_records, group_sizes
from tallytree.hierarchy import Hierarchy
from tallytree.private.engines import Local
from tallytree.private.tabulate.contribution_bound import ContributionBound
from tallytree.private.tabulate.leaf_statistics import TrueContributions, digest_with

KEY = bytes(range(32))
places = Hierarchy.from_table(pa.table({"leaf": ["x", "y", "z"]}), ["leaf"])
PLACE = LeafKey(places, ("leaf",))
BINS = ((1, 1), (2, 3), (4, 6))

Row = tuple[str, str, int]
"""A person's id, a leaf, and how many records (or what quantity) the row stands for."""

rows_of_people = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "7", "007"]), st.sampled_from(["x", "y", "outside"]), st.integers(0, 4)),
    max_size=20,
)
relaxed = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])


def table_of(rows: list[Row]) -> pa.Table:
    who, leaf, n = ([row[column] for row in rows] for column in range(3))
    return pa.table(
        {"who": pa.array(who, pa.string()), "leaf": pa.array(leaf, pa.string()), "n": pa.array(n, pa.int64())}
    )


def counted(records: Any, up_to: int = 6, *, distinct: bool = False, threads: int = 2, most: int = 2) -> list[int]:
    bound = ContributionBound("who", most, KEY, distinct=distinct, people_up_to=up_to)
    found = count_records(Local(threads=threads), records, [PLACE], count="n", on_unknown="drop", bound=bound)
    assert found.people is not None
    return list(found.people.tolist())


def expected(rows: list[Row], up_to: int, *, distinct: bool) -> list[int]:
    records: Counter[str] = Counter()
    for who, leaf in {(who, leaf) for who, leaf, _ in rows if leaf != "outside"}:
        here = sum(n for one, place, n in rows if (one, place) == (who, leaf))
        records[who] += min(here, 1) if distinct else here
    people = Counter(min(number, up_to) for number in records.values() if number)
    return [people[number] for number in range(1, up_to + 1)]


@pytest.mark.slow
@given(rows_of_people, st.booleans(), st.integers(1, 9), st.randoms())
@relaxed
def test_people_are_counted_before_the_bound_whatever_the_order_threads_and_files(
    rows: list[Row], distinct: bool, up_to: int, random: Any
) -> None:
    right = expected(rows, up_to, distinct=distinct)
    shuffled = random.sample(rows, len(rows))
    assert counted(table_of(rows), up_to, distinct=distinct) == right
    assert counted(table_of(shuffled), up_to, distinct=distinct, threads=1, most=1) == right
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table_of(shuffled[::2]), Path(folder) / "a.parquet", row_group_size=2)
        pq.write_table(table_of(shuffled[1::2]), Path(folder) / "b.parquet")
        assert counted(folder, up_to, distinct=distinct) == right


def test_records_outside_the_hierarchy_and_rows_of_none_are_not_counted() -> None:
    rows = [("ann", "x", 2), ("ann", "outside", 4), ("bob", "outside", 1), ("cy", "x", 0), ("dee", "x", 99)]
    assert counted(table_of(rows)) == [0, 1, 0, 0, 0, 1]
    assert counted(table_of(rows), distinct=True) == [2, 0, 0, 0, 0, 0]


def test_memberships_of_quantity_none_are_not_counted() -> None:
    table = pa.table({"who": [1, 1, 1, 2, 3], "home": [1, 1, 2, 3, 3], "leaf": ["x"] * 5, "cars": [1, 5, 0, 0, 2]})
    bound = ContributionBound("who", 1, KEY, people_up_to=4)
    found = group_sizes(
        Local(), table, PLACE, group="home", quantity="cars", max_quantity=2, smallest=0, largest=9, bound=bound
    )
    assert found.people is not None
    assert found.people.tolist() == [1, 1, 0, 0]


def test_people_are_not_counted_where_nobody_asks() -> None:
    bound = ContributionBound("who", 1, KEY)
    assert count_records(Local(), table_of([("ann", "x", 1)]), [PLACE], count="n", bound=bound).people is None


def test_the_cells_are_the_bins_and_nothing_else_is_told() -> None:
    true = TrueContributions("all", BINS, np.array([5, 1, 2, 0, 0, 9]))
    root = np.zeros(1, dtype=np.int64)
    values, offsets, numbers = true.cells("all", root, "contributions")
    assert (values.tolist(), offsets.tolist(), numbers.tolist()) == ([5, 3, 9], [0, 3], [0, 1, 2])
    part = true.cells("all", root, "contributions", (1, 3))
    assert [array.tolist() for array in part] == [[3, 9], [0, 2], [1, 2]]
    assert [array.tolist() for array in true.cells("all", root[:0], "contributions")] == [[], [0], []]
    assert (true.size("all"), true.size("leaf"), true.width("all", 0, "contributions")) == (1, 0, 3)
    assert repr(true) == "TrueContributions(<private>)"
    for level, statistic in [("all", "total"), ("leaf", "contributions")]:
        with pytest.raises(ValueError, match="is not what is measured there"):
            true.cells(level, root, statistic)  # type: ignore[arg-type]


def test_the_digest_has_every_bin() -> None:
    people = np.array([5, 1, 2, 0, 0, 9])
    one, other = (
        TrueContributions("all", BINS, people),
        TrueContributions("all", BINS, people + np.eye(6, dtype=int)[4]),
    )
    moved = TrueContributions("all", BINS, np.array([5, 2, 1, 0, 0, 9]))  # within a bin
    digest = bytes(32)
    assert digest_with(digest, None) == digest
    assert digest_with(digest, one) == digest_with(digest, moved) != digest_with(digest, other)
    assert digest_with(digest, one) != digest_with(bytes(31) + b"1", one)


# --- The fingerprint of all that could count ---


def fingerprint(rows: list[Row], key: bytes = KEY, **options: Any) -> list[int]:
    bound = ContributionBound("who", 1, key, people_up_to=4, fingerprint=True, **options)
    found = count_records(Local(), table_of(rows), [PLACE], count="n", on_unknown="drop", bound=bound)
    assert found.fingerprint is not None
    return list(found.fingerprint.tolist())


def cells(rows: list[Row], *, distinct: bool) -> dict[tuple[str, str], int]:
    """Of every person, how many records lie in every cell."""
    found: Counter[tuple[str, str]] = Counter()
    for who, leaf, n in rows:
        if leaf != "outside" and n:
            found[who, leaf] += n
    return dict.fromkeys(found, 1) if distinct else dict(found)


@pytest.mark.slow
@relaxed
@given(rows_of_people, rows_of_people, st.booleans())
def test_a_fingerprint_is_that_of_everybodys_records_in_every_cell(one, other, distinct):
    same = cells(one, distinct=distinct) == cells(other, distinct=distinct)
    assert (fingerprint(one, distinct=distinct) == fingerprint(other, distinct=distinct)) == same
    assert fingerprint(one[::-1], distinct=distinct) == fingerprint(one, distinct=distinct)


def test_a_fingerprint_depends_on_the_key_and_is_found_where_it_is_asked_for():
    rows = [("ann", "x", 1), ("bob", "y", 2)]
    assert fingerprint(rows) != fingerprint(rows, bytes(32))
    assert fingerprint(rows) != fingerprint([("ann", "y", 2), ("bob", "x", 1)])
    assert fingerprint([]) == [0, 0]
    plain = ContributionBound("who", 1, KEY, people_up_to=4)
    assert count_records(Local(), table_of(rows), [PLACE], count="n", bound=plain).fingerprint is None
    homes = pa.table({"who": ["a", "b"], "leaf": ["x", "x"], "home": ["1", "2"]})
    swapped = pa.table({"who": ["a", "b"], "leaf": ["x", "x"], "home": ["2", "1"]})
    asked = ContributionBound("who", 1, KEY, people_up_to=4, fingerprint=True)
    found = [
        group_sizes(Local(), table, PLACE, group="home", smallest=0, largest=9, bound=asked).fingerprint
        for table in (homes, swapped)
    ]
    assert (found[0] != found[1]).any()
    # It is part of the digest of the numbers of people, which are the same.
    people = np.array([2, 0, 0, 0, 0, 0])
    digests = {TrueContributions("all", BINS, people, each).digest() for each in (*found, None)}
    assert len(digests) == 3
