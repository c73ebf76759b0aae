"""The explorer in a real browser: what is seen, clicked, found and saved, and what a label may not do."""

import csv
import json
import os
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.explored import counts, explorer, flows, group_sizes

CHROMIUM = Path(os.environ.get("TALLYTREE_CHROMIUM", "/usr/bin/chromium"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("nicegui", "vl_convert", "playwright", "axe_playwright_python", "geopandas"),
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no Chromium at {CHROMIUM}"),
]
AWKWARD = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", 'it\'s "quoted" \\', "=1+1", "בְּרֵאשִׁית",
           "{{ 7 * 7 }}", "x" * 120]  # fmt: skip
SEEN = "Array.from(document.querySelectorAll('#rows tbody th')).map(each => each.textContent)"


def awkward():
    """Counts of areas whose labels try to be something else."""
    areas = pa.table({"region": ["N"] * len(AWKWARD), "area": AWKWARD})
    return tt.release_counts(
        pa.concat_tables([areas] * 9), tt.Hierarchy.from_table(areas, ["region", "area"]), tt.Budget(epsilon=20),
        neighboring="add_remove",
    )  # fmt: skip


def squares(labels, path):
    """A GeoJSON file with a square for each label."""
    corners = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
    shapes = [
        {
            "type": "Feature",
            "properties": {"region": label},
            "geometry": {"type": "Polygon", "coordinates": [[[x + 2 * i, y] for x, y in corners]]},
        }
        for i, label in enumerate(labels)
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": shapes}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """Of explorers of four releases."""
    place = tmp_path_factory.mktemp("seen")
    shapes = squares(["N", "S"], place / "regions.geojson")
    options = {"counts": ["--boundaries", f"region={shapes}"]}
    made = {"counts": counts, "flows": flows, "group_sizes": group_sizes, "awkward": awkward}
    with contextmanager(_explorers)(place, made, options) as found:
        yield found


def _explorers(place, made, options, found=None):
    """Explorers of all releases at once, as one context."""
    found = found or {}
    name = next((each for each in made if each not in found), None)
    if name is None:
        yield found
        return
    folder = made[name]().save(place / name)
    with explorer(folder, *options.get(name, [])) as address:
        yield from _explorers(place, made, options, {**found, name: address})


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser):
    """A page that notes what it should not do: errors, alerts, and requests to another server."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    wrong = []
    opened.noted = lambda said: wrong.append(said.text) if said.type == "error" else None
    opened.on("console", opened.noted)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    opened.on("request", lambda sent: wrong.append(sent.url) if _leaves(sent.url) else None)
    opened.on("websocket", lambda socket: wrong.append(socket.url) if _leaves(socket.url) else None)
    yield opened
    opened.wait_for_timeout(200)
    opened.close()
    assert wrong == []


def _leaves(url):
    place = urlsplit(url)
    return place.scheme not in ("data", "blob") and place.hostname != "127.0.0.1"


def show(page, address):
    page.goto(address, wait_until="networkidle")
    page.wait_for_selector("#rows")


def test_a_label_leads_down_the_tree_and_the_path_back(page, addresses):
    show(page, addresses["counts"])
    assert set(page.evaluate(SEEN)) == {"N", "S"}
    page.click("#rows tbody a:has-text('S')")
    page.wait_for_selector("h1:has-text('S')")
    assert set(page.evaluate(SEEN)) == {"a", "dé"}
    assert "records" in page.inner_text("#headline")
    page.go_back()
    page.wait_for_selector("#rows tbody a:has-text('N')")
    assert set(page.evaluate(SEEN)) == {"N", "S"}


def test_the_token_is_in_no_address_of_a_view_and_without_it_there_is_none(page, browser, addresses):
    show(page, addresses["counts"])
    token = urlsplit(addresses["counts"]).query
    assert page.url == addresses["counts"].replace(f"?{token}", "")
    assert token.removeprefix("token=") not in page.content() + page.evaluate("document.cookie")
    stranger = browser.new_page()
    assert stranger.goto(page.url).status == 403
    assert "Open that address" in stranger.inner_text("body")
    stranger.close()


def test_a_script_that_gets_into_the_page_does_not_run(page, addresses):
    show(page, addresses["counts"])
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.remove_listener("console", page.noted)
    for text in (
        "<img src=/none onerror='window.ran = 1'>",
        "<iframe srcdoc='<script>parent.ran = 1</script>'></iframe>",
    ):
        page.evaluate("text => document.body.insertAdjacentHTML('beforeend', text)", text)
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'ran = 1'}))")
    page.wait_for_timeout(500)
    assert page.evaluate("window.ran") is None
    assert sum("Content Security Policy" in each for each in said) >= 3


