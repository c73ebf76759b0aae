"""What is strange about a release that is paid for: a total that nobody expects, or levels that are mostly noise.

Wrong files, or dates of another form, show in no single number. To look at the records would cost privacy. What is said
here is a function of the published numbers of this release and of one that is published beside it, and of their errors:
it tells nothing more of a record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tallytree.release.manifest import MANIFEST, read_manifest
from tallytree.release.release import Release
from tallytree.release.view.release_view import ReleaseView

FAR, CLEAR = 0.5, 3
"""A total is far from the one before by this share of it, and by so many standard deviations of the difference."""
MOST = 0.5
"""A level is mostly noise where counts no larger than its largest noise have more than this share of all."""
MOST_ROWS = 5_000_000
"""Larger tables are not read for it."""


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
    view = ReleaseView(release)
    release = view.release
    one = (each["level"] for each in release.statement["levels"] if each["nodes"] == 1 and each.get("asked", True))
    level = next(one, None)
    rows = release.total() if level is None else release.table(level)
    if rows.num_rows != 1 or "std_dev" not in rows.column_names:
        return round(sum(rows.column(view.number).to_pylist())), 0.0, None
    (row,) = rows.to_pylist()
    return row[view.number], row["std_dev"] or 0.0, row["quality"]


def _series(statement: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """By what a run is in order ("" without a name), and what the runs of a series have in common."""
    made, dataset = statement["release"], (statement["ledger"] or {}).get("dataset")
    common = {key: value for key, value in spec.items() if key not in ("records", "trips", "period")}
    return made.get("period", made["run"]) if made["run"] else "", (dataset, common)


def drowned_sentence(release: Release) -> str:
    """Which levels are mostly noise, and what to publish instead; empty where none is.

    It is a function of what is published: of a level's total, the share in counts that are no larger than the largest
    noise among so many nodes, √(2 ln n) standard deviations. What adds up moves records to where the noise was largest,
    so single standard deviations would tell nothing.
    """
    view, statement = ReleaseView(release), release.statement
    if not view.kind.counts_nodes or view.partly_listed:
        return ""
    shares = {
        each["level"]: _share_below(view, each["level"], _largest(each["nodes"]) * each["noise"]["std_dev"])
        for each in statement["levels"]
        if each["nodes"] > 1 and each.get("measured") and view.rows(each["level"]) <= MOST_ROWS
    }
    drowned = [level for level, share in shares.items() if share > MOST]
    if not drowned:
        return ""
    clear = [level for level, share in shares.items() if share <= MOST]
    instead = f"publish {clear[-1]!r} as the finest level" if clear else "publish coarser levels"
    keys = ", ".join(f"{tree}.levels" for tree in view.kind.trees)
    other = ', or use unlisted="remainder"' if view.kind.sides else ""
    return (
        f"Counts at {', '.join(map(repr, drowned))} are mostly noise: {shares[drowned[-1]]:.0%} of what is counted at "
        f"{drowned[-1]!r} is in counts that are no larger than the largest noise. Better {instead}: "
        f"leave the finer ones out of levels (in a spec {keys}){other}."
    )


def _largest(nodes: int) -> float:
    """The expected maximum of so many normal variables, about."""
    return math.sqrt(2 * math.log(max(nodes, 2)))


def _share_below(view: ReleaseView, level: str, least: float) -> float:
    """The share of a level's total that is in counts below a number."""
    below = total = 0
    for rows in view.slices(level):
        counts = np.maximum(rows.column("count").to_numpy(), 0)
        below, total = below + int(counts[counts < least].sum()), total + int(counts.sum())
    return below / total if total else 0.0
