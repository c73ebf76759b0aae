"""The page in a real browser: what is seen, clicked, found and saved, and what a label may not do."""

import csv
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.browser import CHROMIUM, Visit, chromium
from helpers.explored import KINDS, explorer, page_of, towns
from helpers.partly_listed import partly_listed
from tallytree.views.explore import writing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("playwright", "axe_playwright_python", "geopandas"),
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no Chromium at {CHROMIUM}"),
]
AWKWARD = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", 'it\'s "quoted" \\', "=1+1", "בְּרֵאשִׁית",
           "{{ 7 * 7 }}", "x" * 120]  # fmt: skip
SEEN = "Array.from(document.querySelectorAll('#rows tbody tr:not(.group) th')).map(each => each.textContent)"


def awkward():
    """Counts of areas whose labels try to be something else."""
    areas = pa.table({"region": ["N"] * len(AWKWARD), "area": AWKWARD})
    return tt.release_counts(
        pa.concat_tables([areas] * 9), tt.Hierarchy.from_table(areas, ["region", "area"]), tt.Budget(epsilon=20),
        neighboring="add_remove",
    )  # fmt: skip


def squares(level, labels, path):
    """A GeoJSON file with a square for each label."""
    corners = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
    shapes = [
        {
            "type": "Feature",
            "properties": {level: label},
            "geometry": {"type": "Polygon", "coordinates": [[[x + 2 * i, y] for x, y in corners]]},
        }
        for i, label in enumerate(labels)
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": shapes}), encoding="utf-8")
    return f"{level}={path}"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("seen")
    made = {**KINDS, "awkward": awkward, "partly": partly_listed}
    return {name: make().save(place / name) for name, make in made.items()}


@pytest.fixture(scope="module")
def addresses(folders, tmp_path_factory):
    """Of pages on the disk; those of counts, flows and tables have maps. "… in parts" are in several files."""
    place = tmp_path_factory.mktemp("pages")
    (folders["counts"] / "report.html").write_text("<!doctype html><title>the report</title>")
    shapes = {
        "counts": [squares("region", ["N", "S"], place / "regions.geojson")],
        "flows": [squares("region", ["N", "S"], place / "regions.geojson")],
        "tables": [squares("region", ["N"], place / "north.geojson")],
    }
    found = {name: page_of(folder, place / name, *shapes.get(name, ())).as_uri() for name, folder in folders.items()}
    with pytest.MonkeyPatch.context() as smaller:
        smaller.setattr(writing, "ONE_FILE", 5)
        for name in (*KINDS, "partly"):
            found[f"{name} in parts"] = page_of(folders[name], place / f"{name}-parts").as_uri()
    return found


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def visit(browser):
    """Opens pages; at the end none has complained, nor asked for anything but files beside it."""
    opened = []

    def visiting(address, **options):
        made = Visit(browser, address, **options)
        opened.append((made, address))
        made.page.wait_for_selector("main h1")
        return made

    yield visiting
    for made, address in opened:
        beside = address.partition("#")[0].rpartition("/")[0]
        assert made.complaints == []
        assert [each for each in made.requests if not each.startswith((beside, "data:", "blob:"))] == []
        made.page.close()


def number(page):
    return page.locator("#number").inner_text().split()[0].replace(",", "")


def published(folder, level, **labels):
    """The number that a table of the release has for a row."""
    rows = tt.Release.load(folder).table(level).to_pylist()
    (found,) = [row for row in rows if all(row[name] == label for name, label in labels.items())]
    return str(found["count"])


def goes_to(page, title):
    page.wait_for_function("title => document.querySelector('h1').textContent === title", arg=title)
    assert page.title().startswith(f"{title} · ")


def test_a_label_leads_down_the_tree_and_back(visit, addresses, folders):
    page = visit(addresses["counts"]).page
    assert page.title() == "All records · counts"
    assert page.evaluate(SEEN) == ["S", "N"]
    page.click("#rows bdi:text-is('S')")
    goes_to(page, "S")
    assert number(page) == published(folders["counts"], "region", region="S")
    page.click("#rows bdi:text-is('dé')")
    goes_to(page, "S / dé")
    assert number(page) == published(folders["counts"], "town", region="S", town="dé")
    assert page.locator(".beside li[aria-current]").inner_text().startswith("dé")
    assert page.evaluate("document.activeElement.tagName") == "H1"
    page.click(".crumbs bdi:text-is('all')")
    goes_to(page, "All records")
    page.go_back()
    page.go_back()
    goes_to(page, "S")


def test_a_number_has_its_verdict_and_its_interval_on_focus(visit, addresses, folders):
    page = visit(addresses["partly"] + "#at.origin=s0").page
    row = tt.Release.load(folders["partly"]).total(pa.table({"from_state": ["s0"]}), alpha=0.1).to_pylist()[0]
    assert number(page) == str(row["count"])
    assert f"probably between {row['ci_lower']} and {row['ci_upper']} (90 % sure)" in page.inner_text(
        "#headline .verdict"
    )
    shown = page.locator("#rows .number").first
    assert shown.evaluate("each => getComputedStyle(each, '::after').content") == "none"
    shown.focus()
    assert "the true number is probably between" in shown.evaluate("each => getComputedStyle(each, '::after').content")
    assert page.locator("#rows .number .dot").count() > 0
    assert "± " in page.inner_text("#rows")


def test_a_number_has_its_share_of_what_it_is_a_part_of(visit, addresses, folders):
    page = visit(addresses["counts"] + "#at.area=N&at.area=b").page
    row = tt.Release.load(folders["counts"]).share("town", within="region").to_pylist()[1]
    percents = [f"{100 * row[name]:.1f} %" for name in ("share", "ci_lower", "ci_upper")]
    assert page.inner_text("#share") == "{} of N (probably {} to {}).".format(*percents)


def test_exact_numbers_are_marked(visit, folders, tmp_path):
    records = pa.table({"region": ["N"] * 30 + ["S"] * 10, "town": ["a"] * 40})
    release = tt.release_counts(records, towns(), tt.Budget(epsilon=1), neighboring="change_one")
    page = visit(page_of(release.save(tmp_path / "out"), tmp_path / "page").as_uri()).page
    assert page.locator("#headline .dot.exact").count() == 1
    assert page.inner_text("#number").split()[:2] == ["40", "exact"]
    assert page.inner_text("#headline .verdict") == "Exact: published without noise."


def test_rows_are_sorted_as_chosen_and_by_the_level_that_is_chosen(visit, addresses):
    page = visit(addresses["counts"]).page
    page.select_option("[name=by-0]", "2")
    page.wait_for_function("document.querySelectorAll('#rows tbody tr').length === 5")
    assert page.evaluate(SEEN)[0] == "S / dé"
    page.select_option("[name=order]", "label")
    page.wait_for_function("document.querySelector('#rows tbody th').textContent === 'N / a'")
    assert page.evaluate(SEEN) == ["N / a", "N / b", "N / c", "S / a", "S / dé"]


def test_the_keyboard_alone_reaches_search_and_a_place(visit, addresses):
    page = visit(addresses["counts"]).page
    page.focus("#search")
    page.keyboard.type("DÉ")
    page.wait_for_selector("#found a")
    assert page.inner_text("#found") == "dé town in S"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    goes_to(page, "S / dé")
    assert page.locator("#found").is_hidden()
    page.focus("#search")
    page.keyboard.type("nowhere")
    page.wait_for_selector("#found:has-text('No place has this text in its name or label.')")
    page.keyboard.press("Escape")
    assert page.locator("#found").is_hidden()


def test_a_cell_of_a_pivot_leads_to_that_cell_and_not_to_the_total(visit, addresses, folders):
    page = visit(addresses["tables"]).page
    assert page.locator("#rows thead th").all_inner_texts() == ["town", "f", "m"]
    assert number(page) == published(folders["tables"], "all")
    cell = page.locator("#rows tbody tr").filter(has_text="S / dé").locator("a.number").nth(1)
    expected = published(folders["tables"], "town.sex", region="S", town="dé", sex="m")
    assert cell.inner_text().split()[0] == expected
    cell.click()
    goes_to(page, "S / dé, m")
    assert number(page) == expected
    assert page.locator("#rows").count() == 0
    others = page.locator(".beside").filter(has_text="By sex: S / dé").locator("li").all_inner_texts()
    women = published(folders["tables"], "town.sex", region="S", town="dé", sex="f")
    assert [each.split()[:2] for each in others] == [["f", women], ["m", expected]]


def test_tables_are_filtered_and_sums_of_what_was_not_published_say_so(visit, addresses, folders):
    page = visit(addresses["tables"]).page
    page.select_option("[name=only-1]", "0")
    goes_to(page, "f")
    assert "sum of listed numbers" in page.inner_text("#headline")
    rows = tt.Release.load(folders["tables"]).table("town.sex").to_pylist()
    assert number(page) == str(sum(row["count"] for row in rows if row["sex"] == "f"))
    assert "±" not in page.inner_text("#headline")
    page.select_option("[name=only-1]", "-1")
    goes_to(page, "All records")
    page.select_option("[name=cols]", "-1")
    page.wait_for_selector("#rows tbody th:has-text('S / dé, f')")
    page.select_option("[name=by-0]", "0")
    page.wait_for_selector("#rows caption:has-text('sums of listed numbers')")
    assert page.evaluate(SEEN) == ["f", "m"]


def test_that_cells_have_no_row_is_said_only_where_one_has_none(visit, addresses, folders):
    regions = tt.Release.load(folders["tables"]).table("region").num_rows
    page = visit(addresses["tables"] + "#by.area=region&by.sex=").page
    assert page.inner_text("#rows caption") == f"{regions} of 2 rows."
    flows = tt.Release.load(folders["flows"])
    pairs = flows.table(flows.levels[-1]).num_rows
    assert pairs < 25
    page = visit(addresses["flows"] + "#by.origin=origin_town&by.destination=destination_town").page
    assert page.inner_text("#rows caption").startswith(f"{pairs} of {pairs} rows. Cells without a row are published")


def test_a_table_of_sizes_is_not_cut_in_a_narrow_window(visit, addresses):
    page = visit(addresses["group_sizes"]).page
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.locator("#rows .bars").first.is_hidden()
    assert page.locator(".scroll:has(#rows)").evaluate("each => each.scrollWidth - each.clientWidth") <= 0


def test_flows_are_by_origin_and_destination_grouped_by_parent_with_in_and_out(visit, addresses, folders):
    page = visit(addresses["flows"]).page
    assert page.locator("form.choose label").all_inner_texts()[0].startswith("Origins by")
    assert page.locator("#rows thead th").first.inner_text() == "region → region"
    page.select_option("[name=by-1]", "2")
    page.wait_for_selector("#rows tr.group")
    page.select_option("[name=by-0]", "2")
    page.wait_for_function("document.querySelector('#rows thead th').textContent === 'town → town'")
    first = page.locator("#rows tr.group").first
    assert first.inner_text().split()[:3] == ["S", "→", "S"]
    assert first.locator(".number").inner_text().split()[0] == published(
        folders["flows"], "origin_region", origin_region="S", destination_region="S"
    )
    first.locator("a").click()
    goes_to(page, "S → S")
    page.goto(addresses["flows"] + "#at.origin=S")
    goes_to(page, "S → everywhere")
    release = tt.Release.load(folders["flows"])
    assert number(page) == str(release.total(pa.table({"origin_region": ["S"]})).to_pylist()[0]["count"])
    into = published(folders["flows"], "destination_region", destination_region="S")
    assert page.locator("#ends li").first.inner_text().split()[:4] == ["All", "to", "S", into]
    page.click("#ends bdi:text-is('All to S')")
    goes_to(page, "everywhere → S")
    assert number(page) == into


def test_sizes_are_on_an_axis_of_numbers_and_change_with_what_is_asked(visit, addresses, folders):
    page = visit(addresses["group_sizes"]).page
    assert page.locator("#sizes svg path.band").count() == 1
    steps = page.inner_html("#sizes svg")
    page.click("#sizes a:text-is('groups of each size')")
    page.wait_for_selector("#sizes svg rect.mark")
    places = page.evaluate(
        "Array.from(document.querySelectorAll('#sizes rect.mark')).map(each => "
        "[each.querySelector('title').textContent, each.x.baseVal.value + each.width.baseVal.value / 2])"
    )
    rows = tt.Release.load(folders["group_sizes"]).table("all").to_pylist()
    assert [text for text, _ in places] == [f"{row['size']}: {row['groups']}" for row in rows]
    sizes, at = [row["size"] for row in rows], [x for _, x in places]
    assert len(sizes) > 1
    ratio = (at[-1] - at[0]) / (sizes[-1] - sizes[0])
    assert all(abs(x - at[0] - ratio * (size - sizes[0])) < 0.5 for size, x in zip(sizes, at, strict=True))
    assert page.inner_html("#sizes svg") != steps
    page.click("#sizes a:text-is('logarithmic axis')")
    page.wait_for_selector("#sizes a:text-is('even axis')")
    page.click("#sizes summary")
    assert [each.split()[0] for each in page.locator("#size-rows tbody tr").all_inner_texts()] == [
        str(each) for each in sizes
    ]
    total = sum(row["groups"] for row in rows)
    members = sum(row["groups"] * row["size"] for row in rows)
    assert number(page) == str(total)
    assert f"groups, {members} members in all" in page.inner_text("#headline")


def test_people_by_their_number_of_records_are_listed(visit, addresses, folders):
    page = visit(addresses["contributions"]).page
    rows = tt.Release.load(folders["contributions"]).table("contributions").to_pylist()
    shown = page.locator("#rows tbody .numbers").all_inner_texts()
    assert sorted(int(each.split()[0]) for each in shown) == sorted(row["people"] for row in rows)
    assert page.locator("#search").count() == 0


def test_what_is_not_listed_is_said_to_be_so_and_leads_nowhere(visit, addresses, folders):
    page = visit(addresses["partly"] + "#by.origin=from_town&by.destination=to_town&count=500").page
    rows = page.locator("#rows tbody tr").filter(has_text="not listed")
    assert rows.count() > 0
    assert rows.locator("th a").count() == 0
    assert "are 0" not in page.inner_text("#rows caption").replace("not known to be 0", "")
    release = tt.Release.load(folders["partly"])
    listed = {tuple(row.values())[:4] for row in release.table("from_town").to_pylist()}
    names = [(f"s{i // 4}", f"t{i}") for i in range(12)]
    a, b = next((a, b) for a in range(12) for b in range(12) if (*names[a], *names[b]) not in listed)
    place = "&".join(f"at.{end}={label}" for end, node in (("origin", a), ("destination", b)) for label in names[node])
    page.goto(f"{addresses['partly']}#{place}")
    page.wait_for_selector("#headline:has-text('is not known to be 0')")
    assert page.locator("#headline .big").inner_text() == "Not listed"


def test_sums_leave_out_what_is_not_listed_by_their_columns_and_say_how_much(visit, addresses, folders):
    page = visit(addresses["partly"] + "#by.origin=from_town&by.destination=to_state&cols=origin&count=500").page
    page.wait_for_selector("#rows caption:has-text('sums of listed numbers')")
    with page.expect_download() as saving:
        page.click("button:has-text('as CSV')")
    seen = list(csv.DictReader(Path(saving.value.path()).read_text(encoding="utf-8").splitlines()))
    sums, more = {}, 0
    for row in tt.Release.load(folders["partly"]).table("from_town").to_pylist():
        key = (row["from_state"], row["from_town"], row["to_state"])
        if None in key:
            more += row["count"]
        else:
            sums[key] = sums.get(key, 0) + row["count"]
    found = {(row["from_state"], row["from_town"], row["to_state"]): int(row["number"]) for row in seen}
    assert found == sums
    assert more > 0
    assert f"Up to {more:,} more trips may lie here" in page.inner_text("#rows caption")


@pytest.mark.parametrize("kind", ["counts", "flows", "tables"])
def test_an_area_of_a_map_leads_to_its_view(visit, addresses, kind):
    start = {
        "counts": "",
        "flows": "#by.origin=origin_region&by.destination=destination_region",
        "tables": "#by.area=region&by.sex=",
    }[kind]
    page = visit(addresses[kind] + start).page
    shapes = page.locator(".mapped svg.map a")
    assert shapes.count() == {"counts": 2, "flows": 4, "tables": 1}[kind]  # flows have maps of origins and destinations
    if kind == "tables":
        assert re.search(r"Without a shape: S \d+", page.inner_text(".mapped"))
    shapes.first.focus()
    page.keyboard.press("Enter")
    goes_to(page, {"flows": "N → everywhere"}.get(kind, "N"))


@pytest.mark.parametrize("kind", ["counts", "flows", "group_sizes", "tables"])
def test_what_is_saved_holds_the_rows_of_the_table(visit, addresses, kind):
    page = visit(addresses[kind]).page
    with page.expect_download() as saving:
        page.click("button:has-text('as CSV')")
    rows = list(csv.DictReader(Path(saving.value.path()).read_text(encoding="utf-8").splitlines()))
    shown = [text.split()[0].replace(",", "") for text in page.locator("#rows tbody .number").all_inner_texts()]
    assert sorted(row["number"] for row in rows) == sorted(shown)
    assert all(row["lower"] and row["upper"] for row in rows)


def test_the_statement_and_the_report_are_linked(visit, addresses, folders):
    page = visit(addresses["counts"]).page
    page.click("text=Privacy statement")
    goes_to(page, "Privacy statement")
    release = tt.Release.load(folders["counts"])
    assert release.statement["guarantee"] in page.inner_text("main")
    with page.expect_download() as saving:
        page.click("text=Save as JSON")
    assert json.loads(Path(saving.value.path()).read_text(encoding="utf-8")) == release.statement
    page.click("header a:text-is('Report')")
    page.wait_for_function("document.title === 'the report'")


def test_labels_are_text_and_nothing_else(visit, addresses):
    page = visit(addresses["awkward"] + "#at.area=N").page
    assert sorted(page.evaluate(SEEN)) == sorted(AWKWARD)
    page.fill("#search", "script")
    page.click("#found a")
    goes_to(page, f"N / {AWKWARD[1]}")
    assert page.locator("img").count() == 0


def test_a_script_that_gets_into_the_page_does_not_run(browser, addresses):
    seen = Visit(browser, addresses["counts"])
    seen.page.wait_for_selector("#rows")
    seen.page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'ran = 1'}))"
    )
    seen.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=/none onerror=\"window.ran = 1\">')")
    seen.page.wait_for_timeout(300)
    assert seen.page.evaluate("window.ran") is None
    assert sum("Content Security Policy" in each for each in seen.complaints) >= 2
    seen.page.close()


