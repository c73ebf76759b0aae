"""The first screen of a report: five questions of somebody who reads it for the first time, and their answers."""

import math
from dataclasses import replace

import pyarrow as pa
import pytest

import tallytree as tt
from helpers import releases
from tallytree.release.quality import STANDARD
from tallytree.release.view.release_view import ReleaseView
from tallytree.views.report.front import front_page, period_words, verdict
from tallytree.views.report.pictures import of_hundred
from tallytree.views.report.reading import PublishedError, level_errors

SAID = {
    "title": "Commutes <b>2026</b>",
    "publisher": "Office of Statistics",
    "contact": "desk@office.example",
    "status": "provisional",
    "period": "2026-03",
    "words": {"record": "commute", "person": "commuter"},
}


def front(release, folder="folder"):
    view = ReleaseView(release)
    return front_page(view, level_errors(view), folder)


def error(level, usable, median=10.0):
    return PublishedError(level, 100, 1.0, median, 20.0, 16.0, 10.0, usable, STANDARD.least_usable(median))


def test_it_says_what_it_is_how_many_who_is_protected_and_whom_to_ask(areas):
    release = releases.counts(areas, neighboring="add_remove", **SAID)
    shown = front(release)
    assert shown.title == "Commutes <b>2026</b>"
    assert (shown.publisher, shown.contact, shown.status) == (
        "Office of Statistics",
        "desk@office.example",
        "provisional",
    )
    assert shown.period == "March 2026"
    assert shown.what == "How many commutes there are in every area, down to 4 areas at county."
    (row,) = release.table("all", alpha=0.1).to_pylist()
    assert shown.number == f"{row['count']:,}"
    assert shown.unit == "commutes"
    lower, upper = row["ci_lower"], row["ci_upper"]
    far = max(upper - row["count"], row["count"] - lower)
    assert shown.error in (f"± {far}", f"({lower} to {upper})")  # the second where the interval is cut at 0
    who = shown.cards[0]
    assert (who.question, who.number) == ("Who is protected?", "one commuter")
    blind, found = of_hundred(release.statement)
    assert who.sentence.startswith("Who has one commute.")
    assert f"at most {found} of 100 cases; a guess does in {blind}" in who.sentence


def test_the_bars_have_the_shares_of_the_verdicts(areas):
    release = releases.counts(areas, neighboring="add_remove")
    for bar, level in zip(front(release).bars, release.levels, strict=True):
        verdicts = release.table(level).column("quality").to_pylist()
        good = 100 * sum(each in ("exact", "reliable") for each in verdicts) / len(verdicts)
        assert bar.level == level
        assert bar.parts[0] == pytest.approx(good)
        assert sum(bar.parts) == pytest.approx(100)


def test_without_a_description_the_title_is_the_folder_and_nobody_is_named(areas):
    shown = front(releases.counts(areas), "my-release")
    assert (shown.title, shown.publisher, shown.contact, shown.status, shown.period) == ("my-release", "", "", "", "")


def test_a_total_that_is_public_is_exact(areas):
    assert front(releases.flows(areas)).error == "exactly"


def test_of_group_sizes_the_groups_are_counted_and_tails_judged(sizes_release):
    shown = front(sizes_release)
    assert (shown.number, shown.unit, shown.error) == ("4,000", "groups", "exactly")
    assert [bar.level for bar in shown.bars] == [*sizes_release.levels]


@pytest.mark.parametrize("invariants", ["groups", "total"])
def test_numbers_of_groups_that_are_public_are_exact_though_the_smallest_size_is_noisy(invariants):
    rows = pa.table({"state": ["A", "B"], "size": [5, 5], "groups": [800, 800]})
    made = tt.release_group_sizes(
        rows, tt.Hierarchy.from_values("state", ["A", "B"]), tt.Budget(epsilon=1), neighboring="add_remove",
        size="size", groups="groups", invariants=invariants, max_group_size=9, mechanism=tt.sizes.Joint(),
    )  # fmt: skip
    assert (front(made).number, front(made).error) == ("1,600", "exactly")


def test_of_tables_the_total_is_the_number_and_bars_have_titles(areas):
    shown = front(releases.tables(areas))
    assert shown.number
    assert {"county × sex", "total"} <= {bar.level for bar in shown.bars}


def test_a_release_that_is_not_private_protects_nobody(areas):
    assert front(releases.counts(areas, seed=1)).cards[0].number == "nobody"


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        ([error("all", (1, 0, 0)), error("town", (90, 10, 0))], "You can use every number."),
        ([error("all", (1, 0, 0)), error("town", (80, 15, 5))],
         "You can use nearly all numbers. At town do not use 5 % of the numbers: those below about 31 trips."),
        ([error("all", (1, 0, 0)), error("town", (20, 10, 70))],
         "You can use the numbers down to all. At town do not use 70 % of the numbers: those below about 31 trips."),
        ([error("all", (1, 0, 0)), error("county", (97, 0, 3)), error("town", (20, 10, 70))],
         "You can use nearly all numbers down to county. At town do not use 70 % of the numbers: those below about 31 "
         "trips."),
        ([error("all", (0, 0, 1)), error("town", (0, 0, 100))],
         "Use single numbers of this release only where they are marked as reliable. At town do not use 100 % of the "
         "numbers: those below about 31 trips."),
        ([replace(error("all", None), usable=None)],
         "How far off each number is was not computed. The command “tallytree error” does that."),
    ],
)  # fmt: skip
def test_the_verdict_says_down_to_where_numbers_can_be_used(errors, says):
    assert verdict(errors, "trips") == says


