"""How long the explorer takes to write the page of a release with 10^6 leaves, and a browser to show it.

    python benchmarks/explore.py [--leaves 1000000]

Prints Markdown: the size of the page and of its largest file, the seconds in which it was written, and those of views
in Chromium, without a server; and the most memory that the process used.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from playwright.sync_api import Page, sync_playwright

import tallytree as tt
from tallytree.views.explore.opening import write_static

BUDGET = tt.Budget(epsilon=1, delta=1e-8)
LEVELS = ["region", "town", "block"]
RECORDS = 2_000_000


def places(leaves: int) -> pa.Table:
    """Labels of a tree with 100 regions, 100 towns in each, and so many blocks in all."""
    number = np.arange(leaves)
    town = number * 10_000 // leaves
    columns = {"region": town // 100, "town": town, "block": number}
    return pa.table({name: np.char.add(f"{name} ", each.astype(str)) for name, each in columns.items()})


def counts(leaves: int) -> tt.Release:
    """Counts of records that are spread unevenly."""
    public = places(leaves)
    drawn = (np.random.default_rng(1).random(RECORDS) ** 2 * leaves).astype(np.int64)
    tree = tt.Hierarchy.from_table(public, LEVELS)
    return tt.release_counts(public.take(pa.array(drawn)), tree, BUDGET, neighboring="change_one")


def flows(leaves: int) -> tt.Release:
    """Flows between a hundredth as many leaves."""
    public, random = places(max(leaves // 100, 10_000)), np.random.default_rng(2)
    tree, columns, names = tt.Hierarchy.from_table(public, LEVELS), [], []
    for side in ("origin", "destination"):
        drawn = (random.random(RECORDS) ** 2 * public.num_rows).astype(np.int64)
        columns += public.take(pa.array(drawn)).columns
        names += [f"{side}_{level}" for level in LEVELS]
    return tt.release_flows(
        pa.table(columns, names=names),
        origins=tree,
        destinations=tree,
        budget=BUDGET,
        neighboring="change_one",
        origin=names[:3],
        destination=names[3:],
    )


def seconds(work: Callable[[], object]) -> float:
    """How long work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def views(page: Page, address: str) -> dict[str, float]:
    """Seconds of views, in the order in which a reader asks for them."""

    def first() -> None:
        page.goto(address)
        page.wait_for_selector("#rows")

    def down() -> None:
        before = page.inner_text("h1")
        page.locator("#rows tbody tr:not(.group) th a").first.click()
        changed = "before => (document.querySelector('h1')?.textContent ?? before) !== before"
        page.wait_for_function(changed, arg=before)

    def search() -> None:
        page.fill("#search", "block 99")
        page.wait_for_selector("#found a")

    def finest() -> None:
        ends = address.count("flows") + 1
        page.evaluate(f"location.hash = '#at={','.join(['0.0'] * ends)}&by={','.join(['3'] * ends)}'")
        page.wait_for_selector("#rows th:has-text('block')")

    found = {"first view": seconds(first)}
    for step in range(1, len(LEVELS) + 1):
        found[f"zoom {step}"] = seconds(down)
    return found | {"search": seconds(search), "all of the finest level, largest first": seconds(finest)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, default=1_000_000)
    leaves = parser.parse_args().leaves
    with sync_playwright() as started, tempfile.TemporaryDirectory() as place:
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for kind, make in (("counts", counts), ("flows", flows)):
            release, out = make(leaves), Path(place) / f"{kind}-page"
            folder = release.save(Path(place) / kind)
            took = seconds(lambda: write_static(folder, out, [], None))  # noqa: B023 (called at once)
            sizes = [each.stat().st_size / 1e6 for each in out.rglob("*") if each.is_file()]
            rows = sum(table.num_rows for table in release.level_tables.values())
            print(f"\n{kind}: {rows:,} rows; the page has {sum(sizes):.1f} MB, its largest file {max(sizes):.1f} MB.")
            print(f"It was written in {took:.1f} s.\n\n| view | seconds |\n| --- | ---: |")
            page = browser.new_page()
            for name, each in views(page, (out / "index.html").as_uri()).items():
                print(f"| {name} | {each:.2f} |")
            page.close()
        browser.close()
    unit = 2**20 if sys.platform == "darwin" else 2**10
    print(f"\nMost memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit:,.0f} MiB, releases included")


if __name__ == "__main__":
    main()
