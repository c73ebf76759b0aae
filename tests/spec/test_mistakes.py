"""Mistakes in a spec: each message has the line, the key, the value and the remedy."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.specs import COUNTS, FLOWS, GROUP_SIZES, refusal, write
from tallytree.spec import (
    load_spec,
)

# --- Mistakes: each message has the line, the key, the value and the remedy ---

MISTAKES = {
    "a number out of range": ("epsilon: 1", "epsilon: -1", ", line 7, budget.epsilon: -1 must be greater than 0"),
    "not a number": ("epsilon: 1", "epsilon: one", ", line 7, budget.epsilon: 'one' must be a number"),
    "digits of another script": (
        "epsilon: 1",
        "epsilon: \u0661",
        ", line 7, budget.epsilon: '\u0661' must be a number",
    ),
    "an infinite number": ("epsilon: 1", "epsilon: .inf", ", line 7, budget.epsilon: .inf must be a number"),
    "a monstrous number": (
        "epsilon: 1",
        "epsilon: 1e999999999",
        ", line 7, budget.epsilon: 1e999999999 is out of range",
    ),
    "a mapping for a number": ("epsilon: 1", "epsilon: {a: 1}", ", line 7, budget.epsilon: a mapping must be a number"),
    "delta of 1": (
        "1e-8",
        "1",
        ", line 8, budget.delta: 1 must lie strictly between 0 and 1 (for instance 1e-8 for delta, 0.01 for a share)",
    ),
    "two kinds of budget": (
        "epsilon: 1",
        "rho: 1",
        ", line 6, budget: delta has no place beside rho; a zCDP budget is rho alone",
    ),
    "no epsilon": ("  epsilon: 1\n", "", ", line 6, budget: give either epsilon (with or without delta) or rho"),
    "a budget that is no mapping": (
        "budget:\n  epsilon: 1\n  delta: 1e-8\n",
        "budget: 1\n",
        ", line 6, budget: 1 must be a mapping; give epsilon (with or without delta) or rho: budget: {epsilon: 1.0}",
    ),
    "a decimal comma": (
        "budget:\n  epsilon: 1\n  delta: 1e-8\n",
        "budget: {epsilon: 0,5}\n",
        ", line 6, budget: 0,5 has a comma; write it with a point: 0.5",
    ),
    "a decimal comma in text": (
        "epsilon: 1",
        "epsilon: 0,5",
        ", line 7, budget.epsilon: '0,5' must be a number; write it",
    ),
    "a key that is like none": (
        "neighboring: change_one",
        "neighboring: change_one\nrounding: 5",
        ", line 10, rounding: unknown key; the keys here are ",
    ),
    "a misspelt key": ("epsilon: 1", "epslon: 1", ", line 7, budget.epslon: unknown key; did you mean epsilon?"),
    "a misspelt required key": ("records:", "record:", ", line 2, record: unknown key; did you mean records?"),
    "an unknown key": (
        "path: areas.parquet",
        "path: areas.parquet\n  zzz: 1",
        ", line 5, hierarchy.zzz: unknown key; the keys here are path, levels, finer",
    ),
    "a key of the budget at the top": (
        "neighboring: change_one",
        "neighboring: change_one\nepsilon: 1",
        ", line 10, epsilon: unknown key; did you mean budget.epsilon?",
    ),
    "a key of another statistic": (
        "neighboring: change_one",
        "neighboring: change_one\norigins: {}",
        ", line 10, origins: is a key for flows, not for counts; leave it out",
    ),
    "a mechanism's option in the wrong place": (
        "mechanism:\n",
        "mechanism:\n  sparsity: 3\n",
        ", line 12, mechanism.sparsity: unknown key; options of a mechanism go under options: {name: …, options: "
        "{sparsity: …}}",
    ),
    "a missing key": (
        "neighboring: change_one\n",
        "",
        ", neighboring: is missing; choose what is protected: add_remove or change_one",
    ),
    "a missing key inside": (
        "  path: areas.parquet\n",
        "",
        ", line 3, hierarchy.path: is missing; give the path or glob of the table of leaves (Parquet, CSV)",
    ),
    "a key without its value": (
        "records: people.parquet",
        "records:",
        ", line 2, records: has no value; give the path or glob of the private table (Parquet, CSV)",
    ),
    "a key given twice": (
        "neighboring: change_one",
        "neighboring: change_one\nneighboring: add_remove",
        ", line 10, neighboring: is given twice (first in line 9); keep one",
    ),
    "a wrong choice": (
        "change_one",
        "chang_one",
        ', line 9, neighboring: \'chang_one\' is not known; choose "add_remove" (alias "unbounded") or "change_one" '
        '(aliases "bounded", "replace_one")',
    ),
    "an unknown statistic": (
        "statistic: counts",
        "statistic: count",
        ", line 1, statistic: 'count' is not known; choose counts, flows, tables, group_sizes or households",
    ),
    "no statistic": (
        "statistic: counts\n",
        "",
        ", statistic: is missing; choose counts, flows, tables, group_sizes or households",
    ),
    "a list that is text": (
        "[state, county]",
        "state",
        ", line 5, hierarchy.levels: 'state' must be a list, such as [state]",
    ),
    "an empty item": (
        "[state, county]",
        "\n    - state\n    -",
        ", line 7, hierarchy.levels: an item of the list is empty; fill it in or take it out",
    ),
    "a column that is not there": (
        "[state, county]",
        "[state, town]",
        ", line 4, hierarchy.path: column 'town' is missing; the table has the columns 'state', 'county'",
    ),
    "a level named twice": (
        "[state, county]",
        "[state, state]",
        ", line 5, hierarchy.levels: the names 1 and 2 of the list are the same "
        "(capitals do not count); give each level its own name",
    ),
    "a leaf listed twice": (
        "[state, county]",
        "[state]",
        ", line 4, hierarchy.path: the leaf state='A' is listed twice; list every leaf once, or, if this is a public "
        "table of smaller areas, set finer to true",
    ),
    "a weight that is no number": ("2e-1", "much", ", line 10, budget_split.county: 'much' must be a number"),
    "a weight of 0": ("2e-1", "0", ", line 10, budget_split.county: 0 must be greater than 0"),
    "a level without a weight": (
        ", county: 2e-1",
        "",
        ", line 10, budget_split: no weight for the level 'county'; the measured levels are state, county",
    ),
    "an unknown split": (
        "{state: 0.1, county: 2e-1}",
        "evn",
        ', line 10, budget_split: \'evn\' is not known; give "even", "auto", or weights by level name',
    ),
    "a split that is a list": (
        "{state: 0.1, county: 2e-1}",
        "[1, 2]",
        ', line 10, budget_split: a list must be "even" or "auto", or a mapping from level names to weights',
    ),
    "an unknown mechanism": (
        "TopDown",
        "TopDwn",
        ", line 12, mechanism.name: 'TopDwn' is not a mechanism for counts; did you mean TopDown? known: ",
    ),
    "an unknown option": (
        "projection:",
        "projecton:",
        ", line 13, mechanism.options.projecton: 'projecton' is not an option of TopDown; did you mean projection? ",
    ),
    "an option out of range": (
        "euclidean",
        "manhattan",
        ", line 13, mechanism.options.projection: 'manhattan' is not known; choose ",
    ),
    "no integer": (
        "mechanism:",
        "max_contributions: 1.5\nmechanism:",
        ", line 11, max_contributions: 1.5 must be an integer",
    ),
    "too small an integer": (
        "mechanism:",
        "max_contributions: 0\nmechanism:",
        ", line 11, max_contributions: 0 must be at least 1",
    ),
    "an impossible engine": (
        "mechanism:",
        "engine:\n  threads: 0\nmechanism:",
        ", line 12, engine.threads: 0 must be at least 1",
    ),
    "an unknown engine": (
        "mechanism:",
        "engine:\n  name: duckdb\nmechanism:",
        ", line 12, engine.name: 'duckdb' is not an engine; known: local",
    ),
    "a folder that is not there": (
        "mechanism:",
        "engine:\n  temp_directory: nowhere\nmechanism:",
        ", line 12, engine.temp_directory: ",
    ),
    "a combination that does not go": (
        "mechanism:",
        "seed: 1\nnoise: opendp\nmechanism:",
        ", line 11, seed: OpenDP draws from the operating system and takes no seed",
    ),
    "a data set without a ledger": (
        "mechanism:",
        "dataset: people\nmechanism:",
        ", line 11, dataset: 'people' is a name in a ledger; give the ledger too, or leave it out",
    ),
    "a ledger without a data set": (
        "mechanism:",
        "ledger: books.db\nmechanism:",
        ": dataset: the ledger 'books.db' keeps what is spent by data set; name the one",
    ),
    "a data set without a name": (
        "mechanism:",
        "ledger: books.db\ndataset: ' '\nmechanism:",
        ", line 12, dataset: ' ' must be a name of 1 to 200 printable characters",
    ),
    "a seeded release for the ledger": (
        "mechanism:",
        "ledger: books.db\ndataset: people\nseed: 1\nmechanism:",
        ", line 13, seed: 1 makes a release that is not private, so no ledger takes it",
    ),
    "a tab": (
        "  epsilon: 1",
        "\tepsilon: 1",
        ", line 7: not valid YAML (found character '\\t' that cannot start any token); indent with spaces",
    ),
    "a colon too many": (
        "neighboring: change_one",
        "neighboring: change: one",
        ", line 9: not valid YAML (mapping values are not allowed here); check the indentation, and quote text",
    ),
    "a bracket that stays open": ("[state, county]", "[state, county", ", line 6: not valid YAML ("),
    "two documents": (
        "neighboring:",
        "---\nneighboring:",
        ", line 9: not valid YAML (but found another document); one file",
    ),
    "a merge": (
        "budget:\n",
        "budget:\n  <<: {epsilon: 1}\n",
        ", line 7, budget: << is not supported; write the keys out",
    ),
    "a foreign tag": ("change_one", "!!python/name:os.system x", ", line 9, neighboring: the tag "),
    "a list as a key": (
        "neighboring: change_one",
        "? [a]\n: 1",
        ", line 9: a key must be text, not a list or a mapping",
    ),
}


@pytest.mark.parametrize(("good", "bad", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_with_its_line_key_value_and_remedy(folder, good, bad, message):
    assert good in COUNTS
    assert refusal(write(folder, COUNTS.replace(good, bad, 1))).startswith(message)


@pytest.mark.parametrize("key", ["records: people.parquet", "path: areas.parquet"])
def test_a_table_that_is_not_there_is_named(folder, key):
    path = write(folder, COUNTS.replace(key, f"{key.partition(':')[0]}: nowhere.parquet"))
    assert re.match(
        r", line [24], (records|hierarchy.path): no file at '.*nowhere.parquet'; give the path", refusal(path)
    )


def test_the_private_tables_columns_are_checked_against_the_hierarchys(folder):
    message = refusal(write(folder, COUNTS + "count: weight\n"))
    assert re.match(r", line 2, records \('.*people.parquet'\): column 'weight' is missing; ", message)


def test_a_mistake_that_shows_while_planning_is_found_inside_the_mechanisms_options(folder):
    text = GROUP_SIZES + "mechanism:\n  name: Matching\n  options:\n    estimator: {state: sorted}\n"
    message = refusal(write(folder, text))
    assert message.startswith(", line 12, mechanism.options.estimator: none is given for the level 'all'")


def test_a_mistake_between_two_keys_names_one_of_them(folder):
    message = refusal(write(folder, FLOWS.replace("d_county", "o_state")))
    assert message.startswith(", line 6, destination: 'o_state' is a column of origin too")


def test_a_saved_spec_tells_nothing_of_the_publishers_folders(folder, tmp_path):
    people = folder / "people.parquet"
    spec = load_spec(write(folder, COUNTS.replace("people.parquet", str(people))))
    assert spec.release(tmp_path / "out").spec["records"] == "people.parquet"


@pytest.mark.parametrize(
    ("side", "key"),
    [("origins", "origins.path"), ("destinations", "destinations.path")],
    ids=["origins", "destinations"],
)
def test_each_hierarchy_of_flows_has_its_own_name(folder, side, key):
    text = FLOWS.replace("&areas ", "").replace("*areas", "{path: areas.parquet, levels: [state, county]}")
    message = refusal(write(folder, text.replace(f"{side}: {{path: areas", f"{side}: {{path: nowhere")))
    assert f", {key}: no file at" in message


NAMES = ["no", "On", "TRUE", "2020", "1.5", "1e5", "0x1F", "1:30", "2020-01-01"]


PLACES = [
    ("change_one", "{}", 9, "neighboring"),
    ("[state, county]", "[state, {}]", 5, "hierarchy.levels"),
    ("{state: 0.1, county: 2e-1}", "{{{}: 1}}", 10, "budget_split"),
]


NOT_TEXT = [(name, *place) for name in NAMES for place in PLACES]


NOT_TEXT += [(name, *place) for name in ("~", "null") for place in PLACES[1:]]  # as a value they mean "absent"


@pytest.mark.parametrize(("name", "good", "bad", "line", "key"), NOT_TEXT, ids=lambda value: None)
def test_names_that_yaml_does_not_read_as_text_have_to_be_quoted(folder, name, good, bad, line, key):
    message = refusal(write(folder, COUNTS.replace(good, bad.format(name))))
    assert re.match(rf", line {line}, {key}: (the key )?{re.escape(name)} is read as an? ", message)
    assert message.endswith(f'; put it in quotes: "{name}"')


def test_the_quoted_name_is_taken(folder, tmp_path):
    pq.write_table(pa.table({"no": ["A", "B"]}), tmp_path / "areas.parquet")
    pq.write_table(pa.table({"no": ["A"]}), tmp_path / "people.parquet")
    text = COUNTS.replace("[state, county]", '["no"]').replace("{state: 0.1, county: 2e-1}", '{"no": 1}')
    assert load_spec(write(tmp_path, text)).check().tree.levels == ("all", "no")


def test_many_mistakes_are_counted_and_the_first_is_told(folder):
    text = COUNTS.replace("epsilon: 1", "epsilon: -1").replace("1e-8", "2").replace("2e-1", "x")
    assert refusal(write(folder, text)) == ", line 7, budget.epsilon: -1 must be greater than 0 (and 2 more)"
