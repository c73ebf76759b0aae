from fractions import Fraction
from itertools import chain, combinations_with_replacement, groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.sizes import isotonic

examples = settings(max_examples=300)

small_rows = st.lists(st.integers(-3, 3), min_size=1, max_size=5)


def weighted_rows(values, weights, *, max_size=8):
    return st.lists(st.tuples(values, weights), min_size=1, max_size=max_size).map(
        lambda row: tuple(zip(*row, strict=True))
    )


def exact_means(y, w):
    """The L2 solution by the max-min formula, in fractions."""
    n = len(y)

    def mean(i, j):
        return Fraction(sum(a * b for a, b in zip(y[i:j], w[i:j], strict=True)), sum(w[i:j]))

    return [max(min(mean(j, k) for k in range(i + 1, n + 1)) for j in range(i + 1)) for i in range(n)]


def cost(x, y, norm, w=None):
    return sum(c * abs(a - b) ** norm for a, b, c in zip(x, y, w or [1] * len(y), strict=True))


def cheapest_monotone(y, norm, low=-3, high=3, w=None):
    """All monotone integer vectors of least cost, by trying every one."""
    candidates = list(combinations_with_replacement(range(low, high + 1), len(y)))
    least = min(cost(x, y, norm, w) for x in candidates)
    return least, [x for x in candidates if cost(x, y, norm, w) == least]


def round_half_up(x):
    return (2 * x + 1) // 2


def rows_of(*rows):
    values = np.array([value for row in rows for value in row], np.int64)
    return values, np.cumsum([0, *map(len, rows)])


def test_squared_loss_pools_violators_into_their_mean():
    assert isotonic.fit([1, 3, 2, 4, 0], norm=2).tolist() == [1, 2.25, 2.25, 2.25, 2.25]


def test_absolute_loss_returns_the_midpoint_of_all_medians():
    assert isotonic.fit([4, 0], norm=1).tolist() == [2, 2]
    assert isotonic.fit([3, 1, 2, 5], norm=1).tolist() == [1.5, 1.5, 2, 5]


def test_a_heavier_value_pulls_harder():
    assert isotonic.fit([4, 0], norm=2, weights=[3, 1]).tolist() == [3, 3]
    assert isotonic.fit([4, 0], norm=1, weights=[3, 1]).tolist() == [4, 4]


@examples
@given(weighted_rows(st.integers(-50, 50), st.integers(1, 9)))
def test_squared_loss_is_the_max_min_formula(row):
    y, w = row
    expected = [float(mean) for mean in exact_means(y, w)]
    assert isotonic.fit(y, norm=2, weights=w) == pytest.approx(expected, rel=1e-14)
    floats = isotonic.fit(np.array(y, float), norm=2, weights=np.array(w) / 8)
    assert floats == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.slow
@examples
@given(weighted_rows(st.integers(-3, 3), st.integers(1, 4), max_size=5))
def test_absolute_loss_is_halfway_between_the_lowest_and_the_highest_optimum(row):
    y, w = row
    _, optima = cheapest_monotone(y, 1, w=w)
    midpoint = (np.min(optima, axis=0) + np.max(optima, axis=0)) / 2
    assert isotonic.fit(y, norm=1, weights=w).tolist() == midpoint.tolist()
    assert isotonic.fit(np.array(y, float), norm=1, weights=np.array(w) / 4).tolist() == midpoint.tolist()


@examples
@given(small_rows, st.sampled_from([1, 2]), st.integers(-3, 3), st.integers(0, 4))
def test_rounded_rows_are_the_integer_optimum_within_bounds(y, norm, lower, width):
    x = isotonic.fit_rows(*rows_of(y), norm=norm, lower=lower, upper=lower + width)
    least, _ = cheapest_monotone(y, norm, lower, lower + width)
    assert x.tolist() == sorted(x)
    assert lower <= x.min() <= x.max() <= lower + width
    assert cost(x.tolist(), y, norm) == least


