"""Exports of releases with rows that say how much is not listed."""

import json

import pandas as pd
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import export
from helpers.partly_listed import AREAS, TREE, partly_listed
from tallytree.counts import unlisted
from tallytree.release.intervals import LevelErrors
from tallytree.release.quality import with_quality, without_unreliable

SIDES = {"ORIGIN": ("from_state", "from_town"), "DESTINATION": ("to_state", "to_town")}


@pytest.fixture(scope="module", autouse=True)
def small_levels_learn():
    """Levels of few nodes would keep the counts of the fit, and have no remainders."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(unlisted, "LEAST_LEARNED", 1)
        patched.setattr(unlisted, "LEAST_NOISE", 0.0)
        yield


@pytest.fixture(scope="module")
def release():
    return partly_listed(rho=0.02)


@pytest.fixture(scope="module")
def squares(tmp_path_factory):
    geopandas, shapely = (pytest.importorskip(name) for name in ("geopandas", "shapely"))
    boxes = [shapely.box(i, 40, i + 1, 41) for i in range(len(AREAS))]
    path = tmp_path_factory.mktemp("maps") / "towns.geojson"
    geopandas.GeoDataFrame({"town": AREAS["town"]}, geometry=boxes, crs="EPSG:4326").to_file(path, driver="GeoJSON")
    return path


def lists_of(folder):
    from pysdmx.io import read_sdmx

    structure = read_sdmx(str(folder / "structure.json"), validate=True)
    return {each.id: {code.id: code.name for code in each.items} for each in structure.get_codelists()}


@pytest.mark.needs("pysdmx")
@pytest.mark.parametrize("awkward", [False, True])
def test_sdmx_has_a_code_for_what_is_not_listed_of_a_node_outside_of_the_sums(release, tmp_path, awkward):
    from pysdmx.io import get_datasets

    made, kept = release, {}
    if awkward:  # a label like the end of such codes
        areas = AREAS.assign(town=[*AREAS["town"][:-1], "_X"])
        tree = tt.Hierarchy.from_table(areas, levels=["state", "town"])
        trips = areas.add_prefix("from_").merge(areas.add_prefix("to_"), how="cross").iloc[::3].assign(count=9)
        made = tt.release_flows(
            trips, origins=tree, destinations=tree, origin=SIDES["ORIGIN"], destination=SIDES["DESTINATION"],
            budget=tt.Budget(rho=0.02), neighboring="add_remove", count="count", unlisted="remainder", seed=1,
        )  # fmt: skip
    export(made, "sdmx", tmp_path / "out")
    lists = lists_of(tmp_path / "out")
    raw = json.loads((tmp_path / "out/structure.json").read_text("utf-8"))
    for level in made.levels:
        (found,) = get_datasets(
            data=str(tmp_path / f"out/{level}.csv"), structure=str(tmp_path / "out/structure.json")
        )  # fmt: skip
        published = made.table(level).to_pandas()
        frame = found.data
        assert frame["OBS_VALUE"].astype(int).tolist() == published["count"].tolist()
        assert set(frame["OBS_STATUS"]) <= {"A", "U"}
        keys = list(zip(frame["ORIGIN"], frame["DESTINATION"], strict=True))
        assert len(set(keys)) == len(keys)
        for side, columns in SIDES.items():
            there = [column for column in columns if column in published]
            for code, row in zip(frame[side], published[there].itertuples(index=False), strict=True):
                labels = [label for label in row if isinstance(label, str)]
                name = labels[-1] if labels else "all"
                wanted = name if len(labels) == len(there) else f"not listed, of {name}"
                assert lists[f"CL_{side}"][code] == wanted
                kept.setdefault(side, set()).update({code} if code.endswith("@_X") else ())
    assert all(kept.values())
    for each in raw["data"]["codelists"]:
        rests = [code for code in each["codes"] if code["name"].startswith("not listed, of ")]
        assert all("parent" not in code for code in rests)
        assert len(rests) == (0 if each["id"] == "CL_OBS_STATUS" else 4)  # of all, and of three states


@pytest.mark.needs("pysdmx")
def test_sdmx_of_other_releases_has_no_such_codes(tmp_path):
    export(partly_listed(unlisted="zero"), "sdmx", tmp_path / "out")
    assert not any(code.endswith("@_X") for codes in lists_of(tmp_path / "out").values() for code in codes)


def test_a_number_without_an_error_beside_others_with_one_has_no_status():
    from tallytree.views.export.sdmx_files import _status

    rows = with_quality(pa.table({"count": [10, 10, 35], "std_dev": [1.0, 9.0, None]}), LevelErrors())
    assert _status(rows, "count").to_pylist() == ["A", "U", None]
    assert _status(without_unreliable(rows), "count").to_pylist() == ["A", "Q", None]


@pytest.mark.needs("geopandas", "shapely")
def test_flows_that_are_not_listed_have_no_line(release, squares, tmp_path):
    import geopandas

    export(release, "geoparquet", tmp_path / "out", tables=["from_town"], boundaries={"town": squares})
    frame = geopandas.read_parquet(tmp_path / "out/from_town.parquet")
    published = release.table("from_town").to_pandas()
    pd.testing.assert_frame_equal(pd.DataFrame(frame.drop(columns="geometry")), published, check_dtype=False)
    assert (frame.geometry.isna() == published[["from_town", "to_town"]].isna().any(axis=1)).all()
    assert frame.geometry.isna().any()
    field = json.loads((tmp_path / "out/datapackage.json").read_text("utf-8"))["resources"][0]["schema"]["fields"][-1]
    assert "or the row says how much is not listed" in field["description"]
    assert "required" not in field.get("constraints", {})


@pytest.mark.needs("geopandas", "shapely")
def test_areas_that_are_not_listed_follow_without_a_shape(squares, tmp_path):
    import geopandas

    sexes = tt.Hierarchy.from_values("sex", ["f", "m"])
    product = tt.Product({"area": TREE, "sex": sexes}, order=["area", "area", "sex"])
    rows = AREAS.merge(pd.DataFrame({"sex": ["f", "m"]}), how="cross").iloc[::5].assign(n=20)
    made = tt.release_counts(
        rows, product, tt.Budget(rho=0.01), neighboring="add_remove", count="n", unlisted="remainder", seed=3
    )
    assert made.table("sex")["town"].null_count > 0
    export(made, "geoparquet", tmp_path / "out", tables=["town", "sex"], boundaries={"town": squares})
    for name in ("town", "sex"):
        frame = geopandas.read_parquet(tmp_path / f"out/{name}.parquet")
        assert frame.geometry[:12].notna().all()
        assert frame.geometry[12:].isna().all()
        assert frame["town"][12:].isna().all()
        lists = [column for column in frame if column not in ("state", "town", "geometry")]
        long = pd.DataFrame(frame.drop(columns="geometry")).explode(lists).dropna(subset=["count"])
        assert long["count"].sum() == made.table("all")["count"][0].as_py()
        assert sorted(long["count"]) == sorted(made.table(name)["count"].to_pylist())


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_the_data_dictionary_says_what_a_missing_label_means(release, tmp_path, to):
    export(release, to, tmp_path / "out")
    package = json.loads((tmp_path / "out/datapackage.json").read_text("utf-8"))
    leaf = next(each for each in package["resources"] if each["title"] == "from_town")
    for field in leaf["schema"]["fields"][:4]:
        assert field["description"].endswith("Empty: the row says how much is not listed.")
        assert "constraints" not in field
    assert "A cell without a row is not known to be 0." in leaf["description"]
