"""What the errors of sums of tables follow from: the precisions of measurements, and unbiased estimates of cells."""

from __future__ import annotations

import numpy as np

from tallytree.kinds.columns import UNBIASED
from tallytree.release.statement import mechanism_code
from tallytree.release.view.layouts import published_totals
from tallytree.release.view.recorded_measurements import FRESH_COPY
from tallytree.release.view.release_view import ReleaseView
from tallytree.solvers.tables.linear import NoisyTable, linear_estimate
from tallytree.solvers.tables.marginals import Marginal
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.tables.expected import MIN_VARIANCE, precisions_of


def fitted_precisions(view: ReleaseView) -> list[dict[Marginal, float]]:
    """The precisions of what was measured, from which the errors of sums of the fitted tables follow.

    Raises:
        ValueError: the tables were fitted by a mechanism from outside, whose errors nothing tells.
    """
    if mechanism_code(view.statement):
        raise ValueError(
            "release: its tables were made by a mechanism from outside, and the errors of their sums are not known; "
            "add up the rows of a table yourself, or release by tallytree.tables.LeastSquares()"
        )
    return precisions_of(view.layout, {name: law.variance for name, (_, law) in view.noise.items()})


def of_possible_cells(view: ReleaseView, depth: int, above: IntArray) -> tuple[FloatArray, FloatArray]:
    """Bounds of the variances of the cells of a table and of sums of its possible cells, and of their covariances.

    Those of the table's own measurements: the estimates err less, as they use all measurements.

    Args:
        view: of a release with impossible cells.
        depth: the table.
        above: int64 (cells,), the sum that each is in.

    Returns:
        Float64 (2, cells), of each cell and of the sum that it is in; and (cells,), the covariances.

    Raises:
        ValueError: the table was not measured itself.
    """
    layout = view.layout
    precision = fitted_precisions(view)[layout.area_level(depth)].get(layout.marginal(depth))
    zero = layout.impossible_cells(depth)
    if precision is None or zero is None:
        raise ValueError(
            "within: impossible cells are in the sums, whose errors are known only of a table of the release; name one"
        )
    own = np.where(np.broadcast_to(zero, (layout.areas(depth), layout.width(depth))).ravel(), 0.0, 1 / precision)
    return np.stack([own, np.bincount(above, own)[above]]), own


def unbiased_table(view: ReleaseView, depth: int) -> FloatArray | None:
    """The unbiased estimate of every cell of a table, float64 (areas, cells of an area), as published or measured.

    None for a release without such estimates: its errors are those of replicates, or its mechanism has none.

    Raises:
        ValueError: the release has them, but not all cells are listed, and its measurements are not whole.
    """
    layout, name = view.layout, view.levels[depth]
    if not view.has(name, UNBIASED):
        return None
    if view.rows(name) == layout.size(depth):
        return np.asarray(view.column(name, UNBIASED), dtype=np.float64).reshape(layout.areas(depth), -1)
    return _from_measurements(view, depth)


def _from_measurements(view: ReleaseView, depth: int) -> FloatArray:
    """The estimate of a table whose zeros are not listed."""
    layout, noise = view.layout, view.noise
    measured: list[list[NoisyTable]] = [[] for _ in range(len(layout.families) + 1)]
    for place, name in enumerate(layout.levels):
        if name in noise:
            values = view.release.measurements(name).column("value").to_numpy().astype(np.int64)
            if len(values) != layout.size(place):
                raise ValueError(f"release: the measurements of {name!r} do not list all its cells; {FRESH_COPY}")
            variance = max(noise[name][1].variance, MIN_VARIANCE)
            shape = (layout.areas(place), -1)
            measured[layout.area_level(place)].append(
                NoisyTable(layout.marginal(place), values.reshape(shape), variance)
            )
    estimate = linear_estimate(
        layout.detail, layout.families, measured, layout.area_level(depth), layout.marginal(depth), _exact_totals(view)
    )
    zero = layout.impossible_cells(depth)
    if zero is not None:
        estimate[np.broadcast_to(zero, estimate.shape)] = 0.0
    return estimate


def _exact_totals(view: ReleaseView) -> list[IntArray]:
    """The totals that were published exactly, per level from the root."""
    exact = published_totals(view.statement, view.layout, view.all_cells())
    if exact is None:
        return []
    totals = [exact.totals]
    for family in reversed(view.layout.families[: exact.area_level]):
        totals.insert(0, np.add.reduceat(totals[0], family[:-1]))
    return totals
