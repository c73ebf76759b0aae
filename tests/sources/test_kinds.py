"""Tables with options: CSV in other ways, DuckDB files, queries; what of them is published, and what is refused."""

from __future__ import annotations

import gzip
import socket
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import CountRecords, spill_folder
from helpers.refused_records import LEAF, SECRET
from tallytree.engines import Local
from tallytree.sources import cloud, duckdb_files, postgresql
from tallytree.sources.addresses import check_address, published_name, published_private_name
from tallytree.sources.failures import SourceError
from tallytree.sources.locate import locate
from tallytree.sources.reading import read_public
from tallytree.sources.same_tables import refuse_private, same_table

CSV, DuckDB, Parquet, PostgreSQL = tt.sources.CSV, tt.sources.DuckDB, tt.sources.Parquet, tt.sources.PostgreSQL


def leaves(table: Any) -> list[int]:
    return Local(threads=2).tabulate(table, CountRecords([LEAF])).counts.tolist()


@pytest.mark.parametrize(
    ("encoding", "separator"),
    [("utf-8", ";"), ("latin-1", "|"), ("cp1252", "\t"), ("utf-16", ","), ("utf-16-le", ";"), ("utf-8-sig", "|")],
)
def test_csv_with_another_separator_and_encoding(tmp_path: Path, encoding: str, separator: str) -> None:
    text = f'naïve{separator}leaf\r\n"é{separator} ""x"""{separator}1\r\n"a,\nb;"{separator}2\r\n'
    for name in ("a.txt", "a.gz"):
        raw = text.encode(encoding)
        (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
        given = CSV(tmp_path / name, separator=separator, encoding=encoding)
        assert read_public(given, ["naïve"], "areas").column(0).to_pylist() == [f'é{separator} "x"', "a,\nb;"]
        assert leaves(given) == [1, 1]


def test_quotes_are_checked_beside_every_separator(tmp_path: Path) -> None:
    for separator, other in ((";", ","), (",", ";")):
        (tmp_path / "a.csv").write_text(f'leaf{separator}id\n1{separator}"{SECRET}"{other}\n')
        with pytest.raises(ValueError, match="withheld") as caught:
            leaves(CSV(tmp_path / "a.csv", separator=separator))
        assert SECRET not in str(caught.value)


def test_text_in_another_encoding_than_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"leaf\n1\n\xff\n")
    with pytest.raises(ValueError, match="withheld"):
        leaves(CSV(tmp_path / "a.csv", encoding="ascii"))


@pytest.mark.parametrize("block", [1, 2, 3, 7])
def test_characters_may_lie_across_blocks(tmp_path: Path, block: int, monkeypatch: Any) -> None:
    from tallytree.sources.csv_files import _Transcoded

    text = "ä€\U0001f600;x\n" * 5
    with pa.BufferReader(text.encode("utf-16")) as source:
        transcoded, read = _Transcoded(source, "utf-16"), b""
        while part := transcoded.read(block):
            assert len(part) <= block
            read += part
    assert read.decode() == text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lake.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE rows AS SELECT range % 2 + 1 AS leaf, range AS id, 'NAME' AS name FROM range(9)"
        )
        connection.execute('CREATE SCHEMA "S t"; CREATE VIEW "S t"."V ""w" AS SELECT * FROM rows WHERE leaf = 1')
        connection.execute(f"CREATE VIEW failing AS SELECT CAST('{SECRET}' || leaf AS INT) AS leaf FROM rows")
    return path


