"""The errors of a release, at a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tallytree.cli.rendering.terminal import fitted_table, printable, show_line

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from tallytree.release import Release


def show_errors_of_levels(console: Console, release: Release) -> None:
    """Show per level: rows, the median standard deviation and interval width; where cells are absent, their bound."""
    errors = release.statement["errors"]
    percent = f"{100 * (1 - errors['alpha']):g} %"
    headings = ["level", "rows", "median std dev", f"median width ({percent})", "absent cells: at most"]
    rows = []
    for stated in errors["levels"]:
        table = release.table(stated["level"])
        known, listed = "ci_upper" in table.column_names, table.num_rows > 0
        std_dev = np.median(table["std_dev"].to_numpy()) if known and listed else 0.0
        width = np.median(table["ci_upper"].to_numpy() - table["ci_lower"].to_numpy()) if known and listed else 0.0
        hidden = stated["unlisted_ci_upper"]
        rows.append(
            [
                printable(stated["level"]),
                f"{table.num_rows:,}",
                f"{std_dev:.4g}" if known else "not known",
                f"{width:,.0f}" if known else "not known",
                "" if hidden is None else f"{hidden:,}",
            ]
        )
    if not any(row[-1] for row in rows):  # tables that list every cell
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    console.print(fitted_table(console, headings, rows))


def show_all_records(console: Console, made: Mapping[str, pa.Table]) -> None:
    """Show estimates of all records by level: rows, the spread that was used, the largest estimate, and widths."""
    from tallytree._derived.all_records import described_estimate
    from tallytree.release.contributions_table import percent

    rows = []
    for level, table in made.items():
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
