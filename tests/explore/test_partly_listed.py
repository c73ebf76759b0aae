"""The explorer of a release with rows that say how much is not listed."""

import csv
import io
import os
from pathlib import Path

import pytest

import tallytree as tt
from helpers.explored import explorer
from helpers.partly_listed import AREAS, partly_listed
from tallytree._explore.address import first_address
from tallytree._explore.downloads import csv_of_page
from tallytree._explore.pictures import page_picture
from tallytree._explore.shown import open_release
from tallytree._explore.view import chosen_rows, read_view
from tallytree._explore.walk import Walk
from tallytree.release.view.sides import ALL, TreePlace

CHROMIUM = Path(os.environ.get("TALLYTREE_CHROMIUM", "/usr/bin/chromium"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return partly_listed(rho=0.02).save(tmp_path_factory.mktemp("partly") / "out")


@pytest.fixture(scope="module")
def shown(folder):
    return open_release(folder, [], None)


def every_place(walk):
    sides = [
        [ALL, *(TreePlace(named, node) for named in (1, 2) for node in range(side.size(named)))] for side in walk.sides
    ]
    return [(origin, destination) for origin in sides[0] for destination in sides[1]]


def leaves(walk, places):
    """The pairs of towns that lie in places."""
    origin, destination = (side.below(place, 2) for side, place in zip(walk.sides, places, strict=True))
    return {(a, b) for a in range(origin.start, origin.stop) for b in range(destination.start, destination.stop)}


@pytest.mark.parametrize("keep", [True, False])
def test_a_page_has_the_rows_whose_cells_lie_in_the_places_and_says_how_much_more_may(folder, keep, monkeypatch):
    monkeypatch.setattr("tallytree._explore.found_rows.MAX_KEPT", 10**7 if keep else 0)
    walk = Walk(tt.Release.load(folder))
    about = {}
    for table in walk.view.tables:
        rows = walk.release.table(table.level).drop_columns("quality")
        about[table.level] = list(zip(rows.to_pylist(), walk.view.places(table, rows), strict=True))
        for row, places in about[table.level]:
            labels = [label for side, place in zip(walk.sides, places, strict=True) for label in side.path(place)]
            assert labels == [label for label in row.values() if isinstance(label, str)]
    for table in walk.view.tables:
        for places in every_place(walk)[::3]:
            here = leaves(walk, walk.shown_in(table, places))
            inside = [row for row, own in about[table.level] if leaves(walk, own) <= here]
            part = [row["count"] for row, own in about[table.level] if leaves(walk, own) & here > set()
                    and not leaves(walk, own) <= here]  # fmt: skip
            page = walk.page(table, places, order="hierarchy", length=10**6)
            assert page.rows.drop_columns(["ci_lower", "ci_upper", "quality"]).to_pylist() == inside
            assert page.in_part == sum(part)


def test_a_row_that_is_not_listed_is_shown_as_such_and_leads_nowhere(shown):
    walk = shown.walk
    for table in walk.view.tables[3:]:
        view = read_view(shown, first_address(walk).to(table=table))
        unlisted = [row for row in view.rows if not row.listed]
        assert unlisted
        assert all("not listed" in row.label.text and row.label.query is None for row in unlisted)
        assert not any("not listed" in row.label.text for row in view.rows if row.listed)
        assert not any("None" in row.label.text for row in view.rows)
        assert "are 0" not in view.caption.replace("not known to be 0", "")
        last = walk.page(table, (ALL, ALL), order="hierarchy", first=len(walk.release.table(table.level)) - 9)
        bars = page_picture(walk, first_address(walk).to(table=table), last).to_json()
        assert "not listed" in bars
        assert "None" not in bars


def test_partners_siblings_and_cells_without_a_number_say_so_too(shown):
    walk = shown.walk
    address = first_address(walk).to(places=(ALL, TreePlace(2, 1)), table=walk.view.tables[-1])
    view = read_view(shown, address)
    texts = [link.text for _, links in view.partners for link in links]
    assert "not listed" in texts
    listed = {tuple(row.values())[:4] for row in walk.release.table("from_town").to_pylist()}
    hidden = next(
        (TreePlace(2, a), TreePlace(2, b))
        for a in range(12)
        for b in range(12)
        if (*walk.sides[0].path(TreePlace(2, a)), *walk.sides[1].path(TreePlace(2, b))) not in listed
    )
    view = read_view(shown, address.to(places=hidden, table=walk.view.tables[-1]))
    assert view.headline == "Not listed: its own number was not published, and is not known to be 0"
    assert "more trips may lie here" in view.caption
    assert any(link.text == "not listed" and link.query is None for link in view.siblings) or not view.siblings


def test_saved_rows_say_not_listed_and_a_search_finds_places_alone(shown):
    walk = shown.walk
    address = first_address(walk).to(table=walk.view.tables[-1])
    rows = list(csv.DictReader(io.StringIO(csv_of_page(shown, address))))
    assert any(row["from_town"] == "not listed" for row in rows)
    assert all(row[name] for row in rows for name in ("from_state", "to_state"))
    assert walk.search("not listed") == []


def test_totals_are_of_listed_rows_and_others_are_refused(shown):
    walk = shown.walk
    address = first_address(walk).to(table=walk.view.tables[-1])
    view = read_view(shown, address)
    listed = [row.number for row in view.rows if row.listed]
    made = walk.total(address.table, chosen_rows(shown, address, listed[:2]), 0.1).to_pylist()[0]
    page = walk.page(address.table, address.places).rows.to_pylist()
    assert made["count"] == page[listed[0]]["count"] + page[listed[1]]["count"]
    assert made["ci_lower"] <= made["count"] <= made["ci_upper"]
    other = next(row.number for row in view.rows if not row.listed)
    with pytest.raises(ValueError, match=r"selection: a row 'not listed' is about no place of its own; untick it"):
        walk.total(address.table, chosen_rows(shown, address, [listed[0], other]), 0.1)
    assert len(AREAS) == 12


@pytest.mark.slow
@pytest.mark.needs("nicegui", "vl_convert", "playwright")
@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no Chromium at {CHROMIUM}")
def test_a_browser_shows_rows_that_are_not_listed_without_a_box_or_a_link(folder):
    from playwright.sync_api import sync_playwright

    with explorer(folder) as address, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1100})
        page.goto(f"{address}&table=3")
        page.wait_for_selector("#rows")
        rows = page.locator("#rows tbody tr").filter(has_text="not listed")
        assert rows.count() > 0
        assert rows.locator("input").count() == rows.locator("a").count() == 0
        assert "are 0" not in page.locator("#rows caption").inner_text().replace("not known to be 0", "")
        if "TALLYTREE_PICTURES" in os.environ:
            page.screenshot(path=f"{os.environ['TALLYTREE_PICTURES']}/list.png", full_page=True)
        page.locator("#rows tbody input").first.check()
        page.get_by_role("button", name="Total of ticked rows").click()
        page.wait_for_function(
            "document.querySelector('#total')?.textContent.includes('the true number is probably between')"
        )
        page.goto(f"{address}&table=4&at=2.3,1.0")
        page.wait_for_selector("#rows")
        if "TALLYTREE_PICTURES" in os.environ:
            page.screenshot(path=f"{os.environ['TALLYTREE_PICTURES']}/place.png", full_page=True)
        browser.close()
