"""Names beside codes: they are read with the public tree, stored with it, shown to people, and decide no number."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import export, facts, report_page, write_static
from tallytree.errors import SpecError
from tallytree.ledger import Ledger
from tallytree.release.view.release_view import ReleaseView
from tallytree.spec import load_spec

TOWNS = {
    "state": ["01", "01", "02"],
    "town": ["a", "b", "a"],
    "name": ["Neustadt", "Neustadt", None],
    "state_de": ["Bayern", "Bayern", "Île"],
    "state_en": ["Bavaria", "Bavaria", " "],
}
NAMES = {"town": "name", "state": {"de": "state_de", "en": "state_en"}}
RECORDS = pa.table({"state": ["01"] * 50 + ["02"] * 30, "town": ["a", "b"] * 25 + ["a"] * 30, "sex": ["f", "m"] * 40})
BUDGET = tt.Budget(epsilon=1.0)


def towns(**changes) -> tt.Hierarchy:
    options = {"levels": ["state", "town"], "labels": NAMES, "words": {"state": "federal states"}}
    return tt.Hierarchy.from_table(pa.table(TOWNS), **{**options, **changes})


def tables(areas: tt.Hierarchy, **options) -> tt.Release:
    sexes = tt.Hierarchy.from_values("sex", ["f", "m"], labels={"f": {"en": "women", "de": "Frauen"}, "m": "men"})
    product = tt.Product({"area": areas, "sex": sexes}, words={"sex": "by sex"})
    wanted = [("town", "sex"), ("state",)]
    return tt.release_tables(
        RECORDS, product, BUDGET, neighboring="add_remove", tables=wanted, **{"seed": 1, **options}
    )


def test_a_name_is_shown_a_node_without_one_by_its_code_and_siblings_of_one_name_apart():
    tree = towns()
    assert tree.shown(2).to_pylist() == ["Neustadt (a)", "Neustadt (b)", "a"]
    assert tree.shown(1).to_pylist() == ["Bayern", "Île"]
    assert tree.shown(1, "en").to_pylist() == ["Bavaria", "02"]
    assert tree.shown(2, "en").to_pylist() == tree.shown(2).to_pylist()
    assert tree.labels[2].to_pylist() == ["a", "b", "a"]


@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("xyz"), st.sampled_from(["N", "x", None])), max_size=9)
)
def test_what_is_shown_tells_siblings_apart_and_holds_the_name(rows):
    leaves = list({(state, town): name for state, town, name in rows}.items()) or [(("A", "x"), "N")]
    columns = {
        "s": [state for (state, _), _ in leaves], "t": [town for (_, town), _ in leaves], "n": [n for _, n in leaves]
    }  # fmt: skip
    table = pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})
    tree = tt.Hierarchy.from_table(table, ["s", "t"], labels={"t": "n"})
    paths = tree.leaf_table().to_pylist()
    name_of = {(state, town): name for (state, town), name in leaves}
    for path, shown in zip(paths, tree.shown(len(tree.levels) - 1).to_pylist(), strict=True):
        name = name_of[path["s"], path["t"]]
        alike = [1 for (s, t), n in name_of.items() if s == path["s"] and (n or t) == (name or path["t"])]
        expected = path["t"] if name is None else name
        assert shown == (f"{name} ({path['t']})" if name not in (None, path["t"]) and len(alike) > 1 else expected)


def test_names_and_words_change_no_number_and_no_statement():
    plain = tt.Hierarchy.from_table(pa.table(TOWNS), ["state", "town"])
    one, other = (
        tt.release_counts(RECORDS, each, BUDGET, neighboring="add_remove", seed=3) for each in (towns(), plain)
    )
    assert all(one.table(level).equals(other.table(level)) for level in one.levels)
    assert one.statement == other.statement
    assert one.table("town").column_names[:2] == ["state", "town"]


def test_a_run_is_repeated_with_a_corrected_name_at_no_cost(tmp_path):
    secret, ledger = tt.new_secret(tmp_path / "secret"), Ledger(tmp_path / "ledger.db")
    options = {"seed": None, "secret": secret, "run": "2026", "ledger": ledger, "dataset": "people"}
    first = tables(towns(), **options)
    changed = pa.table({**TOWNS, "name": ["Altstadt", "Neustadt", "Dorf"]})
    again = tables(tt.Hierarchy.from_table(changed, ["state", "town"], labels={"town": "name"}), **options)
    assert first.table("town", "sex").equals(again.table("town", "sex"))
    assert len(ledger.entries()) == 1
    assert again.tree.attributes[0].hierarchy.shown(2).to_pylist() == ["Altstadt", "Neustadt", "Dorf"]


def test_the_folder_keeps_names_and_words(tmp_path):
    made = tables(towns())
    made.save(tmp_path / "r")
    read = tt.Release.load(tmp_path / "r").tree
    area, sex = (side.hierarchy for side in read.attributes)
    assert area.names["state"]["en"].to_pylist() == ["Bavaria", None]
    assert area.names["town"][""].to_pylist() == ["Neustadt", "Neustadt", None]
    assert sex.shown(1, "de").to_pylist() == ["Frauen", "men"]
    assert read.words == {"state": {"": "federal states"}, "sex": {"": "by sex"}}
    tt.release_counts(RECORDS, towns(), BUDGET, neighboring="add_remove", seed=1).save(tmp_path / "c")
    loaded = tt.Release.load(tmp_path / "c")
    assert loaded.tree.words == {"state": {"": "federal states"}}
    assert loaded.table("town", names=True).column("town_name").to_pylist() == ["Neustadt", "Neustadt", None]


def test_a_level_whose_name_is_like_that_of_a_stored_column_is_stored(tmp_path):
    tree = tt.Hierarchy.from_table(
        pa.table({"name 1": ["x", "y"], "n": ["X", "Y"]}), ["name 1"], labels={"name 1": "n"}
    )
    records = pa.table({"name 1": ["x"] * 9})
    tt.release_counts(records, tree, BUDGET, neighboring="add_remove", seed=1).save(tmp_path / "r")
    assert tt.Release.load(tmp_path / "r").tree.shown(1).to_pylist() == ["X", "Y"]


def test_tables_have_columns_of_names_when_they_are_asked_for():
    made = tables(towns())
    assert made.table("town", "sex").column_names[:3] == ["state", "town", "sex"]
    columns = ["state", "state_name_de", "state_name_en", "town", "town_name", "sex", "sex_name_en", "sex_name_de"]
    assert made.table("town", "sex", names=True).column_names[: len(columns)] == columns


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_exports_have_names_beside_codes(tmp_path, to):
    export(tables(towns()), to, tmp_path / "out")
    package = json.loads((tmp_path / "out" / "datapackage.json").read_text())
    fields = {each["name"]: each for each in package["resources"][0]["schema"]["fields"]}
    assert list(fields)[:5] == ["state", "state_name_de", "state_name_en", "town", "town_name"]
    assert "required" not in fields["town_name"].get("constraints", {})
    assert package["resources"][0]["schema"]["primaryKey"] == ["state", "town", "sex"]
    assert "but for names" in package["resources"][0]["description"]


def test_sdmx_has_names_of_codes(tmp_path):
    export(tables(towns()), "sdmx", tmp_path / "out")
    lists = json.loads((tmp_path / "out" / "structure.json").read_text())["data"]["codelists"]
    codes = {code["id"]: code for each in lists if each["id"] == "CL_AREA" for code in each["codes"]}
    assert codes["01"] == {
        "id": "01", "name": "Bayern", "names": {"de": "Bayern", "en": "Bavaria"}, "parent": "_T"
    }  # fmt: skip
    assert codes["02@a"]["name"] == "a"
    assert "name" not in (tmp_path / "out" / "town.sex.csv").read_text().partition("\n")[0].lower()


def test_a_spec_names_columns_of_names(tmp_path):
    pa.csv.write_csv(pa.table(TOWNS), tmp_path / "towns.csv")
    pa.csv.write_csv(RECORDS, tmp_path / "records.csv")
    spec = """
