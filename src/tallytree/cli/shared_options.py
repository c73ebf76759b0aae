"""Arguments and options that several commands share; `takes_options_of_a_run` has those of the release itself."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tallytree.kinds.terms import OF_A_RUN

SpecFile = Annotated[
    Path, typer.Argument(metavar="SPEC.yaml", help="The spec; docs/reference/spec.md explains its keys.")
]
OutFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to make; it must not exist yet.")]
ReleaseFolder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="The folder to make; --if-exists says what if it exists.")
]
CheckedFolder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="The folder of the release; --prior-run looks beside it. None is made."),
]
IfExistsOption = Annotated[
    str,
    typer.Option(
        metavar="error|skip|replace",
        help="If DIR exists: an error; nothing to do, if it holds the run named by --run; or the new release takes its "
        "place.",
    ),
]
FallbackOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The folder in which the release is kept if --out cannot be written in the end; by default that of "
        "temporary files.",
    ),
]
PriorRunOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="An earlier run of the data set, whose release the numbers are expected to resemble, as with `prior` in "
        "the spec. Its folder is one of those beside DIR.",
    ),
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Write every table as CSV too.")]
ReportOption = Annotated[
    bool,
    typer.Option(
        "--report/--no-report",
        envvar="TALLYTREE_REPORT",
        help="Write report.html into the folder, where the extra `report` is installed.",
    ),
]
BoundariesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--boundaries",
        metavar="LEVEL=FILE",
        help="For maps, the shapes of a level's areas: GeoJSON, TopoJSON or GeoParquet. May be repeated.",
    ),
]
LanguageOption = Annotated[
    str | None,
    typer.Option(metavar="CODE", help="Of names and words, such as en. If absent: the first that each is in."),
]
BoundaryCodeOption = Annotated[
    str | None,
    typer.Option(
        "--boundary-code",
        metavar="COLUMN",
        help="The property of the shapes that has the areas' labels. If absent: named like the level, or the id.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A key of the spec, such as budget.epsilon=0.5, in its place."),
]
AllowCodeOption = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Import a mechanism that is named as module:Class. Its code runs beside the private data: read it first.",
    ),
]
LedgerFile = Annotated[
    Path, typer.Argument(metavar="LEDGER", help="The ledger, a file; docs/how-to/ledger.md explains it.")
]
DatasetOption = Annotated[
    str | None, typer.Option("--dataset", metavar="NAME", help="The data set's name in the ledger.")
]

SavedFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")]
AlphaOption = Annotated[
    float, typer.Option("--alpha", metavar="NUMBER", help="The share of intervals that may miss the true number.")
]
ReplicatesOption = Annotated[
    int | None,
    typer.Option(
        "--replicates",
        metavar="NUMBER",
        help="The number of replicates of the bootstrap. If absent: none where the errors are known exactly, else "
        "those of the release's own errors, or 50.",
    ),
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", metavar="NUMBER", help="Makes the replicates reproducible, for tests.")
]
RowsOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="The file to make, .csv or .parquet; if absent, the rows are shown."),
]

CrosswalkOption = Annotated[
    list[str] | None,
    typer.Option(
        "--crosswalk",
        metavar="TABLE",
        help="A table of areas that changed, with the columns old and new, and weight where one was split. May be "
        "repeated: one for each release but the last.",
    ),
]
NamesOption = Annotated[
    str | None,
    typer.Option("--names", metavar="A,B,…", help="What to call the releases. If absent: period, run or folder."),
]


def names_in(given: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in given.split(",") if name.strip()]


def series_options(level: str | None, crosswalk: Sequence[str] | None, names: str | None) -> tuple[Any, Any, Any]:
    """The table, the crosswalk (or a list of several) and the names of releases, as `tallytree.series` takes them."""
    walks = crosswalk[0] if crosswalk and len(crosswalk) == 1 else crosswalk or None
    return (names_in(level) if level else None), walks, (names_in(names) if names else None)


_ENVIRONMENT = {"secret": "TALLYTREE_SECRET_FILE"}
"""Options that a variable of the environment can give too."""


def takes_options_of_a_run(
    *left_out: str, only: Collection[str] = tuple(OF_A_RUN)
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a run, which are arguments of every release, with the same descriptions.

    The command gets them as one argument, `options`: a mapping from their names to what was given, or None.

    Args:
        left_out: those that the command does not have.
        only: those that it may have.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        """The command with these options in place of the argument `options`."""
        names = [name for name in OF_A_RUN if name in only and name not in left_out]

        def with_options(*arguments: Any, **given: Any) -> None:
            options = {name: given.pop(name) for name in names}
            command(*arguments, options=options, **given)

        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [inspect.Parameter(name, keyword, default=None, annotation=_option_of_a_run(name)) for name in names]
        return in_place_of(command, with_options, added, without=("options",))

    return decorate


def in_place_of(
    command: Callable[..., None],
    function: Callable[..., None],
    added: Sequence[inspect.Parameter],
    without: Collection[str] = (),
) -> Callable[..., None]:
    """The function that stands for a command, with the command's name, help text and parameters, as typer reads them.

    Args:
        command: the command.
        function: calls it.
        added: parameters that the function takes besides.
        without: names of the command's parameters that the function gives it.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters = [*(each for each in signature.parameters.values() if each.name not in without), *added]
    functools.update_wrapper(function, command)
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    # Typer would read the annotations of the command itself.
    del function.__wrapped__  # type: ignore[attr-defined]
    return function


def _option_of_a_run(name: str) -> Any:
    """The type of such an option, as typer reads it."""
    doc = OF_A_RUN[name]
    said = doc.hint or doc.text
    flag, kind = f"--{name.replace('_', '-')}", Path if doc.value in ("FILE", "DIR", "LEDGER") else str
    option = typer.Option(
        flag, metavar=doc.value, envvar=_ENVIRONMENT.get(name), help=f"{said[:1].upper()}{said[1:]}.".replace("..", ".")
    )
    return Annotated[kind | None, option]
