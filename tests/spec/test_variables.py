"""`${NAME}` in specs."""

import json

import pytest

from helpers.specs import COUNTS, write
from tallytree.release import Release
from tallytree.spec import SpecError, load_spec

LISTED = COUNTS.replace("people.parquet", "${WHICH}.parquet") + "variables: [WHICH]\n"
DEFAULT = COUNTS.replace("people.parquet", "${WHICH}.parquet") + "variables: {WHICH: {default: people}, OTHER: }\n"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in ("WHICH", "OTHER"):
        monkeypatch.delenv(name, raising=False)


def refusal(path, **options):
    with pytest.raises(SpecError) as caught:
        load_spec(path, **options)
    return str(caught.value).removeprefix(str(path))


def test_values_are_taken_from_changes_then_the_environment_then_the_default(folder, monkeypatch):
    path = write(folder, DEFAULT, "variables.yaml")
    assert load_spec(path).records == "people.parquet"
    monkeypatch.setenv("WHICH", "homes")
    assert load_spec(path).records == "homes.parquet"
    assert load_spec(path, changes=["variables.WHICH=areas"]).records == "areas.parquet"
    assert load_spec(path, changes={"variables.WHICH": "areas"}).records == "areas.parquet"


def test_a_value_is_text_however_it_is_written(folder):
    path = write(folder, LISTED, "variables.yaml")
    assert load_spec(path, changes=["variables.WHICH=2026-11-22"]).records == "2026-11-22.parquet"
    assert load_spec(path, changes=["variables.WHICH=0500"]).records == "0500.parquet"


def test_a_number_may_be_a_variable(folder):
    text = COUNTS.replace("epsilon: 1", "epsilon: ${OTHER}") + "variables: [OTHER]\n"
    spec = load_spec(write(folder, text, "variables.yaml"), changes=["variables.OTHER=0.25"])
    assert float(spec.budget.epsilon) == 0.25


@pytest.mark.parametrize("value", ["{a: b}", "[1, 2]", "x\nseed: 7", "${HOME}", "&a *a"])
def test_a_value_is_never_read_again(folder, monkeypatch, value):
    monkeypatch.setenv("WHICH", value)
    spec = load_spec(write(folder, LISTED, "variables.yaml"))
    assert spec.records == f"{value}.parquet"
    assert spec.seed is None


def test_only_declared_names_are_looked_up(folder, monkeypatch):
    monkeypatch.setenv("HIDDEN", "a secret")
    path = write(folder, LISTED.replace("county]", "'${HIDDEN}']"), "variables.yaml")
    said = refusal(path, changes=["variables.WHICH=people"])
    assert said == (
        ", line 5, hierarchy.levels: ${HIDDEN} is not declared under variables; add variables: [HIDDEN] (to write this "
        "text itself: $${HIDDEN})"
    )


def test_a_spec_without_variables_has_none(folder):
    path = write(folder, COUNTS.replace("people.parquet", "${WHICH}.parquet"), "variables.yaml")
    assert refusal(path).startswith(
        ", line 2, records: ${WHICH} is not declared under variables; add variables: [WHICH]"
    )


def test_the_text_itself_can_be_written(folder):
    path = write(folder, COUNTS.replace("people.parquet", "$${WHICH}$.parquet"), "variables.yaml")
    assert load_spec(path).records == "${WHICH}$.parquet"


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        (LISTED, [], ", line 14, variables.WHICH: has no value; give --set variables.WHICH=…, or set the environment "),
        (LISTED, ["variables.WHICH="], ", line 14, variables.WHICH: is empty; give --set variables.WHICH=…"),
        (LISTED, ["variables.WICH=x"], ", line 14, variables.WICH: is given, but the spec does not declare it; did "),
        (COUNTS, ["variables.X=x"], ", variables.X: is given, but the spec does not declare it; declare it under var"),
        (LISTED.replace("${WHICH}", "${WHICHH}"), [], ", line 2, records: ${WHICHH} is not declared under variables; "),
        (LISTED.replace("${WHICH}", "${}"), [], ", line 2, records: ${} is not declared under variables; "),
        (LISTED.replace("[WHICH]", "WHICH"), [], ", line 14, variables: 'WHICH' must be a list of names, or a map"),
        (LISTED.replace("[WHICH]", "[1x]"), [], ", line 14, variables: '1x' is no name; use letters, digits and _"),
        (LISTED.replace("[WHICH]", "{WHICH: x}"), [], ", line 14, variables.WHICH: 'x' must be a mapping such as {def"),
        (LISTED.replace("[WHICH]", "{WHICH: {defalt: x}}"), [], ", line 14, variables.WHICH: a mapping must be a m"),
        (LISTED.replace("[WHICH]", "{WHICH: {default: [x]}}"), [], ", line 14, variables.WHICH.default: a list is giv"),
    ],
)  # fmt: skip
def test_mistakes_name_the_place(folder, text, changes, message):
    assert refusal(write(folder, text, "variables.yaml"), changes=changes).startswith(message)


def test_a_declared_variable_that_is_not_used_needs_no_value(folder):
    assert load_spec(write(folder, COUNTS + "variables: [WHICH]\n", "variables.yaml")).records == "people.parquet"


def test_a_value_of_the_environment_is_in_no_file_of_the_release(folder, monkeypatch, tmp_path):
    (folder / "a-secret-place").mkdir()
    (folder / "people.parquet").rename(folder / "a-secret-place/people.parquet")
    text = COUNTS.replace("people.parquet", "${WHICH}/people.parquet") + "seed: 1\nvariables: [WHICH]\n"
    path = write(folder, text, "variables.yaml")
    monkeypatch.setenv("WHICH", "a-secret-place")
    load_spec(path).release(tmp_path / "out")
    monkeypatch.delenv("WHICH")
    load_spec(path, changes={"variables.WHICH": "a-secret-place"}).release(tmp_path / "given")
    (folder / "a-secret-place/people.parquet").rename(folder / "people.parquet")
    for file in (tmp_path / "out").rglob("*"):
        assert file.is_dir() or b"a-secret-place" not in file.read_bytes()
    assert Release.load(tmp_path / "out").spec["records"] == "${WHICH}/people.parquet"
    assert (
        json.loads((tmp_path / "given/release.json").read_text())["spec"]["records"] == "a-secret-place/people.parquet"
    )
