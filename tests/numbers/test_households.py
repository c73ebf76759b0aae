"""Persons are put into households: the sizes come back, the shuffle is uniform and public, and faults are told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.numbers.households import HouseholdSizes, put_into_households, seed_of

LARGEST = 4


@st.composite
def leaves(draw):
    """Per leaf, the sizes of its households, each as many as it has persons."""
    return draw(st.lists(st.lists(st.integers(1, 9), max_size=7), min_size=1, max_size=6))


def published(households):
    """The households of leaves as a release has them."""
    rows = [
        (leaf, size, sum(min(each, LARGEST) == size for each in sizes))
        for leaf, sizes in enumerate(households)
        for size in range(1, LARGEST + 1)
    ]
    leaf, size, number = np.array([row for row in rows if row[2]], dtype=np.int64).reshape(-1, 3).T
    last = np.array([sum(each for each in sizes if each >= LARGEST) for sizes in households], dtype=np.int64)
    return HouseholdSizes(leaf, size, number, LARGEST, last)


def persons_of(households):
    return np.array([sum(sizes) for sizes in households], dtype=np.int64)


@given(leaves(), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_the_sizes_of_every_leaf_come_back(households, seed):
    persons, sizes = persons_of(households), published(households)
    found = put_into_households(persons, sizes, np.random.Philox(seed))
    assert len(found) == persons.sum()
    begin = 0
    for here, number in zip(households, persons.tolist(), strict=True):
        made = np.sort(np.unique(found[begin : begin + number], return_counts=True)[1])
        assert np.bincount(np.minimum(made, LARGEST), minlength=LARGEST + 1).tolist() == [
            sum(min(each, LARGEST) == size for each in here) for size in range(LARGEST + 1)
        ]
        last = made[made >= LARGEST]
        assert last.sum() == sum(each for each in here if each >= LARGEST)
        assert len(last) == 0 or last.max() - last.min() <= 1  # as evenly as can be
        begin += number
    assert sorted(set(found.tolist())) == list(range(sum(map(len, households))))


@given(leaves(), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_leaves_in_two_calls_get_the_households_of_one(households, cut):
    whole = put_into_households(persons_of(households), published(households), np.random.Philox(5))
    random, parts, first = np.random.Philox(5), [], 0
    for part in (households[:cut], households[cut:]):
        if part:
            parts.append(first + put_into_households(persons_of(part), published(part), random))
            first += sum(map(len, part))
    assert np.concatenate(parts).tolist() == whole.tolist()


def test_a_hand_worked_leaf_with_three_persons_too_many():
    """Two households of 4 or more with 11 persons: 6 and 5; the first one has the person that is left over."""
    leaf, size = published([[1, 2, 5, 6]]).each()
    assert (leaf.tolist(), size.tolist()) == ([0, 0, 0, 0], [1, 2, 6, 5])


def test_every_pair_of_persons_is_equally_often_in_one_household():
    """Of four persons in two pairs each of the three matchings has a third: 3000 draws, within five deviations."""
    random, pairs = np.random.Philox(7), published([[2, 2]] * 3000)
    found = put_into_households(np.full(3000, 4), pairs, random).reshape(-1, 4) % 2
    with_first = (found[:, 1:] == found[:, :1]).sum(axis=0)
    assert with_first.sum() == 3000
    assert np.abs(with_first - 1000).max() < 5 * np.sqrt(3000 * 2 / 9)


def test_the_seed_follows_from_the_statement():
    assert seed_of({"a": 1, "b": [2]}) == seed_of({"b": [2], "a": 1})
    assert seed_of({"a": 1}) != seed_of({"a": 2})


def test_a_million_persons_keep_their_sizes():
    rng = np.random.default_rng(1)
    number = rng.poisson(2.0, (20_000, LARGEST))
    leaf, place = np.nonzero(number)
    excess = rng.poisson(1.0, 20_000) * (number[:, -1] > 0)
    last = number[:, -1] * LARGEST + excess
    sizes = HouseholdSizes(leaf, place + 1, number[leaf, place], LARGEST, last)
    persons = number[:, :-1] @ np.arange(1, LARGEST) + last
    found = put_into_households(persons, sizes, np.random.Philox(1))
    made = np.bincount(found)
    assert np.bincount(np.minimum(made, LARGEST))[1:].tolist() == number.sum(axis=0).tolist()
    leaf_of = np.zeros(len(made), dtype=np.int64)
    leaf_of[found] = np.repeat(np.arange(20_000), persons)
    assert (leaf_of[found] == np.repeat(np.arange(20_000), persons)).all()


@pytest.mark.parametrize(
    ("persons", "last", "message"),
    [
        ([5], [0], "the leaf 0 has 5 persons in households by its tables, and 3 by the sizes of its households"),
        ([3], [2], "the leaf 0 has 2 persons in 0 households of 4 or more, which cannot be"),
    ],
)
def test_what_does_not_agree_is_refused(persons, last, message):
    sizes = HouseholdSizes(np.array([0, 0]), np.array([1, 2]), np.array([1, 1]), LARGEST, np.array(last))
    with pytest.raises(ValueError, match=message):
        put_into_households(np.array(persons), sizes, np.random.Philox(1))
