"""Bad arguments of the public functions: each is named, with its value and the remedy, before anything is paid."""

import sys

import pyarrow as pa
import pyarrow.parquet
import pytest

import tallytree as tt
from helpers.releases import EXACT, PEOPLE, PUBLIC, counts, flows, group_sizes
from tallytree.ledger import Ledger


@pytest.mark.parametrize("marker", ["_delta_log/0.json", "metadata/v1.metadata.json", ".hoodie/x"])
def test_a_table_with_a_log_is_refused(areas, tmp_path, marker):
    (tmp_path / marker).parent.mkdir()
    (tmp_path / marker).write_text("{}")
    pa.parquet.write_table(PEOPLE, tmp_path / "part.parquet")
    with pytest.raises(ValueError, match="records: .* is a table with a log"):  # noqa: RUF043
        counts(areas, records=tmp_path)


def test_a_table_is_no_hierarchy_and_is_told_how_to_become_one():
    with pytest.raises(TypeError, match=r"hierarchy: Table must be .* tallytree\.Hierarchy\.from_table\(leaves"):
        tt.release_counts(PEOPLE, PEOPLE, EXACT, neighboring="change_one")


BAD_COUNTS = [
    ({"mechanism": tt.counts.TopDown}, TypeError, r"^mechanism: TopDown is a class; write TopDown\(\)$"),
    ({"neighboring": "both"}, ValueError, "neighboring: 'both' is not known"),
    ({"max_contributions": 0}, ValueError, "max_contributions: 0 must be at least 1"),
    ({"max_contributions": 1.5}, TypeError, "max_contributions: 1.5 must be an integer"),
    ({"on_unknown": "ignore"}, ValueError, "on_unknown: 'ignore' is not known"),
    ({"noise": "numpy"}, ValueError, "noise: 'numpy' is not known"),
    ({"noise": "opendp", "seed": 1}, ValueError, "seed: OpenDP"),
    ({"seed": "1"}, TypeError, "seed: str must be an integer"),
    ({"accounting": "zcdp"}, ValueError, "needs no conversion"),
    ({"budget": 1.0}, TypeError, "budget: 1.0 must be a tallytree.Budget"),
    ({"budget_split": {"state": 1}}, ValueError, "no weight for the level 'county'"),
    ({"mechanism": tt.sizes.Matching()}, TypeError, "must be one of tallytree.counts"),
    ({"mechanism": "TopDown"}, TypeError, "must be one of tallytree.counts"),
    ({"count": 3}, TypeError, "count: int must be the name of a column"),
    ({"count": "n"}, ValueError, "column 'n' is missing"),
    ({"records": 42}, TypeError, "records: int is not a table"),
    ({"engine": "duckdb"}, TypeError, "engine: str must be one of tallytree.engines"),
    ({"engine": tt.engines.Local}, TypeError, r"engine: Local is a class; write Local\(\)"),
]


@pytest.mark.parametrize(("changes", "error", "message"), BAD_COUNTS)
def test_a_bad_argument_of_counts_is_named(areas, changes, error, message):
    with pytest.raises(error, match=message):
        counts(areas, **changes)


