"""Survivors of a threshold against a literal version of the rule, and what they guarantee."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallytree.solvers.trees.families import survivors


def one_by_one(noisy, total, threshold):
    """The rule as it is written, entry by entry."""
    order = sorted(range(len(noisy)), key=lambda i: (-noisy[i], i))
    kept, found = set(), 0
    for rank, i in enumerate(order):
        short = total - found > threshold
        if rank == 0 or noisy[i] > threshold or (noisy[i] > 0 and short):
            kept.add(i)
            found += max(0, noisy[i])
    return [i in kept for i in range(len(noisy))]


families = st.lists(st.tuples(st.lists(st.integers(-20, 40), max_size=8), st.integers(0, 60)), max_size=5)


@pytest.mark.slow
@given(families, st.floats(0, 30))
def test_families_survive_as_the_rule_says(given_families, threshold):
    noisy = [y for family, _ in given_families for y in family]
    offsets = np.cumsum([0, *(len(family) for family, _ in given_families)])
    expected = [kept for family, total in given_families for kept in one_by_one(family, total, threshold)]
    assert survivors(noisy, offsets, [total for _, total in given_families], threshold).tolist() == expected


def test_extreme_values_do_not_overflow():
    least, most = np.iinfo(np.int64).min, 2**61
    assert survivors([least, most, most, -1], [0, 4], [most], 3.0).tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [0, 1], [1, 2], 0.0), "totals has 2 entries; offsets describe 1 families"),
        (([1], [0, 2], [1], 0.0), "offsets is 0 … 2; it must run from 0 to the 1 entries of noisy"),
        (([1], [0, 1], [1], -1.0), "threshold=-1.0 must be at least 0"),
        (([1], [0, 1], [1], float("nan")), "threshold=nan must be at least 0"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        survivors(*arguments)
