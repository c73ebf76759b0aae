"""`tallytree reproduce`: a table, a figure or a claim of a paper, measured again."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line


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
        from tallytree.cli.rendering.reproduced import show_experiments, show_reproduction
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
