"""`tallytree registry`: deployment.yaml completed and checked."""

import sys

import pyarrow as pa
import pytest
import yaml

import tallytree as tt
from tallytree.cli.failures import ExitCode
from tallytree.release.registry_entry import TO_BE_FILLED
from tallytree.release.registry_file import schemas_by_key

pytestmark = pytest.mark.needs("jsonschema", "ruamel")

TOWNS = pa.table({"state": ["A", "A", "B"], "town": ["x", "y", "z"]})
FILLED = {
    "url_slug": "towns-2026",
    "deployment.basic.name": 'Towns: "2026" # not a comment',
    "deployment.basic.data_curators": "Office",
    "deployment.basic.description": "Counts of people.",
    "deployment.basic.intended_use": "Planning",
    "deployment.basic.data_product_region": "Nowhere",
    "deployment.basic.publication_date": "2026-11-23",
    "deployment.deployment_model.actors": "The office and everybody",
    "deployment.deployment_model.release_type_details": "None",
    "deployment.implementation.preprocessing_and_hyperparameter_tuning": "None",
    "deployment.implementation.mechanisms": "tallytree",
    "deployment.implementation.justification": "Tests",
    "deployment.administrative.sources": "https://example.org",
    "deployment.administrative.registry_authors": "Somebody",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a private release of counts."""
    monkeypatch.chdir(tmp_path)
    tree = tt.Hierarchy.from_table(TOWNS, ["state", "town"])
    tt.release_counts(TOWNS, tree, tt.Budget(epsilon=1), neighboring="add_remove").save("release")
    return tmp_path


def sets(values):
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


def test_an_entry_is_completed_key_by_key(folder, output, refusal):
    entry = folder / "release/deployment.yaml"
    shown = output("registry", "release").splitlines()
    assert shown[0] == "[x] 16 keys are filled"
    to_be_filled = shown[1 : shown.index("May be added, with one of these values:")]
    assert {line.removeprefix("[ ] ").split(": ")[0] for line in to_be_filled} == {*FILLED}
    assert all(line.startswith("[ ] ") for line in to_be_filled)
    assert "still to be filled: url_slug" in refusal("registry", "release", "--require-complete")
    before = entry.read_text("utf-8")
    entry.write_text(before.replace("status: Draft", "status: Draft  # mine"), "utf-8")
    shown = output("registry", "release", "--require-complete", *sets(FILLED)).splitlines()
    assert shown[0] == f"[x] {16 + len(FILLED)} keys are filled"
    assert shown[-1] == f"Nothing was spent. Entry (valid and complete): {entry}"
    text = entry.read_text("utf-8")
    assert "status: Draft  # mine" in text
    assert TO_BE_FILLED not in text.replace(
        f"# What follows from the privacy statement is filled in. Texts that say {TO_BE_FILLED}", ""
    )
    found = yaml.safe_load(text)
    for key, value in FILLED.items():
        at = found
        for name in key.split("."):
            at = at[name]
        assert at == ([value] if "curators" in key or "authors" in key else value)
    assert found["deployment"]["privacy_loss"] == yaml.safe_load(before)["deployment"]["privacy_loss"]
    tt.Release.load("release")


def test_lists_and_choices_are_added(folder, output):
    key = "deployment.basic.data_curators"
    options = (
        "--set",
        f"{key}=One",
        "--set",
        f"{key}=Two, Inc.",
        "--set",
        "deployment.deployment_model.release_type=One release",
    )
    output("registry", "release", *options, "--out", "entry.yaml")
    found = yaml.safe_load((folder / "entry.yaml").read_text("utf-8"))["deployment"]
    assert found["basic"]["data_curators"] == ["One", "Two, Inc."]
    assert found["deployment_model"]["release_type"] == "One release"
    assert "Two, Inc." not in (folder / "release/deployment.yaml").read_text("utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("deployment.basic.nam=x", "the key 'deployment.basic.nam' is not known; did you mean deployment.basic.name"),
        ("sources=x", "the key 'sources' is not known; did you mean deployment.administrative.sources?"),
        ("status=Done", "status: 'Done' must be one of Converted, Draft, Pending"),
        ("tier=4", "tier: '4' must be one of 1, 2, 3"),
        ("tier=x", "set: tier='x' must be integer; give a number"),
        ("deployment.basic.publication_date=23.11.2026", "'23.11.2026' must be a day, as YYYY-MM-DD"),
        ("name", "set: 'name' must be KEY=VALUE"),
        ("deployment=x", "set: the key 'deployment' is not known"),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_is_written(folder, refusal, change, message):
    before = (folder / "release/deployment.yaml").read_bytes()
    assert message in refusal("registry", "release", "--set", change)
    assert (folder / "release/deployment.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("url_slug", "url_slugg"), "the key 'url_slugg' is not known; did you mean url_slug?"),
        (("tier: 3", "tier: three"), "tier must be an integer"),
        (("status: Draft", "status: Draft\nstatus: Draft"), 'it is no YAML at line 11: found duplicate key "status"'),
        (("status: Draft", "status: Draft\n7: x"), "line 11: the key '7' is not known; known are url_slug"),
        (("status: Draft", "status: Draft\nyes: x"), "the key 'True' is not known; known are url_slug"),
        (("status: Draft", "<<: {status: Draft, statu: x}"), "line 1: the key 'statu' is not known; did you"),
        (("deployment:", "deployment: ["), "entry: it is no YAML at line"),
        (("epsilon: 1.0", "epsilon: one"), "privacy_parameters.epsilon must be a number"),
        (("  basic:", "  basics:"), "did you mean basic?"),
    ],
)
def test_an_edit_that_the_schema_refuses_is_named(folder, refusal, edit, message):
    entry = folder / "release/deployment.yaml"
    entry.write_text(entry.read_text("utf-8").replace(*edit), "utf-8")
    assert message in refusal("registry", "release")


def test_a_figure_that_is_not_the_release_s_is_warned_of(folder, run):
    done = run("registry", "release", "--set", "deployment.privacy_loss.privacy_parameters.epsilon=0.5")
    assert done.exit_code == 0
    assert "epsilon is 0.5, but the release's privacy statement says 1.0" in done.stderr


def test_an_entry_is_made_where_it_is_missing_but_not_of_a_seeded_release(folder, output, refusal):
    (folder / "release/deployment.yaml").unlink()
    output("registry", "release")
    assert (folder / "release/deployment.yaml").is_file()
    tree = tt.Hierarchy.from_table(TOWNS, ["state", "town"])
    tt.release_counts(TOWNS, tree, tt.Budget(epsilon=1), neighboring="add_remove", seed=1).save("seeded")
    assert refusal("registry", "seeded").startswith("release: its noise was drawn from a seed, so it is not private")
    assert not (folder / "seeded/deployment.yaml").exists()


def test_what_exists_is_left_alone(folder, refusal):
    (folder / "entry.yaml").write_text("mine")
    assert "exists" in refusal("registry", "release", "--out", "entry.yaml", code=ExitCode.EXISTS)
    (folder / "release/deployment.yaml").write_bytes(b"\xff")
    assert "is not UTF-8 text" in refusal("registry", "release")
    (folder / "release/deployment.yaml").unlink()
    (folder / "release/deployment.yaml").mkdir()
    assert "is no file; move it away" in refusal("registry", "release")


def test_errors_that_are_added_keep_the_publisher_s_entry(folder, output):
    output("registry", "release", "--set", "deployment.basic.name=Mine")
    before = (folder / "release/deployment.yaml").read_bytes()
    output("error", "release", "--replicates", "10")
    assert (folder / "release/deployment.yaml").read_bytes() == before


def test_an_entry_that_holds_itself_is_refused(folder, refusal):
    entry = folder / "release/deployment.yaml"
    whole = entry.read_text("utf-8")
    says = "its aliases stand for more than 10,000 values"
    for key in ("own", "url_slug"):
        entry.write_text(whole.replace("url_slug:", f"{key}: &own [*own]\nx:", 1), "utf-8")
        for options in ((), ("--set", "tier=1")):
            assert says in refusal("registry", "release", *options)


@pytest.mark.parametrize(("module", "package"), [("jsonschema", "jsonschema"), ("ruamel", "ruamel.yaml")])
def test_without_the_extra_the_command_names_it_and_writes_nothing(folder, refusal, monkeypatch, module, package):
    before = (folder / "release/deployment.yaml").read_bytes()
    monkeypatch.setitem(sys.modules, module, None)
    says = f'registry: an entry needs {package}, which is not installed: pip install "tallytree[registry]"'
    assert refusal("registry", "release", "--set", "tier=1", code=ExitCode.SYSTEM) == says
    assert (folder / "release/deployment.yaml").read_bytes() == before


def test_numbers_are_written_in_ascii(folder, refusal):
    key = next(key for key in schemas_by_key() if key.endswith("epsilon"))
    assert "must be" in refusal("registry", "release", "--set", f"{key}=\uff11")