@pytest.mark.parametrize(
    "hash_",
    [
        "",
        "#at.area=none",
        "#at.area=a",
        "#at=x,y&by.area=1&cols=7&order=up&count=-1",
        "#by.area=&by.sex=",
        "#page=none",
    ],
)
def test_an_address_that_makes_no_sense_shows_the_start(visit, addresses, hash_):
    goes_to(visit(addresses["tables"] + hash_).page, "All records")


def test_parts_are_loaded_when_they_are_shown(visit, addresses, folders):
    seen = visit(addresses["tables in parts"])
    seen.page.wait_for_selector("#rows")
    loaded = {each.rpartition("/")[2] for each in seen.requests}
    assert "table-0.js" in loaded
    assert "table-1.js" not in loaded
    seen.page.select_option("[name=by-1]", "0")
    seen.page.select_option("[name=by-0]", "1")
    seen.page.wait_for_selector("#rows thead th:text-is('region')")
    assert "table-1.js" in {each.rpartition("/")[2] for each in seen.requests}
    assert published(folders["tables"], "region", region="S") in seen.page.inner_text("#rows")


@pytest.mark.parametrize("kind", [*KINDS, "partly"])
def test_a_page_in_parts_shows_what_the_one_file_shows(visit, addresses, kind):
    of_flows = (
        "",
        "at.origin={1}",
        "at.origin={1}&at.destination={0}",
        "at.origin={0}&at.origin={2}&at.destination={0}",
    )
    places = {
        "contributions": [""],
        "counts": ["", "at.area=S"],
        "group_sizes": ["", "at.area=S"],
        "tables": ["", "at.area=S", "at.area=S&at.sex=f", "at.area=N&at.area=b&at.sex=f"],
        "flows": [each.format("N", "S", "b") for each in of_flows],
        "partly": [each.format("s0", "s1", "t1") for each in of_flows],
    }
    for place in (f"#{each}" for each in places[kind]):
        one, parts = (visit(addresses[name] + place).page for name in (kind, f"{kind} in parts"))
        parts.wait_for_selector(".columns, .single")
        assert parts.inner_text("h1") == one.inner_text("h1")
        rows = [page.locator("#rows tr").all_inner_texts() for page in (one, parts)]
        assert rows[0] == rows[1]


