"""What a publisher says of a release: it is stated, in its words, and changes nothing of the release."""

import json

import pyarrow as pa
import pytest
import yaml

import tallytree as tt
from helpers import releases
from tallytree.ledger import Ledger
from tallytree.release.counted_unit import counted_unit, worded

AREAS = tt.Hierarchy.from_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}), ["state", "county"])
PEOPLE = pa.table({"state": ["A", "A", "B"] * 9, "county": ["x", "y", "x"] * 9, "person": [i % 5 for i in range(27)]})
SAID = {
    "title": "Commutes <script>alert(1)</script>",
    "publisher": "Office of *Statistics*",
    "contact": "desk@office.example",
    "status": "provisional",
    "words": {"record": "trip", "person": "employee", "group": "household"},
}


def test_a_description_is_in_neither_the_plan_nor_the_noise(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    given = {
        "secret": tt.new_secret(tmp_path / "secret"), "ledger": ledger, "dataset": "people", "run": "Monday",
        "neighboring": "add_remove", "person": "person", "max_contributions": 2,
    }  # fmt: skip
    plain = tt.release_counts(PEOPLE, AREAS, tt.Budget(epsilon=1), **given)
    said = tt.release_counts(PEOPLE, AREAS, tt.Budget(epsilon=1), **given, **SAID)
    other = tt.release_counts(PEOPLE, AREAS, tt.Budget(epsilon=1), **given, **SAID | {"title": "Another"})
    assert plain.statement["release"] == said.statement["release"] == other.statement["release"]
    assert len(ledger.entries("people")) == 1
    for level in plain.levels:
        assert plain.table(level) == said.table(level) == other.table(level)
        assert plain.measurements(level) == said.measurements(level)
    assert said.spec == plain.spec
    assert said.statement["description"] == SAID
    assert "description" not in plain.statement


def test_sentences_of_the_statement_have_the_words_and_names_of_columns_stay():
    release = tt.release_counts(
        PEOPLE, AREAS, tt.Budget(epsilon=1), neighboring="add_remove", person="person", max_contributions=2,
        contributions=0.1, **SAID
    )  # fmt: skip
    statement = release.statement
    assert statement["unit_of_protection"] == "one employee, of whose trips at most 2 count"
    assert statement["counted"] == counted_unit(statement) == "trips, at most 2 an employee"
    assert statement["unit_of_protection"] in statement["guarantee"]
    assert any("An employee is a value of the column 'person'" in note for note in statement["notes"])
    assert "of the trips" in statement["contributions"]["summary"]
    assert "one employee, of whose trips" in statement["risk"]["attack"]
    assert " record" not in json.dumps([statement["guarantee"], statement["contributions"]["summary"]])


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("one person, who has one membership of a group", "one child, who has one membership of a city"),
        ("one person, who has at most 3 memberships of groups", "one child, who has at most 3 memberships of cities"),
        ("A record of the column 'record', or \"groups\"", "An hour of the column 'record', or \"groups\""),
        ("that person's records, and max_records", "that child's hours, and max_records"),
    ],
)
def test_words_have_their_articles_and_plurals(sentence, said):
    assert worded(sentence, {"person": "child/children", "record": "hour", "group": "city"}) == said


@pytest.mark.parametrize(("word", "said"), [("user", "a user"), ("employee", "an employee"), ("box", "a box")])
def test_an_article_fits_its_word(word, said):
    assert worded("a record", {"record": word}) == said
    assert worded("a record", {}) == "a record"


def test_where_a_record_is_a_person_sentences_still_say_how_many_records_one_has(areas):
    words = {"person": "resident", "record": "resident"}
    assert worded("one person, who has one record", words) == "one resident, who has one record"
    rows = pa.table({"state": ["A"], "county": ["x"]})
    made = tt.release_counts(rows, areas, tt.Budget(epsilon=1), neighboring="add_remove", words=words)
    assert made.statement["counted"] == "residents"
    assert made.statement["unit_of_protection"] == "one resident, who has one record"
    assert any("more records than max_contributions" in note for note in made.statement["notes"])
    several = tt.release_counts(
        rows, areas, tt.Budget(epsilon=1), neighboring="add_remove", words=words, max_contributions=2
    )
    assert several.statement["counted"] == "records"


def test_without_a_word_the_name_stays():
    assert worded("groups of people", {"person": "box"}) == "groups of boxes"


def test_groups_have_their_name(areas):
    words = {"group": "household", "person": "resident"}
    release = releases.group_sizes(areas, words=words)
    assert release.statement["counted"] == "households"
    assert release.statement["unit_of_protection"] == "one resident, who has one membership of a household"


@pytest.fixture
def areas():
    return tt.Hierarchy.from_table(
        pa.table({"state": ["A", "A", "A", "B"], "county": ["x", "y", "z", "x"]}), ["state", "county"]
    )


def test_the_entry_of_a_registry_has_what_was_said(areas, tmp_path):
    release = releases.counts(areas, **SAID, period="2026-03")
    found = yaml.safe_load((release.save(tmp_path / "out") / "deployment.yaml").read_text("utf-8"))
    basic = found["deployment"]["basic"]
    assert basic["name"] == r"Commutes \<script\>alert(1)\</script\>"
    assert basic["data_curators"] == [r"Office of \*Statistics\*"]
    assert basic["description"].startswith("Counts of trips, with noise.")
    assert "about 2026-03-01/2026-03-31. The publisher calls the numbers provisional." in basic["description"]
    assert "Contact: desk@office.example." in found["deployment"]["administrative"]["notes"]


@pytest.mark.parametrize(
    ("option", "error", "says"),
    [
        ({"title": 7}, TypeError, "title: int must be text"),
        ({"title": " "}, ValueError, "title: ' ' is empty; write some text, or leave it out"),
        ({"publisher": "x" * 201}, ValueError, "publisher: '.*'… has 201 characters; 200 is the most, so shorten it"),
        ({"contact": "a\nb"}, ValueError, r"contact: 'a\\nb' has a control character or a line break; take it out"),
        ({"contact": "a\x1b[0m"}, ValueError, "contact: .* has a control character"),
        ({"status": "draft"}, ValueError, "status: 'draft' is not known; choose"),
        ({"words": "trip"}, TypeError, "words: str must be a mapping from units to words"),
        ({"words": {"trip": "ride"}}, ValueError, "words: key 1 of the mapping is no unit; name record, person, group"),
        ({"words": {"record": 3}}, TypeError, r"words\[record\]: int must be text"),
        ({"words": {"record": "a/b/c"}}, ValueError, r"words\[record\]: 'a/b/c' must be a word, or two with a slash"),
        ({"words": {"record": "Person"}}, ValueError, r"words\[record\]: 'person' is what a person is called"),
        ({"words": {"person": "neighbour group"}}, ValueError, r"words\[person\]: .* is what a group is called"),
        ({"words": {"record": "man", "group": "mans"}}, ValueError, r"words\[record\]: .* is what a group is called"),
        ({"words": {"record": "x", "group": "y/x"}}, ValueError, r"words\[record\]: 'x' is what a group is called"),
        ({"words": {"person": "<b>"}}, ValueError, r"words\[person\]: '<b>' must be a word"),
        ({"words": {"person": "x" * 41}}, ValueError, r"words\[person\]: .* has 41 characters; 40 is the most"),
    ],
)
def test_what_cannot_be_shown_is_refused(areas, option, error, says):
    with pytest.raises(error, match=f"^{says}"):
        releases.counts(areas, **option)
