"""The spec of a command, with the options of the command line in place of its keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tallytree.cli import logs
from tallytree.cli.rendering.statements import warn_of_seed

if TYPE_CHECKING:
    from tallytree.spec import Spec


def opened_spec(context: typer.Context, path: Path, changes: Sequence[str] | None, **options: Any) -> Spec:
    """The spec at a path, with other values of some keys; what is None stays.

    A secret that the environment names is used by commands that make a named run, and left alone by others.

    Raises:
        SpecError, ValueError, OSError: see `tallytree.spec.load_spec` and `Spec.with_options`.
    """
    from tallytree.spec import load_spec

    loaded = load_spec(path, changes=changes or ())
    source = context.get_parameter_source("secret")
    if source is not None and source.name == "ENVIRONMENT" and options.get("run") is None and loaded.run is None:
        options["secret"] = None
    loaded = loaded.with_options(**options)
    logs.about(dataset=loaded.dataset, run=loaded.run)
    warn_of_seed(loaded.seed)
    return loaded