def test_a_part_that_is_missing_is_named(browser, folders, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "ONE_FILE", 5)
    page = page_of(folders["counts"], tmp_path / "broken")
    (page.parent / "data" / "table-1.js").unlink()
    seen = Visit(browser, page.as_uri())
    seen.page.wait_for_selector("[role=alert]")
    assert "The file data/table-1.js could not be loaded. It belongs beside this page." in seen.page.inner_text("main")
    seen.page.close()


@pytest.mark.parametrize("kind", ["counts", "flows", "group_sizes", "tables", "contributions", "partly"])
def test_no_serious_violation_and_no_scrolling_sideways_in_light_and_dark(visit, addresses, kind):
    backgrounds = set()
    for width in (390, 1280):
        for dark in (False, True):
            for place in ("", "#page=statement"):
                seen = visit(addresses[kind] + place, width=width, dark=dark)
                assert not seen.scrolls_sideways()
                assert seen.violations() == []
                backgrounds.add(seen.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(backgrounds) == 2


def test_the_served_page_is_the_same_and_a_stranger_gets_none(visit, browser, folders):
    with explorer(folders["counts"]) as address:
        seen = visit(address)
        seen.page.click("#rows bdi:text-is('S')")
        goes_to(seen.page, "S")
        stranger = browser.new_page()
        assert stranger.goto(address.rsplit("/", 2)[0] + "/").status == 403
        stranger.close()


def test_a_place_below_a_root_with_a_column_is_the_same_as_all(visit, tmp_path):
    areas = pa.table({"country": ["M", "M"], "state": ["A", "B"]})
    release = tt.release_counts(
        pa.concat_tables([areas] * 20), tt.Hierarchy.from_table(areas, ["country", "state"]), tt.Budget(epsilon=20),
        neighboring="add_remove",
    )  # fmt: skip
    page = visit(page_of(release.save(tmp_path / "out"), tmp_path / "page").as_uri()).page
    goes_to(page, "M")
    assert number(page) == str(release.table("country").column("count")[0].as_py())
    assert sorted(page.evaluate(SEEN)) == ["A", "B"]