@examples
@given(st.lists(st.lists(st.integers(-30, 30), max_size=9), max_size=5), st.sampled_from([1, 2]), st.booleans())
def test_rows_are_fitted_one_by_one_rounded_and_cut_into_their_blocks(rows, norm, bounded):
    low, high = ([-i for i in range(len(rows))], 3) if bounded else (None, None)
    runs = isotonic.fit_row_runs(*rows_of(*rows), norm=norm, lower=low, upper=high)
    fitted = isotonic.fit_rows(*rows_of(*rows), norm=norm, lower=low, upper=high)
    values, lengths, whole = [], [], []
    for i, row in enumerate(rows):
        if norm == 2:
            exact = exact_means(row, [1] * len(row))
        else:
            exact = [Fraction(x) for x in isotonic.fit(row, norm=1).tolist()]
        exact = [min(max(x, -i), 3) for x in exact] if bounded else exact
        blocks = [(value, len(list(cells))) for value, cells in groupby(exact)]
        values.append([round_half_up(value) for value, _ in blocks])
        lengths.append([length for _, length in blocks])
        whole += [round_half_up(x) for x in exact]
    assert fitted.tolist() == whole
    assert runs.offsets.tolist() == np.cumsum([0, *map(len, values)]).tolist()
    assert runs.value.tolist() == list(chain(*values))
    assert runs.length.tolist() == list(chain(*lengths))


def test_means_closer_than_floats_can_tell_stay_apart_and_equal_ones_join():
    base = 2**58
    runs = isotonic.fit_row_runs(*rows_of([base, base + 1, base - 1], [base, base + 1, base]), norm=2)
    assert runs.length.tolist() == [3, 1, 2]
    assert runs.value.tolist() == [base, base, base + 1]


@examples
@given(weighted_rows(st.integers(-(2**40), 2**40), st.integers(1, 2**18), max_size=6))
def test_large_integers_are_compared_exactly(row):
    y, w = row
    runs_expected = [len(list(cells)) for _, cells in groupby(exact_means(y, w))]
    fitted = isotonic.fit(y, norm=2, weights=w)
    assert (np.diff(fitted) >= 0).all()
    assert len(set(fitted.tolist())) <= len(runs_expected)
    assert fitted == pytest.approx([float(mean) for mean in exact_means(y, w)], rel=1e-14)


@examples
@given(st.lists(st.integers(2**56 - 2, 2**56 + 2), min_size=1, max_size=12))
def test_blocks_of_huge_values_are_exact(y):
    exact = exact_means(y, [1] * len(y))
    runs = isotonic.fit_row_runs(*rows_of(y), norm=2)
    assert runs.length.tolist() == [len(list(cells)) for _, cells in groupby(exact)]
    assert np.repeat(runs.value, runs.length).tolist() == [round_half_up(x) for x in exact]


def test_a_row_of_a_hundred_thousand_cells_meets_the_optimality_conditions():
    rng = np.random.default_rng(1)
    y = np.cumsum(rng.integers(0, 2, 100_000)) + np.round(rng.laplace(0, 40, 100_000)).astype(np.int64)
    x = isotonic.fit(y, norm=2)
    # Prefixes of y lie above x within a block, and agree with it where one ends.
    gap = np.cumsum(y - x)
    ends = np.append(np.diff(x) > 0, True)
    assert (np.diff(x) >= 0).all()
    assert gap.min() > -1e-3
    assert np.abs(gap[ends]).max() < 1e-3
    median = isotonic.fit(y, norm=1)
    assert (np.diff(median) >= 0).all()
    for _ in range(20):
        other = np.maximum.accumulate(median + rng.integers(-1, 2, len(y)) * (rng.random(len(y)) < 0.01))
        assert np.abs(other - y).sum() >= np.abs(median - y).sum()


@pytest.mark.parametrize("norm", [1, 2])
def test_thousands_of_short_rows_are_independent(norm):
    rng = np.random.default_rng(2)
    rows = [rng.integers(-9, 9, n) for n in rng.integers(0, 4, 3_000)]
    together = isotonic.fit_rows(*rows_of(*rows), norm=norm, lower=-5)
    alone = [isotonic.fit_rows(*rows_of(row), norm=norm, lower=-5) for row in rows]
    assert together.tolist() == np.concatenate(alone).tolist()


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("y", [[7], [5, 5, 5], [1, 2, 3], [-(2**60)], [2**60, 2**60]], ids=str)
def test_a_monotone_row_is_left_as_it_is(y, norm):
    assert isotonic.fit(y, norm=norm).tolist() == y
    assert isotonic.fit_rows(*rows_of(y), norm=norm).tolist() == y
    assert isotonic.fit_row_runs(*rows_of(y), norm=norm).length.sum() == len(y)


@pytest.mark.parametrize("norm", [1, 2])
def test_nothing_fits_nothing(norm):
    assert isotonic.fit([], norm=norm).shape == (0,)
    assert isotonic.fit_rows([], [0], norm=norm).shape == (0,)
    assert isotonic.fit_rows([], [0, 0, 0], norm=norm, lower=[1, 2]).shape == (0,)
    assert isotonic.fit_row_runs([], [0, 0, 0], norm=norm).offsets.tolist() == [0, 0, 0]


