"""`tallytree reconcile` and `tallytree error`: post-processing of a release, which spends nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallytree.cli import logs
from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.statements import published_rows, show_levels, show_terms
from tallytree.cli.rendering.terminal import open_console, show_line
from tallytree.cli.shared_options import CsvOption, OutFolder, ReportOption, SetOption, SpecFile
from tallytree.cli.written_report import report_beside


def reconcile(
    context: typer.Context,
    earlier: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release of group sizes.")],
    spec: SpecFile,
    out: OutFolder,
    changes: SetOption = None,
    csv: CsvOption = False,
    report: ReportOption = True,
) -> None:
    """Make the tables of the release in DIR again; spends nothing.

    Its noisy measurements are reconciled by the mechanism in SPEC.yaml, over the hierarchy in SPEC.yaml. Other keys of
    the spec are not used, and records are not opened.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.release import Release
        from tallytree.spec import load_spec

        made = load_spec(spec, changes=changes or ()).reconcile(Release.load(earlier), out, csv=csv)
        report_beside(out, wanted=report)
        if not made.statement["private"]:
            logs.loud_warning("NOT PRIVATE. The noise was drawn from a seed.")
        console = open_console()
        show_levels(console, made.statement, published_rows(out))
        show_terms(console, made.statement, "Nothing was spent. The measurements had spent")
        show_line(console, f"Release: {out}")


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
    csv: CsvOption = False,
    report: ReportOption = True,
) -> None:
    """Add the error of every number to a release; spends nothing.

    The tables in DIR get the columns std_dev, ci_lower and ci_upper. Counts by LeastSquares have the errors of their
    own fit. Other errors come from a parametric bootstrap: the published numbers are measured and reconciled again,
    with fresh noise.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.cli.rendering.level_errors import show_errors_of_levels
        from tallytree.postprocess.fitted_errors import METHOD, fitted_errors, has_fitted_errors
        from tallytree.postprocess.replicate_errors import DEFAULT_REPLICATES, replicate_errors
        from tallytree.release import Release, refuse_existing, require_writable
        from tallytree.release.replacing import replace_release

        if out is not None:
            require_writable(refuse_existing(out))
        release = Release.load(folder)
        if not replicates and has_fitted_errors(release):
            made = fitted_errors(release, alpha=alpha)
        else:
            rounds = DEFAULT_REPLICATES if replicates is None else replicates
            made = replicate_errors(release, rounds, alpha=alpha, seed=seed, progress=logs.show_bar())
        if out is None:
            replace_release(made, folder, csv=csv)
        else:
            made.save(out, csv=csv)
        report_beside(folder if out is None else out, wanted=report)
        console = open_console()
        show_errors_of_levels(console, made)
        if made.statement["errors"]["method"] == METHOD:
            show_line(console, "These errors are those of the release's own fit; --replicates 50 estimates others.")
        show_line(console, made.statement["errors"]["covers"])
        show_line(console, f"Nothing was spent. Release: {folder if out is None else out}")
