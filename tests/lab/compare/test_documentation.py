"""The code of the page on experiments runs as it stands, and gives what the page says."""

import re
from pathlib import Path

import pyarrow.compute as pc
import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    return BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def test_the_experiment_runs_and_its_summary_has_the_columns_that_are_named():
    names = {}
    exec(blocks("how-to/evaluate.md")[0], names)  # noqa: S102 (the page's own code)
    results, means = names["results"], names["means"]
    assert results.num_rows == 2 * 3 * 3 * 9 * 4
    assert means.num_rows == 2 * 3 * 9 * 4
    text = (DOCS / "how-to/evaluate.md").read_text(encoding="utf-8")
    for column in {*results.column_names, *means.column_names}:
        assert f"`{column}`" in text
    for metric in set(results["metric"].to_pylist()):
        assert f"| `{metric}` |" in text
    root = means.filter((pc.field("level") == "all") & (pc.field("metric") == "max_absolute_error"))
    assert root["max"].to_pylist() == [0] * 6


@pytest.mark.slow
def test_the_benchmark_runs_on_its_data_sets_and_has_the_metrics_that_are_described():
    names = {}
    for code in blocks("how-to/evaluate.md"):
        exec(code, names)  # noqa: S102 (the page's own code)
    benchmark = names["benchmark"]
    text = (DOCS / "how-to/evaluate.md").read_text(encoding="utf-8")
    for metric in set(benchmark["metric"].to_pylist()):
        assert f"| `{metric}` |" in text
    for size in set(benchmark["true_number"].to_pylist()) - {"100 to 999", "1,000 to 9,999"}:
        assert f"`{size}`" in text
    for column in {*names["against"].column_names[-3:]}:
        assert f"`{column}`" in text
    paired = names["against"].filter((pc.field("mechanism") == "euclidean") & (pc.field("metric") == "rmse"))
    assert paired["std_error"].to_pylist() != []