@pytest.mark.parametrize("norm", [1, 2])
def test_equal_bounds_fix_every_value_in_one_run(norm):
    runs = isotonic.fit_row_runs([1, 9, 2, 8], [0, 4], norm=norm, lower=5, upper=5)
    assert (runs.value.tolist(), runs.length.tolist()) == ([5], [4])


@pytest.mark.parametrize("norm", [1, 2])
def test_a_block_that_lies_on_a_bound_joins_those_clipped_to_it(norm):
    runs = isotonic.fit_row_runs([-1, 0, 1, 4, 5], [0, 5], norm=norm, lower=0, upper=4)
    assert (runs.value.tolist(), runs.length.tolist()) == ([0, 1, 4], [2, 1, 2])


def test_bounds_clip_the_fit():
    assert isotonic.fit([-3, 1, 9], norm=2, lower=0, upper=4.5).tolist() == [0, 1, 4.5]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"y": [1, 2], "norm": 3}, ValueError, "norm=3; it must be 1 or 2"),
        ({"y": [[1, 2]], "norm": 1}, ValueError, r"y has shape \(1, 2\)"),
        ({"y": [[1.5]], "norm": 1}, ValueError, r"y has shape \(1, 1\)"),
        ({"y": ["a"], "norm": 1}, TypeError, "y has dtype"),
        ({"y": [True], "norm": 1}, TypeError, "y has dtype bool"),
        ({"y": [1.0, np.nan], "norm": 2}, ValueError, "y holds nan; it must be finite"),
        ({"y": [1, 2], "norm": 2, "weights": [1]}, ValueError, "weights has 1 entries; y has 2"),
        ({"y": [1, 2], "norm": 2, "weights": [1, 0]}, ValueError, "weights must be positive; the smallest is 0"),
        ({"y": [1, 2], "norm": 2, "weights": [1, np.inf]}, ValueError, "weights holds inf"),
        ({"y": [1, 2], "norm": 2, "lower": 3, "upper": 1}, ValueError, "lower=3 must be at most upper=1"),
        ({"y": [1, 2], "norm": 2, "lower": np.nan}, ValueError, "lower=nan"),
        ({"y": [1, 2], "norm": 2, "upper": "9"}, TypeError, "upper='9' must be a number"),
        ({"y": [2**61, 0], "norm": 2}, ValueError, "2\\^62"),
        ({"y": [0, 0], "norm": 1, "weights": [2**61, 1]}, ValueError, "2\\^62"),
        ({"y": np.array([2**63], np.uint64), "norm": 1}, ValueError, "integers that fit int64"),
    ],
)
def test_fit_says_what_is_wrong(arguments, error, says):
    with pytest.raises(error, match=says):
        isotonic.fit(arguments.pop("y"), **arguments)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"values": [1.5, 2, 3]}, TypeError, "values has dtype float64"),
        ({"offsets": [0, 2]}, ValueError, "offsets is 0 … 2; it must run from 0 to the 3 entries of values"),
        ({"offsets": [0, 3, 2, 3]}, ValueError, "offsets falls from 3 to 2"),
        ({"offsets": []}, ValueError, "offsets is nothing"),
        ({"norm": "1"}, ValueError, "norm='1'"),
        ({"lower": [1, 2]}, ValueError, "lower has 2 entries; it must be one integer or one for each of 1 rows"),
        ({"lower": 0.5}, TypeError, "lower has dtype float64"),
        ({"lower": 2, "upper": 1}, ValueError, r"lower=2 must be at most upper=1 \(row 0\)"),
        ({"upper": 2**61}, ValueError, "upper must be below 2\\^61"),
        ({"values": [2**61, 0, 0], "norm": 1}, ValueError, "values must be below 2\\^61"),
        ({"values": [-(2**61), 0, 0]}, ValueError, "values must be below 2\\^61"),
        ({"values": [-(2**63), 0, 0]}, ValueError, "values must be below 2\\^61"),
    ],
)
@pytest.mark.parametrize("function", [isotonic.fit_rows, isotonic.fit_row_runs])
def test_row_fits_say_what_is_wrong(function, changes, error, says):
    arguments = {"values": [1, 2, 3], "offsets": [0, 3], "norm": 2} | changes
    with pytest.raises(error, match=says):
        function(arguments.pop("values"), arguments.pop("offsets"), **arguments)
