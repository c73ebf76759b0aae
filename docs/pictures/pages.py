"""Takes the pictures of reports and of the explorer on the pages: `python docs/pictures/pages.py [NAME …]`.

In Debian's Chromium. The pictures of the gallery are of releases of made-up people with fixed noise. Those of the
tutorials are of the releases that the blocks of their pages make, whose noise is fresh, as is that of `first` (README,
home page, first tutorial). Its report is taken narrow and in the dark too. Names of pictures choose some of them.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from playwright.sync_api import Browser, sync_playwright
from tallytree.datasets.commutes import commutes
from tallytree.datasets.households import households

import tallytree as tt
from tallytree.views.explore.opening import write_static
from tallytree.views.report import write_report

DATA, HOMES = commutes(60_000), households(4_000)
TUTORIALS = Path(__file__).parents[1] / "tutorials"
FOLLOWED = [
    (
        "mobility",
        "traffic",
        "out/traffic/2026-11-16",
        "#at.from=Southvale&at.from=Istren&at.from=Gradorf&by.from=from_zone&by.to=&by.hour=hour&by.mode=",
    ),
    (
        "statistical-office",
        "residents",
        "residents",
        "#at.area=region 1&at.area=province 1&at.area=county 01&by.area=county&by.age=age&by.sex=sex",
    ),
    ("statistical-office", "homes", "homes", ""),
]
"""A tutorial, the name of a picture, the release's folder, and the view of the explorer, if it is shown."""
LEVELS = ["region", "province", "municipality"]
TOWNS = tt.Hierarchy.from_table(DATA.municipalities, levels=LEVELS)
SIDES = {side: [f"{side}_{level}" for level in LEVELS] for side in ("origin", "destination")}
PEOPLE = DATA.commutes.select(SIDES["origin"]).rename_columns(LEVELS)
PUBLISHER = {"publisher": "Office of Meridia", "contact": "data@office.example", "status": "final", "period": "2025"}
NARROW = (390, 628)
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
AGES = [f"{age}-{age + 9}" for age in range(0, 80, 10)] + ["80+"]


def releases() -> Iterator[tuple[str, tt.Release, str, list[str]]]:
    """The name of a picture, the release, the view of it, and the levels of its maps."""
    budget = tt.Budget(epsilon=0.2)
    words = {"title": "Commuters by home", "words": {"record": "commuter"}} | PUBLISHER
    counts = tt.release_counts(PEOPLE, TOWNS, budget, neighboring="add_remove", seed=1, **words)
    yield "counts", counts, "#by.area=municipality", ["municipality"]
    words = {"title": "Commutes by home", "words": {"record": "commute", "person": "commuter"}}
    first = tt.release_counts(PEOPLE, TOWNS, budget, neighboring="add_remove", **words)
    yield "first", first, "#by.area=municipality", ["municipality"]
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
    yield (
        "flows",
        flows,
        "#at.origin=Midlands&by.origin=origin_province&by.destination=destination_province",
        ["municipality"],
    )
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
    yield (
        "tables",
        tables,
        "#at.area=Northmark&at.area=Brennos&at.area=Neucello&by.area=municipality&by.age=age&by.sex=sex",
        [],
    )
    counties = tt.Hierarchy.from_table(HOMES.households, levels=["country", "state", "county"])
    words = {"title": "Households by size", "words": {"group": "household", "person": "resident"}} | PUBLISHER
    terms = {"neighboring": "add_remove", "group": "household_id", "max_group_size": 20, "seed": 4}
    sizes = tt.release_group_sizes(HOMES.people, counties, budget, **terms, **words)
    yield "sizes", sizes, "#at.area=Meridia&at.area=Brackwater", []


def follow(page: Path, folder: Path) -> None:
    """Run the blocks of a page in a folder."""
    sys.path.append(str(TUTORIALS.parents[1] / "tests"))
    from helpers.pages import blocks, commands

    names: dict[str, Any] = {}
    programs = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind == "python":
            with chdir(folder):
                exec(compile(block.text, page, "exec"), names)  # noqa: S102 (the page's own code)
        elif named := re.match(r"# (\S+\.yaml)\n", block.text):
            (folder / named[1]).write_text(block.text, encoding="utf-8")
        elif block.kind in ("sh", "console"):
            script = "\n".join(commands(block.text)) if block.kind == "console" else block.text
            command = ["/bin/bash", "-euc", script]
            subprocess.run(command, cwd=folder, env=programs, check=True)  # noqa: S603


def shown(browser: Browser, folder: Path, name: str, view: str, maps: list[str]) -> None:
    """Take the pictures of a release's report and of its explorer."""
    out = folder.with_name(f"{folder.name}-page")
    write_static(folder, out, maps, None)
    explorer, report = (out / "index.html").as_uri() + view, (folder / "report.html").as_uri()
    if view:
        _take(browser, explorer, f"explorer-{name}", (1120, 840))
    for scheme in SCHEMES if name == "first" else SCHEMES[:1]:
        dark = "" if scheme == "light" else "-dark"
        _take(browser, report, f"report-{name}{dark}", (1120, 590), scheme)
        if name == "first":
            _take(browser, report, f"report-{name}-narrow{dark}", NARROW, scheme)


def _take(browser: Browser, address: str, name: str, size: tuple[int, int], scheme: Scheme = "light") -> None:
    scale = 2 if size[0] == NARROW[0] else 1
    viewport: Any = {"width": size[0], "height": size[1]}
    page = browser.new_page(viewport=viewport, color_scheme=scheme, device_scale_factor=scale)
    page.goto(address)
    page.wait_for_selector("main h1, h1")
    page.screenshot(path=Path(__file__).with_name(f"{name}.png"))
    page.close()


def main() -> None:
    """Take the pictures."""
    asked = sys.argv[1:]
    with TemporaryDirectory() as place, sync_playwright() as started:
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        shapes = Path(place) / "municipalities.geojson"
        shapes.write_text(json.dumps(DATA.boundaries), encoding="utf-8")
        for name, release, view, levels in releases():
            if not asked or name in asked:
                folder = release.save(Path(place) / name)
                write_report(release, folder / "report.html")
                shown(browser, folder, name, view, [f"{level}={shapes}" for level in levels])
        for page, name, folder_name, view in FOLLOWED:
            if not asked or name in asked:
                bench = Path(place) / page
                if not bench.exists():
                    bench.mkdir()
                    follow(TUTORIALS / f"{page}.md", bench)
                shown(browser, bench / folder_name, name, view, [])
        browser.close()


if __name__ == "__main__":
    main()
