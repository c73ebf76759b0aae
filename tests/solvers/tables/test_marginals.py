"""Marginals and components of a dense table, against dense matrices."""

import numpy as np
import pytest

from tallytree.solvers.tables.marginals import Detail

BANDS = (np.zeros(6, dtype=np.int64), np.array([0, 0, 0, 1, 2, 2]), np.arange(6))
SHAPES = {
    "two attributes": Detail.flat([4, 3]),
    "an attribute with levels": Detail((BANDS, Detail.flat([2]).groups[0])),
    "one value": Detail.flat([1, 3, 1]),
    "no attribute": Detail(()),
}
every_shape = pytest.mark.parametrize("detail", SHAPES.values(), ids=SHAPES)


def matrix(detail, marginal):
    """Q_T."""
    found = np.zeros((detail.size(marginal), detail.cells))
    found[detail.cell_of(marginal), np.arange(detail.cells)] = 1
    return found


def projections(detail):
    """P_S of every component, dense."""
    found = []
    for i in range(len(detail.components)):
        factors = np.zeros(len(detail.components))
        factors[i] = 1
        found.append(detail.applied(factors, np.eye(detail.cells)))
    return found


@every_shape
def test_sums_and_averages_are_the_matrices(detail):
    x = np.arange(2 * detail.cells, dtype=np.int64).reshape(2, -1) ** 2 % 17
    for marginal in detail.components:
        q = matrix(detail, marginal)
        sums = detail.summed(x, marginal)
        assert sums.dtype == np.int64
        np.testing.assert_array_equal(sums, x @ q.T)
        np.testing.assert_allclose(detail.averaged(sums, marginal), x @ q.T @ np.diag(1 / q.sum(axis=1)) @ q)
        np.testing.assert_array_equal(detail.summed(x.sum(axis=1)[:, None], detail.components[0], detail.components[0]),
                                      x.sum(axis=1)[:, None])  # fmt: skip
        for coarser in detail.components:
            if all(map(int.__le__, coarser, marginal)):
                np.testing.assert_array_equal(detail.summed(sums, coarser, marginal), detail.summed(x, coarser))


@every_shape
def test_components_are_orthogonal_projections_that_add_up(detail):
    found = projections(detail)
    np.testing.assert_allclose(sum(found), np.eye(detail.cells), atol=1e-12)
    assert [round(float(np.trace(p))) for p in found] == detail.dimensions().tolist()
    for i, p in enumerate(found):
        for j, q in enumerate(found):
            np.testing.assert_allclose(p @ q, p if i == j else 0 * p, atol=1e-12)


@every_shape
def test_eigenvalues_are_those_of_the_norm(detail):
    precisions = {marginal: 1 + i / 3 for i, marginal in enumerate(detail.components) if i % 2 == 0}
    norm = sum(
        u * detail.mean_group(t) * matrix(detail, t).T @ np.diag(1 / detail.group_sizes(t)) @ matrix(detail, t)
        for t, u in precisions.items()
    )
    values = detail.eigenvalues(precisions)
    dense = sum(value * p for value, p in zip(values, projections(detail), strict=True))
    np.testing.assert_allclose(dense, norm, atol=1e-12)


def test_without_levels_in_between_the_norm_is_that_of_least_squares():
    detail = SHAPES["two attributes"]
    for marginal in detail.components:
        q = matrix(detail, marginal)
        np.testing.assert_allclose(
            detail.applied(detail.eigenvalues({marginal: 2.0}), np.eye(detail.cells)), 2 * q.T @ q
        )
