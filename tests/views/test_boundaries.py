"""Boundaries meet the hierarchy by codes; what does not match is named."""

import json

import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.views.boundaries import boundaries_of, keep_boundaries, kept_boundaries, read_boundaries

pytestmark = pytest.mark.needs("geopandas")


def square(x, y, size=1.0):
    return {"type": "Polygon", "coordinates": [[[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]]}


def written(folder, features, name="areas.geojson"):
    path = folder / name
    found = [{"type": "Feature", "properties": properties, "geometry": shape} for properties, shape in features]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": found}))
    return path


@pytest.fixture
def areas():
    table = pa.table({"state": ["A", "A", "B"], "county": ["01", "02", "10"]})
    return tt.Hierarchy.from_table(table, levels=["state", "county"])


@pytest.fixture
def shapes():
    return [({"county": code, "name": f"n{code}"}, square(i, 50)) for i, code in enumerate(["10", "01", "02"])]


def test_shapes_are_in_node_order_whatever_the_order_of_the_file(areas, shapes, tmp_path):
    found = read_boundaries(written(tmp_path, shapes), areas, "county")
    assert list(found.frame["label"]) == ["01", "02", "10"]
    assert list(found.frame["node"]) == [0, 1, 2]
    assert [round(shape.centroid.x, 1) for shape in found.frame.geometry] == [1.5, 2.5, 0.5]


def test_geoparquet_in_another_projection_becomes_longitude_and_latitude(areas, shapes, tmp_path):
    plain = read_boundaries(written(tmp_path, shapes), areas, "county").frame
    plain.rename(columns={"label": "code"}).to_crs("EPSG:3035").to_parquet(tmp_path / "areas.parquet")
    again = read_boundaries(tmp_path / "areas.parquet", areas, "county", code="code").frame
    assert again.crs == "EPSG:4326"
    assert again.geometry.geom_equals_exact(plain.geometry, 1e-6).all()


def test_areas_may_have_no_shape_and_the_level_above_has_the_others(areas, tmp_path):
    """Missing, null and empty."""
    empty = {"type": "Polygon", "coordinates": []}
    features = [({"county": "10"}, square(0, 50)), ({"county": "02"}, None), ({"county": "01"}, empty)]
    for of_file in (features, features[:1], [*features[:2]]):
        found = boundaries_of([f"county={written(tmp_path, of_file)}"], dict.fromkeys(areas.columns, areas))
        assert list(found["county"].frame["label"]) == ["01", "02", "10"]
        assert list(found["county"].drawn["node"]) == [2]
        assert list(found["state"].frame["label"]) == ["A", "B"]
        assert list(found["state"].drawn["label"]) == ["B"]
        assert [each["properties"]["label"] for each in found["county"].simplified(10).features()] == ["10"]
    with pytest.raises(ValueError, match="'04' of the boundaries is no area; '01', '02', '10' have no boundary"):
        read_boundaries(written(tmp_path, [({"county": "04"}, square(0, 0))]), areas, "county")
    with pytest.raises(ValueError, match="boundaries: no area has a shape; give another file"):
        read_boundaries(written(tmp_path, features[1:]), areas, "county")


def test_ids_of_features_are_codes_where_no_property_is_named_like_the_level(areas, tmp_path):
    """As GeoJSON has them outside of the properties; and in TopoJSON."""
    features = [{"type": "Feature", "id": code, "properties": {"name": "n"}, "geometry": square(i, 50)}
                for i, code in enumerate(["10", "01", "02"])]  # fmt: skip
    file = tmp_path / "ids.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    for code in (None, "id"):
        found = read_boundaries(file, areas, "county", code=code).frame
        assert [round(shape.centroid.x, 1) for shape in found.geometry] == [1.5, 2.5, 0.5]
    with pytest.raises(ValueError, match="no column 'code'; they have name, id"):
        read_boundaries(file, areas, "county", code="code")


def test_topojson_is_read(areas, tmp_path):
    """Two squares that share an arc, which one has backwards; an area without a shape; the level's own object."""

    def of(**more):
        return {"type": "GeometryCollection", "geometries": [
            {"type": "Polygon", "arcs": [[0, 1]], **more["a"]}, {"type": "Polygon", "arcs": [[2, ~0]], **more["b"]},
            {"type": None, **more["c"]}]}  # fmt: skip

    topology = {
        "type": "Topology", "transform": {"scale": [0.1, 0.1], "translate": [5, 50]},
        "arcs": [[[10, 0], [0, 10]], [[10, 10], [-10, 0], [0, -10], [10, 0]], [[10, 0], [10, 0], [0, 10], [-10, 0]]],
        "objects": {"first": of(a={"id": "01"}, b={"id": "10"}, c={"id": "02"})},
    }  # fmt: skip
    for name in ("areas.topojson", "areas.json"):
        (tmp_path / name).write_text(json.dumps(topology))
        found = read_boundaries(tmp_path / name, areas, "county")
        assert found.drawn["label"].tolist() == ["01", "10"]
        assert [shape.bounds for shape in found.drawn.geometry] == [(5, 50, 6, 51), (6, 50, 7, 51)]
    named = {each: {"properties": {"county": label}} for each, label in zip("abc", ("10", "02", "01"), strict=True)}
    topology["objects"]["county"] = of(**named)
    (tmp_path / "areas.topojson").write_text(json.dumps(topology))
    assert read_boundaries(tmp_path / "areas.topojson", areas, "county").drawn["label"].tolist() == ["02", "10"]
    (tmp_path / "areas.topojson").write_text(json.dumps({"type": "Topology", "objects": {}, "arcs": []}))
    with pytest.raises(ValueError, match=r"'areas\.topojson' cannot be read as GeoJSON"):
        read_boundaries(tmp_path / "areas.topojson", areas, "county")


def test_kept_boundaries_are_of_paths_not_of_places(tmp_path):
    """The same labels in another order of states: the file of the first release is not that of the second, by row."""
    first, second = (
        tt.Hierarchy.from_table(pa.table({"state": states, "county": ["x", "x"]}), ["state", "county"])
        for states in (["A", "B"], ["B", "A"])
    )
    file = written(tmp_path, [({"state": s, "county": "x"}, square(i, 0)) for i, s in enumerate("AB")])
    keep_boundaries(tmp_path, boundaries_of([f"county={file}"], {"state": first, "county": first}))
    found = kept_boundaries(tmp_path, {"state": second, "county": second})
    assert found["county"].paths.to_pylist() == [{"state": "B", "county": "x"}, {"state": "A", "county": "x"}]
    assert [round(shape.centroid.x, 1) for shape in found["county"].frame.geometry] == [1.5, 0.5]
    assert not found["county"].fits(first)
    assert found["county"].fits(second)


def test_whole_numbers_match_integer_labels(tmp_path):
    tree = tt.Hierarchy.from_values("zone", [7, 8])
    found = read_boundaries(written(tmp_path, [({"zone": 8}, square(1, 0)), ({"zone": 7}, square(0, 0))]), tree, "zone")
    assert list(found.frame["label"]) == ["7", "8"]


def test_where_labels_repeat_the_path_is_the_code(tmp_path):
    tree = tt.Hierarchy.from_table(pa.table({"state": ["A", "B"], "county": ["x", "x"]}), levels=["state", "county"])
    file = written(tmp_path, [({"state": s, "county": "x"}, square(i, 0)) for i, s in enumerate("BA")])
    assert [round(shape.centroid.x, 1) for shape in read_boundaries(file, tree, "county").frame.geometry] == [1.5, 0.5]
    bare = written(tmp_path, [({"county": "x"}, square(0, 0))], "bare.geojson")
    with pytest.raises(ValueError, match=r"no column 'state' \(.*whole path is needed\)"):
        read_boundaries(bare, tree, "county")


def test_simplified_shapes_share_their_borders(tmp_path):
    import shapely

    tree = tt.Hierarchy.from_values("zone", ["a", "b"])
    border = [[0.5 + (0.01 if i % 2 else 0.0), i / 500] for i in range(501)]
    west = {"type": "Polygon", "coordinates": [[[0, 0], *border, [0, 1], [0, 0]]]}
    east = {"type": "Polygon", "coordinates": [[[1, 1], *border[::-1], [1, 0], [1, 1]]]}
    found = read_boundaries(written(tmp_path, [({"zone": "a"}, west), ({"zone": "b"}, east)]), tree, "zone")
    few = found.simplified(60)
    assert shapely.get_num_coordinates(few.frame.geometry.to_numpy()).sum() <= 60
    assert few.frame.geometry.iloc[0].intersection(few.frame.geometry.iloc[1]).length >= 1
    assert shapely.get_num_coordinates(found.frame.geometry.to_numpy()).sum() > 1000


def test_a_shape_with_a_spike_can_be_simplified(tmp_path):
    """Of which the other way of mending makes a polygon and a line."""
    import shapely

    ring = [[0, 0], [1, 0], [1, 0.5], [2, 0.5], [1, 0.5], [1, 1], [0, 1], [0, 0]]
    spiked = {"type": "Polygon", "coordinates": [ring]}
    assert shapely.make_valid(shapely.Polygon(ring)).geom_type == "GeometryCollection"
    tree = tt.Hierarchy.from_values("zone", ["a", "b"])
    features = [({"zone": "a"}, spiked), ({"zone": "b"}, square(3, 0))]
    found = read_boundaries(written(tmp_path, features), tree, "zone")
    assert found.simplified(20).frame.geometry.geom_type.tolist() == ["Polygon", "Polygon"]


def test_features_have_node_and_label(areas, shapes, tmp_path):
    features = read_boundaries(written(tmp_path, shapes), areas, "county").features()
    assert [each["properties"] for each in features] == [
        {"node": i, "label": label} for i, label in enumerate(["01", "02", "10"])
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda found: [*found, ({"county": "99"}, square(9, 9))], "'99' of the boundaries is no area"),
        (lambda found: [*found, found[0]], "'10' comes twice"),
        (lambda found: [*found[:-1], ({"county": "1"}, square(9, 9))], "'1' of the boundaries is no area; '02' has no"),
        (lambda found: [*found[:-1], ({"county": None}, square(9, 9))], "has empty codes; fill them in"),
        (lambda found: [({"code": p["county"]}, s) for p, s in found], "no column 'county'; they have code"),
        (lambda found: [], "has no shapes|no column 'county'"),
    ],
)
def test_what_does_not_match_is_named(areas, shapes, tmp_path, change, says):
    with pytest.raises(ValueError, match=says):
        read_boundaries(written(tmp_path, change(shapes)), areas, "county")


