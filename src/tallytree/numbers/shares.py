"""`Release.share`: what share of the records of an area, or of a cell, is in each of its parts, with errors.

A number and the number that it is a part of err together. Their covariance is that of the least-squares estimate of all
measurements (`solvers.tables.variance`; `FittedTree.parts`), or it comes from replicates; see `fieller.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import ROOT, stored_level
from tallytree.kinds.columns import UNBIASED
from tallytree.numbers.accuracy.fitted_errors import FittedTree
from tallytree.numbers.accuracy.replicate_errors import Cells, checked_replicates, stated_plan, upward_floors
from tallytree.numbers.accuracy.squared_errors import looked_up
from tallytree.numbers.fieller import RatioErrors, ratio_columns
from tallytree.numbers.kinds import require_statistic
from tallytree.numbers.moments import replicates_for, rounds_of, second_moments, with_floor
from tallytree.numbers.table_totals import fitted_precisions, unbiased_table
from tallytree.numbers.totals import errors_are_exact, lists_by_measurement
from tallytree.release import Release
from tallytree.release.intervals import checked_alpha, stated_rounding
from tallytree.release.statement import own_mechanism
from tallytree.release.view.areas import SummedAreas
from tallytree.release.view.layouts import exact_level_of
from tallytree.release.view.release_view import ReleaseView
from tallytree.solvers.tables.variance import nested_covariances, std_devs
from tallytree.support.arrays import FloatArray, IntArray, NumberArray
from tallytree.support.methods import method_of_release
from tallytree.support.validate import integer, safe_text
from tallytree.tables.layout import Table, table_of


@dataclass(frozen=True, eq=False)
class Parts:
    """Numbers and the numbers that they are parts of.

    Attributes:
        paths: what each is about.
        numerator: (n,) published numbers.
        denominator: (n,) the published numbers that they are parts of.
        errors: of both.
    """

    paths: pa.Table
    numerator: NumberArray
    denominator: NumberArray
    errors: RatioErrors


@method_of_release("share")
def share_of(
    release: Release,
    level: str,
    *,
    within: Any = (),
    alpha: float = 0.1,
    replicates: int | None = None,
    seed: int | None = None,
) -> pa.Table:
    """`Release.share`, which documents the arguments."""
    level_alpha = checked_alpha(alpha)
    view = ReleaseView(release)
    require_statistic("share", view.statistic)
    rounds = None if replicates is None else checked_replicates(replicates)
    fixed = None if seed is None else integer(seed, "seed")
    names = [within] if isinstance(within, str) else within
    if not isinstance(names, Sequence):
        raise TypeError(f"within: {safe_text(within)} must be the name of a level, or a tuple of names")
    if view.statistic == "tables":
        if rounds is not None:
            raise ValueError(f"replicates: {rounds}, but shares in tables have exact errors; leave it out")
        parts = _of_tables(view, level, names)
    else:
        parts = _of_counts(view, level, names, rounds, fixed)
    return shown(parts, level_alpha)


def shown(parts: Parts, alpha: float) -> pa.Table:
    """The table of shares."""
    share = ratio_of(parts.numerator, parts.denominator)
    columns = ratio_columns(share, parts.errors, alpha, 0.0, 1.0, "share")
    made = {name: parts.paths.column(name) for name in parts.paths.column_names}
    return pa.table(made | {"count": parts.numerator, "of": parts.denominator} | columns)


def ratio_of(numerator: NumberArray, denominator: NumberArray) -> FloatArray:
    """The ratios; NaN where the denominator is 0."""
    n, d = numerator.astype(np.float64), denominator.astype(np.float64)
    found: FloatArray = np.divide(n, d, out=np.full(len(n), np.nan), where=d != 0)
    return found


def _of_tables(view: ReleaseView, level: str, within: Sequence[str]) -> Parts:
    """The cells of a table, within those of a coarser one.

    Raises:
        ValueError: there is no such table, or the second is not coarser.
    """
    layout = view.layout
    depth = view.levels.index(level)
    fine = layout.tables[depth]
    coarse = table_of(layout.product, [] if list(within) == [ROOT] else within, "within")
    if any(map(int.__gt__, coarse.refined, fine.refined)):
        raise ValueError(
            f"within: {', '.join(coarse.levels)} is not a coarser table than {', '.join(fine.levels) or 'the total'}; "
            "a share is of a number in one that holds it"
        )
    place = layout.place(coarse)
    above = _above(view, fine, coarse)
    counts = view.cells_of_table(depth).ravel()
    cells = int(above.max()) + 1
    totals = np.bincount(above, counts, minlength=cells).astype(np.int64)[above]
    numbers = [counts.astype(np.float64), totals.astype(np.float64)]
    unbiased = unbiased_table(view, depth)
    if unbiased is not None:
        numbers[0] = np.asarray(unbiased.ravel(), dtype=np.float64)
        of_all = unbiased_table(view, place) if place is not None else None
        whole_of = np.bincount(above, numbers[0], minlength=cells) if of_all is None else of_all.ravel()
        numbers[1] = np.asarray(whole_of[above], dtype=np.float64)
    precisions = fitted_precisions(view)
    exact = exact_level_of(view.statement, layout)
    wanted = layout.area_level(depth), layout.marginal(depth)
    there = layout.place_at(coarse)
    if there is None:
        raise ValueError(
            f"within: no table of the release has a level of {', '.join(coarse.levels)}, so the errors of its numbers "
            "are not known; name one of the release's tables"
        )
    covariance = nested_covariances(
        layout.detail, layout.families, precisions, wanted, there, public_totals_level=exact
    ).ravel()
    tables = [[each[1] for each in {wanted, there} if each[0] == at] for at in range(len(layout.families) + 1)]
    deviations = std_devs(layout.detail, layout.families, precisions, tables, public_totals_level=exact)
    shape = layout.areas(depth), -1
    own = np.broadcast_to(deviations[wanted].reshape(shape), (layout.areas(depth), layout.width(depth))).ravel() ** 2
    areas = layout.areas_per_level[there[0]]
    whole = np.broadcast_to(deviations[there].reshape(areas, -1), (areas, layout.detail.size(there[1])))
    variance = whole.ravel()[above] ** 2
    zero = layout.impossible_cells(depth)
    if zero is not None:
        impossible = np.broadcast_to(zero, (layout.areas(depth), layout.width(depth))).ravel()
        own, covariance = np.where(impossible, 0.0, own), np.where(impossible, 0.0, covariance)
    errors = RatioErrors(numbers[0], numbers[1], own, variance, covariance)
    paths = layout.path_table(depth, np.arange(layout.size(depth), dtype=np.int64))
    return Parts(paths, counts, totals, errors)


def _above(view: ReleaseView, fine: Table, coarse: Table) -> IntArray:
    """The cell of the coarser table that holds each cell of the finer one: int64 (cells,)."""
    found = np.zeros(1, dtype=np.int64)
    for side, here, there in zip(view.layout.product.attributes, fine.refined, coarse.refined, strict=True):
        nodes = np.arange(side.size(here), dtype=np.int64)
        for refined in range(here, there, -1):
            nodes = side.parents(refined, nodes)
        found = (found[:, None] * side.size(there) + nodes[None, :]).ravel()
    return found


def _of_counts(view: ReleaseView, level: str, within: Sequence[str], rounds: int | None, seed: int | None) -> Parts:
    """The nodes of a level, within those of a level above.

    Raises:
        ValueError: there is no such level, or nothing is known of its errors.
    """
    if view.partly_listed or lists_by_measurement(view):
        raise ValueError(
            "release: not all of its cells are listed, so that no covariance of a cell with its sum is known; give "
            "totals of both with release.total, or release tables or a hierarchy"
        )
    tree = view.known_tree
    depth = view.levels.index(level)
    within = [stored_level(name, view.levels[0]) for name in within]
    if len(within) > 1 or (within and within[0] not in view.levels):
        raise ValueError(f"within: {within!r} must be one of the levels {', '.join(view.levels)}")
    above = view.levels.index(within[0]) if within else 0
    if above > depth:
        raise ValueError(
            f"within: {view.levels[above]!r} is below {view.levels[depth]!r}; a share is of a number in one that holds "
            "it"
        )
    published = view.all_published()
    nodes, numbers = published[depth].nodes, published[depth].numbers
    ancestors = nodes
    for at in range(depth, above, -1):
        ancestors = tree.parents(at, ancestors)
    totals = looked_up(ancestors, published[above].nodes, published[above].numbers)
    if rounds is None and errors_are_exact(view.release):
        variances = _exact_variances(view, (depth, above), (nodes, ancestors))
        first, second = _unbiased_of(view, depth, nodes), _unbiased_of(view, above, ancestors)
        estimates = [numbers, totals] if first is None or second is None else [first, second]
        errors = RatioErrors.of(estimates, variances)
    else:
        rounds = rounds_of(view, rounds)
        cells = partial(_looked_up, (depth, above), (nodes, ancestors))
        moments = second_moments(replicates_for(view), cells, rounds, seed)
        floors = upward_floors(tree, stated_plan(view))
        own = with_floor(moments[0, 0], numbers, floors[depth]), with_floor(moments[1, 1], totals, floors[above])
        errors = RatioErrors.of([numbers, totals], (*own, moments[0, 1]), rounds)
    return Parts(tree.path_table(depth, nodes), numbers, totals, errors)


def _looked_up(depths: Sequence[int], wanted: Sequence[IntArray], levels: list[Cells]) -> FloatArray:
    """The numbers of nodes of some levels: float64 (levels, n)."""
    return np.stack(
        [looked_up(nodes, *levels[depth]).astype(np.float64) for depth, nodes in zip(depths, wanted, strict=True)]
    )


def _exact_variances(
    view: ReleaseView, depths: tuple[int, int], nodes: tuple[IntArray, IntArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The variances of nodes and of their ancestors, and their covariance: float64 (n,) each."""
    tree, plan = view.known_tree, stated_plan(view)
    if own_mechanism(view.statement) == "LeafGaussian":  # sums of leaves with independent noise
        no_areas = SummedAreas(tree, None, pa.nulls(0, pa.string()), ())
        noise = plan.levels[tree.levels[-1]][1].variance
        own, whole = (
            noise * no_areas.leaves_below(at, each).astype(np.float64) for at, each in zip(depths, nodes, strict=True)
        )
        return own, whole, own
    published = view.all_published()
    rounding = 0.0 if view.has(view.levels[-1], UNBIASED) else stated_rounding(view.statement)
    own, whole = (
        looked_up(each, published[at].nodes, view.column(view.levels[at], "std_dev").astype(np.float64)) ** 2
        for at, each in zip(depths, nodes, strict=True)
    )
    parts = FittedTree.of(tree, plan.levels, published).parts(*depths, nodes[0])
    return own + rounding * (own > 0), whole + rounding * (whole > 0), parts * whole


def _unbiased_of(view: ReleaseView, depth: int, nodes: IntArray) -> FloatArray | None:
    """The unbiased estimates of nodes of a hierarchy, float64 (n,); None where there are none of all nodes."""
    if not view.lists_all or not view.has(view.levels[depth], UNBIASED):
        return None
    return np.asarray(view.column(view.levels[depth], UNBIASED), dtype=np.float64)[nodes]