def test_a_table_and_a_view_of_a_duckdb_file(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    assert leaves(DuckDB(file, "rows")) == [5, 4]
    assert leaves(DuckDB(str(file), 'S t.V "w')) == [5]
    assert read_public(DuckDB(file, "ROWS"), ["name", "leaf"], "areas").num_rows == 9
    assert file.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["lake.db"]


def test_only_the_wanted_columns_of_a_duckdb_file_are_read_in_batches(file: Path) -> None:
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE VIEW long AS SELECT 1 AS leaf, error('read') AS other FROM range(300000)")
    batches = list(locate(DuckDB(file, "long"), "records").batches(["leaf"], "records"))
    assert len(batches) > 2
    assert leaves(DuckDB(file, "long")) == [300_000]


def test_what_duckdb_says_is_withheld(file: Path, refuses: Any) -> None:
    with refuses(OSError, "records: DuckDB cannot read the table to its end"):
        leaves(DuckDB(file, "failing"))


def test_duckdb_files_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    (tmp_path / "no.db").write_bytes(b"x" * 9_000)
    for given, message in (
        (DuckDB(tmp_path / "nothing.db", "rows"), r"no file at '.*nothing\.db'; give the path of a DuckDB file"),
        (DuckDB(tmp_path / "no.db", "rows"), r"no\.db' cannot be read as a DuckDB file"),
        (DuckDB(file, "nothing"), r"has no table or view 'nothing' that can be read; name another"),
        (str(file), r"of a database name the table: tt\.sources\.DuckDB\(path, table=…\)"),
    ):
        with pytest.raises(ValueError, match=message):
            leaves(given)
    with duckdb.connect(str(file)), pytest.raises(ValueError, match=r"is open in this process with other settings"):
        leaves(DuckDB(file, "rows"))


@pytest.mark.parametrize("query", ["read_csv('{}')", "read_text('{}')", "query('FROM read_csv(''{}'')')", "glob('{}')"])
def test_a_view_reads_another_file_only_where_the_caller_allows_it(file: Path, tmp_path: Path, query: str) -> None:
    (tmp_path / "local.csv").write_text(f"leaf\n1\n2\n{SECRET}\n")
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"CREATE VIEW v AS SELECT 1 AS leaf, * FROM {query.format(tmp_path / 'local.csv')}")
        connection.execute("CREATE VIEW w AS SELECT * FROM rows, v")
    for view in ("v", "main.w"):
        with pytest.raises(
            ValueError, match=f"areas: the view '{view}' of .*lake.db' reads something outside"
        ) as caught:
            read_public(DuckDB(file, view), ["leaf"], "areas")
        assert "external_access=True, in a spec {duckdb: path, table: …, external_access: true}" in str(caught.value)
        assert "local.csv" not in str(caught.value)
        assert SECRET not in str(caught.value)
        assert read_public(DuckDB(file, view, external_access=True), ["leaf"], "areas").num_rows > 0
    assert leaves(DuckDB(file, "rows")) == leaves(DuckDB(file, "rows", external_access=True)) == [5, 4]


def test_a_view_is_refused_also_where_its_file_is_reached_only_as_rows_are_read(file: Path, monkeypatch: Any) -> None:
    scan = locate(DuckDB(file, "rows"), "records")

    def denied(*_: Any, **__: Any) -> Any:
        raise duckdb.PermissionException(SECRET)

    monkeypatch.setattr(duckdb.DuckDBPyRelation, "to_arrow_reader", denied)
    with pytest.raises(SourceError, match=r"^records: the view 'rows' .*outside the database file"):
        list(scan.batches(["leaf"], "records"))


def test_a_lazy_frame_is_read_in_batches_of_the_wanted_columns() -> None:
    def fail(_: Any) -> Any:
        raise ValueError(SECRET)

    rows = pl.LazyFrame({"leaf": ["1", "2"] * 100_000})
    lazy = rows.with_columns(other=pl.col("leaf").map_batches(fail, return_dtype=pl.String))
    assert leaves(lazy) == [100_000, 100_000]
    assert len(list(locate(rows, "records").batches(["leaf"], "records"))) > 1
    assert read_public(rows.head(2), ["leaf"], "areas").num_rows == 2


def test_a_lazy_frame_that_fails(refuses: Any) -> None:
    lazy = pl.LazyFrame({"leaf": [SECRET]})
    with refuses(ValueError, "withheld"):
        leaves(lazy.select(pl.col("leaf").cast(pl.Int64)))
    with refuses(ValueError, "the columns of the LazyFrame are not known"):
        leaves(lazy.select("nothing"))
    with refuses(TypeError, "column 1 of the LazyFrame has a type that Arrow does not know"):
        leaves(pl.LazyFrame({"leaf": pl.Series([1], dtype=pl.Int128)}))


def test_a_data_set_of_arrow_is_read_and_is_the_same_table_as_its_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        pq.write_table(pa.table({"leaf": ["1", "2"], "id": [1, 2]}), tmp_path / f"{name}.parquet")
    dataset = ds.dataset(tmp_path)
    assert leaves(dataset) == leaves(tmp_path) == [2, 2]
    for public, private in ((dataset, str(tmp_path / "a.parquet")), ([tmp_path / "a.parquet"], dataset)):
        with pytest.raises(ValueError, match="it is the private table"):
            refuse_private(public, "hierarchy", private, "records")


