"""Spark's workers are tried before a record is read, and an error says what to set."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from tallytree.private.engines.spark import require_workers

pytestmark = pytest.mark.needs("pyspark")


class Session:
    """Runs the task here, as a worker of another kind would answer."""

    def __init__(self, **other: str) -> None:
        self.tasks, self._other = 0, other

    def range(self, *_: int) -> Session:
        return self

    def mapInArrow(self, worker: Any, schema: str) -> Session:
        self.tasks += 1
        if "fails" in self._other:
            raise RuntimeError(self._other["fails"])
        (batch,) = worker(iter([pa.RecordBatch.from_pydict({"id": [0]})]))
        self._answer = batch.to_pylist()[0] | self._other
        return self

    def collect(self) -> list[Any]:
        return [self._answer]


def test_workers_like_the_driver_are_asked_once() -> None:
    session = Session()
    for modules in (("numpy",), ("numpy",), ("numpy", "pyarrow"), ("pyarrow",)):
        require_workers(session, modules)
    assert session.tasks == 2


@pytest.mark.parametrize(
    ("other", "modules", "says"),
    [
        ({"fails": "[PYTHON_VERSION_MISMATCH]"}, ("numpy",), "workers run another version of Python; this one is"),
        ({"fails": "no such file"}, ("numpy",), "workers cannot run a task of this Python; this one is"),
        (
            {"version": "3.9.1", "executable": "/usr/bin/python3"},
            ("numpy",),
            "run /usr/bin/python3, which is Python 3.9.1",
        ),
        ({}, ("numpy", "no_such_module"), "which does not have no_such_module"),
    ],
)
def test_others_are_refused_with_what_to_set(other: dict[str, str], modules: tuple[str, ...], says: str) -> None:
    with pytest.raises(OSError, match=r"^engine: Spark's workers") as error:
        require_workers(Session(**other), modules)
    assert says in str(error.value)
    assert f"this one is {sys.executable}" in str(error.value)
    assert "the environment variable PYSPARK_PYTHON to its path. To set it on this machine suffices" in str(error.value)


@pytest.mark.slow
def test_a_worker_that_does_not_start_is_said_without_the_log_of_java(tmp_path) -> None:
    program = (
        "import tallytree as tt\n"
        "rows = {'county': ['x', 'y'], 'person': [1, 2]}\n"
        "import pyarrow as pa\n"
        "tt.release_counts(pa.table(rows), tt.Hierarchy.from_values('county', ['x', 'y']), tt.Budget(epsilon=1),\n"
        "    neighboring='add_remove', person='person', engine=tt.engines.Spark(master='local[1]'))\n"
    )
    where = {**os.environ, "PYSPARK_PYTHON": str(tmp_path / "no-python"), "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run([sys.executable, "-c", program], env=where, capture_output=True, text=True, check=False)
    assert ran.stderr.rstrip().endswith("before the session is made")
    assert "workers cannot run a task of this Python" in ran.stderr
    assert "ERROR" not in ran.stderr
    assert "\tat " not in ran.stderr  # a line of Java's stack
