"""What `tallytree reproduce` measured, and what it can measure, at a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tallytree.cli.rendering.terminal import fitted_table, show_line

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.lab.reproduce import Experiment, Reproduction

MOST_ROWS = 40


def show_experiments(console: Console, experiments: Sequence[Experiment]) -> None:
    """One row for each experiment: its name, what it shows, and what its full size needs."""
    headings = ["name", "shows", "data", "--full, minutes", "GiB"]
    rows = [[one.name, one.shows, one.data, f"{one.minutes:g}", f"{one.gibibytes:g}"] for one in experiments]
    console.print(fitted_table(console, headings, rows))
    show_line(
        console, "Without --full each takes less than a minute. docs/how-to/reproduce.md says what data they read."
    )


def show_reproduction(console: Console, made: Reproduction) -> None:
    """The first rows of the table, and where all of it is."""
    from tallytree.lab.reproduce.page import cells_of

    headings, rows = cells_of(made.table.slice(0, MOST_ROWS).to_pylist(), made.experiment.headings)
    console.print(fitted_table(console, headings, rows))
    if made.table.num_rows > MOST_ROWS:
        show_line(console, f"{made.table.num_rows - MOST_ROWS} more rows are in the table.")
    for file in made.files:
        show_line(console, str(file))
