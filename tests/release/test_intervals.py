"""Intervals around published numbers: where their ends are, and what is refused."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import tallytree as tt
from tallytree.release.intervals import MIN_REPLICATES, LevelErrors, interval, quantile


def test_the_ends_are_hand_worked():
    lower, upper = interval(np.array([100, 3, 0]), np.array([10.0, 5.0, 0.0]), 0.1, LevelErrors())
    assert lower.tolist() == [83, 0, 0]  # 100 − 16.45, 3 − 8.2 and 0, rounded down and cut at 0
    assert upper.tolist() == [117, 12, 0]
    assert lower.dtype == upper.dtype == np.int64


def test_the_upper_end_reckons_with_the_noise_of_the_level_and_the_lower_end_does_not():
    lower, upper = interval(np.array([50, 50]), np.array([2.0, 40.0]), 0.1, LevelErrors(upward_std_dev=10.0))
    assert (lower[0], upper[0]) == (46, 67)
    assert (lower[1], upper[1]) == (0, 116)


def test_a_negative_number_has_an_interval_from_zero():
    lower, upper = interval(np.array([-50]), np.array([2.0]), 0.1, LevelErrors())
    assert (lower[0], upper[0]) == (0, 0)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.32, 0.9])
def test_the_quantile_is_that_of_the_normal_distribution_and_of_student_for_estimates(alpha):
    assert quantile(alpha, None) == pytest.approx(stats.norm.ppf(1 - alpha / 2), rel=1e-9)
    for replicates in (MIN_REPLICATES, 20, 50, 10_000):
        assert quantile(alpha, replicates) == pytest.approx(stats.t.ppf(1 - alpha / 2, replicates), rel=1e-12)


@given(
    st.integers(0, 10**12),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.floats(0.001, 0.999),
    st.floats(0.001, 0.999),
    st.none() | st.integers(MIN_REPLICATES, 1000),
)
def test_the_number_lies_within_and_a_smaller_alpha_reaches_further(number, std_dev, floor, alpha, other, replicates):
    errors = LevelErrors(replicates, floor)
    wide, narrow = min(alpha, other), max(alpha, other)
    inner = interval(np.array([number]), np.array([std_dev]), narrow, errors)
    outer = interval(np.array([number]), np.array([std_dev]), wide, errors)
    assert 0 <= outer[0] <= inner[0] <= number <= inner[1] <= outer[1]


# --- Of a release ---


@pytest.fixture(scope="module")
def release():
    towns = tt.Hierarchy.from_table(pa.table({"town": ["A", "B", "C"]}), ["town"])
    people = pa.table({"town": ["A"] * 90 + ["B"] * 10})
    return tt.release_counts(
        people, towns, tt.Budget(epsilon=1), neighboring="change_one", mechanism=tt.counts.TopDown(), seed=1
    )


def test_a_mechanisms_own_standard_deviations_are_published(release):
    class Knowing(tt.counts.TopDown):
        def reconcile(self, tree, total, measurer):
            levels = super().reconcile(tree, total, measurer)
            return [
                tt.counts.ReleasedCounts(level.nodes, level.counts, np.full(len(level.nodes), 3.0)) for level in levels
            ]

    people = pa.table({"town": ["A"] * 90 + ["B"] * 10})
    budget = tt.Budget(epsilon=1)
    made = tt.release_counts(people, release.tree, budget, neighboring="change_one", mechanism=Knowing(), seed=1)
    table = made.table("town")
    assert table.column_names == ["town", "count", "std_dev"]
    assert table["std_dev"].to_pylist() == [3.0] * 3
    with_ends = made.table("town", alpha=0.05)
    assert with_ends.column_names == ["town", "count", "std_dev", "ci_lower", "ci_upper"]
    for row in with_ends.to_pylist():  # 1.96 · 3 = 5.88
        assert (row["ci_lower"], row["ci_upper"]) == (max(0, row["count"] - 6), row["count"] + 6)
    assert made.to_pandas("town", alpha=0.05)["ci_upper"].tolist() == with_ends["ci_upper"].to_pylist()


def test_intervals_of_a_release_that_does_not_know_its_errors_are_refused(release):
    with pytest.raises(ValueError, match=r"^alpha: 0.1 asks for intervals, .* tallytree.replicate_errors"):
        release.table("town", alpha=0.1)
    assert release.table("town").column_names == ["town", "count"]


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2, float("nan")])
def test_an_alpha_that_is_no_probability_is_refused(release, alpha):
    with pytest.raises(ValueError, match=r"^alpha: .* must lie strictly between 0 and 1"):
        tt.replicate_errors(release, alpha=alpha)


def test_an_alpha_that_no_replicates_can_tell_is_refused_and_the_least_one_reaches_far_but_not_beyond_integers(release):
    with pytest.raises(ValueError, match=r"^alpha: 1e-16 must be at least 1e-12"):
        tt.replicate_errors(release, alpha=1e-16)
    for replicates in (None, 10, 50):
        exact = stats.norm.isf(0.5e-12) if replicates is None else stats.t.isf(0.5e-12, replicates)
        assert quantile(1e-12, replicates) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("alpha", ["0.1", True, None])
def test_an_alpha_that_is_no_number_is_refused(release, alpha):
    with pytest.raises(TypeError, match=r"^alpha: .* must be a number between 0 and 1"):
        tt.replicate_errors(release, alpha=alpha)
