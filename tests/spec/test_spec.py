import re
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import tallytree as tt
from tallytree import counts, sizes
from tallytree.pipeline import CountsJob, GroupSizesJob
from tallytree.spec import (
    SPECS,
    BudgetSpec,
    EngineSpec,
    HierarchySpec,
    MechanismSpec,
    ProductSpec,
    SpecError,
    known_mechanisms,
    load_spec,
    read_document,
)

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))

COUNTS = """\
statistic: counts
records: people.parquet
hierarchy:
  path: areas.parquet
  levels: [state, county]
budget:
  epsilon: 1
  delta: 1e-8
neighboring: change_one
budget_split: {state: 0.1, county: 2e-1}
mechanism:
  name: TopDown
  options: {projection: euclidean}
"""

FLOWS = """\
statistic: flows
trips: trips.parquet
origins: &areas {path: areas.parquet, levels: [state, county]}
destinations: *areas
origin: [o_state, o_county]
destination: [d_state, d_county]
budget: {rho: "0.05"}
neighboring: bounded
"""

GROUP_SIZES = """\
statistic: group_sizes
records: people.parquet
group: home
public_groups: homes.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
max_group_size: 10_0
budget: {epsilon: 1.0}
neighboring: add_remove
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Public and private tables, beside which the tests write their specs."""
    place = tmp_path_factory.mktemp("spec")
    areas = {"state": ["A", "A", "B"], "county": ["x", "y", "x"]}
    pq.write_table(pa.table(areas), place / "areas.parquet")
    pq.write_table(pa.table({**areas, "groups": [2, 2, 1]}), place / "homes.parquet")
    pq.write_table(pa.table({**areas, "home": [1, 2, 3]}), place / "people.parquet")
    pq.write_table(
        pa.table({"o_state": ["A"], "o_county": ["x"], "d_state": ["B"], "d_county": ["x"]}), place / "trips.parquet"
    )
    return place


