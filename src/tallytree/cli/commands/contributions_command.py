"""`tallytree contributions`: people by their number of records, to choose the contribution bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.opened_spec import is_finished, opened_spec, show_end, showing_what_is_paid
from tallytree.cli.rendering.statements import say_repeated, show_choices, show_marks
from tallytree.cli.rendering.terminal import fitted_table, open_console, show_line
from tallytree.cli.shared_options import (
    AllowCodeOption,
    CsvOption,
    FallbackOption,
    IfExistsOption,
    ReleaseFolder,
    SetOption,
    SpecFile,
    takes_options_of_a_run,
)
from tallytree.support.stages import run_progress

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.release import Release


@takes_options_of_a_run("memory")
def contributions(
    context: typer.Context,
    spec: SpecFile,
    out: ReleaseFolder,
    options: Mapping[str, Any],
    share: Annotated[
        float | None,
        typer.Option(
            "--share",
            metavar="NUMBER",
            help="The share of the spec's budget to spend; by default that of its contributions, or all of it.",
        ),
    ] = None,
    at_most: Annotated[
        int | None,
        typer.Option(
            "--at-most",
            metavar="NUMBER",
            help="Public: people with more records are counted as with so many; by default the spec's, or 1,000.",
        ),
    ] = None,
    if_exists: IfExistsOption = "error",
    fallback_out: FallbackOption = None,
    changes: SetOption = None,
    allow_code: AllowCodeOption = False,
    csv: CsvOption = False,
) -> None:
    """Count people by their records; recommends a bound.

    The bound is max_contributions of the release that SPEC.yaml describes. That one is not made. The numbers of people
    are a release of their own, which spends budget. The privacy unit is a person with all of their records. SPEC.yaml
    must name the people (person).
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.run.output import Output

        loaded = opened_spec(context, spec, changes, allow_code=allow_code, **options)
        output = Output(out, if_exists, fallback_out, csv, on_repeated=say_repeated)
        if is_finished(loaded, output, statistic="contributions"):
            return
        with run_progress(logs.show_bar()):
            released = loaded.release_contributions(output, share=share, at_most=at_most)
        with showing_what_is_paid(loaded, released, out):
            console = open_console()
            show_marks(console, released.statement)
            show_contributions(console, released)
            show_end(console, loaded, released, out)


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
