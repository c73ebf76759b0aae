"""Maps of a report: of which tables, and what is said of areas without a shape."""

import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.release.view.release_view import ReleaseView

pytestmark = pytest.mark.needs("geopandas", "shapely")


def test_a_table_of_areas_of_an_attribute_has_a_map_with_its_own_numbers(tmp_path):
    """The columns have the attribute's name before the level's."""
    import geopandas
    import shapely

    from tallytree.release.view.sides import hierarchies_by_level
    from tallytree.views.boundaries import boundaries_of
    from tallytree.views.report.numbers import number_pictures

    labels = ["x", "other", "y"]
    shapes = geopandas.GeoDataFrame(
        {"zone": ["y", "x"]}, geometry=[shapely.box(i, 4, i + 1, 5) for i in (0, 1)], crs=4326
    )
    shapes.to_file(tmp_path / "zones.geojson", driver="GeoJSON")
    zones = {side: tt.Hierarchy.from_values("zone", labels) for side in ("origin", "end")}
    rows = pa.table({"origin_zone": ["x"] * 60, "end_zone": ["x", "y", "y", "other"] * 15})
    made = tt.release_tables(
        rows, tt.Product(zones), tt.Budget(epsilon=5), neighboring="add_remove", seed=1,
        tables=[("end_zone",), ("origin_zone", "end_zone"), ()],
    )  # fmt: skip
    given = boundaries_of([f"zone={tmp_path / 'zones.geojson'}"], hierarchies_by_level(made.tree))
    (drawn,) = [each for each in number_pictures(ReleaseView(made), given) if each.title.startswith("Map: ")]
    count = dict(zip(labels, made.table("end_zone")["count"].to_pylist(), strict=True))
    assert drawn.title == f"Map: records by zone. Without a shape: other {count['other']}"
    assert {row[0]: row[1] for row in drawn.grid.rows} == {label: str(number) for label, number in count.items()}
