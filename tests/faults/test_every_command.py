"""The commands that spend nothing and write: a fault of any call leaves what was there, or what is whole.

The calls are those on files, and the writes to standard output: a device that is full, and a reader that is gone. Of
the faults a sample is tried, another one each day; `make faults` tries all.
"""

import json
import re
from functools import cache

import duckdb
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.file_calls import OUTPUT
from helpers.release_folders import PRIVATE, digest, files

SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state]}
budget: {epsilon: 0.5}
neighboring: add_remove
person: who
engine: {threads: 1}
"""
AROUND = {"A": [[0, 0], [1, 0], [1, 1], [0, 0]], "B": [[1, 1], [2, 1], [2, 2], [1, 1]]}
COMMANDS = {
    "export csv": ("export out --to csv --out made", ["made"]),
    "export parquet": ("export out --to parquet --out made", ["made"]),
    "export geoparquet": ("export out --to geoparquet --out made --boundaries state=states.geojson", ["made"]),
    "export sdmx": ("export out --to sdmx --out made", ["made"]),
    "export xlsx": ("export out --to xlsx --out made.xlsx", ["made.xlsx"]),
    "export duckdb": ("export out --to duckdb --out made.duckdb", ["made.duckdb"]),
    "export records": ("export out --to records --out made.csv", ["made.csv", "made.csv.datapackage.json"]),
    "report": ("report out", ["out/report.html"]),
    "total": ("total out areas.parquet", []),
    "total csv": ("total out areas.parquet --out totals.csv", ["totals.csv"]),
    "total parquet": ("total out areas.parquet --out totals.parquet", ["totals.parquet"]),
    "registry": ("registry out --set deployment.basic.name=People", ["out/deployment.yaml"]),
    "registry out": ("registry out --out entry.yaml", ["entry.yaml"]),
    "secret": ("secret new other", ["other"]),
    "lint": ("lint day.yaml --private-out defects.txt", ["defects.txt"]),
    "plan": (
        "plan day.yaml --target state=9 --picture errors.svg --write-spec other.yaml",
        ["errors.svg", "other.yaml"],
    ),
    "reproduce": (
        "reproduce fioretto-table3 --out papers",
        [f"papers/fioretto-table3.{kind}" for kind in ("csv", "md")],
    ),
}
VIEWS = True
"""The warm process loads what exports, reports and pictures need."""
STRIDE = 15
FEW = dict.fromkeys(("registry", "secret", "plan", "reproduce"), 4)
"""Strides of the commands that make few calls."""
VARIES = re.compile(rb"\d{4}-\d\d-\d\dT[0-9:.]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Times, and ids of messages of SDMX."""


@pytest.fixture
def inputs(faults):
    people = {"state": ["A", "A", "B"] * 20, "who": [f"{PRIVATE}{i}" for i in range(60)]}
    pq.write_table(pa.table(people), faults.below / "people.parquet")
    pq.write_table(pa.table({"state": ["A", "B"]}), faults.below / "areas.parquet")
    (faults.below / "day.yaml").write_text(SPEC)
    shapes = [
        {"type": "Feature", "properties": {"state": name}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
        for name, ring in AROUND.items()
    ]
    (faults.below / "states.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    assert faults.run("release", "day.yaml", "--out", "out", "--no-report")[0] == 0, faults.log
    faults.keep_start()
    return faults.below


def content(place):
    """What is in a file, or in a folder; None where nothing is. Without what varies."""
    if place.is_dir():
        return {name: VARIES.sub(b"", found) for name, found in files(place).items()}
    if not place.exists():
        return None
    if place.suffix == ".xlsx":
        sheets = openpyxl.load_workbook(place)
        return {sheet.title: [[cell.value for cell in row] for row in sheet.rows] for sheet in sheets}
    if place.suffix == ".duckdb":
        with duckdb.connect(place, read_only=True) as connection:
            names = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
            return {name: connection.execute(f'FROM "{name}"').fetchall() for (name,) in names}
    if place.name == "other":  # a secret, which is random
        return place.stat().st_mode, len(place.read_bytes())
    return place.read_bytes()


@pytest.mark.slow
@pytest.mark.needs("xlsxwriter", "pysdmx", "geopandas", "altair", "vl_convert", "jsonschema", "ruamel")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_fault_of_a_command_that_spends_nothing_leaves_what_was_there_or_what_is_whole(faults, inputs, seen, command):
    argv, places = COMMANDS[command]
    argv = argv.split()
    released = digest(inputs / "out")
    before = {place: content(inputs / place) for place in places}
    there = {each.name for each in inputs.iterdir()}
    assert faults.run(*argv)[0] == 0, faults.log
    whole = {place: content(inputs / place) for place in places}
    assert whole != before or not places
    faults.back()

    @cache
    def repetition(_):
        """Whether the command, run again on what a fault has left, ends well; the same is tried once."""
        return faults.run(*argv)[0] == 0 and {place: content(inputs / place) for place in places} == whole

    for fault, status in faults.each_fault(*argv, stride=FEW.get(argv[0], STRIDE)):
        made = {place: content(inputs / place) for place in places}
        assert all(made[place] in (before[place], whole[place]) for place in places), (fault, status, faults.log)
        assert status != 0 or made == whole, (fault, faults.log)
        if fault[3] == OUTPUT and fault[0] == "fail":
            assert status == 5, (fault, status)
            assert "error: standard output: " in faults.log, (fault, faults.log)
        if "out/" not in "".join(places):
            assert digest(inputs / "out") == released, fault
        left = {each.name for each in inputs.rglob("*")} - there - {each.name for each in (inputs / "out").rglob("*")}
        left = {name for name in left if name.startswith(".")}
        removal = fault[2] in ("unlink", "unlinkat", "rmdir") or (
            fault[2] == "open64" and fault[3].endswith(".partial")
        )
        assert fault[0] == "kill" or removal or not left, (fault, left)
        seen[fault[0], "whole" if made == whole else "as before"] += 1
        if made == before and places:
            assert repetition(digest(inputs)), (fault, faults.log)
    assert sum(seen.values()) > 1
