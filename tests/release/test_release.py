import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from tallytree.release import level_tables
from tallytree.release import release as release_module
from tallytree.release.manifest import file_stem
from tallytree.sources.leaf_paths import decoded

AWKWARD = ['comma, "quote"', "line\nbreak", "Ελλάδα", "日本", "a/b\\c", "", " space ", "\U0001f600", "=1+1", "NULL"]


@pytest.fixture(scope="module")
def release():
    areas = tt.Hierarchy.from_table(
        pa.table({"state": AWKWARD * 2, "county": [f"{i}" for i in range(20)]}), levels=["state", "county"]
    )
    records = pa.table({"state": AWKWARD * 30, "county": [f"{i % 10}" for i in range(300)]})
    return tt.release_counts(records, areas, tt.Budget(epsilon=2), neighboring="add_remove", seed=1)


def test_a_saved_release_is_loaded_as_it_was(release, tmp_path):
    folder = release.save(tmp_path / "out")
    loaded = tt.Release.load(folder)
    assert loaded.levels == release.levels == ("all", "state", "county")
    assert loaded.statement == release.statement
    assert loaded.spec == release.spec
    for level in release.levels:
        assert loaded.table(level).equals(release.table(level))
        assert loaded.measurements(level).equals(release.measurements(level))
    again = tt.Release.load(loaded.save(tmp_path / "again"))
    assert again.table("county").equals(release.table("county"))


def test_the_folder_has_the_documented_layout(release, tmp_path):
    release.save(tmp_path / "out", csv=True)
    files = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file())
    levels = ("all", "county", "state")
    assert files == sorted(
        ["release.json"]
        + [f"tables/{level}.{suffix}" for level in levels for suffix in ("csv", "parquet")]
        + [f"measurements/{level}.parquet" for level in levels]
        + ["hierarchies/hierarchy.parquet"]
    )
    manifest = json.loads((tmp_path / "out/release.json").read_text(encoding="utf-8"))
    assert manifest["format_version"] == 3
    assert manifest["files"]["tables/county.parquet"]["rows"] == 20


def test_names_in_any_script_survive_csv_and_parquet(release, tmp_path):
    release.save(tmp_path / "out", csv=True)
    options = pyarrow.csv.ConvertOptions(column_types={"state": pa.string(), "county": pa.string()})
    table = pyarrow.csv.read_csv(
        tmp_path / "out/tables/county.csv",
        convert_options=options,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
    )
    assert table.column("state").to_pylist() == release.table("county").column("state").to_pylist()
    assert set(table.column("state").to_pylist()) == set(AWKWARD)


def test_parquet_files_carry_no_column_statistics(release, tmp_path):
    release.save(tmp_path / "out")
    for path in (tmp_path / "out").rglob("*.parquet"):
        metadata = pyarrow.parquet.ParquetFile(path).metadata
        for group in range(metadata.num_row_groups):
            for column in range(metadata.num_columns):
                assert not metadata.row_group(group).column(column).is_stats_set


def test_no_file_says_more_by_its_times_or_its_modes(release, tmp_path, monkeypatch):
    """Times are those of the save, and nobody sets one."""
    for name in ("utime", "setxattr", "lutimes"):
        monkeypatch.setattr(os, name, lambda *_, **__: pytest.fail("a file's attributes were set"), raising=False)
    before = time.time() - 2
    release.save(tmp_path / "out", csv=True)
    files = [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    assert len(files) > 10
    for path in files:
        found = path.stat()
        assert before <= min(found.st_mtime, found.st_ctime) <= max(found.st_mtime, found.st_ctime) <= time.time() + 2
        assert os.listxattr(path) == []
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in files}
    assert len(modes) == 2


@pytest.mark.parametrize("folder", [None, 3, b"out"])
def test_a_folder_is_a_path(release, folder):
    with pytest.raises(TypeError, match=r"folder: .* must be the path of a folder to be made"):
        release.save(folder)
    with pytest.raises(TypeError, match=r"folder: .* must be the path of a saved release"):
        tt.Release.load(folder)


def test_an_empty_name_is_no_folder(release):
    with pytest.raises(ValueError, match="folder: '' is no name"):
        release.save("")


def test_tables_longer_than_a_slice_are_written_and_read_whole(release, tmp_path, monkeypatch):
    monkeypatch.setattr(level_tables, "ROWS_AT_ONCE", 7)
    loaded = tt.Release.load(release.save(tmp_path / "out", csv=True))
    wanted = release.table("county", unbiased=True)
    assert loaded.table("county", unbiased=True).equals(wanted)
    assert decoded(loaded._tables["county"].read(5, 16)).equals(wanted.drop_columns("quality").slice(5, 11))
    assert len((tmp_path / "out/tables/all.csv").read_text().splitlines()) == 2


