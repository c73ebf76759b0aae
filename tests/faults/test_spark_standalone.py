"""A standalone cluster on this machine: the local release byte for byte, and a worker that dies."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.needs("pyspark", "sqlglot"), pytest.mark.slow]

TESTS = Path(__file__).parents[1]


def test_counts_sizes_and_tables_are_the_local_ones_and_a_worker_that_dies_changes_no_number(tmp_path: Path) -> None:
    """See `helpers.spark_standalone`."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "helpers.spark_standalone", str(tmp_path)],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path, timeout=1_800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert said["executors"] == 2
    assert (said["counts"], said["sizes"], said["tables"]) == (True, True, True)
    assert said["worker"] == -signal.SIGKILL
    assert said["killed"] == "made" or said["killed"].startswith("OSError: records: an executor was lost")
    assert said["killed, entries"] == (1 if said["killed"] == "made" else 0)  # nothing is paid for what was not counted
    assert said["again"]
    assert said["entries"] == 1
