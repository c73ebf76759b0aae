"""A warm process with the injector preloaded, which runs commands with one fault each."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class Faults:
    """Runs commands of tallytree in children of a warm process.

    Attributes:
        below: the folder whose files' system calls are numbered and may fail.
        log: what the last command wrote to standard error.
    """

    def __init__(self, injector, below, outside):
        environment = os.environ | {"LD_PRELOAD": str(injector), "TALLYTREE_DEBUG": "", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, HERE / "zygote.py", injector],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=below, env=environment, bufsize=1,
        )  # fmt: skip
        self.below, self._log = below, outside / "errors"

    def run(self, *argv, at=-1, kind="none"):
        """Run a command; its exit code (negative: a signal), and the names of the calls that it made."""
        asked = {"argv": [str(each) for each in argv], "below": str(self.below), "at": at, "kind": kind,
                 "errors": str(self._log)}  # fmt: skip
        self._process.stdin.write(json.dumps(asked) + "\n")
        answer = json.loads(self._process.stdout.readline())
        return answer["status"], answer["calls"]

    @property
    def log(self):
        return self._log.read_text(errors="replace")

    def close(self):
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._process.stdout.close()


@pytest.fixture
def faults(tmp_path, monkeypatch):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("the fault injector needs a C compiler and Linux")
    injector, below = tmp_path / "injector.so", tmp_path / "below"
    below.mkdir()
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", injector, HERE / "injector.c", "-ldl"], check=True)
    monkeypatch.chdir(below)
    found = Faults(injector, below, tmp_path)
    yield found
    found.close()
