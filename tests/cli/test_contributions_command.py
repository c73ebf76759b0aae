"""`tallytree contributions`, and what the listings say of bounded records."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.ledger import Ledger

SPEC = """\
statistic: counts
records: records.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
neighboring: add_remove
budget: {epsilon: 1}
person: who
max_contributions: 2
"""


@pytest.fixture
def folder(areas, tmp_path, monkeypatch):
    who = [who for who in range(300) for _ in range(1 + who % 5)]
    columns = {"who": who, "state": ["A"] * len(who), "county": ["x"] * len(who), "home": [f"h{w}" for w in who]}
    pq.write_table(pa.table(columns), tmp_path / "records.parquet")
    pq.write_table(areas.leaf_table(), tmp_path / "areas.parquet")
    (tmp_path / "plain.yaml").write_text(SPEC)
    (tmp_path / "asked.yaml").write_text(SPEC + "contributions: {share: 0.2, at_most: 30}\n")
    sizes = SPEC.replace("statistic: counts", "statistic: group_sizes") + "group: home\nmax_group_size: 9\n"
    (tmp_path / "sizes.yaml").write_text(sizes + "contributions: 0.1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_publishes_people_by_records_and_recommends_a_bound(output, folder):
    text = output("contributions", "asked.yaml", "--out", "out", "--ledger", "l.db", "--dataset", "d", "--csv")
    release = tt.Release.load(folder / "out")
    chosen = release.statement["contributions"]["recommended"]["max_contributions"]
    flat = " ".join(text.split())
    assert "A bound of 2 leaves out about" in flat
    assert f"Recommended: max_contributions: {chosen}." in flat
    assert "Spends epsilon 0.2 of epsilon 0.2" in flat
    assert "one person, with all of their records, however many" in flat
    assert release.table("contributions")["records_to"].to_pylist()[-1] == 30
    assert (folder / "out" / "tables" / "contributions.csv").exists()
    assert release.spec["records"] == "records.parquet"
    assert [entry.statistic for entry in Ledger(folder / "l.db").entries("d")] == ["contributions"]


def test_the_share_and_the_last_number_may_be_given(output, folder):
    output("contributions", "plain.yaml", "--out", "out", "--share", "0.5", "--at-most", "8")
    statement = json.loads((folder / "out" / "release.json").read_text())["statement"]
    assert (statement["spent"], statement["contributions"]["at_most"]) == ({"epsilon": 0.5}, 8)
    output("contributions", "sizes.yaml", "--out", "homes")
    assert "of the memberships" in tt.Release.load("homes").statement["contributions"]["summary"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--share", "2"], "share: 2.0 must be above 0 and at most 1, the whole budget"),
        (["--share", "nan"], "share: nan must be finite"),
        (["--at-most", "2"], "at_most: 2 must be more than max_contributions, which is 2; give the most records"),
    ],
)
def test_what_cannot_be_is_refused(refusal, folder, options, message):
    assert refusal("contributions", "plain.yaml", "--out", "out", *options).startswith(message)
    assert not (folder / "out").exists()


def test_a_spec_without_people_is_refused(refusal, folder):
    (folder / "nobody.yaml").write_text(SPEC.replace("person: who\n", ""))
    assert "person: to count people by their number of records, name the column" in refusal(
        "contributions", "nobody.yaml", "--out", "out"
    )


def test_the_listing_says_that_counts_are_of_bounded_records(output, folder):
    known = " ".join(output("check", "asked.yaml").split())
    assert "People by their number of records: measured first (share 0.2, sensitivity L1 1" in known
    assert "Counts are of records, at most 2 a person. How many others the bound leaves out is estimated." in known
    text = " ".join(output("release", "asked.yaml", "--out", "out").split())
    assert tt.Release.load("out").statement["contributions"]["summary"] in text
    unknown = " ".join(output("release", "plain.yaml", "--out", "plain").split())
    assert "How many others the bound leaves out is not known; the option contributions estimates it." in unknown
    (folder / "assumed.yaml").write_text(SPEC.replace("person: who\n", ""))
    assert "Counts are of" not in output("check", "assumed.yaml")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("contributions: {}", "contributions: an empty mapping must name share or at_most"),
        ("contributions: {shares: 0.1}", "shares"),
        ("contributions: 2", "contributions"),
        ("contributions: often", "contributions"),
        ("contributions: {share: 0.1, at_most: 2}", "contributions: at_most=2 must be more than max_contributions"),
    ],
)
def test_a_spec_that_asks_wrongly_is_refused(refusal, folder, written, message):
    (folder / "wrong.yaml").write_text(SPEC + written + "\n")
    found = refusal("check", "wrong.yaml")
    assert found.startswith("wrong.yaml, line 8")
    assert message in found
