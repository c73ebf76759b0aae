"""Tables with all cells: as long as the tree says, with the published numbers in their places."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tallytree as tt
from helpers import explored, releases
from tallytree.release import dense


@pytest.fixture(scope="module")
def areas():
    return tt.Hierarchy.from_table(
        pa.table({"state": ["A", "A", "A", "B"], "county": ["x", "y", "z", "x"]}), ["state", "county"]
    )


@pytest.fixture(scope="module")
def sizes():
    tree = tt.Hierarchy.from_table(releases.PUBLIC, ["state", "county"])
    return releases.group_sizes(tree, mechanism=tt.sizes.Joint())


def test_flows_list_every_pair_and_keep_their_numbers(areas):
    release = releases.flows(areas)
    for depth, level in enumerate(release.levels):
        sparse, full = release.table(level), release.table(level, dense=True)
        assert full.num_rows == release.tree.size(depth)
        assert full.schema == sparse.schema
        assert pc.sum(full["count"]) == pc.sum(sparse["count"])
        positive = full.filter(pc.is_valid(full["std_dev"])) if "std_dev" in full.column_names else None
        assert positive is None or positive.equals(sparse)


def test_group_sizes_list_every_size_up_to_k_of_every_node(sizes):
    full, sparse = sizes.table("county", dense=True), sizes.table("county")
    assert full.num_rows == 4 * 21
    assert full["size"].to_pylist() == [*range(21)] * 4
    assert (
        full.filter(pc.greater(full["groups"], 0))
        .select(["state", "county", "size", "groups"])
        .equals(sparse.select(["state", "county", "size", "groups"]))
    )
    groups = full["groups"].to_numpy().reshape(4, 21)
    assert (full["tail_count"].to_numpy().reshape(4, 21) == np.cumsum(groups[:, ::-1], axis=1)[:, ::-1]).all()
    assert full["tail_std_dev"].null_count == full.num_rows - sparse.num_rows


def test_tables_list_every_cell(areas):
    product = tt.Product({"area": areas, "sex": tt.Hierarchy.from_values("sex", ["f", "m", "x"])})
    records = areas.leaf_table().take(pa.array([0] * 30 + [3] * 9))
    records = records.append_column("sex", pa.array(["f"] * 39))
    release = tt.release_tables(
        records, product, tt.Budget(epsilon=1), neighboring="add_remove", tables=[("county", "sex"), ("sex",)]
    )
    assert release.table("county", "sex", dense=True).equals(release.table("county", "sex"))
    thin = release.with_tables(
        {
            level: tt.release.level_tables.PlainTable(release.table(*names).drop_columns("quality").slice(1, 1))
            for level, names in zip(release.levels, release.tables, strict=True)
        },
        release.statement,
    )
    full = thin.table("county", "sex", dense=True)
    assert full.num_rows == 12
    assert full["count"].to_pylist()[1] == thin.table("county", "sex")["count"][0].as_py()
    assert full["std_dev"].null_count == 11


def test_intervals_and_categories_can_be_had_too(areas):
    release = releases.counts(areas)
    made = release.table("county", alpha=0.1, dense=True, dictionaries=True)
    assert {"ci_lower", "ci_upper"} <= {*made.column_names}
    assert pa.types.is_dictionary(made.schema.field("county").type)


def test_too_many_cells_are_refused_with_the_remedy(sizes, monkeypatch):
    monkeypatch.setattr(dense, "MOST_CELLS", 83)
    with pytest.raises(ValueError, match=r"dense: the table 'county' has 84 cells, more than 83; use dense=False"):
        sizes.table("county", dense=True)


def test_people_by_their_number_of_records_have_no_cells_to_list():
    people = explored.contributions()
    with pytest.raises(ValueError, match="dense: people by their number of records have no tree"):
        people.table(people.levels[0], dense=True)


@pytest.mark.needs("polars")
def test_polars_has_the_same_rows(sizes):
    frame = sizes.to_polars("county", dense=True)
    assert frame.shape == (84, len(sizes.table("county").column_names))
    assert frame["groups"].sum() == pc.sum(sizes.table("county")["groups"]).as_py()


def test_to_polars_names_what_is_missing(sizes, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "polars" else found(name, *a))
    with pytest.raises(ModuleNotFoundError, match="to_polars needs polars: pip install polars"):
        sizes.to_polars("county")
