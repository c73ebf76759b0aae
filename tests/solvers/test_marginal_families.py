"""A family's non-negative estimate and its rounding: against a solver of quadratic programs, and by their bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.marginal_families import MAX_ITERATIONS, TOLERANCE, solve_family
from tallytree.solvers.marginal_kernels import apply_rows, pyramid_of
from tallytree.solvers.marginal_rounding import choose_least, keep_totals, round_family, round_root
from tallytree.solvers.marginals import Detail

RNG = np.random.default_rng
BANDS = (np.zeros(4, dtype=np.int64), np.array([0, 0, 1, 1]), np.arange(4))
NONE = np.zeros(0)


def family(rng, detail, children, uniform, spread, people=5.0):
    """Precisions, Π z of noisy tables, the sums, and the totals."""
    parts = len(detail.components)
    precision = 10 ** rng.uniform(-spread, spread, (1 if uniform else children, parts))
    true = rng.poisson(rng.gamma(0.5, 2 * people, (children, detail.cells)))
    noise = detail.applied(np.broadcast_to(precision**-0.5, (children, parts)), rng.normal(size=true.shape))
    h = detail.applied(np.broadcast_to(precision, (children, parts)), true + noise)
    return precision, h, true.sum(axis=0).astype(float), true.sum(axis=1).astype(float)


def solve(detail, precision, h, column, totals=None, bound=True, tolerance=TOLERANCE, most=MAX_ITERATIONS):
    fixed = totals is not None
    return solve_family(
        pyramid_of(detail), column, h, precision, NONE if totals is None else totals, fixed, bound, tolerance, most
    )


def distance(detail, precision, difference):
    """½ xᵀ Π x, over all rows."""
    factors = np.broadcast_to(precision, (len(difference), precision.shape[1]))
    return 0.5 * float((difference * detail.applied(factors, difference)).sum())


def reference(detail, precision, h, column, totals=None, bound=True):
    """The optimum by clarabel."""
    import cvxpy as cp

    m, n = h.shape
    x, terms = cp.Variable((m, n)), []
    eye = np.eye(n)
    for c in range(m):
        pi = precision[c if len(precision) > 1 else 0]
        root = detail.applied(np.sqrt(pi), eye)
        z = detail.applied(1 / pi, h[c : c + 1])[0]
        terms.append(cp.sum_squares(root @ (x[c] - z)))
    constraints = [x >= 0]
    constraints += [cp.sum(x, axis=0) == column] if bound else []
    constraints += [cp.sum(x, axis=1) == totals] if totals is not None else []
    cp.Problem(cp.Minimize(sum(terms)), constraints).solve(solver="CLARABEL")
    return x.value


SHAPES = {"two attributes": Detail.flat([4, 3]), "levels": Detail((BANDS, *Detail.flat([2]).groups))}


@pytest.mark.slow
@pytest.mark.needs("cvxpy", "clarabel")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("spread", [0.0, 1.0, 2.5])
def test_a_family_is_solved_as_by_a_solver_of_quadratic_programs(shape, uniform, spread):
    detail = SHAPES[shape]
    for seed in range(4):
        precision, h, column, _ = family(RNG(seed), detail, 5, uniform, spread)
        x, _, gap = solve(detail, precision, h, column, tolerance=1e-9)
        assert gap <= 1e-9 * h.size
        assert (x >= 0).all()
        np.testing.assert_allclose(x.sum(axis=0), column, atol=1e-8)
        assert distance(detail, precision, x - reference(detail, precision, h, column)) < 1e-5


@pytest.mark.slow
@pytest.mark.needs("cvxpy", "clarabel")
@pytest.mark.parametrize("uniform", [True, False])
def test_known_totals_and_a_root_are_solved_as_by_a_solver_of_quadratic_programs(uniform):
    detail = SHAPES["two attributes"]
    for seed in range(4):
        precision, h, column, totals = family(RNG(seed), detail, 5, uniform, 1.0)
        # The totals' own precision does not matter where they are known.
        x, _, _ = solve(detail, precision, h, column, totals, tolerance=1e-9)
        expected = reference(detail, precision, h, column, totals)
        np.testing.assert_allclose(x.sum(axis=0), column, atol=1e-6)
        np.testing.assert_allclose(x.sum(axis=1), totals, atol=0.02)
        assert distance(detail, precision, x - expected) < 1e-3
        root, _, _ = solve(detail, precision[:1], h[:1], column, bound=False, tolerance=1e-9)
        assert (
            distance(detail, precision[:1], root - reference(detail, precision[:1], h[:1], column, None, False)) < 1e-6
        )


@pytest.mark.parametrize("spread", [0.0, 1.5])
@pytest.mark.parametrize("uniform", [True, False])
def test_the_solution_has_multipliers(uniform, spread):
    """The conditions of Karush, Kuhn and Tucker: g = ν + r, r ≥ 0, r·x = 0."""
    detail = Detail.flat([9, 3])
    precision, h, column, _ = family(RNG(1), detail, 200, uniform, spread)
    column[3] = 0.0  # a sum of 0 has no unique ν
    x, iterations, _ = solve(detail, precision, h, column, tolerance=1e-10)
    assert 0 < iterations < MAX_ITERATIONS
    g = detail.applied(np.broadcast_to(precision, (200, 4)), x) - h
    scale = np.abs(g).max()
    assert (x[:, 3] == 0).all()
    for j in range(detail.cells):
        free = x[:, j] > 1e-3
        if free.any():
            level = g[free, j].mean()
            np.testing.assert_allclose(g[free, j], level, atol=2e-4 * scale)
            assert (g[:, j] >= level - 2e-4 * scale).all()


def test_iterations_stay_few():
    """Where a sum is small and the family large, a common level of the multipliers is reached in no time."""
    detail = Detail.flat([18, 3])
    precision, h, column, _ = family(RNG(2), detail, 400, True, 0.0, people=0.02)
    assert 0 < solve(detail, precision, h, column)[1] < 40


def test_the_equality_solution_is_returned_where_it_is_feasible_and_the_last_iterate_is_feasible():
    detail = Detail.flat([4, 3])
    precision, h, column, _ = family(RNG(3), detail, 5, True, 0.5, people=1e6)
    x, iterations, _ = solve(detail, precision, h, column)
    assert iterations == 0
    z = detail.applied(np.broadcast_to(1 / precision, (5, 4)), h)
    np.testing.assert_allclose(x, z + (column - z.sum(axis=0)) / 5, rtol=1e-9)
    precision, h, column, _ = family(RNG(3), detail, 50, False, 2.5)
    x, iterations, gap = solve(detail, precision, h, column, most=2)
    assert iterations == 2
    assert gap > TOLERANCE * h.size
    assert (x >= 0).all()
    np.testing.assert_allclose(x.sum(axis=0), column, rtol=1e-12)


# --- Rounding ---


def deviations(detail, x, values, marginal):
    return detail.summed(values, marginal) - detail.summed(x, marginal)


def real_family(rng, detail, children, scale):
    x = rng.gamma(0.3, scale, (children, detail.cells))
    column = np.ceil(x.sum(axis=0)).astype(np.int64)
    return x * (column / x.sum(axis=0)), column


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 30), st.sampled_from([0.1, 5.0, 1e5, 1e12]))
def test_rounding_keeps_sums_and_totals(seed, children, scale):
    rng, detail = RNG(seed), Detail.flat([3, 2, 2])
    x, column = real_family(rng, detail, children, scale)
    values = np.empty(x.shape, dtype=np.int64)
    round_family(pyramid_of(detail), column, x, 3, values)
    assert (values >= 0).all()
    np.testing.assert_array_equal(values.sum(axis=0), column)
    assert np.abs(values - x).max() < 1 + 1e-12 * scale or children == 1
    totals = rng.multinomial(column.sum(), x.sum(axis=1) / x.sum())
    keep_totals(pyramid_of(detail), totals, x, values)
    assert (values >= 0).all()
    np.testing.assert_array_equal(values.sum(axis=0), column)
    np.testing.assert_array_equal(values.sum(axis=1), totals)


@pytest.mark.parametrize(
    ("sizes", "most", "rms"), [([18, 3], 1.4, 0.38), ([4, 3, 3, 2], 2.3, 0.55)], ids=["two attributes", "four"]
)
def test_rounding_leaves_all_marginals_near(sizes, most, rms):
    detail = Detail.flat(sizes)
    x, column = real_family(RNG(4), detail, 300, 5.0)
    values = np.empty(x.shape, dtype=np.int64)
    round_family(pyramid_of(detail), column, x, 3, values)
    for marginal in detail.components:
        off = deviations(detail, x, values, marginal)
        assert np.abs(off).max() <= most
        assert np.sqrt((off**2).mean()) <= rms


def test_a_root_is_rounded_with_and_without_a_total():
    detail = Detail.flat([6, 3])
    x = RNG(5).gamma(0.5, 3.0, detail.cells)
    for total in (-1, int(x.sum()), int(x.sum()) + 3, 0, 10**6):
        values = np.empty(detail.cells, dtype=np.int64)
        round_root(pyramid_of(detail), x, total, 3, values)
        assert (values >= 0).all()
        if total >= 0:
            assert values.sum() == total
        if total in (-1, int(x.sum())):
            for marginal in detail.components:
                assert np.abs(deviations(detail, x[None], values[None], marginal)).max() < 1.5


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.data())
def test_the_least_are_chosen_and_the_lower_index_wins_ties(scores, data):
    number = data.draw(st.integers(1, len(scores)))
    order = np.array(data.draw(st.permutations(range(len(scores)))))
    choose_least(np.array(scores, dtype=float), order, number)
    assert sorted(order) == list(range(len(scores)))
    assert set(order[:number]) == set(np.argsort(scores, kind="stable")[:number])


@pytest.mark.parametrize("shape", SHAPES)
def test_functions_of_the_norm_are_those_of_the_detail(shape):
    detail, rng = SHAPES[shape], RNG(6)
    x = rng.normal(size=(3, detail.cells))
    for rows in (1, 3):
        factors = rng.normal(size=(rows, len(detail.components)))
        found = x.copy()
        apply_rows(pyramid_of(detail), factors, found)
        np.testing.assert_allclose(found, detail.applied(np.broadcast_to(factors, (3, factors.shape[1])), x))
