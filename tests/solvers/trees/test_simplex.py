from fractions import Fraction
from itertools import chain, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.trees import simplex

many = settings(max_examples=2_000)
more = settings(max_examples=800)
some = settings(max_examples=300)

families_of_values = st.lists(st.integers(-15, 25), min_size=1, max_size=8)
totals = st.one_of(st.just(0), st.integers(0, 80))
weights = st.one_of(st.sampled_from([0.1, 0.2, 0.3, 1.0, 2.0, 3.0, 1e-9, 1e9]), st.floats(1e-3, 1e3))


def int_opt(y, total, descending=False):
    """IntOpt as printed: whole passes in ascending order (or its reverse), raising the allowed distance after each."""
    n, d = len(y), total - sum(y)
    shift = -(-d // n)
    x = [value + max(shift, -value) for value in y]
    t = max(abs(a - b) for a, b in zip(x, y, strict=True))
    order = sorted(range(n), key=lambda i: y[i])
    while True:
        for i in reversed(order) if descending else order:
            x[i] -= min(sum(x) - total, x[i] - min(x[i], max(0, y[i] - t)))
        excess = sum(x) - total
        if excess == 0:
            return x
        t += max(1, excess // sum(value > 0 for value in x))


def feasible(n, total):
    return [x for x in product(range(total + 1), repeat=n) if sum(x) == total]


def marginal(i, k, y, w):
    """What the k-th unit of entry i costs, and after that its place among equals."""
    return Fraction(w[i]) * (2 * (k - y[i]) + 1), -y[i], -i


def assert_cheapest_units(x, y, total, w):
    """No unit taken comes after one left: the certificate of the optimum, ties included, in fractions."""
    y, x = [int(value) for value in y], [int(value) for value in x]
    assert sum(x) == total
    assert min(x) >= 0
    if total:
        last = max(marginal(i, x[i] - 1, y, w) for i in range(len(y)) if x[i])
        assert last < min(marginal(i, x[i], y, w) for i in range(len(y)))


def families_of(*rows):
    return np.array([value for row in rows for value in row], np.int64), np.cumsum([0, *map(len, rows)])


def test_chebyshev_lowers_small_values_first():
    # d = −3 over 5 entries: nothing moves at the start (⌈−3/5⌉ = 0) except −1 to 0, so t = 1 and 4 must go.
    assert simplex.chebyshev([7, 3, -1, 4, 2], 12).tolist() == [6, 2, 0, 3, 1]
    assert simplex.chebyshev([7, 3, -1, 4, 2], 15).tolist() == [7, 3, 0, 4, 1]


def test_chebyshev_raises_everything_and_then_lowers_the_smallest():
    # d = 4 over 3 entries: all rise by ⌈4/3⌉ = 2, to (3, 7, 5); the 2 too many are taken from the smallest.
    assert simplex.chebyshev([1, 5, 3], 13).tolist() == [1, 7, 5]


def test_euclidean_leaves_the_remainder_on_the_largest():
    assert simplex.euclidean([5, 9, 9, -4], 22).tolist() == [4, 9, 9, 0]
    assert simplex.euclidean([5, 5, 5], 13).tolist() == [4, 4, 5]


@pytest.mark.slow
def test_a_lighter_value_moves_further():
    assert simplex.euclidean([10, 10], 12, weights=[3, 1]).tolist() == [8, 4]


@pytest.mark.slow
@many
@given(families_of_values, totals)
def test_chebyshev_is_int_opt_entry_by_entry(y, total):
    assert simplex.chebyshev(y, total).tolist() == int_opt(y, total)


@pytest.mark.slow
@many
@given(families_of_values, totals)
def test_in_descending_order_it_is_int_opt_with_the_reversed_permutation(y, total):
    found = simplex.chebyshev(y, total, order="descending")
    assert found.tolist() == int_opt(y, total, descending=True)
    assert np.abs(found - y).max() == np.abs(simplex.chebyshev(y, total) - y).max()


def test_in_descending_order_large_values_are_lowered_first():
    # As above: nothing moves at the start except −1 to 0, t = 1, and 4 must go: from 7, 4, 3 and 2, in this order.
    assert simplex.chebyshev([7, 3, -1, 4, 2], 12, order="descending").tolist() == [6, 2, 0, 3, 1]
    assert simplex.chebyshev([7, 3, -1, 4, 2], 15, order="descending").tolist() == [6, 3, 0, 4, 2]


def test_an_unknown_order_is_refused():
    with pytest.raises(ValueError, match=r'^order: \'up\' is not known; choose "ascending" or "descending"$'):
        simplex.chebyshev([1], 1, order="up")


@pytest.mark.slow
@more
@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=60), st.integers(0, 10**7))
def test_chebyshev_is_int_opt_on_wide_values_and_large_families(y, total):
    assert simplex.chebyshev(y, total).tolist() == int_opt(y, total)