def test_the_private_table_is_found_in_lists_and_databases(file: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    assert same_table([tmp_path / "link.csv"], CSV([tmp_path / "b.csv", tmp_path / "a.csv"], separator=";"))
    assert same_table(DuckDB(file, "main.ROWS"), DuckDB(tmp_path / "." / "lake.db", "rows"))
    assert not same_table(DuckDB(file, "rows"), DuckDB(file, "areas"))
    assert not same_table([tmp_path / "a.csv"], [tmp_path / "b.csv"])
    assert not same_table(None, [tmp_path / "b.csv"])


@pytest.mark.parametrize(
    "url",
    [
        "s3://KEY:S3CR3T@lake/a.parquet", "s3://lake/a.parquet?access_key=KEY&secret_key=S3CR3T",
        "gs://S3CR3T@lake/a.parquet", "az://lake/a.parquet?sv=1&sig=S3CR3T", "abfs://user:S3CR3T@lake/a.parquet",
        "hdfs://user:S3CR3T@host/a.parquet", "postgresql://user:S3CR3T@host/db", "postgres://user:S3/CR@3T@host/db",
        "postgresql://host/db?password=S3CR3T", "postgresql://user%3AS3CR3T@host/db",
        "postgresql://host/db?sslmode=require&sslpassword=S3CR3T",
        "postgresql://user:S3CR3T?more@host/db",
        "postgresql://host/db?scram_client_key=S3CR3T",
    ],
)  # fmt: skip
def test_a_credential_in_a_url_is_refused_and_not_shown(url: str, tmp_path: Path) -> None:
    from tallytree.spec import SpecError, load_spec

    calls = [lambda: locate(url, "records"), lambda: locate([url], "records"), lambda: Parquet(url), lambda: CSV([url])]
    if url.startswith("postgres"):
        calls = [lambda: PostgreSQL(url, table="people"), lambda: check_address(url, "records")]
    given = {"postgresql": url, "table": "people"} if url.startswith("postgres") else {"parquet": url}
    spec = {"statistic": "counts", "hierarchy": {"path": "a.csv", "levels": ["a"]}, "budget": {"epsilon": 1}}
    calls += [
        lambda each=each: load_spec({**spec, "neighboring": "change_one", "records": each}) for each in (given, url)
    ]
    for call in calls:
        with pytest.raises((ValueError, SpecError), match=r"(credentials or options|a password) in it.*; take it") as c:
            call()
        assert not any(each in str(c.value) for each in ("S3CR3T", "KEY:", "CR@3T"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CSV("a", separator=";;"), "separator: it must be one ASCII character"),
        (lambda: CSV("a", separator='"'), "separator: it must be one ASCII character"),
        (lambda: CSV("a", encoding="klingon"), "encoding: Python knows no text encoding of this name"),
        (lambda: CSV("a", encoding="gzip"), "encoding: Python knows no text encoding of this name"),
        (lambda: CSV("a", encoding=8), "encoding: int must be the name of an encoding"),
        (lambda: CSV(3), "csv: int must be a path, a glob or a URL, or a list of these"),
        (lambda: Parquet([]), "parquet: list must be a path"),
        (lambda: Parquet(["a", 3]), "parquet: the list holds int; it must hold paths"),
        (lambda: Parquet("a", partitions="year"), "partitions: str must be a list of column names"),
        (lambda: PostgreSQL("host/db", table="a"), "postgresql: it must be a URL"),
        (lambda: PostgreSQL("postgresql://host/db"), "give either a table or a query, and not both"),
        (lambda: PostgreSQL("postgresql://host/db", table=" "), "table: the text is empty or has a NUL"),
        (lambda: DuckDB(3, "a"), "duckdb: int must be the path of a DuckDB file"),
        (lambda: DuckDB("s3://lake/a.db", "a"), "duckdb: a database is read from a local file"),
        (lambda: DuckDB("a.db", None), "duckdb: give the name of its table"),
        (lambda: DuckDB("a.db", "t", external_access="yes"), "external_access: str must be True or False"),
        (lambda: locate([], "records"), "records: the list is empty"),
        (lambda: locate("postgresql://host/db", "records"), r"of a database a table is read; give tt\.sources\.Post"),
        (lambda: locate("https://host/a.csv", "records"), r"https:// is not read; give the path of a file, or a URL"),
        (lambda: locate(Path("s3://lake/a.csv"), "records"), r"a Path is no URL, it joins slashes; give the s3:// URL"),
        (
            lambda: locate("jdbc:postgresql://u:s3cr3t@h/db", "records"),
            "^records: the text is no path and no URL that is",
        ),
        (lambda: locate(" postgresql://u:s3cr3t@h/db", "records"), "^records: the text is no path and no URL that is"),
        (
            lambda: locate("host=h Password = s3cr3t", "records"),
            "^records: the text is no path and no URL that is read",
        ),
        (lambda: locate(["NAME-1", "NAME-2"], "records"), r"^records: no file at item 1 of the list; give"),
        (lambda: locate("az://lake/a.csv", "records"), r"set AZURE_STORAGE_ACCOUNT, or write abfs://container@account"),
    ],
)
def test_what_is_refused(make: Any, message: str, monkeypatch: Any) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT", raising=False)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        make()
    assert "s3cr3t" not in str(caught.value)


