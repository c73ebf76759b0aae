"""The oracle of the chain, `helpers.cost_table_chain`, against the paper's Table 6 and brute force."""

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import cost_table_chain
from tallytree.solvers.sizes import isotonic

more = settings(max_examples=500)
some = settings(max_examples=150)


def test_table_6_digit_by_digit():
    # Cumulative counts of the chain GA, NY, US: 3, 3, 2; NY and US are the same number.
    def table(nodes):
        return cost_table_chain.chain_table([3, 3, 2][:nodes], [False, True][: nodes - 1], lower=0, upper=4).tolist()

    assert table(1) == [9, 4, 1, 0, 1]
    assert table(2) == [9 + 9, 4 + 4, 1 + 1, 0 + 0, 1 + 0]
    assert table(3) == [4 + 18, 1 + 8, 0 + 2, 1 + 0, 4 + 1]
    assert cost_table_chain.chain_fit([3, 3, 2], [False, True], lower=0, upper=4).tolist() == [3, 3, 3]  # the stars


chains = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-3, 8), min_size=n, max_size=n), st.lists(st.booleans(), min_size=n - 1, max_size=n - 1)
    )
)


@pytest.mark.slow
@more
@given(chains, st.integers(-1, 2), st.integers(2, 5), st.booleans())
def test_the_chain_is_optimal_by_brute_force(chain, lower, upper, fixed):
    noisy, equal = chain
    last = upper - 1 if fixed and upper - 1 >= lower else None

    def allowed(c):
        steps = all(a == b if same else a <= b for (a, b), same in zip(pairwise(c), equal, strict=True))
        return steps and (last is None or c[-1] == last)

    def cost(c):
        return sum((a - b) ** 2 for a, b in zip(c, noisy, strict=True))

    c = cost_table_chain.chain_fit(noisy, equal, lower=lower, upper=upper, last=last).tolist()
    assert allowed(c)
    assert lower <= min(c) <= max(c) <= upper
    assert cost(c) == min(cost(d) for d in product(range(lower, upper + 1), repeat=len(noisy)) if allowed(d))


@some
@given(st.lists(st.integers(-30, 60), min_size=1, max_size=100))
def test_without_equal_neighbors_the_chain_is_the_rounded_isotonic_regression(noisy):
    fitted = isotonic.fit_rows(noisy, [0, len(noisy)], norm=2, lower=0, upper=40)
    c = cost_table_chain.chain_fit(noisy, [False] * (len(noisy) - 1), lower=0, upper=40)
    assert ((c - noisy) ** 2).sum() == ((fitted - noisy) ** 2).sum()


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"noisy": [], "equal_next": []}, ValueError, "noisy is empty"),
        ({"noisy": [1.5, 2]}, TypeError, "noisy has dtype float64"),
        ({"equal_next": [1]}, TypeError, "equal_next has dtype int64; it must be bool"),
        ({"equal_next": [True, False]}, ValueError, r"equal_next has shape \(2,\); noisy has 2 entries"),
        ({"lower": 9}, ValueError, "lower=9 must be at most upper=5"),
        ({"last": 6}, ValueError, "last=6 must be at most upper=5"),
        ({"last": -1}, ValueError, "last=-1 must be at least 0"),
        ({"noisy": [2**40, 0]}, ValueError, "a cost could reach 2\\^62"),
    ],
)
def test_the_chain_says_what_is_wrong(changes, error, says):
    with pytest.raises(error, match=says):
        cost_table_chain.chain_fit(**({"noisy": [1, 2], "equal_next": [False], "lower": 0, "upper": 5} | changes))