@some
@given(st.lists(st.integers(-4, 6), min_size=1, max_size=4), st.integers(0, 8))
def test_both_projections_are_optimal_by_brute_force(y, total):
    candidates = feasible(len(y), total)
    largest = min(max(abs(a - b) for a, b in zip(x, y, strict=True)) for x in candidates)
    squared = min(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x in candidates)
    near, nearest = simplex.chebyshev(y, total), simplex.euclidean(y, total)
    assert near.sum() == nearest.sum() == total
    assert min(near.min(), nearest.min()) >= 0
    assert np.abs(near - y).max() == largest
    assert ((nearest - y) ** 2).sum() == squared


@some
@given(st.lists(st.tuples(st.integers(-4, 6), weights), min_size=1, max_size=4), st.integers(0, 6))
def test_weighted_projection_is_optimal_by_brute_force(entries, total):
    y, w = zip(*entries, strict=True)

    def cost(x):
        return sum(Fraction(c) * (a - b) ** 2 for a, b, c in zip(x, y, w, strict=True))

    x = simplex.euclidean(y, total, weights=w).tolist()
    assert sum(x) == total
    assert cost(x) == min(map(cost, feasible(len(y), total)))


@pytest.mark.slow
@more
@given(families_of_values, totals)
def test_euclidean_takes_the_cheapest_units_and_keeps_large_values_in_ties(y, total):
    w = [1] * len(y)
    assert_cheapest_units(simplex.euclidean(y, total), y, total, w)
    assert simplex.euclidean(y, total, weights=w).tolist() == simplex.euclidean(y, total).tolist()


@pytest.mark.slow
@more
@given(
    st.lists(st.tuples(st.integers(-(2**55), 2**55), weights), min_size=1, max_size=6),
    st.one_of(totals, st.integers(0, 2**58)),
)
def test_weighted_projection_is_exact_at_any_magnitude(entries, total):
    y, w = zip(*entries, strict=True)
    assert_cheapest_units(simplex.euclidean(y, total, weights=w), y, total, w)


@some
@given(st.lists(st.integers(2**54, 2**54 + 3), min_size=2, max_size=6), st.integers(0, 2**57))
def test_weights_that_differ_in_the_last_bit_are_told_apart(y, total):
    w = [1.0, np.nextafter(1.0, 2)] * 3
    assert_cheapest_units(simplex.euclidean(y, total, weights=w[: len(y)]), y, total, w)


@pytest.mark.slow
@some
@given(st.lists(st.tuples(st.lists(st.integers(-9, 20), max_size=60), totals), max_size=8))
def test_families_are_solved_one_by_one(families):
    families = [(y, total if y else 0) for y, total in families]
    rows, sums = families_of(*(y for y, _ in families)), np.array([total for _, total in families], np.int64)
    for together, alone in (
        (simplex.chebyshev_families, simplex.chebyshev),
        (simplex.euclidean_families, simplex.euclidean),
    ):
        assert together(*rows, sums).tolist() == list(chain(*(alone(y, total).tolist() for y, total in families)))


@pytest.mark.parametrize("solve", [simplex.chebyshev_families, simplex.euclidean_families])
@pytest.mark.parametrize("size", [1, 3, 1_000, 100_000])
def test_a_level_of_100_000_children_keeps_its_invariants(solve, size):
    rng = np.random.default_rng(size)
    y = rng.poisson(2, 100_000) * 10 + np.round(rng.normal(0, 15, 100_000)).astype(np.int64)
    offsets = np.arange(0, len(y) + 1, size)
    offsets = offsets if offsets[-1] == len(y) else np.append(offsets, len(y))
    sums = np.maximum(0, np.add.reduceat(y, offsets[:-1]) + rng.integers(-50, 50, len(offsets) - 1))
    x = solve(y, offsets, sums)
    assert x.min() >= 0
    assert (np.add.reduceat(x, offsets[:-1]) == sums).all()


def test_a_large_weighted_family_is_optimal():
    rng = np.random.default_rng(3)
    y, w = rng.integers(-100, 900, 20_000), rng.random(20_000) + 0.01
    for total in (0, 10**5, 10**13):
        assert_cheapest_units(simplex.euclidean(y, total, weights=w), y, total, w.tolist())


