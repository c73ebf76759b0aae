"""Tables in a spec: lists and mappings, their paths, what of them is published, and their mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tallytree as tt
from tallytree.cli.app import app
from tallytree.spec import SpecError, load_spec
from tallytree.spec.budget_changes import plain_mapping

TEXT = """\
statistic: counts
variables: [WHERE]
records: {records}
hierarchy: {{path: {path}, levels: [state, county]}}
budget: {{epsilon: 1}}
neighboring: change_one
seed: 1
"""
ROWS = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Any) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "areas.csv").write_text("state,county\nA,x\nA,y\nB,x\n")
    pq.write_table(ROWS, tmp_path / "data" / "people.parquet")
    for state in "AB":
        (tmp_path / "data" / f"state={state}").mkdir()
        (tmp_path / "data" / f"state={state}" / "a.txt").write_bytes("county;ä\nx;1\n".encode("latin-1"))
    with duckdb.connect(str(tmp_path / "data" / "lake.db")) as connection:
        connection.execute(f"CREATE TABLE people AS FROM '{tmp_path}/data/people.parquet'")
        connection.execute(f"CREATE VIEW areas AS FROM read_csv('{tmp_path}/areas.csv')")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("WHERE", "data")
    return tmp_path


def spec(folder: Path, records: str, path: str = "areas.csv") -> Any:
    (folder / "spec.yaml").write_text(TEXT.format(records=records, path=path))
    return load_spec(folder / "spec.yaml")


@pytest.mark.parametrize(
    ("records", "named"),
    [
        ("data/people.parquet", "data/people.parquet"),
        ("[data/people.parquet]", "<list of files>"),
        ('["${WHERE}/people.parquet", data/people.parquet]', "<list of files>"),
        ("{parquet: data/people.parquet, partitions: []}", {"parquet": "data/people.parquet", "partitions": []}),
        ('{duckdb: "${WHERE}/lake.db", table: people}', {"duckdb": "${WHERE}/lake.db", "table": "people"}),
        (
            '{csv: "data/*/a.txt", separator: ";", encoding: latin-1}',
            {"csv": "data/*/a.txt", "separator": ";", "encoding": "iso8859-1"},
        ),
        ("{csv: [data/../areas.csv], partitions: []}", {"csv": "<list of files>", "partitions": []}),
    ],
)
def test_a_table_is_read_below_the_folder_of_the_spec_and_published_as_it_is_written(
    folder: Path, records: str, named: Any
) -> None:
    path = "areas.csv" if "areas" not in records else "{parquet: data/people.parquet}"
    release = spec(folder, records, path).release(folder / "out")
    assert release.spec["records"] == named
    assert tt.Release.load(folder / "out").spec["records"] == named


def test_what_is_outside_the_folder_of_the_spec_is_published_by_its_name(folder: Path) -> None:
    release = spec(folder, f"{{duckdb: {folder}/data/lake.db, table: people}}").release(folder / "out")
    assert release.spec["records"] == {"duckdb": "lake.db", "table": "people"}


def test_a_view_of_a_duckdb_file_reads_another_file_only_where_the_spec_says_so(folder: Path) -> None:
    view = "{duckdb: data/lake.db, table: areas%s}"
    with pytest.raises(SpecError, match=r"line 4, hierarchy\.path: the view 'areas' .*lake\.db'"):
        spec(folder, "data/people.parquet", view % "").plan()
    outcome = CliRunner().invoke(app, ["check", str(folder / "spec.yaml")])
    assert outcome.exit_code == 2
    assert "external_access: true}" in outcome.output
    assert spec(folder, "data/people.parquet", view % ", external_access: true").release(folder / "out").levels
    named = {"duckdb": "data/lake.db", "table": "areas", "external_access": True}
    read = plain_mapping(load_spec(folder / "spec.yaml").document, ("path",))
    assert read["hierarchy"]["path"] == named | {"duckdb": f"{folder}/data/lake.db"}
    assert load_spec(read).plan()


def test_a_mapping_of_the_spec_does_not_depend_on_the_working_directory(folder: Path) -> None:
    records = f"{folder}/data/lake.db"
    for given, plain in (
        ("{duckdb: data/lake.db, table: people}", {"duckdb": records, "table": "people"}),
        ("[data/people.parquet, s3://lake/a.parquet]", [f"{folder}/data/people.parquet", "s3://lake/a.parquet"]),
        ('{postgresql: "postgresql://host/db", table: a}', {"postgresql": "postgresql://host/db", "table": "a"}),
    ):
        read = plain_mapping(spec(folder, given).document, ("records",))
        assert read["records"] == plain
        assert read["hierarchy"]["path"] == f"{folder}/areas.csv"
        assert load_spec(read).document.data["records"] == plain
    tt.plan(folder / "spec.yaml", epsilons=[1])


@pytest.mark.parametrize("path", ["data/people.parquet", "[data/*.parquet]", "{duckdb: data/lake.db, table: PEOPLE}"])
def test_the_private_table_as_the_hierarchy(folder: Path, path: str) -> None:
    records = "{duckdb: ./data/lake.db, table: people}" if "duckdb" in path else "{parquet: data/people.parquet}"
    with pytest.raises(SpecError, match=r"line 4, hierarchy\.path: .*private table"):
        spec(folder, records, path).plan()


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ("[]", "records: the list is empty; give the paths of Parquet or CSV files"),
        ("[a.csv, 3]", 'records: 3 is read as a number; put it in quotes: "3"'),
        ("{}", "records: the mapping is empty; give the paths"),
        (
            "{cvs: a.csv}",
            "records: a table's mapping has one of the keys csv, parquet, postgresql, duckdb; did you mean cs",
        ),
        ("{csv: a.csv, seperator: ;}", "records: unknown option 'seperator' of a table; did you mean separator?"),
        ("{csv: a.csv, separator: ab}", "records: separator: it must be one ASCII character"),
        ("{csv: a.csv, partitions: year}", "records: 'year' must be a list, such as [year]"),
        ("{duckdb: a.db, table: t, external_access: 1}", "records: 1 must be true or false"),
        ("{duckdb: a.db}", "records: table is missing; name the table: {duckdb: path, table: …}"),
        ('{postgresql: "postgresql://host/db"}', "records: postgresql: give either a table or a query, and not both"),
        ('{postgresql: ["postgresql://host/db"], table: a}', "records: postgresql: it must be a URL"),
    ],
)
def test_mistakes(folder: Path, records: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(folder, records)
    assert f"line 3, {message}" in str(caught.value)
