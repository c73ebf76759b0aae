"""`export`: what is chosen, what is refused, and that nothing is left half-made."""

import gc
import sys
from contextlib import contextmanager

import pytest

from tallytree.cli.failures import ExitCode, exit_code
from tallytree.views.export import exporting
from tallytree.views.export.exporting import export


def test_levels_are_chosen_in_the_order_of_the_release(made, tmp_path):
    exported = export(made["counts"], "csv", tmp_path / "out", tables=["town", "all"])
    assert exported.tables == {"all": 1, "town": 19}
    assert sorted(path.name for path in (tmp_path / "out").glob("*.csv")) == ["all.csv", "town.csv"]


def test_tables_are_named_as_they_were_asked_for(made, tmp_path):
    assert list(export(made["tables"], "csv", tmp_path / "one", tables=[("sex", "town"), ()]).tables) == [
        "town.sex",
        "all",
    ]
    assert list(export(made["tables"], "csv", tmp_path / "two", tables=["sex"]).tables) == ["sex"]


def test_people_by_their_records_are_exported_too(made, tmp_path):
    assert "contributions" in export(made["people"], "csv", tmp_path / "out").tables


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"to": "ods"}, 'to: \'ods\' is not known; choose "csv", "xlsx"'),
        ({"tables": ["city"]}, "tables: 'city' is not in the release, which has 'all', 're gi/on%', 'town'"),
        ({"tables": []}, "tables: none is named; leave the argument out for all"),
        ({"alpha": 2}, "alpha: 2 must lie strictly between 0 and 1"),
        ({"out": ""}, "out: '' is no name"),
        ({"suppress": "all"}, "suppress: 'all' is not known; choose \"unreliable\""),
        ({"release": "nowhere"}, "folder: .* does not exist"),
    ],
)
def test_what_cannot_be_exported_is_refused_by_name(made, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        export(**{"release": made["counts"], "to": "csv", "out": "out"} | arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [{"tables": "town"}, {"thresholds": 0.3}, {"suppress": 1}, {"agency": 3}, {"to": 3}]
)
def test_arguments_of_the_wrong_kind_are_refused(made, tmp_path, arguments):
    with pytest.raises(TypeError, match=f"{next(iter(arguments))}: "):
        export(**{"release": made["counts"], "to": "csv", "out": tmp_path / "out"} | arguments)


@pytest.mark.parametrize(("to", "name"), [("csv", "out"), ("duckdb", "out.duckdb")])
def test_what_exists_is_refused_and_an_error_leaves_nothing(made, tmp_path, monkeypatch, to, name):
    export(made["counts"], to, tmp_path / name)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileExistsError, match=r"out: .* exists; choose another name"):
        export(made["counts"], to, tmp_path / name)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, f"write_{to}_file" + ("s" if to == "csv" else ""), full)
    with pytest.raises(OSError, match="No space"):
        export(made["counts"], to, tmp_path / "other")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("to", "name"), [("csv", "out"), ("duckdb", "out.duckdb"), ("records", "out.csv")])
def test_folders_above_are_made(made, tmp_path, to, name):
    export(made["counts"], to, tmp_path / "new" / "folder" / name)
    assert (tmp_path / "new" / "folder" / name).exists()


def test_a_missing_extra_is_named(made, tmp_path, monkeypatch):
    monkeypatch.setitem(exporting._PACKAGES, "xlsx", ("no_such_package",))
    with pytest.raises(ModuleNotFoundError, match=r"to: 'xlsx' needs no_such_package.*tallytree\[export\]"):
        export(made["counts"], "xlsx", tmp_path / "out.xlsx")


@contextmanager
def no_file_longer_than(size):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.slow
@pytest.mark.needs("xlsxwriter", "pysdmx")
@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
@pytest.mark.parametrize("size", [0, 512, 4096, 8192])
@pytest.mark.parametrize("to", ["csv", "parquet", "xlsx", "duckdb", "sdmx"])
def test_a_full_disk_is_an_error_of_the_system_in_every_format(to, size, made, tmp_path, monkeypatch):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: printed.append(each.exc_value))
    folder = tmp_path / "out"
    folder.mkdir()
    written = 0
    with no_file_longer_than(size):
        try:
            written = export(made["counts"], to, folder / "made").tables
        except OSError as error:
            assert "too large" in str(error) or "cannot be written" in str(error)  # noqa: PT017  (small formats fit)
            assert exit_code(error) == ExitCode.SYSTEM  # noqa: PT017
    gc.collect()
    assert all(isinstance(each, ResourceWarning) for each in printed)  # Python shows the others with a traceback
    assert written or not [*folder.iterdir()]
    assert size or not written
