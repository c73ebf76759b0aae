"""Blocks of documentation pages, and what they print.

A block of `output` after a block that is run shows what that block prints on the screen:

    ```output           exactly
    ```output shape     the same words and marks, other numbers: the noise is fresh

To be of the same *shape*, every number is taken as `#`, and blanks, lines of tables and bars as one of them each. A
line `…` stands for all lines between those above it and those below it. Spaces at the ends of lines do not count.

Nobody types outputs: write the block empty, or with its line `…` between as many lines as are to be shown above and
below, and let the page's test fill it in:

    TALLYTREE_REFRESH=1 python -m pytest tests/docs/test_pages.py -k mobility
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REFRESH = os.environ.get("TALLYTREE_REFRESH") == "1"
SCREEN = {"COLUMNS": "96", "NO_COLOR": "1", "TERM": "dumb"}
"""Of the programs that pages run: outputs are as wide as these columns."""
_NUMBER = re.compile(r"[-−+]?\d(?:[\d,]*\d)?(?:\.\d+)?(?:e[-+]?\d+)?")
_ALIKE = re.compile(r"([ ─━═█▇░-])\1+")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        kind: its language.
        text: what is in it.
        output: the text of the `output` block that follows it, or None.
        alike: whether the output has the same shape only.
        begin: where the text of the output begins in the page.
        end: where it ends.
    """

    kind: str
    text: str
    output: str | None = None
    alike: bool = False
    begin: int = 0
    end: int = 0


def blocks(page):
    """The blocks of a page's text, each with its output."""
    found, end = [], 0
    for match in BLOCK.finditer(page):
        kind, option, text = match.groups()
        if kind == "output":
            between = page[end : match.start()]
            assert not between.strip(), f"an output follows the block that prints it: {text!r}"
            assert option in (None, "shape"), option
            before = found.pop()
            found.append(Block(before.kind, before.text, text, option == "shape", *match.span(3)))
        else:
            found.append(Block(kind, text))
        end = match.end()
    return found


def shape(text):
    """The text with `#` for every number, and one of the same for several blanks, lines or parts of bars."""
    return [_ALIKE.sub(r"\1", _NUMBER.sub("#", line)).strip() for line in lines(text)]


def lines(text):
    """Its lines without spaces at their ends, and without empty lines at both ends of the text."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()


def as_shown(shown, printed):
    """What was printed, cut as what is shown: without the lines that a line `…` stands for."""
    wanted, there = lines(shown), lines(printed)
    if "…" not in wanted:
        return there
    above = wanted.index("…")
    below = len(wanted) - above - 1
    assert len(there) >= above + below, (shown, printed)
    return [*there[:above], "…", *there[len(there) - below :]]


def differs(block, printed):
    """Whether a block printed something else than its output says."""
    there = "\n".join(as_shown(block.output, printed))
    return shape(there) != shape(block.output) if block.alike else lines(there) != lines(block.output)


def check(path, found):
    """Compare the outputs of a page with what was printed, or write them into the page if that is asked for.

    Args:
        path: of the page.
        found: pairs of a block with an output and of what it printed.
    """
    wrong = [(block, printed) for block, printed in found if differs(block, printed)]
    if REFRESH:
        page = Path(path).read_text(encoding="utf-8")
        for block, printed in reversed(wrong):
            text = "\n".join(as_shown(block.output, printed)) + "\n"
            page = page[: block.begin] + text + page[block.end :]
        Path(path).write_text(page, encoding="utf-8")
        return
    for block, printed in wrong:
        shown, there = (shape if block.alike else lines)(block.output), as_shown(block.output, printed)
        assert (shape("\n".join(there)) if block.alike else there) == shown, f"{path}: {block.text}"
