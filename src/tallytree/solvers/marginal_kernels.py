"""Functions of the norm of `marginals`, row by row: what kernels need of a `Detail`, and how they use it.

The **pyramid** of a row of detail cells is the row and all its marginals, one after the other, the finest first. It is
made by summing each marginal from a finer one that differs in one attribute by one level; and since Σ_S f_S P_S is
Σ_T w_T E_T (`Detail.averages`), a function of the norm scales the pyramid and adds every marginal to that finer one
again. Both cost about as many additions as the marginals have cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallytree.compute.arrays import FloatArray, IntArray
from tallytree.compute.kernels import kernel
from tallytree.solvers.marginals import Detail


class Pyramid(NamedTuple):
    """The marginals of a `Detail`, the finest first: marginal k is its component (components − 1 − k)."""

    begin: IntArray
    """(components + 1,) where the cells of each marginal begin in a pyramid."""
    source: IntArray
    """(components,) the finer marginal that each is summed from; it comes before. 0 for the finest."""
    groups: IntArray
    """For each marginal but the finest, the own cell of every cell of its source."""
    groups_begin: IntArray
    """(components + 1,) where those of each marginal begin."""
    inverse_size: FloatArray
    """(cells of the pyramid,) 1/n_g."""
    place: IntArray
    """(components, cells) where in the pyramid each detail cell is counted, by marginal."""
    averages: FloatArray
    """(components, components) w_T by marginal T, for f_S = 1 and 0 elsewhere, by component S."""


def pyramid_of(detail: Detail) -> Pyramid:
    """What kernels need of a table of attributes."""
    marginals = detail.components[::-1]
    position = {marginal: k for k, marginal in enumerate(marginals)}
    sizes = np.array([detail.size(marginal) for marginal in marginals], dtype=np.int64)
    begin = np.concatenate([[0], np.cumsum(sizes)])
    source, groups = np.zeros(len(marginals), dtype=np.int64), [np.zeros(0, dtype=np.int64)]
    for k, marginal in enumerate(marginals[1:], 1):
        finer = [
            position[(*marginal[:axis], depth + 1, *marginal[axis + 1 :])]
            for axis, depth in enumerate(marginal)
            if depth < detail.finest[axis]
        ]
        source[k] = min(finer, key=lambda other: (sizes[other], other))
        groups.append(detail.cell_of(marginal, within=marginals[source[k]]))
    return Pyramid(
        begin,
        source,
        np.concatenate(groups),
        np.cumsum([0, *(len(part) for part in groups)]),
        1.0 / np.concatenate([detail.group_sizes(marginal) for marginal in marginals]),
        np.stack([start + detail.cell_of(marginal) for start, marginal in zip(begin, marginals, strict=False)]),
        np.ascontiguousarray(detail.averages(np.eye(len(marginals)))[:, ::-1].T),
    )


@kernel
def weigh(pyramid: Pyramid, factors: FloatArray, weights: FloatArray) -> None:
    """Write the weights w_T, by marginal, of Σ_S f_S P_S, by component: both (components,)."""
    for k in range(len(weights)):
        total = 0.0
        for s in range(len(factors)):
            total += pyramid.averages[k, s] * factors[s]
        weights[k] = total


@kernel
def lift(pyramid: Pyramid, row: FloatArray) -> None:
    """Write the marginals of a pyramid whose detail cells are given."""
    for k in range(1, len(pyramid.source)):
        here, finer = pyramid.begin[k], pyramid.begin[pyramid.source[k]]
        first, size = pyramid.groups_begin[k], pyramid.groups_begin[k + 1] - pyramid.groups_begin[k]
        for g in range(here, pyramid.begin[k + 1]):
            row[g] = 0.0
        for i in range(size):
            row[here + pyramid.groups[first + i]] += row[finer + i]


@kernel
def lower(pyramid: Pyramid, weights: FloatArray, sums: FloatArray, row: FloatArray) -> None:
    """From a full pyramid of x, write Σ_T w_T E_T x into the detail cells of a pyramid, which may be the same one."""
    for k in range(len(weights)):
        for g in range(pyramid.begin[k], pyramid.begin[k + 1]):
            row[g] = weights[k] * pyramid.inverse_size[g] * sums[g]
    for k in range(len(weights) - 1, 0, -1):
        here, finer = pyramid.begin[k], pyramid.begin[pyramid.source[k]]
        first, size = pyramid.groups_begin[k], pyramid.groups_begin[k + 1] - pyramid.groups_begin[k]
        for i in range(size):
            row[finer + i] += row[here + pyramid.groups[first + i]]


@kernel
def square(pyramid: Pyramid, weights: FloatArray, row: FloatArray) -> float:
    """From a full pyramid of x, Σ_T w_T xᵀE_T x."""
    total = 0.0
    for k in range(len(weights)):
        part = 0.0
        for g in range(pyramid.begin[k], pyramid.begin[k + 1]):
            part += pyramid.inverse_size[g] * row[g] * row[g]
        total += weights[k] * part
    return total


@kernel
def apply_rows(pyramid: Pyramid, factors: FloatArray, x: FloatArray) -> None:
    """Replace each row x, (areas, cells), by Σ_S f_S P_S x; factors of each row, or the same of all."""
    weights = np.empty(factors.shape[1])
    row = np.empty(len(pyramid.inverse_size))
    n = x.shape[1]
    for i in range(len(x)):
        if i == 0 or len(factors) > 1:
            weigh(pyramid, factors[i], weights)
        row[:n] = x[i]
        lift(pyramid, row)
        lower(pyramid, weights, row, row)
        x[i] = row[:n]


@kernel
def spread(values: IntArray, cell: IntArray, weight: FloatArray, out: FloatArray) -> None:
    """Add to each detail cell the value of its cell of a marginal, times that cell's weight: row by row."""
    for i in range(len(out)):
        for j in range(len(cell)):
            out[i, j] += weight[cell[j]] * values[i, cell[j]]


@kernel
def sum_children(families: IntArray, values: IntArray, out: IntArray) -> None:
    """Write the sum of the rows families[i] … families[i + 1] − 1 into row i. Rows are counted from families[0]."""
    for i in range(len(out)):
        out[i] = 0
        for c in range(families[i] - families[0], families[i + 1] - families[0]):
            for j in range(out.shape[1]):
                out[i, j] += values[c, j]
