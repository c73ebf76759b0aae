"""What is wrong with the private records of a planned release, as a file for their owner. It is private, and exact."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tallytree.private import Defects, FindDefects, Local
from tallytree.release import require_writable
from tallytree.release.manifest import MANIFEST
from tallytree.run.planned import Planned
from tallytree.run.planned_contributions import PlannedContributions
from tallytree.support.spill_folders import core_dumps_disabled
from tallytree.support.validate import path_text
from tallytree.support.whole_files import write_whole
from tallytree.trees.leaf_codes import PARENT

_PUBLISHED = (MANIFEST, "datapackage.json", "index.html")
"""What a folder has that is published: a release, an export, a page."""

NOTICE = """\
PRIVATE. DO NOT PUBLISH, SEND OR LOG THIS FILE.
It has exact counts and values of private records, without any protection. Delete it when the data are corrected.
It is for correcting data and code lists, and for nothing else: a parameter that is chosen from it (epsilon,
max_contributions, max_group_size, precision, the levels, on_unknown) is outside the guarantee of the release, since it
tells something of the records that no noise covers.
"""


@core_dumps_disabled()
def lint(planned: Planned[Any, Any], file: str | os.PathLike[str]) -> None:
    """Read the private records of a planned release, and write what is wrong with them to a file of mode 0600.

    Nothing is released or spent. Nothing of what is found is in the log, in a message or in what is returned.

    Args:
        planned: the release, whose hierarchies, columns and bound say what is right.
        file: where to; it must not exist, nor lie in the folder of a release, an export or a page.

    Raises:
        ValueError, TypeError: the columns do not fit (as `tallytree check` says); the file lies in a release; the
            records are for another engine than this machine's.
        FileExistsError: the file exists.
        OSError: the file cannot be written, or the records cannot be read.
    """
    target = _place(file)
    if isinstance(planned, PlannedContributions):
        raise TypeError(
            f"planned: {type(planned).__name__} has no records; give counts, flows, tables, group sizes or households"
        )
    engine, terms = planned.engine, planned.arguments
    if not isinstance(engine, Local):
        raise ValueError(f"engine: {engine.name!r} does not look for defects; give records that this machine can read")
    found = engine.tabulate(terms.private_table, FindDefects(planned.request, terms.bound))
    try:
        write_whole(
            target,
            "\n".join([NOTICE, *_lines(found, terms.on_unknown, of_a_period=terms.in_period is not None), ""]),
            mode=0o600,
            replace=False,
        )
    except FileExistsError:
        raise FileExistsError(_exists(target)) from None


def _place(file: str | os.PathLike[str]) -> Path:
    """The place of the file, once it is free and in no release.

    Raises:
        ValueError: it lies in a release, or in no folder.
        FileExistsError: something is there.
        OSError: the folder cannot be written to.
        TypeError: not a path.
    """
    path_text(file, "private_out", "the path of the private file to make")
    target = Path(os.path.abspath(file))  # noqa: PTH100 (a dangling link is something, too)
    if os.path.lexists(target):
        raise FileExistsError(_exists(target))
    if not target.parent.is_dir():
        raise ValueError(f"private_out: {str(target.parent)!r} is not a folder; make it first")
    above = {*target.parents, *(target.parent.resolve() / target.name).parents}
    if any((folder / name).exists() for folder in above for name in _PUBLISHED):
        raise ValueError(
            f"private_out: {str(target)!r} lies in the folder of a release, an export or a page, which is published; "
            "choose another folder"
        )
    require_writable(target)  # before the records are read
    return target


def _exists(target: Path) -> str:
    return f"private_out: {str(target)!r} exists; it is not overwritten, so choose another file"


def _lines(found: Defects, on_unknown: Any, *, of_a_period: bool) -> Iterator[str]:
    """The defects as lines of text; values as Python writes them, so that spaces and control characters show."""
    yield f"{found.rows:,} rows{' in the period' * of_a_period}"
    yield from found.notes
    dropped = "make the release fail"
    if on_unknown == "drop":
        dropped = "are left out"
    elif isinstance(on_unknown, Mapping) and {*on_unknown.values()} != {PARENT}:  # those of a parent are placed
        dropped = "count in the leaf that it names for their level, and others make the release fail"
    yield f"{found.outside:,} rows are outside the hierarchy, or impossible; by on_unknown, they {dropped}."
    if not found.found:
        yield "No defects were found in the rows that were looked at."
    for defect in found.found:
        yield ""
        yield f"{defect.column}: {defect.what}: {defect.rows:,} rows"
        yield from (f"    {value!r}: {rows:,}" for value, rows in defect.values)
