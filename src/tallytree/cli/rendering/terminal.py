"""Consoles, lines that are not wrapped, and tables that fit the width of the terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def open_console(*, stderr: bool = False) -> Console:
    """A console that shows text unchanged; a pipe is 120 columns wide."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 120  # a pipe or a file has no width of its own
    return console


def show_line(console: Console, text: str, style: str = "") -> None:
    """Show a line without wrapping, so that paths and sentences stay in one piece."""
    console.print(text, style=style or None, soft_wrap=True)


def fitted_table(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    """A table with numbers aligned right; where the console is too narrow for it, one paragraph per row instead."""
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    columns = list(zip(*rows, strict=True))
    widths = [
        max(cell_len(text) for text in (*heading.split(), *cells))
        for heading, cells in zip(headings, columns, strict=True)
    ]
    if sum(widths) + 2 * (len(widths) - 1) > console.width:
        paragraphs = []
        for name, *cells in rows:
            facts = (f"{heading} {cell}" for heading, cell in zip(headings[1:], cells, strict=True) if cell)
            paragraphs.append(f"{name}: {', '.join(facts)}")
        return Text("\n".join(paragraphs))
    for heading, column, width in zip(headings, columns, widths, strict=True):
        numeric = any(cell[:1].isdigit() for cell in column)
        table.add_column(heading, justify="right" if numeric else "left", min_width=width, vertical="bottom")
    for row in rows:
        table.add_row(*row)
    return table


def printable(text: str) -> str:
    """The text with control characters, which could move the cursor, replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
