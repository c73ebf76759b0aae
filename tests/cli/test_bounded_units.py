"""Numbers of bounded records name their unit, and what is left out, wherever they are shown."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.explored import data_of, page_of
from tallytree.cli.failures import ExitCode
from tallytree.release.counted_unit import bound_sentence, counted_unit

UNIT = "records, at most 2 a person"
SPEC = """\
statistic: counts
records: records.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
neighboring: add_remove
budget: {epsilon: 5}
person: who
max_contributions: 2
contributions: {share: 0.2, at_most: 30}
"""
AREAS = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "z"]})


@pytest.fixture
def folder(tmp_path, monkeypatch, output):
    """A working folder with a release of bounded records, `out`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TALLYTREE_REPORT", "0")
    who = [who for who in range(600) for _ in range(1 + who % 5)]
    rows = AREAS.take(pa.array([each % 3 for each in who]))
    pq.write_table(rows.append_column("who", pa.array(who)), "records.parquet")
    earlier = AREAS.take(pa.array([min(each % 5, 2) for each in who]))  # people of the county z have more records
    pq.write_table(earlier.append_column("who", pa.array(who)), "earlier.parquet")
    pq.write_table(AREAS, "areas.parquet")
    (tmp_path / "spec.yaml").write_text(SPEC)
    output("release", "spec.yaml", "--out", "out")
    return tmp_path


@pytest.fixture
def release(folder):
    return tt.Release.load("out")


def flat(text):
    return " ".join(text.split())


def test_the_statement_and_the_notebook_name_it(release):
    assert release.statement["counted"] == counted_unit(release.statement) == UNIT
    sentence = bound_sentence(release.statement)
    assert re.match(rf"Counts are of {UNIT}\. The bound leaves out about [\d.]+ % of the records", sentence)
    html = release._repr_html_()
    assert f"Release of counts: {UNIT}" in html
    assert sentence in html


def test_commands_say_it(folder, output, release):
    sentence = bound_sentence(release.statement)
    (folder / "towns.csv").write_text("state,county\nA,x\nB,z\n")
    assert sentence in flat(output("total", "out", "towns.csv"))
    assert sentence in flat(output("total", "out", "towns.csv", "--out", "totals.parquet"))
    assert json.loads(pq.read_schema("totals.parquet").metadata[b"tallytree"])["unit"] == UNIT
    assert sentence in flat(output("error", "out", "--replicates", "10", "--seed", "1", "--out", "errors"))
    assert f"Counts are of {UNIT}. How many others the bound leaves out is estimated." in flat(
        output("plan", "spec.yaml")
    )


def test_a_release_without_a_bound_is_of_records(folder, output):
    (folder / "all.yaml").write_text(re.sub(r"(?m)^(person|max_contributions|contributions): .*\n", "", SPEC))
    assert "Counts are of" not in output("release", "all.yaml", "--out", "all")
    statement = tt.Release.load("all").statement
    assert (statement["counted"], bound_sentence(statement)) == ("records", "")
    assert b"tallytree" not in (pq.read_schema("all/tables/county.parquet").metadata or {})


@pytest.mark.parametrize(
    ("statistic", "notes", "unit"),
    [
        ("flows", [], "trips, at most 1,000 a person"),
        ("tables", [], "records, at most 1,000 a person"),
        ("counts", ["Every person counts at most once in a leaf."], "leaves of people, at most 1,000 a person"),
        ("tables", ["Every person counts at most once in a combination of leaves."],
         "leaves of people, at most 1,000 a person"),
        ("group_sizes", [], "groups of memberships, at most 1,000 a person"),
        ("contributions", [], "people"),
    ],
)  # fmt: skip
def test_every_statistic_has_its_unit(statistic, notes, unit):
    statement = {"statistic": statistic, "notes": notes, "max_contributions": 1000, "max_contributions_enforced": True}
    assert counted_unit(statement) == unit


def test_exports_name_it(folder, output, release):
    output("export", "out", "--to", "csv", "--out", "csv")
    text = (folder / "csv/datapackage.json").read_text("utf-8")
    assert f"Unit: {UNIT}." in text
    assert bound_sentence(release.statement) in text


@pytest.mark.slow
@pytest.mark.needs("altair", "vl_convert", "jinja2")
def test_the_report_names_it(folder, output, release):
    output("report", "out")
    text = flat(re.sub(r"<[^>]+>", " ", (folder / "out/report.html").read_text("utf-8")))
    assert text.count(bound_sentence(release.statement)) >= 3  # in the summary, at the numbers, at the bound
    assert f"of the truth, which here is the number of {UNIT}" in text
    assert f"hold the true number of {UNIT}, nine times in ten" in text


def test_the_explorer_names_it(release, folder):
    about, _ = data_of(page_of(folder / "out", folder / "page"))
    assert about["unit"] == UNIT
    assert about["bound"] == bound_sentence(release.statement)


def test_all_records_are_estimated_at_the_command_line(folder, output, release):
    before = (folder / "out/release.json").read_bytes()
    shown = flat(output("error", "out", "--all-records", "--spread", "0.3", "--out", "estimates", "--csv"))
    assert "level rows spread largest, with interval median width" in shown
    assert "left out for each one that counts, of 0.3, as is assumed" in shown
    assert shown.endswith("Nothing was spent, and out is as it was. Estimates: estimates")
    assert (folder / "out/release.json").read_bytes() == before
    assert sorted(path.name for path in (folder / "estimates").iterdir()) == [
        f"{level}.{suffix}" for level in ("all", "county", "state") for suffix in ("csv", "parquet")
    ]
    assert pq.read_table("estimates/county.parquet").equals(release.scaled("county", spread=0.3), check_metadata=True)
    like = flat(output("error", "out", "--all-records", "--like", "earlier.parquet"))
    assert "as in public records" in like
    assert like.endswith("and out is as it was.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--spread", "0.3"), "spread: it is about estimates of all records; add --all-records"),
        (("--like", "earlier.parquet"), "like: it is about estimates of all records; add --all-records"),
        (("--all-records",), "spread: give either spread, the standard deviation"),
        (("--all-records", "--spread", "0.3", "--replicates", "20"), "replicates: 20 has no use with --all-records"),
        (("--all-records", "--spread", "0.3", "--seed", "2"), "seed: 2 has no use with --all-records"),
        (("--all-records", "--like", "records.parquet"), "like: 'records.parquet' has the name of the private table"),
    ],
)
def test_options_that_do_not_go_together_are_refused(folder, refusal, options, message):
    assert refusal("error", "out", *options).startswith(message)


def test_estimates_do_not_replace_a_folder(folder, refusal):
    message = refusal("error", "out", "--all-records", "--spread", "0.3", "--out", "out", code=ExitCode.EXISTS)
    assert "choose another folder" in message
