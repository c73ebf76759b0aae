"""The totals of areas, at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallytree.cli.rendering.terminal import fitted_table, printable

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


def show_totals(console: Console, totals: pa.Table) -> None:
    """Show every row, as it is in the table."""
    columns = [[_shown(value) for value in column.to_pylist()] for column in totals.columns]
    headings = [printable(name) for name in totals.column_names]
    console.print(fitted_table(console, headings, list(zip(*columns, strict=True))))


def _shown(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, str):
        return printable(value)
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
