"""The errors of a release's own fit."""

import pickle

import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.numbers.accuracy.fitted_errors import fitted_errors, has_fitted_errors

TOWNS = pa.table({"state": ["A", "A", "B"], "town": ["x", "y", "x"]})


def released(**options):
    tree = tt.Hierarchy.from_table(TOWNS, ["state", "town"])
    return tt.release_counts(TOWNS, tree, tt.Budget(epsilon=1), neighboring="add_remove", seed=1, **options)


def test_they_are_the_intervals_that_the_release_gives():
    release = released()
    made = fitted_errors(release, alpha=0.05)
    for level in release.levels:
        assert made.table(level).equals(release.table(level, alpha=0.05))
        assert made.measurements(level).equals(release.measurements(level))
    assert "errors" not in release.statement
    gone = pickle.loads(pickle.dumps(made))  # noqa: S301  (to another process)
    assert gone.table("town").equals(made.table("town"))


def test_they_are_known_of_a_fit_only():
    assert has_fitted_errors(released())
    assert has_fitted_errors(fitted_errors(released()))
    assert not has_fitted_errors(released(mechanism=tt.counts.TopDown()))
    assert not has_fitted_errors(tt.replicate_errors(released(), 10))


@pytest.mark.parametrize(
    ("alpha", "kind", "message"),
    [(1.5, ValueError, "alpha: 1.5 must lie"), ("x", TypeError, "alpha: str must be a number")],
)
def test_another_alpha_is_refused(alpha, kind, message):
    with pytest.raises(kind, match=message):
        fitted_errors(released(), alpha=alpha)


def test_a_release_without_them_is_refused():
    with pytest.raises(ValueError, match="release: its tables have no std_dev of a fit"):
        fitted_errors(released(mechanism=tt.counts.TopDown()))
