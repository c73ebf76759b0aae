import io

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import tallytree as tt
from tallytree.cli.demo import make as demo
from tallytree.cli.failures import ExitCode
from tallytree.spec import load_spec

FILES = {".tallytree-demo", "data", "households.yaml", "commutes.yaml", "households-release", "commutes-release"}


@pytest.fixture(scope="module")
def made(run, tmp_path_factory):
    """A demo, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "tallytree-demo"
    result = run("demo", "--out", folder)
    assert result.exit_code == 0, result.output
    return folder, result.stdout


@pytest.fixture
def quick(monkeypatch):
    """Make the demo's folder without releasing anything, for the tests of the folder alone."""
    monkeypatch.setattr(demo, "_release", lambda folder, name, progress: (folder / f"{name}-release").mkdir())
    for name in ("household_errors", "commute_errors"):
        monkeypatch.setattr(demo, name, lambda private, release, console: "")


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.slow
def test_the_demo_releases_both_statistics_of_its_own_data(made):
    folder, _ = made
    assert {path.name for path in folder.iterdir()} == FILES
    for name, levels in (
        ("households", ("country", "state", "county")),
        ("commutes", ("all", "destination_region", "origin_region", "destination_province", "origin_province",
                      "destination_municipality", "origin_municipality")),
    ):  # fmt: skip
        release = tt.Release.load(folder / f"{name}-release")
        assert release.levels == levels
        assert release.statement["private"]
        assert not release.statement["seeded"]
        assert ".partial" not in str(release.spec)
        load_spec(folder / f"{name}.yaml").check()


def test_it_shows_errors_says_why_it_may_and_what_to_try_next(made):
    folder, printed = made
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.strip()}
    households_release = tt.Release.load(folder / "households-release").table("county")
    persons = pc.sum(pc.multiply(households_release["size"], households_release["groups"])).as_py()
    people = pq.read_metadata(folder / "data" / "people.parquet").num_rows
    assert rows["county"][:3] == ["60", f"{people:,}", f"{persons:,}"]
    assert float(rows["county"][3]) < 200
    assert rows["origin_municipality"][1:3] == ["50,000", "50,000"]
    assert "These errors can be shown because the data are synthetic" in printed
    assert f"  tallytree check {folder}/households.yaml\n" in printed
    assert 'print(tt.Release.load("' in printed


def test_printed_errors_are_what_they_say(tmp_path):
    areas = pa.table({"country": ["M"] * 2, "state": ["S"] * 2, "county": ["x", "y"], "groups": [4, 3]})
    people = pa.table(
        {"country": ["M"] * 6, "state": ["S"] * 6, "county": ["x"] * 4 + ["y"] * 2, "household_id": [1, 1, 1, 2, 3, 3]}
    )
    hierarchy = tt.Hierarchy.from_table(areas, ["country", "state", "county"])
    release = tt.release_group_sizes(
        people, hierarchy, tt.Budget(epsilon=1), neighboring="add_remove", group="household_id", public_groups=areas,
        max_group_size=500,
    )  # fmt: skip

    def sorted_sizes(table, county):
        rows = table.filter(pc.equal(table["county"], county)).to_pydict()
        return np.repeat(rows["size"], rows["groups"])

    published = release.table("county")
    expected = [
        np.abs(sorted_sizes(published, county) - np.array(true)).sum()
        for county, true in (("x", [0, 0, 1, 3]), ("y", [0, 0, 2]))
    ]
    console = Console(file=io.StringIO(), width=200)
    console.print(demo.household_errors(people, release, console))
    row = next(line.split() for line in console.file.getvalue().splitlines() if line.startswith("county"))
    assert row[-2:] == [f"{np.mean(expected):,.1f}", f"{max(expected):,}"]


def test_the_data_is_the_same_in_every_demo_and_the_noise_is_not(made, run, tmp_path):
    folder, _ = made
    assert run("demo", "--out", tmp_path / "again").exit_code == 0
    assert contents(tmp_path / "again" / "data") == contents(folder / "data")
    first, second = (
        tt.Release.load(place / "commutes-release").measurements("origin_region")["value"]
        for place in (folder, tmp_path / "again")
    )
    assert first != second


