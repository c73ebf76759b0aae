"""Draws a village's age pyramid: the truth, and what is published with pooling and without, on the same noise.

    python benchmarks/borrowed_strength_picture.py docs/pictures/village.svg

2,000 made-up places of all sizes (`tallytree.datasets.residents`), ε = 1, δ = 1e-8; place × age × sex, and what it is
made of. The village is the first place, in their order, with 130 to 140 people. Whiskers are ± `typical_error`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from borrowed_strength import same_noise
from tallytree.datasets.residents import AGES, SEXES, Residents, residents

import tallytree as tt

PEOPLE = range(130, 141)
TABLES = [("county", "age", "sex"), ("county", "age"), ("county", "sex"), ("province", "age", "sex")]
WIDTH, LEFT, TOP, BAR, UNIT = 250, 46, 58, 13, 4.0
SHOWN = SEXES[:2]
COLOURS = {"female": "#c8553d", "male": "#1b6ca8"}


def main() -> None:
    data = residents(2_000, provinces=60, log_size=5.5)
    true = data.cells.reshape(-1, len(AGES), len(SEXES))
    people = true.sum(axis=(1, 2))
    alike = np.flatnonzero((people >= min(PEOPLE)) & (people <= max(PEOPLE)))
    village = alike[0]
    panels: dict[str, tuple[np.ndarray, np.ndarray | None]] = {"The truth": (true[village], None)}
    for title, pooling in (("Each cell alone", "none"), ("Learning from all places", "areas")):
        number, error = published(data, pooling)
        for name, places in (("the village", [village]), (f"{len(alike)} places of {PEOPLE}", alike)):
            off, stated = (number - true)[places, :, : len(SHOWN)], error[places, :, : len(SHOWN)]
            roots = (np.sqrt(np.mean(each**2)) for each in (off, stated))
            print(f"{title}, {name}: RMSE {next(roots):.2f}, typical error {next(roots):.2f}")
        panels[title] = number[village], error[village]
    drawn = [f'<g transform="translate({i * WIDTH},0)">{"".join(panel(*each))}</g>'
             for i, each in enumerate((title, *numbers) for title, numbers in panels.items())]  # fmt: skip
    size = f'viewBox="0 0 {WIDTH * len(panels)} {TOP + BAR * len(AGES) + 10}"'
    style = "<style>text{font:10px sans-serif;fill:#222}.title{font-size:12px;font-weight:bold}</style>"
    back = '<rect width="100%" height="100%" fill="white"/>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{style}{back}{"".join(drawn)}</svg>\n'
    Path(sys.argv[1]).write_text(svg, encoding="utf-8")


def published(data: Residents, pooling: Literal["areas", "none"]) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of all places by age and sex, in the order of the data, and their typical errors."""
    areas = tt.Hierarchy.from_table(data.areas, ["region", "province", "county"])
    ages, sexes = tt.Hierarchy.from_table(data.ages, ["age"]), tt.Hierarchy.from_table(data.sexes, ["sex"])
    with same_noise():
        release = tt.release_tables(
            data.records(), tt.Product({"area": areas, "age": ages, "sex": sexes}), tt.Budget(epsilon=1.0, delta=1e-8),
            neighboring="add_remove", tables=TABLES, count="count", seed=1,
            mechanism=tt.tables.LeastSquares(pooling=pooling),
        )  # fmt: skip
    rows = release.table("county", "age", "sex")
    found = (rows[name].to_numpy().reshape(len(data.cells), len(AGES), -1) for name in ("count", "typical_error"))
    return next(found), next(found)


def panel(title: str, number: np.ndarray, error: np.ndarray | None) -> Iterator[str]:
    """A pyramid: women to the left, men to the right, the young below."""
    middle = LEFT + (WIDTH - LEFT) / 2
    yield f'<text class="title" x="{middle}" y="16" text-anchor="middle">{title}</text>'
    yield f'<text x="{middle}" y="31" text-anchor="middle">{number.sum()} people</text>'
    for side, sex in zip((-1, 1), SHOWN, strict=True):
        yield f'<text x="{middle + side * 50}" y="48" text-anchor="middle">{sex}</text>'
        for i, age in enumerate(AGES):
            y = TOP + BAR * (len(AGES) - 1 - i)
            length = UNIT * float(number[i, SHOWN.index(sex)])
            x = middle + 1 if side > 0 else middle - 1 - length
            yield f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{BAR - 3}" fill="{COLOURS[sex]}"/>'
            if error is not None:
                off = UNIT * float(error[i, SHOWN.index(sex)])
                ends = (middle + side * (1 + end) for end in (max(length - off, 0.0), length + off))
                line = " ".join(f'x{k}="{end:.1f}"' for k, end in enumerate(ends, 1))
                yield f'<line {line} y1="{y + 5}" y2="{y + 5}" stroke="#222"/>'
            if side < 0 and i % 2 == 0:
                yield f'<text x="{LEFT - 6}" y="{y + 9}" text-anchor="end">{age}</text>'


if __name__ == "__main__":
    main()
