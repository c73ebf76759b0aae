"""What a planted fault is, and how it gets into a copy of the sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tallytree"

SEEN = '__import__("builtins").seen_by_a_mutant'
"""Where planted code keeps a true number for planted code in another module."""

KEEPS_THE_TOTAL = (
    "super().__init__(tree, dict(enumerate(reversed(levels))), lambda depth, nodes: True, distinct=distinct)\n",
    "super().__init__(tree, dict(enumerate(reversed(levels))), lambda depth, nodes: True, distinct=distinct)\n"
    f"        {SEEN} = int(counts.sum())\n",
)
"""The texts of an edit that keeps the true total of counts there."""


@dataclass(frozen=True)
class Mutant:
    """A planted fault.

    Attributes:
        name: what is wrong, in words.
        check: what must catch it: arguments of pytest, or a command that begins with `tallytree`.
        edits: texts that are found once in all of `src/tallytree`, each with the text to put in its place. They are
            found by their text, so that a file can be moved.
    """

    name: str
    check: str
    edits: tuple[tuple[str, str], ...]


def fault(name: str, check: str, *texts: str) -> Mutant:
    """A planted fault; `texts` are a text, what is put in its place, the next text, and so on."""
    return Mutant(name, check, tuple(zip(texts[::2], texts[1::2], strict=True)))


def sources(folder: Path = SOURCE) -> dict[Path, str]:
    """The text of every source file."""
    return {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}


def mutated(mutant: Mutant, texts: Mapping[Path, str]) -> dict[Path, str]:
    """The files that the fault changes, with their new text.

    Raises:
        LookupError: a text is not found, or more than once.
    """
    changed: dict[Path, str] = {}
    for find, put in mutant.edits:
        found = {path: text.count(find) for path, text in texts.items() if find in text}
        if sum(found.values()) != 1:
            places = ", ".join(f"{path.name} ({times})" for path, times in found.items()) or "nowhere"
            raise LookupError(f"{mutant.name}: the text must be found once, and is found in {places}:\n{find}")
        (path,) = found
        changed[path] = changed.get(path, texts[path]).replace(find, put)
    return changed
