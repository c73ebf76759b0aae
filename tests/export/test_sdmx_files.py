"""SDMX-CSV and its structures, read back by pysdmx and checked against SDMX's own schemas."""

import csv
import json
import re

import pytest

from tallytree._export import export
from tallytree.release import QualityThresholds

KINDS = ("counts", "flows", "sizes", "tables", "people")
pytestmark = pytest.mark.needs("pysdmx")


def structure(folder):
    from pysdmx.io import read_sdmx

    return read_sdmx(str(folder / "structure.json"), validate=True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_comes_back_with_its_structure(made, tmp_path, kind):
    from pysdmx.io import get_datasets

    release = made[kind]
    exported = export(release, "sdmx", tmp_path / "out", alpha=0.1)
    package = json.loads((tmp_path / "out/datapackage.json").read_text("utf-8"))
    lists = {
        each.id: {code.id: code.name for code in each.items} for each in structure(tmp_path / "out").get_codelists()
    }
    raw = json.loads((tmp_path / "out/structure.json").read_text("utf-8"))
    parents = {
        each["id"]: {code["id"]: code.get("parent") for code in each["codes"]} for each in raw["data"]["codelists"]
    }
    for resource in package["resources"]:
        file, name = tmp_path / "out" / resource["path"], resource["title"]
        (found,) = get_datasets(data=str(file), structure=str(tmp_path / "out/structure.json"))
        expected = release.contributions if name == "contributions" else release.table(name, alpha=0.1)
        value = next(each for each in ("count", "groups", "people") if each in expected.column_names)
        frame = found.data
        assert frame["OBS_VALUE"].astype(float).tolist() == expected[value].to_pylist()
        error = "tail_std_dev" if kind == "sizes" else "std_dev"
        assert frame[error.upper()].astype(float).tolist() == pytest.approx(expected[error].to_pylist())
        for dimension in (each for each in frame.columns if f"CL_{each}" in lists and each != "OBS_STATUS"):
            codes = frame[dimension].tolist()
            assert set(codes) <= set(lists[f"CL_{dimension}"])
            columns = columns_of(dimension, expected)
            wanted = expected[columns[-1]].to_pylist() if columns else ["all"] * len(codes)
            assert [lists[f"CL_{dimension}"][code] for code in codes] == [xml(label) for label in wanted]
            if len(columns) == 2:  # the parent is the region
                regions = [lists[f"CL_{dimension}"][parents[f"CL_{dimension}"][code]] for code in codes]
                assert regions == expected[columns[0]].to_pylist()
    assert len(exported.tables) == len(package["resources"])
    for definition in structure(tmp_path / "out").get_data_structure_definitions():
        for each in definition.components:  # what has a code list refers to it
            listed = {code.id for code in each.local_codes.items} if each.local_codes else set()
            assert listed == set(lists.get(f"CL_{each.id}", ())), each.id


def columns_of(dimension, table):
    """The columns of a dimension's hierarchy in the releases of these tests."""
    ends = {"ORIGIN": "1", "DESTINATION": "2"}.get(dimension)
    if dimension == "SEX":
        return [name for name in table.column_names if name == "sex"]
    return [name for name in table.column_names if re.fullmatch(rf"(re gi/on%|town){ends or ''}", name)]


def xml(label):
    return label.replace("\x07", "\N{REPLACEMENT CHARACTER}")


def test_numbers_with_a_large_error_are_flagged(made, tmp_path):

    release = made["counts"]
    export(release, "sdmx", tmp_path / "out", thresholds=QualityThresholds(0.02, 0.05), agency="ESTAT.X")
    with (tmp_path / "out/town.csv").open(encoding="utf-8", newline="") as opened:
        rows = [*csv.DictReader(opened)]
    table = release.table("town")
    wide = [
        std_dev > 0.05 * count
        for count, std_dev in zip(table["count"].to_pylist(), table["std_dev"].to_pylist(), strict=True)
    ]
    assert [row["OBS_STATUS"] for row in rows] == ["U" if each else "A" for each in wide]
    assert 0 < sum(wide) < len(wide)
    assert {row["STRUCTURE_ID"] for row in rows} == {"ESTAT.X:COUNTS(1.0)"}
    assert "more than 0.05 of the number" in (tmp_path / "out/structure.json").read_text("utf-8")
    assert structure(tmp_path / "out").get_dataflows()[0].agency == "ESTAT.X"


def test_no_status_is_given_where_no_error_is_known(tmp_path):
    import pyarrow as pa

    import tallytree as tt

    tree = tt.Hierarchy.from_table(pa.table({"area": ["a", "b"]}), ["area"])
    people, budget = pa.table({"area": ["a", "b", "b"]}), tt.Budget(epsilon=1, delta=1e-6)
    release = tt.release_counts(people, tree, budget, neighboring="add_remove", mechanism=tt.counts.TopDown(), seed=1)
    assert "std_dev" not in release.table("area").column_names
    with pytest.raises(
        ValueError, match=r"alpha: 0\.1 asks for intervals, but the errors of the numbers of 'all' are not"
    ):
        export(release, "sdmx", tmp_path / "out", alpha=0.1)
    export(release, "sdmx", tmp_path / "out")
    with (tmp_path / "out/area.csv").open(encoding="utf-8", newline="") as opened:
        rows = [*csv.DictReader(opened)]
    assert [(row["AREA"], row["OBS_STATUS"]) for row in rows] == [
        ("a", ""),
        ("b", ""),
    ]  # labels that are legal are codes


def test_an_agency_that_sdmx_does_not_allow_is_refused(made, tmp_path):
    with pytest.raises(ValueError, match="agency: '1 x' must be letters, digits"):
        export(made["counts"], "sdmx", tmp_path / "out", agency="1 x")
