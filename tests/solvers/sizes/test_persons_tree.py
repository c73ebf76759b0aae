"""Ranks of persons in a tree: against dense linear algebra, by hand, and at size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.sizes import persons_tree
from tallytree.solvers.sizes.persons_tree import RanksLevel, fit

RNG = np.random.default_rng


def tail_counts(rng, households, k, mean=1.4):
    """True ranks of one node."""
    size = 1 + rng.poisson(mean, households)
    row = [np.count_nonzero(size >= s) for s in range(1, k + 1)]
    return np.array([*row, np.maximum(size - k, 0).sum()])


def tree(rng, k, households, scale, families=(3, 4)):
    """True ranks and noisy levels of a tree whose leaves have the given mean numbers of households."""
    leaves = int(np.prod(families))
    true = [np.array([tail_counts(rng, rng.poisson(households), k) for _ in range(leaves)])]
    children = [np.zeros(leaves + 1, np.int64)]
    for width in reversed(families):
        children.insert(0, np.arange(0, len(true[0]) + 1, width))
        true.insert(0, np.add.reduceat(true[0], children[0][:-1]))
    levels = []
    for here, first_child in zip(true, children, strict=True):
        noise = rng.geometric(1 - np.exp(-1 / scale), (2, *here.shape))
        variance = 2 * np.exp(-1 / scale) / np.expm1(-1 / scale) ** 2
        levels.append(RanksLevel(here + noise[0] - noise[1], variance, here.sum(axis=1), first_child))
    return true, levels


def check(levels, found):
    for level, fitted in zip(levels, found.levels, strict=True):
        ranks, k = fitted.ranks, fitted.ranks.shape[1] - 1
        assert (ranks.sum(axis=1) == level.persons).all()
        assert (ranks >= 0).all()
        assert (np.diff(ranks[:, :k], axis=1) <= 0).all()
        assert (ranks[ranks[:, k - 1] == 0, k] == 0).all()
    for i, level in enumerate(levels[:-1]):
        sums = np.add.reduceat(found.levels[i + 1].ranks, level.first_child[:-1])
        assert (sums == found.levels[i].ranks).all()


@given(
    st.integers(0, 2**32), st.sampled_from([1, 2, 7, 20]), st.sampled_from([0, 0.3, 2, 30]),
    st.sampled_from([0.05, 1, 20, 1000]), st.sampled_from([(1,), (1, 3), (4, 1), (3, 2, 2)]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_every_constraint_holds(seed, k, households, scale, families):
    _, levels = tree(RNG(seed), k, households, scale, families)
    found = fit(levels)
    check(levels, found)
    for i, level in enumerate(found.levels):
        assert np.isfinite(found.variances(i, np.eye(k + 1), np.zeros(len(level.ranks)))).all()


def test_a_root_alone_by_hand():
    """T(1) = 7 and E = 5 were measured, and there are 10 persons: both are one less."""
    level = RanksLevel(np.array([[7, 5]]), 2.0, np.array([10]), np.zeros(2, np.int64))
    found = fit([level])
    assert found.levels[0].ranks.tolist() == [[6, 4]]
    variance = found.variances(0, np.array([[1.0, 0.0]]), np.zeros(1))
    assert variance == pytest.approx(1.25)  # half of the noise's, and rounding


def test_the_persons_alone_tell_what_small_nodes_are():
    persons = np.array([0, 1, 1])
    values = np.full((3, 4), 99)
    levels = [
        RanksLevel(np.full((1, 4), -7), 2.0, np.array([2]), np.array([0, 3])),
        RanksLevel(values, 2.0, persons, np.zeros(4, np.int64)),
    ]
    found = fit(levels)
    assert found.levels[1].ranks.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert found.levels[0].ranks.tolist() == [[2, 0, 0, 0]]


def test_the_root_before_rounding_is_generalised_least_squares():
    """Of all cells of the tree, under the sums of rows and of children."""
    _, levels = tree(RNG(3), 2, 20, 3.0, (3,))
    found = fit(levels).levels[0].real[0]
    leaves, cells = levels[1].values.shape
    design = np.vstack([np.tile(np.eye(cells), leaves), np.eye(leaves * cells)])
    noisy = np.concatenate([levels[0].values.ravel(), levels[1].values.ravel()]).astype(float)
    weight = np.repeat([1 / levels[0].variance, 1 / levels[1].variance], [cells, leaves * cells])
    normal = design.T @ (weight[:, None] * design)
    rows = np.kron(np.eye(leaves), np.ones(cells))
    system = np.block([[normal, rows.T], [rows, np.zeros((leaves, leaves))]])
    right = np.concatenate([design.T @ (weight * noisy), levels[1].persons])
    expected = np.linalg.solve(system, right)[: leaves * cells].reshape(leaves, cells).sum(axis=0)
    assert np.allclose(found, expected)


def test_a_family_before_rounding_is_the_gaussian_posterior():
    """Children about their shares of the parent, with the variances that were found; their sum is the parent's."""
    _, levels = tree(RNG(5), 3, 60, 4.0, (4,))
    found = fit(levels)
    directions, expected = persons_tree._directions_of(levels)
    raw = persons_tree._climb(levels, directions)
    scatter = persons_tree._scatters(levels, raw, expected)[0].likely
    persons, parent = levels[1].persons, found.levels[0].ranks[0] @ directions
    for d in range(3):
        prior, noise = persons * scatter[d], levels[1].variance
        mean = persons / persons.sum() * parent[d]
        both = np.linalg.inv(np.diag(1 / prior + 1 / noise))
        alone = both @ (mean / prior + raw[1].mean[:, d] / noise)
        gain = both.sum(axis=1) / both.sum()
        real = alone + gain * (parent[d] - alone.sum())
        assert np.allclose(found.levels[1].real @ directions[:, d], real)


