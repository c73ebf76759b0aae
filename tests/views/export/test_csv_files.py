"""CSV, read back by Python's csv, pandas, polars, Frictionless and csvw."""

import csv
import json

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import export
from tallytree.release.intervals import LevelErrors
from tallytree.release.quality import with_quality
from tallytree.sources.leaf_paths import decoded

KINDS = ("counts", "flows", "sizes", "tables", "people")


def as_text(table):
    return [list(map(str, row.values())) for row in table.to_pylist()]


def published(release, resource):
    name = resource["title"]
    unbiased = release.statement["statistic"] == "tables"  # of cells that are listed by it, it is left out
    if name == "contributions":
        return decoded(with_quality(release.contributions, LevelErrors()))
    return release.table(name, unbiased=unbiased)


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_comes_back_from_csv(made, tmp_path, kind):
    release = made[kind]
    exported = export(release, "csv", tmp_path / "out")
    package = json.loads((tmp_path / "out/datapackage.json").read_text("utf-8"))
    assert [each["title"] for each in package["resources"]] == list(exported.tables)
    for resource in package["resources"]:
        file, expected = tmp_path / "out" / resource["path"], published(release, resource)
        with file.open(encoding="utf-8", newline="") as opened:
            header, *rows = csv.reader(opened)
        assert header == expected.column_names == [each["name"] for each in resource["schema"]["fields"]]
        floats = [
            header.index(name) for name in header if "std_dev" in name or name in ("unbiased", "probability_zero")
        ]
        wanted = as_text(expected)
        for row in (*rows, *wanted):
            for place in floats:
                row[place] = float(row[place])
        assert rows == wanted
        labels = {name: str for name, field in zip(header, expected.schema, strict=True) if "string" in str(field.type)}
        frame = pd.read_csv(file, dtype=labels, keep_default_na=False)
        pd.testing.assert_frame_equal(frame, expected.to_pandas(), check_dtype=False)
        kinds = dict.fromkeys(labels, pl.String)
        assert pl.read_csv(file, schema_overrides=kinds).to_dict(as_series=False) == expected.to_pydict()


@pytest.mark.parametrize("kind", KINDS)
def test_data_dictionaries_are_valid(made, tmp_path, kind):
    import csvw
    import frictionless

    export(made[kind], "csv", tmp_path / "out", alpha=0.1)
    report = frictionless.validate(str(tmp_path / "out/datapackage.json"))
    assert report.valid, report.flatten(["type", "note"])
    described = csvw.CSVW(str(tmp_path / "out/csv-metadata.json"), validate=True)
    assert described.is_valid
    package = json.loads((tmp_path / "out/datapackage.json").read_text("utf-8"))
    for table, resource in zip(described.tables, package["resources"], strict=True):
        labels = list(table.iterdicts())
        names = [
            name
            for name, column in zip(labels[0], resource["schema"]["fields"], strict=True)
            if column["type"] == "string"
        ]
        expected = published(made[kind], resource).to_pylist()
        assert [[row[name] for name in names] for row in labels] == [
            [value for value in row.values() if isinstance(value, str)] for row in expected
        ]


@pytest.mark.parametrize("to", ["sdmx", "parquet"])
@pytest.mark.parametrize("kind", KINDS)
def test_data_packages_of_other_formats_are_valid(made, tmp_path, to, kind):
    import frictionless

    export(made[kind], to, tmp_path / "out")
    file = str(tmp_path / "out/datapackage.json")
    if to == "sdmx":
        report = frictionless.validate(file)
        assert report.valid, report.flatten(["type", "note"])
    else:  # frictionless reads Parquet only with fastparquet
        report = frictionless.Package.validate_descriptor(file)
        assert report.valid, report.flatten(["type", "note"])


def test_the_dictionary_says_what_a_reader_must_know(made, tmp_path):
    release = made["counts"]
    export(release, "csv", tmp_path / "out", alpha=0.2)
    package = json.loads((tmp_path / "out/datapackage.json").read_text("utf-8"))
    for wanted in (
        release.statement["guarantee"],
        *release.statement["invariants"],
        "licence",
        *release.statement["notes"],
    ):
        assert wanted in package["description"]
    fields = {each["name"]: each for each in package["resources"][-1]["schema"]["fields"]}
    assert "Unit: records." in fields["count"]["description"]
    assert "with probability 0.2." in fields["ci_lower"]["description"]
    assert "licenses" not in package
    assert package["resources"][-1]["schema"]["missingValues"] == []


def test_labels_are_text_for_spreadsheets_where_asked(made, tmp_path):
    export(made["counts"], "csv", tmp_path / "out", tables=["town"], for_spreadsheets=True)
    with (tmp_path / "out/town.csv").open(encoding="utf-8", newline="") as opened:
        found = [row["town"] for row in csv.DictReader(opened)]
    expected = made["counts"].table("town")["town"].to_pylist()
    assert found == [f"'{label}" if label[0] in "=+-@\t\r" or label == "007" else label for label in expected]
    assert sum(label.startswith("'") for label in found) == 7
    for name in ("datapackage.json", "csv-metadata.json"):
        assert "apostrophe" in (tmp_path / "out" / name).read_text("utf-8")


CHANGED = ["10-14", "00123", "1E5", "2e-3", "1.5", "1,5", "3/4", "12:30", "12:30 PM", "5 %", "(5)", "MARCH1", "SEPT2",
           "1-Dec", "Dec 2024", "3 Jan 2024", "true", "FALSE", "1234567890123456", "$5", "2024-03-10"]  # fmt: skip
KEPT = ["0", "12", "123456789012345", "x10-14", "95+", "A1", "under 5", "1E", "10 to 14", "marble", "may", "1a2", ""]


def test_labels_that_a_spreadsheet_shows_otherwise_are_marked_and_no_others(tmp_path):
    tree = tt.Hierarchy.from_values("code", [*CHANGED, *KEPT])
    release = tt.release_counts(pa.table({"code": ["0"]}), tree, tt.Budget(epsilon=1), neighboring="add_remove", seed=1)
    export(release, "csv", tmp_path / "out", tables=["code"], for_spreadsheets=True)
    with (tmp_path / "out/code.csv").open(encoding="utf-8", newline="") as opened:
        found = [row["code"] for row in csv.DictReader(opened)]
    assert found == [*(f"'{label}" for label in CHANGED), *KEPT]