BAD_SIZES = [
    ({"group": None}, ValueError, "group: name either the column group, .* or both size and groups"),
    ({"size": "n"}, ValueError, "group: name either the column group, .* or both size and groups"),
    (
        {"public_groups": None, "invariants": "groups"},
        ValueError,
        "public_groups: entity rows do not show groups without members",
    ),
    ({"invariants": "none"}, ValueError, "public_groups: with invariants='none' the groups per leaf are private"),
    ({"invariants": "all"}, ValueError, "invariants: 'all' is not known"),
    ({"max_quantity": 3}, ValueError, "max_quantity: 3 cuts the column that quantity names"),
    ({"quantity": "cars", "max_quantity": 0}, ValueError, "max_quantity: 0 must be at least 1"),
    ({"quantity": "cars", "max_quantity": 2.5}, TypeError, "max_quantity: 2.5 must be an integer"),
    ({"quantity": "cars"}, ValueError, "column 'cars' .*is missing"),
    ({"quantity": 3}, TypeError, "quantity: int must be the name of a column"),
    ({"group": None, "size": "n", "groups": "h"}, ValueError, "public_groups: .* leave it out"),
    ({"max_group_size": 0}, ValueError, "max_group_size: 0 must be at least 1"),
    ({"max_group_size": True}, TypeError, "max_group_size: True must be an integer"),
    ({"min_group_size": -1}, ValueError, "min_group_size: -1 must be at least 0"),
    ({"min_group_size": 20}, ValueError, "min_group_size: 20 must be less than max_group_size, which is 20"),
    ({"mechanism": tt.counts.TopDown()}, TypeError, "must be one of tallytree.sizes"),
    (
        {"public_groups": PUBLIC.set_column(2, "groups", [[0, 1, 0, 2]])},
        ValueError,
        "public_groups: the records hold more groups",
    ),
]


@pytest.mark.parametrize(("changes", "error", "message"), BAD_SIZES)
def test_a_bad_argument_of_group_sizes_is_named(areas, changes, error, message):
    with pytest.raises(error, match=message):
        group_sizes(areas, **changes)


def test_a_missing_extra_is_named_before_anything_is_read(areas, monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r'"opendp" needs OpenDP, .* pip install "tallytree\[opendp\]"'):
        counts(areas, noise="opendp", records="nowhere.parquet")


def test_a_bad_argument_of_flows_is_named(areas):
    with pytest.raises(ValueError, match="tree: 'both' is not known"):
        flows(areas, tree="both")
    with pytest.raises(TypeError, match="origin: str must be a list of column names"):
        flows(areas, origin="o_state")
    with pytest.raises(ValueError, match="names 1 columns, but its hierarchy has the levels state, county"):
        flows(areas, origin=["o_county"])
    with pytest.raises(ValueError, match="trips: column 'nowhere' is missing"):
        flows(areas, origin=["o_state", "nowhere"])
    with pytest.raises(TypeError, match=r"origins: str must be a tallytree\.Hierarchy"):
        flows(areas, origins="areas")
    with pytest.raises(ValueError, match="destination: 'o_state' is a column of origin too"):
        flows(areas, destination=["o_state", "d_county"])
    with pytest.raises(TypeError, match="hierarchy: str must be"):
        tt.release_counts(PEOPLE, "areas", EXACT, neighboring="change_one")


def test_the_neighboring_relation_has_no_default(areas):
    with pytest.raises(TypeError, match="neighboring"):
        tt.release_counts(PEOPLE, areas, EXACT)


def test_a_refused_release_draws_no_noise(areas, monkeypatch):
    def drawn(*arguments):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr("tallytree.private.noise.discrete.KeyedNoise.draw", drawn)
    for changes, error, _ in BAD_COUNTS:
        with pytest.raises(error):
            counts(areas, **changes)
    for changes, error, _ in BAD_SIZES:
        with pytest.raises(error):
            group_sizes(areas, **changes)
    with pytest.raises(AssertionError, match="noise was drawn"):
        counts(areas)


@pytest.mark.parametrize("mechanism", [tt.counts.LeastSquares(), tt.counts.TopDown()])
def test_more_records_than_can_be_added_up_are_refused_before_anything_is_paid(areas, tmp_path, mechanism):
    ledger = Ledger(tmp_path / "ledger.db")
    for number, refused in ((2**58, False), (2**58 + 1, True)):
        records = pa.table({"state": ["A", "B"], "county": ["x", "x"], "people": [2**57, number - 2**57]})
        asked = {"records": records, "count": "people", "mechanism": mechanism, "ledger": ledger, "dataset": "people"}
        if refused:
            with pytest.raises(ValueError, match=r"^records: counts add up to more than 2\^58; use a coarser unit$"):
                counts(areas, **asked)
        else:
            assert counts(areas, **asked).table("all")["count"].to_pylist() == [number]
    assert len(ledger.entries()) == 1
