"""The errors of a release, at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallytree.cli.rendering.terminal import fitted_table, printable

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.release import Release


def show_errors_of_levels(console: Console, release: Release) -> None:
    """Show per level: rows, the median standard deviation and interval width, and the upper bound of an absent cell."""
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
    console.print(fitted_table(console, headings, rows))
