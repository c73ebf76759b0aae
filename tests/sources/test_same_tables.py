"""The private table in place of a public one: found whatever its name is."""

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tallytree.sources import cloud
from tallytree.sources.same_tables import refuse_private, same_table, table_files


@pytest.fixture
def private(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    file = tmp_path / "deep" / "er" / "people.parquet"
    file.touch()
    (tmp_path / "link.parquet").symlink_to(file)
    (tmp_path / "other_name.parquet").hardlink_to(file)
    (tmp_path / "areas.parquet").touch()
    return file


@pytest.mark.parametrize(
    "spelled",
    ["deep/er/people.parquet", "deep", "deep/**/*.parquet", "link.parquet", "other_*.parquet", "deep/../deep"],
)
def test_a_private_file_is_found_by_every_name(private, tmp_path, spelled):
    with pytest.raises(ValueError, match=r"^hierarchy: .*private table .*records, .* give a pub"):
        refuse_private(str(tmp_path / spelled), "hierarchy", private, "records")
    refuse_private(tmp_path / "areas.parquet", "hierarchy", tmp_path / spelled, "records")


def test_tables_in_memory_are_compared_by_identity(private):
    table = pa.table({"a": [1]})
    with pytest.raises(ValueError, match=r"^public_groups: it is the private table"):
        refuse_private(table, "public_groups", table, "records")
    refuse_private(pa.table({"a": [1]}), "public_groups", table, "records")
    refuse_private(None, "public_groups", None, "records")
    refuse_private(private, "public_groups", table, "records")


def test_what_does_not_exist_is_compared_by_its_place(tmp_path):
    assert table_files(tmp_path / "a" / ".." / "b.csv") == table_files(tmp_path / "b.csv")


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Files of two private tables and a public one, in the working folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("people1", "people2", "it's", "areas"):
        pq.write_table(pa.table({"state": ["A", "B"]}), f"{name}.parquet")
    Path("trips.csv").write_text("state\nA\n")
    return tmp_path


def a_folder(path):
    """A folder as a file system of Arrow."""
    return pa.fs.SubTreeFileSystem(str(Path(path).absolute()), pa.fs.LocalFileSystem())


@pytest.mark.parametrize(
    ("public", "private"),
    [
        (lambda: pl.scan_parquet("people1.parquet"), "people1.parquet"),
        (lambda: pl.scan_parquet("people*.parquet").select("state").unique(), "people2.parquet"),
        (lambda: pl.scan_parquet(["areas.parquet", "people1.parquet", "people2.parquet"]), "people2.parquet"),
        (lambda: pl.scan_csv("trips.csv").join(pl.scan_parquet("areas.parquet"), on="state"), "trips.csv"),
        (lambda: ds.dataset([ds.dataset("areas.parquet"), ds.dataset("people1.parquet")]), "people1.parquet"),
        (lambda: duckdb.from_parquet("people*.parquet"), "people2.parquet"),
        (lambda: duckdb.sql("SELECT DISTINCT state FROM 'people1.parquet'"), "people*.parquet"),
        (lambda: duckdb.sql('FROM "it\'s.parquet"'), "it's.parquet"),
        (lambda: duckdb.sql("FROM read_parquet(['areas.parquet', 'it''s.parquet'])"), "it's.parquet"),
        (lambda: duckdb.sql("SELECT state -- it's public\nFROM 'people1.parquet'"), "people1.parquet"),
        (lambda: duckdb.sql("FROM /* it's */ 'people1.parquet' WHERE state <> '--'"), "people1.parquet"),
        (lambda: duckdb.sql("SELECT E'it\\'s' AS it, * FROM read_parquet($$people1.parquet$$)"), "people1.parquet"),
        (lambda: duckdb.sql("SELECT 'it''s -- ' AS it, * FROM read_parquet($a$people1.parquet$a$)"), "people1.parquet"),
        (lambda: ds.dataset("people1.parquet", filesystem=a_folder(".")), "people1.parquet"),
        (lambda: duckdb.read_csv("trips.csv").filter("state <> ''"), "trips.csv"),
        (lambda: "people2.parquet", lambda: pl.scan_parquet(["people1.parquet", "people2.parquet"])),
        (lambda: "people1.parquet", lambda: duckdb.sql("FROM read_parquet(['people1.parquet', 'people2.parquet'])")),
        (
            lambda: "people2.parquet",
            lambda: pl.concat([pl.scan_parquet("people1.parquet"), pl.scan_parquet("people2.parquet")]),
        ),
        (
            lambda: duckdb.sql("SELECT state FROM 'people1.parquet' JOIN 'areas.parquet' USING (state)"),
            lambda: pl.scan_parquet("people1.parquet").join(pl.scan_parquet("areas.parquet"), on="state"),
        ),
    ],
)
def test_the_private_files_are_found_in_queries(rows, public, private):
    private = private() if callable(private) else private
    with pytest.raises(ValueError, match=r"^hierarchy: it is the private table that is given as records"):
        refuse_private(public(), "hierarchy", private, "records")
    refuse_private("areas.parquet", "hierarchy", private, "records")
    refuse_private(pl.scan_parquet("areas.parquet"), "hierarchy", private, "records")
    refuse_private(duckdb.from_parquet("areas.parquet"), "hierarchy", private, "records")


def test_what_a_query_only_mentions_is_no_table(rows):
    for private in ("people1.parquet", rows):
        refuse_private(duckdb.sql("SELECT '.' AS state, '*' AS any, '' AS none"), "hierarchy", private, "records")
    frame = pl.LazyFrame({"state": ["A"]})
    refuse_private(frame, "hierarchy", "people1.parquet", "records")
    refuse_private(pl.scan_parquet("gone.parquet"), "hierarchy", "people1.parquet", "records")
    assert same_table(frame, frame)


def test_containers_of_azure_are_those_of_an_account(monkeypatch):
    def url(account):
        return f"abfs://lake@{account}.dfs.core.windows.net/people.parquet"

    monkeypatch.setattr(cloud, "_file_system", lambda *_: pa.fs.LocalFileSystem())
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "one")
    assert same_table(url("one"), "az://lake/people.parquet")
    assert same_table(url("One"), url("one"))
    assert not same_table(url("one"), url("two"))
    assert not same_table("az://lake/people.parquet", url("two"))