@pytest.mark.parametrize("solve", [simplex.chebyshev, simplex.euclidean])
@pytest.mark.parametrize(
    ("y", "total", "expected"),
    [
        ([], 0, []),
        ([-7], 4, [4]),
        ([2**60], 0, [0]),
        ([-(2**60)], 0, [0]),
        ([0], 2**60, [2**60]),
        ([-5, -5, -5], 0, [0, 0, 0]),
        ([3, 3, 3, 3], 12, [3, 3, 3, 3]),
        ([3, 3, 3, 3], 10, [2, 2, 3, 3]),
        ([2**59, -(2**58)], 2**58, [2**58, 0]),
    ],
)
def test_awkward_families(solve, y, total, expected):
    assert solve(y, total).tolist() == expected
    assert simplex.euclidean(y, total, weights=[0.3] * len(y)).tolist() == simplex.euclidean(y, total).tolist()


def test_weights_may_be_tiny_or_huge():
    assert simplex.euclidean([4, 4, 4], 9, weights=[5e-324] * 3).tolist() == [3, 3, 3]
    assert simplex.euclidean([4, 4, 4], 9, weights=[1e308] * 3).tolist() == [3, 3, 3]
    assert simplex.euclidean([4, 4], 3, weights=[1e-200, 1.0]).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("y", "total", "error", "says"),
    [
        ([1.5], 1, TypeError, "noisy has dtype float64"),
        ([True], 1, TypeError, "noisy has dtype bool"),
        ([[1]], 1, ValueError, r"noisy has shape \(1, 1\)"),
        ([1], 1.0, TypeError, "total=1.0 must be an integer"),
        ([1], True, TypeError, "total=True must be an integer"),
        ([1], -1, ValueError, "total=-1 must be between 0 and 2\\^60"),
        ([1], 2**60 + 1, ValueError, "must be between 0 and 2\\^60"),
        ([], 3, ValueError, "=3 must be 0, because family 0 is empty"),
        ([2**60], 1, ValueError, "2\\^60, else sums overflow"),
        ([-(2**63)], 0, ValueError, "2\\^60, else sums overflow"),
        ([2**63 - 1], 0, ValueError, "2\\^60, else sums overflow"),
        ([2**59, -(2**59), 1], 0, ValueError, "2\\^60, else sums overflow"),
    ],
)
@pytest.mark.parametrize("solve", [simplex.chebyshev, simplex.euclidean])
def test_one_family_says_what_is_wrong(solve, y, total, error, says):
    with pytest.raises(error, match=says):
        solve(y, total)


@pytest.mark.parametrize(
    ("w", "error", "says"),
    [
        ([1], ValueError, r"weights has shape \(1,\); it must have that of noisy, \(2,\)"),
        (["a", "b"], TypeError, "weights has dtype"),
        ([1, 0], ValueError, "weights must be positive and finite; got 0.0 … 1.0"),
        ([1, -2.5], ValueError, "weights must be positive and finite"),
        ([1, np.inf], ValueError, "weights must be positive and finite"),
        ([1, np.nan], ValueError, "weights must be positive and finite"),
        ([1e300, 1e-300], ValueError, "within a factor 2\\^900"),
    ],
)
def test_weights_are_checked(w, error, says):
    with pytest.raises(error, match=says):
        simplex.euclidean([1, 2], 3, weights=w)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"offsets": [0, 2]}, ValueError, "offsets is 0 … 2; it must run from 0 to the 3 entries of noisy"),
        ({"offsets": [0, 2, 1, 3]}, ValueError, "offsets falls from 2 to 1"),
        ({"totals": [1]}, ValueError, "totals has 1 entries; offsets describe 2 families"),
        ({"totals": [1, -1]}, ValueError, r"totals\[1\]=-1 must not be negative"),
        ({"totals": [1.0, 2.0]}, TypeError, "totals has dtype float64"),
        ({"offsets": [0, 3, 3]}, ValueError, r"totals\[1\]=2 must be 0, because family 1 is empty"),
        ({"noisy": [1, 2, 2**60]}, ValueError, "noisy and totals of family 1"),
    ],
)
@pytest.mark.parametrize("solve", [simplex.chebyshev_families, simplex.euclidean_families])
def test_families_say_what_is_wrong(solve, changes, error, says):
    with pytest.raises(error, match=says):
        solve(**({"noisy": [1, 2, 3], "offsets": [0, 1, 3], "totals": [1, 2]} | changes))
