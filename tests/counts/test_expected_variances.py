"""The variance of every node before a release: of every mechanism that has a closed form."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.counts.expected_variances import fitted_variances, summed_variances
from tallytree.mechanisms import Noise

NOISE = {level: Noise("discrete_gaussian", scale) for level, scale in (("all", 6), ("state", 8), ("county", 10))}


@pytest.fixture(scope="module")
def flows(areas):
    return tt.Product({"o": areas, "d": areas}, order=["o", "d", "o", "d"])


def dense(tree, noise):
    """The variances of the least-squares estimate by dense linear algebra, per level."""
    leaves = np.arange(tree.size(len(tree.levels) - 1))
    nodes, rows = leaves, [np.eye(len(leaves))]
    for depth in range(len(tree.levels) - 1, 0, -1):
        nodes = tree.parents(depth, nodes)
        rows.append((np.arange(tree.size(depth - 1))[:, None] == nodes[None, :]).astype(float))
    rows.reverse()
    measured = [each for each, level in zip(rows, tree.levels, strict=True) if level in noise]
    weights = np.concatenate(
        [
            np.full(len(each), 1 / noise[level].variance)
            for each, level in zip(rows, tree.levels, strict=True)
            if level in noise
        ]
    )
    everything = np.vstack(measured)
    covariance = np.linalg.inv(everything.T @ (weights[:, None] * everything))
    return [np.diag(each @ covariance @ each.T) for each in rows]


def test_of_a_hierarchy(areas):
    for found, expected in zip(fitted_variances(areas, NOISE, upward=True), dense(areas, NOISE), strict=True):
        assert found.nodes == pytest.approx(expected)
        assert found.exact
        assert np.all(found.single <= found.nodes * (1 + 1e-12))


def test_of_a_product_whose_families_are_not_numbered_one_after_the_other(flows):
    noise = {level: Noise("discrete_gaussian", 4 + depth) for depth, level in enumerate(flows.levels)}
    for found, expected in zip(fitted_variances(flows, noise, upward=True), dense(flows, noise), strict=True):
        assert np.sort(found.nodes) == pytest.approx(np.sort(expected))


def test_a_level_without_siblings_repeats_the_one_above():
    table = pa.table({"country": ["C"] * 3, "state": ["A", "A", "B"], "seat": ["1", "2", "1"], "town": ["x", "y", "z"]})
    tree = tt.Hierarchy.from_table(table, ["country", "state", "seat", "town"])
    noise = {level: Noise("discrete_gaussian", 5) for level in ("country", "state", "seat")}
    for upward in (True, False):
        levels = fitted_variances(tree, noise, upward=upward)
        assert levels[-1].nodes.tolist() == levels[-2].nodes.tolist()
        assert len(levels) == 4


def test_a_public_total_has_no_variance_and_its_children_less_noise(areas):
    private = {level: each for level, each in NOISE.items() if level != "all"}
    root, states, _ = fitted_variances(areas, private, upward=True)
    assert root.nodes.tolist() == [0.0]
    assert np.all(states.nodes < fitted_variances(areas, NOISE, upward=True)[1].nodes)


def test_a_tree_that_is_too_large_has_families_of_the_mean_size(areas):
    whole = fitted_variances(areas, NOISE, upward=True)
    means = fitted_variances(areas, NOISE, upward=True, max_nodes=3)
    assert [each.exact for each in means] == [False] * 3
    for found, exact in zip(means, whole, strict=True):
        assert found.nodes[0] == pytest.approx(exact.nodes.mean(), rel=0.2)


def test_sums_of_leaves(areas):
    found = summed_variances(areas, NOISE["county"])
    variance = NOISE["county"].variance
    assert [each.nodes.tolist() for each in found] == [[4 * variance], [3 * variance, variance], [variance] * 4]
    assert [each.single[0] for each in found] == [variance] * 3


def test_of_every_mechanism(areas):
    noise = {"county": NOISE["county"]}
    assert tt.counts.LeastSquares(sparsity=3).expected_variances(areas, NOISE) is None
    assert tt.counts.TopDown(sparsity=3).expected_variances(areas, NOISE) is None
    assert len(tt.counts.LeafGaussian().expected_variances(areas, noise)) == 3
    *above, leaves = tt.counts.StabilityHistogram().expected_variances(areas, noise)
    assert above == [None, None]
    assert leaves.nodes.tolist() == [NOISE["county"].variance]


def test_noise_that_floats_hold_no_variance_of_is_not_public(areas):
    narrow = {level: Noise("discrete_laplace", 0.001) for level in NOISE}
    assert all(0 < each.nodes.max() < 1e-11 for each in fitted_variances(areas, narrow, upward=True))
