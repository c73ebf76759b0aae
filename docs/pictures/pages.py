"""Takes the pictures of reports and of the explorer in the gallery: `python docs/pictures/pages.py [NAME …]`.

In Debian's Chromium. Releases of made-up people, with fixed noise, so that the pictures are the same each time; but
that of the first tutorial, README and home page (`first`), whose noise is fresh. Names of pictures choose some of them.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from playwright.sync_api import Browser, sync_playwright
from tallytree.datasets.commutes import commutes
from tallytree.datasets.households import households

import tallytree as tt
from tallytree._explore.opening import write_static
from tallytree._report import write_report

DATA, HOMES = commutes(60_000), households(4_000)
LEVELS = ["region", "province", "municipality"]
TOWNS = tt.Hierarchy.from_table(DATA.municipalities, levels=LEVELS)
SIDES = {side: [f"{side}_{level}" for level in LEVELS] for side in ("origin", "destination")}
PEOPLE = DATA.commutes.select(SIDES["origin"]).rename_columns(LEVELS)
PUBLISHER = {"publisher": "Office of Meridia", "contact": "data@office.example", "status": "final", "period": "2025"}
NARROW = (390, 628)
Scheme = Literal["light", "dark"]
AGES = [f"{age}-{age + 9}" for age in range(0, 80, 10)] + ["80+"]


def releases() -> Iterator[tuple[str, tt.Release, str, list[str]]]:
    """The name of a picture, the release, the view of it, and the levels of its maps."""
    budget = tt.Budget(epsilon=0.2)
    words = {"title": "Commuters by home", "words": {"record": "commuter"}} | PUBLISHER
    counts = tt.release_counts(PEOPLE, TOWNS, budget, neighboring="add_remove", seed=1, **words)
    yield "counts", counts, "#at=0.0&by=3", ["municipality"]
    words = {"title": "Commutes by home", "words": {"record": "commute", "person": "commuter"}}
    first = tt.release_counts(PEOPLE, TOWNS, budget, neighboring="add_remove", **words)
    yield "first", first, "#at=0.0&by=3", ["municipality"]
    flows = tt.release_flows(
        DATA.commutes,
        origins=TOWNS,
        destinations=TOWNS,
        budget=tt.Budget(epsilon=1.0, delta=1e-8),
        neighboring="change_one",
        seed=2,
        title="Commutes between municipalities",
        words={"record": "commute", "person": "commuter"},
        **PUBLISHER,
        **SIDES,
    )
    yield "flows", flows, "#at=1.1,0.0&by=2,2", ["municipality"]
    rng = np.random.default_rng(3)
    people = PEOPLE.append_column("age", pa.array(rng.choice(AGES, PEOPLE.num_rows)))
    people = people.append_column("sex", pa.array(rng.choice(["female", "male"], PEOPLE.num_rows)))
    trees = tt.Product(
        {
            "area": TOWNS,
            "age": tt.Hierarchy.from_values("age", AGES),
            "sex": tt.Hierarchy.from_values("sex", ["female", "male"]),
        }
    )
    asked = [("municipality", "age", "sex"), ("province", "age"), ("age", "sex"), ("municipality",), ()]
    words = {"title": "Population by age and sex", "words": {"record": "resident"}} | PUBLISHER
    tables = tt.release_tables(people, trees, budget, neighboring="add_remove", tables=asked, seed=3, **words)
    yield "tables", tables, "#at=3.10,0.0,0.0&by=3,1,1", []
    counties = tt.Hierarchy.from_table(HOMES.households, levels=["country", "state", "county"])
    words = {"title": "Households by size", "words": {"group": "household", "person": "resident"}} | PUBLISHER
    terms = {"neighboring": "add_remove", "group": "household_id", "max_group_size": 20, "seed": 4}
    sizes = tt.release_group_sizes(HOMES.people, counties, budget, **terms, **words)
    yield "sizes", sizes, "#at=2.1", []


def _address(folder: Path) -> str:
    return (folder / "report.html").as_uri()


def _take(browser: Browser, address: str, name: str, size: tuple[int, int], scheme: Scheme = "light") -> None:
    scale = 2 if size == NARROW else 1
    viewport: Any = {"width": size[0], "height": size[1]}
    page = browser.new_page(viewport=viewport, color_scheme=scheme, device_scale_factor=scale)
    page.goto(address)
    page.wait_for_selector("main h1, h1")
    page.screenshot(path=Path(__file__).with_name(f"{name}.png"))
    page.close()


def main() -> None:
    """Take the pictures."""
    with TemporaryDirectory() as place, sync_playwright() as started:
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        shapes = Path(place) / "municipalities.geojson"
        shapes.write_text(json.dumps(DATA.boundaries), encoding="utf-8")
        for name, release, view, levels in releases():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            folder, out = release.save(Path(place) / name), Path(place) / f"{name}-page"
            write_static(folder, out, [f"{level}={shapes}" for level in levels], None)
            write_report(release, folder / "report.html")
            _take(browser, (out / "index.html").as_uri() + view, f"explorer-{name}", (1120, 840))
            _take(browser, _address(folder), f"report-{name}", (1120, 590))
            if name == "first":
                _take(browser, _address(folder), "report-first-dark", (1120, 590), "dark")
                _take(browser, _address(folder), "report-first-narrow", NARROW)
                _take(browser, _address(folder), "report-first-narrow-dark", NARROW, "dark")
        browser.close()


if __name__ == "__main__":
    main()
