"""Numbers of the page in a real browser: whole on a phone, and as far off as the report says."""

import pytest

import tallytree as tt
from helpers.browser import CHROMIUM, Visit, chromium
from helpers.explored import KINDS, page_of
from helpers.inside import front_page, level_errors
from helpers.partly_listed import AREAS, SIDES, partly_listed, trips
from tallytree.release.view.release_view import ReleaseView

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("playwright"),
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no Chromium at {CHROMIUM}"),
]
CUT = """Array.from(document.querySelectorAll('.number')).filter(each => {
    const place = each.getBoundingClientRect();
    let around = each.parentElement;
    while (around.parentElement && getComputedStyle(around).overflowX === 'visible') around = around.parentElement;
    const edge = around.parentElement ? around.getBoundingClientRect().right : innerWidth;
    return place.width > 0 && (place.right > Math.min(edge, innerWidth) + 1 || place.left < 0);
}).map(each => each.textContent)"""


def flows_of_millions():
    """Flows between towns with numbers of eight digits, and errors of thousands."""
    many = trips(areas=AREAS, pairs=100).assign(count=lambda rows: rows["count"] * 1_000_000)
    return tt.release_flows(
        many, **SIDES, budget=tt.Budget(epsilon=0.003), neighboring="add_remove", count="count", seed=1
    )


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.mark.parametrize("place", ["0.0,0.0", "2.5,0.0", "2.5,1.1"])
def test_no_number_is_cut_on_a_phone(browser, tmp_path, place):
    page = page_of(flows_of_millions().save(tmp_path / "flows"), tmp_path / "page")
    visit = Visit(browser, f"{page.as_uri()}#at={place}", width=390)
    visit.page.wait_for_selector("main h1")
    assert visit.page.locator(".number").count() > 3
    assert visit.page.evaluate(CUT) == []
    assert not visit.scrolls_sideways()


@pytest.mark.parametrize("name", [*(each for each in KINDS if each != "contributions"), "partly", "millions"])
def test_the_total_is_as_far_off_as_the_report_says(browser, tmp_path, name):
    made = {**KINDS, "partly": partly_listed, "millions": flows_of_millions}[name]()
    shown = front_page(ReleaseView(made), level_errors(ReleaseView(made)), name)
    visit = Visit(browser, page_of(made.save(tmp_path / "made"), tmp_path / "page").as_uri())
    visit.page.wait_for_selector("#number")
    said = visit.page.evaluate(
        "Array.from(document.querySelector('#number').childNodes).filter(each => each.className !== 'unseen')"
        ".map(each => each.textContent).join('')"
    )
    assert said == f"{shown.number} {'exact' if shown.error == 'exactly' else shown.error}"
