"""Laws of cells: against sums and optimisers that are written down directly, and what they say of made-up cells."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import laplace, norm

from tallytree.solvers.trees import cell_laws as module
from tallytree.solvers.trees.cell_laws import (
    BEGIN,
    GRID,
    LISTED,
    PRIOR,
    WIDTH,
    CellLaws,
    cell_laws,
    cell_posteriors,
    least_of_cells,
)

STRATA = module.POWERS[1] - module.POWERS[0] + 1


def cells_of(noisy, expected, deviation, *, noise="normal", most=1e9):
    noisy = np.atleast_1d(np.asarray(noisy, dtype=float))
    columns = (expected, deviation, float(noise == "laplace"), most)
    return np.stack([noisy, *(np.broadcast_to(np.asarray(each, dtype=float), noisy.shape) for each in columns)])


def one_law(weights):
    return CellLaws(np.zeros(STRATA, dtype=np.int64), np.asarray(weights, dtype=float)[None], 0.0)


def densities(cell):
    """The density of a cell's noisy number at each point of the grid that it may have, by the module's definition."""
    z, expected, s, is_laplace, most = cell
    middle = GRID * expected
    spread = np.sqrt(s**2 + (WIDTH * middle) ** 2)
    found = laplace.pdf(z, middle, spread / np.sqrt(2)) if is_laplace else norm.pdf(z, middle, spread)
    return np.where((middle <= most) | (GRID == 0), found, 0.0)


def some_law(seed):
    weights = np.random.default_rng(seed).dirichlet(np.full(len(GRID), 0.3))
    return 0.5 * weights + 0.5 * np.eye(len(GRID))[0]


@pytest.mark.parametrize("seed", range(5))
def test_posteriors_of_normal_noise_are_those_of_a_fine_grid_of_true_numbers(seed):
    """Each part is N(r·M, (width·r·M)²), cut off nowhere; so parts are far above 0 here, or 0."""
    rng, weights = np.random.default_rng(seed), some_law(seed)
    weights[1:30] = 0
    weights /= weights.sum()
    cells = cells_of(rng.uniform(-20, 200, 20), rng.uniform(2, 20, 20), rng.uniform(2, 15, 20), most=4000.0)
    found = cell_posteriors(cells, one_law(weights))
    x = np.linspace(0.005, 8000, 100_001)
    for i, (z, expected, s, _, most) in enumerate(cells.T):
        middle = GRID[1:] * expected
        prior = sum(
            weight * norm.pdf(x, at, WIDTH * at)
            for weight, at in zip(weights[1:], middle, strict=True)
            if weight > 0 and at <= most
        )
        mass = prior * norm.pdf(z, x, s) * (x[1] - x[0])
        zero = weights[0] * norm.pdf(z, 0, s)
        whole = mass.sum() + zero
        assert found.zero[i] == pytest.approx(zero / whole, abs=1e-3)
        assert found.mean[i] == pytest.approx((mass * x).sum() / whole, rel=2e-3, abs=2e-3)
        second = (mass * x**2).sum() / whole - ((mass * x).sum() / whole) ** 2
        assert found.variance[i] == pytest.approx(second, rel=1e-2, abs=2e-2)
        below = zero + np.cumsum(mass)
        median = 0.0 if zero + mass[x <= LISTED].sum() >= whole / 2 else x[np.searchsorted(below, whole / 2)]
        assert found.median[i] == pytest.approx(median, rel=3e-3, abs=0.03)


@pytest.mark.parametrize("noise", ["normal", "laplace"])
def test_the_probability_of_0_is_that_of_bayes(noise):
    """Of ratios that stand for 10 records or more, and 0: what lies between is counted as 0 where it is below ½."""
    weights = np.where((GRID == 0) | (GRID * 6 > 10), some_law(3), 0.0)
    cells = cells_of(np.linspace(-40, 300, 50), 6.0, 7.0, noise=noise, most=500.0)
    found = cell_posteriors(cells, one_law(weights / weights.sum()))
    for i, cell in enumerate(cells.T):
        joint = weights * densities(cell)
        assert found.zero[i] == pytest.approx(joint[0] / joint.sum(), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("noise", ["normal", "laplace"])
def test_no_other_weights_are_more_probable(noise, monkeypatch):
    """EM from many rounds, against a quasi-Newton optimiser of the same penalised likelihood, on 150 cells."""
    monkeypatch.setattr(module, "SAMPLED", 1000)
    rng = np.random.default_rng(4)
    true = np.where(rng.random(150) < 0.2, rng.exponential(80, 150), 0.0)
    noisy = true + (rng.normal(0, 6, 150) if noise == "normal" else rng.laplace(0, 6 / np.sqrt(2), 150))
    cells = cells_of(noisy, 16.0, 6.0, noise=noise, most=3000.0)
    like = np.array([densities(cell) for cell in cells.T])

    def penalised(weights):
        return np.log(like @ weights).sum() + PRIOR * (BEGIN * np.log(weights)).sum()

    def of_logits(logits):
        weights = np.exp(logits - logits.max())
        return -penalised(weights / weights.sum())

    best = minimize(of_logits, np.log(BEGIN), method="L-BFGS-B", options={"maxiter": 400, "maxfun": 10**6})
    weights = cell_laws(cells).weights[0]
    assert weights.sum() == pytest.approx(1)
    assert penalised(weights) > -best.fun - 1.0
    assert penalised(weights) > penalised(BEGIN) + 20


def test_the_likelihood_counts_every_cell_once_and_thins_large_strata(monkeypatch):
    cells = cells_of(np.tile([0.0, 3.0, -4.0, 90.0], 500), 20.0, 5.0)
    whole = cell_laws(cells)
    direct = sum(np.log(whole.weights[0] @ densities(cell)) for cell in cells[:, :4].T) * 500
    assert whole.likelihood == pytest.approx(direct, rel=1e-3)  # of the weights before the last round
    monkeypatch.setattr(module, "SAMPLED", 401)
    thinned = cell_laws(cells)
    assert thinned.likelihood == pytest.approx(whole.likelihood, rel=0.02)


def test_a_stratum_has_enough_cells_and_a_cell_the_law_of_its_own():
    """50 cells of M = 1 join those of M = 4; those of M = 64, of whom none is 0, have a law of their own."""
    rng = np.random.default_rng(1)
    expected = np.repeat([1.0, 4.0, 64.0], [50, 200, 200])
    cells = cells_of(np.where(expected > 60, expected, 0) + rng.normal(0, 3, 450), expected, 3.0)
    laws = cell_laws(cells)
    power = [int(np.log2(each)) - module.POWERS[0] for each in (1.0, 4.0, 64.0)]
    assert laws.stratum[power[0]] == laws.stratum[power[1]] != laws.stratum[power[2]]
    assert laws.weights.shape == (2, len(GRID))
    assert laws.weights[0, 0] > 0.8 > 0.1 > laws.weights[1, 0]


@pytest.mark.parametrize("noise", ["normal", "laplace"])
def test_from_the_least_number_on_a_cell_is_listed(noise):
    weights = some_law(8)
    cells = cells_of(np.random.default_rng(2).uniform(10, 120, 200), 5.0, 8.0, noise=noise, most=400.0)
    laws = one_law(weights)
    listed = cells[:, cell_posteriors(cells, laws).median >= LISTED]
    assert listed.shape[1] > 100
    least = least_of_cells(listed, laws)
    for step, expected in ((0.02, True), (-0.02, False)):
        finite = np.isfinite(least)
        moved = listed[:, finite].copy()
        moved[0] = least[finite] + step
        assert ((cell_posteriors(moved, laws).median >= LISTED) == expected).all()
    assert (least <= listed[0]).all()


def test_cells_that_are_listed_anyway_have_no_least_number():
    sure = np.zeros(len(GRID))
    sure[20:40] = 0.05
    cells = cells_of([100.0, 200.0], 50.0, 3.0, most=1e4)
    assert (least_of_cells(cells, one_law(sure)) == -np.inf).all()


def test_numbers_that_nothing_explains():
    """Far below 0 a number is 0; far above the most that it may be, it lies between that and the noisy number."""
    found = cell_posteriors(cells_of([-1e6, 1e6], 5.0, 1.0, most=100.0), one_law(BEGIN))
    assert found.median[0] == found.mean[0] == 0
    assert 80 < found.median[1] < 1e6
    assert (found.variance >= 0).all()


@pytest.mark.parametrize("noise", ["normal", "laplace"])
@pytest.mark.parametrize("mean", [3, 30, 300])
def test_medians_err_less_than_zeros_and_than_the_numbers_themselves(noise, mean):
    """20,000 cells, 3 % of them exponential, noise of 10. Where the law says nothing, publishing nothing is best.

    The allowance of a half per cent of all there is: with 600 cells that are not 0, the sums of errors have standard
    errors of 3 % of it, but those of the same cells differ by far less.
    """
    rng = np.random.default_rng(mean)
    true = np.where(rng.random(20_000) < 0.03, 1 + np.floor(rng.exponential(mean, 20_000)), 0.0)
    noisy = true + (rng.normal(0, 10, 20_000) if noise == "normal" else rng.laplace(0, 10 / np.sqrt(2), 20_000))
    cells = cells_of(noisy, true.mean(), 10.0, noise=noise, most=1e5)
    found = cell_posteriors(cells, cell_laws(cells))
    error = np.abs(found.median - true).sum() / true.sum()
    assert error < min(1.005, np.abs(np.maximum(noisy, 0) - true).sum() / true.sum())
    if mean == 300:
        assert error < 0.2
        # Of the cells that are listed, as many are 0 as the law says; five standard deviations of a sum of chances.
        listed = found.median >= LISTED
        chances = found.zero[listed]
        assert (true[listed] == 0).sum() == pytest.approx(
            chances.sum(), abs=5 * np.sqrt((chances * (1 - chances)).sum())
        )
        assert 1 < chances.sum() < 0.1 * listed.sum()
