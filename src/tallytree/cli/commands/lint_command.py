"""`tallytree lint`: what is wrong with private records, in a private file for their owner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.opened_spec import opened_spec
from tallytree.cli.rendering.terminal import open_console, show_line
from tallytree.cli.shared_options import AllowCodeOption, SetOption, SpecFile


def lint(
    context: typer.Context,
    spec: SpecFile,
    private_out: Annotated[
        Path,
        typer.Option(
            "--private-out",
            metavar="FILE",
            help="The PRIVATE file to make, readable by its owner alone. It must not exist, nor lie in a release.",
        ),
    ],
    changes: SetOption = None,
    allow_code: AllowCodeOption = False,
) -> None:
    """Write what is wrong with the records to a private file.

    The file is for the owner of the data, and nothing is spent. It has exact counts and values of private records. A
    parameter that is chosen from it is outside the guarantee. What this command shows does not depend on the records.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.run.lint import lint as write

        write(opened_spec(context, spec, changes, allow_code=allow_code).plan(), private_out)
        show_line(
            open_console(),
            f"{private_out} is written, with mode 0600. It is PRIVATE: it has exact counts and values of the records. "
            "Correct data and code lists with it, choose no parameter from it, and delete it.",
        )
