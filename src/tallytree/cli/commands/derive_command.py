"""`tallytree derive`: shares, ratios, means, quantiles, changes and totals of several releases; spends nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallytree.cli import logs
from tallytree.cli.commands.total_command import conditions, show_totals
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.shared_options import (
    AlphaOption,
    CrosswalkOption,
    NamesOption,
    ReplicatesOption,
    RowsOption,
    SavedFolder,
    SeedOption,
    names_in,
    series_options,
)
from tallytree.kinds.registry import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from tallytree.release import Release

derive_commands = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Derive shares, ratios, changes and means, with errors.\n\nReads what was published, and spends nothing.",
)

Of = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="For tables, the column of the numeric attribute; group sizes need none."),
]
Values = Annotated[
    list[str] | None,
    typer.Option("--value", metavar="LABEL=FROM:TO", help="What a label means: a number, or a class, to exclusive."),
]
Where = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN=LABEL", help="For tables, a condition on an attribute's column.")
]
By = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="A column that gives each row its area; for tables without AREAS, a level."),
]


@derive_commands.command("share")
def share(
    context: typer.Context,
    folder: SavedFolder,
    level: Annotated[str, typer.Argument(metavar="LEVEL", help="A level, or a table's levels, such as county,sex.")],
    within: Annotated[
        str, typer.Option(metavar="LEVEL", help="The level, or the table, of the wholes. If absent: the total.")
    ] = "",
    alpha: AlphaOption = 0.1,
    replicates: ReplicatesOption = None,
    seed: SeedOption = None,
    out: RowsOption = None,
) -> None:
    """Every number of LEVEL as a share of what it is a part of."""
    options: dict[str, Any] = {"alpha": alpha, "replicates": replicates, "seed": seed}
    _of_one(context, folder, out, lambda made: made.share(*names_in(level), within=tuple(names_in(within)), **options))


@derive_commands.command("ratio")
def ratio(
    context: typer.Context,
    folder: SavedFolder,
    numerator: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN=LABEL",
            help="For tables, a condition, or several; 'all' for no condition. For counts, a table of areas (a file).",
        ),
    ],
    denominator: Annotated[list[str], typer.Option(metavar="COLUMN=LABEL", help="Likewise.")],
    areas: Annotated[
        str | None, typer.Option(metavar="AREAS", help="For tables, a table of areas. If absent: all areas.")
    ] = None,
    by: By = None,
    alpha: AlphaOption = 0.1,
    replicates: ReplicatesOption = None,
    seed: SeedOption = None,
    out: RowsOption = None,
) -> None:
    """The ratio of two sums."""

    def derived(release: Release) -> pa.Table:
        of_tables = kind_of(release.statement).has_attributes
        first, second = (
            _sum(given, name, of_tables) for given, name in zip((numerator, denominator), _SUMS, strict=True)
        )
        return release.ratio(first, second, areas=areas, by=by, alpha=alpha, replicates=replicates, seed=seed)

    _of_one(context, folder, out, derived)


@derive_commands.command("mean")
def mean(
    context: typer.Context,
    folder: SavedFolder,
    level: Annotated[str, typer.Argument(metavar="LEVEL", help="The level of the areas; total for all together.")],
    of: Of = None,
    value: Values = None,
    where: Where = None,
    alpha: AlphaOption = 0.1,
    replicates: ReplicatesOption = None,
    seed: SeedOption = None,
    out: RowsOption = None,
) -> None:
    """The mean size of groups, or of a numeric attribute."""
    options: dict[str, Any] = {"alpha": alpha, "replicates": replicates, "seed": seed}
    _of_one(context, folder, out, lambda made: made.mean(level, **_of_values(of, value, where), **options))


@derive_commands.command("quantile")
def quantile(
    context: typer.Context,
    folder: SavedFolder,
    level: Annotated[str, typer.Argument(metavar="LEVEL", help="The level of the areas; total for all together.")],
    q: Annotated[float, typer.Option("--q", metavar="NUMBER", help="The share below; 0.5 is the median.")] = 0.5,
    of: Of = None,
    value: Values = None,
    where: Where = None,
    alpha: AlphaOption = 0.1,
    replicates: ReplicatesOption = None,
    seed: SeedOption = None,
    out: RowsOption = None,
) -> None:
    """A quantile of sizes of groups, or of a numeric attribute."""
    options: dict[str, Any] = {"alpha": alpha, "replicates": replicates, "seed": seed}
    _of_one(context, folder, out, lambda made: made.quantile(level, q, **_of_values(of, value, where), **options))


@derive_commands.command("change")
def change(
    context: typer.Context,
    earlier: Annotated[Path, typer.Argument(metavar="EARLIER", help="The folder of the earlier release.")],
    later: Annotated[Path, typer.Argument(metavar="LATER", help="The folder of the later one.")],
    level: Annotated[
        str, typer.Argument(metavar="[LEVEL]", help="A level, or a table's levels. If absent: the total.")
    ] = "",
    crosswalk: CrosswalkOption = None,
    alpha: AlphaOption = 0.1,
    out: RowsOption = None,
) -> None:
    """By how much every number changed from one release to another."""

    def derived(releases: Sequence[Release]) -> pa.Table:
        from tallytree import change

        return change(
            releases[0], releases[1], names_in(level), crosswalk=series_options(level, crosswalk, None)[1], alpha=alpha
        )

    _derive(context, [earlier, later], out, derived)


@derive_commands.command("series")
def series(
    context: typer.Context,
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="The folders of releases, in order of time.")],
    level: Annotated[
        str, typer.Option(metavar="LEVEL", help="A level, or a table's levels. If absent: the total.")
    ] = "",
    crosswalk: CrosswalkOption = None,
    names: NamesOption = None,
    alpha: AlphaOption = 0.1,
    out: RowsOption = None,
) -> None:
    """Every number in several releases, with its changes."""

    def derived(releases: Sequence[Release]) -> pa.Table:
        from tallytree import series

        table, walks, called = series_options(level, crosswalk, names)
        return series(folders, table or (), crosswalk=walks, names=called, alpha=alpha)

    _derive(context, folders, out, derived)


@derive_commands.command("difference")
def difference(
    context: typer.Context,
    folder: SavedFolder,
    first: Annotated[
        str,
        typer.Argument(metavar="A", help="A label, such as 01001; or state=AL,county=01001; for tables also sex=f."),
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Likewise.")],
    alpha: AlphaOption = 0.1,
    replicates: ReplicatesOption = None,
    seed: SeedOption = None,
    out: RowsOption = None,
) -> None:
    """By how much the number of A is larger than that of B."""
    options: dict[str, Any] = {"alpha": alpha, "replicates": replicates, "seed": seed}
    _of_one(context, folder, out, lambda made: made.difference(_place(first), _place(second), **options))


@derive_commands.command("total-of")
def total_of(
    context: typer.Context,
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="The folders of releases, such as seven days.")],
    areas: Annotated[
        str | None, typer.Option(metavar="AREAS", help="A table of areas, as for `total`; for tables it may be absent.")
    ] = None,
    by: By = None,
    where: Where = None,
    alpha: AlphaOption = 0.1,
    replicates: ReplicatesOption = None,
    seed: SeedOption = None,
    out: RowsOption = None,
) -> None:
    """Totals of several releases together."""

    def derived(releases: Sequence[Release]) -> pa.Table:
        from tallytree import total_of

        options: dict[str, Any] = {"alpha": alpha, "replicates": replicates, "seed": seed}
        return total_of(releases, areas, by=by, where=conditions(where), progress=logs.show_bar(), **options)

    _derive(context, folders, out, derived)


_SUMS = ("numerator", "denominator")


def _of_one(context: typer.Context, folder: Path, out: Path | None, derived: Callable[[Release], pa.Table]) -> None:
    """Load one release, derive a table, and show it or write it."""
    _derive(context, [folder], out, lambda releases: derived(releases[0]))


def _derive(
    context: typer.Context,
    folders: Sequence[Path],
    out: Path | None,
    derived: Callable[[Sequence[Release]], pa.Table],
) -> None:
    """Load releases, derive a table, and show it or write it."""
    with errors_in_one_line(debug=context.obj):
        from tallytree.cli.rendering.derived_tables import sentences
        from tallytree.cli.rendering.statements import show_bound
        from tallytree.cli.rendering.terminal import open_console, show_line
        from tallytree.release import Release
        from tallytree.release.files import checked_table_file, write_table_file
        from tallytree.release.intervals import COVERS
        from tallytree.sources.leaf_paths import decoded

        target = None if out is None else checked_table_file(out)
        releases = [Release.load(folder) for folder in folders]
        made = decoded(derived(releases))
        console = open_console()
        for told in sentences(made):
            show_line(console, told)
        if target is None:
            show_totals(console, made, releases[0])
        else:
            write_table_file(made, target)
        show_bound(console, releases[0].statement)
        show_line(console, COVERS)
        show_line(console, "Nothing was spent." if target is None else f"Nothing was spent. Rows: {out}")


def _place(given: str) -> Any:
    """A label, or conditions on columns."""
    return {name: labels[0] for name, labels in (conditions(names_in(given)) or {}).items()} if "=" in given else given


def _sum(given: Sequence[str], argument: str, of_tables: bool) -> Any:
    """What a sum is of: conditions for tables, and a file for counts.

    Raises:
        ValueError: several files.
    """
    if of_tables:
        return {} if list(given) == ["all"] else conditions(given)
    if len(given) != 1:
        raise ValueError(f"{argument}: {len(given)} are given; of counts give one table of areas")
    return given[0]


def _of_values(of: str | None, value: Sequence[str] | None, where: Sequence[str] | None) -> dict[str, Any]:
    """What a mean or a quantile is of, as arguments."""
    return {"attribute": of, "values": _values(value), "where": conditions(where)}


def _values(given: Sequence[str] | None) -> dict[str, Any] | None:
    """What `--value` says, by label.

    Raises:
        ValueError: one is not of the form LABEL=NUMBER or LABEL=FROM:TO.
    """
    found: dict[str, Any] = {}
    for each in given or ():
        label, sign, said = each.rpartition("=")
        try:
            ends = [float(end) for end in said.split(":")]
        except ValueError:
            ends = []
        if not sign or len(ends) not in (1, 2):
            raise ValueError(f"value: {each[:80]!r} must be LABEL=NUMBER or LABEL=FROM:TO, such as 85+=85:100")
        found[label] = tuple(ends) if len(ends) == 2 else ends[0]
    return found or None
