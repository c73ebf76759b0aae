"""`tallytree release` and `tallytree check`: from a spec to a release, or to what it would measure."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tallytree.cli.failures import errors_in_one_line
from tallytree.cli.rendering.statements import (
    published_rows,
    show_invariants,
    show_levels,
    show_terms,
    warn_of_seed,
)
from tallytree.cli.rendering.terminal import open_console, show_line
from tallytree.cli.shared_options import CsvOption, DatasetOption, LedgerOption, OutFolder, SpecFile


def release(
    context: typer.Context,
    spec: SpecFile,
    out: OutFolder,
    ledger: LedgerOption = None,
    dataset: DatasetOption = None,
    csv: CsvOption = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress and no summary, only warnings and invariants.")
    ] = False,
) -> None:
    """Release what SPEC.yaml describes; spends its budget."""
    with errors_in_one_line(debug=context.obj):
        from tallytree.compute.address_space import require_address_space

        require_address_space()  # compiled libraries cannot even be loaded in a very small one
        from tallytree.spec import load_spec

        loaded = load_spec(spec).recorded_in(ledger, dataset)
        warn_of_seed(loaded.seed)
        released = loaded.release(out, csv=csv, progress=not quiet and sys.stderr.isatty())
        if quiet:
            show_invariants(open_console(stderr=True), released.statement)
        else:
            console = open_console()
            show_levels(console, released.statement, published_rows(out))
            show_terms(console, released.statement)
            if loaded.ledger_path is not None:
                from tallytree.cli.rendering.ledgers import show_account

                show_account(console, loaded.ledger_path, released.statement["ledger"]["dataset"])
            show_line(console, f"Release: {out}")


def check(context: typer.Context, spec: SpecFile, ledger: LedgerOption = None, dataset: DatasetOption = None) -> None:
    """Show what SPEC.yaml would measure; spends nothing.

    The spec and its public tables are checked. No private row is read.
    """
    with errors_in_one_line(debug=context.obj):
        from tallytree.spec import load_spec

        loaded = load_spec(spec).recorded_in(ledger, dataset)
        planned = loaded.check()
        statement = planned.statement()
        warn_of_seed(loaded.seed)
        console = open_console()
        show_levels(console, statement)
        show_terms(console, statement)
        if planned.account is not None:
            from tallytree.cli.rendering.ledgers import account_line

            show_line(console, account_line(planned.account.check(), planned.account.ledger.path))
        show_line(console, f"{spec} is ready to be released. No private row was read, nothing was spent.")
