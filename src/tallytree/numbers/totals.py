"""`Release.total`: the sums of published numbers over any areas, with the error of each sum.

The error of a sum does not follow from the errors of its parts: these are correlated. So it is computed for the sum
itself, exactly where the release is a linear fit, and from replicates of the sums elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.columns import LISTED_FROM, UNBIASED
from tallytree.numbers.accuracy.bootstrap import SizeReplicates, StatedPlan
from tallytree.numbers.accuracy.fitted_errors import FittedTree, has_fitted_errors
from tallytree.numbers.accuracy.replicate_errors import (
    Cells,
    Replicates,
    add_replicates,
    checked_replicates,
    replicates_of,
    stated_plan,
    upward_floors,
)
from tallytree.numbers.accuracy.squared_errors import SquaredErrors
from tallytree.numbers.moments import rounds_of
from tallytree.numbers.remainder_totals import sums_with_remainders
from tallytree.numbers.summed_totals import Totals
from tallytree.numbers.table_totals import totals_of_tables
from tallytree.release import Release
from tallytree.release.intervals import LevelErrors, checked_alpha, stated_rounding
from tallytree.release.quality import STANDARD, QualityThresholds
from tallytree.release.remainders import NO_REPLICATES, refuse_remainders
from tallytree.release.statement import own_mechanism
from tallytree.release.view.areas import SummedAreas, read_areas
from tallytree.release.view.release_view import PublishedLevel, ReleaseView
from tallytree.support.arrays import FloatArray, IntArray, NumberArray, sum_by_key
from tallytree.support.methods import method_of_release
from tallytree.support.validate import integer


@dataclass(frozen=True, eq=False)
class PublishedSums:
    """The published sums of areas.

    Attributes:
        rows: int64 (n,), the area of each sum.
        keys: int64 (n,), ascending: the area, and for group sizes the size too.
        columns: the sums, and what they are of: `count`; or `size` and `groups`.
        numbers: (n,) the sums.
    """

    rows: IntArray
    keys: IntArray
    columns: dict[str, NumberArray]
    numbers: NumberArray


@method_of_release("total")
def total_of(
    release: Release,
    table: Any,
    *,
    by: str | None = None,
    where: Mapping[str, Any] | None = None,
    alpha: float = 0.1,
    replicates: int | None = None,
    seed: int | None = None,
    progress: bool = False,
    thresholds: QualityThresholds = STANDARD,
) -> pa.Table:
    """`Release.total`, which documents the arguments."""
    view, level_alpha = ReleaseView(release), checked_alpha(alpha)
    made = totals(view, table, by=by, where=where, replicates=replicates, seed=seed, progress=progress)
    return made.judged(level_alpha, thresholds)


def totals(
    view: ReleaseView,
    table: Any,
    *,
    by: str | None,
    where: Mapping[str, Any] | None,
    replicates: int | None,
    seed: int | None,
    progress: bool = False,
) -> Totals:
    """The totals of a release, and what is known of their errors; `Release.total` documents the arguments."""
    statistic = view.statistic
    if statistic == "tables":
        return totals_of_tables(view, table, by=by, where=where, replicates=replicates)
    if where is not None:
        raise ValueError(f"where: it is a condition on the attributes of tables; {statistic} have none, leave it out")
    if table is None:
        raise ValueError("areas: None is given; give a table of areas, which may be left out for tables only")
    if statistic not in _SUMS:
        raise ValueError(f"release: its statistic is {statistic!r}; totals are of {', '.join(_SUMS)}")
    rounds = None if replicates is None else checked_replicates(replicates)
    fixed = None if seed is None else integer(seed, "seed")
    areas = read_areas(view.known_tree, table, by)
    plan = stated_plan(view)
    if view.partly_listed or lists_by_measurement(view):
        return _of_partly_listed(view, areas, plan, rounds)
    published = view.all_published()
    sums = _SUMS[statistic](areas, published)
    columns = {} if by is None else {by: areas.names.take(pa.array(sums.rows))}
    columns |= sums.columns
    if plan.thresholds:
        if rounds is not None:
            raise ValueError(
                f"replicates: {rounds} of them cannot show what lies below the threshold and is missing from every "
                "sum; leave replicates out, for sums without errors"
            )
        return Totals(columns, sums.numbers)
    variances = _exact(view, areas, plan, published) if rounds is None else None
    if variances is not None:
        std_dev = np.sqrt(variances)[sums.rows]
        named = sum(np.bincount(block.areas, minlength=len(areas)) for block in areas.blocks)
        rounding = stated_rounding(view.statement) * np.asarray(named, dtype=np.float64)[sums.rows]
        return Totals(columns, sums.numbers, std_dev, unbiased_sums(view, areas), LevelErrors(rounding=rounding))
    rounds = rounds_of(view, rounds)
    replicated, _ = replicates_of(view, plan, published)
    std_dev = _replicated(areas, replicated, sums, rounds, fixed, progress=progress)
    floors = np.zeros(len(areas)) if statistic == "group_sizes" else upward_of_areas(areas, plan)
    return Totals(columns, sums.numbers, std_dev, None, LevelErrors(rounds, floors[sums.rows]))


def _of_partly_listed(view: ReleaseView, areas: SummedAreas, plan: StatedPlan, rounds: int | None) -> Totals:
    """The totals of a release whose cells are listed because their measurements were large, remainders or not.

    Raises:
        ValueError: replicates are asked for.
    """
    if rounds is not None:
        refuse_remainders(view.statement, "replicates", NO_REPLICATES)
        raise ValueError(
            f"replicates: {rounds} of them cannot show what is in cells that are not listed; leave replicates out, for "
            "the error of the measurements"
        )
    columns = {} if areas.by is None else {areas.by: areas.names}
    return Totals.of_remainders(columns, sums_with_remainders(view, areas, plan.levels))


def lists_by_measurement(view: ReleaseView) -> bool:
    """Whether cells have rows because their measurements were large, so that sums of published numbers are too large.

    Where nothing was dropped and the measurements were not kept, the published numbers are all there is.
    """
    if not has_fitted_errors(view.release) or not view.has(view.levels[-1], LISTED_FROM):
        return False
    dropped = (view.statement.get("sparsity") or {}).get("applied", False)
    return bool(dropped or view.statement.get("measurements_kept") is not False)


def unbiased_sums(view: ReleaseView, areas: SummedAreas) -> FloatArray | None:
    """The sum of the unbiased estimates of every area, float64 (areas,); None where there are none of all nodes."""
    if not isinstance(areas.tree, Hierarchy) or not view.has(view.levels[-1], UNBIASED):
        return None
    columns = [view.column(level, UNBIASED) for level in view.levels]
    sums = np.zeros(len(areas))
    sums_of = area_cells(areas, [(np.arange(len(column)), column) for column in columns], 1)
    sums[sums_of[0]] = sums_of[1]
    return sums


def errors_are_exact(release: Release) -> bool:
    """Whether the errors of sums follow from the release, without replicates."""
    mechanism = own_mechanism(release.statement)
    return mechanism == "LeafGaussian" or (mechanism == "LeastSquares" and has_fitted_errors(release))


def _exact(
    view: ReleaseView, areas: SummedAreas, plan: StatedPlan, published: Sequence[PublishedLevel]
) -> FloatArray | None:
    """The variance of every area's count where the release is a linear fit; None elsewhere."""
    if not errors_are_exact(view.release):
        return None
    if own_mechanism(view.statement) == "LeafGaussian":  # sums of leaves with independent noise
        return areas.leaves.astype(np.float64) * plan.levels[areas.tree.levels[-1]][1].variance
    return FittedTree.of(areas.tree, plan.levels, published).variances(areas)


