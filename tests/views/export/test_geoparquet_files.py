"""GeoParquet, read back by geopandas, and what is refused."""

import json

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import export

pytestmark = pytest.mark.needs("geopandas", "shapely")


@pytest.fixture(scope="session")
def towns(made, tmp_path_factory):
    """A GeoJSON file with a square for each town, in another order than the hierarchy's."""
    import geopandas
    import shapely

    labels = made["counts"].table("town")["town"].to_pylist()
    squares = [shapely.box(i, 40, i + 1, 41) for i in range(len(labels))]
    frame = geopandas.GeoDataFrame({"town": labels}, geometry=squares, crs="EPSG:4326")
    path = tmp_path_factory.mktemp("maps") / "towns.geojson"
    frame.iloc[::-1].to_file(path, driver="GeoJSON")
    return path


def test_counts_have_a_row_and_a_shape_for_each_area(made, towns, tmp_path):
    import geopandas
    import shapely

    release = made["counts"]
    exported = export(release, "geoparquet", tmp_path / "out", boundaries={"town": towns}, alpha=0.1)
    assert (list(exported.tables), exported.left_out) == (["re gi/on%", "town"], ("all",))
    frame = geopandas.read_parquet(tmp_path / "out/town.parquet")
    expected = release.table("town", alpha=0.1)
    assert frame.drop(columns="geometry").to_dict("list") == expected.to_pydict()
    assert frame.crs.to_epsg() == 4326
    # Square i is that of the town that is i-th in the hierarchy.
    assert frame.bounds["minx"].tolist() == list(range(len(frame)))
    regions = geopandas.read_parquet(tmp_path / "out/re_gi_on_.parquet")  # the shapes above follow from those below
    assert shapely.area(regions.geometry.to_numpy()).sum() == pytest.approx(len(frame))
    package = json.loads((tmp_path / "out/datapackage.json").read_text("utf-8"))
    assert package["resources"][-1]["schema"]["fields"][-1]["name"] == "geometry"


@pytest.mark.parametrize(("kind", "name", "file"), [("sizes", "town", "town"), ("tables", "town.sex", "town.sex")])
def test_several_rows_of_an_area_are_lists_beside_one_shape(made, towns, tmp_path, kind, name, file):
    import geopandas

    export(made[kind], "geoparquet", tmp_path / "out", tables=[name], boundaries={"town": towns})
    frame = geopandas.read_parquet(tmp_path / f"out/{file}.parquet")
    assert len(frame) == 19
    expected = made[kind].table(*name.split("."))
    lists = [column for column in frame.columns if column not in ("re gi/on%", "town", "geometry")]
    long = frame.drop(columns="geometry").explode(lists).dropna()
    # Of tables the second attribute is exploded too, so the columns are those of the published table.
    assert {column: long[column].tolist() for column in expected.column_names} == expected.to_pydict()


def test_flows_are_lines(made, towns, tmp_path):
    import geopandas

    # The hierarchies on both sides are the same, so one file is for both.
    exported = export(made["flows"], "geoparquet", tmp_path / "out", boundaries={"town": towns})
    name = made["flows"].levels[-1]
    assert name in exported.tables
    (file,) = (tmp_path / "out").glob(f"{name}.parquet")
    frame = geopandas.read_parquet(file)
    expected = made["flows"].table(name)
    assert frame.drop(columns="geometry").to_dict("list") == expected.to_pydict()
    towns_in_order = made["counts"].table("town")["town"].to_pylist()
    assert {*frame.geometry.geom_type} == {"LineString", "Point"}  # a point where both ends are one town
    ends = [list(expected.column(column).to_pylist()) for column in ("town1", "town2")]
    from_shapes = [[towns_in_order[int(shape.coords[place][0])] for shape in frame.geometry] for place in (0, -1)]
    assert from_shapes == ends


