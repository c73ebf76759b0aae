from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.mechanisms import Measurement, Noise
from tallytree.sizes.estimators import ESTIMATORS, Bounds
from tallytree.solvers.sizes import isotonic

NOISE = Noise("discrete_laplace", Fraction(3))


def measurement(statistic, rows):
    offsets = np.cumsum([0, *map(len, rows)])
    values = np.array([value for row in rows for value in row], dtype=np.int64)
    return Measurement("level", statistic, np.arange(len(rows)), values, offsets, NOISE)


def estimated(name, rows, bounds, norm):
    estimator = ESTIMATORS[name]
    fit = estimator.fit(measurement(estimator.statistic, rows), bounds, norm)
    return estimator.estimate(fit, bounds.groups, bounds)


def runs_of(estimate, node):
    cut = slice(estimate.offsets[node], estimate.offsets[node + 1])
    return list(zip(estimate.size[cut].tolist(), estimate.groups[cut].tolist(), strict=True))


def test_without_noise_each_estimator_gives_the_histogram_back():
    # A node with 5 groups of sizes 0, 2, 2, 3, 4 (K = 4), and one with 2 groups of size 1.
    bounds = Bounds(np.array([5, 2]), 0, 4)
    exact = {
        "cumulative": [[4, 4, 2, 1], [2, 0, 0, 0]],
        "sorted": [[0, 2, 2, 3, 4], [1, 1]],
        "naive": [[1, 0, 2, 1, 1], [0, 2, 0, 0, 0]],
    }
    for name, rows in exact.items():
        estimate = estimated(name, rows, bounds, 1)
        assert runs_of(estimate, 0) == [(0, 1), (2, 2), (3, 1), (4, 1)]
        assert runs_of(estimate, 1) == [(1, 2)]


def test_variances_are_kuos():
    variance = NOISE.variance
    bounds = Bounds(np.array([5]), 0, 4)
    cumulative = estimated("cumulative", [[4, 4, 2, 1]], bounds, 1)
    assert cumulative.variance.tolist() == pytest.approx([2 * variance, variance, 2 * variance, 2 * variance])
    by_size = estimated("sorted", [[0, 3, 1, 3, 4]], bounds, 2)
    assert runs_of(by_size, 0) == [(0, 1), (2, 2), (3, 1), (4, 1)]
    assert by_size.variance.tolist() == pytest.approx([variance, variance / 2, variance, variance])


@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_variances_are_the_papers_formulas(epsilon):
    """5.1.1: 2/(ε²·|block|); 5.1.2: 4/(ε²·groups). Ours use the noise's own variance, below Laplace's by about 1/6."""
    noise = Noise("discrete_laplace", Fraction(1) / Fraction(str(epsilon)))
    bounds = Bounds(np.array([7]), 0, 4)
    for name, row, groups, numerator in (
        ("sorted", [0, 3, 1, 3, 4, 4, 4], [1, 2, 1, 3], 2),
        ("cumulative", [6, 6, 4, 3], [1, 2, 1, 3], 4),
    ):
        estimator = ESTIMATORS[name]
        measured = replace(measurement(estimator.statistic, [row]), noise=noise)
        estimate = estimator.estimate(estimator.fit(measured, bounds, 2), bounds.groups, bounds)
        assert estimate.groups.tolist() == groups
        assert estimate.variance == pytest.approx([numerator / (epsilon**2 * n) for n in groups], rel=0.05)
        assert (estimate.variance < numerator / (epsilon**2 * estimate.groups)).all()


@settings(max_examples=100)
@given(st.lists(st.lists(st.integers(-9, 15), max_size=12), min_size=1, max_size=4), st.sampled_from([1, 2]))
def test_the_sorted_estimate_is_the_isotonic_fit_group_by_group(rows, norm):
    groups = np.array([len(row) for row in rows])
    bounds = Bounds(groups, 1, 9)
    estimate = estimated("sorted", rows, bounds, norm)
    for node, row in enumerate(rows):
        fit = np.floor(isotonic.fit(row, norm=norm, lower=1, upper=9) + 0.5).astype(int)
        assert [size for size, n in runs_of(estimate, node) for _ in range(n)] == fit.tolist()


