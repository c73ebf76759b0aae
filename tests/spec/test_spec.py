"""Specs that are right: the job that each describes."""

from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import PlannedCounts, PlannedSizes
from helpers.specs import COUNTS, FLOWS, GROUP_SIZES, refusal, write
from tallytree import counts, sizes
from tallytree.spec import (
    SpecError,
    known_mechanisms,
    load_spec,
)

# --- Specs that are right ---


def test_a_spec_of_counts_becomes_the_plan_that_it_describes(folder):
    job = load_spec(write(folder, COUNTS)).plan()
    assert isinstance(job, PlannedCounts)
    assert job.tree.levels == ("all", "state", "county")
    assert job.mechanism == counts.TopDown(projection="euclidean")
    assert job.arguments.neighboring == "change_one"
    assert {level: plan.share for level, plan in job.plan.levels.items()} == {
        "state": Fraction(1, 3),
        "county": Fraction(2, 3),
    }


def test_a_spec_of_flows_may_share_one_hierarchy_by_an_alias(folder):
    job = load_spec(write(folder, FLOWS)).plan()
    assert job.statistic == "flows"
    assert job.tree.levels == ("all", "d_state", "o_state", "d_county", "o_county")
    assert job.plan.budget.rho == Fraction(1, 20)


def test_a_spec_of_group_sizes_becomes_the_plan_that_it_describes(folder):
    job = load_spec(write(folder, GROUP_SIZES)).plan()
    assert isinstance(job, PlannedSizes)
    assert (job.smallest, job.largest, job.arguments.group) == (0, 100, "home")
    assert job.mechanism == sizes.Joint()


def test_engine_and_seed_and_the_other_common_keys_reach_the_plan(folder):
    (folder / "spill").mkdir(exist_ok=True)
    engine = "{memory_limit: 1GB, threads: 2, temp_directory: spill}"
    text = f"{FLOWS}engine: {engine}\nseed: 7\non_unknown: drop\ntree: origin\n"
    job = load_spec(write(folder, text)).plan()
    assert job.engine == tt.engines.Local(memory_limit="1GB", threads=2, temp_directory=folder / "spill")
    assert (job.arguments.seed, job.arguments.on_unknown) == (7, "drop")
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
    account = spec.plan().account
    assert (account.ledger.path, account.posting.dataset) == (folder / "books.db", "people")
    assert (account.posting.unit, account.posting.loss.epsilon) == ("membership", 1)
    other = spec.with_options(ledger="other.db", dataset="homes").plan().account
    assert (other.ledger.path, other.posting.dataset) == (tmp_path / "other.db", "homes")
    assert spec.with_options().plan().account.ledger.path == folder / "books.db"
    assert load_spec(write(folder, GROUP_SIZES)).plan().account is None


def test_a_ledger_that_is_none_is_named_with_its_line_unless_it_was_given_elsewhere(folder):
    spec = load_spec(write(folder, FLOWS + "ledger: areas.parquet\ndataset: trips\n"))
    with pytest.raises(SpecError, match=r"line 9, ledger: '.*' is not a tallytree"):
        spec.check()
    with pytest.raises(SpecError, match=r"release.yaml: ledger: '.*' is not a tallytree ledger"):
        spec.with_options(ledger=folder / "areas.parquet").check()


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
        load_spec(write(folder, text)).plan()


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
        ("  order: [d, o, o, d]\n", "", ", line 3, hierarchy: a Product without an order has no levels; give Product("),
        (
            "budget",
            "  columns: {d: [a, b], o: [b, c]}\nbudget",
            ", line 8, hierarchy.columns['o']: 'b' is a column of the attribute 'd' too (capitals do not count); ",
        ),
        (
            "budget",
            "  columns: {d: [a, A]}\nbudget",
            ", line 8, hierarchy.columns['d']: the names 1 and 2 of the list are the same",
        ),
        ("budget", "  columns: {d: [a]}\nbudget", ", line 8, hierarchy.columns['d']: it names 1 columns, but"),
        ("budget", "  columns: {e: [a]}\nbudget", ", line 8, hierarchy.columns: 'e' is not an attribute; the"),
        ("budget", "  columns: {d: a}\nbudget", ", line 8, hierarchy.columns.d: 'a' must be a list, such as [a]"),
        ("budget", "  columns: [a]\nbudget", ", line 8, hierarchy.columns: a list must be a mapping; name the private"),
        ("    d: *areas", "    d:", ", line 7, hierarchy.order: 'd' is not an attribute; the attributes are o"),
        ("*areas", "areas.parquet", ", line 6, hierarchy.attributes.d: 'areas.parquet' must be a mapping; give each"),
        ("*areas", "{path: areas.parquet}", ", line 6, hierarchy.attributes.d: give levels, the columns of a table"),
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
