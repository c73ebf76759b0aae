"""The SQL gives what a dictionary gives, for every kind of table and labels in any script."""

from __future__ import annotations

import csv
import gzip
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.inside import LeafKey
from helpers.tabulating import count_records, group_rows, group_sizes
from tallytree.engines import Local
from tallytree.hierarchy import Hierarchy

AWKWARD = [
    "7",
    "007",
    "a,b",
    'q"q',
    "'",
    "line\nbreak",
    "crlf\r\n",
    "ä",
    "a\u0308",
    "北京",
    "مدينة",
    "𝒳",
    "NULL",
    "NA",
    " ",
    "A",
]

label = st.one_of(st.sampled_from(AWKWARD), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3))
csv_safe = st.one_of(
    st.sampled_from(AWKWARD), st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=3)
)

Columns = dict[str, list[Any]]


def write_csv(path: Path, columns: Columns) -> None:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def as_parquet(columns: Columns, folder: Path) -> Any:
    pq.write_table(pa.table(columns), folder / "records.parquet")
    return folder / "records.parquet"


def as_glob(columns: Columns, folder: Path) -> Any:
    """Three files, the last with its columns in another order; an unrelated name for DuckDB's own globbing to miss."""
    table = pa.table(columns)
    third = -(-table.num_rows // 3)
    for i in range(3):
        part = table.slice(i * third, third)
        part = part.select(part.schema.names[::-1]) if i == 2 else part
        pq.write_table(part, folder / f"part{i}[x]?.parquet", row_group_size=2)
    return str(folder / "part*.parquet")


def as_csv(columns: Columns, folder: Path) -> Any:
    write_csv(folder / "records.csv", columns)
    return str(folder / "records.csv")


def as_csv_gz(columns: Columns, folder: Path) -> Any:
    write_csv(folder / "records.csv.gz", columns)
    return folder / "*.csv.gz"


def frame_of(columns: Columns) -> pd.DataFrame:
    """A column without rows would otherwise hold floats."""
    return pd.DataFrame({name: pd.Series(values, dtype=None if values else object) for name, values in columns.items()})


def as_pandas(columns: Columns, _: Path) -> Any:
    frame = frame_of(columns)
    frame.index = pd.MultiIndex.from_arrays([["x"] * len(frame), np.arange(len(frame))[::-1]], names=["leaf", "n"])
    return frame


def as_categorical(columns: Columns, _: Path) -> Any:
    frame = frame_of(columns)
    return frame.assign(**{name: frame[name].astype("category") for name in ("region", "town") if name in frame})


def as_polars(columns: Columns, _: Path) -> Any:
    return pl.DataFrame(columns)


def as_pyarrow(columns: Columns, _: Path) -> Any:
    table = pa.table(columns)
    return pa.concat_tables([table.slice(0, 1), table.slice(1)])


def as_batches(columns: Columns, _: Path) -> Any:
    return pa.table(columns).to_reader(max_chunksize=2)


def as_relation(columns: Columns, _: Path) -> Any:
    return duckdb.connect().from_arrow(pa.table(columns))


ANY_TEXT = [as_parquet, as_glob, as_pandas, as_categorical, as_polars, as_pyarrow, as_batches, as_relation]
CSV = [as_csv, as_csv_gz]


@st.composite
def worlds(draw: st.DrawFn, text: st.SearchStrategy[str]) -> tuple[Hierarchy, list[tuple[str, str]]]:
    """A hierarchy of two levels, where one town's name may be found in two regions; and its leaves."""
    regions = draw(st.lists(text, min_size=1, max_size=3, unique=True))
    towns = draw(st.lists(text, min_size=1, max_size=3, unique=True))
    pairs = [(region, town) for region in regions for town in towns]
    leaves = draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))
    table = pa.table({"region": [r for r, _ in leaves], "town": [t for _, t in leaves]})
    hierarchy = Hierarchy.from_table(table, levels=["region", "town"])
    return hierarchy, list(zip(*hierarchy.leaf_table().to_pydict().values(), strict=True))


def kinds(data: st.DataObject) -> tuple[Any, st.SearchStrategy[str]]:
    kind = data.draw(st.sampled_from(ANY_TEXT + CSV))
    return kind, (csv_safe if kind in CSV else label)


relaxed = settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.slow
@given(st.data())
@relaxed
def test_counts_of_pairs_of_leaves(data: st.DataObject) -> None:
    kind, text = kinds(data)
    (origins, froms), (destinations, tos) = data.draw(worlds(text)), data.draw(worlds(text))
    strangers = [("nowhere", "at all")] if ("nowhere", "at all") not in [*froms, *tos] else []
    rows = data.draw(
        st.lists(st.tuples(st.sampled_from(froms + strangers), st.sampled_from(tos), st.integers(0, 9)), max_size=12)
    )
    weighted = data.draw(st.booleans())
    oracle: Counter[tuple[int, int]] = Counter()
    for origin, destination, count in rows:
        if origin in froms:
            oracle[froms.index(origin), tos.index(destination)] += count if weighted else 1
    columns: Columns = {
        "unrelated": [None] * len(rows),
        "town": [origin[1] for origin, _, _ in rows],
        "to town": [destination[1] for _, destination, _ in rows],
        "region": [origin[0] for origin, _, _ in rows],
        'to`"region': [destination[0] for _, destination, _ in rows],
        "n": [count for _, _, count in rows],
    }
    keys = [LeafKey(origins, ("region", "town")), LeafKey(destinations, ('to`"region', "to town"))]
    with tempfile.TemporaryDirectory() as folder:
        result = count_records(
            Local(threads=2), kind(columns, Path(folder)), keys, count="n" if weighted else None, on_unknown="drop"
        )
    found = {(o, d): n for o, d, n in zip(*(a.tolist() for a in (*result.parts, result.counts)), strict=True)}
    assert found == {cell: n for cell, n in oracle.items() if n}
    assert list(found) == sorted(found)


