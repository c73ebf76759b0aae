"""The report of persons and households: one page, where records are persons, and what was asked for comes first."""

import re

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import front_page, level_errors, report_page
from tallytree.release.view.release_view import ReleaseView


@pytest.fixture(scope="module")
def made() -> tt.HouseholdsRelease:
    towns = tt.Hierarchy.from_table(
        pa.table({"town": ["1", "2"], "name": ["Łódź", "Île"]}), ["town"], labels={"town": "name"}
    )
    people = pa.table({"town": ["1", "2"] * 60, "home": [str(i // 4) + "ab"[i % 2] for i in range(120)]})
    return tt.release_households(
        people, tt.Product({"area": towns}), tt.Budget(epsilon=2.0), neighboring="add_remove", household="home",
        max_household_size=4, tables=[("town",)],
    )  # fmt: skip


def test_both_parts_are_on_one_page_with_their_errors(made):
    page = report_page(made, title="residents")
    heroes = re.findall(r'class="hero"><b>([\d,]+)</b> <bdi>(\w+)</bdi> <span>(± \d+|\(.*?\))', page)
    assert [unit for _, unit, _ in heroes] == ["persons", "households"]
    assert "Households by size, and how far off they are" in page
    assert "Tables of persons by area and by attributes, and households by size." in page
    assert "Łódź" in page


def test_the_number_of_persons_is_that_of_the_total(made):
    view = ReleaseView(made)
    total = made.persons.total(alpha=0.1).to_pylist()[0]
    assert front_page(view, level_errors(view), "x").number == f"{total['count']:,}"


def test_tables_that_nobody_asked_for_are_not_on_the_first_screen(made):
    view = ReleaseView(made)
    front = front_page(view, level_errors(view), "x")
    assert [bar.level for bar in front.bars] == ["town"]
    assert "household" not in front.verdict
    assert any("in households" in view.title_of(level) for level in view.levels)


def test_a_publisher_s_word_for_persons_is_used_for_records_too(made):
    assert made.persons.statement["description"]["words"] == {"record": "person", "person": "person"}
    assert made.households.statement["description"]["words"]["group"] == "household"
