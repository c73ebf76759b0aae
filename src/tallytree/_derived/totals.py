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

from tallytree._compute.arrays import FloatArray, IntArray, NumberArray, sum_by_key
from tallytree._derived.areas import Areas, read_areas
from tallytree._derived.bootstrap import CountReplicates, SizeReplicates, StatedPlan, fresh_sources
from tallytree._derived.fitted_errors import has_fitted_errors
from tallytree._derived.fitted_sums import fitted_variances
from tallytree._derived.published_values import PublishedLevel, published_level, tree_of
from tallytree._derived.recorded_measurements import recorded_noise
from tallytree._derived.remainder_totals import sums_with_remainders
from tallytree._derived.replicate_errors import (
    DEFAULT_REPLICATES,
    checked_replicates,
    replicates_of_counts,
    replicates_of_sizes,
    stated_thresholds,
    upward_floors,
)
from tallytree._derived.squared_errors import SquaredErrors
from tallytree._derived.table_totals import total_of_tables
from tallytree._measurements import Noise, Statistic
from tallytree._progress import step_progress
from tallytree._stages import stage
from tallytree._validate import integer
from tallytree.hierarchy import Hierarchy
from tallytree.product import Product
from tallytree.release import Release
from tallytree.release.intervals import (
    LISTED_FROM,
    UNBIASED,
    LevelErrors,
    checked_alpha,
    interval,
    stated_rounding,
    unbiased_interval,
)
from tallytree.release.level_tables import in_slices
from tallytree.release.remainders import NO_REPLICATES, lists_remainders, refuse_remainders

Cells = tuple[IntArray, NumberArray]
"""Cells of a level, and their numbers."""


@dataclass(frozen=True, eq=False)
class Sums:
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


def total_of(
    release: Release,
    table: Any,
    *,
    by: str | None = None,
    where: Mapping[str, Any] | None = None,
    alpha: float = 0.1,
    replicates: int | None = None,
    hierarchy: Hierarchy | Product | None = None,
    seed: int | None = None,
    progress: bool = False,
) -> pa.Table:
    """`Release.total`, which documents the arguments."""
    statistic = release.statement.get("statistic")
    if statistic == "tables":
        return total_of_tables(
            release, table, by=by, where=where, alpha=alpha, replicates=replicates, hierarchy=hierarchy
        )
    if where is not None:
        raise ValueError(f"where: it is a condition on the attributes of tables; {statistic} have none, leave it out")
    if table is None:
        raise ValueError("areas: None is given; give a table of areas, which may be left out for tables only")
    if statistic not in _SUMS:
        raise ValueError(f"release: its statistic is {statistic!r}; totals are of {', '.join(_SUMS)}")
    level_alpha = checked_alpha(alpha)
    rounds = None if replicates is None else checked_replicates(replicates)
    fixed = None if seed is None else integer(seed, "seed")
    tree = tree_of(release, hierarchy)
    areas = read_areas(tree, table, by)
    noise = recorded_noise(release.statement, tree)
    if lists_remainders(release.statement) or _lists_by_measurement(release):
        return _of_partly_listed(release, areas, noise, rounds, level_alpha)
    plan = StatedPlan(noise, stated_thresholds(release.statement, noise))
    published = [published_level(each, tree, depth) for depth, each in enumerate(release.level_tables.values())]
    sums = _SUMS[statistic](areas, published)
    columns = {} if by is None else {by: areas.names.take(pa.array(sums.rows))}
    columns |= sums.columns
    if plan.thresholds:
        if rounds is not None:
            raise ValueError(
                f"replicates: {rounds} of them cannot show what lies below the threshold and is missing from every "
                "sum; leave replicates out, for sums without errors"
            )
        return pa.table(columns)
    variances = _exact(release, areas, plan, published) if rounds is None else None
    errors = LevelErrors()
    if variances is not None:
        std_dev = np.sqrt(variances)[sums.rows]
        named = sum(np.bincount(block.areas, minlength=len(areas)) for block in areas.blocks)
        errors = LevelErrors(
            rounding=stated_rounding(release.statement) * np.asarray(named, dtype=np.float64)[sums.rows]
        )
    else:
        stated = (release.statement.get("errors") or {}).get("replicates")
        rounds = rounds or stated or DEFAULT_REPLICATES
        std_dev = _replicated(release, areas, plan, published, sums, fresh_sources(rounds, fixed), rounds, progress)
        floors = np.zeros(len(areas)) if statistic == "group_sizes" else _upward(areas, plan)
        errors = LevelErrors(rounds, floors[sums.rows])
    unbiased = None if variances is None else _unbiased_sums(release, areas)
    if unbiased is None:
        lower, upper = interval(sums.numbers, std_dev, level_alpha, errors)
    else:
        lower, upper = unbiased_interval(sums.numbers, unbiased, std_dev, level_alpha)
    return pa.table(columns | {"std_dev": std_dev, "ci_lower": lower, "ci_upper": upper})


def _of_partly_listed(
    release: Release, areas: Areas, noise: Mapping[str, tuple[Statistic, Noise]], rounds: int | None, alpha: float
) -> pa.Table:
    """The totals of a release whose cells are listed because their measurements were large, remainders or not.

    Raises:
        ValueError: replicates are asked for.
    """
    if rounds is not None:
        refuse_remainders(release.statement, "replicates", NO_REPLICATES)
        raise ValueError(
            f"replicates: {rounds} of them cannot show what is in cells that are not listed; leave replicates out, for "
            "the error of the measurements"
        )
    sums = sums_with_remainders(release, areas, noise)
    lower, upper = sums.ends(alpha)
    columns = {} if areas.by is None else {areas.by: areas.names}
    std_dev = pa.array(np.sqrt(sums.inside.variance), mask=~sums.complete)
    return pa.table(columns | {"count": sums.count, "std_dev": std_dev, "ci_lower": lower, "ci_upper": upper})


