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
    """At 10, an end is 15.95 = 1.645 · 10 − ½ away: at 16 for 95 % of the integers, at 15 for the others.

    P(Z > 1.55) = 0.0606 and P(Z > 1.65) = 0.0495, so 0.952 · 0.0495 + 0.048 · 0.0606 = 0.05.
    """
    lower, upper = interval(np.array([100, 3, 0]), np.array([10.0, 5.0, 0.0]), 0.1, LevelErrors())
    assert lower.tolist() == [84, 0, 0]  # 84 · 0.618034 = 51.915, and 0.915 < 0.952; cut at 0
    assert upper.tolist() == [116, 11, 0]  # 1 − 0.692 < 0.952; 1 − 0.798 < 0.757
    assert lower.dtype == upper.dtype == np.int64
    away = np.arange(100, 1100) - interval(np.arange(100, 1100), np.full(1000, 10.0), 0.1, LevelErrors())[0]
    assert set(away) == {15, 16}
    assert np.mean(away == 15) == pytest.approx(0.048, abs=0.002)


def test_the_upper_end_reckons_with_the_noise_of_the_level_and_the_lower_end_does_not():
    lower, upper = interval(np.array([50, 50]), np.array([2.0, 40.0]), 0.1, LevelErrors(upward_std_dev=10.0))
    assert (lower[0], upper[0]) == (47, 66)
    assert (lower[1], upper[1]) == (0, 115)  # 65.3 away, and 1 − 0.692 ≥ 0.30 at 116
    each = interval(np.array([50, 50]), np.full(2, 2.0), 0.1, LevelErrors(upward_std_dev=np.array([10.0, 0.0])))[1]
    assert each.tolist() == [66, interval(np.array([50]), np.full(1, 2.0), 0.1, LevelErrors())[1][0]]


COVERED = [0.5, 0.7, 1.0, 1.1, 1.22, 1.3, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0, 30.0, 100.0]


@pytest.mark.parametrize("replicates", [None, 50])
@pytest.mark.parametrize("std_dev", COVERED)
def test_over_true_numbers_the_intervals_cover_exactly_what_they_say(std_dev, replicates):
    """Summed over all errors, with their probabilities: no simulation. Ends rounded outward covered up to 99 %."""
    law = stats.norm if replicates is None else stats.t(replicates)
    errors = np.arange(-int(9 * std_dev) - 3, int(9 * std_dev) + 4)
    likely = law.cdf((errors + 0.5) / std_dev) - law.cdf((errors - 0.5) / std_dev)
    truth = 50_000 + np.arange(610 if std_dev < 10 else 89)
    released = truth[:, None] + errors
    ends = interval(released.ravel(), np.full(released.size, std_dev), 0.1, LevelErrors(replicates))
    lower, upper = (each.reshape(released.shape) for each in ends)
    inside = ((lower <= truth[:, None]) & (truth[:, None] <= upper)) @ likely
    assert inside.mean() == pytest.approx(0.9, abs=0.002)
    # One integer more or less at the ends, for a single true number.
    assert np.abs(inside - 0.9).max() <= 1.01 * (law.cdf(2.5 / std_dev) - law.cdf(0.5 / std_dev))
    width = ((upper - lower) @ likely).mean()
    assert width < 2 * quantile(0.1, replicates) * std_dev  # rounded outward: 2 · 1.645 · std_dev + 1


def test_the_ends_around_fractions_are_the_outermost_integers_within_reach():
    lower, upper = interval(np.array([10.5, 2.5, 4.0]), np.array([2.0, 0.01, 0.0]), 0.1, LevelErrors())
    assert lower.tolist() == [8, 2, 4]  # 10.5 − 3.29; both neighbours at least
    assert upper.tolist() == [13, 3, 4]
    assert lower.dtype == upper.dtype == np.int64


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
    assert table.column_names == ["town", "count", "std_dev", "quality"]
    assert table["std_dev"].to_pylist() == [3.0] * 3
    with_ends = made.table("town", alpha=0.05)
    assert with_ends.column_names == ["town", "count", "std_dev", "ci_lower", "ci_upper", "quality"]
    lower, upper = interval(table["count"].to_numpy(), np.full(3, 3.0), 0.05, LevelErrors())  # 5 or 6 away
    assert with_ends["ci_lower"].to_pylist() == lower.tolist()
    assert with_ends["ci_upper"].to_pylist() == upper.tolist()
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


@pytest.fixture(scope="module")
def homes():
    towns = pa.table({"region": ["N", "N", "S"], "town": ["A", "B", "C"]})
    groups = {
        "region": ["N", "N", "N", "S"],
        "town": ["A", "A", "B", "C"],
        "n": [1, 4, 2, 3],
        "homes": [90, 30, 50, 60],
    }
    tree = tt.Hierarchy.from_table(towns, ["region", "town"])
    options = {"size": "n", "groups": "homes", "max_group_size": 6, "neighboring": "add_remove", "seed": 3}
    return tt.release_group_sizes(pa.table(groups), tree, tt.Budget(epsilon=0.5), **options)


def test_group_sizes_of_the_default_mechanism_have_tail_counts_with_their_errors(homes, tmp_path):
    table = homes.table("region")
    assert table.column_names == ["region", "size", "groups", "tail_count", "tail_std_dev"]
    for row in table.to_pylist():
        larger = [o["groups"] for o in table.to_pylist() if o["region"] == row["region"] and o["size"] >= row["size"]]
        assert row["tail_count"] == sum(larger)
    assert all(row["tail_std_dev"] > 0 for row in table.to_pylist() if row["size"] > 0)
    columns = ["region", "town", "size", "groups", "tail_count", "tail_std_dev", "tail_ci_lower", "tail_ci_upper"]
    ends = homes.table("town", alpha=0.05)
    assert ends.column_names == columns
    lower, upper = interval(ends["tail_count"].to_numpy(), ends["tail_std_dev"].to_numpy(), 0.05, LevelErrors())
    assert (ends["tail_ci_lower"].to_pylist(), ends["tail_ci_upper"].to_pylist()) == (lower.tolist(), upper.tolist())
    homes.save(tmp_path / "out", csv=True)
    assert tt.Release.load(tmp_path / "out").table("town", alpha=0.05).equals(ends)
    assert (tmp_path / "out/tables/town.csv").read_text().splitlines()[0].split(",")[-1].strip('"') == "tail_std_dev"


def test_replicates_tell_the_errors_of_numbers_of_groups_beside_those_of_tail_counts(homes):
    table = tt.replicate_errors(homes, replicates=10, seed=1).table("town", alpha=0.2)
    errors = ["tail_ci_lower", "tail_ci_upper", "std_dev", "ci_lower", "ci_upper"]
    assert table.column_names == ["region", "town", "size", "groups", "tail_count", "tail_std_dev", *errors, "quality"]


def test_a_level_may_not_have_the_name_of_a_column_of_tail_counts():
    with pytest.raises(ValueError, match="tail_count"):
        tt.Hierarchy.from_table(pa.table({"tail_count": ["a"]}), ["tail_count"])
