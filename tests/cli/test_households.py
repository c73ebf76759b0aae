"""Commands on a release of persons and households: on both parts, or with a sentence that says which part to give."""

import json
import math
import shutil

import duckdb
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import columns
from tallytree.cli.failures import ExitCode
from tallytree.release.view.release_view import ReleaseView

AREAS = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]})
SPEC = {
    "statistic": "households",
    "records": "people.parquet",
    "hierarchy": {"path": "areas.parquet", "levels": ["state", "county"]},
    "household": "home",
    "max_household_size": 4,
    "budget": {"epsilon": 1.0},
    "neighboring": "add_remove",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A spec, and its release `out`."""
    place = tmp_path_factory.mktemp("households")
    rows = [
        {**AREAS.slice(home % 3, 1).to_pylist()[0], "home": f"h{home}", "who": 10 * home + member}
        for home in range(150)
        for member in range(home % 6 + 1)
    ]
    rows += [{"state": "A", "county": "x", "home": None, "who": -i} for i in range(20)]
    pq.write_table(pa.Table.from_pylist(rows), place / "people.parquet")
    pq.write_table(AREAS, place / "areas.parquet")
    (place / "spec.yaml").write_text(json.dumps(SPEC))
    tt.release_households(
        place / "people.parquet",
        tt.Hierarchy.from_table(AREAS, ["state", "county"]),
        tt.Budget(epsilon=1),
        neighboring="add_remove",
        household="home",
        max_household_size=4,
    ).save(place / "out")
    return place


@pytest.mark.slow
def test_check_and_plan_show_both_parts_and_spend_nothing(output, folder):
    said = output("check", folder / "spec.yaml")
    assert "numbers of records, and households by size" in " ".join(said.split())
    assert "households/county" in said
    assert "--like PUBLIC" in said
    said = " ".join(output("plan", folder / "spec.yaml").split())
    assert "households/county 3 not known" in said
    assert "The fit of households by size has no closed form" in said


@pytest.mark.slow
def test_the_errors_of_both_parts_are_simulated_on_public_persons(output, refusal, folder):
    rows = pq.read_table(folder / "people.parquet").slice(30)
    pq.write_table(rows, folder / "public.parquet")
    options = ("--like", folder / "public.parquet", "--replicates", "20", "--seed", "1", "--json")
    found = json.loads(output("plan", folder / "spec.yaml", *options))["errors"]
    at_1 = {row["level"]: row["std_dev"] for row in found if row["epsilon"] == 1}
    at_4 = {row["level"]: row["std_dev"] for row in found if row["epsilon"] == 4}
    assert {row["basis"] for row in found} == {"simulation"}
    released = tt.Release.load(folder / "out")
    for level in ("state", "county"):  # what is stated varies between releases, as it is estimated
        stated = released.sizes(level)["std_dev"].to_numpy()
        assert 0.3 < at_1[f"households/{level}"] / np.sqrt(np.mean(stated**2)) < 1.5
        assert at_4[f"households/{level}"] < 0.5 * at_1[f"households/{level}"]
    said = refusal("plan", folder / "spec.yaml", "--like", folder / "out")
    assert "like: it is a release, which does not tell who lives with whom" in said


def test_a_target_of_a_table_of_persons_chooses_the_shares_of_all_of_these(output, refusal, folder):
    found = json.loads(output("plan", folder / "spec.yaml", "--target", "county,in_household=20", "--json"))
    own = {row["level"]: row for row in found["errors"] if row["epsilon"] == found["budget"]["epsilon"]}
    assert 15 < own["county.in_household"]["std_dev"] <= 20
    assert set(found["precision"]) == {"in_household", "state, in_household", "county, in_household"}
    evenly = json.loads(output("plan", folder / "spec.yaml", "--epsilon", str(found["budget"]["epsilon"]), "--json"))
    without = {row["level"]: row for row in evenly["errors"] if row["epsilon"] == found["budget"]["epsilon"]}
    assert without["county.in_household"]["std_dev"] > 22
    said = refusal("plan", folder / "spec.yaml", "--target", "households/county=5")
    assert "has no closed form" in said


def test_lint_looks_at_households_too(output, folder, tmp_path):
    rows = pq.read_table(folder / "people.parquet").to_pylist()
    rows[0] |= {"county": "y"}  # h0 is of one person
    rows += [{"state": "B", "county": "x", "home": "h1", "who": 1}, {"state": "Z", "county": "x", "home": None}]
    pq.write_table(pa.Table.from_pylist(rows), folder / "dirty.parquet")
    output("lint", folder / "spec.yaml", "--private-out", tmp_path / "lint.txt", "--set", "records=dirty.parquet")
    said = (tmp_path / "lint.txt").read_text()
    assert "home: a group in several leaves: 3 rows" in said
    assert "1 rows are outside the hierarchy" in said
    assert "home: null" not in said


def test_release_shows_what_was_published_of_both_parts(run, folder, tmp_path):
    found = run("release", folder / "spec.yaml", "--out", tmp_path / "made", "--no-report")
    assert found.exit_code == 0
    assert "warning" not in found.stderr
    assert "households/state" in found.stdout
    assert isinstance(tt.Release.load(tmp_path / "made"), tt.HouseholdsRelease)


@pytest.mark.slow
@pytest.mark.needs("altair", "vl_convert", "jinja2")
def test_both_parts_have_one_report(output, folder, tmp_path):
    shutil.copytree(folder / "out", tmp_path / "out")
    output("report", tmp_path / "out")
    output("report", tmp_path / "out", "--out", tmp_path / "one.html")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page == (tmp_path / "one.html").read_text(encoding="utf-8")
    assert "the guarantee of both parts together" in page
    assert "at most 2.72 times as probable with these records as without." in page  # e, not e^0.5 of the part
    assert "Households by size" in page
    assert not list((tmp_path / "out").glob("*/report.html"))


def test_both_parts_are_exported(output, refusal, folder, tmp_path):
    output("export", folder / "out", "--to", "csv", "--out", tmp_path / "csv")
    names = {each.relative_to(tmp_path / "csv").as_posix() for each in (tmp_path / "csv").rglob("*.csv")}
    assert {"persons/county.in_household.csv", "households/county.csv"} <= names
    dictionary = json.loads((tmp_path / "csv" / "households" / "datapackage.json").read_text())
    fields = {each["name"]: each for each in dictionary["resources"][0]["schema"]["fields"]}
    assert "members" in fields["persons"]["description"]
    output("export", folder / "out", "--to", "xlsx", "--out", tmp_path / "both.xlsx")
    book = openpyxl.load_workbook(tmp_path / "both.xlsx")  # one file, not a folder of that name
    assert {"Notes", "persons.county.in_household", "households.county"} <= {*book.sheetnames}
    notes = " ".join(str(cell) for row in book["Notes"].values for cell in row)
    assert "the part 'persons'" in notes
    assert "the part 'households'" in notes
    output("export", folder / "out", "--to", "duckdb", "--out", tmp_path / "both.duckdb")
    with duckdb.connect(str(tmp_path / "both.duckdb"), read_only=True) as database:
        assert database.sql('SELECT sum(groups) FROM "households.county"').fetchall()[0][0] > 0
    said = refusal("export", folder / "out", "--to", "csv", "--out", tmp_path / "more", "--table", "county")
    assert "each has tables of its own; export DIR/persons or DIR/households" in said


def test_what_cannot_be_done_with_two_parts_or_one_of_them_is_refused(refusal, folder, tmp_path):
    whole = folder / "out"
    assert "its statistic is 'households', which must be one of counts" in refusal("error", whole)
    assert "is a part of a release of persons and households" in refusal("error", whole / "persons")
    assert "give the folder of the whole release" in refusal("registry", whole / "households")
    said = refusal("total", whole / "households", folder / "areas.parquet")
    assert "replicates of that are not made" in said
    said = refusal("contributions", folder / "spec.yaml", "--out", tmp_path / "c", "--set", "person=who")
    assert "households have no people by their number of records" in said
    said = refusal("plan", folder / "spec.yaml", "--like", folder / "areas.parquet")
    assert "column 'home' is missing" in said
    assert refusal("release", folder / "spec.yaml", "--out", tmp_path / "m", "--memory", "2GB", code=ExitCode.INPUT)


def test_commands_take_the_part_that_has_what_was_asked(output, folder, tmp_path):
    for whole, part in (
        (
            ("total", folder / "out", folder / "areas.parquet"),
            ("total", folder / "out/persons", folder / "areas.parquet"),
        ),
        *(
            (("derive", *asked, folder / "out"), ("derive", *asked, folder / "out" / "persons"))
            for asked in (
                ("share", "--within", "state"),
                ("ratio", "--numerator", "in_household=no", "--denominator", "all"),
            )
        ),
    ):
        more = ("county,in_household",) if "share" in whole else ()
        assert output(*whole, *more) == output(*part, *more)
    assert "households" in output("derive", "mean", folder / "out", "county").splitlines()[0]
    said = output("explore", folder / "out", "--static", tmp_path / "page")
    assert "Nothing was spent. Page: " in " ".join(said.split())
    whole, part = (tmp_path / "page" / place / "index.html" for place in (".", "households"))
    assert '["Households","households/index.html"]' in whole.read_text(encoding="utf-8")
    assert '["Persons","../index.html"]' in part.read_text(encoding="utf-8")


def test_the_explorer_of_households_has_their_persons_and_the_error_of_their_number(folder):
    release = tt.Release.load(folder / "out").households
    view = ReleaseView(release)
    table = next(each for each in view.tables if each.level == "county")
    rows = columns.rows_of(view, table)
    published = release.table("county")
    assert rows["members"] == published["persons"].to_pylist()
    reach = [math.ceil(1.6448536 * each) for each in published["households_std_dev"].to_pylist()]
    assert rows["all_reach"] == reach


def test_a_release_of_both_parts_is_registered_and_replaced_and_revised(run, folder, tmp_path):
    shutil.copytree(folder / "out", tmp_path / "out")
    assert run("registry", tmp_path / "out").exit_code == 0
    found = run("release", folder / "spec.yaml", "--out", tmp_path / "two", "--revises", tmp_path / "out", "--quiet")
    assert found.exit_code == 0
    assert tt.Release.load(tmp_path / "two").statement["release"]["revises"]["folder"] == "out"
    again = run("release", folder / "spec.yaml", "--out", tmp_path / "out", "--if-exists", "replace", "--no-report")
    assert again.exit_code == 0
