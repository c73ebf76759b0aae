"""Bands: every node below the cut is in one of them, in descent order."""

import logging

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.banded import counted
from tallytree.trees.bands import Band, ForcedCut, all_leaves_below, chosen_cut, descent_order


@given(counted(), st.integers(0, 5), st.integers(1, 9))
@settings(max_examples=40)
def test_bands_have_every_node_once_in_descent_order(data, depth, bands):
    tree, _ = data
    depth = min(depth, len(tree.levels) - 1)
    cut = chosen_cut(tree, lambda depth, nodes: nodes, 1, ForcedCut(depth, bands))
    assert len(cut.parts) == min(bands, tree.size(depth))
    for below in range(depth, len(tree.levels)):
        together = np.concatenate([band.nodes_at(below) for band in cut.bands])
        assert np.array_equal(together, descent_order(tree, below))
        assert np.array_equal(np.sort(together), np.arange(tree.size(below)))
    for number, band in enumerate(cut.bands):
        assert set(cut.band_of(band.nodes)) == {number}


@given(counted(), st.integers(0, 5), st.integers(1, 9))
@settings(max_examples=40)
def test_nodes_of_a_hierarchy_s_bands_are_consecutive_numbers(data, depth, bands):
    tree, _ = data
    if not isinstance(tree, tt.Hierarchy):
        return
    depth = min(depth, len(tree.levels) - 1)
    for band in chosen_cut(tree, lambda depth, nodes: nodes, 1, ForcedCut(depth, bands)).bands:
        for below in range(depth, len(tree.levels)):
            start, stop = band.span(below)
            assert np.array_equal(band.nodes_at(below), np.arange(start, stop))
            if below < len(tree.levels) - 1:
                children = tree.child_counts(below, np.arange(start, stop))
                assert np.array_equal(np.diff(band.first_child(below)), children)
                assert band.first_child(below)[0] == 0


@pytest.fixture
def tree():
    """2 nodes with 3 leaves each, below a root."""
    leaves = {"top": ["a"] * 3 + ["b"] * 3, "leaf": list("uvwxyz")}
    return tt.Hierarchy.from_table(pa.table(leaves), ["top", "leaf"])


@pytest.mark.parametrize(
    ("limit", "depth", "parts"), [(60, 0, [slice(0, 1)]), (59, 1, [slice(0, 1), slice(1, 2)]), (40, 1, None)]
)
def test_the_highest_level_that_fits_is_cut(tree, limit, depth, parts):
    cut = chosen_cut(tree, lambda depth, nodes: np.array([[60], [20, 40]][depth]), limit)
    assert cut.depth == depth
    assert list(cut.parts) == (parts or [slice(0, 1), slice(1, 2)])


def test_bands_are_as_large_as_fit(tree):
    cut = chosen_cut(tree, lambda depth, nodes: np.array([[60], [20, 40]][depth]), 61, None)
    assert list(cut.parts) == [slice(0, 1)]


def test_what_fits_nowhere_is_cut_where_its_largest_part_is_smallest(tree, caplog):
    with caplog.at_level(logging.DEBUG):
        cut = chosen_cut(tree, lambda depth, nodes: np.array([[60], [20, 40]][depth]), 5)
    assert cut.depth == 1
    assert caplog.messages == []  # what the parts weigh may be private


def test_leaves_below_are_counted_with_and_without_records(tree):
    assert [all_leaves_below(tree, depth).tolist() for depth in range(3)] == [[6], [3, 3], [1] * 6]


def test_nodes_of_a_product_s_bands_are_not_consecutive_numbers(tree):
    product = tt.Product({"o": tree, "d": tree}, order=["d", "o"] * 2)
    with pytest.raises(TypeError, match="consecutive numbers in a Hierarchy only"):
        Band(product, 1, np.arange(1)).span(1)
