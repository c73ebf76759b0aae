"""`Release.ratio`: the ratio of two sums of published numbers, with its error.

The covariance of two sums is half of what the variance of both together has more than theirs: (Var(n + d) − Var(n) −
Var(d)) / 2. In n + d, what lies in both sums counts twice. See `fieller.py` for the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.numbers.accuracy.fitted_errors import FittedTree
from tallytree.numbers.accuracy.replicate_errors import Cells, checked_replicates, stated_plan
from tallytree.numbers.fieller import RatioErrors, ratio_columns
from tallytree.numbers.kinds import require_statistic
from tallytree.numbers.moments import replicates_for, rounds_of, second_moments, with_floor
from tallytree.numbers.shares import ratio_of
from tallytree.numbers.table_totals import (
    TableSums,
    chosen_areas,
    columns_needed,
    conditions_of,
    weights_of,
)
from tallytree.numbers.totals import (
    area_cells,
    errors_are_exact,
    lists_by_measurement,
    unbiased_sums,
    upward_of_areas,
)
from tallytree.release import Release
from tallytree.release.intervals import checked_alpha, stated_rounding
from tallytree.release.statement import own_mechanism
from tallytree.release.view.areas import SummedAreas, read_areas
from tallytree.release.view.release_view import ReleaseView
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.methods import method_of_release
from tallytree.support.validate import integer


@method_of_release("ratio")
def ratio_between(
    release: Release,
    numerator: Any,
    denominator: Any,
    *,
    areas: Any = None,
    by: str | None = None,
    alpha: float = 0.1,
    replicates: int | None = None,
    seed: int | None = None,
) -> pa.Table:
    """`Release.ratio`, which documents the arguments."""
    level_alpha = checked_alpha(alpha)
    view = ReleaseView(release)
    require_statistic("ratio", view.statistic)
    rounds = None if replicates is None else checked_replicates(replicates)
    fixed = None if seed is None else integer(seed, "seed")
    if view.statistic == "tables":
        if rounds is not None:
            raise ValueError(f"replicates: {rounds}, but ratios in tables have exact errors; leave it out")
        names, numbers, errors = _of_tables(view, numerator, denominator, areas, by)
    else:
        if areas is not None:
            raise ValueError("areas: of counts the numerator and the denominator are tables of areas; leave it out")
        names, numbers, errors = _of_counts(view, numerator, denominator, by, rounds, fixed)
    published = {"numerator": numbers[0].astype(np.int64), "denominator": numbers[1].astype(np.int64)}
    columns = ratio_columns(ratio_of(*numbers), errors, level_alpha, 0.0, np.inf, "ratio")
    return pa.table(names | published | columns)


def together(variances: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Variances of both sums and their covariance, from the variances of the first, the second, and both together.

    Args:
        variances: float64 (3, n).
    """
    first, second, both = variances
    with np.errstate(invalid="ignore"):
        return first, second, (both - first - second) / 2


def _of_tables(
    view: ReleaseView, numerator: Any, denominator: Any, areas: Any, by: str | None
) -> tuple[dict[str, pa.Array], FloatArray, RatioErrors]:
    """Names of areas, both published sums, and the errors of these."""
    product = view.layout.product
    conditions = [
        conditions_of(product, given, argument)
        for given, argument in ((numerator, "numerator"), (denominator, "denominator"))
    ]
    chosen, names = chosen_areas(product, areas, by)
    sums = TableSums.of(view, chosen, columns_needed(*conditions))
    both = weights_of(product, conditions)
    numbers = sums.counts(both).T
    unbiased = sums.unbiased(both)
    variances = sums.variances(lambda refined: _with_sum(both(refined))).T
    estimates = numbers if unbiased is None else unbiased.T
    return names, numbers, RatioErrors.of(estimates, together(variances))


def _with_sum(weights: FloatArray) -> FloatArray:
    """The weights of some sums, and of all of them together."""
    return np.concatenate([weights, weights.sum(axis=0, keepdims=True)])


