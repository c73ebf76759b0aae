"""XLSX read back by openpyxl, DuckDB files by DuckDB, Parquet by pandas and polars."""

import zipfile

import duckdb
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.release.intervals import LevelErrors
from tallytree.release.quality import with_quality
from tallytree.sources.leaf_paths import decoded
from tallytree.views.export import export, xlsx_file
from tallytree.views.export.naming import file_stems, sheet_names, unique_names

KINDS = ("counts", "flows", "sizes", "tables", "people")


def tables_of(release):
    unbiased = release.statement["statistic"] == "tables"
    found = {
        ".".join(name) if len(name) > 1 else (name or ("all",))[0]: release.table(*name, unbiased=unbiased)
        for name in release.tables
    }
    if release.contributions is not None:
        found["contributions"] = decoded(with_quality(release.contributions, LevelErrors()))
    return found


@pytest.mark.needs("xlsxwriter")
@pytest.mark.parametrize("kind", KINDS)
def test_a_workbook_holds_every_table_as_text_and_numbers(made, tmp_path, kind):
    release = made[kind]
    export(release, "xlsx", tmp_path / "out.xlsx")
    book = openpyxl.load_workbook(tmp_path / "out.xlsx")
    expected = tables_of(release)
    assert book.sheetnames == ["Notes", "Columns", *sheet_names(expected)]
    for name, table in zip(book.sheetnames[2:], expected.values(), strict=True):
        header, *rows = book[name].iter_rows()
        assert [cell.value for cell in header] == table.column_names
        assert {cell.data_type for row in rows for cell in row} <= {"s", "n"}  # "f" is a formula
        assert not any(cell.hyperlink for row in rows for cell in row)
        found = [
            tuple(openpyxl.utils.escape.unescape(v) if isinstance(v := c.value, str) else v for c in row)
            for row in rows
        ]
        assert (
            found == [pytest.approx(tuple(row.values())) for row in table.to_pylist()]
            or [tuple(row.values()) for row in table.to_pylist()] == found
        )
    notes = {row[0].value: row[1].value for row in book["Notes"].iter_rows()}
    assert notes["Guarantee"] == release.statement["guarantee"]
    assert all(each in notes["Published exactly, and not protected"] for each in release.statement["invariants"])
    with zipfile.ZipFile(tmp_path / "out.xlsx") as parts:
        assert not any(b"<f>" in parts.read(name) for name in parts.namelist())


@pytest.mark.needs("xlsxwriter")
def test_a_table_or_a_label_that_no_sheet_holds_is_refused(made, tmp_path, monkeypatch):
    monkeypatch.setattr(xlsx_file, "MAX_ROWS", 19)
    with pytest.raises(ValueError, match=r"to: 'xlsx' holds 18 rows in a sheet, but 'town' has 19; leave it out"):
        export(made["counts"], "xlsx", tmp_path / "out.xlsx")
    export(made["counts"], "xlsx", tmp_path / "few.xlsx", tables=["all"])
    monkeypatch.undo()
    monkeypatch.setattr(xlsx_file, "MAX_TEXT", 5)
    with pytest.raises(ValueError, match=r"to: 'xlsx' holds 5 characters .*'(town|quality)'"):
        export(made["counts"], "xlsx", tmp_path / "out.xlsx", tables=["town"])
    assert [path.name for path in tmp_path.iterdir()] == ["few.xlsx"]


def test_sheets_have_legal_names():
    names = sheet_names(
        ["Area", "area", "a/b:c*d?e[f]g\\h", "x" * 40, "x" * 41, "'", "history", "Notes", "\x07"], taken=["Notes"]
    )
    assert names == [
        "Area", "area-2", "a_b_c_d_e_f_g_h", "x" * 31, "x" * 29 + "-2", "table", "history-2", "Notes-2", "_",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_holds_every_table_with_comments(made, tmp_path, kind):
    release = made[kind]
    export(release, "duckdb", tmp_path / "out.duckdb", alpha=0.1)
    with duckdb.connect(str(tmp_path / "out.duckdb"), read_only=True) as database:
        names = [name for (name,) in database.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        expected = tables_of(release)
        assert sorted(names) == sorted([*expected, "tallytree_about", "tallytree_columns"])
        for name in expected:
            found = database.sql(f'SELECT * FROM "{name}"').to_arrow_table().to_pydict()
            assert {key: found[key] for key in expected[name].column_names} == expected[name].to_pydict()
            assert name == "contributions" or {"ci_upper", "tail_ci_upper"} & found.keys()
        facts = dict(database.execute("SELECT subject, text FROM tallytree_about WHERE subject <> 'Note'").fetchall())
        assert facts["Guarantee"] == release.statement["guarantee"]
        comments = database.execute(
            "SELECT comment FROM duckdb_columns() WHERE NOT internal AND table_name NOT LIKE 'tallytree%'"
        )
        assert all(comment for (comment,) in comments.fetchall())


@pytest.mark.parametrize("kind", KINDS)
def test_parquet_comes_back_with_descriptions(made, tmp_path, kind):
    release = made[kind]
    exported = export(release, "parquet", tmp_path / "out")
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert len(files) == len(exported.tables)
    by_title = {pq.read_schema(file).metadata[b"title"].decode(): file for file in files}
    for name, expected in tables_of(release).items():
        schema = pq.read_schema(by_title[name])
        assert all(field.metadata[b"description"] for field in schema)
        assert pl.read_parquet(by_title[name]).to_dict(as_series=False) == expected.to_pydict()
        assert pd.read_parquet(by_title[name]).to_dict("list") == expected.to_pydict()


def test_tables_whose_names_would_give_one_file_have_two(tmp_path):
    rows = pa.table({"a/b": ["x", "x"], "a_b": ["y", "z"], "A B": ["1", "2"]})
    tree = tt.Hierarchy.from_table(rows, ["a/b", "a_b", "A B"])
    release = tt.release_counts(rows, tree, tt.Budget(epsilon=1), neighboring="add_remove", seed=1)
    export(release, "parquet", tmp_path / "out")
    stems = sorted(path.stem for path in (tmp_path / "out").glob("*.parquet"))
    assert stems == ["A_B-3", "a_b", "a_b-2"]
    export(release, "parquet", tmp_path / "one", tables=["A B"])  # a choice of tables changes no name
    assert [path.stem for path in (tmp_path / "one").glob("*.parquet")] == ["A_B-3"]
    export(release, "duckdb", tmp_path / "out.duckdb")


def test_names_are_unique_where_capitals_do_not_count():
    assert unique_names(["a", "A", "a-2", "b"], taken=["B"]) == ["a", "A-2", "a-2-2", "b-2"]
    assert file_stems(["..", "é/ü", "x" * 300, "🙂"]) == ["table", "é_ü", "x" * 150, "_"]
