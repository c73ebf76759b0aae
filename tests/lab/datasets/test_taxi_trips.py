"""From trips to taxis by number of pickups; and the generated taxis beside the real ones."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import read_boundaries
from tallytree.datasets import kuo
from tallytree.datasets.taxi_trips import taxis_from_trips

maps = pytest.mark.needs("geopandas", "shapely")
AREAS = {"half": ["lower", "lower", "upper"], "neighbourhood": ["a", "b", "c"]}
TRIPS = {
    "medallion": ["t1", "t1", "t1", "t2", "t2", "t3", "t3"],
    "pickup_longitude": [0.5, 0.5, 1.5, 0.5, 0.6, 7.0, None],
    "pickup_latitude": [0.5, 0.6, 0.5, 0.5, 0.2, 0.5, 0.5],
}


@pytest.fixture
def areas():
    return tt.Hierarchy.from_table(pa.table(AREAS), levels=["half", "neighbourhood"])


@pytest.fixture
def boundaries(areas, tmp_path):
    """Three squares side by side, a at longitude 0 to 1."""
    features = [
        {
            "type": "Feature",
            "properties": {"code": name},
            "geometry": {"type": "Polygon", "coordinates": [[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1], [i, 0]]]},
        }
        for i, name in enumerate("abc")
    ]
    (tmp_path / "areas.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return read_boundaries(tmp_path / "areas.geojson", areas, "neighbourhood", code="code")


@maps
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_taxis_are_counted_by_their_pickups_in_each_neighbourhood(areas, boundaries, suffix, tmp_path):
    # t1 has two pickups in a and one in b, t2 has two in a, t3 has none within the areas.
    table = pa.table(TRIPS)
    file = tmp_path / f"trips.{suffix}"
    if suffix == "csv":
        pyarrow.csv.write_csv(table.rename_columns([f" {name}" for name in table.column_names]), file)
    else:
        pq.write_table(table, file)
    assert taxis_from_trips(file, areas, boundaries).to_pylist() == [
        {"half": "lower", "neighbourhood": "a", "size": 2, "groups": 2},
        {"half": "lower", "neighbourhood": "b", "size": 1, "groups": 1},
    ]


@maps
def test_several_files_are_counted_together(areas, boundaries, tmp_path):
    for number in (1, 2):
        pq.write_table(pa.table(TRIPS), tmp_path / f"{number}.parquet")
    found = taxis_from_trips([tmp_path / "1.parquet", tmp_path / "2.parquet"], areas, boundaries)
    assert found["size"].to_pylist() == [4, 2]
    assert found["groups"].to_pylist() == [2, 1]


@maps
def test_a_missing_column_and_no_file_are_named(areas, boundaries, tmp_path):
    pq.write_table(pa.table({"medallion": ["t1"]}), tmp_path / "trips.parquet")
    with pytest.raises(ValueError, match=r"^trips: column 'pickup_longitude' is missing in .*; it has medallion$"):
        taxis_from_trips(tmp_path / "trips.parquet", areas, boundaries)
    with pytest.raises(ValueError, match=r"^trips: no file is given; give at least one$"):
        taxis_from_trips([], areas, boundaries)


def test_generated_neighbourhoods_have_the_taxis_and_pickups_of_the_real_ones(shared_data):
    real = pq.read_table(shared_data / "taxi_2013_manhattan.parquet")
    tables = []
    for rows in (kuo.taxi().rows, real):
        pickups = rows.append_column("pickups", pa.array(rows["size"].to_numpy() * rows["groups"].to_numpy()))
        summed = pickups.group_by(["half", "neighbourhood"]).aggregate([("groups", "sum"), ("pickups", "sum")])
        tables.append(summed.sort_by("neighbourhood").to_pylist())
    assert tables[0] == tables[1]


def test_generated_sizes_spread_as_the_real_ones_do(shared_data):
    """Quantiles of the sizes of all taxis; 15 % is what the laws of 28 neighbourhoods leave."""
    real = pq.read_table(shared_data / "taxi_2013_manhattan.parquet")
    found = []
    for rows in (kuo.taxi(seed=1).rows, real):
        sizes = np.repeat(rows["size"].to_numpy(), rows["groups"].to_numpy())
        found.append([*np.quantile(sizes, [0.25, 0.5, 0.75, 0.9, 0.99]), len(np.unique(sizes))])
    assert found[0] == pytest.approx(found[1], rel=0.15)