def write(folder, text, name="release.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path):
    """What is said of a spec, after the file's name."""
    with pytest.raises(SpecError) as caught:
        load_spec(path).check()
    assert str(caught.value).startswith(str(path))
    return str(caught.value)[len(str(path)) :]


# --- Specs that are right ---


def test_a_spec_of_counts_becomes_the_job_that_it_describes(folder):
    job = load_spec(write(folder, COUNTS)).job()
    assert isinstance(job, CountsJob)
    assert job.tree.levels == ("all", "state", "county")
    assert job.mechanism == counts.TopDown(projection="euclidean")
    assert job.terms.neighboring == "change_one"
    assert {level: plan.share for level, plan in job.plan.levels.items()} == {
        "state": Fraction(1, 3),
        "county": Fraction(2, 3),
    }


def test_a_spec_of_flows_may_share_one_hierarchy_by_an_alias(folder):
    job = load_spec(write(folder, FLOWS)).job()
    assert job.statistic == "flows"
    assert job.tree.levels == ("all", "d_state", "o_state", "d_county", "o_county")
    assert job.plan.budget.rho == Fraction(1, 20)


def test_a_spec_of_group_sizes_becomes_the_job_that_it_describes(folder):
    job = load_spec(write(folder, GROUP_SIZES)).job()
    assert isinstance(job, GroupSizesJob)
    assert (job.smallest, job.largest, job.group) == (0, 100, "home")
    assert job.mechanism == sizes.Joint()


def test_engine_and_seed_and_the_other_common_keys_reach_the_job(folder):
    (folder / "spill").mkdir(exist_ok=True)
    engine = "{memory_limit: 1GB, threads: 2, temp_directory: spill}"
    text = f"{FLOWS}engine: {engine}\nseed: 7\non_unknown: drop\ntree: origin\n"
    job = load_spec(write(folder, text)).job()
    assert job.engine == tt.engines.Local(memory_limit="1GB", threads=2, temp_directory=folder / "spill")
    assert (job.terms.seed, job.terms.on_unknown) == (7, "drop")
    assert job.tree.levels[1] == "o_state"


@given(
    st.decimals(min_value="1e-12", max_value="1e6", allow_nan=False, allow_infinity=False), st.booleans(), st.booleans()
)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_are_read_exactly_quoted_or_not_in_any_notation(folder, number, quoted, scientific):
    written = f"{number:e}" if scientific else f"{number:f}"
    text = COUNTS.replace("epsilon: 1\n", f'epsilon: "{written}"\n' if quoted else f"epsilon: {written}\n")
    assert load_spec(write(folder, text)).budget.epsilon == Fraction(number)


def test_a_number_with_a_leading_zero_is_decimal_not_octal(folder):
    text = GROUP_SIZES.replace("10_0", "0500")
    assert load_spec(write(folder, text)).max_group_size == 500


def test_keys_without_a_value_are_as_good_as_absent(folder):
    spec = load_spec(write(folder, COUNTS + "count:\nmax_contributions: null\nengine: ~\n"))
    assert (spec.count, spec.max_contributions, spec.engine) == (None, 1, None)


def test_paths_and_globs_are_relative_to_the_specs_folder_whatever_its_name(folder, tmp_path):
    odd = tmp_path / "a [1] *"
    odd.mkdir()
    for name in ("areas", "people"):
        (odd / f"{name}.parquet").write_bytes((folder / f"{name}.parquet").read_bytes())
    load_spec(write(odd, COUNTS)).check()
    load_spec(write(odd, COUNTS.replace("people.parquet", "peop*.parquet"))).check()


def test_the_ledger_is_beside_the_spec_unless_another_is_given(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = load_spec(write(folder, GROUP_SIZES + "ledger: books.db\ndataset: people\n"))
    account = spec.job().account
    assert (account.ledger.path, account.posting.dataset) == (folder / "books.db", "people")
    assert (account.posting.unit, account.posting.loss.epsilon) == ("membership", 1)
    other = spec.recorded_in("other.db", "homes").job().account
    assert (other.ledger.path, other.posting.dataset) == (tmp_path / "other.db", "homes")
    assert spec.recorded_in().job().account.ledger.path == folder / "books.db"
    assert load_spec(write(folder, GROUP_SIZES)).job().account is None


def test_a_ledger_that_is_none_is_named_with_its_line_unless_it_was_given_elsewhere(folder):
    spec = load_spec(write(folder, FLOWS + "ledger: areas.parquet\ndataset: trips\n"))
    with pytest.raises(SpecError, match=r"line 9, ledger: '.*' is not a tallytree"):
        spec.check()
    with pytest.raises(SpecError, match=r"release.yaml: ledger: '.*' is not a tallytree ledger"):
        spec.recorded_in(ledger=folder / "areas.parquet").check()


def test_a_release_names_its_tables_as_the_spec_does(folder, tmp_path):
    spec = load_spec(write(folder, GROUP_SIZES))
    released = spec.release(tmp_path / "out")
    assert released.spec["records"] == "people.parquet"
    assert tt.Release.load(tmp_path / "out").spec["public_groups"] == "homes.parquet"
    assert str(folder) not in (tmp_path / "out" / "release.json").read_text()


def test_mechanisms_are_the_packages_dataclasses_that_meet_its_protocol():
    assert known_mechanisms(counts, counts.CountsMechanism)["TopDown"] is counts.TopDown
    assert known_mechanisms(sizes, sizes.SizesMechanism)["Matching"] is sizes.Matching
    assert "ReleasedCounts" not in known_mechanisms(counts, counts.CountsMechanism)
    assert "SizesDomain" not in known_mechanisms(sizes, sizes.SizesMechanism)


@pytest.mark.parametrize(
    ("written", "share", "at_most"),
    [
        ("private", Fraction(1, 100), 100_000),
        ("{share: 0.02, at_most: 20_000}", Fraction(1, 50), 20_000),
        ("{at_most: 50}", Fraction(1, 100), 50),
        ("{share: 1e-3}", Fraction(1, 1000), 100_000),
    ],
)
def test_a_private_largest_size_is_a_word_or_a_mapping(folder, written, share, at_most):
    job = load_spec(write(folder, GROUP_SIZES.replace("10_0", written))).check()
    assert job.private_maximum == sizes.PrivateMaximum(share, at_most)
    assert job.plan.maximum.share == share


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{share: 2}", "max_group_size.share: 2 must lie strictly between 0 and 1"),
        ("{share: some}", "max_group_size.share: 'some' must be a number"),
        ("{shares: 0.1}", r"max_group_size.shares: unknown key; did you mean share\?"),
        ("{at_most: 0}", "max_group_size.at_most: 0 must be at least 1"),
        ("{at_most: 1.5}", "max_group_size.at_most: 1.5 must be an integer"),
        ("privat", "max_group_size: 'privat' must be an integer, private, or a mapping such as {share: 0.01}"),
        ("1.5", "max_group_size: 1.5 must be an integer"),
        ("[5]", "max_group_size: a list must be a number"),
        ("{}", "max_group_size: an empty mapping must name share or at_most; or write private"),
    ],
)
def test_a_private_largest_size_that_is_wrong_is_named_with_its_line(folder, written, message):
    text = GROUP_SIZES.replace("10_0", written)
    line = text[: text.index("max_group_size")].count("\n") + 1
    with pytest.raises(SpecError, match=f"line {line}, {message}"):
        load_spec(write(folder, text)).job()


