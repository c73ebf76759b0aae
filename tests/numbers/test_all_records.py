"""`Release.scaled`: estimates of all records, with intervals that hold that the share left out differs by area."""

import importlib.util
import json
import math
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.numbers.all_records import described_estimate, spread_between
from tallytree.release.intervals import quantile

REPOSITORY = Path(__file__).resolve().parents[2]
TOWNS = pa.table({"state": ["a", "a", "b"], "town": ["x", "y", "z"]})
M = 3


def people_of(*, heavy_in="x"):
    """4,000 people with two records each, every eighth with 9 of them; the heavy ones live in some towns more often."""
    person = np.arange(4_000)
    town = np.array(["x", "y", "z"])[person % 3]
    heavy = (person % 8 == 0) | ((town == heavy_in) & (person % 4 == 1))
    rows = np.repeat(person, np.where(heavy, 9, 2))
    return pa.table({"state": np.where(town == "z", "b", "a")[rows], "town": town[rows], "who": rows})


@pytest.fixture(scope="module")
def areas():
    return tt.Hierarchy.from_table(TOWNS, levels=["state", "town"])


def released(areas, records=None, **options):
    given = {
        "neighboring": "add_remove",
        "person": "who",
        "max_contributions": M,
        "contributions": tt.Contributions(share=0.2, at_most=20),
        "seed": 1,
    }
    budget = tt.Budget(epsilon=options.pop("epsilon", 10))
    return tt.release_counts(people_of() if records is None else records, areas, budget, **given | options)


@pytest.fixture(scope="module")
def release(areas):
    return released(areas)


def test_an_estimate_is_the_count_over_what_is_not_left_out(release):
    table, counts = release.scaled("town", spread=0.5), release.table("town")
    assert table.column_names == ["state", "town", "estimate", "ci_lower", "ci_upper"]
    share = described_estimate(table)["share_left_out"]["estimate"]
    assert share == pytest.approx(release.statement["contributions"]["share_left_out"]["estimate"], abs=1e-3)
    assert table["estimate"].to_pylist() == [round(each / (1 - share)) for each in counts["count"].to_pylist()]
    assert described_estimate(table)["unit"] == "all records"
    assert "left out for each one that counts, of 0.5, as is assumed" in (described_estimate(table)["summary"])


def test_the_interval_adds_three_deviations_as_squares(release):
    """Computed here once more, from the published numbers by hand."""
    table, counts = release.scaled("town", spread=0.5, alpha=0.2), release.table("town", alpha=0.2)
    share = described_estimate(table)["share_left_out"]
    odds, least, most = (share[end] / (1 - share[end]) for end in ("estimate", "ci_lower", "ci_upper"))
    reach = 0.5 * quantile(0.2, None) * odds
    for row, count in zip(table.to_pylist(), counts.to_pylist(), strict=True):
        number, middle = count["count"], count["count"] * (1 + odds)
        up = math.hypot((count["ci_upper"] - number) * (1 + odds), number * math.hypot(most - odds, reach))
        down = math.hypot(
            (number - count["ci_lower"]) * (1 + odds), number * min(odds, math.hypot(odds - least, reach))
        )
        assert row["ci_upper"] == math.ceil(middle + up)
        assert row["ci_lower"] == max(math.floor(middle - down), count["ci_lower"])


def test_there_are_never_fewer_records_than_counted_ones(release):
    table, counts = release.scaled("town", spread=100), release.table("town", alpha=0.1)
    lower, counted = (each["ci_lower"].to_numpy() for each in (table, counts))
    assert (lower >= counted).all()
    assert (lower <= counted + 1).all()  # two deviations are added as squares


def test_a_level_of_one_node_has_the_measured_share_and_no_spread(release):
    with_any = release.scaled("all", spread=3.0)
    assert with_any.equals(release.scaled("all", spread=0.0))
    row = with_any.to_pylist()[0]
    true = people_of().num_rows
    assert row["ci_lower"] <= true <= row["ci_upper"]
    published = release.table("all", alpha=0.1).to_pylist()[0]
    assert published["ci_upper"] < 0.8 * true


