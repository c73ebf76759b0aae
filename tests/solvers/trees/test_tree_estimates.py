"""Unbiased estimates of all nodes of a tree: against dense least squares."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallytree.solvers.trees.linear import combined_estimates, combined_variances


@given(st.integers(0, 10**6), st.booleans())
def test_they_are_those_of_dense_least_squares(seed, public):
    """A root, inner nodes and leaves; some children of every node were measured and have no descendants."""
    rng = np.random.default_rng(seed)
    sizes = [1]
    first, others = [], []
    for _ in range(2):
        children = rng.integers(1, 4, sizes[-1])
        first.append(np.concatenate([[0], np.cumsum(children)]))
        others.append(rng.integers(0, 3, sizes[-1]))
        sizes.append(int(children.sum()))
    own = np.array([0.0 if public else 2.0, *rng.uniform(0.5, 9, 2)])
    noisy = [rng.integers(-5, 60, size) for size in sizes]
    aside = [[rng.integers(-5, 20, int(k)) for k in level] for level in others]

    # every column is a leaf of the measured tree: kept leaves, then those that have no descendants
    leaves = sizes[2] + sum(int(level.sum()) for level in others)
    rows, values, weights = [], [], []
    covers = [np.zeros((size, leaves)) for size in sizes]
    covers[2][np.arange(sizes[2]), np.arange(sizes[2])] = 1
    place = sizes[2]
    for depth in (1, 0):
        for node in range(sizes[depth]):
            covers[depth][node] = covers[depth + 1][first[depth][node] : first[depth][node + 1]].sum(axis=0)
            for value in aside[depth][node]:
                row = np.zeros(leaves)
                row[place] = 1
                covers[depth][node] += row
                rows.append(row)
                values.append(value)
                weights.append(own[depth + 1])
                place += 1
    for depth in range(3):
        for row, value in zip(covers[depth], noisy[depth], strict=True):
            rows.append(row)
            values.append(value)
            weights.append(max(own[depth], 1e-10))
    scale = 1 / np.sqrt(np.array(weights))
    solution = np.linalg.lstsq(np.array(rows) * scale[:, None], np.array(values) * scale, rcond=None)[0]
    found = combined_estimates(
        first, own, noisy, others, [np.array([each.sum() for each in level], float) for level in aside]
    )
    for depth in range(3):
        np.testing.assert_allclose(found.nodes[depth], covers[depth] @ solution, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(
        np.concatenate([each + shift for level, shifts in zip(aside[::-1], found.shifts[::-1], strict=True)
                        for each, shift in zip(level, shifts, strict=True)] or [np.empty(0)]),
        solution[sizes[2] :], rtol=1e-5, atol=1e-4,
    )  # fmt: skip


@pytest.mark.slow
def test_their_errors_have_the_stated_variance():
    """4,000 draws: each variance is within 8 % (3.5 standard errors of the estimate of a variance)."""
    rng = np.random.default_rng(3)
    first, others, own = [np.array([0, 2]), np.array([0, 3, 4])], [np.array([1]), np.array([2, 0])], [4.0, 9.0, 25.0]
    made = []
    for _ in range(4_000):
        noisy = [rng.normal(0, np.sqrt(v), n) for v, n in zip(own, (1, 2, 4), strict=True)]
        sums = [rng.normal(0, np.sqrt(9.0 * others[0])), rng.normal(0, np.sqrt(25.0 * others[1]))]
        made.append(np.concatenate(combined_estimates(first, own, noisy, others, sums).nodes))
    expected = np.concatenate(combined_variances(first, own, others).nodes)
    np.testing.assert_allclose(np.var(made, axis=0), expected, rtol=0.08)
    np.testing.assert_allclose(np.mean(made, axis=0), 0, atol=0.35)
