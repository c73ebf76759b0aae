"""What the papers published, as numbers: a file in `published_figures/` for each experiment that has any."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from tallytree.lab.reproduce.measured import Key

FOLDER = Path(__file__).parent / "published_figures"
PAPERS = {
    "kuo": "Kuo, Chiu, Kifer, Hay and Machanavajjhala: Differentially private hierarchical count-of-counts histograms. "
    "PVLDB 11(11), 2018",
    "fioretto": "Fioretto, Van Hentenryck and Zhu: Differential privacy of hierarchical census data. Artificial "
    "Intelligence 296, 2021",
    "boninsegna": "Boninsegna and Silvestri: Differentially private release of hierarchical origin/destination data "
    "with a TopDown approach. 2025",
    "errata": "Kuo et al. 2018, Fioretto et al. 2021, Boninsegna and Silvestri 2025, and their code",
}
"""The titles, by what the names of their experiments begin with or mean."""
KEYS = ("data", "mechanism", "epsilon", "level", "x")
"""Columns that say what a figure is of; a file may lack some. Each other column is a quantity."""


@cache
def published(experiment: str) -> dict[Key, float]:
    """Every published figure of an experiment; empty cells are none. A paper's pictures without numbers have no file.

    Args:
        experiment: its name.
    """
    found: dict[Key, float] = {}
    place = FOLDER / f"{experiment}.csv"
    if place.is_file():
        for row in csv.DictReader(place.read_text(encoding="utf-8").splitlines()):
            epsilon, level, x = (row.get(name) or None for name in ("epsilon", "level", "x"))
            for quantity, value in row.items():
                if quantity not in KEYS and value:
                    key = (
                        row["data"],
                        row["mechanism"],
                        quantity,
                        None if epsilon is None else float(epsilon),
                        None if level is None else int(level),
                        None if x is None else float(x),
                    )
                    if key in found:
                        raise ValueError(f"{place.name}: {key} has two figures")
                    found[key] = float(value)
    return found