def _sums_of_counts(areas: SummedAreas, levels: Sequence[PublishedLevel]) -> PublishedSums:
    every = np.arange(len(areas), dtype=np.int64)
    found = area_cells(areas, [(each.nodes, each.numbers) for each in levels], 1)
    counts = np.zeros(len(areas), dtype=levels[-1].numbers.dtype)
    counts[found[0]] = found[1]
    return PublishedSums(every, every, {"count": counts}, counts)


def _sums_of_sizes(areas: SummedAreas, levels: Sequence[PublishedLevel]) -> PublishedSums:
    width = 1 + max((int(each.sizes.max()) for each in levels if each.sizes is not None and len(each.sizes)), default=0)
    keys, groups = area_cells(areas, [_size_cells(each, width) for each in levels], width)
    kept = groups != 0
    keys, groups = keys[kept], groups[kept]
    rows, sizes = np.divmod(keys, width)
    return PublishedSums(rows, keys, {"size": sizes, "groups": groups}, groups)


def _size_cells(level: PublishedLevel, width: int) -> Cells:
    sizes = np.zeros(0, dtype=np.int64) if level.sizes is None else level.sizes
    return level.nodes * width + sizes, level.numbers


_SUMS: dict[str, Callable[[SummedAreas, Sequence[PublishedLevel]], PublishedSums]] = {
    "counts": _sums_of_counts,
    "flows": _sums_of_counts,
    "group_sizes": _sums_of_sizes,
}
"""How the published numbers of each statistic are summed over areas."""


def area_cells(areas: SummedAreas, levels: Sequence[Cells], width: int) -> Cells:
    """Sums over areas of the cells of all levels: cell node · width + rest becomes area · width + rest, ascending."""
    keys = [np.empty(0, dtype=np.int64)]
    values: list[NumberArray] = [np.empty(0, dtype=levels[-1][1].dtype)]
    for block in areas.blocks:
        cells, numbers = levels[block.depth]
        nodes, rest = np.divmod(cells, width)
        places, of_area = areas.members(block, block.depth, nodes)
        keys.append(of_area * width + rest[places])
        values.append(numbers[places])
    return sum_by_key(np.concatenate(keys), np.concatenate(values))


def _replicated(
    areas: SummedAreas,
    replicated: Replicates,
    sums: PublishedSums,
    rounds: int,
    seed: int | None,
    *,
    progress: bool,
) -> FloatArray:
    """The root mean square error of every sum in replicates of the release, float64 (n,)."""
    width = replicated.domain.largest + 1 if isinstance(replicated, SizeReplicates) else 1
    keys = sums.rows * width + np.asarray(sums.columns.get("size", 0), dtype=np.int64)
    errors = SquaredErrors.against(keys, *area_cells(areas, replicated.truths(), width))
    add_replicates(
        [errors], replicated, lambda levels: [area_cells(areas, levels, width)], rounds, seed, progress=progress
    )
    return errors.std_dev


def upward_of_areas(areas: SummedAreas, plan: StatedPlan) -> FloatArray:
    """What the upper ends use at least: the greatest noise of one node that an area's rows name; of all, the root's."""
    floors = upward_floors(areas.tree, plan)
    found = np.zeros(len(areas))
    for block in areas.blocks:
        np.maximum.at(found, block.areas, floors[block.depth])
    found[areas.leaves == areas.tree.size(len(areas.tree.levels) - 1)] = floors[0]
    return found
