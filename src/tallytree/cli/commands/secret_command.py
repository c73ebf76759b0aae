"""`tallytree secret`: the file from which the keys of named runs are derived."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.terminal import open_console, show_line

secret = typer.Typer(no_args_is_help=True, help="Make the secret with which a run can be repeated.")


@secret.command("new")
def new(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to make; it must not exist yet.")],
) -> None:
    """Make FILE with a new secret, readable by its owner alone.

    Keep it as you keep the records: with it and a release, the noise can be computed and removed.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.api import new_secret

        show_line(
            open_console(), f"{new_secret(file)} is made, with mode 0600. Keep it as confidential as the records."
        )