def test_a_workbook_is_refused(tmp_path: Path) -> None:
    (tmp_path / "areas.xlsx").touch()
    with pytest.raises(ValueError, match="a workbook is not read, save its sheet as CSV"):
        tt.Hierarchy.from_table(tmp_path / "areas.xlsx", ["state"])


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("/home/ann/people.csv", "people.csv"),
        ("s3://bucket/year=2026/people.parquet", "people.parquet"),
        (["/home/a.csv", Path("/home/b.csv")], ["a.csv", "b.csv"]),
        (CSV("/home/a.csv", ";", partitions=["year"]), {"csv": "a.csv", "separator": ";", "partitions": ["year"]}),
        (Parquet(["s3://b/a.parquet"]), {"parquet": ["a.parquet"]}),
        (PostgreSQL("postgresql://ann@host:1/db?sslmode=require", "t"), {"postgresql": "db", "table": "t"}),
        (PostgreSQL("postgresql://host/db", query="SELECT 1"), {"postgresql": "db", "query": "<query>"}),
        (DuckDB("/home/a.db", "t"), {"duckdb": "a.db", "table": "t"}),
        (DuckDB("/home/a.db", "t", True), {"duckdb": "a.db", "table": "t", "external_access": True}),
        (pa.table({"a": [1]}), "<Table>"),
        (None, None),
    ],
)
def test_what_is_published_of_a_table(table: Any, name: Any) -> None:
    assert published_name(table) == name


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (["/home/anna.csv"], "<list of files>"),
        (("/home/anna.csv", Path("/home/bob.csv")), "<list of files>"),
        (Parquet(["s3://b/anna.parquet"]), {"parquet": "<list of files>"}),
        (CSV(["anna.csv", "bob.csv"], ";", partitions=["year"]),
         {"csv": "<list of files>", "separator": ";", "partitions": ["year"]}),
        ("/home/*.csv", "*.csv"),
        (CSV("/home/a.csv", ";"), {"csv": "a.csv", "separator": ";"}),
        (PostgreSQL("postgresql://host/db", "t"), {"postgresql": "db", "table": "t"}),
        (pa.table({"a": [1]}), "<Table>"),
        (None, None),
    ],
)  # fmt: skip
def test_what_is_published_of_a_private_list_does_not_depend_on_its_files(table: Any, name: Any) -> None:
    assert published_private_name(table) == name


@pytest.mark.parametrize("scheme", ["gs", "az", "abfs", "hdfs"])
def test_other_clouds_are_read_as_s3_is(scheme: str, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "lake" / "deep").mkdir(parents=True)
    pq.write_table(pa.table({"leaf": ["1", "2"]}), tmp_path / "lake" / "deep" / "a.parquet")
    made = []

    def system(family: str, which: str, about: Any) -> Any:
        made.append((family, which))
        return pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem())

    monkeypatch.setattr(cloud, "_file_system", system)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "store")
    root = "hdfs://host:9000/lake" if scheme == "hdfs" else f"{scheme}://lake"
    assert leaves(f"{root}/deep/a.parquet") == leaves(f"{root}/**/*.parquet") == leaves(f"{root}/deep") == [1, 1]
    assert set(made) == {{"gs": ("gs", ""), "hdfs": ("hdfs", "host:9000")}.get(scheme, ("az", "store"))}


@pytest.mark.needs("fsspec")
def test_fsspec_is_used_where_pyarrow_has_no_file_system_of_its_own(monkeypatch: Any) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/lake/a.csv", b"leaf\n1\n2\n")
    monkeypatch.delattr(pa.fs, "GcsFileSystem", raising=False)
    monkeypatch.setattr(fsspec, "filesystem", lambda name: {"gs": memory}[name])
    cloud._file_system.cache_clear()
    try:
        assert leaves("gs://lake/a.csv") == [1, 1]
    finally:
        cloud._file_system.cache_clear()
        memory.rm("/lake", recursive=True)


