"""The address of a view names places by labels: it is right for another release over these areas."""

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.browser import CHROMIUM, Visit, chromium
from helpers.explored import TOWNS, page_of
from tallytree.views.explore import writing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("playwright", "axe_playwright_python"),
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no Chromium at {CHROMIUM}"),
]


@pytest.mark.parametrize("rows_in_one_file", [100_000, 5])
def test_an_address_names_its_place_in_a_release_with_other_areas_in_another_order_too(
    tmp_path, monkeypatch, rows_in_one_file
):
    monkeypatch.setattr(writing, "ONE_FILE", rows_in_one_file)
    new = pa.table({"region": ["T", "S"], "town": ["a", "new"]})
    later = pa.concat_tables([new, TOWNS.take(pa.array([4, 3, 2, 1, 0]))])
    pages = []
    for name, areas in (("2025", TOWNS), ("2026", later)):
        tree = tt.Hierarchy.from_table(areas, ["region", "town"])
        made = tt.release_counts(TOWNS, tree, tt.Budget(epsilon=1), neighboring="add_remove")
        pages.append(page_of(made.save(tmp_path / name), tmp_path / f"page-{name}").as_uri())
    with chromium() as browser:
        first = Visit(browser, pages[0])
        for label in ("S", "a"):
            first.page.click(f"#rows bdi:text-is('{label}')")
            first.page.wait_for_selector(f"h1:has-text('{label}')")
        assert first.page.inner_text("h1") == "S / a"
        hash_ = first.page.evaluate("location.hash")
        assert hash_ == "#at.area=S&at.area=a"
        second = Visit(browser, pages[1] + hash_)
        second.page.wait_for_selector("main h1")
        assert second.page.inner_text("h1") == "S / a"
        assert first.complaints == second.complaints == []
