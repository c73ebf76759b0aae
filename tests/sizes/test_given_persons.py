"""`sizes_given_persons`: what it gives back of ranks, levels that repeat others, and what it refuses."""

from fractions import Fraction

import numpy as np
import pytest

from tallytree.mechanisms import Noise
from tallytree.sizes.given_persons import MeasuredRanks, sizes_given_persons

NOISE = Noise("discrete_laplace", Fraction(1, 100))
PERSONS = [np.array([11]), np.array([11]), np.array([6, 5])]
CHILDREN = [np.array([0, 1]), np.array([0, 2])]


def ranks(*rows):
    return MeasuredRanks(np.array(rows), NOISE)


def levels():
    """K = 2: households of 1, 2, 3 persons, and of 1, 4; nearly without noise."""
    return [ranks([5, 3, 3]), None, ranks([3, 2, 1], [2, 1, 2])]


def test_households_and_excess_by_hand():
    found = sizes_given_persons(levels(), PERSONS, CHILDREN)
    assert [level.households.tolist() for level in found.levels] == [[[2, 3]], [[2, 3]], [[1, 2], [1, 1]]]
    assert [level.excess.tolist() for level in found.levels] == [[3], [3], [1, 2]]
    assert found.mended == 0
    for level in found.levels:
        assert level.std_dev.shape == level.households.shape
        assert (level.households_std_dev < 0.01).all()
        assert (level.last_class_std_dev < 0.01).all()


def test_what_children_cannot_realise_is_mended_and_counted():
    """The parent has two households of 3 persons; children have 4 and 2."""
    persons, children = [np.array([6]), np.array([4, 2])], [np.array([0, 2])]
    given = [ranks([2, 2, 2, 0]), MeasuredRanks(np.full((2, 4), 1), Noise("discrete_laplace", Fraction(10)))]
    found = sizes_given_persons(given, persons, children)
    assert found.mended > 0
    sizes = np.array([1, 2, 3])
    for level, here in zip(found.levels, persons, strict=True):
        assert ((level.households * sizes).sum(axis=1) + level.excess == here).all()
    assert (found.levels[1].households.sum(axis=0) == found.levels[0].households[0]).all()


def test_errors_are_those_of_known_noise():
    """K = 1, a root alone: of T(1) and E, whose sum is known, half of the noise's variance is left."""
    noise = Noise("discrete_laplace", Fraction(10))
    found = sizes_given_persons([MeasuredRanks(np.array([[60, 40]]), noise)], [np.array([100])], []).levels[0]
    assert found.households.tolist() == [[60]]
    assert found.households_std_dev[0] == pytest.approx(np.sqrt(noise.variance / 2 + 0.25))
    assert found.last_class_std_dev[0] == pytest.approx(0, abs=1e-6)  # all persons are in the last class


def test_the_error_of_the_given_persons_is_a_part_of_that_of_households():
    """K = 1, as above: of one person too many, half is in T(1)."""
    noise = Noise("discrete_laplace", Fraction(10))
    given = [MeasuredRanks(np.array([[60, 40]]), noise)], [np.array([100])], []
    found = sizes_given_persons(*given, [np.array([8.0])]).levels[0]
    assert found.households_std_dev[0] == pytest.approx(np.sqrt(noise.variance / 2 + 4.0**2 + 0.25))
    assert found.last_class_std_dev[0] == pytest.approx(np.sqrt(8.0**2 + 0.25))  # all persons are in the last class


def test_intervals_of_households_hold_where_the_given_persons_err():
    """60 leaves of 100 households, 40 draws: standard errors are 1 point."""
    rng = np.random.default_rng(7)
    noise, sd = Noise("discrete_gaussian", Fraction(15)), 30.0
    size = 1 + rng.poisson(1.4, (60, 100))
    true = np.column_stack([*((size >= s).sum(axis=1) for s in range(1, 6)), np.maximum(size - 5, 0).sum(axis=1)])
    held = []
    for _ in range(40):
        persons = np.rint(true.sum(axis=1) + rng.normal(0, sd, 60)).astype(np.int64)
        ranks = [
            MeasuredRanks(np.rint(each + rng.normal(0, 15, each.shape)).astype(np.int64), noise)
            for each in (true.sum(axis=0, keepdims=True), true)
        ]
        errors = [np.array([sd * np.sqrt(60)]), np.full(60, sd)]
        given = ranks, [persons.sum(keepdims=True), persons], [np.array([0, 60])]
        leaves, without = (sizes_given_persons(*given, each).levels[1] for each in (errors, None))
        missed = np.abs(leaves.households.sum(axis=1) - true[:, 0])
        held.append([(missed <= 1.645 * each.households_std_dev).mean() for each in (leaves, without)])
    assert 0.87 < np.mean(held, axis=0)[0] < 0.97
    assert np.mean(held, axis=0)[1] < 0.8  # it is seen where the error of persons is left out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"levels": [None, None, None]}, "levels: they must begin with the root"),
        ({"persons": [np.array([11, 0]), *PERSONS[1:]]}, "levels: they must begin with the root"),
        ({"persons": PERSONS[:2]}, "levels: there are 3, persons for 2 and children for 2; they must agree"),
        ({"persons": [*PERSONS[:2], np.array([12, -1])]}, r"persons\[2\] holds -1; numbers of persons must be ≥ 0"),
        ({"persons": [*PERSONS[:2], np.array([6, 6])]}, r"persons\[2\] do not add up to persons\[1\]"),
        ({"levels": [ranks([5, 3, 3]), None, ranks([3, 2], [2, 1])]}, r"levels\[2\].values has shape \(2, 2\)"),
        ({"levels": [ranks([11]), None, ranks([6], [5])]}, r"levels\[0\].values has shape \(1, 1\)"),
        ({"levels": [ranks([2**53, 2**53, 0]), None, levels()[2]]}, "too much to be added up exactly"),
        ({"levels": [ranks([5, 3, 3]), None, None]}, r"levels\[2\] is None, but it does not repeat"),
        ({"first_child": [np.array([0, 1]), np.array([0, 1])]}, r"first_child\[1\] must give each of 1 nodes a child"),
        ({"first_child": [np.array([0, 1, 1]), CHILDREN[1]]}, r"first_child\[0\] must give each of 1 nodes a child"),
    ],
)
def test_what_does_not_fit_together_is_refused(change, message):
    given = {"levels": levels(), "persons": PERSONS, "first_child": CHILDREN} | change
    with pytest.raises(ValueError, match=message):
        sizes_given_persons(**given)