def test_tables_without_boundaries_are_refused_where_they_are_named(made, towns, tmp_path):
    with pytest.raises(ValueError, match="boundaries: to='geoparquet' needs them: give LEVEL=FILE"):
        export(made["counts"], "geoparquet", tmp_path / "out")
    with pytest.raises(ValueError, match=r"boundaries: .* given, but the areas of 'all' have none"):
        export(made["counts"], "geoparquet", tmp_path / "out", tables=["all", "town"], boundaries={"town": towns})
    with pytest.raises(ValueError, match="boundaries: they are for to='geoparquet', not for 'csv'"):
        export(made["counts"], "csv", tmp_path / "out", boundaries={"town": towns})
    with pytest.raises(ValueError, match="boundaries: 'city' is not one of the release's levels"):
        export(made["counts"], "geoparquet", tmp_path / "out", boundaries={"city": towns})
    assert list(tmp_path.iterdir()) == []


def test_tables_over_pairs_of_areas_have_lines_as_flows_have(tmp_path):
    import geopandas
    import shapely

    areas = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "z"]})
    squares = [shapely.box(i, 40, i + 1, 41) for i in range(3)]
    shapes = geopandas.GeoDataFrame({"county": ["x", "y", "z"]}, geometry=squares, crs="EPSG:4326")
    shapes.to_file(tmp_path / "counties.geojson", driver="GeoJSON")
    sides = {name: tt.Hierarchy.from_table(areas, ["state", "county"]) for name in ("home", "work")}
    product = tt.Product({**sides, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    rows = pa.concat_tables([areas.rename_columns(["home_state", "home_county"])] * 20)
    rows = pa.table(
        {name: rows[name] for name in rows.column_names}
        | {name.replace("home", "work"): rows[name].take(pa.array(range(60))[::-1]) for name in rows.column_names}
        | {"sex": ["f", "m"] * 30}
    )
    made = tt.release_tables(
        rows, product, tt.Budget(epsilon=2), neighboring="add_remove", seed=1,
        tables=[("home_county", "work_county", "sex"), ("home_county", "sex"), ("home_state", "work_county")],
    )  # fmt: skip
    found = export(made, "geoparquet", tmp_path / "out", boundaries={"county": tmp_path / "counties.geojson"})
    assert len(found.tables) == 3
    pairs = geopandas.read_parquet(tmp_path / "out/home_county.work_county.sex.parquet")
    expected = made.table("home_county", "work_county", "sex")
    assert pairs[expected.column_names].to_dict("list") == expected.to_pydict()
    assert {*pairs.geometry.geom_type} == {"LineString", "Point"}
    places = {"x": 0, "y": 1, "z": 2}
    for home, work, shape in zip(pairs["home_county"], pairs["work_county"], pairs.geometry, strict=True):
        assert [int(shape.coords[end][0]) for end in (0, -1)] == [places[home], places[work]]
    assert {*geopandas.read_parquet(tmp_path / "out/home_county.sex.parquet").geometry.geom_type} == {"Polygon"}


def test_other_areas_with_a_level_of_the_same_name_get_no_shapes_that_are_not_theirs(tmp_path):
    import geopandas
    import shapely

    shapes = geopandas.GeoDataFrame({"c": ["x", "y"]}, geometry=[shapely.box(i, 4, i + 1, 5) for i in (0, 1)])
    shapes.set_crs("EPSG:4326").to_file(tmp_path / "c.geojson", driver="GeoJSON")
    here, there = tt.Hierarchy.from_values("c", ["x", "y"]), tt.Hierarchy.from_values("c", ["v", "w"])
    made = tt.release_flows(
        pa.table({"o": ["x", "y"] * 30, "d": ["v", "v", "w"] * 20}), origins=here, destinations=there, origin=["o"],
        destination=["d"], budget=tt.Budget(epsilon=2), neighboring="add_remove", seed=1,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"^boundaries: 'c' given, but the areas of .* have none"):
        export(made, "geoparquet", tmp_path / "out", tables=[made.levels[-1]], boundaries={"c": tmp_path / "c.geojson"})


def test_areas_without_a_shape_have_their_row_and_no_geometry(tmp_path):
    """`on_unknown: {town: other}`: no file of boundaries has "other". Missing, null and empty shapes are alike."""
    import geopandas
    import shapely

    labels = ["x", "other", "y", "empty", "null"]
    shapes = geopandas.GeoDataFrame(
        {"town": ["y", "x", "empty", "null"]}, crs="EPSG:4326",
        geometry=[shapely.box(2, 4, 3, 5), shapely.box(0, 4, 1, 5), shapely.Polygon(), None],
    )  # fmt: skip
    shapes.to_parquet(tmp_path / "towns.parquet")
    given = {"town": tmp_path / "towns.parquet"}
    towns = tt.Hierarchy.from_values("town", labels)
    counts = tt.release_counts(
        pa.table({"town": ["x", "y", "z"]}), towns, tt.Budget(epsilon=1), neighboring="add_remove",
        on_unknown={"town": "other"}, seed=1,
    )  # fmt: skip
    export(counts, "geoparquet", tmp_path / "counts", boundaries=given)
    frame = geopandas.read_parquet(tmp_path / "counts/town.parquet")
    assert frame["town"].tolist() == labels
    assert frame["count"].tolist() == counts.table("town")["count"].to_pylist()
    assert [None if each is None else each.bounds[0] for each in frame.geometry] == [0, None, 2, None, None]
    package = json.loads((tmp_path / "counts/datapackage.json").read_text("utf-8"))
    assert "Empty: an area has no shape." in package["resources"][0]["schema"]["fields"][-1]["description"]
    assert package["resources"][0]["schema"]["missingValues"] == [""]
    ends = pa.table({"o": labels * 5, "d": [each for each in labels for _ in labels]})
    flows = tt.release_flows(
        pa.concat_tables([ends] * 30), origins=towns, destinations=towns, origin=["o"], destination=["d"],
        budget=tt.Budget(epsilon=20), neighboring="add_remove", seed=1,
    )  # fmt: skip
    export(flows, "geoparquet", tmp_path / "flows", tables=[flows.levels[-1]], boundaries=given)
    lines = geopandas.read_parquet(tmp_path / f"flows/{flows.levels[-1]}.parquet")
    assert len(lines) == 25
    for o, d, shape in zip(lines["o"], lines["d"], lines.geometry, strict=True):
        places = [{"x": 0.5, "y": 2.5}.get(each) for each in (o, d)]
        drawn = None if shape is None else [point[0] for point in (shape.coords[0], shape.coords[-1])]
        assert drawn == (None if None in places else places)


def test_sides_with_the_same_labels_in_another_order_get_their_own_shapes(tmp_path):
    """Labels repeat: the lists of both levels are alike, and the areas are not."""
    import geopandas
    import shapely

    shapes = geopandas.GeoDataFrame(
        {"state": ["A", "B"], "county": ["x", "x"]}, geometry=[shapely.box(i, 4, i + 1, 5) for i in (0, 1)], crs=4326
    )
    shapes.to_file(tmp_path / "c.geojson", driver="GeoJSON")
    here, there = (tt.Hierarchy.from_table(pa.table({"state": s, "county": ["x", "x"]}), ["state", "county"])
                   for s in (["A", "B"], ["B", "A"]))  # fmt: skip
    made = tt.release_flows(
        pa.table({"os": ["A", "B"] * 30, "oc": ["x"] * 60, "ds": ["A"] * 60, "dc": ["x"] * 60}), origins=here,
        destinations=there, origin=["os", "oc"], destination=["ds", "dc"], budget=tt.Budget(epsilon=20),
        neighboring="add_remove", seed=1,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"^boundaries: 'county', 'state' given, but the areas of .* have none"):
        export(made, "geoparquet", tmp_path / "out", tables=[made.levels[-1]],
               boundaries={"county": tmp_path / "c.geojson"})  # fmt: skip
