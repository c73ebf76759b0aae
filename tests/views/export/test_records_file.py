"""Records as a file: the rows of `release.records`, with a data dictionary beside it, all or nothing."""

import json

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tallytree.views.export import export
from tallytree.views.export import exporting as exporting_module

KINDS = ["counts", "flows", "sizes", "tables", "people"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_parquet_file_has_the_records_as_text(made, tmp_path, kind):
    written = export(made[kind], "records", tmp_path / "records.parquet")
    rows = pq.read_table(written.path)
    assert written.tables == {"records": rows.num_rows}
    assert rows.equals(made[kind].records().read_all())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records.parquet", "records.parquet.datapackage.json"]
    assert not pq.read_metadata(written.path).row_group(0).column(0).is_stats_set


@pytest.mark.parametrize("kind", KINDS)
def test_a_csv_file_has_the_same_rows(made, tmp_path, kind):
    written = export(made[kind], "records", tmp_path / "records.csv")
    rows = made[kind].records().read_all()
    read = pa_csv(written.path, rows.schema)
    assert read.to_pydict() == rows.to_pydict()


def pa_csv(path, schema):
    convert = pyarrow.csv.ConvertOptions(
        column_types=schema, strings_can_be_null=False, quoted_strings_can_be_null=False
    )
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return pyarrow.csv.read_csv(path, convert_options=convert, parse_options=parse)


@pytest.mark.parametrize("kind", KINDS)
def test_file_and_dictionary_say_first_that_no_row_is_about_a_person(made, tmp_path, kind):
    export(made[kind], "records", tmp_path / "records.parquet")
    metadata = pq.read_schema(tmp_path / "records.parquet").metadata
    assert metadata[b"title"].startswith(b"Made-up records. ")
    assert metadata[b"records"].startswith(b"No row is about a person.")
    package = json.loads((tmp_path / "records.parquet.datapackage.json").read_text("utf-8"))
    assert package["description"].startswith("Made-up records\n\nNo row is about a person.")
    assert "Guarantee: " in package["description"]
    (resource,) = package["resources"]
    assert [each["name"] for each in resource["schema"]["fields"]] == made[kind].records().schema.names
    assert "primaryKey" not in resource["schema"]
    if kind == "sizes":
        assert "a made-up number" in resource["schema"]["fields"][-1]["description"].casefold()


def test_the_dictionary_of_a_csv_file_holds(made, tmp_path):
    frictionless = pytest.importorskip("frictionless")
    export(made["sizes"], "records", tmp_path / "records.csv")
    report = frictionless.validate(str(tmp_path / "records.csv.datapackage.json"))
    assert report.valid, report.flatten(["type", "note"])


def test_labels_like_formulas_are_marked_for_spreadsheets(made, tmp_path):
    export(made["tables"], "records", tmp_path / "plain.csv")
    export(made["tables"], "records", tmp_path / "marked.csv", for_spreadsheets=True)
    plain, marked = ((tmp_path / f"{name}.csv").read_text("utf-8") for name in ("plain", "marked"))
    assert '"=f"' in plain
    assert '"=f"' not in marked
    assert '"\'=f"' in marked


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("records", {}, r"out: '.*records' must end in \.csv or \.parquet, which decides the format"),
        ("records.csv", {"tables": ["town"]}, "tables: it is about published tables, and records have none; leave"),
        ("records.csv", {"alpha": 0.1}, "alpha: it is about published tables"),
        ("records.csv", {"suppress": "unreliable"}, "suppress: it is about published tables"),
        ("records.csv", {"boundaries": {"town": "x.geojson"}}, "boundaries: it is about published tables"),
    ],
)
def test_what_does_not_go_with_records_is_refused(made, tmp_path, out, options, message):
    with pytest.raises(ValueError, match=message):
        export(made["counts"], "records", tmp_path / out, **options)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_over_a_dictionary(made, tmp_path):
    (tmp_path / "records.csv.datapackage.json").write_text("mine")
    with pytest.raises(FileExistsError, match=r"records\.csv\.datapackage\.json' exists"):
        export(made["counts"], "records", tmp_path / "records.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["records.csv.datapackage.json"]


def test_after_an_error_nothing_is_left(made, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise OSError("full")

    monkeypatch.setattr(exporting_module, "write_records", fails)
    with pytest.raises(OSError, match="full"):
        export(made["counts"], "records", tmp_path / "records.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_get_its_name_leaves_no_dictionary(made, tmp_path, monkeypatch):
    path_type = type(tmp_path)
    rename = path_type.rename

    def fails_for_records(path, target):
        if path.suffix == ".csv":
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(path_type, "rename", fails_for_records)
    with pytest.raises(OSError, match="no"):
        export(made["counts"], "records", tmp_path / "records.csv")
    assert list(tmp_path.iterdir()) == []
