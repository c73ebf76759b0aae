"""Neighbouring inputs: what counts as one, and every one of them."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.audit.inputs import check_neighbors, counts_inputs, neighbors, sizes_inputs
from tallytree.sizes import SizesDomain

AREAS = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "B"], "c": ["x", "y", "x"]}), ["s", "c"])
DOMAIN = SizesDomain.from_leaves(AREAS, np.array([2, 0, 1]), 0, 3)


def is_neighbor(before, after, relation, m, total_is_public):
    try:
        check_neighbors(before, after, relation, m, total_is_public=total_is_public)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("relation", ["add_remove", "change_one"])
def test_the_enumeration_has_exactly_the_neighbors_that_pass_the_check(relation, m, public):
    if relation == "change_one":
        before = np.array([1, 0, 2])
    else:
        before, public = np.array([1, 0, 2]), False
    listed = {tuple(after) for after in neighbors(before, relation, m, total_is_public=public)}
    everything = itertools.product(range(7), repeat=3)
    expected = {after for after in everything if is_neighbor(before, np.array(after), relation, m, public)}
    if relation == "add_remove":
        # Adding is the mirror image of removing, so only removals are listed.
        expected = {after for after in expected if sum(after) < 3}
    assert listed == expected


@pytest.mark.parametrize(
    ("after", "relation", "m", "public", "message"),
    [
        ([2, 1], "add_remove", 1, False, "neighbor: it equals data"),
        ([4, 1], "add_remove", 1, False, "2 records more and 0 fewer than data, but one person has at most .*=1"),
        ([3, 0], "add_remove", 1, False, 'under "add_remove" one person is added or removed, not both'),
        ([3, 1], "change_one", 1, True, "the total is public: move a record"),
        ([0, 4], "change_one", 2, False, "3 records more and 2 fewer"),
    ],
)
def test_inputs_that_are_no_neighbors_are_refused(after, relation, m, public, message):
    with pytest.raises(ValueError, match=message):
        check_neighbors(np.array([2, 1]), np.array(after), relation, m, total_is_public=public)


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
