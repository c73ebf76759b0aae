"""`Release.mean` and `Release.quantile`: of a numeric attribute of tables, and of the sizes of groups.

A mean is the ratio of a weighted sum and a sum (`fieller.py`). A quantile is where the number of records below, C, is
the share q of all, N. The interval has the values at which C − q·N may be 0: those between where the upper ends of the
intervals of C − q·N reach 0 first, and where the lower ends leave it last (Woodruff 1952, Journal of the American
Statistical Association 47). Within a class C is a straight line; so are the ends between those at its borders, which
makes the interval no narrower, since a mean of two errors deviates no more than the mean of their deviations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import ROOT, TOTAL
from tallytree.numbers.accuracy.replicate_errors import checked_replicates
from tallytree.numbers.classes import Classes, classes_of
from tallytree.numbers.fieller import HALF, RatioErrors, ratio_columns
from tallytree.numbers.kinds import require_statistic
from tallytree.numbers.ratios import together
from tallytree.numbers.shares import ratio_of
from tallytree.numbers.size_summaries import mean_size, size_quantile
from tallytree.numbers.table_totals import (
    Conditions,
    TableSums,
    areas_of_level,
    columns_needed,
    conditions_of,
    paths_of_level,
    weights_of,
)
from tallytree.release import Release
from tallytree.release.intervals import checked_alpha, quantile
from tallytree.release.view.release_view import ReleaseView
from tallytree.support.arrays import FloatArray
from tallytree.support.methods import method_of_release
from tallytree.support.validate import safe_text


@method_of_release("mean")
def mean_of(
    release: Release,
    level: Any,
    *,
    attribute: str | None,
    values: Mapping[str, Any] | None,
    where: Mapping[str, Any] | None,
    alpha: float,
    replicates: int | None,
    seed: int | None,
) -> pa.Table:
    """`Release.mean`, which documents the arguments."""
    view, level_alpha = ReleaseView(release), checked_alpha(alpha)
    require_statistic("mean", view.statistic)
    if _is_of_sizes(view, attribute, values, where):
        return mean_size(view, level, level_alpha, replicates, seed)
    _refuse_replicates(replicates)
    paths, sums, classes, conditions = _numeric(view, level, attribute, values, where)
    center = float(classes.middle.mean())  # the covariance loses fewer digits, and the interval moves along

    def weights(refined: Sequence[int]) -> FloatArray:
        mask = weights_of(view.layout.product, [conditions])(refined)[0]
        middle = classes.middle[classes.of_cells(_attributes(view), tuple(refined))] - center
        return np.stack([mask * middle, mask])

    numbers, unbiased = sums.counts(weights).T, sums.unbiased(weights)
    variances = sums.variances(lambda refined: _with_sum(weights(refined))).T
    unit = float(np.diff(classes.middle).min()) if len(classes.middle) > 1 else 0.0
    estimates = numbers if unbiased is None else unbiased.T
    shifted = RatioErrors.of(estimates, together(variances), unit=unit)
    lowest, highest = (float(end) - center for end in (classes.middle.min(), classes.middle.max()))
    mean = ratio_of(*numbers)
    columns = ratio_columns(mean, shifted, level_alpha, lowest, highest, "mean", center)
    return pa.table(paths | {"count": numbers[1].astype(np.int64)} | columns)


@method_of_release("quantile")
def quantile_of(
    release: Release,
    level: Any,
    q: Any,
    *,
    attribute: str | None,
    values: Mapping[str, Any] | None,
    where: Mapping[str, Any] | None,
    alpha: float,
    replicates: int | None,
    seed: int | None,
) -> pa.Table:
    """`Release.quantile`, which documents the arguments."""
    view, level_alpha = ReleaseView(release), checked_alpha(alpha)
    require_statistic("quantile", view.statistic)
    share = checked_share(q)
    if _is_of_sizes(view, attribute, values, where):
        return size_quantile(view, level, share, level_alpha, replicates, seed)
    _refuse_replicates(replicates)
    paths, sums, classes, conditions = _numeric(view, level, attribute, values, where)

    def weights(refined: Sequence[int]) -> FloatArray:
        mask = weights_of(view.layout.product, [conditions])(refined)[0]
        of = classes.of_cells(_attributes(view), tuple(refined))
        below = of[None, :] < np.arange(len(classes.low) + 1)[:, None]  # at the border of each class
        return np.asarray((below - share) * mask)

    gaps = sums.counts(weights)
    unbiased = sums.unbiased(weights)
    reach = quantile(level_alpha, None) * np.sqrt(sums.variances(weights))
    reach = np.where(reach > 0, reach + HALF, 0.0)
    middle = gaps if unbiased is None else unbiased
    estimate = _crossing(gaps, classes, last=False)
    lower = np.fmin(_crossing(middle + reach, classes, last=False), estimate)
    upper = np.fmax(_crossing(middle - reach, classes, last=True), estimate)
    count = np.rint(gaps[:, -1] - gaps[:, 0]).astype(np.int64)
    columns = {
        "count": count,
        "quantile": pa.array(estimate, mask=count == 0),
        "ci_lower": pa.array(lower),
        "ci_upper": pa.array(upper),
    }
    return pa.table(paths | columns)


def checked_share(q: Any) -> float:
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


def _crossing(curve: FloatArray, classes: Classes, *, last: bool) -> FloatArray:
    """The value at which a curve that is given at the borders of all classes reaches 0: float64 (areas,).

    Args:
        curve: float64 (areas, classes + 1).
        classes: the classes, between the borders.
        last: where it leaves what is below 0 for the last time; else where it reaches 0 first.
    """
    borders = curve.shape[1]
    if last:
        here = borders - np.argmax((curve < 0)[:, ::-1], axis=1)
        here = np.where((curve < 0).any(axis=1), here, 0)
    else:
        here = np.where((curve >= 0).any(axis=1), np.argmax(curve >= 0, axis=1), borders)
    place = np.clip(here, 1, borders - 1)
    rows = np.arange(len(curve))
    before, after = curve[rows, place - 1], curve[rows, place]
    part = np.divide(-before, after - before, out=np.ones(len(curve)), where=after != before)
    part = np.where(here < 1, 0.0, np.where(here >= borders, 1.0, np.clip(part, 0.0, 1.0)))
    low, high = classes.low[place - 1], classes.high[place - 1]
    return np.asarray(low + part * (high - low), dtype=np.float64)


def _is_of_sizes(view: ReleaseView, attribute: Any, values: Any, where: Any) -> bool:
    """Whether the release is of group sizes; else of tables.

    Raises:
        ValueError: group sizes, and an argument that is about tables.
    """
    if view.statistic == "tables":
        return False
    for name, given in (("attribute", attribute), ("values", values), ("where", where)):
        if given is not None:
            raise ValueError(f"{name}: it is about the attributes of tables; group sizes have none, leave it out")
    return True


def _refuse_replicates(replicates: Any) -> None:
    if replicates is not None:
        raise ValueError(f"replicates: {checked_replicates(replicates)}, but tables have exact errors; leave it out")


def _numeric(
    view: ReleaseView, level: Any, attribute: Any, values: Mapping[str, Any] | None, where: Mapping[str, Any] | None
) -> tuple[dict[str, pa.Array], TableSums, Classes, Conditions]:
    """The paths of the areas, the sums over these, the classes of the attribute, and the conditions.

    Raises:
        ValueError: an unknown level; see `classes_of` and `conditions_of`.
    """
    product = view.layout.product
    side = product.attributes[0]
    if level not in (ROOT, TOTAL, *side.columns):
        raise ValueError(
            f"level: {safe_text(level)} is no level of the areas, which are {TOTAL}, {', '.join(side.columns)}"
        )
    refined = side.columns.index(level) + 1 if level in side.columns else 0
    classes, conditions = classes_of(product, attribute, values), conditions_of(product, where)
    needed = columns_needed(conditions)
    needed[classes.side] = max(needed[classes.side], classes.refined)
    sums = TableSums.of(view, areas_of_level(side, refined), needed)
    return paths_of_level(side, refined), sums, classes, conditions


def _attributes(view: ReleaseView) -> tuple[Any, ...]:
    return tuple(view.layout.product.attributes[1:])


def _with_sum(weights: FloatArray) -> FloatArray:
    return np.concatenate([weights, weights.sum(axis=0, keepdims=True)])
