"""The synthetic diagnoses, and the documented example that publishes them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from tallytree.datasets.health import health
from typer.testing import CliRunner

import tallytree as tt
from tallytree.cli.app import app
from tallytree.evaluate.error_bounds import top_down_error_bound
from tallytree.evaluate.metrics import max_absolute_error

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "health.yaml"
ORDER = ["disease", "disease", "sex", "age", "age"]
COLUMNS = {"age": ["age_group", "age_band"]}
LEVELS = ("all", "chapter", "disease", "sex", "age_group", "age_band")


def trees(data):
    return {
        "disease": tt.Hierarchy.from_table(data.diseases, ["chapter", "disease"]),
        "sex": tt.Hierarchy.from_table(data.sexes, ["sex"]),
        "age": tt.Hierarchy.from_table(data.ages, ["group", "band"]),
    }


def test_equal_arguments_give_equal_tables_and_other_seeds_others():
    assert health(500).records.equals(health(500).records)
    assert not health(500).records.equals(health(500, seed=1).records)
    assert health(0).records.num_rows == 0


def test_every_record_has_its_place_in_the_public_trees_and_some_places_are_empty():
    data = health(5_000)
    release = tt.release_counts(
        data.records, tt.Product(trees(data), ORDER, COLUMNS), tt.Budget(epsilon=100_000), neighboring="change_one"
    )
    assert release.levels == LEVELS
    for level in LEVELS:
        assert max_absolute_error(release.table(level), count(data.records, release.table(level))) == 0
    assert release.table("sex").num_rows == 60
    assert 300 < release.table("age_band").num_rows < 660  # of 30 · 2 · 11 cells


def count(records, table):
    columns = [name for name in table.column_names if name not in ("count", "std_dev", "typical_error", "quality")]
    if not columns:
        return pa.table({"count": [records.num_rows]})
    counted = records.group_by(columns).aggregate([([], "count_all")])
    return counted.rename_columns([*columns, "count"])


@pytest.mark.parametrize(
    "order", [["disease", "sex", "disease", "age", "age"], ["sex", "age", "age", "disease", "disease"]]
)
@pytest.mark.parametrize("neighboring", ["change_one", "add_remove"])
def test_attributes_may_be_refined_in_any_order_and_levels_add_up(order, neighboring):
    data = health(5_000)
    product = tt.Product(trees(data), order, COLUMNS)
    budget = tt.Budget(rho=0.5)
    top_down = tt.counts.TopDown()  # what the bounds are proven for
    release = tt.release_counts(data.records, product, budget, neighboring=neighboring, seed=3, mechanism=top_down)
    bounds = top_down_error_bound(product, budget, neighboring=neighboring, beta=1e-6)
    totals = {level: sum(release.table(level)["count"].to_pylist()) for level in release.levels}
    assert len(set(totals.values())) == 1
    for level in release.levels:
        table = release.table(level)
        assert min(table["count"].to_pylist()) > 0
        assert max_absolute_error(table, count(data.records, table)) <= bounds[level]


@pytest.mark.slow
def test_the_documented_example_runs_and_its_tables_are_those_of_the_spec(tmp_path):
    text = (ROOT / "docs/how-to/trees.md").read_text(encoding="utf-8")
    program = "".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert program.count("import tallytree") >= 1
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:hierarchy", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert str(LEVELS) in ran.stdout
    (tmp_path / "examples").mkdir()
    shutil.copy(EXAMPLE, tmp_path / "examples")
    shown = re.findall(r"^```yaml\n# health.yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    example = EXAMPLE.read_text(encoding="utf-8").replace("../health/", "health/")  # the page's is beside the folder
    assert [yaml.safe_load(each) for each in shown] == [yaml.safe_load(example)]
    spec, out = str(tmp_path / "examples" / "health.yaml"), tmp_path / "out"
    checked = CliRunner().invoke(app, ["check", spec])
    assert checked.exit_code == 0, checked.output
    assert "age_band" in checked.output
    assert not out.exists()
    released = CliRunner().invoke(app, ["release", spec, "--out", str(out)])
    assert released.exit_code == 0, released.output
    loaded = tt.Release.load(out)
    assert loaded.levels == LEVELS
    assert loaded.table("chapter").column_names == ["chapter", "count", "std_dev", "quality"]
    assert np.sum(loaded.table("age_band")["count"].to_pylist()) == 20_000


def test_the_levels_in_the_documentation_are_those_of_the_example():
    text = (ROOT / "docs/how-to/trees.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d \| (\w*) ?\| `(\w+)` \|", text, re.MULTILINE)
    assert tuple(level for _, level in rows) == LEVELS
    assert [attribute for attribute, _ in rows] == ["", *ORDER]
