"""Nodes by the size of their true number: a mechanism may be good at large numbers and poor at small ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tallytree.lab.compare.level_metrics import LevelResult

ALL = "all"
"""The class of all nodes."""
CLASSES: tuple[tuple[str, int, float], ...] = (
    ("0", 0, 0),
    ("1 to 9", 1, 9),
    ("10 to 99", 10, 99),
    ("100 to 999", 100, 999),
    ("1,000 to 9,999", 1_000, 9_999),
    ("10,000 and more", 10_000, np.inf),
)
"""Name, least and greatest true number."""


def parts_of(level: LevelResult) -> Iterator[tuple[str, LevelResult]]:
    """The nodes of each class that has some, by its name.

    Nodes that are 0 in the truth and in the release need have no row; they count in the class of 0.
    """
    released, true = level.counts
    for name, least, most in CLASSES:
        there = (true >= least) & (true <= most)
        nodes = level.n_nodes - int((true != 0).sum()) if name == "0" else int(there.sum())
        if nodes:
            part = replace(level, n_nodes=nodes)
            part.__dict__["counts"] = released[there], true[there]  # in place of the cached property
            intervals = level.intervals
            part.__dict__["intervals"] = None if intervals is None else tuple(each[there] for each in intervals)
            yield name, part
