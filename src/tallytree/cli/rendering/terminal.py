"""Consoles, sentences that are broken at spaces, and tables that fit the width of the terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

NUL = "\0"
"""Stands for a space at which no line is broken."""

HANGING = 2
"""How much the lines of a sentence are indented that follow its first one, where this has no mark of a list."""

_COMMAND = re.compile("`[^`]+`")
_BEGIN = re.compile(r" *(?:\* |\[.\] )?")
"""What is before the text of a line: blanks, and the mark of a list or of a checklist."""


def open_console(*, stderr: bool = False) -> Console:
    """A console that shows text unchanged; a pipe is 120 columns wide."""
    from rich.console import Console

    class Shown(Console):
        """Raises what rich turns into an exit of the program with code 1, which only the command may decide."""

        def on_broken_pipe(self) -> None:
            raise  # rich calls it while it handles the error

    console = Shown(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 120  # a pipe or a file has no width of its own
    return console


def show_line(console: Console, text: str, style: str = "") -> None:
    """Show a sentence: at a terminal broken at spaces, elsewhere as one line, which a program can look for."""
    lines = wrapped(text, console.width) if console.file.isatty() else [text]
    for line in lines:
        show_command(console, line, style)


def show_command(console: Console, text: str, style: str = "") -> None:
    """Show a command, which is to be copied, in one piece."""
    console.print(text, style=style or None, soft_wrap=True)


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, broken at spaces alone, and not inside a command in backticks, which is to be copied.

    A word that is longer than a line, such as a path, stays whole; a command that is longer is broken.
    """
    found = _BEGIN.match(text)
    first = found[0] if found else ""
    indent = " " * (len(first) if first.strip() else len(first) + HANGING)

    def in_one_piece(command: re.Match[str]) -> str:
        fits = len(indent) + len(command[0]) <= width
        return command[0].replace(" ", NUL) if fits else command[0]

    return _broken(_COMMAND.sub(in_one_piece, text[len(first) :]), width, first, indent)


def _broken(text: str, width: int, first: str, indent: str) -> list[str]:
    """The lines of a text, broken at its spaces; a NUL becomes a space. Letters may be two cells wide."""
    from rich.cells import cell_len

    words = [word.replace(NUL, " ") for word in text.split(" ")]
    lines = [first + words[0]]
    for word in words[1:]:
        if cell_len(lines[-1]) + 1 + cell_len(word) > width:
            lines.append(indent + word)
        else:
            lines[-1] += f" {word}"
    return lines


def fitted_table(
    console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]], prose: Collection[str] = ()
) -> RenderableType:
    """A table with numbers aligned right; where the console is too narrow for it, one paragraph per row instead.

    Args:
        console: the terminal.
        headings: of the columns.
        rows: their cells.
        prose: headings of columns whose cells may be broken at spaces.
    """
    from rich import box
    from rich.table import Table

    columns = list(zip(*rows, strict=True))
    widths = _column_widths(console.width, headings, columns, prose)
    if widths is None:
        return _paragraphs(console.width, headings, rows)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading, column, width in zip(headings, columns, widths, strict=True):
        numeric = any(cell[:1].isdigit() for cell in column)
        side: Literal["left", "right"] = "right" if numeric else "left"
        table.add_column(heading, justify=side, width=width, vertical="top" if prose else "bottom")
    for row in rows:
        table.add_row(*row)
    return table


def filled_columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows without the columns that are empty everywhere."""
    kept = [i for i in range(len(headings)) if any(row[i] for row in rows)]
    return [headings[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _column_widths(
    width: int, headings: Sequence[str], columns: Sequence[Sequence[str]], prose: Collection[str]
) -> list[int] | None:
    """The width of every column, none narrower than its cells and words; None where `width` is less than these need.

    rich cuts cells where it has to shrink columns, so the widths are fixed here. What is left of `width` goes to prose,
    where this is most cramped, and then to headings that then fit on one line, from left to right.
    """
    from rich.cells import cell_len

    needed, wanted = [], []
    for heading, cells in zip(headings, columns, strict=True):
        texts = [*heading.split(), *cells]
        wanted.append(max(map(cell_len, texts)))
        words = [word for text in texts for word in text.split()]
        needed.append(max(map(cell_len, words)) if heading in prose else wanted[-1])
    left = width - sum(needed) - 2 * (len(needed) - 1)
    if left < 0:
        return None
    for _ in range(min(left, sum(wanted) - sum(needed))):
        cramped = max(range(len(needed)), key=lambda i: wanted[i] / needed[i] if wanted[i] > needed[i] else 0)
        needed[cramped] += 1
        left -= 1
    for i, heading in enumerate(headings):
        more = max(cell_len(heading) - needed[i], 0)
        if more <= left:
            needed[i] += more
            left -= more
    return needed


def _paragraphs(width: int, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    """One paragraph per row: its first cell, then every other cell after its heading; empty cells are left out."""
    from rich.text import Text

    paragraphs = []
    for name, *cells in rows:
        facts = [f"{heading} {cell}" for heading, cell in zip(headings[1:], cells, strict=True) if cell]
        unbroken = f"{name}: {', '.join(fact.replace(' ', NUL) for fact in facts)}"
        paragraphs += _broken(unbroken, width, "", "    ")
    return Text("\n".join(paragraphs))


def printable(text: str) -> str:
    """The text with control characters, which could move the cursor, replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
