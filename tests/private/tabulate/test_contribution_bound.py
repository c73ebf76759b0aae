"""Of every person at most m records count: which ones, and that nothing but that person's own records has a say."""

from __future__ import annotations

import hashlib
import random
import tempfile
import uuid
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.inside import ContributionBound, LeafKey
from helpers.tabulating import check_counts, count_records
from tallytree.engines import Local
from tallytree.hierarchy import Hierarchy
from tallytree.private.tabulate.duckdb_session import DuckDBSession

KEY, ANOTHER = bytes(range(32)), bytes(range(1, 33))
LEAVES, IDS = ["x", "y", "z", "ä,7"], ["7", "007", "1,7", " ", "Ä", "A\u0308", "7 "]

places = Hierarchy.from_table(pa.table({"leaf": LEAVES}), ["leaf"])
everyone = Hierarchy.from_table(pa.table({"who": IDS}), ["who"])
PLACE, WHO = LeafKey(places, ("leaf",)), LeafKey(everyone, ("who",))

Row = tuple[str, str, int]
"""A person's id, a leaf, and how many records it stands for."""


def as_parquet(table: pa.Table, folder: Path) -> Any:
    half = table.num_rows // 2
    pq.write_table(table.slice(0, half), folder / "a.parquet")
    pq.write_table(table.slice(half), folder / "b.parquet", row_group_size=2)
    return folder


def as_csv(table: pa.Table, folder: Path) -> Any:
    table.to_pandas().to_csv(folder / "records.csv", index=False)
    return folder / "records.csv"


KINDS = [
    as_parquet,
    as_csv,
    lambda table, _: table,
    lambda table, _: table.to_pandas(),
    lambda table, _: table.to_pandas().astype({"id": "category"}),
    lambda table, _: pl.DataFrame(table),
    lambda table, _: table.to_reader(max_chunksize=2),
    lambda table, _: duckdb.connect().from_arrow(table),
]


def table_of(rows: list[Row]) -> pa.Table:
    """The id twice: as the person, and as a path of its own, so that results show whose records were kept."""
    ids, leaves, numbers = ([row[column] for row in rows] for column in range(3))
    text = pa.string()
    columns = {"id": pa.array(ids, text), "who": pa.array(ids, text), "leaf": pa.array(leaves, text)}
    return pa.table(columns | {"n": pa.array(numbers, pa.int64())})


def kept(
    rows: list[Row], most: int, *, key: bytes = KEY, distinct: bool = False, threads: int = 2, kind: Any = KINDS[2]
) -> Counter[tuple[str, str]]:
    """Per (id, leaf), how many records counted."""
    bound = ContributionBound("id", most, key, distinct=distinct)
    with tempfile.TemporaryDirectory() as folder:
        records = kind(table_of(rows), Path(folder))
        found = count_records(Local(threads=threads), records, [PLACE, WHO], count="n", on_unknown="drop", bound=bound)
    cells = zip(*(part.tolist() for part in found.parts), found.counts.tolist(), strict=True)
    return Counter({(IDS[who], LEAVES[leaf]): count for leaf, who, count in cells})