CROSSED = """\
statistic: counts
records: trips.parquet
hierarchy:
  attributes:
    o: &areas {path: areas.parquet, levels: [state, county]}
    d: *areas
  order: [d, o, o, d]
budget: {epsilon: 1}
neighboring: change_one
"""


def test_a_tree_of_several_attributes_is_refined_in_the_order_given(folder, tmp_path):
    spec = load_spec(write(folder, CROSSED))
    assert spec.check().tree.levels == ("all", "d_state", "o_state", "o_county", "d_county")
    release = spec.release(tmp_path / "out")
    assert tt.Release.load(tmp_path / "out").levels == release.levels
    assert release.measurements("d_state").num_rows == 2


def test_columns_of_some_attributes_may_be_named_otherwise(folder):
    pq.write_table(pa.table({"a": ["A"], "b": ["x"], "state": ["B"], "county": ["x"]}), folder / "named.parquet")
    text = CROSSED.replace("trips", "named").replace("budget:", "  columns: {d: [a, b]}\nbudget:")
    assert load_spec(write(folder, text)).check().tree.levels == ("all", "a", "state", "county", "b")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[d, o, o, d]", "[d, o, o]", ", line 7, hierarchy.order: 'd' is refined 1 times but has 2 columns; name it 2"),
        ("[d, o, o, d]", "[d, o, o, d, d]", ", line 7, hierarchy.order: 'd' is refined 3 times but has 2 columns"),
        ("[d, o, o, d]", "[o, o]", ", line 7, hierarchy.order: 'd' is refined 0 times but has 2 columns; name it 2"),
        ("[d, o, o, d]", "[d, e]", ", line 7, hierarchy.order: 'e' is not an attribute; the attributes are o, d"),
        ("[d, o, o, d]", "d", ", line 7, hierarchy.order: 'd' must be a list, such as [d]"),
        ("  order: [d, o, o, d]\n", "", ", line 3, hierarchy.order: is missing; list the attribute that each step"),
        (
            "budget",
            "  columns: {d: [a, b], o: [b, c]}\nbudget",
            ", line 8, hierarchy.columns['o']: 'b' is a column of the attribute 'd' too (capitals do not count); ",
        ),
        (
            "budget",
            "  columns: {d: [a, A]}\nbudget",
            ", line 8, hierarchy.columns['d']: 'A' is named twice (capitals do not count); give each level its own",
        ),
        ("budget", "  columns: {d: [a]}\nbudget", ", line 8, hierarchy.columns['d']: ['a'] names 1 columns, but"),
        ("budget", "  columns: {e: [a]}\nbudget", ", line 8, hierarchy.columns: 'e' is not an attribute; the"),
        ("budget", "  columns: {d: a}\nbudget", ", line 8, hierarchy.columns.d: 'a' must be a list, such as [a]"),
        ("budget", "  columns: [a]\nbudget", ", line 8, hierarchy.columns: a list must be a mapping; name the private"),
        ("    d: *areas", "    d:", ", line 7, hierarchy.order: 'd' is not an attribute; the attributes are o"),
        ("*areas", "areas.parquet", ", line 6, hierarchy.attributes.d: 'areas.parquet' must be a mapping; give each"),
        ("*areas", "{path: areas.parquet}", ", line 6, hierarchy.attributes.d.levels: is missing; list its columns"),
        ("*areas", "{path: no.parquet, levels: [a]}", ", line 6, hierarchy.attributes.d.path: "),
        (
            "*areas",
            "{paths: a, levels: [a]}",
            ", line 6, hierarchy.attributes.d.paths: unknown key; did you mean path?",
        ),
        ("attributes:", "attribute:", ", line 4, hierarchy.attribute: unknown key; did you mean attributes?"),
        (
            "  order:",
            "  path: areas.parquet\n  order:",
            ", line 7, hierarchy.path: unknown key; the keys here are attrib",
        ),
        (
            "statistic: counts",
            "statistic: group_sizes",
            ", line 4, hierarchy.attributes: unknown key; the keys here are",
        ),
        ("trips.parquet", "people.parquet", ", line 2, records ("),
    ],
)
def test_a_tree_of_several_attributes_that_is_wrong_is_named_with_its_line(folder, old, new, message):
    assert refusal(write(folder, CROSSED.replace(old, new, 1))).startswith(message)


