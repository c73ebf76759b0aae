"""The risk of a release for readers: of 100 cases, how many an attacker finds out, and how many a guess."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tallytree import _charts as charts
from tallytree._report.pictures import Grid, Picture
from tallytree.release.words import worded, words_of


def of_hundred(statement: Mapping[str, Any]) -> tuple[int, int]:
    """Of 100 cases, those that a blind guess finds out, and those that an attacker does at most; rounded up.

    Args:
        statement: with `risk`, of whose rates the last is taken.
    """
    rate = statement["risk"]["rates"][-1]
    blind, found = (math.ceil(round(100 * rate[key], 6)) for key in ("false_positive_rate", "true_positive_rate"))
    return blind, found


def risk_picture(statement: Mapping[str, Any]) -> Picture:
    """What an attacker finds out, of 100 cases: a statement with `risk` has the rates, of which the last is drawn."""
    blind, found = of_hundred(statement)
    words = (
        f"Of 100 cases an attacker who knows all other records finds out {found} at most, with {blind} false "
        f"suspicions in 100; a blind guess finds out {blind}"
    )
    words = worded(words, words_of(statement))
    grid = Grid(
        "Cases of 100 that are found out", ("how", "of 100"),
        [("by a blind guess", str(blind)), ("by an attacker, at most", str(found))],
    )  # fmt: skip
    return Picture(
        words,
        f"{words}.",
        lambda width: charts.hundred_dots(blind, found, width=width, description=words),
        grid,
        640,
    )