def test_the_verdict_of_tables_counts_those_that_can_be_used():
    errors = [error("a", (10, 0, 0)), error("b", (1, 0, 9))]
    assert verdict(errors, "trips", tables=True).startswith(
        "You can use the numbers of 1 table of 2. At b do not use 90 %"
    )
    few = [error("a", (10, 0, 0)), error("b", (999, 0, 1))]
    assert verdict(few, "trips", tables=True).startswith("You can use nearly all numbers. At b do not use 1 % of the")
    assert verdict([*few, error("c", (1, 0, 9))], "trips", tables=True).startswith(
        "You can use nearly all numbers of 2 tables of 3. At c do not use 90 %"
    )
    assert verdict([error("c", (1, 0, 9))], "trips", tables=True).startswith("Use single numbers of this release only")


def test_records_that_are_left_out_are_said_beside_the_number(areas):
    assert front(releases.counts(areas)).left_out == ""
    dropped = releases.counts(areas, neighboring="add_remove", on_unknown="drop", words={"record": "commute"})
    assert front(dropped).left_out == "Commutes outside the areas are left out; how many is not published."
    days = releases.PEOPLE.append_column("day", [["2026-03-04"] * releases.PEOPLE.num_rows])
    arguments = {"neighboring": "add_remove", "period": "2026-03", "period_column": "day", "records": days}
    checked = releases.counts(areas, **arguments)
    assert front(checked).left_out == "Records outside the period are left out; how many is not published."
    both = front(releases.counts(areas, **arguments, on_unknown="drop"))
    assert both.left_out == "Records outside the areas or the period are left out; how many is not published."
    assumed = releases.counts(areas, neighboring="add_remove", period="2026-03")
    assert front(assumed).left_out == ""


def test_a_release_says_that_it_takes_the_place_of_an_earlier_one(areas, tmp_path):
    earlier = releases.counts(areas)
    assert front(earlier).revises == ""
    earlier.save(tmp_path / "earlier")
    later = releases.counts(areas, revises=tmp_path / "earlier")
    assert front(later).revises == "Takes the place of an earlier release"


@pytest.mark.parametrize(
    ("period", "words"),
    [
        ("2026-03-04/2026-03-04", "4 March 2026"),
        ("2026-02-01/2026-02-28", "February 2026"),
        ("2026-01-01/2026-12-31", "2026"),
        ("2026-03-02/2026-03-08", "2 March 2026 to 8 March 2026"),
        ("9999-12-01/9999-12-31", "1 December 9999 to 31 December 9999"),
        (None, ""),
        ("soon", "soon"),
    ],
)
def test_a_period_is_said_as_people_do(period, words):
    assert period_words(period) == words


def test_dots_are_rounded_up(areas):
    statement = {"risk": {"rates": [{"false_positive_rate": 0.05, "true_positive_rate": 0.13581}]}}
    assert of_hundred(statement) == (5, 14)
    exact = {"risk": {"rates": [{"false_positive_rate": 0.07, "true_positive_rate": 0.29}]}}  # 100 · 0.07 > 7
    assert of_hundred(exact) == (7, math.floor(29.0))


def test_a_pyramid_is_drawn_of_age_by_sex_and_small_ones_by_area(areas):
    from tallytree.views.report.numbers import number_pictures

    ages = [f"{age} to {age + 9}" for age in range(0, 80, 10)]
    rows = 800
    people = areas.leaf_table().take([place % 4 for place in range(rows)])
    people = people.append_column("sex", [["fm"[place // 4 % 2] for place in range(rows)]])
    people = people.append_column("age", [[ages[place // 8 % 8] for place in range(rows)]])
    product = tt.Product(
        {
            "area": areas,
            "age": tt.Hierarchy.from_values("age", ages),
            "sex": tt.Hierarchy.from_values("sex", ["f", "m"]),
        }
    )
    release = tt.release_tables(
        people, product, tt.Budget(epsilon=1), neighboring="add_remove",
        tables=[("state", "age", "sex"), ("age", "sex"), ("state", "sex")], words={"record": "resident"},
    )  # fmt: skip
    pictures = number_pictures(ReleaseView(release), {})
    assert [each.title for each in pictures] == [
        "Residents by age and sex", "Residents by age and sex in each state", "Residents by state and sex",
    ]  # fmt: skip
    chart = pictures[0].draw(600).to_dict()
    shown = {(row["step"], row["group"]): row["signed"] for row in chart["data"]["values"]}
    published = release.table("age", "sex").to_pylist()
    assert shown == {(row["age"], row["sex"]): row["count"] * (1 if row["sex"] == "m" else -1) for row in published}
    small = pictures[1].draw(600).to_dict()
    assert {row["area"] for row in small["data"]["values"]} == {"A", "B"}
    assert pictures[1].grid.rows[0][0] == "A"
    assert release.plot.pyramid().to_dict()["data"] == release.plot.pyramid("sex", "age").to_dict()["data"]
    assert "facet" in release.plot.pyramid("state", "age", "sex").to_dict()
    with pytest.raises(
        ValueError, match=r"^plot\.pyramid: it shows a table by two attributes.*; \(state, sex\) is none"
    ):
        release.plot.pyramid("state", "sex")
    with pytest.raises(ValueError, match=r"this release has none$"):
        releases.counts(areas).plot.pyramid()
