"""Methods of `Release` whose functions lie above it: they are there for whoever has a release, and come when called."""

import subprocess
import sys

import pytest

import tallytree as tt
from helpers import releases
from tallytree.release.derived_methods import ABOVE

ALONE = """
import sys
{start}
release = Release.load(sys.argv[1])
assert "{module}" not in sys.modules
try:
    {call}
except (ValueError, TypeError, ModuleNotFoundError) as refused:
    print(type(refused).__name__, refused)
assert "{module}" in sys.modules
"""
STARTS = ("import tallytree; Release = tallytree.Release", "from tallytree.release.release import Release")
CALLS = {
    "total": 'import pyarrow as pa; print(release.total(pa.table({"state": ["A"]})).column("count").to_pylist())',
    "scaled": "release.scaled('all', spread=0.5)",
    "plot": "release.plot.flows()",
    "difference": "print(release.difference('A', 'B').column_names)",
    "share": "print(release.share('state')['of'].to_pylist())",
    "ratio": "release.ratio(None, None)",
    "mean": "release.mean()",
    "quantile": "release.quantile('all', 0.5)",
    "records": "print(release.records().read_all().num_rows)",
}
SAID = {
    "total": "[60",
    "scaled": "ValueError release: it bounds no contributions",
    "plot": "plot.flows: this release",
    "share": "[100, 100]",
    "ratio": "numerator: ",
    "difference": "verdict",
    "mean": "ValueError release: its statistic is 'counts', and mean is of group_sizes, tables",
    "records": "100",
    "quantile": "ValueError release: its statistic is 'counts', and quantile is of group_sizes, tables",
}


def test_every_method_has_a_call_here():
    assert ABOVE.keys() - {"mean_of_households"} == CALLS.keys()  # of another release: tests/test_api_households.py


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("start", STARTS)
def test_a_method_works_in_a_process_that_has_imported_nothing_else(name, start, areas, tmp_path):
    folder = releases.counts(areas, seed=1, budget=releases.EXACT).save(tmp_path / "out")
    program = ALONE.format(start=start, module=ABOVE[name][0], call=CALLS[name])
    done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SAID[name] in done.stdout


def test_importing_the_package_imports_neither_releases_nor_what_is_made_of_them():
    program = "import sys, tallytree; print([n for n in sys.modules if n.startswith('tallytree.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert "support" not in dir(tt)
