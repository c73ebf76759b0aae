"""Laws and posteriors keep their digits, and what is said of errors is never 0 where noise hides the truth."""

import itertools
import math

import numpy as np
import pytest

from tallytree.solvers.laws import ALONE, BEGIN, GRID, PRIOR, WIDTH, law, learned_laws
from tallytree.solvers.posteriors import LOG_RANGE, POWERS, posteriors
from tallytree.solvers.tables.fit import fit
from tallytree.solvers.tables.linear import NoisyTable
from tallytree.solvers.tables.marginals import Detail

RNG = np.random.default_rng


def of_cells(y, expected, deviations, weights):
    """Mean and variance of cells (areas, cells) by one law, without guards."""
    found = [np.empty(y.shape) for _ in range(3)]
    no_strata = np.zeros(POWERS[1] - POWERS[0] + 1, dtype=np.int64)
    posteriors(y, expected, deviations, no_strata, weights[None], weights[None], ALONE, *found)
    return found


def normal(x, mean, variance):
    return np.exp(-0.5 * (x - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)


@pytest.mark.parametrize("middle", [3.0, 1e3, 1e6, 1e9])
def test_means_and_variances_are_those_of_brute_force_at_every_size(middle):
    """The integral over x of the law times the likelihood; at 10⁹ a difference of squares has no digits left."""
    s, rng = 6.0, RNG(1)
    y = middle + s * rng.normal(size=(1, 5))
    weights = BEGIN.copy()
    weights[-1] = 0.0
    weights /= weights.sum()
    mean, variance, _ = of_cells(y, np.full(y.shape, middle), np.array([s]), weights)
    for z, found, spread in zip(y[0], mean[0], variance[0], strict=True):
        x = np.linspace(-12 * s, 12 * s, 200_001)  # counted from z
        parts = zip(weights[1:-1], GRID[1:] * middle, strict=True)
        density = sum(w * normal(x, at - z, at + (WIDTH * at) ** 2) for w, at in parts)
        density *= normal(x, 0.0, s * s)
        at_zero = weights[0] * normal(-z, 0.0, s * s)
        step = x[1] - x[0]
        whole = density.sum() * step + at_zero
        off = ((density * x).sum() * step - at_zero * z) / whole
        square = ((density * x * x).sum() * step + at_zero * z * z) / whole
        assert found - z == pytest.approx(off, abs=1e-3 * s) if z + off > 0 else found == 0
        assert spread == pytest.approx(square - off**2, rel=1e-3)


def areas_of(rng, cells, std_dev, totals=None):
    """A fit of areas below one root, their totals and their tables measured; and the truth."""
    areas, width = cells.shape
    detail, variance = Detail.flat([width]), std_dev**2

    def noisy(true):
        return true + np.rint(rng.normal(0, std_dev, true.shape)).astype(np.int64)

    measured = [
        [NoisyTable((0,), noisy(cells.sum(keepdims=True)), variance)],
        [
            *([] if totals is not None else [NoisyTable((0,), noisy(cells.sum(axis=1, keepdims=True)), variance)]),
            NoisyTable((1,), noisy(cells), variance),
        ],
    ]
    if totals is not None:
        measured[0] = []
    families = [np.array([0, areas])]
    return fit(detail, families, measured, totals=totals, wanted=[[(1,)], [(0,), (1,)]])


def test_typical_errors_of_large_numbers_are_those_of_their_noise():
    """RMSE of 1,600 cells: its standard error is 2 %."""
    rng = RNG(2)
    cells = rng.poisson(1e9, (400, 4)).astype(np.int64)
    found = areas_of(rng, cells, 8.0)
    rmse = np.sqrt(((found.leaves - cells) ** 2.0).mean())
    stated = np.sqrt((found.typical_errors[1, (1,)] ** 2).mean())
    assert 0.9 < stated / rmse < 1.1
    assert found.typical_errors[1, (1,)].min() > 4


def test_no_number_is_said_to_be_known_where_noise_hides_it():
    """Sparse cells beside noise of 7: those that are decided as 0 have errors; four in a hundred are not 0."""
    rng = RNG(3)
    cells = rng.poisson(rng.gamma(0.05, 10, (300, 8)))
    found = areas_of(rng, cells, 7.0)
    wrong = found.leaves != cells
    assert wrong.mean() > 0.04
    assert np.round(found.typical_errors[1, (1,)], 4)[wrong].min() > 0


def test_typical_errors_at_small_noise_are_those_of_integers():
    rng = RNG(4)
    cells = rng.poisson(10, (100, 4)).astype(np.int64)
    found = areas_of(rng, cells, 0.1)
    assert (found.leaves == cells).all()
    assert found.typical_errors[1, (1,)].max() < 0.01


def test_exact_totals_stay_exact_and_their_errors_are_0():
    rng = RNG(5)
    cells = rng.poisson(rng.gamma(0.5, 20, (60, 4))).astype(np.int64)
    cells[:7] = 0
    found = areas_of(rng, cells, 9.0, totals=(1, cells.sum(axis=1)))
    assert (found.leaves.sum(axis=1) == cells.sum(axis=1)).all()
    assert (found.typical_errors[1, (0,)] == 0).all()
    assert (found.typical_errors[1, (1,)][7:] > 0).any(axis=1).all()


def test_typical_errors_are_the_errors_found():
    """The stated mean square ÷ that of 8 fits of 1,600 cells that pooling halves: its standard error is 3 %."""
    found, stated = [], []
    for run in range(8):
        rng = RNG([6, run])
        cells = rng.poisson(np.array([40, 20, 10, 5]) * rng.gamma(6, 1 / 6, (400, 1))).astype(np.int64)
        made = areas_of(rng, cells, 9.0)
        found.append(((made.leaves - cells) ** 2.0).mean())
        stated.append((made.typical_errors[1, (1,)] ** 2).mean())
    assert np.sqrt(np.mean(found)) < 0.8 * 9.0  # pooled
    assert 0.9 < np.sqrt(np.mean(stated) / np.mean(found)) < 1.15


def test_a_law_is_what_expectation_maximisation_by_brute_force_finds():
    """The density of y in every part of the law, written out; 300 cells of several M and s."""
    rng = RNG(9)
    expected, s = rng.uniform(0.5, 80, 300), rng.uniform(2, 9, 300)
    y = np.where(rng.random(300) < 0.9, expected, 700.0) + s * rng.normal(size=300)
    middle = GRID * expected[:, None]
    like = normal(y[:, None], middle, (s**2)[:, None] + middle + (WIDTH * middle) ** 2) * np.sqrt(2 * np.pi)
    above_zero = np.array([0.5 * math.erfc(-z) for z in y / s / math.sqrt(2)])
    outlier = math.sqrt(2 * np.pi) * above_zero / (LOG_RANGE * np.maximum(y, s))
    like, weights = np.column_stack([like, outlier]), BEGIN
    for _ in range(30):
        share = weights * like
        share /= share.sum(axis=1, keepdims=True)
        weights = (share.sum(axis=0) + PRIOR * BEGIN) / (300 + PRIOR)
    assert law(y, expected, s, ALONE, 30) == pytest.approx(weights, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("kind", ["as expected", "at 0 or 200"])
def test_a_law_tells_how_large_the_errors_of_its_cells_are(kind):
    """Of 8,000 cells with M = 50 and noise of 6; the standard error of the RMSE is 1 %."""
    rng, shape = RNG(7), (2_000, 4)
    true = rng.poisson(50, shape) if kind == "as expected" else rng.choice([0.0, 200.0], shape)
    y, expected, s = true + 6.0 * rng.normal(size=shape), np.full(shape, 50.0), np.full(shape[0], 6.0)
    laws = learned_laws(y, expected, s)
    mean, variance, held = of_cells(y, expected, s, laws.weights[laws.stratum[5 - POWERS[0]]])
    rmse = np.sqrt(((mean - held - true) ** 2).mean())
    assert rmse < 0.85 * 6.0
    assert 0.9 < np.sqrt(variance.mean()) / rmse < 1.1


def test_impossible_shapes_have_no_nan():
    """All 0, one area with all people, and numbers that leave every power of two."""
    for cells, std_dev in itertools.product(
        (np.zeros((50, 4), int), np.eye(50, 4, dtype=int) * 5_000, np.full((50, 4), 2**40)), (0.01, 3.0, 1e6)
    ):
        found = areas_of(RNG(8), cells.astype(np.int64), std_dev)
        assert (found.leaves >= 0).all()
        assert np.isfinite(found.typical_errors[1, (1,)]).all()
        assert (found.typical_errors[1, (1,)] >= 0).all()
