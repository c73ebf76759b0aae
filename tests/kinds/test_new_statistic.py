"""A statistic that no room knows by name is written, read, shown and exported as its `Kind` says."""

import dataclasses
import warnings

import pytest

import tallytree as tt
from helpers import told
from helpers.inside import export, rows_of
from tallytree.kinds.registry import KINDS, kind_of
from tallytree.release.registry_entry import registry_entry

NAME = "hours"


@pytest.fixture(scope="module", params=["counts", "flows", "tables", "sizes"])
def made(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return told.KINDS[request.param](seed=1)


@pytest.fixture
def renamed(made, monkeypatch):
    """The same release, of a statistic with another name and the same facts."""
    statement = made.release.statement
    monkeypatch.setitem(KINDS, NAME, dataclasses.replace(kind_of(statement), name=NAME))
    release = made.release.with_tables(made.release.level_tables, {**statement, "statistic": NAME})
    return dataclasses.replace(made, release=release)


def named(text, release):
    """A text in which the name of the statistic is the new one."""
    begin = f"Kind of statistic: {kind_of(release.statement).name.replace('_', ' ')}: "
    return text.replace(begin, f"Kind of statistic: {NAME}: ") if text.startswith(begin) else text


def test_it_is_told_of_in_the_same_sentences(made, renamed):
    assert told.texts(renamed) == {
        place: [named(text, made.release) for text in found] for place, found in told.texts(made).items()
    }
    entry = registry_entry({**renamed.release.statement, "private": True})
    assert entry == registry_entry({**made.release.statement, "private": True})


@pytest.mark.planted  # the program that checks releases has the names of its own
def test_its_folder_is_checked_and_read(made, renamed, tmp_path):
    folder = renamed.release.save(tmp_path / "out", csv=True)
    read = tt.Release.load(folder)
    assert read.tables == made.release.tables
    for table in read.tables:
        assert read.table(*table, alpha=0.1).equals(made.release.table(*table, alpha=0.1))
        assert read.table(*table, dense=True).equals(made.release.table(*table, dense=True))
    csv = {
        path.name: path.read_bytes() for path in (made.release.save(tmp_path / "before", csv=True) / "tables").iterdir()
    }
    assert {path.name: path.read_bytes() for path in (folder / "tables").iterdir()} == csv


def test_it_is_exported(made, renamed, tmp_path):
    for release, place in ((made.release, "before"), (renamed.release, "after")):
        export(release, "csv", tmp_path / place)
    assert {path.name for path in (tmp_path / "after").iterdir()} == {
        path.name for path in (tmp_path / "before").iterdir()
    }
    for path in (tmp_path / "before").rglob("*.csv"):
        assert (tmp_path / "after" / path.relative_to(tmp_path / "before")).read_bytes() == path.read_bytes()


def test_numbers_are_derived_of_it(made, renamed):
    for table in made.view.tables:
        assert rows_of(renamed.view, table) == rows_of(made.view, table)
    areas = made.truth[[each for each in made.truth.columns if "region" in each]].drop_duplicates().head(2)
    formulas = (
        lambda release: release.total(areas, replicates=10 if made.view.kind.by_size else None, seed=1),
        lambda release: release.mean("region", **({"seed": 1} if made.view.kind.by_size else {"attribute": "age"})),
        lambda release: tt.replicate_errors(release, replicates=10, seed=1).table(*release.tables[0]),
    )
    found = [outcome(derived, made.release) for derived in formulas]
    assert sum(isinstance(each, list) for each in found) >= 2
    assert [outcome(derived, renamed.release) for derived in formulas] == found


def outcome(derived, release):
    """The rows that were derived, or why they cannot be."""
    try:
        return derived(release).to_pylist()
    except (TypeError, ValueError) as error:
        return str(error).replace(repr(release.statement["statistic"]), "it")