def _of_counts(
    view: ReleaseView, numerator: Any, denominator: Any, by: str | None, rounds: int | None, seed: int | None
) -> tuple[dict[str, pa.Array], FloatArray, RatioErrors]:
    """Names of areas, both published sums, and the errors of these.

    Raises:
        ValueError: nothing is known of the errors of sums; areas of the numerator are missing from the denominator.
    """
    if view.partly_listed or lists_by_measurement(view):
        raise ValueError(
            "release: not all of its cells are listed, so that no covariance of its sums is known; give totals of both "
            "with release.total, or release tables or a hierarchy"
        )
    tree = view.known_tree
    first = _named(partial(read_areas, tree, numerator, by), "numerator")
    second = _matched(first, _named(partial(read_areas, tree, denominator, by), "denominator"))
    pair, plan = (first, second), stated_plan(view)
    published = view.all_published()
    cells = [(level.nodes, level.numbers) for level in published]
    numbers = _sums(pair, cells)
    names = {} if by is None else {by: first.names}
    if rounds is not None or not errors_are_exact(view.release):
        rounds = rounds_of(view, rounds)
        moments = second_moments(replicates_for(view), partial(_sums, pair), rounds, seed)
        own = [with_floor(moments[i, i], numbers[i], upward_of_areas(each, plan)) for i, each in enumerate(pair)]
        return names, numbers, RatioErrors.of(numbers, (*own, moments[0, 1]), rounds)
    if own_mechanism(view.statement) == "LeafGaussian":
        variances = _independent_leaves(pair, plan.levels[tree.levels[-1]][1].variance)
    else:
        fitted = FittedTree.of(tree, plan.levels, published)
        variances = np.stack([fitted.variances(first), fitted.variances(second), fitted.variances(*pair)])
    errors = RatioErrors.of(numbers, together(variances))
    unbiased = [unbiased_sums(view, each) for each in pair]
    if unbiased[0] is not None and unbiased[1] is not None:
        return names, numbers, replace(errors, numerator=unbiased[0], denominator=unbiased[1])
    rounding = stated_rounding(view.statement)
    wider = [each + rounding * (each > 0) for each in (errors.numerator_variance, errors.denominator_variance)]
    return names, numbers, replace(errors, numerator_variance=wider[0], denominator_variance=wider[1])


def _named(read: Callable[[], SummedAreas], argument: str) -> SummedAreas:
    """A table of areas, with the argument's own name in messages.

    Raises:
        ValueError, TypeError: it cannot be used.
    """
    try:
        return read()
    except (ValueError, TypeError) as error:
        raise type(error)(str(error).replace("areas:", f"{argument}:", 1)) from None


def _matched(first: SummedAreas, second: SummedAreas) -> SummedAreas:
    """The areas of the second table that the first one has, in the order of the first.

    Raises:
        ValueError: one is missing.
    """
    if first.by is None:
        return second
    place = {name: number for number, name in enumerate(first.names.to_pylist())}
    found = np.array([place.get(name, -1) for name in second.names.to_pylist()], dtype=np.int64)
    missing = sorted(set(range(len(first))) - set(found.tolist()))
    if missing:
        raise ValueError(
            f"denominator: it has no rows with {first.by}={first.names[missing[0]].as_py()!r}, as the numerator has; "
            "give rows for each area"
        )
    blocks = []
    for block in second.blocks:
        kept = found[block.areas] >= 0
        if kept.any():
            nodes = tuple(each[kept] for each in block.nodes)
            blocks.append(replace(block, nodes=nodes, areas=found[block.areas][kept]))
    return SummedAreas(second.tree, second.by, first.names, tuple(blocks))


def _sums(pair: tuple[SummedAreas, SummedAreas], cells: list[Cells]) -> FloatArray:
    """The numbers of nodes, summed over the areas of both tables: float64 (2, areas)."""
    found = np.zeros((2, len(pair[0])))
    for row, areas in zip(found, pair, strict=True):
        at, numbers = area_cells(areas, cells, 1)
        row[at] = numbers
    return found


def _independent_leaves(pair: tuple[SummedAreas, SummedAreas], variance: float) -> FloatArray:
    """The variances of both sums and of both together, where the noise of leaves is independent: float64 (3, areas)."""
    own = [variance * each.leaves.astype(np.float64) for each in pair]
    shared = np.zeros(len(pair[0]))
    leaves, of = _leaves(pair[0]), _leaves(pair[1])
    common = np.intersect1d(leaves, of)
    np.add.at(shared, common % max(len(shared), 1), variance)
    return np.stack([*own, own[0] + own[1] + 2 * shared])


def _leaves(areas: SummedAreas) -> IntArray:
    """The leaves of areas, as leaf · areas + area."""
    bottom = len(areas.tree.levels) - 1
    leaves = np.arange(areas.tree.size(bottom), dtype=np.int64)
    pairs = [areas.members(block, bottom, leaves) for block in areas.blocks]
    return np.concatenate([places * len(areas) + of for places, of in pairs])
