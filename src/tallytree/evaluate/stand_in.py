"""Public stand-in data for a planned release: last year's release, or a public table. Nothing private is opened.

What is simulated on a stand-in is computed from it without noise, so it has to be public.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tallytree._accounting import Plan, StabilityPlan
from tallytree._derived.bootstrap import CountReplicates, SizeReplicates, StatedPlan
from tallytree._derived.published_values import PublishedLevel, published_level
from tallytree._run import Planned, PlannedCounts, PlannedSizes
from tallytree._run.counted_records import listed_counts
from tallytree.product import Product
from tallytree.release import Release
from tallytree.release.manifest import MANIFEST
from tallytree.sizes import SizesDomain
from tallytree.sizes.private_maximum import largest_published
from tallytree.sizes.released_sizes import summed

Replicates: TypeAlias = CountReplicates | SizeReplicates


def replicates_of(planned: Planned[Any, Any], like: Any) -> Replicates:
    """What measures and reconciles a stand-in as the planned release will measure its records.

    Args:
        planned: the planned release.
        like: a release, the folder of one, or a public table: a path or glob (Parquet, CSV), or a data frame; with the
            columns of the leaves, and `count`; of group sizes `size` and `groups`.

    Raises:
        ValueError: it is not of this tree, or a release of another statistic; or a column is missing.
        TypeError: not a release or a table; or a planned release that cannot be simulated.
    """
    if isinstance(planned, PlannedCounts):
        return _of_counts(planned, like)
    if isinstance(planned, PlannedSizes):
        return _of_sizes(planned, like)
    raise TypeError(f"planned: {type(planned).__name__} cannot be simulated; give counts, flows or group sizes")


def _of_counts(planned: PlannedCounts, like: Any) -> CountReplicates:
    published = _published(planned, like, planned.statistic)
    if published is not None:
        nodes, counts = published.nodes, np.rint(published.numbers).astype(np.int64)
    else:
        found = listed_counts(planned.engine, like, planned.keys, "count", "like")
        tree = planned.tree
        nodes = tree.leaf_numbers(found.parts) if isinstance(tree, Product) else found.parts[0]
        counts = found.counts
    kept = counts > 0
    public = planned.arguments.total_is_public and planned.mechanism.keeps_total
    plan = stated(planned.plan)
    return CountReplicates(planned.tree, planned.mechanism, plan, public, nodes[kept], counts[kept])


def _of_sizes(planned: PlannedSizes, like: Any) -> SizeReplicates:
    published = _published(planned, like, "group_sizes")
    if published is not None and published.sizes is not None:
        nodes, sizes = published.nodes, published.sizes
        groups = np.rint(published.numbers).astype(np.int64)
    else:
        found = planned.listed_groups(like, "like")
        nodes, sizes, groups = found.leaves, found.sizes, found.groups
    kept = groups > 0 if planned.invariants == "groups" else (groups > 0) & (sizes > 0)
    nodes, sizes, groups = nodes[kept], sizes[kept], groups[kept]
    largest = planned.largest
    if planned.plan.maximum is not None:
        noisy = np.array([sizes.max(initial=planned.smallest)])
        largest = int(largest_published(noisy, planned.plan.maximum.noise, planned.smallest, largest)[0])
    leaves = summed(nodes, np.clip(sizes, planned.smallest, largest), groups, largest)
    per_leaf = np.zeros(planned.tree.n_leaves, dtype=np.int64)
    np.add.at(per_leaf, leaves.nodes, leaves.groups)
    domain = SizesDomain.from_leaves(planned.tree, per_leaf, planned.smallest, largest, planned.invariants)
    return SizeReplicates(domain, planned.mechanism, stated(planned.plan), leaves)


def stated(plan: Plan) -> StatedPlan:
    """A plan as replicates take it."""
    thresholds = {plan.stable.level: plan.stable.threshold} if isinstance(plan, StabilityPlan) else {}
    return StatedPlan({level: (each.statistic, each.noise) for level, each in plan.levels.items()}, thresholds)


def _published(planned: Planned[Any, Any], like: Any, statistic: str) -> PublishedLevel | None:
    """The leaves of a release, or None for a table.

    Raises:
        ValueError: a release of another statistic, or not of this tree.
    """
    release = like
    if isinstance(like, str | os.PathLike) and (Path(like) / MANIFEST).is_file():
        release = Release.load(like)
    if not isinstance(release, Release):
        return None
    found = release.statement.get("statistic")
    if found != statistic:
        raise ValueError(f"like: it is a release of {found!r}; give one of {statistic!r}, or a public table")
    leaf = planned.tree.levels[-1]
    if tuple(release.levels) != planned.tree.levels:
        raise ValueError(
            f"like: its levels are {', '.join(release.levels)}, not {', '.join(planned.tree.levels)} as planned; give "
            "a release over the same tree, or a public table"
        )
    return published_level(release.level_tables[leaf], planned.public_tree, len(planned.tree.levels) - 1)
