"""A week of daily runs, killed at random points and repeated: seven releases, each charged once."""

import multiprocessing
import os
import random
import signal
import sys
import time
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.ledger import Ledger
from tallytree.release import Release

SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 0.5}
neighboring: add_remove
person: who
max_contributions: 2
ledger: ledger.db
dataset: people
secret: secret
"""
WEEK = [str(date(2026, 11, 16) + timedelta(days=day)) for day in range(7)]
LOADED = (
    "duckdb", "dp_accounting.pld.privacy_loss_distribution", "numba.core.typed_passes", "pyarrow.parquet",
    "rich.console", "scipy.special", "tallytree.api", "tallytree.cli.app", "tallytree.spec",
)  # fmt: skip
"""What a run would import by itself, in most of its time: so kills seldom came where it writes."""
KILLS_A_DAY = 15 if os.environ.get("TALLYTREE_FAULTS") == "all" else 5
"""With `make faults`, and with `make test-all`."""


def tallytree(folder, *arguments):
    """Run a command in this process, which ends with it."""
    sys.argv = ["tallytree", *arguments]
    sys.stdout, sys.stderr = (folder / "log").open("a"), (folder / "log").open("a")
    from tallytree.cli.app import main

    main()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    areas = [(f"s{i % 9}", f"c{i}") for i in range(200)]
    table = pa.table({"state": [s for s, _ in areas], "county": [c for _, c in areas]})
    pq.write_table(table, tmp_path / "areas.parquet")
    people = pa.concat_tables(
        [table.append_column("who", pa.array([(k * i) % 997 for i in range(200)])) for k in range(50)]
    )
    pq.write_table(people, tmp_path / "people.parquet")
    (tmp_path / "week.yaml").write_text(SPEC)
    tt.new_secret(tmp_path / "secret")
    Ledger(tmp_path / "ledger.db").set_limit("people", tt.Budget(epsilon=3.5), neighboring="add_remove")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_week_of_runs_that_are_killed_and_repeated_ends_with_seven_releases_each_charged_once(folder):
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([*LOADED])
    chance = random.Random(20261122)  # noqa: S311

    def start(day):
        options = ("--out", day, "--run", day, "--if-exists", "skip")
        process = processes.Process(target=tallytree, args=(folder, "release", "week.yaml", *options))
        process.start()
        return process

    def succeed(day):
        began = time.monotonic()
        process = start(day)
        process.join()
        assert process.exitcode == 0, (folder / "log").read_text()
        return time.monotonic() - began

    book, moments = Ledger(folder / "ledger.db"), []
    usual = 1.0  # seconds of a run; one that was slow must not let all later ones end before they are killed
    for day in WEEK:
        kills = 0
        while kills < KILLS_A_DAY:
            process = start(day)
            process.join(chance.uniform(0.02, usual))
            if process.exitcode is None:
                process.kill()
                process.join()
                kills += process.exitcode == -signal.SIGKILL
                paid = any(entry.run == day for entry in book.entries())
                moments.append((paid, (folder / day).exists()))
            assert process.exitcode in (0, -signal.SIGKILL), (folder / "log").read_text()
        usual = (usual + succeed(day)) / 2
    assert len(moments) >= 7 * KILLS_A_DAY
    entries = book.entries("people")
    assert [entry.run for entry in entries] == WEEK
    assert [entry.state for entry in entries] == ["finished"] * 7
    assert book.remaining("people") == {"epsilon": 0}
    ids = [Release.load(folder / day).statement["release"]["id"] for day in WEEK]
    assert ids == [entry.release_id for entry in entries]
    print({moment: moments.count(moment) for moment in sorted({*moments})})  # noqa: T201  (paid, folder made)
