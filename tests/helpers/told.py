"""Releases of made-up data whose truth is known, and all that people are told of them in sentences with numbers."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import tallytree as tt
from helpers.inside import all_sections, facts, front_page, level_errors, run_checks, summary
from tallytree.release.view.release_view import ReleaseView

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOWNS = pd.DataFrame(
    {
        "region": [f"R{LETTERS[i // 12]}" for i in range(60)],
        "town": [f"T{LETTERS[i // 8]}{LETTERS[i % 8]}" for i in range(60)],
    }
)
"""Names have no digits: what has some is a number."""
TREE = tt.Hierarchy.from_table(TOWNS, levels=["region", "town"])
AGES = ["child", "young", "middle", "old"]


@dataclass(frozen=True)
class Made:
    """A release with its truth.

    Attributes:
        release: its tables are read.
        total: how many there are in truth.
        truth: a frame with the path columns, and `size` of group sizes, and the true `count` of each combination.
    """

    release: tt.Release
    total: int
    truth: pd.DataFrame

    @property
    def view(self) -> ReleaseView:
        return ReleaseView(self.release)

    def true(self, paths: list[str]) -> Any:
        """The true number of what rows name, as a function of their labels."""
        if not paths:
            return lambda _: self.truth["count"].sum()
        sums = self.truth.groupby(paths)["count"].sum()
        return lambda labels: sums.get(labels if len(paths) > 1 else labels[0], 0)

    def beside(self, level: str, table: pa.Table | None = None) -> pd.DataFrame:
        """The rows of a level that name a cell, with the true number of each as `true`: of sizes, of a size or more."""
        rows = (self.release.table(level, alpha=0.1) if table is None else table).to_pandas()
        paths = self.view.paths(level)
        rows = rows.dropna(subset=paths)
        if "size" not in rows.columns:
            of = self.true(paths)
            return rows.assign(true=[of(tuple(each)) for each in rows[paths].to_numpy()])
        at = self.truth.groupby([*paths, "size"])["count"].sum().reset_index() if paths else self.truth
        found = []
        for each in rows[[*paths, "size"]].to_dict("records"):
            here = at if not paths else at[np.logical_and.reduce([at[name] == each[name] for name in paths])]
            found.append(here.loc[here["size"] >= each["size"], "count"].sum())
        return rows.assign(true=found)


def _persons(seed: int, people: int = 6_000) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    weight = rng.lognormal(0, 1.2, len(TOWNS))
    rows = TOWNS.iloc[rng.choice(len(TOWNS), people, p=weight / weight.sum())].reset_index(drop=True)
    return rows.assign(age=rng.choice(AGES, people, p=[0.2, 0.2, 0.35, 0.25]))


def counts(seed: int, epsilon: float = 1.0) -> Made:
    rows = _persons(seed)
    made = tt.release_counts(rows, TREE, tt.Budget(epsilon=epsilon), neighboring="add_remove")
    return Made(made, len(rows), rows.assign(count=1))


def tables(seed: int, epsilon: float = 1.0) -> Made:
    rows = _persons(seed)
    trees = tt.Product({"area": TREE, "age": tt.Hierarchy.from_values("age", AGES)})
    made = tt.release_tables(
        rows, trees, tt.Budget(epsilon=epsilon), neighboring="add_remove", tables=[("town", "age"), ("region",), ()]
    )
    return Made(made, len(rows), rows.assign(count=1))


def flows(seed: int, epsilon: float = 1.0, unlisted: str = "zero") -> Made:
    rng = np.random.default_rng(seed)
    size = rng.lognormal(0, 1, len(TOWNS))
    weight = np.outer(size, size).ravel() / size.sum() ** 2
    pairs = rng.choice(len(weight), 180, replace=False, p=weight)
    sides = [
        TOWNS.iloc[each].add_prefix(name).reset_index(drop=True)
        for name, each in zip(("from_", "to_"), np.divmod(pairs, len(TOWNS)), strict=True)
    ]
    trips = pd.concat(sides, axis=1).assign(count=rng.geometric(1 / 20, len(pairs)))
    made = tt.release_flows(
        trips, origins=TREE, destinations=TREE, origin=["from_region", "from_town"],
        destination=["to_region", "to_town"], budget=tt.Budget(epsilon=epsilon), neighboring="add_remove",
        count="count", unlisted=unlisted,
    )  # fmt: skip
    return Made(made, int(trips["count"].sum()), trips)


def remainder(seed: int, epsilon: float = 1.0) -> Made:
    return flows(seed, epsilon, "remainder")


def sizes(seed: int, epsilon: float = 1.0) -> Made:
    rng = np.random.default_rng(seed)
    homes = _persons(seed, 3_000)[["region", "town"]].assign(size=np.minimum(rng.geometric(0.3, 3_000), 12))
    people = homes.loc[homes.index.repeat(homes["size"])].assign(home=lambda rows: rows.index)
    made = tt.release_group_sizes(
        people[["region", "town", "home"]], TREE, tt.Budget(epsilon=epsilon), neighboring="add_remove", group="home",
        max_group_size=12,
    )  # fmt: skip
    return Made(made, len(homes), homes.assign(count=1))


KINDS = {"counts": counts, "tables": tables, "flows": flows, "remainder": remainder, "sizes": sizes}


def texts(made: Made) -> dict[str, list[str]]:
    """All that the report, the explorer and the terminal say of a release, by where it stands; no rows of tables."""
    view, release = made.view, made.release
    errors = level_errors(view)
    front = front_page(view, errors, "folder")
    found = {
        "front": [f"{front.number} {front.unit} {front.error}", front.what, front.left_out, front.verdict],
        "bars": [each for bar in front.bars for each in (f"{bar.level}: {bar.words}", bar.least)],
        "cards": [f"{card.question} {card.number}. {card.sentence}" for card in front.cards],
        "summary": [answer for _, answer in summary(view, errors)],
        "sections": [],
        "pictures": [],
        "explorer": [str(facts(view, "title")[key]) for key in ("bound", "unlisted", "sure")],
        "terminal": _terminal(release),
    }
    for section in all_sections(view, errors, run_checks(view), {}, "folder"):
        found["sections"] += [*section.paragraphs, *section.warnings, *section.points]
        found["sections"] += [f"{term}: {fact}" for term, fact in section.facts]
        grids = [*section.grids, *(picture.grid for picture in section.pictures)]
        found["sections"] += [text for grid in grids for text in (grid.caption, *grid.headings, grid.remark)]
        found["pictures"] += [text for picture in section.pictures for text in (picture.title, picture.description)]
    return found


def _terminal(release: tt.Release) -> list[str]:
    from rich.console import Console

    from tallytree.cli.rendering.statements import show_drowned, show_noise, show_terms

    out = io.StringIO()
    console = Console(file=out, width=10_000)
    show_noise(console, release.statement)
    show_drowned(console, release)
    show_terms(console, release.statement)
    return out.getvalue().splitlines()


def sentences(found: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Where each sentence with a number stands, and the sentence; a card is one."""
    ends = re.compile(r"(?<=[a-z%)0-9”][.:;]) +(?=[A-Z“])")
    return [
        (place, sentence.strip())
        for place, all_of_it in found.items()
        for text in all_of_it
        for sentence in ([text] if place == "cards" else ends.split(text))
        if re.search(r"\d|\bnine\b", sentence, re.IGNORECASE)
    ]
