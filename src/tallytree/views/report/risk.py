"""The risk of a release for readers: of 100 cases, how many an attacker finds out, and how many a guess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallytree.release.risk_statement import of_hundred
from tallytree.release.words import worded, words_of
from tallytree.views import charts
from tallytree.views.report.pictures import Grid, Picture


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
