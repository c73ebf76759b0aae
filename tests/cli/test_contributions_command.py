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


# --- max_contributions: auto ---


@pytest.fixture
def auto(folder):
    spec = SPEC.replace("max_contributions: 2", "max_contributions: auto")
    (folder / "auto.yaml").write_text(spec + "contributions: {share: 0.2, at_most: 30}\n")
    return folder


def test_a_spec_may_leave_the_bound_to_the_release(output, auto):
    text = " ".join(output("release", "auto.yaml", "--out", "out", "--ledger", "l.db", "--dataset", "d").split())
    release = tt.Release.load(auto / "out")
    m = release.statement["max_contributions"]
    assert f"Counts are of records, at most {m} a person." in text
    assert f"Chosen: max_contributions: {m}." in text
    assert "Spends epsilon 1 of epsilon 1" in text
    assert release.spec["max_contributions"] == "auto"
    entry = " ".join((auto / "out" / "deployment.yaml").read_text().split())
    assert f"The bound on the records of a person is {m}." in entry
    assert [entry.max_contributions for entry in Ledger(auto / "l.db").entries("d")] == [30]


@pytest.mark.slow
@pytest.mark.needs("altair", "vl_convert", "jinja2")
def test_the_report_names_the_chosen_bound(output, auto):
    output("release", "auto.yaml", "--out", "out")
    m = json.loads((auto / "out" / "release.json").read_text())["statement"]["max_contributions"]
    output("report", "out")
    assert f"records, at most {m} a person" in (auto / "out" / "report.html").read_text()


def test_what_is_known_before_states_no_noise_of_a_level(output, refusal, auto):
    text = " ".join(output("check", "auto.yaml", "--ledger", "l.db", "--dataset", "d").split())
    assert "Noise: it depends on the bound m." in text
    assert "The bound m is chosen among" in text
    assert "Counts are of records, at most m a person; m is chosen from the noisy numbers of people" in text
    assert "is known only when the release is made; to plan with a number" in text
    assert "Risk:" in text
    assert "auto.yaml, line 7, max_contributions: auto is no number. The bound m" in refusal("plan", "auto.yaml")
    assert "at most 5 a person" in output("plan", "auto.yaml", "--set", "max_contributions=5")
    assert not (auto / "l.db").exists()


def test_contributions_recommend_what_a_release_would_choose_from(output, auto):
    text = " ".join(output("contributions", "auto.yaml", "--out", "out").split())
    facts = tt.Release.load(auto / "out").statement["contributions"]
    assert facts["bound"] == facts["recommended"]["max_contributions"]
    assert f"Recommended: max_contributions: {facts['bound']}." in text


def test_a_bound_that_is_no_number_is_refused(refusal, auto):
    (auto / "bad.yaml").write_text(SPEC.replace("max_contributions: 2", "max_contributions: most"))
    assert "max_contributions: 'most' must be an integer, or auto" in refusal("check", "bad.yaml")
    (auto / "bad.yaml").write_text(SPEC.replace("max_contributions: 2", "max_contributions: auto"))
    assert 'max_contributions: "auto" is chosen from what contributions measures' in refusal("check", "bad.yaml")
