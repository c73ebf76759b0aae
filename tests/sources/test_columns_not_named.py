"""Columns that nobody named are not converted: whatever is in them, a table is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt

SECRET = "Zwetschke"  # noqa: S105
STATES = ["A", "A", "B"]
AREAS = tt.Hierarchy.from_values("state", ["A", "B"])


class Unknown:
    """Of no library's types."""


def mixed(_: Path) -> Any:
    return pd.DataFrame({"state": STATES, "shape": [1, SECRET, [2]], 7: [Unknown()] * 3})


def mixed_index(_: Path) -> Any:
    return pd.DataFrame({"state": STATES}, index=pd.Index([1, SECRET, (2,)], name="state"))


def geometry(_: Path) -> Any:
    geopandas = pytest.importorskip("geopandas")
    return geopandas.GeoDataFrame({"state": STATES}, geometry=geopandas.points_from_xy([0, 1, 2], [0, 1, 2]), crs=4326)


def wide(_: Path) -> Any:
    return pl.DataFrame({"state": STATES, "wide": pl.Series([2**90] * 3, dtype=pl.Int128)})


def relation(_: Path) -> Any:
    rows = duckdb.connect().from_arrow(pa.table({"state": STATES, "text": ["1", SECRET, "3"], 'o"d d': [1, 2, 3]}))
    return rows.project('"o""d d", state, CAST(text AS INTEGER) AS number')


def files(folder: Path) -> Any:
    kinds = [pa.timestamp("ns"), pa.time64("us"), pa.uint64(), pa.duration("us")]
    odd = {f"odd{i}": pa.array([1, 2, 3], pa.int64()).cast(kind) for i, kind in enumerate(kinds)}
    odd["map"] = pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"state": STATES, **odd}), folder / "rows.parquet")
    return folder / "rows.parquet"


TABLES = [mixed, mixed_index, geometry, wide, lambda folder: wide(folder).lazy(), relation, files]


@pytest.fixture(params=TABLES, ids=["mixed", "index", "geometry", "wide", "lazy", "relation", "files"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path)


def counts(table: Any, **options: Any) -> list[int]:
    made = tt.release_counts(
        table, AREAS, tt.Budget(epsilon=10**6), neighboring="add_remove", seed=1, **options
    )  # nearly without noise
    return made.table("state")["count"].to_pylist()


def test_as_records(table: Any) -> None:
    assert counts(table) == [2, 1]


def test_as_a_public_table(table: Any) -> None:
    assert tt.Hierarchy.from_table(table, ["state"], finer=True).n_leaves == 2


def test_as_areas_of_a_total() -> None:
    release = tt.release_counts(
        pa.table({"state": STATES}), AREAS, tt.Budget(epsilon=10**6), neighboring="add_remove", seed=1
    )
    areas = pd.DataFrame({"state": ["A", "B"], "region": ["r", "r"], "count": [Unknown(), SECRET]})
    assert release.total(areas, by="region")["count"].to_pylist() == [3]


@pytest.mark.parametrize("make", [mixed, wide, lambda folder: wide(folder).lazy()], ids=["pandas", "polars", "lazy"])
def test_one_that_is_named_is_refused_by_its_place(make: Callable[[Path], Any], tmp_path: Path) -> None:
    named = "shape" if make is mixed else "wide"
    with pytest.raises(TypeError, match=r"^records: column 2 of the .* Arrow") as caught:
        counts(make(tmp_path), count=named)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.slow
@pytest.mark.needs("pyspark", "sqlglot")
def test_spark_reads_files_with_types_that_it_does_not_know(spark: Any, tmp_path: Path) -> None:
    assert counts(files(tmp_path), engine=tt.engines.Spark(spark)) == [2, 1]


def test_a_relation_whose_columns_differ_in_case_alone_is_read() -> None:
    relation = duckdb.sql("SELECT 'A' AS state, 'B' AS \"State\"")
    areas = tt.Hierarchy.from_values("State", ["A", "B"])
    found = tt.release_counts(relation, areas, tt.Budget(epsilon=500), neighboring="add_remove", seed=1)
    assert found.table("State")["count"].to_pylist() == [0, 1]
