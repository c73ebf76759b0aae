"""A warm process with the injector preloaded, which runs commands with one fault each; and real servers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from helpers.file_calls import CHANGES, MOVES, OUTPUT, Call, ends_of_runs
from helpers.release_folders import PRIVATE
from helpers.servers import database, postgresql, s3, server_of_s3  # noqa: F401  (fixtures)
from tallytree.ledger import verified

HERE = Path(__file__).parent
EVERY = os.environ.get("TALLYTREE_FAULTS") == "all"
"""Whether more faults are tried where a test takes a sample: see `make faults`."""


def sampled(faults, stride):
    """One of so many, beginning at another one each day; with `make faults` twenty times as many, or all."""
    stride = max(stride // 20, 1) if EVERY else stride
    return [*faults][date.today().toordinal() % stride :: stride]


MOST_HUNG = 1
"""Commands of a test process that may hang; in 430 runs one after the other, none did."""


class Faults:
    """Runs commands of tallytree in children of a warm process.

    Attributes:
        below: the folder whose files' system calls are numbered and may fail.
        log: what the last command wrote to standard error.
        environment: variables of the commands, besides those of the process.
        hung: the faults after which a command without memory did not end.
    """

    def __init__(self, injector, root, words):
        environment = os.environ | {"LD_PRELOAD": str(injector), "TALLYTREE_DEBUG": "", "OMP_NUM_THREADS": "1"}
        environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # so that the injector sees what it asks for
        self._process = subprocess.Popen(
            [sys.executable, HERE / "zygote.py", injector, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, env=environment, bufsize=1,
        )  # fmt: skip
        self.below, self._start, self._log, self.environment = root / "below", root / "start", root / "errors", {}
        self.hung = []

    def begin(self):
        """Empty the folder, for another test."""
        for each in (self.below, self._start):
            shutil.rmtree(each, ignore_errors=True)
        self.below.mkdir()
        self.environment = {}

    def run(self, *argv, at=-1, kind="none"):
        """Run a command; its exit code (negative: a signal), and the calls that it made."""
        asked = {"argv": [str(each) for each in argv], "below": str(self.below), "at": at, "kind": kind,
                 "errors": str(self._log), "environment": self.environment}  # fmt: skip
        self._process.stdin.write(json.dumps(asked) + "\n")
        answer = json.loads(self._process.stdout.readline())
        self.requests = answer["requests"]
        calls = zip(answer["calls"], answer["places"], strict=True)
        return answer["status"], [Call(at, *about) for at, about in enumerate(calls, 1)]

    def keep_start(self):
        """What is in the folder now is what `back` brings back."""
        shutil.copytree(self.below, self._start)

    def back(self):
        """Put the folder back to what it was at the start, whatever a fault has left in it."""
        for each in self.below.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()
        shutil.copytree(self._start, self.below, dirs_exist_ok=True)
        verified.forget()  # this process would take the ledger for an older copy

    def each_fault(self, *argv, choose=None, stride=1, ends=0):
        """Run a command with fault after fault, each from the start; gives the fault and the exit code.

        Args:
            argv: the command.
            choose: which of its calls; by default `ends_of_runs`.
            stride: one of so many faults is tried.
            ends: the exit code of the command without a fault.
        """
        status, calls = self.run(*argv)
        assert status == ends, self.log
        assert len(calls) > 4
        chosen = [*(choose or ends_of_runs)(calls)]
        faults = [("fail", call) for call in chosen]
        faults += [("short", call) for call in chosen if call.name in MOVES]
        faults += [("kill", call) for call in chosen if call.name in CHANGES]
        faults += [("gone", call) for call in chosen if call.place == OUTPUT]
        for kind, call in sampled(faults, stride):
            self.back()
            status, _ = self.run(*argv, at=call.at, kind=kind)
            fault = (kind, call.at, call.name, call.place)
            self.check_message(fault, status)
            yield fault, status
        self.back()

    def each_shortage(self, *argv, tries):
        """Run a command without memory, once or from then on, at some requests; as `each_fault`.

        Args:
            argv: the command.
            tries: how many requests are taken of all, and as many more of the last quarter, in which the payment is.
        """
        for _ in range(2):  # the first time some memory is kept for the next times
            assert self.run(*argv)[0] == 0, self.log
            self.back()
        requests = self.requests
        assert requests > 20
        chosen = sampled(range(1, requests + 1), requests // tries)
        chosen += sampled(range(requests * 3 // 4, requests + 1), requests // tries // 4)
        for at in chosen:
            for kind in ("no memory", "no more memory"):
                self.back()
                status, _ = self.run(*argv, at=at, kind=kind)
                fault = (kind, at, f"of {requests}")
                self.check_message(fault, status)
                yield fault, status
        self.back()

    def check_message(self, fault, status):
        """A command that fails says so in one line, without a record; one that is killed cannot."""
        log = self.log
        assert PRIVATE not in log, fault
        assert "Traceback" not in log, (fault, log)
        if fault[0] == "kill":
            assert status in (-9, 0), (fault, log)
        elif "memory" in fault[0]:
            # NumPy and Arrow do not check each request of their own: then the process ends, which is as a kill is.
            # One in thousands does not end (docs/how-to/runs.md): SIGALRM ends it, and its log says where it was.
            if status == -signal.SIGALRM:
                self.hung.append(fault)
                assert len(self.hung) <= MOST_HUNG, (self.hung, log)
            else:
                assert status in (0, 5, -6, -11), (fault, status, log)
            assert status != 5 or (log.count("error: ") == 1 and "memory" in log.lower()), (fault, log)
        elif fault[0] == "gone" and status:
            assert "error: " not in log, (fault, log)
        elif status:
            assert sum(line.startswith("error: ") for line in log.splitlines()) == 1, (fault, status, log)

    @property
    def log(self):
        return self._log.read_text(errors="replace")

    def close(self):
        self._process.stdin.close()
        assert self._process.wait(600) == 0
        self._process.stdout.close()


@pytest.fixture(scope="module")
def warm_process(tmp_path_factory, request):
    """A process for a file of tests, with the views loaded if it has `VIEWS`.

    Its folder is in memory where the system has such a place, so that fsync is quick.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("the fault injector needs a C compiler and Linux")
    injector = tmp_path_factory.mktemp("injector") / "injector.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", injector, HERE / "injector.c", "-ldl"], check=True)
    memory = Path("/dev/shm")  # noqa: S108
    place = memory if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 26 else None
    with tempfile.TemporaryDirectory(prefix="tallytree-faults-", dir=place) as root:
        process = Faults(injector, Path(root), ["views"] * hasattr(request.module, "VIEWS"))
        yield process
        process.close()


@pytest.fixture
def faults(warm_process, monkeypatch):
    warm_process.begin()
    monkeypatch.chdir(warm_process.below)
    return warm_process


@pytest.fixture
def seen(request):
    """How often each outcome was seen; said at the end, for docs/how-to/runs.md."""
    found = Counter()
    yield found
    print(f"{request.node.name}: {sum(found.values())} faults")  # noqa: T201
    for key, number in sorted(found.items()):
        print(f"  {number:5} {key}")  # noqa: T201