def test_the_mapping_of_no_attributes_is_empty(folder):
    text = CROSSED[: CROSSED.index("    o:")] + "    {}\n" + CROSSED[CROSSED.index("  order:") :]
    assert "hierarchy.attributes: a product needs at least one hierarchy" in refusal(write(folder, text))


# --- Mistakes: each message has the line, the key, the value and the remedy ---

MISTAKES = {
    "a number out of range": ("epsilon: 1", "epsilon: -1", ", line 7, budget.epsilon: -1 must be greater than 0"),
    "not a number": ("epsilon: 1", "epsilon: one", ", line 7, budget.epsilon: 'one' must be a number"),
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
    "a misspelt key": ("epsilon: 1", "epslon: 1", ", line 7, budget.epslon: unknown key; did you mean epsilon?"),
    "a misspelt required key": ("records:", "record:", ", line 2, record: unknown key; did you mean records?"),
    "an unknown key": (
        "path: areas.parquet",
        "path: areas.parquet\n  zzz: 1",
        ", line 5, hierarchy.zzz: unknown key; the keys here are path, levels",
    ),
    "a key of the budget at the top": (
        "neighboring: change_one",
        "neighboring: change_one\nepsilon: 1",
        ", line 10, epsilon: unknown key; did you mean budget.epsilon?",
    ),
    "a key of another statistic": (
        "neighboring: change_one",
        "neighboring: change_one\norigins: {}",
        ", line 10, origins: is a key for flows, not for counts",
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
        '(alias "bounded")',
    ),
    "an unknown statistic": (
        "statistic: counts",
        "statistic: count",
        ", line 1, statistic: 'count' is not known; choose counts, flows or group_sizes",
    ),
    "no statistic": ("statistic: counts\n", "", ", statistic: is missing; choose counts, flows or group_sizes"),
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
        ", line 4, hierarchy.path: column 'town' is missing; the table has 'state', 'county'",
    ),
    "a level named twice": (
        "[state, county]",
        "[state, state]",
        ", line 5, hierarchy.levels: 'state' is named twice (capitals do not count); give each level its own name",
    ),
    "a leaf listed twice": (
        "[state, county]",
        "[state]",
        ", line 4, hierarchy.path: the leaf state='A' is listed twice; list every leaf once",
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": is empty; it needs at least"),
        (b"# nothing\n", ": is empty; it needs at least"),
        (b"\n- a\n- b\n", ", line 2: is a list; a spec is a mapping"),
        (b"just text", ", line 1: is a single value; a spec is a mapping"),
        (b"a: 1\nb: caf\xe9\n", ", line 2: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        (b"a: 1\nb: \x00\n", ", line 2: character U+0000 is not allowed in YAML"),
        (b"[" * 5000, ": lists and mappings are nested too deeply"),
        (b"a: &a [*a, *a]\n", ", line 1, a: too many entries for a spec; does an alias repeat itself?"),
        (b"x" * 1_000_001, ": is not a spec; give the path of a YAML file"),
    ],
    ids=["empty", "comment", "list", "text", "latin-1", "null byte", "deep", "recursive alias", "large"],
)
def test_a_file_that_is_no_spec_is_refused(tmp_path, content, message):
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    assert refusal(path).startswith(message)


def test_a_file_that_is_not_there_or_is_a_folder_is_refused(tmp_path):
    assert refusal(tmp_path / "nowhere.yaml") == ": no such file; give the path of a YAML spec"
    assert refusal(tmp_path) == ": is not a spec; give the path of a YAML file"


def test_a_utf_8_mark_at_the_beginning_is_no_harm(folder):
    assert load_spec(write(folder, "\ufeff" + COUNTS)).statistic == "counts"