def amounts(rows: list[Row]) -> dict[str, Counter[str]]:
    """Of every person, how many records lie in each leaf of the hierarchy."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for person, leaf, count in rows:
        if leaf in LEAVES and count:
            found[person][leaf] += count
    return found


def oracle(rows: list[Row], most: int, key: bytes, *, distinct: bool) -> Counter[tuple[str, str]]:
    """What is said in `tallytree.private.tabulate.contribution_bound`, in plain Python."""
    found: Counter[tuple[str, str]] = Counter()
    for person, leaves in amounts(rows).items():

        def place(leaf: str, person: str = person) -> bytes:
            content = f"{LEAVES.index(leaf)},{IDS.index(person)},{person}"
            return hashlib.sha256(key + content.encode()).digest()

        room = most
        for leaf in sorted(leaves, key=place):
            taken = min(1 if distinct else leaves[leaf], room)
            room -= taken
            found[person, leaf] += taken
    return +found


row = st.tuples(st.sampled_from(IDS), st.sampled_from([*LEAVES, "outside"]), st.integers(0, 4))
rows_of_people = st.lists(row, max_size=25)
relaxed = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.slow
@given(rows_of_people, st.integers(1, 5), st.booleans(), st.sampled_from(KINDS), st.binary(min_size=32, max_size=32))
@relaxed
def test_what_is_kept_is_what_a_dictionary_keeps(
    rows: list[Row], most: int, distinct: bool, kind: Any, key: bytes
) -> None:
    found = kept(rows, most, key=key, distinct=distinct, kind=kind)
    assert found == oracle(rows, most, key, distinct=distinct)


@pytest.mark.slow
@given(rows_of_people, st.integers(1, 5), st.booleans())
@relaxed
def test_the_statement_for_spread_rows_keeps_the_same(rows: list[Row], most: int, distinct: bool) -> None:
    with patch.object(DuckDBSession, "spread", True):
        assert kept(rows, most, distinct=distinct) == oracle(rows, most, KEY, distinct=distinct)


@pytest.mark.slow
@given(rows_of_people, st.integers(1, 5), st.booleans())
@relaxed
def test_of_every_person_min_of_m_and_all_records_are_kept(rows: list[Row], most: int, distinct: bool) -> None:
    found = kept(rows, most, distinct=distinct)
    there = {person: Counter(dict.fromkeys(n, 1)) if distinct else n for person, n in amounts(rows).items()}
    assert found <= Counter({(person, leaf): n for person, leaves in there.items() for leaf, n in leaves.items()})
    for person, leaves in there.items():
        assert sum(n for (who, _), n in found.items() if who == person) == min(most, leaves.total())


@pytest.mark.slow
@given(rows_of_people, st.integers(1, 5), st.booleans(), st.randoms(use_true_random=False), st.data())
@relaxed
def test_neither_rows_order_nor_their_splitting_nor_threads_nor_files_have_a_say(
    rows: list[Row], most: int, distinct: bool, random: random.Random, data: st.DataObject
) -> None:
    shuffled = [(person, leaf, 1) for person, leaf, count in rows for _ in range(count)]
    random.shuffle(shuffled)
    kind = data.draw(st.sampled_from(KINDS))
    one = kept(rows, most, distinct=distinct, threads=1)
    assert kept(shuffled, most, distinct=distinct, threads=2, kind=kind) == one


@pytest.mark.slow
@given(rows_of_people, rows_of_people, st.sampled_from(IDS), st.integers(1, 5), st.booleans())
@relaxed
def test_one_persons_records_change_nobody_elses_kept_ones(
    rows: list[Row], others: list[Row], changed: str, most: int, distinct: bool
) -> None:
    rest = [each for each in rows if each[0] != changed]
    before, after = (
        kept(rest + [each for each in its_own if each[0] == changed], most, distinct=distinct)
        for its_own in (rows, others)
    )
    own = {side: Counter({cell: n for cell, n in found.items() if cell[0] == changed}) for side, found in
           (("before", before), ("after", after))}  # fmt: skip
    assert before - own["before"] == after - own["after"]
    # So a person comes or goes by at most m, in at most m leaves, by 1 each where they are distinct.
    for found in own.values():
        assert found.total() <= most
        assert not distinct or set(found.values()) <= {1}


def many_people(people: int) -> pa.Table:
    return pa.table({"id": [i // 2 for i in range(2 * people)], "leaf": ["x", "y"] * people})


def test_the_key_chooses_and_every_leaf_is_as_likely() -> None:
    """40,000 fair choices: 0.02 off (8 standard deviations) fails, and one that is 5 % off would not pass."""
    table, people = many_people(40_000), 40_000
    first, second = (
        count_records(Local(), table, [PLACE], bound=ContributionBound("id", 1, key)).counts.tolist()
        for key in (KEY, ANOTHER)
    )
    assert sum(first) == sum(second) == people
    assert first != second
    assert abs(first[0] / people - 0.5) < 0.02


def test_whether_two_leaves_are_kept_does_not_depend_on_each_other_beyond_the_bound() -> None:
    """Of three leaves with m = 2 each pair is as likely: 1/3 within 0.02 (6 standard deviations of 20,000 choices)."""
    people = 20_000
    table = pa.table({"id": [i // 3 for i in range(3 * people)], "leaf": ["x", "y", "z"] * people})
    counts = count_records(Local(), table, [PLACE], bound=ContributionBound("id", 2, KEY)).counts
    assert counts.sum() == 2 * people
    assert (abs(counts / people - 2 / 3) < 0.02).all()


@pytest.mark.parametrize(
    "ids", [pa.array([7] * 4 + [8]), pa.array([7] * 4 + [8], pa.uint8()), pa.array([7] * 4 + [8]).dictionary_encode()]
)
def test_an_integer_and_its_decimal_text_are_one_person(ids: pa.Array, tmp_path: Path) -> None:
    leaf, text = pa.array(["x", "y", "z", "z", "z"]), pa.array(["7"] * 4 + ["8"])
    bound = ContributionBound("id", 2, KEY)
    found = [
        count_records(Local(), pa.table({"id": column, "leaf": leaf}), [PLACE], bound=bound) for column in (ids, text)
    ]
    assert found[0].counts.tolist() == found[1].counts.tolist()
    pq.write_table(pa.table({"id": ids, "leaf": leaf}), tmp_path / "integers.parquet")
    pq.write_table(pa.table({"id": text, "leaf": leaf}), tmp_path / "text.parquet")
    both = count_records(Local(), tmp_path, [PLACE], bound=bound)
    assert both.counts.sum() == 2 + 2  # 7 has eight records and 8 two, of which two count each


def test_ids_that_differ_as_text_are_different_people() -> None:
    ids = ["7", "007", "7 ", "A", "a", "Ä", "A\u0308", "7\x00", "-7", " "]
    table = pa.table({"id": ids * 2, "leaf": ["x", "y"] * len(ids)})
    assert count_records(Local(), table, [PLACE], bound=ContributionBound("id", 1, KEY)).counts.sum() == len(ids)


def test_a_uuid_is_an_id() -> None:
    ids = [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes] * 3
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(ids, pa.binary(16)))
    table = pa.table({"id": column, "leaf": ["x"] * 6})
    assert count_records(Local(), table, [PLACE], bound=ContributionBound("id", 2, KEY)).counts.tolist() == [4]


def test_records_outside_the_hierarchy_take_no_ones_place() -> None:
    table = pa.table({"id": [1] * 102, "leaf": ["outside"] * 100 + ["x", "y"]})
    found = count_records(Local(), table, [PLACE], on_unknown="drop", bound=ContributionBound("id", 2, KEY))
    assert found.counts.tolist() == [1, 1]
    with pytest.raises(ValueError, match="outside the hierarchy"):
        count_records(Local(), table, [PLACE], bound=ContributionBound("id", 2, KEY))


def test_rows_without_records_take_no_ones_place_and_very_many_records_are_bounded() -> None:
    table = pa.table({"id": [1, 1, 2, 2], "leaf": ["x", "y", "z", "z"], "n": [0, 1, 2**62, 2**62]})
    bound = ContributionBound("id", 1, KEY, distinct=True)
    assert count_records(Local(), table, [PLACE], count="n", bound=bound).counts.tolist() == [1, 1]
    bound = ContributionBound("id", 5, KEY)
    assert count_records(Local(), table, [PLACE], count="n", bound=bound).counts.tolist() == [1, 5]


def test_a_table_without_rows_has_nobody() -> None:
    table = pa.table({"id": pa.nulls(0), "leaf": pa.nulls(0)})
    assert count_records(Local(), table, [PLACE], bound=ContributionBound("id", 1, KEY)).counts.tolist() == []


def test_little_memory_gives_the_same(tmp_path: Path) -> None:
    people = 100_000
    table = pa.table(
        {"id": [i % people for i in range(4 * people)], "leaf": [LEAVES[i * i % 4] for i in range(4 * people)]}
    )
    bound = ContributionBound("id", 2, KEY)
    few = count_records(Local(memory_limit="60MB", threads=2, temp_directory=tmp_path), table, [PLACE], bound=bound)
    assert few.counts.tolist() == count_records(Local(threads=1), table, [PLACE], bound=bound).counts.tolist()
    assert list(tmp_path.iterdir()) == []


# --- Bad input ---


@pytest.mark.parametrize("leaf", ["x", "outside"])
@pytest.mark.parametrize("on_unknown", ["error", "drop"])
def test_a_record_of_nobody_is_refused_also_where_it_would_be_left_out(leaf: str, on_unknown: Any) -> None:
    table = pa.table({"id": ["s3cr3t", None], "leaf": ["x", leaf]})
    with pytest.raises(ValueError, match=r"column 'id' \(person\) has null ids \(or empty cells\)") as caught:
        count_records(Local(), table, [PLACE], on_unknown=on_unknown, bound=ContributionBound("id", 1, KEY))
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_an_empty_text_is_nobody(kind: pa.DataType) -> None:
    table = pa.table({"id": pa.array(["1", ""]).cast(kind), "leaf": ["x", "x"]})
    with pytest.raises(ValueError, match=r"column 'id' \(person\) has null ids \(or empty cells\)"):
        count_records(Local(), table, [PLACE], bound=ContributionBound("id", 1, KEY))


def test_an_empty_cell_of_a_csv_file_is_nobody(tmp_path: Path) -> None:
    (tmp_path / "records.csv").write_text("id,leaf\n1,x\n,x\n")
    with pytest.raises(ValueError, match=r"column 'id' \(person\) has null ids"):
        count_records(Local(), tmp_path / "records.csv", [PLACE], bound=ContributionBound("id", 1, KEY))


@pytest.mark.parametrize(
    "values", [[1.0], [True], pd.to_datetime(["2020-01-01"]), [[1]], [b"1"], pa.array([1]).cast(pa.decimal128(38, 2))]
)
def test_ids_are_text_or_integers(values: Any) -> None:
    table = pa.table({"id": values, "leaf": ["x"]})
    for action in (
        lambda: check_counts(Local(), table, [PLACE], count=None, person="id"),
        lambda: count_records(Local(), table, [PLACE], bound=ContributionBound("id", 1, KEY)),
    ):
        with pytest.raises(TypeError, match=r"column 'id' \(person\) holds .*; ids must be text or integers"):
            action()


def test_a_column_of_people_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="'id'"):
        check_counts(Local(), pa.table({"leaf": ["x"]}), [PLACE], count=None, person="id")


def test_a_bound_without_a_sense() -> None:
    with pytest.raises(ValueError, match="most: 0 must be at least 1"):
        ContributionBound("id", 0, KEY)
    with pytest.raises(ValueError, match="key: it must be 32 bytes long, got 3"):
        ContributionBound("id", 1, b"abc")
    with pytest.raises(TypeError, match="person: 3 must be the name of a column"):
        ContributionBound(3, 1, KEY)  # type: ignore[arg-type]
    assert KEY.hex() not in repr(ContributionBound("id", 1, KEY))
    assert repr(KEY) not in repr(ContributionBound("id", 1, KEY))
