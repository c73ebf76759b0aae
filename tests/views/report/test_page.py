"""The report: its sections in order, escaped labels, one file without scripts; and in a real browser."""

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

from helpers.browser import Visit, chromium
from helpers.cases import few
from tallytree.release.view.release_view import ReleaseView
from tallytree.views import charts
from tallytree.views.report import report_page, write_report
from tallytree.views.report.reading import level_errors
from tallytree.views.report.summary import summary

pytestmark = pytest.mark.needs("altair", "vl_convert", "jinja2")
STATISTICS = ["counts", "tables", "flows", "group_sizes"]
SECTIONS = ["contents", "numbers", "summary", "guarantee", "invariants", "bound", "use", "checks", "appendix"]


@pytest.fixture(scope="module")
def page_of(every_release, tmp_path_factory):
    """The report of a release by its name, as a file; each is drawn once."""
    folder = tmp_path_factory.mktemp("reports")

    @cache
    def made(name):
        return write_report(every_release[name], folder / f"{name}.html", title=name)

    return made


@pytest.fixture
def undrawn(monkeypatch):
    """Reports without their pictures, for tests of the text: most of the time of a report is spent on drawing."""
    monkeypatch.setattr(charts, "svg_in_page", lambda spec, prefix: "")


class Reader(HTMLParser):
    """What is on a page: elements, their attributes, its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.mark.slow
@pytest.mark.parametrize("name", STATISTICS)
def test_the_sections_are_in_order_and_the_page_is_one_small_file_without_scripts(page_of, name):
    text = page_of(name).read_text(encoding="utf-8")
    read = Reader(text)
    assert [found["id"] for tag, found in read.elements if tag == "h2"] == SECTIONS
    assert len(text) < 1_500_000
    tags = {tag for tag, _ in read.elements}
    assert not tags & {"script", "iframe", "img", "link", "object", "form"}
    links = [found.get("href") or found.get("src") for _, found in read.elements if "href" in found or "src" in found]
    assert all(link.startswith("#") for link in links)
    policy = next(found["content"] for tag, found in read.elements if found.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    ids = [found["id"] for _, found in read.elements if "id" in found]
    assert len(ids) == len({*ids})


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("<list of files>", "From the private table records: a list of files "),
        ("<Table>", "From the private table records: a table in memory "),
    ],
)
def test_the_appendix_says_what_the_records_were_read_from(undrawn, every_release, named, said):
    release = every_release["counts"]
    page = report_page(replace(release, spec={**release.spec, "records": named}))
    assert said in Reader(page).text


@pytest.mark.parametrize("name", few(STATISTICS, 1))
def test_every_chart_has_words_and_a_table(page_of, name):
    read = Reader(page_of(name).read_text(encoding="utf-8"))
    figures = sum(tag == "figure" for tag, _ in read.elements)
    assert figures >= 2
    assert (
        sum(found.get("role") == "img" and len(found["aria-label"]) > 20 for _, found in read.elements) == 2 * figures
    )
    captions = sum(tag == "caption" for tag, _ in read.elements)
    assert captions == sum(tag == "table" for tag, _ in read.elements) >= figures
    assert all(found.get("scope") in ("col", "row") for tag, found in read.elements if tag == "th")


@pytest.mark.parametrize("name", few(["counts", "tables"], 1))
def test_labels_are_escaped_and_isolated_wherever_they_are_shown(page_of, name):
    text = page_of(name).read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "\u202e" not in text
    assert "\u2068ירושלים\u2069" in text
    assert "y" * 200 not in text


def test_what_the_publisher_says_is_shown_first_and_escaped(undrawn, counts_release):
    script = "<script>alert(2)</script>"
    said = {"title": f"Title {script}", "publisher": f"Office {script}", "contact": f"desk {script}", "status": "final"}
    text = report_page(replace(counts_release, statement={**counts_release.statement, "description": said}))
    assert "<script" not in text
    shown = Reader(text).text.partition("Skip to the content")[2]
    places = [shown.index(f"{word} {script}") for word in ("Office", "Title", "desk")]
    assert places == sorted(places)
    assert max(places) < shown.index("Who is protected?") < shown.index("On this page")
    assert shown.index("Release id") > shown.index("Appendix: what was released, from what, and how")


def test_the_prior_stands_beside_the_method(undrawn, counts_release):
    prior = {"digest": "0" * 64, "release": "ab" * 16, "said_to_be_public": False, "spent": None, "share_in_cells": 1.0}
    texts = []
    for facts in ({}, {"prior": prior}, {"prior": prior | {"release": None, "said_to_be_public": True}}):
        text = Reader(report_page(replace(counts_release, statement={**counts_release.statement, **facts}))).text
        facts_of_method = text[text.rindex("LeastSquares") : text.rindex("Records outside the hierarchy")]
        texts.append(" ".join(facts_of_method.split()))
    assert "Prior" not in texts[0]
    assert "Prior The numbers are also moved towards those of the release abababab, as far as" in texts[1]
    assert "those of a table that the publisher says is public, as far as the noisy numbers, which" in texts[2]


def test_the_summary_says_in_plain_words_what_how_far_off_and_what_is_protected(undrawn, sizes_release):
    text = Reader(report_page(sizes_release)).text
    short = text[text.rindex("In plain words") : text.index("Epsilon (ε) bounds")]
    for question in ("What was published?", "How far off are the numbers?", "What is protected?", "What is not?"):
        assert question in short
    assert "Nine in ten numbers are within about ±" in short
    assert re.search(r"finds it out in at most 13\.6 % of the cases; guessing blindly would find it out in 5 %", short)
    assert "It is taken on trust that nobody has more than 1 record" in short
    assert "Published exactly, without any noise: the hierarchy" in short
    assert "epsilon" not in short
    assert "ε" not in short


def test_a_seeded_release_is_called_not_private_at_the_top(undrawn, counts_release):
    changed = {**counts_release.statement, "private": False, "seeded": True}
    from dataclasses import replace

    text = Reader(report_page(replace(counts_release, statement=changed))).text
    assert text.index("NOT PRIVATE") < text.index("On this page")
    assert "right about this person" not in text


def test_the_guarantee_has_the_figures_of_the_statement(undrawn, tables_release):
    text = Reader(report_page(tables_release)).text
    assert "ε (epsilon) = 1" in text
    assert "2.72 times" in text
    assert "13.6 %" in text
    assert tables_release.statement["contributions"]["summary"] in text
    assert "Records by" not in text or "records, at most 2 a person" in text
    assert text.count("records, at most 2 a person") >= 4  # the summary, the numbers, a picture and the bound


def test_people_by_their_number_of_records_have_a_report_too(undrawn):
    import tallytree as tt

    people = np.repeat(np.arange(300), np.arange(300) % 4 + 1)
    records = pa.table({"place": ["A"] * len(people), "person": people})
    places = tt.Hierarchy.from_values("place", ["A", "B"])
    release = tt.release_contributions(records, places, tt.Budget(epsilon=1), person="person", neighboring="add_remove")
    text = Reader(report_page(release)).text
    assert "how many people have how many records" in text
    assert "Nothing was cut: this release bounds nothing." in text
    assert "People by their number of records" in text


@pytest.mark.slow
def test_the_page_is_the_same_each_time(flows_release):
    with charts.one_drawing_process():
        assert report_page(flows_release) == report_page(flows_release)


@pytest.mark.slow
def test_the_last_size_is_shown_with_a_plus(page_of):
    assert "100+" in Reader(page_of("group_sizes").read_text(encoding="utf-8")).text


def test_a_report_is_written_to_an_html_file_whose_folders_are_made(undrawn, flows_release, tmp_path):
    with pytest.raises(ValueError, match=r"out: 'report.txt' must end in \.html"):
        write_report(flows_release, tmp_path / "report.txt")
    assert list(tmp_path.iterdir()) == []
    made = write_report(flows_release, tmp_path / "new" / "folder" / "report.html")
    assert made.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(NotADirectoryError):
        write_report(flows_release, made / "report.html")


@pytest.mark.slow
@pytest.mark.needs("playwright", "axe_playwright_python")
def test_in_a_browser_no_page_asks_the_network_scrolls_sideways_or_keeps_anybody_out(page_of):
    with chromium() as browser:
        for number, page in enumerate(map(page_of, STATISTICS)):  # each page in one of the two
            for width, dark in ((1280, False), (390, True))[number % 2 :][:1]:
                visit = Visit(browser, page.as_uri(), width=width, dark=dark)
                visit.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
                assert visit.requests == []
                assert visit.complaints == []
                assert not visit.scrolls_sideways()
                assert visit.violations() == []
                shown = visit.page.locator("figure svg:visible")
                assert shown.count() == visit.page.locator("figure").count()
                assert all(shown.nth(place).bounding_box()["height"] > 30 for place in range(shown.count()))
                ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
                assert ground == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
                visit.page.close()


@pytest.mark.slow
@pytest.mark.needs("playwright", "axe_playwright_python")
def test_the_checks_of_the_browser_see_a_page_that_is_wrong(tmp_path):
    wrong = tmp_path / "wrong.html"
    wrong.write_text(
        '<html><body><p style="color:#ddd">pale</p><div style="width:3000px">wide</div><img src="missing.png"></body>'
    )
    with chromium() as browser:
        visit = Visit(browser, wrong.as_uri())
        assert visit.scrolls_sideways()
        assert visit.requests != []
        assert visit.complaints != []
        assert any(each.startswith("color-contrast") for each in visit.violations())


@pytest.mark.parametrize(
    ("rate", "says"),
    [
        (0.136, "nobody can tell with much confidence whether"),
        (0.5, "The protection is limited: a reader can learn something about whether"),
        (1.0, "The protection is weak: a determined reader may well find out whether"),
    ],
)
def test_a_weak_protection_is_not_called_strong(sizes_release, rate, says):
    statement = dict(sizes_release.statement)
    statement["risk"] = {"rates": [{"false_positive_rate": 0.05, "true_positive_rate": rate}]}
    answers = dict(
        summary(ReleaseView(replace(sizes_release, statement=statement)), level_errors(ReleaseView(sizes_release)))
    )
    assert says in answers["What is protected?"]


def test_numbers_that_are_exact_are_not_said_to_be_changed(flows_release):
    answers = dict(summary(ReleaseView(flows_release), level_errors(ReleaseView(flows_release))))
    assert (
        "All numbers but the total number of records were changed at random" in answers["How far off are the numbers?"]
    )
    assert "not protected, only what their records say" in answers["What is not?"]
