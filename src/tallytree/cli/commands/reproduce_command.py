"""`tallytree reproduce`: a table, a figure or a claim of a paper, measured again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.terminal import fitted_table, show_line

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.lab.reproduce import Experiment, Reproduction


def reproduce(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="What to measure; --list shows all names.", show_default=False),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what can be measured, and what each needs.")] = False,
    runs: Annotated[
        int | None,
        typer.Option("--runs", metavar="NUMBER", help="How many releases each figure is the mean of.", min=1),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Measure in the size of the paper, which can take an hour or more.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The folder to write to. If absent: reproduced, in this folder."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="The folder with real data; if absent, generated data stand in."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option("--seed", metavar="NUMBER", help="The seed of the noise; equal seeds give equal figures.", min=0),
    ] = 1,
) -> None:
    """Measure a table or a figure of the papers again.

    Writes NAME.csv, a figure (NAME.svg, NAME.png) and NAME.md, which has the published figures beside ours. Nothing
    is private here: data are public or generated, and the noise is seeded.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.cli.rendering.terminal import open_console
        from tallytree.lab.reproduce import EXPERIMENTS
        from tallytree.lab.reproduce import reproduce as run

        console = open_console()
        if listed:
            show_experiments(console, EXPERIMENTS)
            return
        if name is None:
            raise ValueError("name: none is given; tallytree reproduce --list shows all")
        errors = open_console(stderr=True)
        with errors.status(f"measuring {name}") if logs.show_bar() else nullcontext():
            made = run(name, out or Path("reproduced"), full=full, runs=runs, seed=seed, data=data)
        show_reproduction(console, made)


MOST_ROWS = 40


def show_experiments(console: Console, experiments: Sequence[Experiment]) -> None:
    """One row for each experiment: its name, what it shows, and what its full size needs."""
    headings = ["name", "shows", "data", "minutes", "GiB"]
    rows = [[one.name, one.shows, one.data, f"{one.minutes:g}", f"{one.gibibytes:g}"] for one in experiments]
    console.print(fitted_table(console, headings, rows, prose=("shows", "data")))
    show_line(
        console,
        "Minutes and GiB are those of --full; without it each takes less than a minute. docs/how-to/reproduce.md says "
        "what data they read.",
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
