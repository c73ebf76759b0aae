"""The commands and the code of every documentation page, run in order, each page in a folder of its own.

A block of `sh`, `console` or `python` is run. A block of `yaml` whose first line is `# NAME.yaml` is written to that
file. A block of `output` has what the block before it prints, and is compared with that (`helpers/pages.py` says how,
and how the test writes it). What only shows something, such as a line for another program, is a block of `text`.
"""

import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from helpers.pages import SCREEN, Block, as_shown, blocks, check, commands, compared

DOCS = Path(__file__).resolve().parents[2] / "docs"
LANGUAGES = {"console", "sh", "python", "yaml", "text", "json", "dockerfile", "output", "output shape"}
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
OWN_PROCESS = "how-to/large-data.md"
"""Each block of its Python is run by a process of its own: a Spark session lasts as long as its process."""
PAGES = sorted(
    name
    for page in DOCS.rglob("*.md")
    if not (name := page.relative_to(DOCS).as_posix()).startswith("gallery/")
    if {block.kind for block in blocks(page.read_text(encoding="utf-8"))} & {"console", "sh", "python", "yaml"}
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


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # a page may show what warns
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.needs("pyspark") if page == OWN_PROCESS else ()) for page in PAGES]
)
def test_the_blocks_of_a_page_run(workbench, with_program, page, monkeypatch):
    monkeypatch.chdir(workbench)

    def run(*command):
        printed = subprocess.PIPE, subprocess.STDOUT  # as on a screen
        done = subprocess.run(
            command, env=with_program | SCREEN, stdout=printed[0], stderr=printed[1], text=True, check=False
        )
        assert done.returncode == 0, (command, done.stdout)
        return done.stdout

    names, found = {}, []
    for block in blocks((DOCS / page).read_text(encoding="utf-8")):
        printed = ""
        if block.kind == "python" and page == OWN_PROCESS:
            run(sys.executable, "-c", block.text)
        elif block.kind == "python":
            with redirect_stdout(io.StringIO()) as screen:
                exec(compile(block.text, page, "exec"), names)  # noqa: S102 (the page's own code)
            printed = screen.getvalue()
        elif block.kind == "yaml":
            assert yaml.safe_load(block.text) is not None
            if named := re.match(r"# (\S+\.yaml)\n", block.text):
                (workbench / named[1]).write_text(block.text, encoding="utf-8")
        programs = [block.text] if block.kind == "sh" else commands(block.text) if block.kind == "console" else []
        printed += "".join(run("bash", "-euc", program) for program in programs)
        if block.output is not None:
            found.append((block, printed))
    check(DOCS / page, found)


def test_blocks_name_their_language():
    for page in DOCS.rglob("*.md"):
        inside = False
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("```") and not line.startswith("````"):
                inside = not inside
                if inside and not line.startswith("```{"):
                    assert line.removeprefix("```") in LANGUAGES, f"{page.name}:{number}: {line!r}"


@pytest.mark.parametrize(
    ("shown", "alike", "printed", "wrong"),
    [
        ("a 1\n", False, "\na 1  \n", False),
        ("a 1\n", False, "a 2\n", True),
        ("a 1\n", True, "a  -2,300.5\n", False),
        ("a 1\n", True, "b 2\n", True),
        ("a 1\n", True, "a 2 3\n", True),
        ("run 1b873d93\n", True, "run 00000abc\n", False),
        ("─ 1\n", True, "─── 20\n", False),
        ("a\n…\nd\n", False, "a\nb\nc\nd\n", False),
        ("a\n…\nd\n", False, "a\nb\nc\n", True),
    ],
)
def test_an_output_is_compared(shown, alike, printed, wrong):
    wanted, there = compared(Block("python", "", shown, alike), printed)
    assert (wanted != there) == wrong


def test_what_a_cut_output_shows_was_printed():
    with pytest.raises(AssertionError):
        as_shown("a\n…\nd\n", "a\n")


def test_an_output_stands_below_the_block_that_prints_it():
    (block,) = blocks("```python\nprint(1)\n```\n\n```output\n1\n```\n")
    assert (block.text, block.output) == ("print(1)\n", "1\n")
    with pytest.raises(AssertionError, match="follows the block that prints it"):
        blocks("```python\nprint(1)\n```\nAnd then\n```output\n1\n```\n")


def test_outputs_are_compared_on_every_page_that_has_some():
    for page in DOCS.rglob("*.md"):
        name, found = page.relative_to(DOCS).as_posix(), blocks(page.read_text(encoding="utf-8"))
        kinds = {block.kind for block in found if block.output is not None}
        assert kinds <= {"console", "sh"} | ({"python"} if name != OWN_PROCESS else set()), name
        assert not kinds or name in PAGES, f"{name}: the test that runs its blocks does not compare outputs"


def test_the_page_with_a_process_of_its_own_is_run():
    assert OWN_PROCESS in PAGES
