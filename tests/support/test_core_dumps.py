"""No core dump while private rows are in memory; afterwards the process is as it was."""

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
import threading

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import duckdb_session
from tallytree.support import spill_folders
from tallytree.support.spill_folders import core_dumps_disabled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's flag is Linux's")


def state():
    """(soft limit, hard limit, whether dumpable)."""
    return (*resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))


@pytest.fixture(autouse=True)
def dumpable():
    """Begin as a process that may write dumps of 1 MB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard != resource.RLIM_INFINITY and hard < 2**20:
        pytest.skip("the hard limit of this process allows no core dump")
    resource.setrlimit(resource.RLIMIT_CORE, (2**20, hard))
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # a test that has changed the effective user has made it 0
    assert state() == (2**20, hard, 1)
    yield hard
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def test_a_release_runs_without_core_dumps(areas, dumpable, monkeypatch):
    seen, session_run = [], duckdb_session.DuckDBSession.run
    monkeypatch.setattr(
        duckdb_session.DuckDBSession, "run", lambda *a, **k: [seen.append(state()), session_run(*a, **k)][1]
    )
    people = pa.table({"state": ["A"], "county": ["x"]})
    tt.release_counts(people, areas, tt.Budget(epsilon=1), neighboring="change_one")
    assert {*seen} == {(0, dumpable, 0)}
    assert state() == (2**20, dumpable, 1)
    with pytest.raises(ValueError, match="null keys"):
        tt.release_counts(pa.table({"state": ["A"], "county": pa.nulls(1, pa.string())}), areas, tt.Budget(epsilon=1),
                          neighboring="change_one")  # fmt: skip
    assert state() == (2**20, dumpable, 1)


def test_noise_is_measured_without_core_dumps(areas, dumpable, monkeypatch):
    from helpers.inside import PlannedCounts

    seen, fit = [], PlannedCounts.fit
    monkeypatch.setattr(PlannedCounts, "fit", lambda *a, **k: [seen.append(state()), fit(*a, **k)][1])
    people = pa.table({"state": ["A"], "county": ["x"]})
    tt.release_counts(people, areas, tt.Budget(epsilon=1), neighboring="change_one")
    assert seen == [(0, dumpable, 0)]


def test_the_last_of_nested_and_concurrent_uses_restores(dumpable):
    inside, leave = threading.Event(), threading.Event()

    def other():
        with core_dumps_disabled():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with core_dumps_disabled():
        with core_dumps_disabled():
            assert state() == (0, dumpable, 0)
        assert state() == (0, dumpable, 0)
        thread.start()
        inside.wait()
    assert state() == (0, dumpable, 0)  # the other thread still has private rows
    leave.set()
    thread.join()
    assert state() == (2**20, dumpable, 1)


@pytest.mark.slow
def test_a_limit_that_was_lowered_meanwhile_does_not_make_restoring_fail(dumpable):
    code = """
        import resource
        from tallytree.support.spill_folders import core_dumps_disabled
        resource.setrlimit(resource.RLIMIT_CORE, (2**20, 2**20))
        with core_dumps_disabled():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 2**10))
        print(resource.getrlimit(resource.RLIMIT_CORE))
        resource.setrlimit(resource.RLIMIT_CORE, (2**10, 2**10))
        with core_dumps_disabled():
            resource.setrlimit(resource.RLIMIT_CORE, (7, 2**10))  # the program's own wish stays
        print(resource.getrlimit(resource.RLIMIT_CORE))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout == "(1024, 1024)\n(7, 1024)\n"


@pytest.mark.parametrize("soft", [0, resource.RLIM_INFINITY])
def test_limits_at_either_end_come_back(dumpable, soft):
    if soft and dumpable != resource.RLIM_INFINITY:
        pytest.skip("the hard limit of this process is finite")
    resource.setrlimit(resource.RLIMIT_CORE, (soft, dumpable))
    with core_dumps_disabled():
        assert state() == (0, dumpable, 0)
    assert state() == (soft, dumpable, 1)


def test_a_system_that_refuses_is_left_as_it_is(dumpable, monkeypatch):
    def refuses(*_):
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(spill_folders, "_prctl", lambda *_: None)
    with monkeypatch.context() as strict:
        strict.setattr(resource, "setrlimit", refuses)
        with core_dumps_disabled():
            assert state() == (2**20, dumpable, 1)
    with core_dumps_disabled():
        monkeypatch.setattr(resource, "setrlimit", refuses)
    monkeypatch.undo()
    assert state() == (0, dumpable, 1)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_than_root_can_release_while_its_files_in_proc_are_roots():
    """Spilling, files and subprocesses work, though /proc/self belongs to root."""
    code = """
        import ctypes, os, subprocess, sys
        import numpy as np, pyarrow as pa, pyarrow.parquet as pq
        import tallytree as tt
        from tallytree.support.spill_folders import core_dumps_disabled
        os.chdir(sys.argv[1])
        areas = tt.Hierarchy.from_table(pa.table({"leaf": ["1", "2"]}), ["leaf"])
        ids = np.arange(1_000_000) % 700_001
        pq.write_table(pa.table({"leaf": ids % 2 + 1, "id": ids}), "people.parquet")
        engine = tt.engines.Local(memory_limit="40MB", threads=2, temp_directory=".")

        def release(name):
            with core_dumps_disabled():
                made = tt.release_group_sizes(
                    "people.parquet", areas, tt.Budget(epsilon=1), group="id", neighboring="add_remove",
                    max_group_size=5, mechanism=tt.sizes.BottomUp(), engine=engine,
                )
                assert os.stat("/proc/self/maps").st_uid == 0
                assert subprocess.run(["true"]).returncode == 0
                os.listdir("/proc/self/fd")
            return tt.Release.load(made.save(name)).levels

        release("first")  # imports all that it needs, while Python's own folder can be read
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # a change of user makes the process not dumpable
        assert os.stat("/proc/self/maps").st_uid == 65534
        print(release("second"))
        assert os.stat("/proc/self/maps").st_uid == 65534
    """
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        os.chown(folder, 65534, 65534)
        command = [sys.executable, "-c", textwrap.dedent(code), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "('all', 'leaf')\n"), done.stderr
