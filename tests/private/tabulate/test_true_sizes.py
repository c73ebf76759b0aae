"""Statistics of group sizes against what a list of all groups says."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import TrueSizes
from tallytree.sizes import SizesDomain

AREAS = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "B", "B", "B"], "c": list("vwxyz")}), ["s", "c"])
LARGEST = 4
LEAVES = {"all": [0] * 5, "s": [0, 0, 1, 1, 1], "c": list(range(5))}
"""Per level, the node of each leaf."""


def levels_of(groups, invariants, smallest):
    leaves = np.array([leaf for leaf, _ in groups], dtype=np.int64)
    sizes = np.array([size for _, size in groups], dtype=np.int64)
    domain = SizesDomain.from_leaves(AREAS, np.bincount(leaves, minlength=5), smallest, LARGEST, invariants)
    ones = np.ones(len(groups), dtype=np.int64)
    return TrueSizes(AREAS, leaves, sizes, ones, domain.groups, smallest, LARGEST)


def expected(groups, level, statistic, node, first, smallest):
    here = [size for leaf, size in groups if LEAVES[level][leaf] == node]
    if statistic == "histogram":
        return [here.count(s) for s in range(smallest, LARGEST + 1)]
    if statistic == "tail_counts":
        return [sum(size >= s for size in here) for s in range(first, LARGEST + 1)]
    if statistic == "sorted_sizes":
        return sorted(here)
    places = [(size, LEAVES[level][leaf]) for leaf, size in groups]
    return [sum(place >= (s, node) for place in places) for s in range(smallest, LARGEST + 1)]


@settings(max_examples=150)
@given(st.data(), st.sampled_from(["groups", "total", "none"]), st.sampled_from(sorted(LEAVES)))
def test_every_cell_counts_the_groups_that_it_says(data, invariants, level):
    smallest = data.draw(st.integers(0 if invariants == "groups" else 1, 2))
    groups = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(smallest, LARGEST)), max_size=12))
    true = levels_of(groups, invariants, smallest)
    public = invariants == "groups" or (invariants == "total" and level == "all")
    n = AREAS.size(AREAS.levels.index(level))
    nodes = np.array(data.draw(st.permutations(range(n))), dtype=np.int64)[: data.draw(st.integers(1, n))]
    statistics = ["histogram", "tail_counts", "chain_tail_counts", *(["sorted_sizes"] if public else [])]
    for statistic in statistics:
        values, offsets, numbers = true.cells(level, nodes, statistic)
        whole, where, _ = true.cells(level, np.arange(n), statistic)
        for i, node in enumerate(nodes.tolist()):
            cells = slice(offsets[i], offsets[i + 1])
            first = smallest + 1 if public else smallest
            assert values[cells].tolist() == expected(groups, level, statistic, node, first, smallest)
            assert values[cells].tolist() == whole[where[node] : where[node + 1]].tolist()
        assert len(set(numbers.tolist())) == len(numbers), "two cells have one address"


def test_a_cell_has_the_same_address_in_every_chunk():
    true = levels_of([(0, 1), (3, 2)], "none", 1)
    for statistic in ("histogram", "tail_counts", "chain_tail_counts"):
        whole = true.cells("c", np.arange(5), statistic)[2]
        parts = [true.cells("c", np.array([node]), statistic)[2] for node in range(5)]
        assert np.concatenate(parts).tolist() == whole.tolist()


def test_private_numbers_of_groups_are_in_no_statistic_but_tails():
    true = levels_of([(0, 1), (3, 2)], "none", 1)
    with pytest.raises(ValueError, match="'sorted_sizes' of 'c' would show the private numbers of groups"):
        true.cells("c", np.arange(5), "sorted_sizes")
    with pytest.raises(ValueError, match="'counts' is not a statistic of group sizes"):
        true.cells("c", np.arange(5), "counts")


@settings(max_examples=100)
@given(st.data(), st.sampled_from(["groups", "total", "none"]), st.sampled_from(sorted(LEAVES)))
def test_sizes_clamped_to_a_smaller_k_are_those_of_a_list_that_was_clamped(data, invariants, level):
    smallest = data.draw(st.integers(0 if invariants == "groups" else 1, 2))
    groups = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(smallest, LARGEST)), max_size=12))
    largest = data.draw(st.integers(smallest + 1, LARGEST))
    clamped = levels_of(groups, invariants, smallest).clamped(largest)
    cut = levels_of([(leaf, min(size, largest)) for leaf, size in groups], invariants, smallest)
    nodes = np.arange(AREAS.size(AREAS.levels.index(level)))
    for statistic in ("histogram", "tail_counts", "chain_tail_counts"):
        values, offsets, _ = clamped.cells(level, nodes, statistic)
        whole, where, _ = cut.cells(level, nodes, statistic)
        for node in nodes:  # the cells of sizes above K are 0, and are not there
            kept = values[offsets[node] : offsets[node + 1]]
            expected_cells = whole[where[node] : where[node + 1]]
            assert kept.tolist() == expected_cells[: len(kept)].tolist()
            assert len(expected_cells) - len(kept) == LARGEST - largest
    root = clamped.largest_size()
    assert root.cells("all", np.array([0]), "largest_size")[0].tolist() == [
        max((min(size, largest) for _, size in groups), default=smallest)
    ]