def _lists_by_measurement(release: Release) -> bool:
    """Whether cells have rows because their measurements were large, so that sums of published numbers are too large.

    Where nothing was dropped and the measurements were not kept, the published numbers are all there is.
    """
    if (
        not has_fitted_errors(release)
        or LISTED_FROM not in [*release.level_tables.values()][-1].read(0, 0).column_names
    ):
        return False
    dropped = (release.statement.get("sparsity") or {}).get("applied", False)
    return bool(dropped or release.statement.get("measurements_kept") is not False)


def _unbiased_sums(release: Release, areas: Areas) -> FloatArray | None:
    """The sum of the unbiased estimates of every area, float64 (areas,); None where there are none of all nodes."""
    tables = [*release.level_tables.values()]
    if not isinstance(areas.tree, Hierarchy) or UNBIASED not in tables[-1].read(0, 0).column_names:
        return None
    columns = [np.concatenate([rows.column(UNBIASED).to_numpy() for rows in in_slices(table)]) for table in tables]
    sums = np.zeros(len(areas))
    sums_of = _area_cells(areas, [(np.arange(len(column)), column) for column in columns], 1)
    sums[sums_of[0]] = sums_of[1]
    return sums


def errors_are_exact(release: Release) -> bool:
    """Whether the errors of sums follow from the release, without replicates."""
    mechanism = release.statement["mechanism"]["name"]
    return mechanism == "LeafGaussian" or (mechanism == "LeastSquares" and has_fitted_errors(release))


def _exact(release: Release, areas: Areas, plan: StatedPlan, published: Sequence[PublishedLevel]) -> FloatArray | None:
    """The variance of every area's count where the release is a linear fit; None elsewhere."""
    if not errors_are_exact(release):
        return None
    if release.statement["mechanism"]["name"] == "LeafGaussian":  # sums of leaves with independent noise
        return areas.leaves.astype(np.float64) * plan.levels[areas.tree.levels[-1]][1].variance
    return fitted_variances(areas, plan.levels, published)


def _sums_of_counts(areas: Areas, levels: Sequence[PublishedLevel]) -> Sums:
    every = np.arange(len(areas), dtype=np.int64)
    found = _area_cells(areas, [(each.nodes, each.numbers) for each in levels], 1)
    counts = np.zeros(len(areas), dtype=levels[-1].numbers.dtype)
    counts[found[0]] = found[1]
    return Sums(every, every, {"count": counts}, counts)


def _sums_of_sizes(areas: Areas, levels: Sequence[PublishedLevel]) -> Sums:
    width = 1 + max((int(each.sizes.max()) for each in levels if each.sizes is not None and len(each.sizes)), default=0)
    keys, groups = _area_cells(areas, [_size_cells(each, width) for each in levels], width)
    kept = groups != 0
    keys, groups = keys[kept], groups[kept]
    rows, sizes = np.divmod(keys, width)
    return Sums(rows, keys, {"size": sizes, "groups": groups}, groups)


def _size_cells(level: PublishedLevel, width: int) -> Cells:
    sizes = np.zeros(0, dtype=np.int64) if level.sizes is None else level.sizes
    return level.nodes * width + sizes, level.numbers


_SUMS: dict[str, Callable[[Areas, Sequence[PublishedLevel]], Sums]] = {
    "counts": _sums_of_counts,
    "flows": _sums_of_counts,
    "group_sizes": _sums_of_sizes,
}
"""How the published numbers of each statistic are summed over areas."""


def _area_cells(areas: Areas, levels: Sequence[Cells], width: int) -> Cells:
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
    release: Release,
    areas: Areas,
    plan: StatedPlan,
    published: list[PublishedLevel],
    sums: Sums,
    sources: Any,
    rounds: int,
    progress: bool,
) -> FloatArray:
    """The root mean square error of every sum in replicates of the release, float64 (n,)."""
    replicated: CountReplicates | SizeReplicates
    if release.statement["statistic"] == "group_sizes":
        replicated, _ = replicates_of_sizes(release, areas.tree, plan, published)
        width, of_sizes = replicated.domain.largest + 1, True
    else:
        replicated, _ = replicates_of_counts(release, areas.tree, plan, published)
        width, of_sizes = 1, False
    sizes = np.asarray(sums.columns["size"], dtype=np.int64) if of_sizes else 0
    keys = sums.rows * width + sizes
    truth_keys, truth = _area_cells(areas, replicated.truths(), width)
    there = np.zeros(len(keys), dtype=np.int64)
    if len(truth_keys):
        at = np.minimum(np.searchsorted(truth_keys, keys), len(truth_keys) - 1)
        there = np.where(truth_keys[at] == keys, truth[at], 0).astype(np.int64)
    errors = SquaredErrors(keys, there)
    with stage("replicate"), step_progress(progress, rounds, "replicates") as done:
        for levels in replicated.run(sources):
            errors.add(*_area_cells(areas, levels, width))
            done()
    return errors.std_dev


def _upward(areas: Areas, plan: StatedPlan) -> FloatArray:
    """What the upper ends use at least: the greatest noise of one node that an area's rows name; of all, the root's."""
    floors = upward_floors(areas.tree, plan)
    found = np.zeros(len(areas))
    for block in areas.blocks:
        np.maximum.at(found, block.areas, floors[block.depth])
    found[areas.leaves == areas.tree.size(len(areas.tree.levels) - 1)] = floors[0]
    return found