@pytest.mark.slow
@given(st.data(), st.integers(0, 3), st.integers(0, 3))
@relaxed
def test_group_sizes_from_members(data: st.DataObject, smallest: int, span: int) -> None:
    kind, text = kinds(data)
    hierarchy, leaves = data.draw(worlds(text))
    ids = data.draw(st.sampled_from([text, st.integers(-(2**63), 2**63 - 1)]))
    homes = data.draw(st.dictionaries(ids, st.sampled_from(leaves), max_size=6))
    members = data.draw(st.lists(st.sampled_from(sorted(homes, key=str)), max_size=15)) if homes else []
    columns: Columns = {
        "id": members,
        "region": [homes[m][0] for m in members],
        "town": [homes[m][1] for m in members],
    }
    oracle: Counter[tuple[int, int]] = Counter()
    for member, size in Counter(members).items():
        oracle[leaves.index(homes[member]), min(max(size, smallest), smallest + span)] += 1
    with tempfile.TemporaryDirectory() as folder:
        result = group_sizes(
            Local(),
            kind(columns, Path(folder)),
            LeafKey(hierarchy, ("region", "town")),
            group="id",
            smallest=smallest,
            largest=smallest + span,
        )
    found = {(a, s): n for a, s, n in zip(result.leaves.tolist(), result.sizes.tolist(), result.groups, strict=True)}
    assert found == oracle
    assert list(found) == sorted(found)


@pytest.mark.slow
@given(st.data(), st.integers(1, 4))
@relaxed
def test_group_sizes_are_sums_of_quantities_each_cut(data: st.DataObject, most: int) -> None:
    kind, text = kinds(data)
    hierarchy, leaves = data.draw(worlds(text))
    homes = data.draw(st.dictionaries(text, st.sampled_from(leaves), max_size=6))
    member = st.tuples(st.sampled_from(sorted(homes)), st.integers(0, 7)) if homes else st.nothing()
    members = data.draw(st.lists(member, max_size=15)) if homes else []
    columns: Columns = {
        "id": [m for m, _ in members],
        "region": [homes[m][0] for m, _ in members],
        "town": [homes[m][1] for m, _ in members],
        "cars": [cars for _, cars in members],
    }
    sums: Counter[str] = Counter()
    for m, cars in members:
        sums[m] += min(cars, most)
    oracle = Counter((leaves.index(homes[m]), min(size, 10)) for m, size in sums.items())
    with tempfile.TemporaryDirectory() as folder:
        result = group_sizes(
            Local(),
            kind(columns, Path(folder)),
            LeafKey(hierarchy, ("region", "town")),
            group="id",
            quantity="cars",
            max_quantity=most,
            smallest=0,
            largest=10,
        )
    found = {(a, s): n for a, s, n in zip(result.leaves.tolist(), result.sizes.tolist(), result.groups, strict=True)}
    assert found == oracle


@pytest.mark.slow
@given(st.data(), st.integers(0, 3), st.integers(0, 3))
@relaxed
def test_group_rows_add_up(data: st.DataObject, smallest: int, span: int) -> None:
    kind, text = kinds(data)
    hierarchy, leaves = data.draw(worlds(text))
    rows = data.draw(st.lists(st.tuples(st.sampled_from(leaves), st.integers(0, 8), st.integers(0, 3)), max_size=12))
    as_number = data.draw(st.sampled_from([int, float]))
    columns: Columns = {
        "region": [leaf[0] for leaf, _, _ in rows],
        "town": [leaf[1] for leaf, _, _ in rows],
        "size": [as_number(size) for _, size, _ in rows],
        "groups": [as_number(groups) for _, _, groups in rows],
    }
    oracle: Counter[tuple[int, int]] = Counter()
    for leaf, size, groups in rows:
        oracle[leaves.index(leaf), min(max(size, smallest), smallest + span)] += groups
    with tempfile.TemporaryDirectory() as folder:
        result = group_rows(
            Local(threads=1),
            kind(columns, Path(folder)),
            LeafKey(hierarchy, ("region", "town")),
            size="size",
            groups="groups",
            smallest=smallest,
            largest=smallest + span,
        )
    found = {(a, s): n for a, s, n in zip(result.leaves.tolist(), result.sizes.tolist(), result.groups, strict=True)}
    assert found == {cell: n for cell, n in oracle.items() if n}


@pytest.mark.parametrize("kind", ["text", "int"])
def test_threads_and_row_order_do_not_matter(kind: str) -> None:
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 40_000, 100_000)
    columns: Columns = {"leaf": ids % 50, "id": ids.astype(str) if kind == "text" else ids}
    hierarchy = Hierarchy.from_table(pa.table({"leaf": np.arange(50)}), levels=["leaf"])
    key = LeafKey(hierarchy, ("leaf",))
    shuffled = pa.table(columns).take(pa.array(rng.permutation(len(ids))))
    one = group_sizes(Local(threads=1), pa.table(columns), key, group="id", smallest=0, largest=5)
    two = group_sizes(Local(threads=2), shuffled, key, group="id", smallest=0, largest=5)
    for name in ("leaves", "sizes", "groups"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    counts = [
        count_records(engine, table, [key])
        for engine, table in ((Local(threads=1), shuffled), (Local(threads=2), columns))
        for table in [pa.table(table) if isinstance(table, dict) else table]
    ]
    np.testing.assert_array_equal(counts[0].counts, counts[1].counts)
    np.testing.assert_array_equal(counts[0].counts, np.bincount(ids % 50))
