"""Noisy measurements read from a release."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import SizesArguments, make_release, plan_group_sizes
from helpers.reconciled import ROWS
from tallytree.hierarchy import Hierarchy
from tallytree.mechanisms import Measurement, Noise
from tallytree.release.view.recorded_measurements import RecordedMeasurements
from tallytree.release.view.sides import node_numbers

# --- The recorded measurements ---


@settings(max_examples=200)
@given(st.data())
def test_recorded_values_are_found_in_any_chunks(data):
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=12))
    nodes = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=20)), dtype=np.int64)
    rows = [[100 * node + cell for cell in range(length)] for node, length in enumerate(lengths)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = np.array([cell for row in rows for cell in row], dtype=np.int64)
    whole = Measurement("a", "histogram", np.arange(len(lengths)), values, offsets, Noise("discrete_laplace", 3))
    found = RecordedMeasurements({"a": whole}).measure("a", nodes, "histogram")
    assert found.nodes.tolist() == nodes.tolist()
    cells = [found.values[begin:end].tolist() for begin, end in itertools.pairwise(found.offsets)]
    assert cells == [rows[node] for node in nodes]


def test_consecutive_nodes_are_not_copied():
    values = np.arange(10)
    whole = Measurement("a", "histogram", np.arange(5), values, np.arange(0, 11, 2), Noise("discrete_laplace", 3))
    found = RecordedMeasurements({"a": whole}).measure("a", np.array([1, 2, 3]), "histogram")
    assert np.shares_memory(found.values, values)
    assert found.values.tolist() == [2, 3, 4, 5, 6, 7]
    assert found.offsets.tolist() == [0, 2, 4, 6]


def test_a_part_of_a_node_is_found_and_no_other_cells_are():
    values = np.arange(10)
    whole = Measurement("a", "histogram", np.arange(3), values, np.array([0, 4, 4, 10]), Noise("discrete_laplace", 3))
    recorded = RecordedMeasurements({"a": whole})
    part = recorded.measure("a", np.array([2]), "histogram", (1, 4))
    assert (part.values.tolist(), part.offsets.tolist(), part.first_cell) == ([5, 6, 7], [0, 3], 1)
    for nodes, cells in (([2], (0, 7)), ([2], (-1, 2)), ([0], (4, 5)), ([1], (0, 1)), ([2], (3, 3))):
        with pytest.raises(ValueError, match=r"cells: .* must be a part of 0 … \d that is not empty"):
            recorded.measure("a", np.array(nodes), "histogram", cells)
    with pytest.raises(ValueError, match="a part is of one node, and nodes has 2"):
        recorded.measure("a", np.array([0, 2]), "histogram", (0, 1))


def test_what_was_not_recorded_is_refused():
    whole = Measurement("a", "histogram", np.arange(2), np.arange(2), np.arange(3), Noise("discrete_laplace", 3))
    recorded = RecordedMeasurements({"a": whole})
    for level, statistic in (("b", "histogram"), ("a", "tail_counts")):
        with pytest.raises(ValueError, match=f"measure: '{statistic}' at level '{level}' is not among the recorded "
                           "measurements, which are 'histogram' at 'a'; ask for those"):  # fmt: skip
            recorded.measure(level, np.array([0]), statistic)
    for nodes in ([2], [-1]):
        with pytest.raises(ValueError, match=r"nodes: .* must lie between 0 and 1"):
            recorded.measure("a", np.array(nodes), "histogram")


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("ABé,"), st.sampled_from("xyz")), min_size=1, unique=True), st.data())
def test_nodes_are_found_by_their_paths(leaves, data):
    names = ["node", "row"]  # as awkward as names can be
    tree = Hierarchy.from_table(pa.table(dict(zip(names, zip(*leaves, strict=True), strict=True))), names)
    rows = data.draw(st.lists(st.tuples(st.sampled_from("ABé,"), st.sampled_from("xyz")), min_size=1))
    paths = pa.table(
        {name: pa.array(column, pa.large_string()) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    )
    known = [(leaf["node"], leaf["row"]) for leaf in tree.leaf_table().to_pylist()]
    expected = [known.index(row) if row in known else -1 for row in rows]
    assert node_numbers(tree, len(tree.levels) - 1, paths, len(rows)).tolist() == expected


def test_a_released_job_says_whether_it_keeps_public_numbers(areas):
    given = {"neighboring": "add_remove", "size": "n", "groups": "households"}
    job = plan_group_sizes(SizesArguments(ROWS, areas, tt.Budget(epsilon=1), **given))
    assert "public_groups_kept" not in job.statement
    assert make_release(job).statement["public_groups_kept"] is True
    json.dumps(make_release(job).statement)
