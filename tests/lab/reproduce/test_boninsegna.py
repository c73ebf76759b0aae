"""Boninsegna and Silvestri 2025: what they ran, and their bounds."""

import math
from fractions import Fraction

import numpy as np
import pytest

from helpers.inside import rho_from_epsilon
from tallytree.datasets import boninsegna as generator
from tallytree.lab.reproduce import Settings
from tallytree.lab.reproduce.boninsegna import (
    GAUSS,
    INFTDA,
    SH,
    TIME,
    _both_readings,
    figure_6,
    leaf_gaussian_bound,
    ratios,
    stability_bound,
    table_1,
)
from tallytree.lab.reproduce.boninsegna_as_run import half_budget, stability_histogram, threshold
from tallytree.lab.reproduce.boninsegna_data import FALSE_DISCOVERIES, LARGEST, QUANTITIES, synthetic
from tallytree.lab.reproduce.catalogue import experiment_named
from tallytree.lab.reproduce.measured import AS_RUN, AS_STATED
from tallytree.lab.reproduce.published import published


def test_half_the_budget_is_half_of_what_the_paper_converts():
    for epsilon in (0.1, 1.0, 10.0):
        whole = 2 * float(half_budget(epsilon).rho)
        assert whole == pytest.approx(float(rho_from_epsilon(Fraction(str(epsilon)), Fraction(1, 10**8), "paper")))


def test_the_published_threshold():
    assert threshold(1.0) == pytest.approx(26.97, abs=0.005)


def test_the_stability_histogram_as_run_finds_nothing_false_and_loses_what_is_small():
    trips = synthetic("binary_sparse")
    found = {(one.quantity, one.level): one.values for one in stability_histogram("s", trips, 1.0, 2, seed=1)}
    assert found[FALSE_DISCOVERIES, 16] == [0, 0]
    counts = trips.flows.flows["count"].to_numpy()
    # Pairs with fewer trips than the threshold are lost but for one in 10^4; the root lacks all of them.
    lost = counts[counts < 15].sum()
    assert all(lost < value < counts[counts < 40].sum() for value in found[LARGEST, 0])


def test_equal_seeds_give_equal_figures_and_runs_differ():
    trips = synthetic("binary_sparse")
    first, again, other = (stability_histogram("s", trips, 1.0, 2, seed=seed)[0].values for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert first[0] != first[1]


def test_proposition_1_is_a_union_bound_over_sums_of_leaves():
    # One node of level 1 of a binary tree of depth 3 sums 4 leaves; by hand for b = 2, σ = 3, β = 0.1.
    assert leaf_gaussian_bound(2, 3, 1, 3.0, 0.1) == pytest.approx(3 * math.sqrt(8 * math.log(40)))
    assert leaf_gaussian_bound(2, 3, 3, 3.0, 0.1) == pytest.approx(3 * math.sqrt(2 * math.log(160)))


def test_the_second_part_counts_the_leaves_below_a_node():
    # Two leaves below a node of level 2 of 3, ε = 0.5, threshold 30, 100 leaves, β = 0.1: 2·(30 + 4·ln 1,000), by hand.
    assert stability_bound(2, 3, 2, 0.5, 30, 100, 0.1) == pytest.approx(2 * (30 + 4 * math.log(1_000)))


def test_table_1_is_that_of_the_paper_but_for_its_misprint():
    found = table_1(Settings()).measured
    figures = published("inftda-table1")
    wrong = [one for one in found if one.values[0] != figures[one.key]]
    assert len(found) == 12
    assert [(one.data, one.quantity, one.values) for one in wrong] == [("random_dense", "O/D pairs", [94_612])]


def test_the_tree_is_that_of_the_release():
    trips = synthetic("binary_sparse")
    assert isinstance(trips.flows, type(generator.od_flows("binary", "sparse")))
    assert trips.tree.levels[:3] == ("all", "destination_level1", "origin_level1")
    assert len(trips.tree.levels) == 17


@pytest.mark.slow
def test_times_leave_the_tabulation_out():
    found = figure_6(Settings(runs=2)).measured
    assert {one.quantity for one in found} == {TIME}
    assert all(len(one.values) == 2 for one in found)


@pytest.mark.slow
def test_no_measured_error_is_above_the_bounds():
    """Each bound fails with probability 0.05 at most; the means of three runs lie far below."""
    found = experiment_named("inftda-theorem4").found(Settings()).measured
    figures = {(one.mechanism, one.level): np.mean(one.values) for one in found}
    for level in range(1, 17):
        assert figures[INFTDA, level] < figures["bound of this tree", level] < figures["Theorem 4", level]
        assert figures[GAUSS, level] < figures["Proposition 1", level]
        assert figures[SH, level] < figures["Proposition 1, SH", level]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:mechanism. LeafGaussian")
@pytest.mark.parametrize("name", ["binary_sparse", "random_sparse"])
def test_half_of_the_budget_gives_the_published_errors_and_all_of_it_does_not(name):
    """Ratios of 8 or 16 levels with a spread of 10 % each: their median is within 5 %, and that of the other is 0.7."""
    quantities = {LARGEST: QUANTITIES[LARGEST]}
    found = _both_readings(name, synthetic(name), [1.0], 10, 1, quantities)
    figures = published("inftda-figure4")

    def median(mechanism, variant):
        return np.median(ratios((m for m in found if (m.mechanism, m.variant) == (mechanism, variant)), figures))

    assert 0.95 < median(INFTDA, AS_RUN) < 1.05
    assert 0.65 < median(INFTDA, AS_STATED) < 0.78
    assert 0.95 < median(SH, AS_RUN) < 1.05
    assert median(SH, AS_STATED) > 1.2
