"""Spark finds what DuckDB finds, in every kind of table, and refuses the same records with the same words."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import LeafKey
from helpers.refused_records import LEAF
from tallytree.private.engines import CountGroups, CountHouseholds, CountRecords, GroupRows, Local, Spark
from tallytree.private.tabulate.contribution_bound import ContributionBound
from tallytree.private.tabulate.leaf_statistics import LeafHouseholds
from tallytree.private.tabulate.records import Wanted, check_records

pytestmark = [pytest.mark.slow, pytest.mark.needs("pyspark", "sqlglot")]

KEY = bytes(range(32))
PLACES = tt.Hierarchy.from_table(pa.table({"leaf": ["x", "é, y", "7", "-3"]}), ["leaf"])
PLACE = LeafKey(PLACES, ("leaf",))
BOUND = ContributionBound("who", 2, KEY, people_up_to=4, fingerprint=True)
HOMES = [f"h,{i}" for i in range(30)]


def drawn(n: int = 240) -> pa.Table:
    """Records of few people and many homes; a home has one leaf, and some lie outside the hierarchy."""
    rng = np.random.default_rng(3)
    home = rng.integers(0, len(HOMES), n)
    leaves = np.array(["x", "é, y", "7", "-3", "outside"])
    return pa.table(
        {
            "who": rng.integers(-5, 15, n),
            "home": [HOMES[i] for i in home],
            "leaf": leaves[home % 5].tolist(),
            "n": rng.integers(0, 4, n).astype(float),
            "cars": rng.integers(0, 5, n),
        }
    )


def arrays(found: Any) -> list[Any]:
    values = [getattr(found, name) for name in found.__dataclass_fields__]
    if isinstance(found, LeafHouseholds):
        return [part for value in values for part in arrays(value)]
    return [np.asarray(value).tolist() if value is not None else None for value in values]


REQUESTS = {
    "counts": CountRecords((PLACE,), on_unknown="drop"),
    "distinct": CountRecords(
        (PLACE,), "n", on_unknown="drop", bound=ContributionBound("who", 2, KEY, True, 4, fingerprint=True)
    ),
    "bound": CountRecords((PLACE,), "n", on_unknown="drop", bound=BOUND),
    "sizes": CountGroups(PLACE, "home", largest=9, on_unknown="drop"),
    "households": CountHouseholds((PLACE,), "home", on_unknown="drop"),
    "bounded households": CountHouseholds((PLACE,), "home", on_unknown="drop", bound=ContributionBound("who", 2, KEY)),
    "memberships": CountGroups(
        PLACE, "home", largest=9, quantity="cars", max_quantity=2, on_unknown="drop", bound=BOUND
    ),
    "rows": GroupRows(PLACE, "cars", "n", smallest=1, largest=3, on_unknown="drop"),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_every_request_finds_the_same(spark: Any, request_: Any) -> None:
    table = drawn()
    assert arrays(Spark(spark).tabulate(table, request_)) == arrays(Local().tabulate(table, request_))


def in_catalog(spark: Any, table: pa.Table, folder: Path) -> Any:
    spark.createDataFrame(table).createOrReplaceTempView("people_of_the_test")
    return "people_of_the_test"


def as_frame(spark: Any, table: pa.Table, folder: Path) -> Any:
    """With a collation in which X is x, which no comparison of ours may use."""
    frame = spark.createDataFrame(table)
    return frame.withColumn("leaf", frame.leaf.cast("string collate UTF8_LCASE")).repartition(3)


def as_two_files(spark: Any, table: pa.Table, folder: Path) -> Any:
    """In two schemas, in a folder whose name looks like another column and a pattern."""
    place = folder / "other=x" / "a{b}"
    place.mkdir(parents=True)
    pq.write_table(table.slice(0, 100), place / "a.parquet")
    pq.write_table(table.slice(100).select(["cars", "n", "leaf", "home", "who"]), place / "b.parquet")
    return place


def as_csv(spark: Any, table: pa.Table, folder: Path) -> Any:
    table.to_pandas().to_csv(folder / "people.csv", index=False)
    return folder / "people.csv"


@pytest.mark.parametrize("kind", [in_catalog, as_frame, as_two_files, as_csv, lambda s, t, f: t.to_pandas()])
def test_every_kind_of_table_is_read_as_it_is(spark: Any, kind: Any, tmp_path: Path) -> None:
    table, asked = drawn(), REQUESTS["bound"]
    assert arrays(Spark(spark).tabulate(kind(spark, table, tmp_path), asked)) == arrays(Local().tabulate(table, asked))


TEXTS = ["3", "3.0", "+3", "003", "3.", str(2**62), "3.5", "-3", "", "NaN", "inf", "1e3", "0x3", "1_000", "three",
         "3 4", "٣", " 3", "3\n", "3x\n", str(2**62 + 1), "9" * 40, "-0", "3x"]  # fmt: skip
FLOATS = [0.0, -0.0, 3.0, 2.5, -1.0, float("nan"), float("inf"), -float("inf"), 2.0**53, 2.0**53 - 1]
DECIMALS = [decimal.Decimal(text) for text in ("0", "3.00", "2.50", "-2", "99999999.00")]


def test_numbers_of_every_type_are_read_the_same(spark: Any, tmp_path: Path) -> None:
    from tallytree.private.tabulate import spark_session

    n = len(TEXTS)
    tables = {
        "text": pa.array(TEXTS),
        "float": pa.array((FLOATS * n)[:n]),
        "decimal": pa.array((DECIMALS * n)[:n], pa.decimal128(10, 2)),
        "unsigned": pa.array(([0, 2**62, 2**62 + 1, 2**64 - 1] * n)[:n], pa.uint64()),
        "null": pa.array([None, 3] * (n // 2)),
    }
    numbers = tt.Hierarchy.from_table(pa.table({"i": [0]}), ["i"])
    wanted = [Wanted(name, "number", name) for name in ("float", "decimal", "unsigned", "null")]
    table = pa.table({"i": range(n)} | tables)
    found = []
    for open_session in (lambda: tt.engines.Local(threads=1)._session("r"), lambda: spark_session.session(spark, "r")):
        with open_session() as db:
            # Text is a number in CSV files only; its expression is run on its own.
            records = check_records(table, [LeafKey(numbers, ("i",))], wanted, "r")
            query, places = db.source(records)
            rows = db.run(f"SELECT k0, v0, v1, v2, v3 FROM ({query}) AS source ORDER BY k0", **places)
            db.register("texts", pa.table({"i": range(n), "c": TEXTS}))
            match = "full_match(c, '[+]?[0-9]+([.]0*)?')"
            texts = db.run(
                f"SELECT i, CASE WHEN {match} THEN TRY_CAST(split_part(c, '.', 1) AS BIGINT) END AS v FROM texts "
                "ORDER BY i"
            )
            found.append((rows, texts))
    assert found[0] == found[1]
    assert [text for text, (_, value) in zip(TEXTS, found[1][1], strict=True) if value is not None] == [
        "3", "3.0", "+3", "003", "3.", str(2**62), str(2**62 + 1)
    ]  # fmt: skip


BAD = {
    "unknown": pa.table({"leaf": ["1", "9", "8"], "n": [1, 1, 1]}),
    "null key": pa.table({"leaf": ["1", None], "n": [1, 1]}),
    "number": pa.table({"leaf": ["1", "2"], "n": [1.5, 2]}),
    "type": pa.table({"leaf": [1.5, 2.5], "n": [1, 2]}),
    "missing": pa.table({"leaf": ["1"]}),
}


@pytest.mark.parametrize("table", BAD.values(), ids=BAD)
def test_refusals_have_the_same_words(spark: Any, table: pa.Table) -> None:
    said = []
    for engine in (Local(), Spark(spark)):
        with pytest.raises((ValueError, TypeError)) as caught:
            engine.tabulate(table, CountRecords((LEAF,), "n"))
        assert caught.value.__cause__ is caught.value.__context__ is None
        said.append((caught.type, str(caught.value)))
    assert said[0] == said[1]


def test_ids_whose_text_differs_between_engines_are_refused(spark: Any) -> None:
    table = pa.table({"leaf": ["1"], "id": pa.array([0], pa.timestamp("ns"))})
    with pytest.raises(TypeError, match=r"column 'id' \(group\) holds timestamp\[ns\], whose text .*cast the column t"):
        Spark(spark).check(table, CountGroups(LEAF, "id"))


def test_a_query_that_may_yield_other_rows_is_refused(spark: Any) -> None:
    from pyspark.sql import functions

    frame = spark.range(9).select((functions.rand() * 2).cast("int").alias("leaf"))
    with pytest.raises(ValueError, match="the data frame's query is not deterministic"):
        Spark(spark).check(frame, CountRecords((LEAF,)))


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_ids_that_are_integers_in_some_files_and_text_in_others(spark: Any, request_: Any, tmp_path: Path) -> None:
    """`7` and `007` are two people: Spark would unite both columns as numbers."""
    numbers, texts = drawn(), drawn()
    numbers = numbers.set_column(1, "home", pa.array(np.arange(len(numbers)) // 9))
    numbers = numbers.set_column(2, "leaf", pa.array(["x"] * len(numbers)))
    for place, name in enumerate(("who", "home")):
        ids = [f"{'0' * (i % 3)}{7 if i % 2 else 12}" for i in range(len(texts))]
        texts = texts.set_column(place, name, pa.array(ids))
    texts = texts.set_column(2, "leaf", numbers.column("leaf"))
    agreeing(spark, tmp_path, [numbers, texts], request_)


def test_labels_that_are_integers_in_some_files_and_text_in_others(spark: Any, tmp_path: Path) -> None:
    codes = LeafKey(tt.Hierarchy.from_table(pa.table({"leaf": ["7", "8"]}), ["leaf"]), ("leaf",))
    files = [pa.table({"leaf": [7, 8, 8]}), pa.table({"leaf": ["7", "07", "8", "08"]})]
    found = agreeing(spark, tmp_path, files, CountRecords((codes,), on_unknown="drop"))
    assert found.counts.tolist() == [2, 3]


def agreeing(spark: Any, folder: Path, files: list[pa.Table], request: Any) -> Any:
    """What both engines find in several files."""
    for number, table in enumerate(files):
        pq.write_table(table, folder / f"{number}.parquet")
    found = Local().tabulate(str(folder / "*.parquet"), request)
    assert arrays(Spark(spark).tabulate(str(folder / "*.parquet"), request)) == arrays(found)
    return found
