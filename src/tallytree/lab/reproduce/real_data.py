"""Real data sets, where a user has them; generated ones stand in otherwise.

A paper's real data are not ours to distribute. `docs/reference/datasets.md` has the public names of the raw files and
the way from these to the files named here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Chosen(Generic[T]):
    """A data set and where it is from.

    Attributes:
        data: the data set.
        note: the sentence for the page.
    """

    data: T
    note: str


def chosen(folder: Path | None, file: str, read: Callable[[Path], T], generate: Callable[[], T], by: str) -> Chosen[T]:
    """The real data set, if the folder has its file; otherwise a generated one.

    Args:
        folder: given by the user, or None.
        file: the name of the real data set's file.
        read: reads it.
        generate: makes the stand-in.
        by: the generator's name.
    """
    if folder is not None and (folder / file).is_file():
        return Chosen(read(folder / file), f"Real data: `{file}`.")
    missing = "" if folder is None else f", since `{file}` is not in the folder of data"
    return Chosen(generate(), f"Generated data: `{by}`{missing}; not the paper's.")
