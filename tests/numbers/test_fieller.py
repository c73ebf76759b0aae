"""Fieller's intervals: worked by hand, by a search over ratios, and by simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.numbers.cells import Estimates
from tallytree.numbers.fieller import fieller_interval, ratio_columns, ratio_std_dev
from tallytree.release.intervals import quantile

Q = quantile(0.1, None)


def pair(n, d, v_n, v_d, c):
    """Numerators and denominators as they were published, which are unbiased."""
    return Estimates({}, (n, d), (n, d), (v_n, v_d), c)


def errors(n, d, v_n, v_d, c=0.0):
    return pair(*(np.array([each], dtype=float) for each in (n, d, v_n, v_d, c)))


def uncorrected(n, d, v_n, v_d, c=0.0):
    """With the half-unit taken away again, for formulas by hand."""
    less = [0.0 if v == 0 else (np.sqrt(v) - 0.5 / Q) ** 2 for v in (v_n, v_d)]
    return errors(n, d, *less, c)


def only(ends):
    return [float(end[0]) for end in ends]


def test_a_bounded_interval_worked_by_hand():
    """n = 60 and d = 100 with variances 25 and 16, q = 1.644854: a = 100² − 2.705543·16 and so on."""
    a, b, c = 10_000 - 2.7055434541 * 16, 6_000.0, 3_600 - 2.7055434541 * 25
    root = np.sqrt(b * b - a * c)
    assert only(fieller_interval(uncorrected(60, 100, 25, 16), 0.1)) == pytest.approx([(b - root) / a, (b + root) / a])
    assert only(fieller_interval(uncorrected(60, 100, 25, 16), 0.1)) == pytest.approx([0.511147, 0.694070], abs=1e-6)


def test_an_exact_denominator_gives_the_interval_of_the_numerator():
    assert only(fieller_interval(uncorrected(60, 100, 25, 0), 0.1)) == pytest.approx([0.6 - Q / 20, 0.6 + Q / 20])


def test_a_denominator_that_may_be_0_leaves_no_upper_end():
    """d = 1 ± 1.645·2 reaches 0: with n = 50 ± 3 the ratios from 50 / (1 + 3.3) on are possible, and negative ones."""
    lower, upper = only(fieller_interval(errors(50, 1, 9, 4), 0.1, 0.0))
    assert 8 < lower < 12
    assert upper == np.inf
    lower, upper = only(fieller_interval(errors(50, 1, 9, 4), 0.1))
    assert (lower, upper) == (-np.inf, np.inf)


def test_nothing_is_told_of_a_ratio_of_noise():
    assert only(fieller_interval(errors(1, 1, 9, 9), 0.1, 0.0)) == [0.0, np.inf]
    assert only(fieller_interval(errors(1, 1, 9, 9), 0.1, 0.0, 1.0)) == [0.0, 1.0]
    assert only(fieller_interval(errors(0, 0, 0, 0), 0.1, 0.0)) == [0.0, np.inf]


numbers = st.floats(-50, 50)


@pytest.mark.slow
@settings(max_examples=200)
@given(numbers, numbers, st.floats(0.1, 400), st.floats(0.1, 400), st.floats(-0.99, 0.99))
def test_the_interval_holds_the_ratios_that_the_test_accepts_and_its_ends_are_of_these(n, d, v_n, v_d, rho):
    c = rho * np.sqrt(v_n * v_d)
    lower, upper = only(fieller_interval(errors(n, d, v_n, v_d, c), 0.1, 0.0, 1.0))
    ratios = np.linspace(0, 1, 2_001)
    most = [(Q * np.sqrt(v) + 0.5) ** 2 for v in (v_n, v_d)]
    gap = (n - ratios * d) ** 2 - (most[0] - 2 * ratios * Q**2 * c + ratios**2 * most[1])
    accepted = ratios[gap <= -1e-9 * (1 + np.abs(gap).max())]
    if len(accepted):
        assert lower <= accepted[0] + 1e-9
        assert upper >= accepted[-1] - 1e-9
        assert accepted[0] - lower <= 6e-4
        if abs(d) > 3 * Q * np.sqrt(v_d) + 0.5:  # nearer to 0 the upper end is wider
            assert upper - accepted[-1] <= 6e-4


def test_90_percent_intervals_cover_the_true_ratio_in_90_percent():
    """20,000 draws: the standard error is 0.2 points; noise of 3 to 30, denominators near 0 too."""
    rng = np.random.default_rng(3)
    for big, rho in ((1_000, 0.0), (40, 0.9), (5, -0.5)):
        shape = (20_000,)
        sd = rng.uniform(3, 30, (2, *shape))
        z = rng.normal(size=(2, *shape))
        noise = np.stack([sd[0] * z[0], sd[1] * (rho * z[0] + np.sqrt(1 - rho**2) * z[1])])
        d = rng.integers(1, big + 1, shape)
        n = rng.binomial(d, 0.3)
        made = pair(n + noise[0], d + noise[1], sd[0] ** 2, sd[1] ** 2, rho * sd[0] * sd[1])
        lower, upper = fieller_interval(made, 0.1, 0.0, 1.0)
        covered = ((lower <= n / d) & (n / d <= upper)).mean()
        assert covered > 0.895
        lower, upper = fieller_interval(made, 0.1)
        assert (((lower <= n / d) & (n / d <= upper)).mean()) > 0.895


@pytest.mark.parametrize("ratio", [0.3, 3.0])
def test_the_upper_ends_that_are_given_hold_where_the_denominator_is_near_0(ratio):
    """Denominators of 0.7 to 4 standard deviations: of 200,000 draws 600 or more have an end, so 3 standard errors are
    at most 4 points. With ends from q standard deviations on, 69 % hold at 0.7 (ratio 3)."""
    rng = np.random.default_rng(5)
    for sd_away in (0.7, 1.0, 2.0, 3.0, 4.0):
        d = 10 * sd_away
        z = 10 * rng.normal(size=(2, 200_000))
        made = pair(ratio * d + z[0], d + z[1], *(np.full(200_000, v) for v in (100.0, 100.0, 0.0)))
        lower, upper = fieller_interval(made, 0.1, 0.0)
        given = np.isfinite(upper)
        held = (lower <= ratio) & (ratio <= upper)
        assert given.mean() < (0.005 if sd_away < 1 else 1)
        assert held[given].mean() > 0.83
        assert held.mean() > 0.895


def test_nearly_no_upper_end_is_given_where_the_denominator_is_nearly_0():
    z = 10 * np.random.default_rng(6).normal(size=(2, 200_000))
    made = pair(5 + z[0], 1 + z[1], *(np.full(200_000, v) for v in (100.0, 100.0, 0.0)))
    assert np.isfinite(fieller_interval(made, 0.1, 0.0)[1]).mean() < 0.002  # a tenth, were it q


def test_an_interval_far_from_0_is_fiellers_and_widens_steadily_towards_it():
    widths = [np.subtract(*only(fieller_interval(errors(0.6 * d, d, 100, 100), 0.1, 0.0))[::-1]) for d in range(35, 60)]
    assert (np.diff(widths) < 0).all()
    assert only(fieller_interval(errors(60, 33, 100, 100), 0.1, 0.0))[1] == np.inf
    a, b, c = 60**2 - (10 * Q + 0.5) ** 2, 36.0 * 60, 36**2 - (10 * Q + 0.5) ** 2
    assert only(fieller_interval(errors(36, 60, 100, 100), 0.1))[1] == pytest.approx((b + np.sqrt(b * b - a * c)) / a)


@pytest.mark.parametrize("sd", [0.3, 0.45, 0.6, 0.9, 1.2, 2.0])
def test_small_integer_noise_is_covered_too(sd):
    """An exact denominator, and a noisy integer; without the half-unit 66 % are covered at 0.6."""
    noise = np.rint(np.random.default_rng(4).normal(0, sd, 20_000))
    made = pair(40 + noise, np.full(20_000, 100.0), *(np.full(20_000, v) for v in (sd**2, 0.0, 0.0)))
    lower, upper = fieller_interval(made, 0.1, 0.0, 1.0)
    assert ((lower <= 0.4) & (upper >= 0.4)).mean() > 0.89


def test_the_standard_deviation_is_null_where_the_denominator_may_be_0():
    assert ratio_std_dev(np.array([0.6]), errors(60, 100, 25, 16))[0] == pytest.approx(np.sqrt(25 + 0.36 * 16) / 100)
    assert np.isnan(ratio_std_dev(np.array([0.6]), errors(3, 5, 1, 10))[0])


def test_columns_say_what_is_not_known_by_nulls():
    made = ratio_columns(errors(50, 4, 9, 40), 0.1, (0.0, np.inf), "ratio")
    assert {name: column.to_pylist()[0] for name, column in made.items()} == {
        "ratio": 12.5,
        "std_dev": None,
        "ci_lower": pytest.approx(2.9, abs=0.5),
        "ci_upper": None,
        "quality": None,
    }
    made = ratio_columns(errors(50, 100, np.nan, 40), 0.1, (0.0, 1.0), "ratio")
    assert [column.to_pylist()[0] for column in made.values()] == [0.5, None, None, None, None]
    made = ratio_columns(errors(0, 0, 0, 0), 0.1, (0.0, np.inf), "ratio")
    assert [column.to_pylist()[0] for column in made.values()] == [None, None, 0.0, None, None]
    made = ratio_columns(errors(25, 100, 0, 0), 0.1, (0.0, 1.0), "share")
    assert [column.to_pylist()[0] for column in made.values()] == [0.25, 0.0, 0.25, 0.25, "exact"]