@pytest.mark.parametrize("url", ["s3://b/./a.parquet", "s3://b/d/../a.parquet", "hdfs://h//a.parquet", "gs://b/d/.."])
def test_an_address_that_servers_resolve_in_different_ways_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^records: '.*' has an empty part, or one that is \. or \.\.; write"):
        leaves([url])


def test_a_data_set_with_a_file_twice_is_refused(tmp_path: Path) -> None:
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"leaf": ["x"]}), path)
    (tmp_path / "link.parquet").symlink_to(path)
    whole = ds.dataset(path)
    for given in (ds.dataset([path, path]), ds.dataset(tmp_path), ds.dataset([whole, whole])):
        with pytest.raises(ValueError, match=r"^records: a file is in the data set twice"):
            leaves(given)


def test_containers_of_two_accounts_are_two_places(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.table({"leaf": ["1", "2"]}), tmp_path / "lake" / "a.parquet")
    system = pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem())
    monkeypatch.setattr(cloud, "_file_system", lambda *_: system)
    one, other = (f"abfs://lake@{name}.dfs.core.windows.net/a.parquet" for name in ("one", "two"))
    assert leaves([one, one]) == [1, 1]
    with pytest.raises(ValueError, match=r"^records: .*several file systems; give those of one"):
        leaves([one, other])


def test_no_text_of_a_query_is_shown() -> None:
    shown = repr(PostgreSQL("postgresql://host/db", query=f"SELECT * FROM t WHERE name = '{SECRET}'"))
    assert SECRET not in shown
    assert shown == "PostgreSQL(url='postgresql://host/db', query=<query>)"
    assert repr(PostgreSQL("postgresql://host/db", "t")) == "PostgreSQL(url='postgresql://host/db', table='t')"


def test_rows_of_a_view_spill_where_the_engine_spills(file: Path, tmp_path: Path, monkeypatch: Any) -> None:
    made = []

    @contextmanager
    def folder(place: Any) -> Any:
        made.append(place)
        with spill_folder(place) as found:
            yield found

    monkeypatch.setattr(duckdb_files, "spill_folder", folder)
    (tmp_path / "spill").mkdir()
    engine = Local(threads=2, temp_directory=tmp_path / "spill")
    assert sum(engine.tabulate(DuckDB(file, "rows"), CountRecords([LEAF])).counts) > 0
    assert made == [str(tmp_path / "spill")]
    assert not list((tmp_path / "spill").iterdir())


@pytest.mark.needs("adbc_driver_postgresql")
def test_a_server_that_does_not_answer_is_not_waited_for(monkeypatch: Any) -> None:
    monkeypatch.setitem(postgresql._NETWORK, "connect_timeout", "2")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://user@127.0.0.1:{silent.getsockname()[1]}/db"
        with pytest.raises(OSError, match="records: the PostgreSQL database cannot be opened"):
            locate(tt.sources.PostgreSQL(url, table="people"), "records")


@pytest.mark.parametrize(
    ("url", "added"),
    [
        ("postgresql://u@h/db", "?connect_timeout=30&keepalives_idle=30&"),
        ("postgresql://u@h/db?connect_timeout=5", "&keepalives_idle=30&"),
    ],
)
def test_a_url_says_itself_how_long_to_wait(url: str, added: str, monkeypatch: Any) -> None:
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    assert postgresql._with_limits(url).startswith(url + added)
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "7")
    assert postgresql._with_limits(url).count("connect_timeout") == url.count("connect_timeout")


def test_a_question_to_a_server_has_a_limit(monkeypatch: Any) -> None:
    never = threading.Event()
    place = cloud.CloudPlace("gs", None, "gs://")
    monkeypatch.setattr(cloud, "SECONDS", 0.05)
    with pytest.raises(SourceError, match=r"records: 'gs://bucket/x' .*not answered within"):
        place.run(never.wait, "bucket/x", "records")
    never.set()
    monkeypatch.undo()
    assert place.run(lambda: None, "bucket/x", "records") is None
    with pytest.raises(SourceError, match="is not there"):
        place.run(lambda: open("/no/such/file"), "bucket/x", "records")  # noqa: PTH123, SIM115
    with pytest.raises(KeyError):
        place.run(lambda: {}["x"], "bucket/x", "records")