def test_directions_part_noise_and_scatter():
    row = np.array([50.0, 30.0, 10.0, 4.0])
    directions, expected = persons_tree._directions(row, 94)
    assert np.allclose(directions.T @ directions, np.eye(3))
    assert np.allclose(directions.sum(axis=0), 0)
    # Households drawn again and again: the covariance of their ranks, given that there are N persons.
    rng = RNG(1)
    size = rng.choice([1, 2, 3, 4, 5, 6], p=[0.4, 0.4, 0.08, 0.06, 0.04, 0.02], size=(400, 3_000))
    rows = np.stack([(size >= s).sum(axis=1) for s in (1, 2, 3)] + [np.maximum(size - 3, 0).sum(axis=1)], axis=1)
    centred = rows - rows.sum(axis=1, keepdims=True) * (rows.sum(axis=0) / rows.sum())
    covariance = directions.T @ np.cov(centred.T) @ directions / rows.sum(axis=1).mean()
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 0.25 * np.diag(covariance).max()
    assert (expected > 0).all()


def test_errors_are_as_stated_at_size():
    """3 levels, 1,500 leaves: 90 % intervals of the number of households, and of households by size, hold."""
    true, levels = tree(RNG(11), 5, 40, 6.0, (30, 50))
    found = fit(levels)
    check(levels, found)
    households = np.zeros((6, 6))
    households[:5, :5] = np.eye(5) - np.eye(5, k=1)
    households[5, 0] = 1
    for i in (1, 2):
        reach = np.maximum(1.645 * np.sqrt(found.variances(i, households, np.zeros(len(found.levels[i].ranks)))), 0.5)
        held = np.abs((found.levels[i].ranks - true[i]) @ households.T) <= reach
        assert held[:, :5].mean() > 0.87
        assert held[:, 5].mean() > 0.83


def test_the_sum_makes_the_root_more_accurate():
    """Beside the noisy tail counts of the root alone, made monotone: mean absolute error over 60 trees."""
    ours, raw = 0.0, 0.0
    for seed in range(60):
        true, levels = tree(RNG(seed), 3, 30, 8.0, (1,))
        ours += np.abs(fit(levels).levels[0].ranks - true[0])[:, :3].sum()
        raw += np.abs(np.maximum(levels[0].values, 0) - true[0])[:, :3].sum()
    assert ours < 0.8 * raw
