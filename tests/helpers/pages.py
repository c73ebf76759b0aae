"""Blocks of documentation pages, and what they print.

A block of `output` after a block that is run shows what that block prints on the screen:

    ```output           exactly
    ```output shape     the same words and marks, other numbers: the noise is fresh

To be of the same *shape*, every number and every digest is taken as `#`, and several blanks, or parts of a line or of
a bar, as one. A line `…` stands for all lines between those above it and those below it. Spaces at the ends of lines
do not count.

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
_DIGEST = re.compile(r"\b[0-9a-f]{8}(?:[0-9a-f]{56})?\b")
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


def commands(text):
    """The commands of a console block: lines after `$ `, continued after a backslash, without their comments."""
    joined = text.replace("\\\n", " ")
    return [re.sub(r"\s+#.*", "", line[2:]) for line in joined.splitlines() if line.startswith("$ ")]


def lines(text):
    """Its lines without spaces at their ends, and without empty lines at both ends of the text."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()


def as_shown(shown, printed):
    """The lines that were printed, cut as what is shown: without those that a line `…` stands for."""
    wanted, there = lines(shown), lines(printed)
    if "…" not in wanted:
        return there
    above = wanted.index("…")
    below = len(wanted) - above - 1
    assert len(there) >= above + below, (shown, printed)
    return [*there[:above], "…", *there[len(there) - below :]]


def compared(block, printed):
    """The lines of a block's output, and of what it printed, in the form in which they must be equal."""
    both = lines(block.output), as_shown(block.output, printed)
    return tuple([_shape(line) for line in each] if block.alike else each for each in both)


def _shape(line):
    return _ALIKE.sub(r"\1", _NUMBER.sub("#", _DIGEST.sub("#", line))).strip()


def check(path, found):
    """Compare the outputs of a page with what was printed, or write them into the page if that is asked for.

    Args:
        path: of the page.
        found: pairs of a block with an output and of what it printed, in the order of the page.
    """
    page = Path(path).read_text(encoding="utf-8")
    for block, printed in reversed(found):
        shown, there = compared(block, printed)
        if shown != there and REFRESH:
            assert page[block.begin : block.end] == block.output, f"{path} was changed while its blocks ran"
            page = page[: block.begin] + "\n".join(as_shown(block.output, printed)) + "\n" + page[block.end :]
        else:
            assert there == shown, f"{path}: {block.text}"
    if REFRESH:
        Path(path).write_text(page, encoding="utf-8")
