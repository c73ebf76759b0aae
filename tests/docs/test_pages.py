"""The commands and the code of every documentation page, run in order, each page in a folder of its own.

A block of `sh`, `console` or `python` is run. A block of `yaml` whose first line is `# NAME.yaml` is written to that
file. What only shows something, such as output or a line for another program, is a block of `text`.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"console", "sh", "python", "yaml", "text", "json", "dockerfile"}
SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 0.5}
neighboring: add_remove
mechanism: {name: TopDown}
"""
SIZES = """\
statistic: group_sizes
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
group: household
max_group_size: 9
budget: {epsilon: 0.5}
neighboring: add_remove
"""
ELSEWHERE = {
    "how-to/evaluate.md": "tests/lab/compare/test_documentation.py",
    "how-to/trees.md": "tests/lab/datasets/test_health.py",
    "reference/datasets.md": "tests/lab/compare/test_documentation.py",
}
"""Pages whose blocks other tests run."""
OWN_PROCESS = "how-to/large-data.md"
"""Its Python is run by a process of its own: a Spark session lasts as long as its process."""
PAGES = sorted(
    name
    for page in DOCS.rglob("*.md")
    if (name := page.relative_to(DOCS).as_posix()) not in ELSEWHERE and not name.startswith("gallery/")
    for found in [BLOCK.findall(page.read_text(encoding="utf-8"))]
    if {kind for kind, _ in found} & {"console", "sh", "python", "yaml"}
)


@pytest.fixture
def workbench(tmp_path):
    """What pages take for granted: tables people, areas, last_year (.parquet), shapes, specs counts, sizes, joint."""
    areas = {"state": ["A", "A", "B"], "county": ["x", "y", "x"]}
    people = {name: values * 100 for name, values in areas.items()} | {
        "person": [i % 150 for i in range(300)],
        "household": [f"h{i // 6}-{i % 3}" for i in range(300)],
    }
    pq.write_table(pa.table(areas), tmp_path / "areas.parquet")
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    pq.write_table(pa.table(areas | {"count": [90, 100, 110]}), tmp_path / "last_year.parquet")
    (tmp_path / "counts.yaml").write_text(SPEC)
    (tmp_path / "sizes.yaml").write_text(SIZES)
    (tmp_path / "joint.yaml").write_text(SIZES + "mechanism: {name: Joint}\n")
    squares = [[[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1], [i, 0]]] for i in range(3)]
    shapes = [
        {
            "type": "Feature",
            "properties": {"state": state, "GEOID": county},
            "geometry": {"type": "Polygon", "coordinates": square},
        }
        for state, county, square in zip(areas["state"], areas["county"], squares, strict=True)
    ]
    (tmp_path / "counties.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    return tmp_path


def commands(text):
    """The commands of a console block: lines after `$ `, continued after a backslash, without their comments."""
    joined = text.replace("\\\n", " ")
    return [re.sub(r"\s+#.*", "", line[2:]) for line in joined.splitlines() if line.startswith("$ ")]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # a page may show what warns
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.needs("pyspark") if page == OWN_PROCESS else ()) for page in PAGES]
)
def test_the_blocks_of_a_page_run(workbench, with_program, page, monkeypatch):
    monkeypatch.chdir(workbench)

    def run(*command):
        done = subprocess.run(command, env=with_program, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    names, blocks = {}, BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    if page == OWN_PROCESS:
        run(sys.executable, "-c", "".join(text for kind, text in blocks if kind == "python"))
    for kind, text in blocks:
        if kind == "python" and page != OWN_PROCESS:
            exec(compile(text, page, "exec"), names)  # noqa: S102 (the page's own code)
        elif kind == "yaml":
            assert yaml.safe_load(text) is not None
            if named := re.match(r"# (\S+\.yaml)\n", text):
                (workbench / named[1]).write_text(text, encoding="utf-8")
        for program in [text] if kind == "sh" else commands(text) if kind == "console" else []:
            run("bash", "-euc", program)


def test_blocks_name_their_language():
    for page in DOCS.rglob("*.md"):
        inside = False
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("```") and not line.startswith("````"):
                inside = not inside
                if inside and not line.startswith("```{"):
                    assert line.removeprefix("```") in LANGUAGES, f"{page.name}:{number}: {line!r}"


def test_pages_that_others_run_exist_and_so_do_their_tests():
    for page, test in ELSEWHERE.items():
        assert (DOCS / page).is_file(), page
        assert (DOCS.parent / test).is_file(), test
    assert OWN_PROCESS in PAGES
