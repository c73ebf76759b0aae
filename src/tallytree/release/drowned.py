"""Levels whose counts are mostly noise: said where a reader sees it, with what to publish instead."""

from __future__ import annotations

import math

import numpy as np

from tallytree.release.release import Release
from tallytree.release.view.release_view import ReleaseView

MOST = 0.5
"""A level is mostly noise where counts no larger than its largest noise have more than this share of all."""
MOST_ROWS = 5_000_000
"""Larger tables are not read for it."""


def drowned_sentence(release: Release) -> str:
    """Which levels are mostly noise, and what to publish instead; empty where none is.

    It is a function of what is published: of a level's total, the share in counts that are no larger than the largest
    noise among so many nodes, √(2 ln n) standard deviations. What adds up moves records to where the noise was largest,
    so single standard deviations would tell nothing.
    """
    view, statement = ReleaseView(release), release.statement
    if view.statistic not in ("counts", "flows") or view.partly_listed:
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
    of_flows = view.statistic == "flows"
    keys = "origins.levels, destinations.levels" if of_flows else "hierarchy.levels"
    flows = ', or use unlisted="remainder"' if of_flows else ""
    return (
        f"Counts at {', '.join(map(repr, drowned))} are mostly noise: {shares[drowned[-1]]:.0%} of what is counted at "
        f"{drowned[-1]!r} is in counts that are no larger than the largest noise. Better {instead}: "
        f"leave the finer ones out of levels (in a spec {keys}){flows}."
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
