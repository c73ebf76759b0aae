"""SDMX-CSV and its structures, read back by pysdmx and checked against SDMX's own schemas."""

import csv
import hashlib
import json
import re

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import Period
from tallytree.release import QualityThresholds
from tallytree.release.view.sides import sides_of
from tallytree.views.export import export
from tallytree.views.export.sdmx_codes import SideCodes, escaped
from tallytree.views.export.sdmx_structure import time_period

ID = re.compile(r"[A-Za-z0-9_@$\-]+")
"""The ids of SDMX 3.0 (IDType of its schemas)."""

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
    with pytest.raises(ValueError, match=r"alpha: 0\.1 asks for intervals, .*'all'"):
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


def unescaped(code):
    """The label of an escaped code, by what the documentation says of codes."""
    parts = re.findall(r"[$]([0-9A-F]{2})|([^$])", code)
    return b"".join(bytes.fromhex(byte) if byte else plain.encode() for byte, plain in parts).decode()


@given(st.text())
@example("95+")
@example("")
@example("$")
@example("_T")
@example("_X")
@example("a@b")
@example("$H0")
def test_a_label_is_an_id_that_gives_it_again(label):
    code = escaped(label)
    assert ID.fullmatch(code)
    assert unescaped(code) == label  # so no two labels have the same code
    assert code not in ("_T", "_X")
    assert not {"@", "$H"} & {code[i : i + n] for i in range(len(code)) for n in (1, 2)}


def test_a_label_with_a_sign_is_escaped_alone(tmp_path):
    ages = tt.Hierarchy.from_values("age", ["0-4", "90-94", "95+", "_T", "x" * 100, "x" * 101])
    records = pa.table({"age": ["0-4", "95+", "90-94"] * 50})
    made = tt.release_counts(records, ages, tt.Budget(epsilon=1), neighboring="add_remove", seed=1)
    export(made, "sdmx", tmp_path / "out")
    with (tmp_path / "out/age.csv").open(encoding="utf-8") as file:
        *codes, long = [row["AREA"] for row in csv.DictReader(file)]
    assert codes == ["0-4", "90-94", "95$2B", "$5FT", "x" * 100]
    assert long == "x" * 66 + "$H" + hashlib.sha256(b"x" * 101).hexdigest()[:32]
    lists = structure(tmp_path / "out").get_codelists()
    names = {code.id: code.name for each in lists for code in each.items}
    assert names["95$2B"] == "95+"


@given(st.lists(st.text(max_size=4), min_size=1, max_size=8, unique=True), st.data())
def test_no_two_nodes_have_the_same_code(labels, data):
    rows = {"above": [], "below": []}
    for label in labels:
        for below in data.draw(
            st.lists(st.sampled_from([*labels, "_X", "a" * 99]), min_size=1, max_size=3, unique=True)
        ):
            rows["above"].append(label)
            rows["below"].append(below)
    tree = tt.Hierarchy.from_table(pa.table(rows), ["above", "below"])
    side = SideCodes(sides_of(tree)[0], partly_listed=True)
    codes = pa.chunked_array(side.by_level).to_pylist()
    codes += [each["id"] for depth in range(len(tree.levels)) for each in side.rests(depth)]
    assert len(set(codes)) == len(codes)
    assert all(map(ID.fullmatch, codes))
    assert max(map(len, codes)) <= 103


def test_a_code_follows_from_the_path_alone(tmp_path):
    """The second year has another order and another area: every area keeps its code, and no code is reused."""
    years = {
        "2025": pa.table({"state": ["01", "01", "02"], "county": ["001", "003", "001"]}),
        "2026": pa.table({"state": ["02", "02", "01", "01"], "county": ["001", "003", "003", "001"]}),
    }
    found = {}
    for year, areas in years.items():
        tree = tt.Hierarchy.from_table(areas, ["state", "county"])
        made = tt.release_counts(areas, tree, tt.Budget(epsilon=1), neighboring="add_remove", seed=1, period=year)
        export(made, "sdmx", tmp_path / year)
        with (tmp_path / year / "county.csv").open(encoding="utf-8") as file:
            codes = [row["AREA"] for row in csv.DictReader(file)]
        paths = made.table("county").select(["state", "county"]).to_pylist()
        found[year] = dict(zip(codes, [tuple(path.values()) for path in paths], strict=True))
    assert found["2025"] == {"01@001": ("01", "001"), "01@003": ("01", "003"), "02@001": ("02", "001")}
    assert found["2025"].items() < found["2026"].items()
    assert {**found["2026"]}.keys() == {"01@001", "01@003", "02@001", "02@003"}


@pytest.mark.parametrize(
    ("period", "time"),
    [
        ("2026", "2026"), ("2026-03", "2026-03"), ("2026-W10", "2026-W10"), ("2026-W01", "2026-W01"),
        ("2026-03-04", "2026-03-04"), ("2026-03-04/2026-03-10", "2026-03-04/P7D"),
        ("2026-01-01/2026-12-31", "2026"), ("2026-03-02/2026-03-08", "2026-W10"), ("2024-02-01/2024-02-29", "2024-02"),
    ],
)  # fmt: skip
def test_periods_are_written_as_sdmx_writes_time(period, time):
    assert time_period(Period.parse(period)) == time


def test_two_years_are_one_data_flow(tmp_path):
    from pysdmx.io import get_datasets

    ages = tt.Hierarchy.from_values("age", ["0-4", "95+"])
    keys = []
    for year in ("2025", "2026"):
        records = pa.table({"age": ["0-4", "95+"] * 50})
        made = tt.release_counts(
            records, ages, tt.Budget(epsilon=1), neighboring="add_remove", seed=1, period=year,
            title="People by age", publisher="The office", status="provisional",
        )  # fmt: skip
        export(made, "sdmx", tmp_path / year)
        (found,) = get_datasets(
            data=str(tmp_path / year / "age.csv"), structure=str(tmp_path / "2025" / "structure.json")
        )
        assert found.data["TIME_PERIOD"].tolist() == [year, year]
        assert found.data["OBS_STATUS"].tolist() == ["P", "P"]
        text = (tmp_path / year / "structure.json").read_text("utf-8")
        assert "People by age, NOT PRIVATE" in text
        assert "Publisher: The office" in text
        keys += zip(found.data["AREA"], found.data["TIME_PERIOD"], strict=True)
    assert len(set(keys)) == 4
    (definition,) = structure(tmp_path / "2026").get_data_structure_definitions()
    assert [each.id for each in definition.components.dimensions] == ["AREA", "TIME_PERIOD"]
    first, second = ((tmp_path / year / "structure.json").read_text("utf-8") for year in ("2025", "2026"))
    without_texts = [{**json.loads(text)["data"], "dataflows": None} for text in (first, second)]
    assert without_texts[0] == without_texts[1]
