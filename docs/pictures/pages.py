"""Takes the pictures of reports and of the explorer in the gallery: `python docs/pictures/pages.py`.

In Debian's Chromium. Releases of made-up people, with fixed noise, so that the pictures are the same each time.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from playwright.sync_api import sync_playwright
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
AGES = [f"{age}-{age + 9}" for age in range(0, 80, 10)] + ["80+"]


def releases() -> Iterator[tuple[str, tt.Release, str, list[str]]]:
    """The name of a picture, the release, the view of it, and the levels of its maps."""
    budget = tt.Budget(epsilon=0.2)
    words = {"title": "Commuters by home", "words": {"record": "commuter"}} | PUBLISHER
    counts = tt.release_counts(PEOPLE, TOWNS, budget, neighboring="add_remove", seed=1, **words)
    yield "counts", counts, "#at=0.0&by=3", ["municipality"]
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


def main() -> None:
    """Take the pictures."""
    with TemporaryDirectory() as place, sync_playwright() as started:
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        shapes = Path(place) / "municipalities.geojson"
        shapes.write_text(json.dumps(DATA.boundaries), encoding="utf-8")
        for name, release, view, levels in releases():
            folder, out = release.save(Path(place) / name), Path(place) / f"{name}-page"
            write_static(folder, out, [f"{level}={shapes}" for level in levels], None)
            write_report(release, folder / "report.html")
            for kind, address in (("explorer", (out / "index.html").as_uri() + view), ("report", _address(folder))):
                page = browser.new_page(viewport={"width": 1120, "height": 840 if kind == "explorer" else 620})
                page.goto(address)
                page.wait_for_selector("main h1, h1")
                page.screenshot(path=Path(__file__).with_name(f"{kind}-{name}.png"))
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
