"""The steps of the joint estimate against cvxpy, brute force and hand-made limits."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.sizes import isotonic
from tallytree.solvers.sizes import joint_families as joint
from tallytree.solvers.sizes.gaussian_chain import effective_variance, laplace_score, smooth
from tallytree.solvers.sizes.joint_families import TailsLevel, fit
from tallytree.solvers.sizes.joint_rates import SizeModel
from tallytree.solvers.sizes.monotone_sums import fit_with_sums, round_with_sums
from tallytree.solvers.sizes.rates import DISPERSIONS, local_rates, size_blocks
from tallytree.solvers.sizes.state_chain import count_states, drop_masses, jump_masses

RNG = np.random.default_rng


# --- Rows that decrease and columns that add up ---


def family(rng, rows, columns):
    total = np.sort(rng.integers(0, 40, columns))[::-1].astype(float)
    cap = np.full(rows, np.ceil(total[0] / rows) + 2.0)
    return rng.normal(total / rows, 4, (rows, columns)), rng.uniform(0.2, 5, (rows, columns)), cap, total


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 1), (1, 6), (3, 5), (8, 12)])
def test_admm_finds_the_optimum_that_cvxpy_finds(rows, columns):
    cvxpy = pytest.importorskip("cvxpy", reason="the extra tallytree[papers] is not installed")
    for seed in range(3):
        target, weight, cap, total = family(RNG(seed), rows, columns)
        if rows == 1:
            cap[:] = total[0]
        x = cvxpy.Variable((rows, columns))
        constraints = [x >= 0, x[:, 0] <= cap, cvxpy.sum(x, axis=0) == total]
        constraints += [x[:, 1:] <= x[:, :-1]] if columns > 1 else []
        best = cvxpy.Problem(
            cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(weight, cvxpy.square(x - target)))), constraints
        ).solve(solver="CLARABEL")
        found = target.copy()
        done, primal, dual = fit_with_sums(target, weight, cap, total, 1e-7, 20_000, found)
        assert done < 20_000
        assert max(primal, dual) <= 1e-7
        assert (weight * (found - target) ** 2).sum() == pytest.approx(best, rel=1e-4, abs=1e-4)
        assert np.allclose(found.sum(axis=0), total, atol=1e-5)
        assert (np.diff(found, axis=1) <= 0).all()
        assert ((found >= 0) & (found <= cap[:, None])).all()


def test_it_says_how_far_it_came():
    target, weight, cap, total = family(RNG(1), 6, 9)
    done, primal, dual = fit_with_sums(target, weight, cap, total, 1e-12, 7, target.copy())
    assert done == 7
    assert max(primal, dual) > 1e-12


@settings(max_examples=150)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32), st.booleans())
def test_rounding_keeps_totals_bounds_and_order(rows, columns, seed, bounded):
    rng = RNG(seed)
    true = np.sort(rng.integers(0, 6, (rows, columns)), axis=1)[:, ::-1].astype(float)
    cap = true[:, 0] + rng.integers(0, 2, rows) if bounded else np.full(rows, np.inf)
    x = true + rng.normal(0, 3, true.shape)
    out = np.empty((rows, columns))
    round_with_sums(x, true.sum(axis=0), cap, out)
    assert np.array_equal(out.sum(axis=0), true.sum(axis=0))
    assert (out >= 0).all()
    assert (out <= cap[:, None]).all()
    assert (np.diff(out, axis=1) <= 0).all()
    assert np.array_equal(out, np.rint(out))


@settings(max_examples=80)
@given(st.integers(1, 3), st.integers(0, 2**32))
def test_rounding_a_column_is_the_nearest_that_adds_up(rows, seed):
    rng = RNG(seed)
    cap = rng.integers(0, 5, rows).astype(float)
    total = float(rng.integers(0, cap.sum() + 1))
    x = rng.uniform(-1, 6, (rows, 1))
    out = np.empty((rows, 1))
    round_with_sums(x, np.array([total]), cap, out)
    candidates = itertools.product(*(range(int(c) + 1) for c in cap))
    best = min(((np.array(z) - x[:, 0]) ** 2).sum() for z in candidates if sum(z) == total)
    assert ((out - x) ** 2).sum() == pytest.approx(best)


# --- Chains ---


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("kind", ["poisson", "negative binomial", "jumps"])
def test_whole_numbers_have_the_posterior_that_all_paths_have(kind, laplace):
    """Every path of four cells enumerated, with drops as the model has them."""
    dispersion = {"poisson": 1.0, "negative binomial": 4.0, "jumps": 64.0}[kind]
    y, scale, cap = np.array([5, 4, 0, 1]), 1.5, 9
    mu = np.array([0.0, 0.8, 2.0, 0.3, 0.0])
    expected, square, mass = np.zeros(4), np.zeros(4), 0.0
    masses = np.zeros((4, cap + 1))
    for r in range(1, 4):
        if kind == "jumps":
            chance, ratio = jump_masses(mu[r], dispersion)
            masses[r] = chance * (1 - ratio) * ratio ** np.arange(cap + 1)
            masses[r, 0] += 1 - chance
        else:
            room = np.zeros(64)
            drop_masses(mu[r], dispersion, room)
            masses[r] = room[: cap + 1]
    for path in itertools.product(range(cap + 1), repeat=4):
        if any(a < b for a, b in itertools.pairwise(path)):
            continue
        x = np.array(path)
        gap = np.abs(y - x) / scale
        p = np.exp(-(gap if laplace else gap**2 / 2).sum()) * np.prod([masses[r, x[r - 1] - x[r]] for r in (1, 2, 3)])
        expected, square, mass = expected + p * x, square + p * x**2, mass + p
    mean, variance = np.full(4, np.nan), np.full(4, np.nan)
    count_states(y, scale, laplace, mu, np.array([np.inf, *[dispersion] * 3, np.inf]), float(cap), mean, variance)
    assert mean == pytest.approx(expected / mass, abs=1e-5)
    assert variance == pytest.approx(square / mass - (expected / mass) ** 2, abs=1e-5)


def test_numbers_of_groups_add_up_to_their_rate_and_scatter_by_their_dispersion():
    for rate, dispersion in ((0.3, 1.0), (20.0, 1.0), (3.0, 8.0)):
        room = np.zeros(1024)
        many = drop_masses(rate, dispersion, room)
        j = np.arange(many)
        assert room[:many].sum() == pytest.approx(1, abs=1e-6)
        assert j @ room[:many] == pytest.approx(rate, rel=1e-5)
        assert (j - rate) ** 2 @ room[:many] == pytest.approx(rate * dispersion, rel=1e-4)


def test_the_score_is_that_of_laplace_and_normal_noise_together():
    grid = np.linspace(-80, 80, 800_001)
    for scale, variance in ((1.0, 0.2), (3.0, 4.0), (2.0, 40.0)):
        density = np.exp(-np.abs(grid) / scale) / (2 * scale)

        def log_density(at, density=density, variance=variance):
            return np.log(np.trapezoid(density * np.exp(-((at - grid) ** 2) / (2 * variance)), grid))

        for residual in (0.0, 0.7, -5.0, 20.0):
            slope = (log_density(residual + 1e-4) - log_density(residual - 1e-4)) / 2e-4
            assert laplace_score(residual, scale, variance) == pytest.approx(-slope, abs=2e-5)


def test_the_effective_variance_is_the_inverse_information_less_what_was_known():
    for variance in (0.01, 0.1, 1.0, 10.0, 100.0):
        x = np.linspace(-60 - 8 * variance**0.5, 60 + 8 * variance**0.5, 20_001)
        score = np.array([laplace_score(at, 1.0, variance) for at in x])
        density = np.exp(-np.concatenate([[0], np.cumsum((score[1:] + score[:-1]) / 2 * np.diff(x))]))
        density /= np.trapezoid(density, x)
        information = np.trapezoid(score**2 * density, x)
        assert effective_variance(1.0, variance) == pytest.approx(1 / information - variance, rel=0.02, abs=0.02)


def test_a_wide_average_of_laplace_noise_has_half_the_variance_of_the_mean():
    n, errors = 400, []
    for seed in range(60):
        noisy = np.rint(RNG(seed).laplace(0, 10, n)).astype(np.int64)
        mean, variance = np.empty(n), np.empty(n)
        smooth(noisy, 10.0, True, np.zeros(n + 1), np.ones(n + 1), mean, variance, np.empty((5, n + 1)))
        errors.append(mean[n // 2])
    # drops of variance 1e-6 are none: one level for all 400 cells, variance b²/n = 0.25; the mean's would be 0.5
    assert np.mean(np.square(errors)) < 0.42


def test_rates_are_averages_over_similar_sizes():
    tails = np.array([100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0])
    mu = np.empty(8)
    local_rates(tails, 1, 0.0, mu)
    assert mu[1:7] == pytest.approx(10)
    assert (mu[0], mu[7]) == (0, 0)
    assert size_blocks(6, 1).tolist() == [0, 1, 2, 3, 3, 4]


# --- The whole ---


def tree_levels(rng, leaves, scale, *, laplace=True, public=True, first=(0, 3, 5)):
    """Root, groups of leaves and leaves of true tail counts (leaves, cells), measured."""
    first = np.array(first)
    tables = [leaves.sum(axis=0)[None], np.add.reduceat(leaves, first[:-1]), leaves]
    children = [np.array([0, len(first) - 1]), first, np.zeros(len(leaves) + 1, np.int64)]
    levels = []
    for table, child in zip(tables, children, strict=True):
        noise = rng.laplace(0, scale, table.shape) if laplace else rng.normal(0, scale, table.shape)
        most = table[:, 0].astype(float) if public else np.full(len(table), np.inf)
        levels.append(TailsLevel(np.rint(table + noise).astype(np.int64), child, scale, laplace, most))
    return levels, tables


def dense(tails, cells):
    rows = []
    for begin, end in itertools.pairwise(tails.offsets):
        rows.append(np.repeat(tails.value[begin:end], np.diff(np.append(tails.start[begin:end], cells))))
    return np.array(rows)


def smooth_leaves(rng, n=5, cells=60):
    drawn = np.zeros((n, cells + 1), np.int64)
    for row in drawn:
        np.add.at(row, np.clip(rng.gamma(2, 8, 400).astype(int), 0, cells), 1)
    return drawn[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]


def assert_valid(found, levels):
    cells = levels[0].values.shape[1]
    tables = [dense(tails, cells) for tails in found.levels]
    for table, level in zip(tables, levels, strict=True):
        assert table.shape == level.values.shape
        assert (table >= 0).all()
        assert (table <= level.most[:, None]).all()
        assert (np.diff(table, axis=1) <= 0).all()
    for above, here, level in zip(tables, tables[1:], levels, strict=False):
        assert np.array_equal(np.add.reduceat(here, level.first_child[:-1]), above)
    return tables


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("scale", [0.05, 3.0, 1e3, 1e7])
def test_tail_counts_are_whole_monotone_and_add_up(scale, public, laplace):
    levels, true = tree_levels(RNG(0), smooth_leaves(RNG(1)), scale, laplace=laplace, public=public)
    for dispersions in (DISPERSIONS, np.inf, 2.0):
        tables = assert_valid(fit(levels, first_size=1, dispersions=dispersions), levels)
        if scale < 0.1:
            assert all(np.array_equal(a, b) for a, b in zip(tables, true, strict=True))


def test_one_level_without_smoothing_is_isotonic_regression():
    noisy = np.rint(np.linspace(50, 0, 40) + RNG(3).laplace(0, 5, 40)).astype(np.int64)
    level = TailsLevel(noisy[None], np.zeros(2, np.int64), 5.0, True, np.array([60.0]))
    found = dense(fit([level], first_size=1, dispersions=np.inf).levels[0], 40)[0]
    plain = -isotonic.fit(-noisy, norm=2, lower=-60, upper=0)
    assert np.abs(found - plain).max() <= 0.5 + 1e-9


@pytest.mark.slow
def test_all_levels_together_are_nearer_than_the_root_alone_and_the_leaves_alone():
    together, alone, leaves_alone = [], [], []
    for seed in range(6):
        levels, true = tree_levels(RNG(seed), smooth_leaves(RNG(50 + seed)), 6.0)
        tables = [dense(tails, 60) for tails in fit(levels, first_size=1).levels]
        together.append([np.abs(a - b).sum() for a, b in zip(tables, true, strict=True)])
        alone.append(np.abs(-isotonic.fit(-levels[0].values[0], norm=1, upper=0) - true[0]).sum())
        rows = -isotonic.fit_rows(-levels[2].values.ravel(), np.arange(6) * 60, norm=1, upper=0).reshape(5, 60)
        leaves_alone.append([np.abs(rows.sum(axis=0) - true[0]).sum(), np.abs(rows - true[2]).sum()])
    root, _, leaves = np.mean(together, axis=0)
    assert root < 0.85 * min(np.mean(alone), np.mean(leaves_alone, axis=0)[0])
    assert leaves < 0.8 * np.mean(leaves_alone, axis=0)[1]


def test_a_leaf_without_groups_has_none_and_a_known_total_is_kept():
    leaves = smooth_leaves(RNG(1))
    leaves[2] = 0
    levels, true = tree_levels(RNG(0), leaves, 3.0)
    assert assert_valid(fit(levels, first_size=1), levels)[2][2].sum() == 0
    private, _ = tree_levels(RNG(0), leaves, 3.0, public=False)
    total = int(true[0][0, 0])
    assert assert_valid(fit(private, first_size=1, total=total), private)[0][0, 0] == total


def test_variances_lie_below_those_of_the_noise_and_are_more_than_those_of_rounding_alone():
    levels, _ = tree_levels(RNG(0), smooth_leaves(RNG(1)), 6.0)
    found = fit(levels, first_size=1)
    for tails in found.levels:
        assert tails.variance.shape == tails.value.shape
        assert (tails.variance < 72).all()
        assert tails.variance[tails.value > 0].min() > 0


def test_a_known_total_has_no_error_and_an_only_child_has_that_of_its_parent():
    private, true = tree_levels(RNG(0), smooth_leaves(RNG(1)), 3.0, public=False)
    total = int(true[0][0, 0])
    root = fit(private, first_size=1, total=total).levels[0]
    assert (root.value[0], root.variance[0]) == (total, 0)
    one = [private[0], private[0]._replace(first_child=np.array([0]))]
    parent, child = fit([one[0]._replace(first_child=np.array([0, 1])), one[1]], first_size=1).levels
    assert np.array_equal(parent.value[parent.value > 0], child.value[child.value > 0])
    assert np.array_equal(parent.variance[parent.value > 0], child.variance[child.value > 0])


def test_a_child_without_groups_does_not_end_the_fit_of_its_siblings_early():
    """Its weight was 1, a million times that of a child with much noise, and so the residuals looked small."""
    root = tree_levels(RNG(0), smooth_leaves(RNG(1)), 2.0)[0][0]._replace(first_child=np.array([0, 2]))
    noise = np.rint(RNG(3).laplace(0, 1e6, root.values.shape)).astype(np.int64)
    leaves = root._replace(
        values=np.concatenate([root.values + noise, noise]),
        first_child=np.zeros(3, np.int64),
        scale=1e6,
        most=np.array([root.most[0], 0.0]),
    )
    parent, children = fit([root, leaves], first_size=1).levels
    only = children.of_nodes(0, 1)
    kept = parent.value > 0
    assert np.array_equal(only.value[only.value > 0], parent.value[kept])
    assert only.variance[only.value > 0].mean() == pytest.approx(parent.variance[kept].mean(), rel=0.1)


def test_wrong_input_is_refused():
    levels, _ = tree_levels(RNG(0), smooth_leaves(RNG(1)), 3.0)
    with pytest.raises(ValueError, match="tolerance=0 must be positive"):
        fit(levels, first_size=1, tolerance=0)
    with pytest.raises(ValueError, match=r"dispersions=\[-1.0\] must be positive"):
        fit(levels, first_size=1, dispersions=-1)
    with pytest.raises(ValueError, match="levels must begin with the root"):
        fit(levels[1:], first_size=1)
    with pytest.raises(ValueError, match=r"levels\[1\].first_child is 0 … 4"):
        fit([levels[0], levels[1]._replace(first_child=np.array([0, 3, 4])), levels[2]], first_size=1)
    with pytest.raises(ValueError, match="a child at least"):
        fit([levels[0], levels[1]._replace(first_child=np.array([0, 0, 5])), levels[2]], first_size=1)
    with pytest.raises(ValueError, match=r"levels\[2\].scale=0 must be positive"):
        fit([*levels[:2], levels[2]._replace(scale=0)], first_size=1)
    with pytest.raises(ValueError, match=r"levels\[2\].values has 59 cells"):
        fit([*levels[:2], levels[2]._replace(values=levels[2].values[:, 1:])], first_size=1)
    with pytest.raises(ValueError, match="too much to add up"):
        fit([*levels[:2], levels[2]._replace(values=levels[2].values * 2**45)], first_size=1)
    with pytest.raises(ValueError, match=r"levels\[0\].most must be"):
        fit([levels[0]._replace(most=np.array([-1.0])), *levels[1:]], first_size=1)


def test_families_that_stop_early_are_logged(caplog):
    caplog.set_level("INFO")
    levels, _ = tree_levels(RNG(0), smooth_leaves(RNG(1)), 3.0)
    found = fit(levels, first_size=1, tolerance=1e-15)
    assert found.iterations == joint.MAX_ITERATIONS
    assert "residuals are" in caplog.text
    assert_valid(found, levels)


# --- Levels that know little, and leaves that know nearly everything ---


def rare_groups(leaves, cells, rng):
    """Tail counts of leaves with one group or none, of any size."""
    size = rng.integers(1, cells + 1, leaves) * (rng.random(leaves) < 0.6)
    return (np.arange(cells) < size[:, None]).astype(np.int64)


def noisy(true, scale, rng):
    q = np.exp(-1 / scale)
    return true + rng.geometric(1 - q, true.shape) - rng.geometric(1 - q, true.shape)


def test_what_leaves_are_nearly_sure_of_is_nearly_sure_of_their_sum():
    """60 leaves, 5 seeds: the sum's variance is what its errors are, within a third (it was 7 times them once)."""
    leaves, cells = 60, 4_000
    ratios = []
    for seed in range(5):
        rng = RNG(seed)
        true = rare_groups(leaves, cells, rng)
        levels = [
            TailsLevel(
                noisy(true.sum(axis=0, keepdims=True), 3.0, rng), np.array([0, leaves]), 3.0, True, np.array([60.0])
            ),
            TailsLevel(noisy(true, 3.0, rng), np.zeros(leaves + 1, np.int64), 3.0, True, np.ones(leaves)),
        ]
        model = SizeModel(1, size_blocks(cells, 1), DISPERSIONS)
        own, _ = joint.own_estimates(levels, joint.raw_sums(levels), model)
        below = joint.climb(levels, own, model).below
        mean, variance, *_ = below[0]
        ratios.append(np.mean((mean[0] - true.sum(axis=0)) ** 2) / np.mean(variance[0]))
    assert 0.75 < np.mean(ratios) < 1.33


@pytest.mark.parametrize("drowned", [0, 1])
def test_a_level_with_next_to_no_budget_is_told_by_the_others(drowned):
    rng = RNG(11)
    sizes = rng.geometric(0.05, (6, 2_000))
    true = (sizes[:, :, None] > np.arange(150)).sum(axis=1)
    everything = true.sum(axis=0, keepdims=True)
    scales = [1.0, 1.0]
    scales[drowned] = 1e6
    levels = [
        TailsLevel(noisy(everything, scales[0], rng), np.array([0, 6]), scales[0], True, np.array([12_000.0])),
        TailsLevel(noisy(true, scales[1], rng), np.zeros(7, np.int64), scales[1], True, np.full(6, 2_000.0)),
    ]
    root = fit(levels, first_size=1).levels[0]
    found = np.repeat(root.value, np.diff(np.append(root.start, 150)))
    # Six leaves with noise of scale 1 would be off by sqrt(12) a cell without any smoothing, the root by 1.
    assert np.abs(found - everything[0]).mean() < (np.sqrt(12) if drowned == 0 else 1.0)
