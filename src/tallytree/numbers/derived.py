"""Numbers that are derived from a release, each a formula on its cells: totals, shares, ratios, means and quantiles.

A share, a ratio and a mean are ratios of two functionals (`fieller.py`). A quantile is where the number of records
below, C, is the share q of all, N. The interval has the values at which C − q·N may be 0: those between where the upper
ends of the intervals of C − q·N reach 0 first, and where the lower ends leave it last (Woodruff 1952, Journal of the
American Statistical Association 47). Within a class C is a straight line; so are the ends between those at its borders,
which makes the interval no narrower, since a mean of two errors deviates no more than the mean of their deviations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.kinds.kind import Kind
from tallytree.kinds.registry import KINDS
from tallytree.numbers.cells import ReleasedCells, Replication, as_whole
from tallytree.numbers.fieller import HALF, ratio_columns
from tallytree.numbers.size_cells import SizeCells
from tallytree.numbers.table_cells import TableCells
from tallytree.numbers.tree_cells import TreeCells
from tallytree.release import Release
from tallytree.release.intervals import checked_alpha, quantile
from tallytree.release.quality import STANDARD, QualityThresholds
from tallytree.release.view.release_view import ReleaseView
from tallytree.support.validate import safe_text


def cells_of(release: Release, derived: str, argument: str = "release") -> ReleasedCells:
    """The cells that something is derived from; of persons and households those of the tables of persons.

    Args:
        release: the release.
        derived: what is derived.
        argument: what the release was given as, for the message.

    Raises:
        ValueError: it cannot be derived from such a release.
    """
    view = ReleaseView(release)
    cells = cells_by(view.kind)
    if cells is None or derived not in cells.derives:
        kinds = [(kind.name, cells_by(kind)) for kind in KINDS.values()]
        known = sorted(name for name, each in kinds if each is not None and derived in each.derives)
        raise ValueError(
            f"{argument}: its statistic is {view.statistic!r}, and {derived} is of {', '.join(known)}; give such a "
            "release"
        )
    return cells(view)


def cells_by(kind: Kind) -> type[ReleasedCells] | None:
    """The cells that a kind of release has; None where it is not counted by place."""
    if not kind.has_tree:
        return None
    return TableCells if kind.has_tables else SizeCells if kind.by_size else TreeCells


def total(
    release: Release,
    areas: Any,
    *,
    by: str | None,
    where: Mapping[str, Any] | None,
    weight: str | None,
    alpha: float,
    replicates: int | None,
    seed: int | None,
    progress: bool,
    thresholds: QualityThresholds = STANDARD,
) -> pa.Table:
    """`Release.total`, which documents the arguments."""
    level_alpha, replication = checked_alpha(alpha), Replication.checked(replicates, seed, progress=progress)
    return cells_of(release, "total").totals(areas, by, where, replication, weight).judged(level_alpha, thresholds)


def share(
    release: Release, level: str, *, within: Any, alpha: float, replicates: int | None, seed: int | None
) -> pa.Table:
    """`Release.share`, which documents the arguments."""
    level_alpha, cells = checked_alpha(alpha), cells_of(release, "share")
    replication = Replication.checked(replicates, seed)
    names = [within] if isinstance(within, str) else within
    if not isinstance(names, Sequence):
        raise TypeError(f"within: {safe_text(within)} must be the name of a level, or a tuple of names")
    pair = cells.parts(level, names, replication)
    columns = ratio_columns(pair, level_alpha, (0.0, 1.0), "share")
    return pa.table({**pair.names, "count": pair.published[0], "of": pair.published[1]} | columns)


def ratio(
    release: Release,
    numerator: Any,
    denominator: Any,
    *,
    areas: Any,
    by: str | None,
    alpha: float,
    replicates: int | None,
    seed: int | None,
) -> pa.Table:
    """`Release.ratio`, which documents the arguments."""
    level_alpha, cells = checked_alpha(alpha), cells_of(release, "ratio")
    pair = cells.pair(numerator, denominator, areas, by, Replication.checked(replicates, seed))
    first, second = (each.astype(np.int64) for each in pair.published)
    columns = ratio_columns(pair, level_alpha, (0.0, np.inf), "ratio")
    return pa.table({**pair.names, "numerator": first, "denominator": second} | columns)


def mean(
    release: Release, level: str, *, alpha: float, replicates: int | None, seed: int | None, **attribute: Any
) -> pa.Table:
    """`Release.mean`, which documents the arguments."""
    level_alpha, cells = checked_alpha(alpha), cells_of(release, "mean")
    values = cells.values(level, Replication.checked(replicates, seed), **attribute)
    pair = values.sums()
    columns = ratio_columns(pair, level_alpha, values.between, "mean", values.center)
    return pa.table({**pair.names, "count": as_whole(pair.published[1])} | columns)


def quantile_of(
    release: Release, level: str, q: float, *, alpha: float, replicates: int | None, seed: int | None, **attribute: Any
) -> pa.Table:
    """`Release.quantile`, which documents the arguments."""
    level_alpha, cells = checked_alpha(alpha), cells_of(release, "quantile")
    share_below = _checked_share(q)
    values = cells.values(level, Replication.checked(replicates, seed), **attribute)
    below = values.below(share_below)
    std_dev = np.sqrt(below.variances)
    reach = np.where(std_dev > 0, quantile(level_alpha, below.replicates) * std_dev + HALF, 0.0)
    return pa.table({**below.names} | values.quantiles(below, reach))


def _checked_share(q: Any) -> float:
    """The share of a quantile.

    Raises:
        ValueError: not between 0 and 1.
        TypeError: not a number.
    """
    if isinstance(q, bool) or not isinstance(q, int | float | np.floating):
        raise TypeError(f"q: {safe_text(q)} must be a number between 0 and 1; 0.5 is the median")
    if not 0 < q < 1:
        raise ValueError(f"q: {q!r} must lie strictly between 0 and 1; 0.5 is the median")
    return float(q)
