"""What tells that files were replaced: their sizes, times and folders' columns, whatever their order and place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.sources.same_tables import stamps_of

TABLE = pa.table({"state": ["A", "B"]})


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for i in (1, 2):
        pq.write_table(pa.concat_tables([TABLE] * i), tmp_path / f"{i}.parquet")
    return [tmp_path / "1.parquet", tmp_path / "2.parquet"]


def test_order_names_folders_and_links_make_no_difference(files: list[Path], tmp_path: Path) -> None:
    first, second = files
    stamps = stamps_of([first, second], "records")
    assert stamps is not None
    for same in ([second, first], tmp_path, str(tmp_path / "*.parquet"), tt.sources.Parquet(tmp_path), [*files, first]):
        assert stamps_of(same, "records") == stamps
    (tmp_path / "elsewhere").mkdir()
    first.rename(tmp_path / "elsewhere" / "b.parquet")
    shutil.copy2(second, tmp_path / "elsewhere" / "a.parquet")  # a copy that keeps the time
    assert stamps_of(tmp_path / "elsewhere", "records") == stamps


@pytest.mark.parametrize("how", ["written", "touched", "of another size", "one more", "one fewer"])
def test_a_file_that_was_replaced_makes_a_difference(files: list[Path], tmp_path: Path, how: str) -> None:
    before, times = stamps_of(tmp_path, "records"), (files[0].stat().st_atime_ns, files[0].stat().st_mtime_ns)
    if how == "one more":
        pq.write_table(TABLE, tmp_path / "3.parquet")
    elif how == "one fewer":
        files[1].unlink()
    else:
        if how != "touched":
            pq.write_table(TABLE if how == "written" else pa.concat_tables([TABLE] * 9), files[0])
        os.utime(files[0], ns=times if how == "of another size" else (times[0], times[1] + 1))
    assert stamps_of(tmp_path, "records") != before


def test_the_columns_in_the_names_of_folders_are_content(tmp_path: Path) -> None:
    folder = tmp_path / "day=1"
    folder.mkdir()
    pq.write_table(TABLE, folder / "a.parquet")
    before = stamps_of(tmp_path, "records")
    folder.rename(tmp_path / "day=2")
    assert stamps_of(tmp_path, "records") != before


def test_of_what_is_no_file_nothing_is_known(files: list[Path], tmp_path: Path) -> None:
    database = tt.sources.DuckDB(tmp_path / "people.duckdb", table="people")
    for table in (TABLE, TABLE.to_pandas(), database, tmp_path / "nothing.parquet", "a.table.of.spark", None):
        assert stamps_of(table, "records") is None
