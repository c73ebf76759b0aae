"""The counterexamples: each is computed, and ties to the library's own sensitivities."""

import math

import numpy as np
import pytest

from tallytree.lab.reproduce import Settings, errata
from tallytree.lab.reproduce.published import published


@pytest.fixture(scope="module")
def found():
    return {(one.data, one.quantity): np.mean(one.values) for one in errata.errata(Settings()).measured}


def test_a_group_that_grows_by_one_moves_every_region_of_the_chain(found):
    assert errata.chain_counts([(0, 1)], regions=2, largest=2) == [1, 1, 1, 1]
    assert errata.chain_counts([(0, 2)], regions=2, largest=2) == [0, 0, 1, 1]
    assert (found[errata.CHAIN, errata.L1], found[errata.CHAIN, errata.LOSS]) == (2, 2)


@pytest.mark.parametrize("m", [2, 3, 10])
def test_distinct_tuples_move_a_level_above_the_leaves_by_m(found, m):
    assert found[errata.TUPLES.format(m), errata.L2] == pytest.approx(math.sqrt(2) * m)


def test_the_delta_of_two_cells_is_that_of_a_simulation(found):
    """10⁶ draws: the standard error of the mean is below 0.0003, and the next scale that is tried differs by 0.01."""
    rng = np.random.default_rng(7)
    noise = rng.laplace(0, math.sqrt(2), (1_000_000, 2))
    loss = ((np.abs(noise - 1) - np.abs(noise)) / math.sqrt(2)).sum(axis=1)
    simulated = np.maximum(0, 1 - np.exp(1 - loss)).mean()
    assert found[errata.SCALE, errata.DELTA] == pytest.approx(simulated, abs=0.0012)
    assert errata.delta_of_two_cells(1.5, 1.0) < simulated - 0.005


def test_noise_of_the_right_scale_has_no_delta():
    assert errata.delta_of_two_cells(2.0, 1.0) == pytest.approx(0, abs=1e-12)
    assert errata.delta_of_two_cells(2.0, 0.9) > 0.001


def test_one_noise_vector_cancels(found):
    assert found[errata.ONE_NOISE, errata.NOISE] == 0


def test_the_first_cell_and_the_smallest_size_are_those_of_a_simulation(found):
    """The authors' steps on sizes 0 and 2, 200,000 times: four standard errors are 0.45 %; 83.5 % is 4.7 % away."""
    rng = np.random.default_rng(5)
    noise = rng.geometric(1 - math.exp(-1 / 3), (200_000, 2)) - rng.geometric(1 - math.exp(-1 / 3), (200_000, 2))
    first_cell = 1 + noise[:, 0]  # one group has size 0
    assert found[errata.FIRST_CELL, errata.NOISY_SHARE] == pytest.approx(100 * np.mean(first_cell != 0), abs=0.45)
    assert found[errata.FIRST_CELL, errata.NOISY_SHARE] == pytest.approx(88.17, abs=0.01)
    low, high = noise[:, 0], 2 + noise[:, 1]
    fitted = np.where(low > high, (low + high) / 2, low)
    released = np.round(np.clip(fitted, 0, None))
    assert found[errata.SMALLEST, errata.SHARE] == pytest.approx(100 * np.mean(released == 0), abs=0.45)


def test_an_impossible_output_is_rarer_than_an_impossible_noisy_cell(found):
    """The fit in L1 by its definition: the lowest and the highest first cells are minima over k of medians of k cells.

    4,000 runs: four standard errors of the difference to the 2,000 of `errata` are 5.0 %.
    """
    rng = np.random.default_rng(6)
    chance = 1 - math.exp(-1 / 3)
    noisy = np.repeat([1, 2], [2, 58]) + rng.geometric(chance, (4_000, 60)) - rng.geometric(chance, (4_000, 60))
    firsts = []
    for k in range(1, 61):
        ordered = np.sort(noisy[:, :k], axis=1)
        firsts.append((ordered[:, (k - 1) // 2], ordered[:, k // 2]))
    low, high = (np.min(side, axis=0) for side in zip(*firsts, strict=True))
    released = np.rint(np.clip((low + high) / 2, 0, 2))
    assert found[errata.FIRST_CELL, errata.SHARE] == pytest.approx(100 * np.mean(released != 0), abs=5.0)
    assert found[errata.FIRST_CELL, errata.SHARE] < 50


def test_the_printed_mass_function_is_too_heavy(found):
    alpha, terms = math.exp(-1), range(-400, 401)
    printed = math.fsum((1 - alpha) / (1 + alpha) * alpha ** (abs(k) / 2) for k in terms)
    assert found[errata.GEOMETRIC, errata.TOTAL] == pytest.approx(printed)


def test_every_counterexample_contradicts_a_claim(found):
    claims = published("errata")
    measured = errata.errata(Settings()).measured
    assert {one.key for one in measured} == set(claims)
    assert all(np.mean(one.values) != pytest.approx(claims[one.key], rel=0.01) for one in measured)


def test_a_sensitivity_of_the_library_that_is_wrong_is_not_passed_over(monkeypatch):
    monkeypatch.setattr(errata, "sensitivity", lambda *_, **__: errata_of_half())
    with pytest.raises(AssertionError, match="by enumeration"):
        list(errata.chain())


def errata_of_half():
    from helpers.inside import Sensitivity

    return Sensitivity(1, 1)