def test_an_existing_folder_is_never_overwritten(release, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(FileExistsError, match="choose another folder, or move it away"):
        release.save(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match="choose another folder, or move it away"):
        release.save(tmp_path / "link")


@pytest.mark.parametrize("failing", ["write_csv", "sha256", "flush"])
def test_a_disk_that_fills_up_leaves_nothing_behind(release, tmp_path, monkeypatch, failing):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(release_module, failing, full)
    with pytest.raises(OSError, match="No space left"):
        release.save(tmp_path / "out", csv=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_kill_during_save_leaves_nothing_that_is_taken_for_a_release(tmp_path):
    script = textwrap.dedent(
        """
        import os, signal, sys
        import pyarrow as pa
        import tallytree as tt
        from tallytree.release import release

        areas = tt.Hierarchy.from_table(pa.table({"a": ["x", "y"]}), ["a"])
        made = tt.release_counts(pa.table({"a": ["x"]}), areas, tt.Budget(epsilon=1), neighboring="change_one")
        write = release.write_csv
        release.write_csv = lambda *arguments: (write(*arguments), os.kill(os.getpid(), signal.SIGKILL))
        made.save(sys.argv[1], csv=True)
        """
    )
    result = subprocess.run([sys.executable, "-c", script, str(tmp_path / "out")], check=False)
    assert result.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    for left in tmp_path.iterdir():
        with pytest.raises(ValueError, match="is not a complete release"):
            tt.Release.load(left)


def test_what_is_not_a_whole_release_is_not_loaded(release, tmp_path):
    with pytest.raises(ValueError, match="is not a complete release"):
        tt.Release.load(tmp_path)
    folder = release.save(tmp_path / "out")
    changed = shutil.copytree(folder, tmp_path / "changed")
    (changed / "tables/state.parquet").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"state\.parquet' is missing or was changed"):
        tt.Release.load(changed)
    missing = shutil.copytree(folder, tmp_path / "missing")
    (missing / "measurements/all.parquet").unlink()
    with pytest.raises(ValueError, match=r"all\.parquet' is missing or was changed"):
        tt.Release.load(missing)


@pytest.mark.parametrize(
    ("change", "lacking"),
    [
        (lambda m: m.pop("levels"), "'levels'"),
        (lambda m: m["levels"].append("all"), "'levels'"),
        (lambda m: m["levels"].clear(), "'levels'"),
        (lambda m: m["levels"].append(3), "'levels'"),
        (lambda m: m["levels"].append("town"), "entry for 'tables/town.parquet' in 'files'"),
        (lambda m: m.pop("statement"), "'statement'"),
        (lambda m: m.update(spec=None), "'spec'"),
        (lambda m: m.update(files=[]), "'files'"),
        (lambda m: m["files"].pop("measurements/state.parquet"), "entry for 'measurements/state.parquet' in 'files'"),
        (lambda m: m["files"].update({"report.html": None}), "entry for 'report.html' in 'files'"),
        (lambda m: m["files"]["tables/all.parquet"].pop("rows"), "entry for 'tables/all.parquet' in 'files'"),
        (lambda m: m["files"]["tables/all.parquet"].update(rows=-1), "entry for 'tables/all.parquet' in 'files'"),
        (lambda m: m["files"]["tables/all.parquet"].update(sha256=None), "entry for 'tables/all.parquet' in 'files'"),
    ],
)
def test_a_manifest_that_lacks_something_is_not_a_whole_release(release, tmp_path, change, lacking):
    folder = release.save(tmp_path / "out")
    manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    change(manifest)
    (folder / "release.json").write_text(json.dumps(manifest))
    message = rf"folder: '.*out' is not a complete release; its release\.json has no usable {lacking}; take a fresh"
    with pytest.raises(ValueError, match=message):
        tt.Release.load(folder)


@pytest.mark.parametrize("text", ["[]", "3", "{}", "[" * 100_000])
def test_a_manifest_that_is_none_is_not_loaded(tmp_path, text):
    (tmp_path / "release.json").write_text(text)
    with pytest.raises(ValueError, match=r"folder: .* (is not a complete release|has format version None)"):
        tt.Release.load(tmp_path)


def test_a_loaded_release_survives_a_change_of_directory(release, tmp_path, monkeypatch):
    release.save(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    loaded = tt.Release.load("out")
    monkeypatch.chdir("/")
    assert loaded.table("state").equals(release.table("state"))


def test_pandas_is_named_where_it_is_missing(release, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="to_pandas needs pandas: pip install pandas"):
        release.to_pandas("state")


def test_an_unknown_level_is_named(release):
    with pytest.raises(ValueError, match="level: 'town' is not one of the release's levels all, state, county"):
        release.table("town")
    with pytest.raises(ValueError, match="level: 'town'"):
        release.measurements("town")


@settings(max_examples=200)
@given(st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=5, unique_by=str.casefold))
def test_every_level_name_has_a_file_name_of_its_own(names):
    stems = [file_stem(name) for name in names]
    assert len(set(stems)) == len(names)
    for stem in stems:
        assert not set(stem) & set('/\\:*?"<>|.\0\n')
        assert len(stem.encode()) <= 150
    assert file_stem("state") == "state"
    assert file_stem("..") == "%2E%2E"
    assert file_stem("snow ☃") == "snow %E2%98%83"


def test_a_level_name_that_is_no_file_name_is_saved_all_the_same(tmp_path):
    areas = tt.Hierarchy.from_table(pa.table({"../a:b": ["x", "y"]}), ["../a:b"])
    made = tt.release_counts(pa.table({"../a:b": ["x"]}), areas, tt.Budget(epsilon=1), neighboring="change_one")
    loaded = tt.Release.load(made.save(tmp_path / "out"))
    assert loaded.table("../a:b").equals(made.table("../a:b"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_relative_folder_is_made_with_its_parents(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert release.save("some/where/out") == Path(os.path.realpath(tmp_path)) / "some/where/out"
