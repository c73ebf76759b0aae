"""The tables that specs of these tests name."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Public and private tables, beside which the tests write their specs."""
    place = tmp_path_factory.mktemp("spec")
    areas = {"state": ["A", "A", "B"], "county": ["x", "y", "x"]}
    pq.write_table(pa.table(areas), place / "areas.parquet")
    pq.write_table(pa.table({**areas, "groups": [2, 2, 1]}), place / "homes.parquet")
    pq.write_table(pa.table({**areas, "home": [1, 2, 3]}), place / "people.parquet")
    pq.write_table(
        pa.table({"o_state": ["A"], "o_county": ["x"], "d_state": ["B"], "d_county": ["x"]}), place / "trips.parquet"
    )
    return place
