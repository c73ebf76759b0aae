"""deployment.yaml: what is filled, what is left, and that names in it do no harm."""

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

import tallytree as tt
from helpers import releases
from helpers.cases import few
from tallytree.release.registry_entry import TO_BE_FILLED, registry_entry
from tallytree.release.registry_file import (
    checked_entry,
    given_values,
    registry_schema,
    schemas_by_key,
    with_values,
)
from tallytree.release.replacing import replace_release

ORIGINAL = Path(__file__).resolve().parents[3] / "shared/reference/opendp_deployments_schema.yaml"
ANNOTATIONS = ("description", "description_long")
BUDGETS = {
    "Pure DP": tt.Budget(epsilon=1),
    "Approximate DP": tt.Budget(epsilon=1, delta=1e-6),
    "Zero-concentrated DP": tt.Budget(rho=0.1),
}


def without_descriptions(part):
    if isinstance(part, list):
        return part
    kept = {key: value for key, value in part.items() if key not in ANNOTATIONS or not isinstance(value, str)}
    named = {"properties": {key: without_descriptions(each) for key, each in kept.get("properties", {}).items()}}
    items = {"items": without_descriptions(kept["items"])} if "items" in kept else {}
    return kept | items | (named if "properties" in kept else {})


def test_the_schema_is_that_of_the_registry():
    if not ORIGINAL.is_file():
        pytest.skip(f"the original, which is optional, is not at {ORIGINAL}")
    assert registry_schema() == without_descriptions(yaml.safe_load(ORIGINAL.read_text("utf-8")))


@pytest.mark.needs("jsonschema", "ruamel")
@pytest.mark.parametrize(
    ("publish", "variant"),
    few(itertools.product([releases.counts, releases.flows, releases.group_sizes, releases.tables], BUDGETS), 4),
)
def test_every_private_release_has_a_valid_entry_with_its_figures(areas, publish, variant, tmp_path):
    if publish is releases.tables and variant == "Approximate DP":
        pytest.skip("the pure budget is enough for tables")
    release = publish(areas, budget=BUDGETS[variant], seed=None)
    entry = (release.save(tmp_path / "out") / "deployment.yaml").read_text("utf-8")
    found = yaml.safe_load(entry)
    assert checked_entry(entry)[1] == []
    assert found["deployment"]["dp_variant"]["variant_name"] == variant
    stated = found["deployment"]["privacy_loss"]["privacy_parameters"]
    assert stated == {key: value for key, value in release.statement["spent"].items() if key in stated}
    assert set(stated) == {"Pure DP": {"epsilon"}, "Zero-concentrated DP": {"rho"}}.get(variant, {"epsilon", "delta"})
    for invariant in release.statement["invariants"]:
        assert invariant in found["deployment"]["dp_variant"]["unprotected_quantities"].replace("\\", "")


def test_a_seeded_release_has_none(areas, tmp_path):
    assert not (releases.counts(areas, seed=1).save(tmp_path / "out") / "deployment.yaml").exists()


def test_names_of_the_release_are_text_in_yaml_and_markdown(tmp_path):
    name = "a: [b]\n- *c* <i>$x$ # `d` \u202e"
    tree = tt.Hierarchy.from_table(pa.table({name: ["x", "y"]}), [name])
    release = tt.release_counts(pa.table({name: ["x"]}), tree, tt.Budget(epsilon=1), neighboring="add_remove")
    text = registry_entry(release.statement)
    shown = yaml.safe_load(text)["deployment"]["basic"]["description"]
    assert "a: \\[b\\]\ufffd- \\*c\\* \\<i\\>\\$x\\$ \\# \\`d\\` \ufffd (2)" in shown
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.fixture(scope="module")
def entry(areas):
    """The entry of a release of counts."""
    return registry_entry(releases.counts(areas, seed=None).statement)


@pytest.mark.needs("ruamel")
@pytest.mark.parametrize("key", schemas_by_key())
def test_every_key_can_be_set_and_nothing_else_changes(entry, key):
    text = f"# mine\n{entry}# end\n"
    words = "0.5" if "parameters." in key else "2" if key == "tier" else "a: 'b' \"c\" # d\n\te"
    values = given_values([f"{key}={words}"])
    changed = with_values(text, values)
    assert changed.startswith("# mine\n")
    assert changed.rstrip().endswith("# end")
    expected = yaml.safe_load(text)
    at = expected
    *above, last = key.split(".")
    for name in above:
        at = at[name]
    at[last] = values[key]
    assert yaml.safe_load(changed) == expected


@pytest.mark.needs("ruamel")
def test_keys_are_set_in_an_entry_that_the_publisher_laid_out_otherwise():
    values = {"deployment.basic.name": "x", "deployment.administrative.registry_authors": ["y"]}
    made = with_values("tier: 1\ndeployment:\n   basic:\n      intended_use: |\n        a\n        # b\n", values)
    assert yaml.safe_load(made) == {
        "tier": 1,
        "deployment": {
            "basic": {"intended_use": "a\n# b\n", "name": "x"},
            "administrative": {"registry_authors": ["y"]},
        },
    }
    made = with_values("deployment: {basic: {tier: 1}}", {"deployment.basic.name": "x"})
    assert made == 'deployment: {basic: {tier: 1, name: "x"}}\n'


def test_another_release_in_its_place_keeps_what_the_publisher_wrote(areas, tmp_path):
    folder = releases.counts(areas, seed=None).save(tmp_path / "out")
    replace_release(releases.counts(areas, seed=None), folder)
    assert not (folder / "deployment.earlier.yaml").exists()  # nothing was edited
    for name in ("deployment.earlier.yaml", "deployment.earlier-2.yaml"):
        entry = folder / "deployment.yaml"
        entry.write_text(entry.read_text("utf-8").replace(TO_BE_FILLED, "done"), "utf-8")
        edited = entry.read_bytes()
        replace_release(releases.counts(areas, seed=None), folder)
        assert (folder / name).read_bytes() == edited
        assert TO_BE_FILLED.encode() in (folder / "deployment.yaml").read_bytes()
    replace_release(releases.counts(areas, seed=1), folder)
    assert not (folder / "deployment.yaml").exists()
    tt.Release.load(folder)


def test_edits_and_absence_do_not_matter_to_the_release(areas, tmp_path):
    folder = releases.counts(areas, seed=None).save(tmp_path / "out")
    (folder / "deployment.yaml").write_text("anything")
    assert tt.Release.load(folder).levels
    (folder / "deployment.yaml").unlink()
    assert tt.Release.load(folder).levels


def test_aliases_that_stand_for_very_many_values_are_refused_at_once():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    with pytest.raises(ValueError, match="its aliases stand for more than 10,000 values"):
        checked_entry("\n".join(lines))
    with pytest.raises(ValueError, match="its aliases stand for more than 10,000 values"):
        checked_entry("a: &a\n  b: *a\n")