statistic: counts
records: records.csv
hierarchy:
  path: towns.csv
  levels: [state, town]
  labels: {town: name, state: {en: state_en}}
  words: {state: states}
budget: {epsilon: 1}
neighboring: add_remove
seed: 1
"""
    (tmp_path / "s.yaml").write_text(spec)
    made = load_spec(tmp_path / "s.yaml").release(tmp_path / "out")
    assert tt.Release.load(tmp_path / "out").tree.shown(1).to_pylist() == ["Bavaria", "02"]
    assert made.tree.words == {"state": {"": "states"}}
    (tmp_path / "s.yaml").write_text(spec.replace("town: name", "toun: name"))
    with pytest.raises(SpecError, match=r"s.yaml, line 7.*key 1 of 2 is none of the levels state, town"):
        load_spec(tmp_path / "s.yaml").plan()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"labels": {"toun": "name"}}, ValueError, "labels: key 1 of 1 is none of the levels state, town"),
        ({"labels": {"town": "nome"}}, ValueError, "column 'nome' is missing"),
        ({"labels": ["name"]}, TypeError, "labels: list must be a mapping"),
        ({"labels": {"town": 1}}, TypeError, r"labels\['town'\]: 1 is not a text"),
        ({"labels": {"town": {}}}, ValueError, r"labels\['town'\]: it is empty"),
        ({"labels": {"town": {"e n": "name"}}}, ValueError, "'e n' is not the code of a language"),
        ({"words": {"state": " "}}, ValueError, r"words\['state'\]: ' ' must have 1 to 200 bytes"),
        ({"words": {"state": "a\nb"}}, ValueError, "on one line"),
        ({"labels": {"state": "name"}}, ValueError, "column 'name' has several names for the node '01' of the level"),
    ],
)
def test_wrong_names_are_refused(changes, error, message):
    columns = {**TOWNS, "name": ["Neustadt", "Altstadt", None]}
    with pytest.raises(error, match=message):
        tt.Hierarchy.from_table(pa.table(columns), ["state", "town"], **changes)


def test_a_column_of_numbers_has_no_names():
    with pytest.raises(TypeError, match="labels: column 'n' holds double; names must be strings"):
        tt.Hierarchy.from_table(pa.table({"t": ["a"], "n": [1.5]}), ["t"], labels={"t": "n"})


def test_values_and_products_refuse_names_of_what_they_do_not_have():
    with pytest.raises(ValueError, match="labels: key 1 of 1 is none of the values"):
        tt.Hierarchy.from_values("sex", ["f", "m"], labels={"x": "women"})
    with pytest.raises(
        ValueError, match="words: key 1 of 1 is none of the columns state, town and the attributes area"
    ):
        tt.Product({"area": towns()}, words={"x": "y"})


def test_a_side_with_other_columns_has_its_own_words():
    areas = towns()
    product = tt.Product({"o": areas, "d": areas}, words={"o_state": "homes"})
    assert product.words == {"o_state": {"": "homes"}}


def test_the_manifest_says_which_columns_of_the_stored_tree_have_names(tmp_path: Path):
    tt.release_counts(RECORDS, towns(), BUDGET, neighboring="add_remove", seed=1).save(tmp_path / "r")
    manifest = json.loads((tmp_path / "r" / "release.json").read_text())
    assert manifest["tree"]["labels"] == {"state": {"de": "name 1", "en": "name 2"}, "town": {"": "name 3"}}
    assert manifest["tree"]["words"] == {"state": {"": "federal states"}}


def test_the_explorer_has_names_and_words_beside_labels(tmp_path: Path):
    made = tables(towns())
    sides = facts(ReleaseView(made), "title")["sides"]
    assert [(side["title"], side["words"]) for side in sides] == [
        ("area", ["federal states", "town"]),
        ("by sex", ["by sex"]),
    ]
    made.save(tmp_path / "r")
    write_static(tmp_path / "r", tmp_path / "page", (), None, "en")
    page = (tmp_path / "page" / "index.html").read_text()
    assert '"label":["01","02"],"shown":["Bavaria","02"]' in page
    assert "Bayern" not in page
    write_static(tmp_path / "r", tmp_path / "other", (), None)
    assert '"shown":["Bayern","Île"]' in (tmp_path / "other" / "index.html").read_text()


def test_a_page_in_a_language_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="language: 'fr' is not one of de, en; leave it out"):
        ReleaseView(tables(towns()), language="fr")
    plain = tt.Hierarchy.from_table(pa.table(TOWNS), ["state", "town"])
    made = tt.release_counts(RECORDS, plain, BUDGET, neighboring="add_remove", seed=1)
    with pytest.raises(ValueError, match="language: 'de' has no use: no name or word has a language"):
        ReleaseView(made, language="de")


def test_the_report_shows_names_in_place_of_codes():
    page = report_page(tables(towns()), language="en")
    assert "Bavaria" in page
    assert "Neustadt (a)" in page
    assert "federal states" in page


LISTED = pa.table(
    {
        "code": ["1", "2", "21", "22"],
        "in": [None, None, "2", "2"],
        "kind": ["state", "state", "county", "county"],
        "name": ["Łódź", "Bavaria", None, "Nuremberg"],
        "de": ["Lodsch", "Bayern", "München", "Nürnberg"],
    }
)
LIST_COLUMNS = {"child": "code", "parent": "in", "level": "kind"}


def test_names_of_a_list_of_areas_and_of_a_branch_that_ends(tmp_path):
    """A node below the end of a branch is called as the branch; a leaf for unknown areas has no name."""
    tree = tt.Hierarchy.from_parents(LISTED, **LIST_COLUMNS, labels={"en": "name", "de": "de"})
    assert tree.shown(2).to_pylist() == ["Łódź", "21", "Nuremberg"]
    assert tree.shown(2, "de").to_pylist() == ["Lodsch", "München", "Nürnberg"]
    records = pa.table({"state": ["1", "2", "2"], "county": [None, "21", "x"]})
    release = tt.release_counts(
        records, tree, tt.Budget(epsilon=1), neighboring="add_remove", on_unknown={"county": "parent"}, seed=1
    )
    release.save(tmp_path / "out")
    for each in (release, tt.Release.load(tmp_path / "out")):
        rows = each.table("county", names=True)
        assert rows["county"].to_pylist() == ["1", "21", "22", "unknown"]
        assert rows["county_name_de"].to_pylist() == ["Lodsch", "München", "Nürnberg", None]
        assert rows["county_name_en"].to_pylist() == ["Łódź", None, "Nuremberg", None]


@pytest.mark.parametrize("labels", [{"state": {"en": "name"}}, 3, ["name"]])
def test_names_of_a_list_of_areas_are_one_column(labels):
    with pytest.raises(TypeError, match="labels: a list of areas and their parents has one column of names"):
        tt.Hierarchy.from_parents(LISTED, **LIST_COLUMNS, labels=labels)


def test_a_level_is_no_language():
    with pytest.raises(ValueError, match=r"^labels: a key is a level of the list, which has one column"):
        tt.Hierarchy.from_parents(LISTED, **LIST_COLUMNS, labels={"county": "name"})
