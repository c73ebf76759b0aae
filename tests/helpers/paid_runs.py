"""What a command that pays leaves after a fault, and what its repetition makes of it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from helpers.release_folders import digest, tables
from tallytree.ledger import Ledger
from tallytree.release import Release

TERMS = """\
budget: {epsilon: 0.5}
neighboring: add_remove
person: who
max_contributions: 2
ledger: ledger.db
dataset: people
secret: secret
engine: {threads: 1}
"""
"""Of the spec of a release that pays."""


def check_paid(faults: Any, command: tuple[str, ...], each: Iterable[tuple[Any, int]], seen: Counter[Any]) -> None:
    """Nothing is unpaid or half-made, and the command, repeated, ends as if there had been no fault, charged once.

    Args:
        faults: the warm process, whose folder is as at the start.
        command: a named run, with `--out out --if-exists skip --fallback-out kept`.
        each: faults of this command, and their exit codes.
        seen: counts the outcomes.
    """
    below: Path = faults.below
    assert faults.run(*command)[0] == 0, faults.log
    complete = tables(below / "out").keys()
    faults.back()
    repeated = {digest(below)}  # from here the command was run just now
    for fault, status in each:
        left = digest(below)
        entries = Ledger(below / "ledger.db").entries()
        assert len(entries) <= 1, fault
        assert entries or not [*below.rglob("tables")], fault
        assert status != 0 or (below / "out").exists(), fault
        made = [tables(place) for place in (below / "out", *below.glob("kept/*/out")) if place.exists()]
        assert all(each.keys() == complete for each in made), fault
        if status == 5 and entries:
            assert "the budget of this release is spent (ledger entry 1)" in faults.log, (fault, faults.log)
        seen[fault[0], "paid" if entries else "not paid", "folder" if (below / "out").exists() else "no folder"] += 1
        if left in repeated:
            continue
        repeated.add(left)
        shutil.rmtree(below / "kept", ignore_errors=True)
        assert faults.run(*command)[0] == 0, (fault, faults.log)
        (entry,) = Ledger(below / "ledger.db").entries()
        assert entry.state == "finished"
        assert Release.load(below / "out").statement["release"]["id"] == entry.release_id
        assert tables(below / "out").keys() == complete, fault
        # The noise depends on the entry's random id: a repetition has that of what the faulty attempt has made.
        assert all(each == tables(below / "out") for each in made), fault