def test_a_tie_of_medians_is_halved_in_both_estimators():
    """4, 0 has every median from 0 to 4: the midpoint is 2, whichever end a solver would find."""
    by_size = estimated("sorted", [[4, 0]], Bounds(np.array([2]), 0, 4), 1)
    assert runs_of(by_size, 0) == [(2, 2)]
    by_tail = estimated("cumulative", [[2, 4, 0, 0]], Bounds(np.array([4]), 0, 4), 1)
    assert runs_of(by_tail, 0) == [(0, 1), (2, 3)]


rows = st.lists(st.lists(st.integers(-20, 40), min_size=4, max_size=4), min_size=1, max_size=4)


@settings(max_examples=100)
@given(rows, st.data(), st.sampled_from([1, 2]))
def test_the_cumulative_estimate_is_the_isotonic_fit_cell_by_cell(tails, data, norm):
    groups = np.array(data.draw(st.lists(st.integers(0, 15), min_size=len(tails), max_size=len(tails))))
    smallest = data.draw(st.integers(0, 2))
    bounds = Bounds(groups, smallest, smallest + 4)
    estimate = estimated("cumulative", tails, bounds, norm)
    for node, row in enumerate(tails):
        fit = isotonic.fit(groups[node] - np.array(row), norm=norm, lower=0, upper=int(groups[node]))
        cumulative = [*np.floor(fit + 0.5).astype(int), groups[node]]
        histogram = np.diff(cumulative, prepend=0)
        expected = [(smallest + s, int(h)) for s, h in enumerate(histogram) if h]
        assert runs_of(estimate, node) == expected


@pytest.mark.slow
@settings(max_examples=100)
@given(st.sampled_from(list(ESTIMATORS)), rows, st.data(), st.sampled_from([1, 2]))
def test_whatever_the_noise_groups_are_kept_and_sizes_are_in_range(name, values, data, norm):
    width = {"cumulative": 4, "naive": 4, "sorted": 4}[name]
    groups = np.array(data.draw(st.lists(st.integers(0, 15), min_size=len(values), max_size=len(values))))
    if name == "sorted":
        values = [data.draw(st.lists(st.integers(-20, 40), min_size=g, max_size=g)) for g in groups.tolist()]
    smallest, largest = 1, 1 + (width if name == "cumulative" else width - 1)
    bounds = Bounds(groups, smallest, largest)
    estimate = estimated(name, values, bounds, norm)
    for node in range(len(groups)):
        cut = slice(estimate.offsets[node], estimate.offsets[node + 1])
        assert estimate.groups[cut].sum() == groups[node]
        assert (np.diff(estimate.size[cut]) >= 0).all()
    assert ((estimate.size >= smallest) & (estimate.size <= largest)).all()
    assert (estimate.groups > 0).all()
    assert (estimate.variance > 0).all()


@settings(max_examples=100)
@given(rows, st.data(), st.sampled_from([1, 2]))
def test_private_numbers_of_groups_come_from_the_first_tail_and_then_count_as_public(tails, data, norm):
    """With the fit's own numbers nothing is moved; with other numbers groups are kept and sizes stay in range."""
    bounds = Bounds(None, 1, 4)
    estimator = ESTIMATORS["cumulative"]
    fit = estimator.fit(measurement("tail_counts", tails), bounds, norm)
    own = estimator.numbers(fit)
    fitted = [np.floor(isotonic.fit(-np.array(row), norm=norm, upper=0) + 0.5).astype(int) for row in tails]
    assert own.tolist() == [-row[0] for row in fitted]
    estimate = estimator.estimate(fit, own, bounds)
    for node, row in enumerate(fitted):
        histogram = np.append(-row, 0)[:-1] - np.append(-row, 0)[1:]
        assert runs_of(estimate, node) == [(1 + s, int(h)) for s, h in enumerate(histogram) if h]
    other = np.array(data.draw(st.lists(st.integers(0, 50), min_size=len(tails), max_size=len(tails))))
    estimate = estimator.estimate(fit, other, bounds)
    for node in range(len(tails)):
        runs = runs_of(estimate, node)
        assert sum(groups for _, groups in runs) == other[node]
        assert [size for size, _ in runs] == sorted({size for size, _ in runs})
        assert all(1 <= size <= 4 for size, _ in runs)