@given(st.binary(max_size=300))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_a_spec_or_a_spec_error(tmp_path, content):
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=re.escape(str(path))):
        load_spec(path)


@given(
    st.sampled_from([COUNTS, FLOWS, GROUP_SIZES]),
    st.integers(0, 400),
    st.integers(0, 12),
    st.text("abz019 -:#[]{},&*!|>'\"%@\t\n~.\u00e9", max_size=8),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_spec_is_read_or_refused_with_its_name(tmp_path, text, start, deleted, inserted):
    path = write(tmp_path, text[:start] + inserted + text[start + deleted :])
    try:
        load_spec(path)
    except SpecError as error:
        message = str(error)
    else:
        message = str(path)
    assert message.startswith(str(path))


KEYS = st.text("abcdefg", min_size=1, max_size=6).filter(lambda key: key not in ("e",))


@given(st.recursive(st.just("x"), lambda below: st.dictionaries(KEYS, below, min_size=1, max_size=4), max_leaves=20))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_key_is_found_in_its_own_line(tmp_path, tree):
    expected: dict[tuple[str, ...], int] = {}
    lines = []

    def put(node, path):
        for key, below in node.items():
            lines.append(f"{'  ' * len(path)}{key}:{'' if isinstance(below, dict) else ' x'}")
            expected[(*path, key)] = len(lines)
            if isinstance(below, dict):
                put(below, (*path, key))

    put({"top": tree}, ())
    document = read_document(write(tmp_path, "\n".join(lines)))
    assert document.lines == expected
    assert document.data == {"top": tree}


def test_errors_that_are_not_the_librarys_own_are_left_alone(folder, monkeypatch):
    class ForeignError(ValueError):
        pass

    for error in (
        ForeignError("records: canary"),
        ValueError("could not convert string to float: 'canary'"),
        KeyError("canary"),
    ):
        monkeypatch.setattr(
            tt.engines.Local, "check_counts", lambda *args, error=error, **options: (_ for _ in ()).throw(error)
        )
        with pytest.raises(type(error)) as caught:
            load_spec(write(folder, COUNTS)).check()
        assert caught.value is error


# --- The documentation ---


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_a_spec_and_is_in_the_documentation(path):
    assert load_spec(path).statistic == {"health": "counts"}.get(path.stem, path.stem)
    assert f"```yaml\n{path.read_text(encoding='utf-8')}```" in (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")


def test_there_is_an_example_of_every_statistic():
    assert {load_spec(path).statistic for path in EXAMPLES} == set(SPECS)


def documented(title):
    """Keys and defaults in the table under a heading."""
    text = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
    section = text.partition(f"### {title}\n")[2].partition("\n#")[0]
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    return {key: default for key, _, default, _ in rows}


def test_every_key_is_documented_and_says_what_to_give():
    shared = set.intersection(*(set(model.model_fields) for model in SPECS.values()))
    tables: list[tuple[str, type[BaseModel], set[str]]] = [
        ("Of every statistic", SPECS["counts"], shared - {"records", "hierarchy"}),
        *((f"Of `{name}`", model, set(model.model_fields) - shared) for name, model in SPECS.items()),
        ("Of `hierarchy`, `origins`, `destinations`", HierarchySpec, set(HierarchySpec.model_fields)),
        ("Of `hierarchy` with several attributes", ProductSpec, set(ProductSpec.model_fields)),
        ("Of `budget`", BudgetSpec, set(BudgetSpec.model_fields)),
        ("Of `mechanism`", MechanismSpec, set(MechanismSpec.model_fields)),
        ("Of `engine`", EngineSpec, set(EngineSpec.model_fields)),
    ]
    for title, model, keys in tables:
        rows = documented(title)
        assert set(rows) == keys, title
        for key, default in rows.items():
            field = model.model_fields[key]
            assert key == "statistic" or field.description
            assert (default == "required") == field.is_required()
            if isinstance(field.default, str | int):
                assert default == (str(field.default).lower() if field.default is False else str(field.default))


def test_the_message_in_the_documentation_is_the_one_that_is_shown(tmp_path):
    example = (ROOT / "examples" / "counts.yaml").read_text(encoding="utf-8")
    message = refusal(write(tmp_path, example.replace("rho: 0.05", "rho: -1"), "counts.yaml"))
    assert f"error: counts.yaml{message}\n" in (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
