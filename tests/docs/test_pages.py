"""The commands and the Python blocks of documentation pages, run in order beside small tables."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(console|sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 0.5}
neighboring: add_remove
mechanism: {name: TopDown}
"""
PAGES = [
    "how-to/contributions.md",
    "how-to/ledger.md",
    "how-to/memory.md",
    "how-to/operations.md",
    "how-to/plan.md",
    "how-to/runs.md",
    "explanation/security.md",
    "how-to/sources.md",
    "explanation/tables.md",
    "how-to/totals.md",
]
"""Pages whose blocks are run; every block of such a page is."""


@pytest.fixture
def workbench(tmp_path):
    """What the pages take for granted: tables people, areas and last_year (.parquet), and the spec counts.yaml."""
    areas = {"state": ["A", "A", "B"], "county": ["x", "y", "x"]}
    people = {name: values * 100 for name, values in areas.items()} | {"person": [i % 150 for i in range(300)]}
    pq.write_table(pa.table(areas), tmp_path / "areas.parquet")
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    pq.write_table(pa.table(areas | {"count": [90, 100, 110]}), tmp_path / "last_year.parquet")
    (tmp_path / "counts.yaml").write_text(SPEC)
    return tmp_path


def commands(text):
    """The commands of a console block: lines after `$ `, continued after a backslash, without their comments."""
    joined = text.replace("\\\n", " ")
    return [re.sub(r"\s+#.*", "", line[2:]) for line in joined.splitlines() if line.startswith("$ ")]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(workbench, page):
    found = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert found
    scripts = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    for kind, text in found:
        if kind == "python":
            programs = [[sys.executable, "-c", text]]
        else:
            programs = [["bash", "-euc", one] for one in ([text] if kind == "sh" else commands(text))]
        for program in programs:
            done = subprocess.run(program, cwd=workbench, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (program, done.stdout, done.stderr)
