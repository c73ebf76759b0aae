"""What is strange about a release that is paid for: wrong files, or dates of another form, show in no single number.

To look at the records would cost privacy. What is said here is a function of the published numbers of this release and
of one that is published beside it, and of their errors: it tells nothing more of a record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tallytree.release.manifest import MANIFEST, read_manifest
from tallytree.release.release import Release

FAR, CLEAR = 0.5, 3
"""A total is far from the one before by this share of it, and by so many standard deviations of the difference."""


def surprises(release: Any, folder: Path) -> Iterator[str]:
    """Warnings about a release of any kind that is saved in a folder; the run before is looked for beside it."""
    count, error, verdict = _total(release)
    if count == 0 or verdict == "not_distinguishable_from_0":
        yield "The total is not distinguishable from 0."
    (now, series), before = _series(release.statement, release.spec), ("", folder)
    for file in folder.resolve().parent.glob(f"*/{MANIFEST}"):
        with suppress(ValueError, KeyError, TypeError, AttributeError):  # no release, or an older one
            manifest = read_manifest(file.parent)
            order, common = _series(manifest["statement"], manifest["spec"])
            if before[0] < order < now and common == series:
                before = order, file.parent
    with suppress(ValueError):  # its folder was changed
        earlier, its_error, _ = _total(Release.load(before[1])) if before[0] else (count, 0, None)
        if abs(count - earlier) > max(FAR * earlier, CLEAR * math.hypot(error, its_error)):
            share = f" ({count / earlier - 1:+.0%})" if earlier else ""
            yield f"The total is far from the run before{share}: {count:,}, and {earlier:,} in {before[1].name!r}."


def _total(release: Any) -> tuple[int, float, str | None]:
    """The published total, its standard deviation (0 where none is stated), and its verdict."""
    release = getattr(release, "persons", release)
    one = (each["level"] for each in release.statement["levels"] if each["nodes"] == 1 and each.get("asked", True))
    level = next(one, None)
    rows = release.total() if level is None else release.table(level)
    number = next(name for name in ("count", "groups", "people") if name in rows.column_names)
    if rows.num_rows != 1 or "std_dev" not in rows.column_names:
        return round(sum(rows.column(number).to_pylist())), 0.0, None
    (row,) = rows.to_pylist()
    return row[number], row["std_dev"] or 0.0, row["quality"]


def _series(statement: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """By what a run is in order ("" without a name), and what the runs of a series have in common."""
    made, dataset = statement["release"], (statement["ledger"] or {}).get("dataset")
    common = {key: value for key, value in spec.items() if key not in ("records", "trips", "period")}
    return made.get("period", made["run"]) if made["run"] else "", (dataset, common)
