"""How people are counted by their number of records: the option, and the bins."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallytree as tt
from tallytree.kinds.contributions import asked_contributions, contribution_bins


@given(st.integers(1, 10**6 - 1), st.integers(1, 10**6))
def test_the_bins_cover_every_number_once_and_one_ends_at_the_bound(bound, more):
    at_most = min(bound + more, 10**6)
    bins = contribution_bins(bound, at_most)
    assert bins[0][0] == 1
    assert bins[-1][1] == at_most
    assert all(last + 1 == first for (_, last), (first, _) in itertools.pairwise(bins))
    assert all(first <= last for first, last in bins)
    assert bound in {last for _, last in bins}
    assert len(bins) < 140


@given(st.integers(1, 1000), st.integers(1, 10**5))
def test_what_is_left_out_of_the_people_of_a_bin_differs_by_a_fourth_at_most(bound, more):
    for first, last in contribution_bins(bound, bound + more):
        if first > bound:
            assert last - first <= (first - bound) / 4
        else:
            assert last - first <= first / 4


def test_the_share_alone_is_an_option():
    assert asked_contributions(0.05) == tt.Contributions() == tt.Contributions(share=Fraction(1, 20), at_most=1_000)
    assert asked_contributions(None) is None
    assert repr(tt.Contributions(0.1, 50)) == "Contributions(share=0.1, at_most=50)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0, r"contributions: share: 0 must lie strictly between 0 and 1 \(for instance 0\.05\)"),
        (1.5, r"contributions: share: 1\.5 must lie strictly between"),
        (float("nan"), "contributions: share: nan must be finite"),
    ],
)
def test_a_share_that_leaves_nothing_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        asked_contributions(given)


@pytest.mark.parametrize("given", ["0.1", True, ["records of ann"], {"share": 0.1}])
def test_what_is_no_share_is_named_by_its_type_alone(given):
    with pytest.raises(TypeError, match=rf"^contributions: {type(given).__name__} must be a share of the budget"):
        asked_contributions(given)


@pytest.mark.parametrize(("at_most", "kind"), [(1, ValueError), (10**6 + 1, ValueError), (2.5, TypeError)])
def test_the_last_number_is_within_reason(at_most, kind):
    with pytest.raises(kind, match=r"^at_most"):
        tt.Contributions(at_most=at_most)
