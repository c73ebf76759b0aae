"""SIGTERM and SIGHUP end the program soon, with one exit code, and leave no private row on the disk."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

CODES = [(signal.SIGTERM, 143), (signal.SIGHUP, 129)]

# Groups 6 million members in 60 MB, which takes DuckDB a hundred megabytes on the disk; again and again.
SPILLS = """
    import sys
    import numpy as np, pyarrow as pa
    import tallytree as tt
    from tallytree.private.engines import CountGroups, Local
    from tallytree.private.tabulate.records import LeafKey

    def work():
        ids = np.arange(6_000_000)
        tree = tt.Hierarchy.from_table(pa.table({"leaf": ["1", "2"]}), ["leaf"])
        table = pa.table({"leaf": ids % 2 + 1, "id": ids})
        engine = Local(memory_limit="60MB", threads=2, temp_directory=sys.argv[1])
        while True:
            engine.tabulate(table, CountGroups(LeafKey(tree, ["leaf"]), group="id", smallest=0, largest=9))
"""
# Native code that Python cannot interrupt, while a folder with rows exists.
BLOCKED = """
    import hashlib, sys
    from tallytree.support.spill_folders import spill_folder

    def work():
        with spill_folder(sys.argv[1]) as folder:
            (folder / "duckdb_temp_rows").write_bytes(bytes(100_000))
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""
# A library that keeps the exception to itself, and one that turns it into another.
SWALLOWED = """
    import sys, time
    from tallytree.support.spill_folders import spill_folder

    def work():
        with spill_folder(sys.argv[1]) as folder:
            (folder / "duckdb_temp_rows").write_bytes(bytes(100_000))
            try:
                time.sleep(60)
            except BaseException:
                pass
"""
TURNED = SWALLOWED.replace("pass", "raise KeyboardInterrupt from None")
STUBBORN = SWALLOWED.replace("pass", "time.sleep(60)")
PROGRAM = "\nfrom tallytree.cli.signals import ends_on_signals\nends_on_signals(work)()\n"


def ended(code, folder, *sent):
    """Start a program, wait until it has spilled 100 kB, send the signals; its exit code, and what is left."""
    program = textwrap.dedent(code) + PROGRAM
    ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the program would go on ignoring what nohup ignores
    try:
        process = subprocess.Popen([sys.executable, "-c", program, str(folder)], stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGHUP, ignored)
    with process:
        try:
            while process.poll() is None and spilled(folder) < 100_000:
                time.sleep(0.02)
            for number in sent:
                os.kill(process.pid, number)
            _, errors = process.communicate(timeout=600)
        finally:
            process.kill()
    assert "Traceback" not in errors
    return process.returncode, [path.name for path in folder.iterdir()]


def spilled(folder):
    total = 0
    for path in folder.rglob("duckdb_temp*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), CODES)
def test_a_spill_is_removed(tmp_path, sent, code):
    assert ended(SPILLS, tmp_path, sent) == (code, [])


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), CODES)
@pytest.mark.parametrize("program", [BLOCKED, STUBBORN], ids=["native code", "code that goes on"])
def test_what_cannot_be_interrupted_is_ended(tmp_path, program, sent, code):
    assert ended(program, tmp_path, sent) == (code, [])


@pytest.mark.parametrize("program", [SWALLOWED, TURNED], ids=["swallowed", "turned into another"])
def test_the_exit_code_is_the_signals_whatever_becomes_of_the_exception(tmp_path, program):
    assert ended(program, tmp_path, signal.SIGHUP) == (129, [])


def test_a_second_signal_does_not_disturb_the_first(tmp_path):
    assert ended(SWALLOWED.replace("pass", "time.sleep(0.3)"), tmp_path, signal.SIGTERM, signal.SIGHUP)[1] == []


def test_an_ignored_hangup_stays_ignored(tmp_path):
    code = SWALLOWED.replace("import sys, time", "import signal, sys, time; signal.signal(1, signal.SIG_IGN)")
    assert ended(code, tmp_path, signal.SIGHUP, signal.SIGTERM) == (143, [])
