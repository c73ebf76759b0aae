"""The six synthetic data sets of Boninsegna and Silvestri: the paper's own numbers, and its tables row for row."""

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import tallytree as tt
from tallytree.datasets import boninsegna

TABLE_1 = {
    ("binary", "complete"): (1_051_271, 65_536),
    ("binary", "dense"): (734_688, 32_768),
    ("binary", "sparse"): (23_302, 655),
    ("random", "complete"): (2_019_580, 189_225),
    ("random", "dense"): (1_003_943, 94_612),  # printed as 95,612, which is no half of 435², nor gives the users
    ("random", "sparse"): (67_840, 1_892),
}


@cache
def data(partition, density):
    return boninsegna.od_flows(partition, density)


@pytest.mark.parametrize(("name", "numbers"), TABLE_1.items())
def test_users_and_pairs_are_those_of_table_1(name, numbers):
    assert (data(*name).n_trips, data(*name).n_pairs) == numbers


@pytest.mark.shared_data
@pytest.mark.parametrize("partition", ["binary", "random"])
@pytest.mark.parametrize("density", ["complete", "sparse"])
def test_rows_are_the_papers(shared_data, partition, density):
    theirs = pa.parquet.read_table(shared_data / f"od_{partition}_{density}.parquet")
    ours = data(partition, density)
    assert ours.flows.cast(theirs.schema).equals(theirs)
    areas = pa.parquet.read_table(shared_data / f"od_{partition}_areas.parquet")
    assert ours.areas.cast(areas.schema).equals(areas)


@pytest.mark.parametrize(
    ("partition", "sizes"), [("binary", [2, 4, 8, 16, 32, 64, 128, 256]), ("random", [3, 13, 74, 435])]
)
def test_areas_make_a_hierarchy(partition, sizes):
    tree = tt.Hierarchy.from_table(data(partition, "sparse").areas, data(partition, "sparse").levels)
    assert [tree.size(depth) for depth in range(1, len(tree.levels))] == sizes


def test_another_seed_gives_other_areas_divided_into_2_to_10():
    other = boninsegna.od_flows("random", "sparse", seed=7)
    tree = tt.Hierarchy.from_table(other.areas, other.levels)
    families = np.concatenate([np.diff(first) for first in tree.first_child])
    assert families.min() >= 2
    assert families.max() <= 10
    assert other.areas.num_rows != 435
    assert other.flows.equals(boninsegna.od_flows("random", "sparse", seed=7).flows)


@pytest.mark.parametrize("partition", ["binary", "random"])
def test_pairs_are_distinct_and_flows_positive_with_the_stated_largest(partition):
    flows = data(partition, "dense").flows
    assert flows.group_by([c for c in flows.column_names if c != "count"]).aggregate([]).num_rows == flows.num_rows
    counts = flows["count"].to_numpy()
    assert (counts.min(), counts.max()) == (1, boninsegna.MAX_FLOW)


def test_flows_can_be_released():
    small = data("random", "sparse")
    areas = tt.Hierarchy.from_table(small.areas, small.levels)
    release = tt.release_flows(
        small.flows,
        origins=areas,
        destinations=areas,
        origin=small.origin,
        destination=small.destination,
        count="count",
        budget=tt.Budget(epsilon=1.0, delta=1e-8),
        neighboring="change_one",
        seed=1,
    )
    assert release.table("all")["count"].to_pylist() == [small.n_trips]
    assert release.levels[1:3] == ("destination_level1", "origin_level1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ternary", "sparse"), "partition: 'ternary' is not known"),
        (("binary", "full"), "density: 'full' is not known"),
    ],
)
def test_unknown_names_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        boninsegna.od_flows(*arguments)
