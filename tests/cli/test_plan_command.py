"""`tallytree plan`: tables, JSON, pictures, the written spec, and what is refused."""

import importlib.util
import json
import xml.etree.ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallytree.cli.failures import ExitCode

SPEC = """\
statistic: counts
records: absent.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 1}  # the budget
neighboring: add_remove
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    table = {"state": ["A"] * 3 + ["B"] * 3, "county": [f"c{i}" for i in range(6)]}
    pq.write_table(pa.table(table), tmp_path / "areas.parquet")
    pq.write_table(pa.table(table | {"count": [900] * 6}), tmp_path / "last.parquet")
    (tmp_path / "counts.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def test_what_is_shown(folder, output):
    assert output("plan", "counts.yaml", "--epsilon", "2") == (
        "Expected errors by LeastSquares, epsilon 1:\n"
        "level   nodes  std dev  90 % within ±  expected maximum  basis      \n"
        "────────────────────────────────────────────────────────────────────\n"
        "all         1     3.28           5.32              2.53  closed form\n"
        "state       2     3.07           4.99              3.42  closed form\n"
        "county      6     3.61           5.82              6.12  closed form\n"
        "Standard deviations by other budgets:\n"
        "level   epsilon 1  epsilon 2\n"
        "────────────────────────────\n"
        "all          3.28       1.64\n"
        "state        3.07       1.54\n"
        "county       3.61        1.8\n"
        "Standard deviations by other mechanisms:\n"
        "level   LeastSquares  TopDown\n"
        "─────────────────────────────\n"
        "all             3.28     4.22\n"
        "state           3.07     3.71\n"
        "county          3.61     3.71\n"
        "Risk: An attacker who knows all other records has at most 2.72 % true positives at 1 % false positives, and "
        "at most 13.6 % at 5 %. The attacker guesses whether the data hold one person, who has one record, from all "
        "that is published, where both cases have the same invariants.\n"
        "Closed forms are of counts that are large compared to their noise, as are those of their siblings. The errors "
        "of counts near 0 are smaller. A count among many that are 0 is on average too small, and a coarser one, of "
        "areas that mostly have 0, can be off by more than is shown: a public stand-in (like) simulates it.\n"
        "If no count were near 0, the errors of a level would add up to about 4.9 at state, 17.3 at county. A level "
        "with fewer records than that is mostly noise: publish a coarser one.\n"
        "Numbers below these will be unreliable (std dev above a third of the number): 9.86 at all, 9.23 at state, "
        "10.8 at county.\n"
        "StabilityHistogram does not fit this spec: counts.yaml, line 4, budget: Budget(epsilon=1.0) has no delta, but "
        "StabilityHistogram leaves cells without records out, and so shows a lone record with a small probability; "
        "give epsilon and delta, for instance Budget(epsilon=1, delta=1e-8)\n"
        "The figures cover the privacy noise, not errors in the records, nor records that are left out.\n"
        "No private data were opened. Nothing was spent.\n"
    )


def test_json_has_the_same(folder, output):
    found = json.loads(output("plan", "counts.yaml", "--json", "--epsilon", "2"))
    assert found["budget"] == {"epsilon": 1.0}
    assert found["mechanism"] == "LeastSquares"
    assert {row["epsilon"] for row in found["errors"]} == {1.0, 2.0}
    assert found["errors"][0]["basis"] == "closed form"
    first = found["errors"][0]
    assert first["least_usable"] == pytest.approx(first["std_dev"] / 0.333)
    assert (first["unreliable"], found["advice"], found["precision"]) == (None, None, None)
    assert len(found["risk"]["by_budget"]) == 4
    assert found["risk"]["rates"][0]["false_positive_rate"] == 0.01
    assert found["notes"]


def test_a_target_gives_the_budget_and_the_spec(folder, run, output):
    shown = output("plan", "counts.yaml", "--target", "county=10", "--target", "all=20")
    assert "budget.epsilon=0.362" in shown
    written = run("plan", "counts.yaml", "--target", "county=10", "--write-spec", "chosen.yaml", "--json")
    assert (written.exit_code, written.stderr) == (0, "Spec: chosen.yaml\n")
    text = (folder / "chosen.yaml").read_text()
    epsilon = json.loads(written.stdout)["budget"]["epsilon"]
    assert text == SPEC.replace("epsilon: 1}", f"epsilon: {epsilon}}}")
    assert f"Expected errors by LeastSquares, epsilon {epsilon}" in output("plan", "chosen.yaml")


def test_a_stand_in_is_simulated(folder, output):
    arguments = ("--like", "last.parquet", "--replicates", "3", "--seed", "1", "--epsilon", "1")
    shown = output("plan", "counts.yaml", *arguments)
    assert shown == output("plan", "counts.yaml", *arguments)
    assert "  simulation\n" in shown
    assert "Simulated on a stand-in, 3 replicates" in shown
    assert "will be unreliable;" not in shown


@pytest.mark.slow
def test_the_advice_is_shown_and_is_in_the_json(folder, output):
    rows = pq.read_table("last.parquet").drop_columns(["count"])
    pq.write_table(rows.append_column("count", pa.array([900] * 3 + [6] * 3)), "few.parquet")
    arguments = ("--like", "few.parquet", "--replicates", "10", "--seed", "1", "--mechanism", "TopDown")
    found = json.loads(output("plan", "counts.yaml", *arguments, "--json"))
    assert found["advice"]["level"] == "county"
    assert found["advice"]["instead"] == "state"
    assert found["advice"]["unreliable"] == pytest.approx(0.5, abs=0.1)
    assert 1 < found["advice"]["epsilon"] <= 4
    own = [row for row in found["errors"] if (row["epsilon"], row["mechanism"]) == (1.0, "LeastSquares")]
    assert [row["unreliable"] for row in own][:2] == [0.0, pytest.approx(0.1, abs=0.1)]
    shown = output("plan", "counts.yaml", *arguments)
    assert found["advice"]["sentence"] in " ".join(shown.split())
    assert "expected maximum  unreliable  basis" in shown


@pytest.mark.slow
@pytest.mark.needs("altair", "vl_convert")
def test_pictures(folder, run):
    for name in ("plan.svg", "plan.html"):
        assert run("plan", "counts.yaml", "--picture", name).stderr == f"Picture: {name}\n"
    assert ET.parse(folder / "plan.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 (our own)
    page = (folder / "plan.html").read_text(encoding="utf-8")
    assert "county" in page
    assert "cdn.jsdelivr" not in page


@pytest.mark.parametrize(("absent", "package"), [("altair", "altair"), ("vl_convert", "vl-convert-python")])
def test_a_picture_without_its_extra_is_refused_in_one_sentence(folder, refusal, monkeypatch, absent, package):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == absent else find_spec(name))
    message = refusal("plan", "counts.yaml", "--picture", "x.svg", code=ExitCode.SYSTEM)
    assert message == f"picture: 'x.svg' needs {package}, which is not installed: pip install \"tallytree[report]\""
    assert not (folder / "x.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--picture", "x.png"), "picture: 'x.png' must end in .svg or .html"),
        (("--target", "county"), "target: 'county' must be LEVEL=STD_DEV, such as county=50"),
        (("--target", "county=5", "--target", "county=6"), "target: 'county' is given twice; keep one"),
        (("--target", "county,sex=5"), "target: 'county,sex' is not a level of this release; its levels are all, "
         "state, county"),
        (("--epsilon", "much"), "epsilon: 'much' must be a number, such as 0.5"),
        (("--mechanism", "Joint"), "mechanisms: 'Joint' is not known; choose among LeafGaussian, LeastSquares, "
         "StabilityHistogram, TopDown"),
        (("--like", "absent.parquet"), "like: it is the private table that the spec names as records, and what is "
         "simulated on it would show its numbers; give public data, such as last year's release"),
        (("--write-spec", "new.yaml", "--set", "budget.epsilon=2"), "write_spec: a spec with --set is in no file; "
         "write the changes into the spec first"),
        (("--write-spec", "no/new.yaml"), "write_spec: 'no/new.yaml' must be in the folder of the spec, '.', since "
         "paths in a spec are relative to its folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(folder, refusal, arguments, message):
    assert refusal("plan", "counts.yaml", *arguments) == message


def test_a_spec_is_not_overwritten(folder, refusal):
    message = refusal(
        "plan", "counts.yaml", "--target", "county=5", "--write-spec", "counts.yaml", code=ExitCode.EXISTS
    )
    assert message == "write_spec: 'counts.yaml' exists; choose another name, or remove it first"
    assert (folder / "counts.yaml").read_text() == SPEC