def test_the_spread_of_public_records_is_that_of_the_shares_there(release):
    like = people_of(heavy_in="y")
    table = release.scaled("town", like=like)
    person, town = like["who"].to_numpy(), np.array(like["town"].to_pylist())
    records = np.array([(town == each).sum() for each in "xyz"], dtype=float)
    kept = np.array([sum(np.minimum(np.bincount(person[town == each]), M)) for each in "xyz"], dtype=float)
    odds = (records - kept) / kept
    of_all = (records.sum() - kept.sum()) / kept.sum()
    areas = kept.sum() ** 2 / (kept**2).sum()
    squares = (kept * (odds / of_all - 1) ** 2).sum() / kept.sum() * areas / (areas - 1)
    assert described_estimate(table)["spread"] == pytest.approx(math.sqrt(squares), rel=1e-12)
    assert described_estimate(table)["basis"] == "public records"
    assert table.equals(release.scaled("town", like=like))  # nothing is drawn


def test_equal_shares_have_no_spread():
    assert spread_between(np.array([10.0, 20.0]), np.array([15.0, 30.0])).relative == 0.0


def test_flows_and_tables_are_scaled_too(areas, tmp_path):
    people = people_of()
    trips = pa.table(
        {"from": people["town"], "to": pa.chunked_array([people["town"].to_pylist()[::-1]]), "who": people["who"]}
    )
    towns = tt.Hierarchy.from_table(pa.table({"town": ["x", "y", "z"]}), levels=["town"])
    given = {
        "neighboring": "add_remove",
        "person": "who",
        "max_contributions": M,
        "contributions": tt.Contributions(share=0.2, at_most=20),
        "seed": 1,
    }
    flows = tt.release_flows(
        trips, origins=towns, destinations=towns, origin=["from"], destination=["to"], budget=tt.Budget(epsilon=10),
        **given,
    )  # fmt: skip
    level = flows.levels[-1]
    flows.save(tmp_path / "flows")
    table = tt.Release.load(tmp_path / "flows").scaled(level, like=trips)
    assert table.num_rows == flows.table(level).num_rows
    assert described_estimate(table)["unit"] == "all trips"
    assert described_estimate(table)["spread"] > 0
    people = people.append_column("sex", pa.array(["f", "m"] * (people.num_rows // 2 + 1)).slice(0, people.num_rows))
    product = tt.Product({"area": areas, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    tables = tt.release_tables(people, product, tt.Budget(epsilon=10), tables=[("town", "sex"), ("town",), ()], **given)
    by_sex = tables.scaled("sex", "town", like=people)
    assert by_sex.column_names == ["state", "town", "sex", "estimate", "ci_lower", "ci_upper"]
    assert described_estimate(by_sex)["spread"] > 0


def test_leaves_of_people_are_scaled_to_all_leaves_of_people(areas):
    release = released(areas, distinct=True, max_contributions=1, contributions=tt.Contributions(share=0.2, at_most=3))
    table = release.scaled("town", spread=0.1)
    assert described_estimate(table)["unit"] == "all leaves of people"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, ValueError, "spread: give either spread, the standard deviation"),
        ({"spread": 0.5, "like": TOWNS}, ValueError, "spread: both spread and like are given"),
        ({"spread": -0.1}, ValueError, "spread: -0.1 must be at least 0 and finite"),
        ({"spread": 1e17}, ValueError, "spread: 1e.17 must be at most 1e.06"),
        ({"spread": math.inf}, ValueError, "spread: inf must be at least 0 and finite"),
        ({"spread": "half"}, TypeError, "spread: .* must be a number, such as 0.5"),
        ({"spread": True}, TypeError, "spread: True must be a number"),
        ({"spread": 0.5, "alpha": 0}, ValueError, "alpha: 0 must lie strictly between 0 and 1"),
        ({"like": TOWNS}, ValueError, "who"),
    ],
)
def test_what_cannot_be_used_is_refused(release, given, error, message):
    with pytest.raises(error, match=message):
        release.scaled("town", **given)


def test_public_records_without_a_spread_are_refused(release):
    alone = people_of().slice(0, 2)
    with pytest.raises(ValueError, match=r"like: it has records of 1 areas, and the bound leaves 0 of them out"):
        release.scaled("town", like=alone)


def test_the_private_table_is_recognized_by_its_name(areas, tmp_path):
    import pyarrow.parquet as pq

    (tmp_path / "june").mkdir()
    for name in ("people.parquet", "june/people.parquet", "june/public.parquet"):
        pq.write_table(people_of(), tmp_path / name)
    release = released(areas, tmp_path / "people.parquet")
    for private in (tmp_path / "people.parquet", str(tmp_path / "june" / "people.parquet")):
        with pytest.raises(ValueError, match=r"like: 'people\.parquet' has the name of the private table"):
            release.scaled("town", like=private)
    assert release.scaled("town", like=tmp_path / "june" / "public.parquet").num_rows == 3


def test_where_the_share_is_not_known_the_remedy_is_named(areas):
    unmeasured = released(areas, contributions=None)
    with pytest.raises(ValueError, match=r"did not measure what its contribution bound leaves out.*contributions="):
        unmeasured.scaled("town", spread=0.5)
    assumed = released(areas, person=None, contributions=None)
    with pytest.raises(ValueError, match=r"it bounds no contributions .*so its counts are of all records already"):
        assumed.scaled("town", spread=0.5)
    noisy = released(areas, people_of().slice(0, 20), epsilon=0.01)
    with pytest.raises(ValueError, match=r"the interval of the share left out goes up to 1.*smaller at_most"):
        noisy.scaled("town", spread=0.5)
    without_errors = released(areas, mechanism=tt.counts.TopDown())
    with pytest.raises(ValueError, match="tallytree error"):
        without_errors.scaled("town", spread=0.5)
    homes = people_of().append_column("home", pa.array(people_of()["town"].to_pylist()))
    options = {"neighboring": "add_remove", "group": "home", "person": "who", "max_group_size": 20, "seed": 1}
    groups = tt.release_group_sizes(homes, areas, tt.Budget(epsilon=1), **options)
    with pytest.raises(ValueError, match=r"its statistic is 'group_sizes'; all records are estimated from counts"):
        groups.scaled("town", spread=0.5)
    with pytest.raises(ValueError, match="level: 'street' is not one of"):
        unmeasured.scaled("street", spread=0.5)


def test_the_metadata_is_json(release):
    text = release.scaled("town", spread=0.5).schema.metadata[b"tallytree"]
    assert {"unit", "share_left_out", "spread", "basis", "alpha", "summary"} == set(json.loads(text))


@pytest.fixture(scope="module")
def made_up_weeks():
    place = REPOSITORY / "benchmarks" / "all_records.py"
    spec = importlib.util.spec_from_file_location("all_records_benchmark", place)
    module = importlib.util.module_from_spec(spec)
    sys.modules["all_records_benchmark"] = module  # which its dataclasses look for
    spec.loader.exec_module(module)
    yield module
    del sys.modules["all_records_benchmark"]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_intervals_of_all_records_hold_them_in_a_made_up_week(made_up_weeks, epsilon):
    """20 and 80 areas of 12 weeks each, with a fixed key.

    Areas of one week have the error of the measured share in common. The coverage of a week's districts has a standard
    deviation of about 0.05, so its mean over the weeks one of 0.015: intervals that cover 80 % of districts pass with a
    probability of 0.1 %, and such as cover 90 % fail with one of 0.1 %.
    """
    found = [*made_up_weeks.runs(epsilon, 0.7, 12, key=4711)]
    for level in ("district", "zone"):
        means = made_up_weeks.mean_of(found, level)
        assert means["published"] < 0.25  # of all records; the intervals are of bounded ones
        assert means["assumed"] >= 0.85
        assert means["earlier"] >= 0.85
        assert max(means["wide_assumed"], means["wide_earlier"]) <= 2 * means["wide_true"]


@pytest.mark.slow
def test_intervals_that_leave_out_the_spread_are_found_out(made_up_weeks, monkeypatch):
    monkeypatch.setattr(made_up_weeks, "ASSUMED", 0.0)
    found = [*made_up_weeks.runs(1.0, 0.7, 12, key=4711)]
    assert all(made_up_weeks.mean_of(found, level)["assumed"] < 0.8 for level in ("district", "zone"))
