"""The command line: `tallytree release`, `check`, `reconcile`, `error`, `ledger`, `limit`, `demo` and `audit`.

Results go to standard output; warnings, progress and errors to standard error. An error that the library means to show
is one line, `error: …`, and exit code 1; of any other only the type is shown, since its message may quote a record.
"""

from __future__ import annotations

import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallytree.cli.render_statement import published_rows, show_invariants, show_levels, show_terms
from tallytree.cli.terminal import fitted_table, open_console, show_line

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.audit import AuditResult

app = typer.Typer(
    name="tallytree",
    help="Differentially private counts over a public hierarchy, consistent at every level.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they would print local variables, which are private data
    rich_markup_mode=None,
)

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC.yaml", help="The spec; its keys are in docs/spec.md.")]
OutFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to make; it must not exist yet.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Write every table as CSV too.")]
LedgerFile = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger; see docs/ledger.md.")]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="LEDGER",
        help="The file with what was spent; goes before the spec's. Only release writes to it.",
    ),
]
DatasetOption = Annotated[
    str | None, typer.Option("--dataset", metavar="NAME", help="The data set's name in the ledger.")
]


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A label that the terminal cannot show must not make a paid release fail.
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    # Leave by way of an exception when terminated, so that temporary folders with private rows are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app(prog_name="tallytree")
    except KeyboardInterrupt:
        sys.exit(130)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning of the library as one line, without the place in its code."""
    print(f"warning: {message}", file=sys.stderr)  # noqa: T201


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tallytree {version('tallytree')}")
        raise typer.Exit


@app.callback()
def _global_options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", envvar="TALLYTREE_DEBUG", hidden=True)] = False,
) -> None:
    context.obj = debug


@app.command()
def release(
    context: typer.Context,
    spec: SpecFile,
    out: OutFolder,
    ledger: LedgerOption = None,
    dataset: DatasetOption = None,
    csv: CsvOption = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress and no summary; warnings and invariants are still shown.")
    ] = False,
) -> None:
    """Release what SPEC.yaml asks for; spends its budget."""
    with _errors_in_one_line(debug=context.obj):
        from tallytree.spec import load_spec

        loaded = load_spec(spec).recorded_in(ledger, dataset)
        _warn_of_seed(loaded.seed)
        released = loaded.release(out, csv=csv, progress=not quiet and sys.stderr.isatty())
        if quiet:
            show_invariants(open_console(stderr=True), released.statement)
        else:
            console = open_console()
            show_levels(console, released.statement, published_rows(out))
            show_terms(console, released.statement)
            if loaded.ledger_path is not None:
                _show_account(console, loaded.ledger_path, released.statement["ledger"]["dataset"])
            show_line(console, f"Release: {out}")


@app.command()
def check(context: typer.Context, spec: SpecFile, ledger: LedgerOption = None, dataset: DatasetOption = None) -> None:
    """Show what SPEC.yaml would measure; spends nothing.

    Everything is validated, but no private row is read.
    """
    with _errors_in_one_line(debug=context.obj):
        from tallytree.spec import load_spec

        loaded = load_spec(spec).recorded_in(ledger, dataset)
        job = loaded.check()
        statement = job.statement()
        _warn_of_seed(loaded.seed)
        console = open_console()
        show_levels(console, statement)
        show_terms(console, statement)
        if job.account is not None:
            from tallytree.cli.render_ledger import account_line

            show_line(console, account_line(job.account.check(), job.account.ledger.path))
        show_line(console, f"{spec} is ready to be released. No private row was read, nothing was spent.")


@app.command()
def reconcile(
    context: typer.Context,
    earlier: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release of group sizes.")],
    spec: SpecFile,
    out: OutFolder,
    csv: CsvOption = False,
) -> None:
    """Make the tables of the release in DIR again; spends nothing.

    Its noisy measurements are reconciled by the mechanism that SPEC.yaml names, over its hierarchy; other keys are not
    read, and records are not opened.
    """
    with _errors_in_one_line(debug=context.obj):
        from tallytree.release import Release
        from tallytree.spec import load_spec

        made = load_spec(spec).reconcile(Release.load(earlier), out, csv=csv)
        if not made.statement["private"]:
            show_line(open_console(stderr=True), "WARNING: NOT PRIVATE. The noise was drawn from a seed.", "bold red")
        console = open_console()
        show_levels(console, made.statement, published_rows(out))
        show_terms(console, made.statement, "Nothing was spent. The measurements had spent")
        show_line(console, f"Release: {out}")


@app.command("error")
def show_errors(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")],
    replicates: Annotated[
        int, typer.Option("--replicates", metavar="NUMBER", help="How often the release is measured again.")
    ] = 50,
    alpha: Annotated[float, typer.Option("--alpha", help="Intervals are to miss the true number so often.")] = 0.1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="NEW", help="Make a new folder and leave DIR as it is.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Makes the replicates reproducible, for tests.")] = None,
) -> None:
    """Add the error of every number to the tables of the release in DIR; spends nothing.

    The published numbers are measured and reconciled again with fresh noise. Tables get std_dev, ci_lower, ci_upper.
    """
    with _errors_in_one_line(debug=context.obj):
        from tallytree.cli.render_errors import show_errors_of_levels
        from tallytree.postprocess.replicate_errors import replicate_errors
        from tallytree.release import refuse_existing, require_writable
        from tallytree.release.replacing import replace_release

        if out is not None:
            require_writable(refuse_existing(out))
        made = replicate_errors(folder, replicates, alpha=alpha, seed=seed, progress=sys.stderr.isatty())
        if out is None:
            replace_release(made, folder)
        else:
            made.save(out)
        console = open_console()
        show_errors_of_levels(console, made)
        show_line(console, made.statement["errors"]["covers"])
        show_line(console, f"Nothing was spent. Release: {folder if out is None else out}")


@app.command("ledger")
def show_ledger(
    context: typer.Context,
    ledger: LedgerFile,
    dataset: DatasetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with exact amounts.")] = False,
) -> None:
    """List what LEDGER has recorded: releases, what they spent, limits."""
    with _errors_in_one_line(debug=context.obj):
        from tallytree.cli.render_ledger import ledger_json, show_listing
        from tallytree.ledger import Ledger

        opened = Ledger(ledger)
        found = opened.datasets() if dataset is None else (opened.dataset(dataset),)
        if as_json:
            typer.echo(ledger_json(found))
        else:
            show_listing(open_console(), found)


@app.command()
def limit(
    context: typer.Context,
    ledger: LedgerFile,
    dataset: Annotated[str, typer.Argument(metavar="NAME", help="The data set's name in the ledger.")],
    epsilon: Annotated[str | None, typer.Option(metavar="NUMBER", help="ε, alone or with --delta.")] = None,
    delta: Annotated[str | None, typer.Option(metavar="NUMBER", help="δ, beside --epsilon.")] = None,
    rho: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="ρ, alone; it counts every kind of release.")
    ] = None,
    neighboring: Annotated[
        str | None, typer.Option(metavar="RELATION", help="add_remove or change_one; for a data set that is new.")
    ] = None,
    max_contributions: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="The most records of one person; 1 for one that is new.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(metavar="UNIT", help="record, trip or membership; else that of the first release.")
    ] = None,
) -> None:
    """Set what all releases of a data set together may spend.

    LEDGER is made where there is none. Releases that were recorded already count.
    """
    with _errors_in_one_line(debug=context.obj):
        from tallytree.budget import Budget
        from tallytree.ledger import Ledger
        from tallytree.spec.scalars import written_number

        amounts: dict[str, Any] = {
            name: written_number(text, name)
            for name, text in (("epsilon", epsilon), ("delta", delta), ("rho", rho))
            if text is not None
        }
        if not amounts:
            raise ValueError(
                "epsilon: no amount is given; add --epsilon NUMBER, with --delta or without, or --rho NUMBER"
            )
        terms: dict[str, Any] = {"neighboring": neighboring, "max_contributions": max_contributions, "unit": unit}
        Ledger(ledger).set_limit(dataset, Budget(**amounts), **terms)
        _show_account(open_console(), ledger, dataset)


@app.command()
def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder to make, or an earlier demo to replace.")
    ] = Path("tallytree-demo"),
) -> None:
    """Make a small data set and release it.

    Households by size and commutes, as synthetic data; the published numbers are compared with the true ones.
    """
    with _errors_in_one_line(debug=context.obj):
        from tallytree.cli.demo import make_demo

        console = open_console()
        make_demo(out, console, progress=sys.stderr.isatty())


@app.command()
def audit(
    context: typer.Context,
    mechanism: Annotated[
        str | None, typer.Option("--mechanism", metavar="NAME", help="Audit this one only, for instance TopDown.")
    ] = None,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The privacy loss that is stated.")] = 1.0,
    runs: Annotated[int, typer.Option("--runs", help="How often everything is measured under each input.")] = 50_000,
) -> None:
    """Look for privacy losses beyond what the mechanisms state.

    Every mechanism is run many times on small neighbouring inputs; exit code 1 if any lost more than it stated. Reads
    no data and takes minutes.
    """
    with _errors_in_one_line(debug=context.obj):
        from tallytree.audit.auditing import DEFAULT_CONFIDENCE
        from tallytree.audit.library import library_cases
        from tallytree.pipeline.progress import audit_progress

        cases = library_cases(epsilon, mechanism)
        with audit_progress(sys.stderr.isatty(), len(cases)) as begin:
            rows = []
            failed = 0
            for case in cases:
                begin(case.name)
                result = case.run(runs=runs)
                failed += not result.passed
                rows.append([case.name, case.neighboring, str(case.max_contributions), *_audited(result)])
        console = open_console()
        headings = ["mechanism", "neighboring", "m", "stated", "at least", "exact", "verdict"]
        console.print(fitted_table(console, headings, rows))
        show_line(
            console,
            f"{len(cases) - failed} of {len(cases)} passed. Each lower bound is right with confidence "
            f"{DEFAULT_CONFIDENCE}, from {runs:,} runs; where noise is Gaussian, ε is at δ = 1e-06. "
            "docs/audit.md says what this shows.",
        )
    if failed:
        raise typer.Exit(1)


def _audited(result: AuditResult) -> list[str]:
    """What was stated, what was found, what is exact, and the verdict."""
    losses: list[tuple[str, float, float | None, float | None]]
    losses = [("ε", result.epsilon_stated, result.epsilon_lower, result.exact_epsilon)]
    if result.rho_stated is not None and result.rho_lower is not None:
        losses.append(("ρ", result.rho_stated, result.rho_lower, result.exact_rho))
    elif result.exact_delta is not None:  # a threshold, whose loss is in δ
        losses.append(("δ", result.delta, None, result.exact_delta))
    columns = [[f"{name} {values[i]:.3g}" for name, *values in losses if values[i] is not None] for i in range(3)]
    return [*(", ".join(column) for column in columns), "passed" if result.passed else "FAILED"]


@contextmanager
def _errors_in_one_line(*, debug: bool) -> Iterator[None]:
    """Turn exceptions into `error: …` on standard error and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise  # whoever reads our output has seen enough; typer knows what to do
    except Exception as error:  # noqa: BLE001 (the last line of defence)
        if debug:
            typer.echo(traceback.format_exc(), err=True, nl=False)
        typer.secho(f"error: {_in_one_line(_message(error))}", fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from None


def _message(error: Exception) -> str:
    """What may be shown of an error: all of those that the library raises on purpose, the type of others."""
    from tallytree.errors import ARGUMENT, BudgetExceeded, SpecError

    if isinstance(error, SpecError | BudgetExceeded | ImportError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    # Not subclasses of them, which are other libraries'.
    if type(error) in (ValueError, TypeError, MemoryError) and ARGUMENT.match(str(error)):
        return str(error)
    return (
        f"{type(error).__name__}, which was not expected; its message is withheld because it may quote a record. "
        "Run `tallytree --debug …` to see it, and please report it without private values"
    )


def _in_one_line(message: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


def _show_account(console: Console, ledger: Path, dataset: str) -> None:
    """What a data set has spent; what was done before stands even where this cannot be read."""
    from tallytree.cli.render_ledger import account_line
    from tallytree.ledger import Ledger

    try:
        show_line(console, account_line(Ledger(ledger).dataset(dataset), ledger))
    except (OSError, ValueError) as error:
        show_line(open_console(stderr=True), f"The ledger cannot be shown: {_in_one_line(str(error))}", "yellow")


def _warn_of_seed(seed: int | None) -> None:
    if seed is not None:
        show_line(
            open_console(stderr=True),
            f"WARNING: NOT PRIVATE. The noise is drawn from seed {seed}, so it can be removed; for experiments only.",
            "bold red",
        )
