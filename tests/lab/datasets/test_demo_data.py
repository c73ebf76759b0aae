"""The data of the demo: households and commutes."""

import numpy as np
import pyarrow.compute as pc
import pytest
from tallytree.datasets.commutes import commutes
from tallytree.datasets.households import households

import tallytree as tt


def test_households_are_as_many_as_asked_and_every_county_is_listed_once():
    made = households(5_000, n_group_quarters=10, seed=1)
    assert pc.sum(made.households["groups"]).as_py() == 5_000
    path = ["country", "state", "county"]
    assert tt.Hierarchy.from_table(made.households, path).n_leaves == made.households.num_rows == 60
    sizes = np.array(made.people["household_id"].value_counts().field("counts"))
    assert (sizes > 12).sum() == 10
    by_id = {each["values"]: each["counts"] for each in made.people["household_id"].value_counts().to_pylist()}
    assert made.group_quarters.to_pylist() == sorted(name for name, size in by_id.items() if size > 12)
    assert sizes.max() <= 480
    assert len(sizes) < 5_000
    occupied = made.people.group_by([*path, "household_id"]).aggregate([]).group_by(path).aggregate([([], "count_all")])
    joined = occupied.join(made.households, path)
    assert pc.all(pc.less_equal(joined["count_all"], joined["groups"])).as_py()
    assert occupied.num_rows == pc.sum(pc.greater(occupied["count_all"], 0)).as_py()


def test_commutes_are_sparse_and_between_listed_municipalities():
    made = commutes(5_000, seed=1)
    assert made.commutes.num_rows == 5_000
    areas = tt.Hierarchy.from_table(made.municipalities, ["region", "province", "municipality"])
    assert [areas.size(depth) for depth in range(4)] == [1, 3, 12, 80]
    cells = made.commutes.group_by(made.commutes.column_names).aggregate([]).num_rows
    assert cells < 0.25 * 80 * 80
    listed = set(zip(*made.municipalities.to_pydict().values(), strict=True))
    for side in ("origin", "destination"):
        columns = [made.commutes[f"{side}_{name}"].to_pylist() for name in made.municipalities.column_names]
        assert set(zip(*columns, strict=True)) <= listed


@pytest.mark.parametrize("generate", [households, commutes])
def test_data_depends_on_its_seed_alone(generate):
    assert generate(1_000, seed=1) == generate(1_000, seed=1)
    assert generate(1_000, seed=1) != generate(1_000, seed=2)
