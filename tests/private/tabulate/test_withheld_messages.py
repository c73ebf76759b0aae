"""What readers and DuckDB say is withheld; temporary folders, options and checks of an engine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.inside import LeafCounts, LeafGroups, duckdb_session
from helpers.refused_records import LEAF, NUMBER, SECRET, members
from helpers.tabulating import check_counts, check_group_rows, check_group_sizes, count_records, group_sizes
from tallytree.engines import Local


class TestWhatReadersSayIsWithheld:
    def test_csv(self, engine: Local, tmp_path: Path, refuses: Any) -> None:
        rows = f"1,{SECRET}\n"
        for i, fault in enumerate([f"1,{SECRET},{NUMBER}\n", f'1,"{SECRET}\n', f"1,{SECRET}\xff\n"]):
            path = tmp_path / f"n{i}.csv"
            path.write_bytes(("leaf,id\n" + rows * 9 + fault + rows).encode("latin-1"))
            with refuses(ValueError, "records", "withheld"):
                group_sizes(engine, path, LEAF, group="id", smallest=0, largest=9)

    def test_gzip_that_is_none(self, engine: Local, tmp_path: Path, refuses: Any) -> None:
        (tmp_path / "n.csv.gz").write_bytes(f"leaf\n{SECRET}".encode())
        with refuses(ValueError, "n.csv.gz' cannot be read as csv"):
            count_records(engine, tmp_path / "n.csv.gz", [LEAF])

    def test_parquet_cut_short_or_damaged(self, engine: Local, tmp_path: Path, refuses: Any) -> None:
        pq.write_table(members(id=[SECRET * 50] * 3), tmp_path / "n.parquet", compression="none")
        whole = (tmp_path / "n.parquet").read_bytes()
        (tmp_path / "n.parquet").write_bytes(whole[:-20])
        with refuses(ValueError, "n.parquet' cannot be read as parquet"):
            count_records(engine, tmp_path / "n.parquet", [LEAF])
        (tmp_path / "n.parquet").write_bytes(whole[:8] + b"\xff" * 40 + whole[48:])
        with refuses((ValueError, OSError), "records"):
            group_sizes(engine, tmp_path / "n.parquet", LEAF, group="id", smallest=0, largest=9)

    def test_a_query_that_fails(self, engine: Local, refuses: Any) -> None:
        connection = duckdb.connect()
        for rows in (2, 500_000):
            relation = connection.sql(
                f"SELECT CASE WHEN range = {rows} - 1 THEN CAST('{SECRET}' || range AS INT) ELSE 1 END AS leaf "
                f"FROM range({rows})"
            )
            with refuses((ValueError, TypeError), "records"):
                count_records(engine, relation, [LEAF])
        assert connection.execute("SELECT 1").fetchall() == [(1,)]

    def test_a_stream_that_fails(self, engine: Local, refuses: Any) -> None:
        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"leaf": ["1"]})
            raise KeyError(SECRET)

        stream = pa.RecordBatchReader.from_batches(pa.schema([("leaf", pa.string())]), batches())
        with refuses(ValueError, "withheld"):
            count_records(engine, stream, [LEAF])

    def test_frames_that_mix_types(self, engine: Local, refuses: Any) -> None:
        frame = pd.DataFrame({"leaf": ["1", "2"], "id": pd.Series([SECRET, NUMBER], dtype=object)})
        with refuses(TypeError, "column 2 of the pandas frame"):
            group_sizes(engine, frame, LEAF, group="id", smallest=0, largest=9)
        with refuses(TypeError, "records"):
            count_records(engine, pl.DataFrame({"leaf": [object()]}), [LEAF])
        with refuses(TypeError, "records"):
            count_records(engine, pl.DataFrame({"leaf": pl.Series([1], dtype=pl.Int128)}), [LEAF])


class TestTemporaryFolder:
    def test_it_is_private_and_gone_also_after_an_error(self, tmp_path: Path, monkeypatch: Any) -> None:
        seen = []
        original = duckdb_session.DuckDBSession.run

        def run(self: Any, sql: str, **parameters: Any) -> Any:
            (folder,) = tmp_path.iterdir()
            setting = self._connection.execute("SELECT current_setting('temp_directory')").fetchone()
            seen.append((stat.S_IMODE(folder.stat().st_mode), setting[0] == str(folder)))
            return original(self, sql, **parameters)

        monkeypatch.setattr(duckdb_session.DuckDBSession, "run", run)
        engine = Local(temp_directory=tmp_path)
        count_records(engine, members(), [LEAF])
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(ValueError, match="null keys"):
            count_records(engine, members(leaf=pa.nulls(3)), [LEAF])
        assert list(tmp_path.iterdir()) == []
        assert set(seen) == {(0o700, True)}

    def test_spilled_rows_are_gone_also_when_memory_runs_out(self, tmp_path: Path, refuses: Any) -> None:
        ids = np.arange(1_000_000)
        engine = Local(memory_limit="8MB", threads=2, temp_directory=tmp_path)
        with refuses(MemoryError, "memory_limit"):
            group_sizes(
                engine,
                pa.table({"leaf": ids.astype(str), "id": ids}),
                LEAF,
                group="id",
                smallest=0,
                largest=9,
                on_unknown="drop",
            )
        assert list(tmp_path.iterdir()) == []

    def test_spilling_changes_nothing(self, tmp_path: Path) -> None:
        ids = np.arange(1_000_000) % 700_001
        table = pa.table({"leaf": ids % 2 + 1, "id": ids})
        engine = Local(memory_limit="50MB", threads=2, temp_directory=tmp_path)  # with 40 MB it now and then runs out
        result = group_sizes(engine, table, LEAF, group="id", smallest=0, largest=9)
        oracle = np.bincount(ids)
        for leaf, size, groups in zip(result.leaves, result.sizes, result.groups, strict=True):
            assert groups == np.count_nonzero(oracle[leaf::2] == size)

    def test_ctrl_c_stays_ctrl_c(self, tmp_path: Path, monkeypatch: Any) -> None:
        def interrupted(self: Any, sql: str, **parameters: Any) -> Any:
            def work() -> None:
                raise RuntimeError("Query interrupted")  # what DuckDB makes of it

            return self._shield(work)

        monkeypatch.setattr(duckdb_session.DuckDBSession, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            count_records(Local(temp_directory=tmp_path), members(), [LEAF])
        assert list(tmp_path.iterdir()) == []


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"memory_limit": "lots"}, ValueError),
            ({"memory_limit": "80%"}, ValueError),
            ({"memory_limit": 4}, TypeError),
            ({"threads": 0}, ValueError),
            ({"threads": 1.5}, TypeError),
            ({"threads": True}, TypeError),
            ({"temp_directory": "/no/such/folder"}, ValueError),
            ({"temp_directory": 3}, TypeError),
        ],
    )
    def test_are_validated_at_once(self, options: dict[str, Any], error: type[Exception]) -> None:
        with pytest.raises(error, match=next(iter(options))):
            Local(**options)

    @pytest.mark.parametrize("limit", ["1GB", "1.5 GiB", "900mb", "2000000000B"])
    def test_memory_limits(self, limit: str) -> None:
        assert count_records(Local(memory_limit=limit, temp_directory=os.curdir), members(), [LEAF]).counts.sum() == 3


class TestCheck:
    """`check_*` looks at columns and types, and at no row."""

    @pytest.fixture
    def bad_rows(self, tmp_path: Path) -> list[Any]:
        table = pa.table({"leaf": [None, "9"], "id": [None, SECRET], "n": [-1.5, NUMBER]})
        pq.write_table(table, tmp_path / "n.parquet")
        (tmp_path / "n.csv").write_text('leaf,id,n\n1,2\n"')
        return [table, tmp_path / "n.parquet", tmp_path / "n.csv", duckdb.connect().from_arrow(table)]

    def test_rows_are_not_read(self, bad_rows: list[Any]) -> None:
        for records in bad_rows:
            check_counts(Local(), records, [LEAF], count="n")
            check_group_sizes(Local(), records, LEAF, group="id")
            check_group_rows(Local(), records, LEAF, size="n", groups="n")

    def test_columns_and_types_are(self, bad_rows: list[Any]) -> None:
        for records in bad_rows:
            with pytest.raises(ValueError, match=r"mine.*'m' is missing"):
                check_counts(Local(), records, [LEAF], count="m", argument="mine")
        with pytest.raises(TypeError, match=r"'n'.*holds double"):
            check_group_sizes(Local(), bad_rows[0], LEAF, group="n")
        with pytest.raises(TypeError, match=r"'leaf'.*size.*holds string"):
            check_group_rows(Local(), bad_rows[1], LEAF, size="leaf", groups="n")

    def test_a_stream_is_still_whole_afterwards(self) -> None:
        stream = members().to_reader()
        check_counts(Local(), stream, [LEAF], count=None)
        assert count_records(Local(), stream, [LEAF]).counts.sum() == 3

    def test_a_relations_connection_is_free_afterwards(self) -> None:
        connection = duckdb.connect()
        relation = connection.sql("SELECT 1 AS leaf FROM range(1_000_000)")
        check_counts(Local(), relation, [LEAF], count=None)
        with pytest.raises(ValueError, match="'n' is missing"):
            check_counts(Local(), relation, [LEAF], count="n")
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
        assert count_records(Local(), relation, [LEAF]).counts.tolist() == [1_000_000]
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


class TestStatistics:
    def test_repr_shows_nothing_and_arrays_are_sealed(self) -> None:
        counts = LeafCounts((np.array([1, 2]),), np.array([NUMBER, 1]))
        groups = LeafGroups(np.array([1]), np.array([2]), np.array([NUMBER]))
        assert (repr(counts), repr(groups)) == ("LeafCounts(<private>)", "LeafGroups(<private>)")
        for array in (counts.parts[0], counts.counts, groups.leaves, groups.sizes, groups.groups):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0

    @pytest.mark.parametrize(
        ("parts", "counts"),
        [
            (([2, 1],), [1, 1]),
            (([1, 1],), [1, 1]),
            (([1, 1], [2, 1]), [1, 1]),
            (([1, 2],), [1, 0]),
            (([-1, 2],), [1, 1]),
            (([1],), [1, 1]),
            ((), [1]),
            (([1.0],), [1]),
        ],
    )
    def test_disorder_is_refused(self, parts: Any, counts: Any) -> None:
        with pytest.raises(ValueError):
            LeafCounts(tuple(np.array(part) for part in parts), np.array(counts))
