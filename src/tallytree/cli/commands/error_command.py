"""`tallytree error`: the error of every number of a release; spends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallytree.cli import logs
from tallytree.cli.commands.report_command import report_beside
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.statements import (
    show_bound,
    shown_names,
)
from tallytree.cli.rendering.terminal import filled_columns, fitted_table, open_console, printable, show_line
from tallytree.cli.shared_options import AllowCodeOption, CsvOption, ReportOption
from tallytree.kinds.kind import Kind
from tallytree.kinds.registry import kind_of

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from tallytree.release import Release


def show_errors(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")],
    replicates: Annotated[
        int | None,
        typer.Option(
            "--replicates",
            metavar="NUMBER",
            help="The number of replicates of the bootstrap. If absent: none where the release has the errors of its "
            "own fit, else 50.",
        ),
    ] = None,
    alpha: Annotated[
        float, typer.Option("--alpha", metavar="NUMBER", help="The share of intervals that may miss the true number.")
    ] = 0.1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="NEW", help="Make a new folder and leave DIR unchanged.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="NUMBER", help="Makes the replicates reproducible, for tests.")
    ] = None,
    allow_code: AllowCodeOption = False,
    csv: CsvOption = False,
    report: ReportOption = True,
    all_records: Annotated[
        bool,
        typer.Option(
            "--all-records",
            help="Estimate all records, also those that the contribution bound left out, with intervals; DIR stays as "
            "it is, and --out gets a file for each level. Needs --spread or --like.",
        ),
    ] = False,
    spread: Annotated[
        float | None,
        typer.Option(
            "--spread",
            metavar="NUMBER",
            help="With --all-records, an assumption: the standard deviation between areas of the records left out for "
            "each one that counts, relative to that of all, such as 0.5.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="TABLE",
            help="With --all-records: PUBLIC records of an earlier period (Parquet, CSV) with people's ids, that show "
            "how the share differs between areas.",
        ),
    ] = None,
) -> None:
    """Add the error of every number to a release; spends nothing.

    The tables in DIR get the columns std_dev, ci_lower and ci_upper. Counts by LeastSquares have the errors of their
    own fit. Other errors come from a parametric bootstrap: the published numbers are measured and reconciled again,
    with fresh noise.
    """
    with errors_in_one_line(debug=context.obj):
        if all_records:
            for name, given in (("replicates", replicates), ("seed", seed)):
                if given is not None:
                    raise ValueError(
                        f"{name}: {given} has no use with --all-records, which draws nothing; leave it out"
                    )
            _estimate_all_records(folder, out, alpha, spread, like, csv=csv)
            return
        for name, unused in (("spread", spread), ("like", like)):
            if unused is not None:
                raise ValueError(f"{name}: it is about estimates of all records; add --all-records")
        from tallytree.kinds.foreign import import_code
        from tallytree.numbers.accuracy.fitted_errors import METHOD, fitted_errors, has_fitted_errors
        from tallytree.numbers.accuracy.replicate_errors import DEFAULT_REPLICATES, replicate_errors
        from tallytree.release import Release, refuse_existing, require_writable
        from tallytree.release.replacing import replace_release

        if out is not None:
            require_writable(refuse_existing(out))
        release = Release.load(folder)
        if allow_code:
            import_code(release.statement)
        if not replicates and has_fitted_errors(release):
            made = fitted_errors(release, alpha=alpha)
        else:
            rounds = DEFAULT_REPLICATES if replicates is None else replicates
            made = replicate_errors(release, rounds, alpha=alpha, seed=seed, progress=logs.show_bar())
        if out is None:
            replace_release(made, folder, csv=csv)
        else:
            made.save(out, csv=csv)
        report_beside(folder if out is None else out, wanted=report, earlier=None if out is None else folder)
        console = open_console()
        show_errors_of_levels(console, made)
        show_bound(console, made.statement)
        if made.statement["errors"]["method"] == METHOD:
            show_line(console, "These errors are those of the release's own fit; --replicates 50 estimates others.")
        show_line(console, made.statement["errors"]["covers"])
        show_line(console, f"Nothing was spent. Release: {folder if out is None else out}")


def _estimate_all_records(
    folder: Path, out: Path | None, alpha: float, spread: float | None, like: str | None, *, csv: bool
) -> None:
    """Show estimates of all records by level, and write them to a new folder where `out` is given."""
    from tallytree.numbers.all_records import scaled_levels
    from tallytree.release import Release, refuse_existing, require_writable
    from tallytree.release.files import whole_folder, write_table_file
    from tallytree.release.manifest import table_stem

    if out is not None:
        require_writable(refuse_existing(out))
    release = Release.load(folder)
    kind = kind_of(release.statement)
    made = scaled_levels(release, release.levels, spread=spread, like=like, alpha=alpha)
    if out is not None:
        with whole_folder(out) as building:
            for level, table in made.items():
                for suffix in ("parquet", *(("csv",) if csv else ())):
                    write_table_file(table, building / f"{table_stem(level, kind)}.{suffix}")
    console = open_console()
    show_all_records(console, made, kind)
    written = "" if out is None else f" Estimates: {out}"
    show_line(console, f"Nothing was spent, and {folder} is as it was.{written}")


def show_errors_of_levels(console: Console, release: Release) -> None:
    """Show per level: rows, the median standard deviation and interval width; where cells are absent, their bound."""
    import numpy as np

    errors = release.statement["errors"]
    percent = f"{100 * (1 - errors['alpha']):g} %"
    headings = ["level", "rows", "median std dev", f"median width ({percent})", "absent cells: at most"]
    rows = []
    names = shown_names(kind_of(release.statement), [stated["level"] for stated in errors["levels"]])
    for name, stated in zip(names, errors["levels"], strict=True):
        table = release.table(stated["level"])
        known, listed = "ci_upper" in table.column_names, table.num_rows > 0
        std_dev = np.median(table["std_dev"].to_numpy()) if known and listed else 0.0
        width = np.median(table["ci_upper"].to_numpy() - table["ci_lower"].to_numpy()) if known and listed else 0.0
        hidden = stated["unlisted_ci_upper"]
        rows.append(
            [
                printable(name),
                f"{table.num_rows:,}",
                f"{std_dev:.4g}" if known else "not known",
                f"{width:,.0f}" if known else "not known",
                "" if hidden is None else f"{hidden:,}",
            ]
        )
    console.print(fitted_table(console, *filled_columns(headings, rows)))


def show_all_records(console: Console, made: Mapping[str, pa.Table], kind: Kind) -> None:
    """Show estimates of all records by level: rows, the spread that was used, the largest estimate, and widths."""
    import numpy as np

    from tallytree.numbers.all_records import described_estimate
    from tallytree.release.contributions_table import percent

    rows = []
    for level, table in zip(shown_names(kind, [*made]), made.values(), strict=True):
        estimate, lower, upper = (table.column(name).to_numpy() for name in ("estimate", "ci_lower", "ci_upper"))
        largest = int(np.argmax(estimate)) if len(estimate) else None
        shown = "" if largest is None else f"{estimate[largest]:,} ({lower[largest]:,} to {upper[largest]:,})"
        width = f"{np.median(upper - lower):,.0f}" if len(estimate) else ""
        rows.append(
            [printable(level), f"{len(estimate):,}", f"{described_estimate(table)['spread']:.3g}", shown, width]
        )
    console.print(fitted_table(console, ["level", "rows", "spread", "largest, with interval", "median width"], rows))
    finest = described_estimate([*made.values()][-1])
    show_line(console, finest["summary"])
    share = finest["share_left_out"]
    ends = f"{percent(share['ci_lower'])} to {percent(share['ci_upper'])}"
    show_line(console, f"Share left out, of all areas: {percent(share['estimate'])} (interval {ends}).")
