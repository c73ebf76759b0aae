"""What an attacker finds out comes first where much is spent: of `check`, `plan`, `release` and the report."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

WEAK = (
    "WEAK PROTECTION: an attacker who knows all other records, and accepts 5 false suspicions in 100, finds out in up "
    "to 100 of 100 cases whether the data hold one person, who has one record; epsilon = 500 is above 10."
)


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """The path of a spec with this budget."""
    towns = pa.table({"town": ["x", "y"]})
    pq.write_table(towns, tmp_path / "towns.parquet")
    pq.write_table(pa.concat_tables([towns] * 500), tmp_path / "people.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")

    def made(budget):
        (tmp_path / "spec.yaml").write_text(
            "statistic: counts\nrecords: people.parquet\nhierarchy: {path: towns.parquet, levels: [town]}\n"
            f"neighboring: add_remove\nbudget: {budget}\n"
        )
        return "spec.yaml"

    return made


COMMANDS = (("check",), ("plan",), ("release", "--out", "out"))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_the_first_line_says_it(spec, output, command):
    assert output(command[0], spec("{epsilon: 500}"), *command[1:]).splitlines()[0] == WEAK


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_of_a_budget_of_1_nothing_is_said(spec, output, command):
    assert "WEAK" not in output(command[0], spec("{epsilon: 1}"), *command[1:])


def test_without_a_summary_it_is_a_warning_before_what_is_published_exactly(spec, run):
    result = run("release", spec("{epsilon: 500}"), "--out", "out", "--quiet")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines()[0].endswith(WEAK)


def test_a_plan_as_json_has_it_with_the_risk(spec, output):
    assert json.loads(output("plan", spec("{epsilon: 500}"), "--json"))["risk"]["warning"] == WEAK


@pytest.mark.slow
@pytest.mark.needs("altair", "vl_convert", "jinja2")
def test_the_report_begins_with_it(spec, output, tmp_path):
    output("release", spec("{epsilon: 500}"), "--out", "out")
    output("report", "out", "--out", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert 0 < page.index(WEAK) < page.index("Who is protected?")
    assert "one person, weakly" in page