def test_many_codes_are_not_all_listed(tmp_path):
    tree = tt.Hierarchy.from_values("zone", [str(i) for i in range(100)])
    with pytest.raises(ValueError, match=r"'4' and 95 more have no boundary"):
        read_boundaries(written(tmp_path, [({"zone": "x"}, square(0, 0))]), tree, "zone")


def test_files_that_are_no_boundaries_are_refused(areas, tmp_path):
    for name, text, says in (
        ("a.geojson", "{", "'a.geojson' cannot be read as GeoJSON"),
        ("a.parquet", "PAR1", "'a.parquet' cannot be read as GeoParquet"),
        ("a.shp", "", r"must be GeoJSON \(.geojson, .json\), TopoJSON \(.topojson\) or GeoParquet"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=says):
            read_boundaries(tmp_path / name, areas, "county")
    with pytest.raises(ValueError, match="is no file"):
        read_boundaries(tmp_path / "none.geojson", areas, "county")


def test_a_file_without_a_reference_system_is_refused(areas, shapes, tmp_path):
    frame = read_boundaries(written(tmp_path, shapes), areas, "county").frame
    frame.set_crs(None, allow_override=True).to_parquet(tmp_path / "areas.parquet")
    with pytest.raises(ValueError, match="does not say its coordinate reference system"):
        read_boundaries(tmp_path / "areas.parquet", areas, "county", code="label")


def test_options_name_a_level_and_a_file(areas, shapes, tmp_path):
    file = written(tmp_path, shapes)
    trees = {"state": areas, "county": areas}
    assert list(boundaries_of([f"county={file}"], trees)) == ["county", "state"]
    for given, says in (
        (["county"], "'county' must be LEVEL=FILE"),
        ([f"county={file}"] * 2, "'county' is given twice"),
        ([f"town={file}"], "'town' is not one of the release's levels state, county"),
    ):
        with pytest.raises(ValueError, match=says):
            boundaries_of(given, trees)
    with pytest.raises(ValueError, match="'all' is not one of the hierarchy's levels state, county"):
        read_boundaries(file, areas, "all")


def test_the_levels_above_follow(areas, shapes, tmp_path):
    tree = {"state": areas, "county": areas}
    import shapely

    found = boundaries_of([f"county={written(tmp_path, shapes)}"], tree)
    assert list(found) == ["county", "state"]
    states = found["state"].frame
    assert list(states["label"]) == ["A", "B"]
    assert list(shapely.area(states.geometry.to_numpy())) == [pytest.approx(2), pytest.approx(1)]


def test_the_made_up_municipalities_cover_their_country_without_gap_or_overlap(tmp_path):
    import shapely
    from tallytree.datasets.commutes import commutes

    data = commutes(1000)
    tree = tt.Hierarchy.from_table(data.municipalities, levels=["region", "province", "municipality"])
    file = tmp_path / "municipalities.geojson"
    file.write_text(json.dumps(data.boundaries))
    cells = read_boundaries(file, tree, "municipality").frame.geometry.to_numpy()
    assert shapely.is_valid(cells).all()
    together = shapely.union_all(cells)
    assert shapely.area(cells).sum() == pytest.approx(together.area, rel=1e-4)
    assert together.area == pytest.approx(together.envelope.area, rel=1e-4)


def test_a_file_that_names_other_files_is_not_followed(areas, shapes, tmp_path):
    (tmp_path / "private.csv").write_text("county,x,y\ntopsecret,1,2\n")
    source = f"<OGRVRTDataSource><OGRVRTLayer name='private'><SrcDataSource>{tmp_path / 'private.csv'}</SrcDataSource>"
    (tmp_path / "areas.json").write_text(f"{source}</OGRVRTLayer></OGRVRTDataSource>")
    with pytest.raises(ValueError, match=r"'areas\.json' cannot be read as GeoJSON") as found:
        read_boundaries(tmp_path / "areas.json", areas, "county")
    assert "topsecret" not in str(found.value)


def test_shapes_that_are_no_areas_are_refused_and_those_that_cross_themselves_mended(areas, shapes, tmp_path):
    point = [*shapes[:-1], ({"county": "02"}, {"type": "Point", "coordinates": [0, 0]})]
    with pytest.raises(ValueError, match="has a Point; every shape must be a Polygon or a MultiPolygon"):
        read_boundaries(written(tmp_path, point), areas, "county")
    far = [*shapes[:-1], ({"county": "02"}, square(1e6, 50))]
    with pytest.raises(ValueError, match="coordinates that are no longitude and latitude"):
        read_boundaries(written(tmp_path, far), areas, "county")
    crossed = {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]}
    found = read_boundaries(written(tmp_path, [*shapes[:-1], ({"county": "02"}, crossed)]), areas, "county")
    assert found.frame.geometry.is_valid.all()
    assert found.simplified(10).features()


