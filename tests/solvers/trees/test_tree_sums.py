"""The variance of any sum of nodes equals that of generalised least squares, by dense algebra and by simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.inside import offsets_of
from tallytree.solvers.trees.linear import InSums, combined_variances, sum_variances

NONE = np.empty(0, dtype=np.int64)


def integers(values):
    return np.array(values, dtype=np.int64)


def nothing():
    return InSums(NONE, NONE, NONE, NONE, NONE)


class DenseTree:
    """A tree with `others`, and the dense covariance of everything that was measured.

    An unknown is a node without measured children: a node of the last level, or one of the others.
    """

    def __init__(self, families, others, own):
        self.first_child = [offsets_of(integers(level)) for level in families]
        self.others = [integers(level) for level in others]
        self.own = np.array(own)
        self.sizes = [1, *(int(offsets[-1]) for offsets in self.first_child)]
        last = len(self.sizes) - 1
        rows = np.zeros((self.sizes[-1], self.sizes[-1] + sum(int(level.sum()) for level in self.others)))
        rows[:, : self.sizes[-1]] = np.eye(self.sizes[-1])
        self.rows = [rows]  # per level, which unknowns lie in each node
        self.other_rows = [None] * (last + 1)  # per level, of the others, parent after parent
        place = self.sizes[-1]
        for depth in range(last - 1, -1, -1):
            number = int(self.others[depth].sum())
            alone = np.zeros((number, rows.shape[1]))
            alone[np.arange(number), place + np.arange(number)] = 1
            place += number
            self.other_rows[depth + 1] = alone
            parents = np.repeat(np.arange(self.sizes[depth]), self.others[depth])
            rows = np.add.reduceat(self.rows[0], self.first_child[depth][:-1], axis=0)
            np.add.at(rows, parents, alone)
            self.rows.insert(0, rows)

    def variance(self, inside):
        """cᵀ(BᵀW⁻¹B)⁻¹c; a root without noise is a constraint."""
        measured, weights = [], []
        for depth, rows in enumerate(self.rows):
            for each in (rows, self.other_rows[depth]):
                if each is not None and self.own[depth]:
                    measured.append(each)
                    weights += [1 / self.own[depth]] * len(each)
        b = np.concatenate(measured)
        covariance = np.linalg.inv(b.T @ (np.array(weights)[:, None] * b))
        if not self.own[0]:
            of_root = covariance @ self.rows[0][0]
            covariance -= np.outer(of_root, of_root) / (self.rows[0][0] @ of_root)
        return float(inside @ covariance @ inside)


def drawn(draw, public):
    """A tree of 2 to 4 levels."""
    families, others, size = [], [], 1
    for _ in range(draw(st.integers(1, 3))):
        families.append(draw(st.lists(st.integers(1, 3), min_size=size, max_size=size)))
        others.append(draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
        size = sum(families[-1])
    own = draw(st.lists(st.floats(0.5, 30), min_size=len(families) + 1, max_size=len(families) + 1))
    return DenseTree(families, others, [0.0, *own[1:]] if public else own)


def a_sum(draw, tree):
    """A sum of disjoint nodes and others, and which unknowns lie in it."""
    free = np.ones(tree.sizes[0], dtype=bool)
    inside, unknowns = [], np.zeros(tree.rows[0].shape[1])
    for depth in range(len(tree.sizes)):
        other = (NONE, NONE)
        if depth:
            there = tree.others[depth - 1] * free
            numbers = integers([draw(st.integers(0, int(most))) for most in there])
            starts = offsets_of(tree.others[depth - 1])[:-1]
            for start, number in zip(starts, numbers, strict=True):
                unknowns += tree.other_rows[depth][start : start + number].sum(axis=0)
            other = (np.flatnonzero(numbers), numbers[numbers > 0])
            free = np.repeat(free, np.diff(tree.first_child[depth - 1]))
        taken = np.flatnonzero(free & [draw(st.booleans()) for _ in free])
        unknowns += tree.rows[depth][taken].sum(axis=0)
        free = free & ~np.isin(np.arange(len(free)), taken)
        inside.append(InSums(np.zeros_like(taken), taken, np.zeros_like(other[0]), *other))
    return inside, unknowns


@st.composite
def problems(draw):
    """A tree, a sum and which unknowns lie in it."""
    tree = drawn(draw, draw(st.booleans()))
    return tree, *a_sum(draw, tree)


def both(tree, first, second):
    """Two sums together: entries of both, and of the others how many lie in one of them and how many in both.

    `a_sum` takes the first of the others of a parent, so that of two numbers the smaller is in both sums.
    """
    found = []
    for depth, (one, other) in enumerate(zip(first, second, strict=True)):
        parents = tree.sizes[depth - 1] if depth else 0
        numbers = [np.bincount(each.others_parents, each.others_numbers, parents).astype(int) for each in (one, other)]
        twice, once = np.minimum(*numbers), np.abs(numbers[0] - numbers[1])
        entries = [(np.flatnonzero(each), each[each > 0], times) for each, times in ((once, 1), (twice, 2))]
        others = [np.concatenate(each) for each in zip(*(each[:2] for each in entries), strict=True)]
        times = np.concatenate([np.full(len(each[0]), each[2]) for each in entries])
        nodes = np.concatenate([one.nodes, other.nodes])
        found.append(InSums(np.zeros_like(nodes), nodes, np.zeros_like(others[0]), *others, times))
    return found


@settings(max_examples=100)
@given(st.data())
def test_two_sums_together_have_the_dense_variance(data):
    """They may overlap: a node in both, a node in one and its descendants in the other, others in both."""
    tree = drawn(data.draw, data.draw(st.booleans()))
    (first, one), (second, other) = a_sum(data.draw, tree), a_sum(data.draw, tree)
    (found,) = sum_variances(tree.first_child, tree.own, tree.others, both(tree, first, second), 1)
    assert found == pytest.approx(tree.variance(one + other), rel=1e-9, abs=1e-9)


@settings(max_examples=50)
@given(problems())
def test_the_variance_is_that_of_dense_generalised_least_squares(problem):
    tree, inside, unknowns = problem
    (found,) = sum_variances(tree.first_child, tree.own, tree.others, inside, 1)
    assert found == pytest.approx(tree.variance(unknowns), rel=1e-9, abs=1e-9)


@settings(max_examples=50)
@given(st.data())
def test_single_nodes_have_the_variances_of_the_two_pass_recursion(data):
    tree = drawn(data.draw, data.draw(st.booleans()))
    combined = combined_variances(tree.first_child, tree.own, tree.others)
    for depth, size in enumerate(tree.sizes):
        inside = [nothing() for _ in tree.sizes]
        inside[depth] = InSums(np.arange(size), np.arange(size), NONE, NONE, NONE)
        found = sum_variances(tree.first_child, tree.own, tree.others, inside, size)
        np.testing.assert_allclose(found, combined.nodes[depth], rtol=1e-9, atol=1e-12)


@settings(max_examples=50)
@given(st.data())
def test_all_nodes_of_a_level_are_the_root_exactly(data):
    tree = drawn(data.draw, data.draw(st.booleans()))
    depth = len(tree.sizes) - 1
    inside = [nothing() for _ in tree.sizes]
    inside[depth] = inside[depth]._replace(sums=np.zeros(tree.sizes[-1], np.int64), nodes=np.arange(tree.sizes[-1]))
    for level, numbers in enumerate(tree.others, start=1):
        there = np.flatnonzero(numbers)
        inside[level] = inside[level]._replace(
            others_sums=np.zeros_like(there), others_parents=there, others_numbers=numbers[there]
        )
    (found,) = sum_variances(tree.first_child, tree.own, tree.others, inside, 1)
    assert found == combined_variances(tree.first_child, tree.own, tree.others).nodes[0][0]  # 0 where it is given


def test_a_hand_worked_sum():
    """A public total over three counts with variance 9: two of them are the total less the third, 9·(1 − 1/3) = 6."""
    inside = [nothing(), InSums(integers([0, 0, 1]), integers([0, 1, 2]), NONE, NONE, NONE)]
    found = sum_variances([integers([0, 3])], [0.0, 9.0], [integers([0])], inside, 3)
    np.testing.assert_allclose(found, [6.0, 6.0, 0.0])


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (InSums(integers([0]), integers([3]), NONE, NONE, NONE), r"inside: 3 … 3 at level 1 must lie between 0 and 2"),
        (InSums(integers([5]), integers([0]), NONE, NONE, NONE), r"inside: 5 … 5 at level 1 must lie between 0 and 0"),
        (InSums(NONE, NONE, integers([0]), integers([0]), integers([3])), r"inside: more other children at level 1"),
    ],
)
def test_what_is_not_in_the_tree_is_refused(level, message):
    with pytest.raises(ValueError, match=message):
        sum_variances([integers([0, 3])], [1.0, 1.0], [integers([2])], [nothing(), level], 1)


def test_levels_that_are_missing_are_refused():
    with pytest.raises(ValueError, match="inside: 1 levels and others: 1 must be 2 and 1"):
        sum_variances([integers([0, 3])], [1.0, 1.0], [integers([2])], [nothing()], 1)


@settings(max_examples=50)
@given(problems(), st.data())
def test_nodes_with_weights_have_the_dense_variance(problem, data):
    tree, inside, unknowns = problem
    weighted, unknowns = [], unknowns.astype(float)
    for rows, level in zip(tree.rows, inside, strict=True):
        some = st.lists(st.sampled_from([1.0, -1.0, 0.4, 2.5]), min_size=len(level.nodes), max_size=len(level.nodes))
        weights = np.array(data.draw(some))
        unknowns += (weights - 1) @ rows[level.nodes]
        weighted.append(level._replace(weights=weights))
    (found,) = sum_variances(tree.first_child, tree.own, tree.others, weighted, 1)
    assert found == pytest.approx(tree.variance(unknowns), rel=1e-9, abs=1e-9)