def test_a_second_demo_replaces_the_first(tmp_path, run, quick):
    folder = tmp_path / "demo"
    assert run("demo", "--out", folder).exit_code == 0
    (folder / "households-release" / "old").touch()
    assert run("demo", "--out", folder).exit_code == 0
    assert not (folder / "households-release" / "old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_the_default_place_is_the_working_folder(tmp_path, run, quick, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("demo").exit_code == 0
    assert {path.name for path in (tmp_path / "tallytree-demo").iterdir()} == FILES


def a_folder(path, run):
    path.mkdir()


def a_file(path, run):
    path.write_text("mine")


def a_dangling_link(path, run):
    path.symlink_to(path.parent / "nowhere")


def a_link_to_a_demo(path, run):
    run("demo", "--out", path.parent / "real")
    path.symlink_to(path.parent / "real")


def another_marker(path, run):
    path.mkdir()
    (path / ".tallytree-demo").write_text("something else\n")


def an_empty_marker(path, run):
    path.mkdir()
    (path / ".tallytree-demo").touch()


def a_marker_that_is_a_link(path, run):
    run("demo", "--out", path)
    (path / ".tallytree-demo").rename(path.parent / "marker")
    (path / ".tallytree-demo").symlink_to(path.parent / "marker")


def a_demo_with_a_release_added(path, run):
    run("demo", "--out", path)
    (path / "my-release").mkdir()


def a_demo_with_a_spec_edited(path, run):
    run("demo", "--out", path)
    spec = path / "commutes.yaml"
    spec.write_text(spec.read_text().replace("epsilon: 1.0", "epsilon: 2.0"))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (a_folder, "was not made by `tallytree demo`"),
        (a_file, "is not a folder made by an earlier demo"),
        (a_dangling_link, "is not a folder made by an earlier demo"),
        (a_link_to_a_demo, "is not a folder made by an earlier demo"),
        (another_marker, "its .tallytree-demo was not written by `tallytree demo`"),
        (an_empty_marker, "its .tallytree-demo was not written by `tallytree demo`"),
        (a_marker_that_is_a_link, "was not made by `tallytree demo`"),
        (a_demo_with_a_release_added, "'my-release' was added to it"),
        (a_demo_with_a_spec_edited, "commutes.yaml was edited"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_not_an_untouched_demo_is_never_replaced(tmp_path, run, quick, make, reason):
    make(tmp_path / "demo", run)
    before = contents(tmp_path)
    result = run("demo", "--out", tmp_path / "demo")
    assert result.exit_code == ExitCode.EXISTS
    assert result.stderr.startswith(f"error: {tmp_path / 'demo'}: ")
    assert reason in result.stderr
    assert "choose another folder with --out, or move it away" in result.stderr
    assert contents(tmp_path) == before


@pytest.mark.parametrize("where", ["_release", "commute_errors", "swap"])
def test_an_interrupted_demo_leaves_the_old_one_as_it_was(tmp_path, run, quick, monkeypatch, where):
    assert run("demo", "--out", tmp_path / "demo").exit_code == 0
    before = contents(tmp_path)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, where, interrupt)
    assert run("demo", "--out", tmp_path / "demo").exit_code == 130
    assert contents(tmp_path) == before


def test_an_interruption_while_the_folders_change_places_puts_the_old_one_back(tmp_path, run, quick, monkeypatch):
    assert run("demo", "--out", tmp_path / "demo").exit_code == 0
    before = contents(tmp_path)
    rename = demo.Path.rename

    def interrupt_the_second(path, target):
        if path.name.endswith(".partial"):
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(demo.Path, "rename", interrupt_the_second)
    assert run("demo", "--out", tmp_path / "demo").exit_code == 130
    assert contents(tmp_path) == before


def test_a_demo_that_appears_meanwhile_is_not_replaced(tmp_path, run, quick, monkeypatch):
    monkeypatch.setattr(demo, "commute_errors", lambda *arguments: a_folder(tmp_path / "demo", run))
    assert run("demo", "--out", tmp_path / "demo").exit_code == ExitCode.EXISTS
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
    assert not any((tmp_path / "demo").iterdir())
