"""The detail of tables: a part of the release where it is asked for, and nothing else changes."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers import releases
from helpers.manifests import rewrite
from tallytree.ledger import Ledger
from tallytree.release.level_tables import read_all

COARSE = {"tables": [("county",), ("state", "sex")], "seed": 1}


@pytest.fixture
def folder(areas, tmp_path):
    """A saved release with a detail."""
    return releases.tables(areas, keep_detail=True, **COARSE).save(tmp_path / "out")


def test_the_detail_is_published_and_said_to_be(folder):
    release = tt.Release.load(folder)
    manifest = json.loads((folder / "release.json").read_text())
    cells = read_all(release.detail)
    assert manifest["format_version"] == 4
    assert manifest["files"]["detail.parquet"]["rows"] == cells.num_rows
    assert cells.column_names == ["state", "county", "sex", "count"]
    assert min(cells.column("count").to_pylist()) > 0
    assert release.statement["detail"] == {"levels": ["county", "sex"], "cells": 8, "cells_listed": cells.num_rows}
    assert release.statement["notes"][-1].startswith("The detail is published, too")
    assert not any(group.column(3).is_stats_set for group in [pq.read_metadata(folder / "detail.parquet").row_group(0)])


def test_without_it_the_same_numbers_are_a_folder_as_before(areas, folder, tmp_path):
    without = releases.tables(areas, **COARSE).save(tmp_path / "without")
    assert json.loads((without / "release.json").read_text())["format_version"] == 3
    assert not (without / "detail.parquet").exists()
    assert tt.Release.load(without).detail is None
    for path in sorted(without.rglob("*.parquet")):
        assert path.read_bytes() == (folder / path.relative_to(without)).read_bytes()


def test_it_stays_when_a_release_is_saved_again_or_gets_errors(folder, tmp_path):
    loaded = tt.Release.load(folder)
    again = tt.replicate_errors(loaded, replicates=10, seed=1).save(tmp_path / "again")
    assert (again / "detail.parquet").read_bytes() == (folder / "detail.parquet").read_bytes()
    assert tt.Release.load(again).records().read_all() == loaded.records().read_all()


def test_a_run_with_a_secret_is_repeated_with_it_free_of_charge(areas, tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    secret = tt.new_secret(tmp_path / "secret")
    named = {"ledger": book, "dataset": "people", "secret": secret, "run": "Monday", "tables": COARSE["tables"]}
    first, again = (releases.tables(areas, keep_detail=keep, **named) for keep in (False, True))
    assert len(book.entries("people")) == 1
    assert first.detail is None
    assert read_all(again.detail).num_rows > 0
    for level in first.levels:
        assert first.table(level) == again.table(level)
        assert first.measurements(level) == again.measurements(level)
    assert first.statement["release"] == again.statement["release"]


def test_a_detail_that_was_changed_is_refused(folder):
    path = folder / "detail.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match=r"folder: .*detail\.parquet' is missing or was changed"):
        tt.Release.load(folder)


def other_columns(folder, change):
    """Write other columns into the file of the detail, and a manifest that goes with it."""
    path = folder / "detail.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    rewrite(folder, lambda manifest: None, files=["detail.parquet"])


@pytest.mark.parametrize(
    "change",
    [
        lambda cells: cells.drop_columns(["sex"]),
        lambda cells: cells.append_column("more", pa.array([1] * cells.num_rows)),
        lambda cells: cells.set_column(3, "count", cells["count"].cast(pa.float64())),
        lambda cells: cells.select(["sex", "state", "county", "count"]),
    ],
)
def test_a_detail_with_other_columns_is_refused(folder, change):
    other_columns(folder, change)
    with pytest.raises(ValueError, match=r"detail\.parquet' has other columns than a release with this statement"):
        tt.Release.load(folder)


@pytest.mark.parametrize(
    "change", [lambda manifest: manifest["statement"].pop("detail"), lambda m: m["files"].pop("detail.parquet")]
)
def test_statement_and_files_both_name_it_or_neither_does(folder, change):
    rewrite(folder, change)
    with pytest.raises(ValueError, match=r"no usable entry for 'detail\.parquet' in 'files'"):
        tt.Release.load(folder)


def test_a_detail_without_hierarchies_is_refused(folder):
    def without_tree(manifest):
        del manifest["tree"]
        for name in [name for name in manifest["files"] if name.startswith("hierarchies/")]:
            del manifest["files"][name]

    rewrite(folder, without_tree)
    with pytest.raises(ValueError, match=r"no usable 'tree'"):
        tt.Release.load(folder)


def test_keep_detail_is_true_or_false(areas):
    with pytest.raises(TypeError, match=r"^keep_detail: str must be True or False"):
        releases.tables(areas, keep_detail="yes")


def test_a_level_that_repeats_the_one_above_node_for_node_is_in_it(tmp_path):
    towns = tt.Hierarchy.from_table(pa.table({"state": ["A", "B", "C"], "town": ["x", "y", "z"]}), ["state", "town"])
    tree = tt.Product({"area": towns, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    people = pa.table({"state": ["A", "B"] * 50, "town": ["x", "y"] * 50, "sex": ["f"] * 50 + ["m"] * 50})
    asked = {"neighboring": "add_remove", "tables": [("town", "sex"), ("state",)], "keep_detail": True, "seed": 1}
    made = tt.release_tables(people, tree, tt.Budget(epsilon=1), **asked)
    loaded = tt.Release.load(made.save(tmp_path / "out"))
    assert read_all(loaded.detail).column_names == ["state", "town", "sex", "count"]
    assert loaded.records().read_all().column_names == ["state", "town", "sex"]
