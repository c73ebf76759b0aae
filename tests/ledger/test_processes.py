"""Several processes with one ledger: a lock is waited for, a race keeps to the limit, a killed release is spent."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from fractions import Fraction

import pytest

import tallytree as tt
from helpers.ledger_entries import PURE, TERMS, posting, pure, release
from tallytree.ledger import Ledger

HOLD = """
import pathlib, sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
pathlib.Path(sys.argv[2]).touch()
time.sleep(600)
"""


@contextmanager
def locked(path):
    """The ledger while another process holds its lock."""
    sign = path.with_name("held")
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(sign)]) as process:
        try:
            wait_for(sign.exists, process)
            yield
        finally:
            process.kill()


def wait_for(condition, *processes):
    while not condition():
        assert all(process.poll() is None for process in processes)
        time.sleep(0.01)


def test_a_locked_ledger_is_waited_for_then_refused_and_nothing_is_drawn(areas, path, nothing_drawn):
    ledger = Ledger(path, timeout=0.3)
    ledger.record(posting(pure(1)))
    with locked(path):
        for ask in (
            lambda: release(areas, ledger),
            lambda: ledger.record(posting(pure(1))),
            lambda: ledger.set_limit("people", PURE),
        ):
            start = time.monotonic()
            with pytest.raises(TimeoutError, match=r"^ledger: '.*' is locked by another process; try again when"):
                ask()
            assert time.monotonic() - start > 0.2
        assert len(ledger.entries()) == 1
    ledger.record(posting(pure(1)))  # whoever held it was killed, and left nothing


RACE = """
import pathlib, sys, time
from fractions import Fraction
from tallytree.errors import BudgetExceeded
from tallytree.ledger import Ledger
from tallytree.accounting.spending import Loss, Posting
path, me = sys.argv[1:]
loss = Loss(Fraction(1, 3), Fraction(0), Fraction(1, 18))
posting = Posting(dataset="people", statistic="counts", mechanism="TopDown", neighboring="add_remove",
                  max_contributions=1, unit="record", loss=loss)
folder = pathlib.Path(path).parent
(folder / f"ready-{me}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
passed = 0
for _ in range(3):
    try:
        Ledger(path, timeout=600).record(posting)
        passed += 1
    except BudgetExceeded:
        pass
print(passed)
"""


@pytest.mark.parametrize(
    ("limit", "admits"), [(tt.Budget(epsilon=2), 6), (None, 18)], ids=["limit", "no limit, no file"]
)
def test_of_processes_that_race_as_many_pass_as_the_limit_admits(path, ledger, limit, admits):
    if limit is not None:
        ledger.set_limit("people", limit, **TERMS)
    racers = [
        subprocess.Popen([sys.executable, "-c", RACE, str(path), str(i)], stdout=subprocess.PIPE, text=True)
        for i in range(6)
    ]
    try:
        wait_for(lambda: len(list(path.parent.glob("ready-*"))) == 6, *racers)
        (path.parent / "go").touch()
        passed = [int(racer.communicate(timeout=600)[0]) for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    assert sum(passed) == admits
    assert ledger.spent("people") == {"epsilon": Fraction(admits, 3)}
    assert [entry.number for entry in ledger.entries()] == list(range(1, admits + 1))


CRASH = """
import pathlib, sys, time
import pyarrow as pa
import tallytree as tt
from tallytree.private.noise.discrete import KeyedNoise
def wait(*arguments):
    pathlib.Path(sys.argv[2]).touch()
    time.sleep(600)
KeyedNoise.draw = wait
table = pa.table({"state": ["A", "B"], "county": ["x", "x"]})
areas = tt.Hierarchy.from_table(table, ["state", "county"])
tt.release_counts(table, areas, tt.Budget(epsilon=1), neighboring="add_remove", ledger=sys.argv[1], dataset="people")
"""


def test_a_release_that_is_killed_counts_as_spent(areas, path):
    ledger = Ledger(path)
    ledger.set_limit("people", tt.Budget(epsilon=1), **TERMS)
    sign = path.with_name("drawing")
    with subprocess.Popen([sys.executable, "-c", CRASH, str(path), str(sign)]) as process:
        wait_for(sign.exists, process)
        os.kill(process.pid, signal.SIGKILL)
    (entry,) = ledger.entries("people")
    assert entry.state == "started"
    assert ledger.remaining("people") == {"epsilon": 0}
    with pytest.raises(tt.BudgetExceeded):
        release(areas, path)
