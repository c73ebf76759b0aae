"""`tallytree registry`: the entry of a release in OpenDP's registry of deployments, completed and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line


def registry(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")],
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A key of the entry, such as deployment.basic.name=Households; of a list, once for each item.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The file to make; DIR/deployment.yaml stays as it is.")
    ] = None,
    require_complete: Annotated[
        bool, typer.Option("--require-complete", help="Fail if anything is still to be filled.")
    ] = False,
) -> None:
    """Complete and check the registry entry of a release.

    The entry, DIR/deployment.yaml, is for OpenDP's registry of deployments; a missing one is made. What --set names is
    changed in the file, and all else stays, comments too. Then the command says what the publisher is still to fill. An
    entry that the schema of the registry refuses is an error, and nothing is written. Spends nothing.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.cli.rendering.terminal import open_console, printable, show_line
        from tallytree.release import Release
        from tallytree.release.registry_file import completed_entry

        made = completed_entry(Release.load(folder), folder, changes or (), out=out, require_complete=require_complete)
        for sentence in made.disagreements:
            logs.warning(sentence)
        console = open_console()
        left = len(made.unfilled)
        show_line(console, f"[x] {made.filled} keys are filled")
        for key, what in made.unfilled.items():
            show_line(console, printable(f"[ ] {key}: {what}"))
        if made.choices:
            show_line(console, "May be added, with one of these values:")
        for key, values in made.choices.items():
            show_line(console, printable(f"[ ] {key}: {' | '.join(values)}"))
        state = f"valid so far; {left} to be filled" if left else "valid and complete"
        show_line(console, f"Nothing was spent. Entry ({state}): {made.path}")