def test_boundaries_are_kept_with_those_above_them(areas, shapes, tmp_path):
    trees = {"state": areas, "county": areas}
    found = boundaries_of([f"county={written(tmp_path, shapes)}"], trees)
    keep_boundaries(tmp_path, found)
    again = kept_boundaries(tmp_path, trees)
    assert {*again} == {"state", "county"}
    for level, each in again.items():
        assert each.frame["label"].tolist() == found[level].frame["label"].tolist()
        assert each.frame.geometry.geom_equals_exact(found[level].frame.geometry, 1e-9).all()


def test_boundaries_of_other_areas_are_left_out(areas, shapes, tmp_path):
    keep_boundaries(tmp_path, boundaries_of([f"county={written(tmp_path, shapes)}"], {"state": areas, "county": areas}))
    other = tt.Hierarchy.from_table(pa.table({"state": ["A", "B"], "county": ["01", "03"]}), levels=["state", "county"])
    assert {*kept_boundaries(tmp_path, {"state": other, "county": other})} == {"state"}
    assert kept_boundaries(tmp_path / "none", {"county": areas}) == {}


def test_kept_boundaries_that_are_damaged_are_named(areas, tmp_path):
    (tmp_path / "boundaries").mkdir()
    (tmp_path / "boundaries" / "county.parquet").write_bytes(b"no parquet")
    with pytest.raises(ValueError, match=r"boundaries: 'county\.parquet' cannot be read as GeoParquet"):
        kept_boundaries(tmp_path, {"county": areas})
