"""The prior of sparse trees: shares of occupied nodes by counting, and the search for the most probable one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.trees.sparse_prior import MAX_CLUSTERING, Occupancy, most_probable, prior_of


def test_without_clustering_nodes_are_occupied_as_by_independent_leaves():
    """Drawn 2,000 times: the share of occupied nodes, and of occupied children of occupied nodes."""
    random = np.random.default_rng(2)
    sizes = [1, 4, 20, 60]
    leaves = random.random((2_000, 60)) < 0.05
    prior = prior_of(Occupancy(0.05), sizes, 300.0)
    above = leaves.any(axis=1)
    for place, size in enumerate(sizes[1:], 1):
        occupied = leaves.reshape(2_000, size, -1).any(axis=2)
        assert prior.marginal[place] == pytest.approx(occupied.mean(), rel=0.05)
        # Below any given node, children are occupied independently.
        assert prior.given_parent[place] == pytest.approx(occupied.mean(), rel=0.05)
        assert prior.mean[place] == pytest.approx(300 / occupied[above].sum(axis=1).mean(), rel=0.05)


@settings(max_examples=50)
@given(st.floats(1e-6, 1.0), st.floats(0, MAX_CLUSTERING), st.lists(st.integers(2, 40), min_size=1, max_size=5))
def test_a_prior_has_probabilities_and_fewer_nodes_above(share, clustering, branches):
    sizes = np.cumprod([1, *branches]).tolist()
    prior = prior_of(Occupancy(share, clustering), sizes, 1_000.0)
    assert ((prior.given_parent > 0) & (prior.given_parent <= 1)).all()
    assert (np.diff(prior.marginal) <= 1e-12).all()
    assert (np.diff(prior.mean) <= 1e-9).all()
    assert prior.mean[0] == pytest.approx(1_000)
    family, chance = np.array(branches), np.minimum(prior.given_parent[1:], 1 - 1e-12)
    grown = family * chance / -np.expm1(family * np.log1p(-chance))
    found = np.array(sizes) * prior.marginal
    np.testing.assert_allclose(grown, found[1:] / found[:-1], rtol=1e-5)


def test_all_leaves_occupied_is_certain_everywhere():
    prior = prior_of(Occupancy(1.0, 0.3), [1, 5, 25], 100.0)
    assert prior.given_parent.tolist() == prior.marginal.tolist() == [1.0, 1.0, 1.0]
    assert prior.mean.tolist() == [100.0, 20.0, 4.0]


@settings(max_examples=30)
@given(st.floats(-9, 0), st.floats(0, MAX_CLUSTERING))
def test_the_search_finds_a_maximum(log_share, clustering):
    asked = []

    def evidence(occupancy):
        asked.append(occupancy)
        x, y = np.log(occupancy.share) - log_share, 3 * (occupancy.clustering - clustering)
        return -(x**2) - y**2 - 0.8 * x * y

    found = most_probable(evidence, 20_000)
    assert np.log(found.share) == pytest.approx(log_share, abs=0.2)
    assert found.clustering == pytest.approx(clustering, abs=0.1)
    assert len(asked) == len(set(asked)) < 150


def test_of_two_optima_the_search_finds_the_more_probable_one():
    """Many leaves anywhere, or few that lie together, of which a grid without clustering shows nothing."""

    def evidence(occupancy):
        x, y = np.log(occupancy.share), occupancy.clustering
        return max(-1 - (x + 2) ** 2 - (5 * y) ** 2, -((x + 8) ** 2) - (10 * (y - 0.35)) ** 2)

    found = most_probable(evidence, 20_000)
    assert np.log(found.share) == pytest.approx(-8, abs=0.2)
    assert found.clustering == pytest.approx(0.35, abs=0.1)


def test_a_single_leaf_has_a_prior():
    assert most_probable(lambda each: each.share, 1).share == 1
