"""Variances of the parts of a table, against exact covariance matrices."""

from functools import reduce

import numpy as np
import pytest

from tallytree._solvers.tables.coarse import wanted_sums
from tallytree._solvers.tables.lattice import Lattice
from tallytree._solvers.tables.marginals import Detail
from tallytree._solvers.tables.pooling import kept_coarser, own_parts, own_variances


@pytest.mark.parametrize("sizes", [[4, 3], [2, 3, 2], [1, 5]])
def test_own_parts_are_those_of_the_exact_covariance(sizes):
    """The detail has the covariance Σ_S P_S / π_S, with the projection P_S of each component, here made densely."""
    detail = Detail.flat(sizes)
    lattice = Lattice.below(detail, [detail.finest])
    spread = np.random.default_rng(2).gamma(2, 1, len(lattice.known))
    projections = [
        reduce(
            np.kron,
            [np.eye(n) - 1 / n if depth else np.full((n, n), 1 / n) for n, depth in zip(sizes, of, strict=True)],
        )
        for of in lattice.known
    ]
    covariance = sum(v * p for v, p in zip(spread, projections, strict=True))
    own, std_devs = [], []
    for k, marginal in enumerate(lattice.known):
        cell = np.zeros((detail.size(marginal), detail.cells))
        cell[detail.cell_of(marginal), np.arange(detail.cells)] = 1
        std_devs.append(np.sqrt((cell @ covariance @ cell.T)[0, 0]))
        own.append((cell @ projections[k] @ cell.T)[0, 0] * spread[k])
    np.testing.assert_allclose(own_variances(lattice, np.array(std_devs)), own, rtol=1e-9, atol=1e-9)
    kept = kept_coarser(lattice, wanted_sums(lattice, 10.0 ** np.arange(len(lattice.known)), free=True))
    np.testing.assert_allclose(own_parts(lattice, kept, spread[None])[0], own, rtol=1e-9, atol=1e-12)
