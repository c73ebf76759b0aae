"""Neighboring inputs: what counts as one, and every one of them."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.lab.audit.inputs import Neighborhood, counts_inputs, sizes_inputs
from tallytree.sizes import SizesDomain

RELATIONS = ("add_remove", "change_one")
AREAS = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "B"], "c": ["x", "y", "x"]}), ["s", "c"])
DOMAIN = SizesDomain.from_leaves(AREAS, np.array([2, 0, 1]), 0, 3)
PRIVATE = SizesDomain.from_leaves(AREAS, np.array([2, 0, 1]), 1, 3, "none")


def is_neighbor(neighborhood, before, after):
    try:
        neighborhood.check(before, after)
    except ValueError:
        return False
    return True


NEIGHBORHOODS = [
    *(Neighborhood(relation, m, z) for relation in RELATIONS for m in (1, 2, 3) for z in (1, 2, 3)),
    *(Neighborhood("change_one", m, same_records=True) for m in (1, 2)),
    *(Neighborhood(relation, m, distinct=True) for relation in RELATIONS for m in (1, 2, 3)),
    *(Neighborhood(relation, m, z, groups=2) for relation in RELATIONS for m in (1, 2) for z in (1, 2)),
]


@pytest.mark.parametrize("neighborhood", NEIGHBORHOODS, ids=str)
def test_the_enumeration_has_exactly_the_neighbors_that_pass_the_check(neighborhood):
    before = np.array([1, 0, 2])
    listed = [tuple(after) for after in neighborhood.of(before).tolist()]
    everything = itertools.product(range(12), repeat=3)
    expected = {after for after in everything if is_neighbor(neighborhood, before, np.array(after))}
    if neighborhood.relation == "add_remove":
        # Adding is the mirror image of removing, so only removals are listed.
        expected = {after for after in expected if sum(after) < 3}
    assert set(listed) == expected
    assert len(listed) == len(expected)


def test_a_record_of_quantity_z_goes_to_one_group():
    two = Neighborhood("add_remove", 1, 2)
    assert is_neighbor(two, np.array([1, 1]), np.array([3, 1]))
    assert not is_neighbor(two, np.array([1, 1]), np.array([2, 2]))
    assert is_neighbor(Neighborhood("add_remove", 2, 2), np.array([1, 1]), np.array([2, 2]))
    assert is_neighbor(Neighborhood("change_one", 1, 2), np.array([1, 2]), np.array([3, 0]))


def test_a_data_set_without_the_public_number_of_groups_has_no_neighbors():
    assert len(Neighborhood("change_one", 1, groups=2).of(np.array([1, 1, 1]))) == 0


@pytest.mark.parametrize(
    ("after", "neighborhood", "message"),
    [
        ([2, 1], Neighborhood("add_remove"), "neighbor: it equals data"),
        (
            [4, 1],
            Neighborhood("add_remove"),
            "neighbor: it has 2 records more and 0 fewer than data, but one person has at most max_contributions=1",
        ),
        (
            [7, 2],
            Neighborhood("add_remove", 3, 2),
            "neighbor: it has 6 members more and 0 fewer than data, which takes 4 records of at most max_quantity=2, "
            "but one person has at most max_contributions=3",
        ),
        ([3, 0], Neighborhood("add_remove"), 'under "add_remove" one person is added or removed, not both'),
        ([3, 1], Neighborhood("change_one", same_records=True), "the total is public: move a record"),
        ([0, 4], Neighborhood("change_one", 2), "3 records more and 2 fewer"),
        (
            [2, 0],
            Neighborhood("add_remove", groups=2),
            "neighbor: it has 1 groups with members, but the tree says that there are 2, and publishes it; keep to "
            'that number, or audit a SizesDomain with invariants="none"',
        ),
        (
            [2, 2],
            Neighborhood("add_remove", groups=3),
            "data: it has 2 groups with members, but the tree says .* are 3",
        ),
    ],
)
def test_inputs_that_are_no_neighbors_are_refused(after, neighborhood, message):
    with pytest.raises(ValueError, match=message):
        neighborhood.check(np.array([2, 1]), np.array(after))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([1, 2], ValueError, "data: 2 counts were given, but the tree has 3 leaves"),
        ([1, 2, -1], ValueError, "data: -1 must be at least 0"),
        ([1, 2, 0.5], TypeError, "data: an array of float64 .* must be a list of integers"),
        ([[1, 2, 3]], TypeError, "data: .* must be a list of integers"),
    ],
)
def test_counts_that_do_not_fit_the_tree_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        counts_inputs(AREAS).parse(given, "data")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([[1, 2], []], ValueError, "data: it lists 2 leaves, but the hierarchy has 3"),
        ([[1, 2], [], [1, 1]], ValueError, "data: leaf 2 has 2 sizes, but 1 groups, whose number is public"),
        ([[1, "x"], [], [1]], TypeError, r"data\[0\]: .* must be a list of integers"),
        (7, TypeError, "data: 7 must be a list with the list of group sizes of every leaf"),
    ],
)
def test_sizes_that_do_not_fit_the_domain_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        sizes_inputs(DOMAIN).parse(given, "data")


def test_sizes_that_do_not_fit_the_places_of_private_groups_are_refused():
    inputs = sizes_inputs(PRIVATE, np.array([2, 0, 1]))
    with pytest.raises(ValueError, match=r"neighbor: leaf 0 has 1 sizes, but 2 groups; .*has 0"):
        inputs.parse([[1], [], [1]], "neighbor")
    with pytest.raises(ValueError, match=r"groups_per_leaf: .*private, so say how many"):
        sizes_inputs(PRIVATE)


def test_a_private_group_without_members_is_not_there():
    inputs = sizes_inputs(PRIVATE, np.array([2, 0, 1]))
    true = inputs.tabulate(inputs.parse([[0, 9], [], [1]], "data"))
    every = np.array([0, 1, 2])
    assert true.cells("c", every, "histogram")[0].tolist() == [0, 0, 1, 0, 0, 0, 1, 0, 0]
    assert true.cells("c", every, "tail_counts")[0].tolist() == [1, 1, 1, 0, 0, 0, 1, 0, 0]
    public = sizes_inputs(DOMAIN)
    true = public.tabulate(public.parse([[0, 9], [], [1]], "data"))
    assert true.cells("c", np.array([0]), "histogram")[0].tolist() == [1, 0, 0, 1]


def test_large_inputs_are_refused():
    towns = tt.Hierarchy.from_table(pa.table({"town": [str(i) for i in range(200)]}), ["town"])
    with pytest.raises(ValueError, match="tree: 40,000 leaves are not between 1 and 10,000"):
        counts_inputs(tt.Product({"origin": towns, "destination": towns}, order=["origin", "destination"]))
    with pytest.raises(ValueError, match="tree: 0 groups"):
        sizes_inputs(SizesDomain.from_leaves(AREAS, np.array([0, 0, 0]), 0, 3))


def test_sizes_are_clamped_before_they_are_measured():
    inputs = sizes_inputs(DOMAIN)
    true = inputs.tabulate(inputs.parse([[1, 9], [], [2]], "data"))
    assert true.cells("c", np.array([0, 2]), "sorted_sizes")[0].tolist() == [1, 3, 2]
