"""Variances of least-squares estimates over trees, against dense covariances."""

from itertools import pairwise

import numpy as np
import pytest

from tallytree.solvers.trees.linear import combined_variances, downward_variances, mean_family_variances

FAMILIES = [np.array([0, 3]), np.array([0, 2, 3, 6])]
"""A root with three children, which have 2, 1 and 3."""
OWN = [5.0, 2.0, 3.0]


def leaf_sums():
    """Every node of the tree as sums of its leaves: the levels' rows, root first."""
    leaves = np.eye(6)
    middle = np.array([leaves[0:2].sum(0), leaves[2:3].sum(0), leaves[3:6].sum(0)])
    return [leaves.sum(0)[None], middle, leaves]


@pytest.mark.parametrize("root", [5.0, 1e-9])
def test_combined_variances_are_those_of_the_dense_fit(root):
    rows, own = leaf_sums(), [root, *OWN[1:]]
    everything = np.vstack(rows)
    weights = np.concatenate([np.full(len(each), 1 / w) for each, w in zip(rows, own, strict=True)])
    covariance = np.linalg.inv(everything.T @ (weights[:, None] * everything))
    for found, each in zip(combined_variances(FAMILIES, own).nodes, rows, strict=True):
        assert found == pytest.approx(np.diag(each @ covariance @ each.T), rel=1e-6, abs=1e-12)


def test_downward_variances_are_those_of_the_linear_map():
    # x_root = y, x_child = y_child + (x_parent − Σ y)/b, as a matrix on all noises (1 + 3 + 6 cells).
    noises = np.eye(10)
    levels = [noises[:1], noises[1:4], noises[4:]]
    released = [levels[0]]
    for offsets, measured in zip(FAMILIES, levels[1:], strict=True):
        made = []
        for parent, (start, stop) in enumerate(pairwise(offsets)):
            family = measured[start:stop]
            made.append(family + (released[-1][parent] - family.sum(0)) / (stop - start))
        released.append(np.vstack(made))
    own = np.repeat(OWN, [1, 3, 6])
    for found, each in zip(downward_variances(FAMILIES, OWN), released, strict=True):
        assert found == pytest.approx((each**2 * own).sum(axis=1))


@pytest.mark.parametrize("upward", [True, False])
def test_families_of_the_mean_size_are_exact_where_all_have_the_same(upward):
    families = [np.array([0, 4]), np.arange(0, 13, 3)]
    exact = combined_variances(families, OWN).nodes if upward else downward_variances(families, OWN)
    means = mean_family_variances([1, 4, 12], OWN, upward=upward)
    assert means == pytest.approx([level[0] for level in exact])
    assert all(np.ptp(level) < 1e-12 for level in exact)
