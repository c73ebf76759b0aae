"""`Release.scaled`: estimates of all records, from counts of bounded ones and the measured share that is left out.

Let C be the published count of an area, of at most m records a person; K its true value; and N the true number of all
records. Then N = K · (1 + o), where o ≥ 0 is the area's number of records left out for each one that counts. Over all
areas together o is s / (1 − s), where s is the share left out, which the release measured. So the estimate is

    C · (1 + s / (1 − s)) = C / (1 − s).

Three things are not known: K, s, and by how much the area's own o differs from that of all. The first two have
published intervals. Of the third the release says nothing: the bounded counts of an area can come from people with many
records or with few. So it has to be stated, or taken from public records: the spread, which is the standard deviation
of o between the areas of a level, relative to the o of all. The area's o is then within o · (1 ± q · spread), cut at 0.

The three deviations are independent of each other, so those of one side are added as squares (MOVER: Zou and Donner
2008, Statistics in Medicine 27): with K in L … U, o of all in o₁ … o₂, and u² = (o₂ − o)² + (q · spread · o)²,

    upper = C · (1 + o) + √[((U − C) · (1 + o))² + (C · u)²],

and the lower end likewise, but at least L, because N ≥ K.

The spread of public records is √[Σ k_a (o_a / o − 1)² / Σ k_a · n / (n − 1)], over areas with k_a counted records each,
with n = (Σ k_a)² / Σ k_a², the effective number of areas: an area of few records says little. q is the quantile of the
normal distribution for a stated spread, and that of Student's t with n − 1 degrees of freedom for one of public
records. A level with one node has no spread: its share is the measured one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.accounting.left_out import Estimated, left_out
from tallytree.hierarchy import Levels
from tallytree.kinds.measurements import Noise
from tallytree.kinds.registry import KINDS
from tallytree.release import Release
from tallytree.release.contributions_table import METADATA_KEY
from tallytree.release.counted_unit import counted_noun
from tallytree.release.intervals import checked_alpha, quantile
from tallytree.release.view.release_view import ReleaseView
from tallytree.release.view.sides import named_at, sides_of
from tallytree.run.counted_records import LeafNumbers, bounded_and_all
from tallytree.sources.locate import Files, locate
from tallytree.support.arrays import FloatArray, IntArray, sum_by_key
from tallytree.support.validate import safe_text

MOST_SPREAD = 1e6
"""A stated spread is no larger: beyond, upper ends leave 64 bits."""
LEAST_AREAS = 1.5
"""Effective areas, which public records need at least."""
MOST = 2.0**62
"""No upper end is above this."""


@dataclass(frozen=True)
class Spread:
    """How much the share left out differs between the areas of a level.

    Attributes:
        relative: the standard deviation of the records left out for each one that counts, relative to that of all.
        degrees: of freedom, where it is estimated from public records; None where it is stated.
    """

    relative: float
    degrees: float | None = None

    def reach(self, alpha: float) -> float:
        """How far an area may be from all of them, in parts of what all have, at the level 1 − alpha."""
        if self.relative == 0:
            return 0.0
        if self.degrees is None:
            return self.relative * quantile(alpha, None)
        from scipy.special import stdtrit  # 0.2 s: only where it is needed

        return self.relative * -float(stdtrit(self.degrees, alpha / 2))


def scaled_levels(
    release: Release, levels: Sequence[str], *, spread: float | None, like: Any, alpha: float
) -> dict[str, pa.Table]:
    """`Release.scaled` of some levels, by their own names; it documents the arguments."""
    miss = checked_alpha(alpha)
    _refuse_what_has_no_share(release)
    if spread is not None and like is not None:
        raise ValueError("spread: both spread and like are given; leave one of them out")
    tree = ReleaseView(release).cells
    depths = {level: tree.levels.index(level) for level in levels}
    if spread is None and like is None and any(tree.size(depth) > 1 for depth in depths.values()):
        raise ValueError(
            "spread: give either spread, the standard deviation between areas of the records left out for each one "
            "that counts, relative to that of all, such as spread=0.5; or like, public records of an earlier period. "
            "The release does not say how areas differ"
        )
    tables = {level: release.table(level, alpha=miss) for level in levels}
    stated = None if spread is None else Spread(_checked_spread(spread))
    share = _share(release, miss)
    public = None if like is None else _public_records(release, like)
    estimates = {}
    for level, table in tables.items():
        depth = depths[level]
        between = Spread(0.0) if tree.size(depth) == 1 else stated or _spread_of_records(tree, depth, *(public or ()))
        ends = _all_records(table, share, between.reach(miss))
        columns = {name: table.column(name) for name in tree.path_columns(depth)}
        columns |= dict(zip(("estimate", "ci_lower", "ci_upper"), ends, strict=True))
        said = json.dumps(_said(release, share, between, miss), ensure_ascii=False)
        estimates[level] = pa.table(columns).replace_schema_metadata({METADATA_KEY: said.encode()})
    return estimates


def described_estimate(table: pa.Table) -> Mapping[str, Any]:
    """What a table of `scaled` says of itself: `unit`, `share_left_out`, `spread`, `basis`, `alpha` and `summary`."""
    said: Mapping[str, Any] = json.loads(table.schema.metadata[METADATA_KEY])
    return said


def _all_records(table: pa.Table, share: Estimated, reach: float) -> tuple[IntArray, IntArray, IntArray]:
    """Estimates of all records, and the ends of their intervals; see the module's docstring.

    Args:
        table: published counts with their intervals, (n,) rows.
        share: that is left out, of all areas.
        reach: q · spread.
    """
    count, lower, upper = (table.column(name).to_numpy() for name in ("count", "ci_lower", "ci_upper"))
    odds, least, most = (each / (1 - each) for each in (share.estimate, share.ci_lower, share.ci_upper))
    up = math.hypot(most - odds, reach * odds)
    down = min(odds, math.hypot(odds - least, reach * odds))
    middle = count * (1 + odds)
    low = middle - np.hypot((count - lower) * (1 + odds), count * down)
    high = middle + np.hypot((upper - count) * (1 + odds), count * up)
    ends = np.maximum(np.floor(low), lower), np.ceil(np.minimum(high, MOST))
    return tuple(np.asarray(np.rint(each), dtype=np.int64) for each in (middle, *ends))  # type: ignore[return-value]


def _refuse_what_has_no_share(release: Release) -> None:
    """Refuse a release whose share left out is not measured, or means nothing for its numbers.

    Raises:
        ValueError: it is one.
    """
    statement = release.statement
    statistic = statement["statistic"]
    known = [name for name, kind in KINDS.items() if kind.has_tree and not kind.by_size]
    if statistic not in known:
        raise ValueError(
            f"release: its statistic is {statistic!r}; all records are estimated from {', '.join(known)} (a bound "
            "on memberships changes the sizes of groups, and no factor gives them back)"
        )
    if not statement["max_contributions_enforced"]:
        raise ValueError(
            "release: it bounds no contributions (it has no person), so its counts are of all records already; use "
            "table(level, alpha=0.1)"
        )
    if "share_left_out" not in statement.get("contributions", {}):
        raise ValueError(
            "release: it did not measure what its contribution bound leaves out, so all records cannot be estimated; "
            "release the next one with contributions=tallytree.Contributions(share=0.05, at_most=…), or measure it "
            "alone with tallytree.release_contributions"
        )


def _share(release: Release, alpha: float) -> Estimated:
    """The share left out with its interval, from the published numbers of people.

    Raises:
        ValueError: it may be nearly all.
    """
    people = release.contributions
    assert people is not None  # noqa: S101  (the statement has a share, so the table is there)
    stated = release.statement["contributions"]["noise"]
    noise = Noise(stated["distribution"], Fraction(stated["scale_exact"]))
    bins = [*zip(people.column("records_from").to_pylist(), people.column("records_to").to_pylist(), strict=True)]
    numbers = people.column("people").to_numpy()
    share = left_out(bins, numbers, noise, release.statement["max_contributions"], alpha).share
    if share.ci_upper >= 1:
        raise ValueError(
            f"release: the interval of the share left out goes up to {share.ci_upper:g}, so there is no upper end for "
            "all records; measure it with a larger share of the budget, or with a smaller at_most"
        )
    return share


def _checked_spread(spread: Any) -> float:
    """The stated spread.

    Raises:
        ValueError: negative, or not finite.
        TypeError: not a number.
    """
    if isinstance(spread, bool) or not isinstance(spread, int | float | np.floating | np.integer):
        raise TypeError(f"spread: {safe_text(spread)} must be a number, such as 0.5")
    if not 0 <= spread < math.inf:
        raise ValueError(f"spread: {spread!r} must be at least 0 and finite, such as 0.5; 0 says that all areas agree")
    if spread > MOST_SPREAD:
        raise ValueError(f"spread: {spread!r} must be at most {MOST_SPREAD:g}; it is relative, such as 0.5")
    return float(spread)


def _public_records(release: Release, like: Any) -> tuple[LeafNumbers, LeafNumbers]:
    """The public records that the bound keeps, and all of them; see `bounded_and_all`."""
    _refuse_the_private_table(release, like)
    spec = release.spec
    return bounded_and_all(
        like,
        ReleaseView(release).known_tree,
        leaf=spec.get("leaf"),
        person=spec["person"],
        most=release.statement["max_contributions"],
        count=spec.get("count"),
        distinct=bool(spec.get("distinct")),
        argument="like",
    )


def _spread_of_records(tree: Levels, depth: int, kept: LeafNumbers, every: LeafNumbers) -> Spread:
    """The spread between the areas of a level in public records; see `spread_between`."""
    nodes, counted = sum_by_key(_nodes_at(tree, depth, kept[0]), kept[1])
    all_nodes, records = sum_by_key(_nodes_at(tree, depth, every[0]), every[1])
    # An area of which the bound keeps nothing has no ratio.
    places = np.searchsorted(all_nodes, nodes)
    return spread_between(counted.astype(np.float64), records[places].astype(np.float64))


def spread_between(kept: FloatArray, records: FloatArray) -> Spread:
    """The spread between areas, from the numbers of records that a bound keeps of them, and of all their records.

    Args:
        kept: float64 (n,), positive.
        records: float64 (n,), at least as many.

    Raises:
        ValueError: nothing is left out, or there are fewer than two areas.
    """
    over = int(records.sum() - kept.sum())
    if len(kept) < 2 or over <= 0:
        raise ValueError(
            f"like: it has records of {len(kept)} areas, and the bound leaves {over} of them out, which "
            "shows no spread between areas; give public records of several areas and of all of people's records, or a "
            "spread"
        )
    ratio = (records - kept) / kept / ((records.sum() - kept.sum()) / kept.sum())
    areas = float(kept.sum() ** 2 / (kept @ kept))
    if areas < LEAST_AREAS:
        raise ValueError(
            f"like: nearly all of its records are of one area (as good as {areas:.2f} areas), which shows no spread; "
            "give public records of several areas, or a stated spread"
        )
    variance = float(kept @ (ratio - 1) ** 2) / float(kept.sum()) * areas / (areas - 1)
    return Spread(math.sqrt(variance), areas - 1)


def _nodes_at(tree: Levels, depth: int, leaves: tuple[IntArray, ...]) -> IntArray:
    """The node of a level that each combination of leaves lies in."""
    number = np.zeros(len(leaves[0]), dtype=np.int64)
    for side, named, leaf in zip(sides_of(tree), named_at(tree, depth), leaves, strict=True):
        number = number * side.size(named) + side.ancestors(leaf, len(side.columns), named)
    return number


def _refuse_the_private_table(release: Release, like: Any) -> None:
    """Refuse files with the name of the private one: the spread would be computed from it without noise.

    Raises:
        ValueError: one has that name, or lies in a folder of that name.
    """
    private = release.spec.get(ReleaseView(release).kind.private_table)
    source = locate(like, "like", (), public=True)
    if not isinstance(private, str) or not isinstance(source, Files):
        return
    named = Path(private).name
    for path in map(Path, source.paths):
        if named in path.parts or fnmatch(path.name, named):
            raise ValueError(
                f"like: {path.name!r} has the name of the private table that this release is from ({named!r}), and the "
                "spread would be computed from it without noise; give public records (a public file by another name)"
            )


def _said(release: Release, share: Estimated, spread: Spread, alpha: float) -> dict[str, Any]:
    """What the table says of itself."""
    noun = counted_noun(release.statement)
    basis = "stated" if spread.degrees is None else "public records"
    if spread.relative == 0:
        why = "no difference of it between areas"
    else:
        of = "as is assumed" if basis == "stated" else "as in public records"
        why = (
            "a relative standard deviation between areas, of the records left out for each one that counts, of "
            f"{spread.relative:.3g}, {of}"
        )
    return {
        "unit": f"all {noun}",
        "share_left_out": {"estimate": share.estimate, "ci_lower": share.ci_lower, "ci_upper": share.ci_upper},
        "spread": spread.relative,
        "basis": basis,
        "alpha": alpha,
        "summary": (
            f"Estimates of all {noun}: the counts of bounded ones over 1 less the share left out. Intervals hold the "
            f"noise, the uncertainty of the share, and {why}; they miss with probability {alpha:g} if that holds."
        ),
    }
