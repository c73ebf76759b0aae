"""People by their number of records, and the recommended contribution bound, at a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallytree.cli.rendering.terminal import fitted_table, show_line

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.release import Release

NEIGHBORS = 3
"""So many choices are shown before and after the recommended one. The statement has all of them."""


def show_contributions(console: Console, release: Release) -> None:
    """Show the noisy numbers of people, what the bound leaves out, and the recommended bound."""
    rows = [
        [f"{row['records_from']:,}", f"{row['records_to']:,}", f"{row['people']:,}", f"{row['std_dev']:.6g}"]
        for row in release.table("contributions").to_pylist()
    ]
    console.print(fitted_table(console, ["records from", "to", "people", "std dev"], rows))
    facts = release.statement["contributions"]
    show_line(console, facts["summary"])
    show_line(console, facts["covers"])
    if facts["recommended"] is None:
        show_line(console, "No bound is recommended: the error of this mechanism's noise follows no simple rule.")
        return
    show_choices(console, facts["recommended"], facts["bound"])


def show_choices(console: Console, recommended: Mapping[str, Any], bound: int, *, word: str = "Recommended") -> None:
    """Show the first choice, the bound of the spec, the recommended one and those beside it.

    Args:
        console: the terminal.
        recommended: the choices, as the statement has them.
        bound: that of the spec.
        word: what was done with the best of them.
    """
    choices = recommended["choices"]
    chosen = [choice["max_contributions"] for choice in choices].index(recommended["max_contributions"])
    near = range(max(chosen - NEIGHBORS, 0), min(chosen + NEIGHBORS + 1, len(choices)))
    shown = [choice for i, choice in enumerate(choices) if i in (0, *near) or choice["max_contributions"] == bound]
    columns = ("max_contributions", "noise", "left_out", "expected_error")
    rows = [[f"{choice[column]:,}" for column in columns] for choice in shown]
    console.print(fitted_table(console, [column.replace("_", " ") for column in columns], rows))
    show_line(console, "Noise and records left out are summed over the cells of a level, and averaged over the levels.")
    show_line(console, f"{word}: max_contributions: {recommended['max_contributions']}. {recommended['objective']}")