def test_an_area_of_the_map_leads_to_its_view(page, addresses):
    show(page, addresses["counts"])
    page.locator("section:has(h2:text-is('Map')) svg a").nth(1).click()
    page.wait_for_selector("h1:has-text('S')")
    assert set(page.evaluate(SEEN)) == {"a", "dé"}


def test_the_keyboard_alone_reaches_search_and_a_row(page, addresses):
    show(page, addresses["counts"])
    page.focus("#search")
    page.keyboard.type("DÉ")
    page.keyboard.press("Enter")
    page.wait_for_selector("#found a")
    assert page.inner_text("#found").startswith("dé")
    page.focus("#found a")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('dé')")


def test_ticked_rows_are_added_up_with_an_interval(page, addresses):
    show(page, addresses["counts"])
    for box in page.locator("#rows input[type=checkbox]").all():
        box.check()
    page.click("button:has-text('Total of ticked rows')")
    page.wait_for_selector("#total:has-text('Total of 2 rows')")
    assert "the true number is probably between" in page.inner_text("#total")


@pytest.mark.parametrize("kind", ["counts", "flows", "group_sizes"])
def test_what_is_saved_holds_the_rows_of_the_table(page, addresses, kind):
    show(page, addresses[kind])
    with page.expect_download() as saving:
        page.click("text=Save these rows as CSV")
    rows = list(csv.DictReader(Path(saving.value.path()).read_text(encoding="utf-8").splitlines()))
    name = "groups" if kind == "group_sizes" else "count"
    column = page.evaluate(
        f"Array.from(document.querySelectorAll('#rows thead th')).findIndex(each => each.textContent == '{name}')"
    )
    shown = page.evaluate(
        f"Array.from(document.querySelectorAll('#rows tbody tr')).map(row => row.cells[{column} + 1])"
        ".map(cell => cell.textContent.replaceAll(',', ''))"
    )
    assert [str(int(float(row[name]))) for row in rows] == shown
    with page.expect_download() as saving:
        page.click("text=Save the picture as SVG")
    assert Path(saving.value.path()).read_text(encoding="utf-8").startswith("<svg")


def test_group_sizes_change_with_what_is_asked_of_them(page, addresses):
    show(page, addresses["group_sizes"])
    figure = "figure[aria-label='Sizes of the groups'] svg"
    page.click("#rows tbody a >> nth=0")
    page.wait_for_selector("#siblings")
    even = page.inner_html(figure)
    page.click("text=groups of a size or more")
    page.wait_for_selector("text=groups of each size")
    assert page.inner_html(figure) != even


def test_flows_have_partners_in_both_directions(page, addresses):
    show(page, addresses["flows"])
    page.fill("#search", "dé")
    page.press("#search", "Enter")
    page.click("#found a >> nth=0")
    page.wait_for_selector("h2:has-text('From dé to')")
    assert page.locator("h2:has-text('To dé from')").count() == 1


def test_labels_are_text_and_nothing_else(page, addresses):
    show(page, addresses["awkward"])
    page.click("#rows tbody a:has-text('N')") if "N" in page.evaluate(SEEN) else None
    page.wait_for_function("document.querySelectorAll('#rows tbody tr').length == 7")
    assert sorted(page.evaluate(SEEN)) == sorted(AWKWARD)
    page.goto(addresses["awkward"] + "&search=%3Cimg%20src%3Dx%20onerror%3Dalert(3)%3E", wait_until="networkidle")
    page.wait_for_selector("#found")
    page.goto(addresses["awkward"] + "&search=script", wait_until="networkidle")
    page.click("#found a")
    page.wait_for_selector("h1:has-text('alert(2)')")
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("kind", ["counts", "flows", "group_sizes"])
def test_no_serious_violation_and_no_scrolling_sideways_in_light_and_dark(page, addresses, kind):
    from axe_playwright_python.sync_playwright import Axe

    page.set_viewport_size({"width": 390, "height": 844})
    backgrounds = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        show(page, addresses[kind])
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        found = Axe().run(page).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert [(each["id"], each["nodes"][0]["target"]) for each in serious] == []
    assert len(backgrounds) == 2


def test_a_release_that_is_replaced_is_said_and_can_be_opened(page, tmp_path):
    folder = counts().save(tmp_path / "shown")
    flows().save(tmp_path / "next")
    with explorer(folder) as address:
        show(page, address)
        folder.rename(tmp_path / "old")
        (tmp_path / "next").rename(folder)
        page.wait_for_selector("#replaced", timeout=15_000)
        page.click("#replaced button")
        page.wait_for_selector("h1:has-text('everywhere')")
        assert page.locator("#replaced").count() == 0
        page.goto("about:blank")
