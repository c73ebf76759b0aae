"""Whether two table arguments are the same table, so that a private one is not taken for a public one."""

from __future__ import annotations

import contextlib
import glob
import os
from itertools import islice
from pathlib import Path
from typing import Any

MOST_FILES = 10_000
"""A folder with more files is no table."""


def refuse_private(public: Any, argument: str, private: Any, private_argument: str) -> None:
    """Refuse the private table in place of a public one: its rows would be published as they are.

    Files are compared by what they are, whatever they are called (links, patterns); tables in memory by identity.

    Raises:
        ValueError: they are the same, or have a file in common.
    """
    if public is None or private is None:
        return
    files = isinstance(public, str | os.PathLike) and isinstance(private, str | os.PathLike)
    same = table_files(public) & table_files(private) if files else public is private
    if same:
        raise ValueError(
            f"{argument}: it is the private table that is given as {private_argument}, and what it says would be "
            "published without noise; give a public table"
        )


def table_files(given: str | os.PathLike[str]) -> set[Path | tuple[int, int]]:
    """The files that a path, a folder or a pattern names: where each is, and which file it is, whatever its name."""
    path = os.fspath(given)
    found: set[Path | tuple[int, int]] = set()
    with contextlib.suppress(ValueError, RuntimeError):  # what no file can be named is refused where it is read
        for each in map(Path, [path, *glob.glob(path, recursive=True)]):  # noqa: PTH207 (a pattern, maybe absolute)
            inside = list(islice(each.rglob("*"), MOST_FILES + 1)) if each.is_dir() else []
            for one in (each, *(inside if len(inside) <= MOST_FILES else ())):
                found.add(one.resolve())  # it may not exist
                with contextlib.suppress(OSError):
                    about = one.stat()
                    found.add((about.st_dev, about.st_ino))
    return found
