"""`--memory`: the same folder as without, and what it refuses."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.banded import contents

SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state]}
budget: {epsilon: 1}
neighboring: change_one
seed: 4
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pq.write_table(pa.table({"state": ["A", "B", "C"]}), tmp_path / "areas.parquet")
    pq.write_table(pa.table({"state": ["A", "A", "B"] * 30}), tmp_path / "people.parquet")
    (tmp_path / "spec.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_folder_is_the_same_with_memory(folder, run):
    assert run("release", "spec.yaml", "--out", "whole").exit_code == 0
    assert run("release", "spec.yaml", "--out", "option", "--memory", "2GB").exit_code == 0
    (folder / "spec.yaml").write_text(SPEC + "memory: 2GB\n")
    assert run("release", "spec.yaml", "--out", "key").exit_code == 0
    assert contents(folder / "option") == contents(folder / "whole") == contents(folder / "key")


def test_measurements_can_be_left_out(folder, run):
    (folder / "spec.yaml").write_text(SPEC + "keep_measurements: false\n")
    assert run("release", "spec.yaml", "--out", "out").exit_code == 0
    assert pq.read_metadata(folder / "out" / "measurements" / "state.parquet").num_rows == 0
    assert pq.read_metadata(folder / "out" / "tables" / "state.parquet").num_rows == 3


@pytest.mark.parametrize(
    ("argv", "added", "message"),
    [
        (("--memory", "lots"), "", "memory: 'lots' must be a number and a unit, such as '4GB'"),
        ((), "memory: 12\n", "memory: "),
        ((), "keep_measurements: perhaps\n", "keep_measurements: "),
    ],
)
def test_values_that_cannot_be_used_are_refused(folder, refusal, argv, added, message):
    (folder / "spec.yaml").write_text(SPEC + added)
    assert message in refusal("release", "spec.yaml", "--out", "out", *argv)


@pytest.mark.parametrize(
    ("argv", "added", "message"),
    [
        (("--memory", "1MB"), "", "memory: '1MB' is less than the 1.3MB that this may take; LeastSquares fits"),
        (("--memory", "999kB"), "", "memory: '999kB' must be between 1MB and 1000TB"),
        ((), "engine: {memory_limit: 1MB}\n", "engine.memory_limit: '1MB' must be between 8MB and 1000TB"),
        (("--set", "engine.memory_limit=7MB"), "engine: {threads: 1}\n", "memory_limit: '7MB' must be between 8MB and"),
    ],
)
def test_memory_that_is_of_no_use_is_refused_before_anything_is_paid(folder, run, refusal, argv, added, message):
    pq.write_table(pa.table({"state": [f"s{i}" for i in range(4_000)]}), folder / "areas.parquet")
    (folder / "spec.yaml").write_text(SPEC.replace("seed: 4", "ledger: l.db\ndataset: d") + added)
    assert message in refusal("release", "spec.yaml", "--out", "out", *argv)
    assert not (folder / "l.db").exists()
    assert not (folder / "out").exists()
