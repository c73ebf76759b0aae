"""The order in which files of tests begin, where several processes run them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
LONGEST = (
    "faults/test_spark.py",
    "docs/test_readme.py",
    "lab/audit/test_audit.py",
    "docs/test_pages.py",
    "lab/replay/test_replay.py",
    "checker/test_unreadable.py",
    "cli/test_warm_command.py",
    "cli/test_compiling_ahead.py",
    "faults/test_every_call.py",
    "faults/test_sources.py",
    "faults/test_spark_standalone.py",
    "lab/reproduce/test_frame.py",
    "faults/test_every_command.py",
    "views/explore/test_views_in_browser.py",
    "faults/test_memory.py",
    "faults/test_week_of_runs.py",
    "views/report/test_sentences.py",
    "numbers/test_remainder_totals.py",
)
"""The files that take longest, longest first: one that began late would run alone at the end.

With the first begin all tests of Spark, which one process runs (`helpers/scheduling.py`).
"""


def in_order(files: Iterable[Path]) -> list[Path]:
    """The longest files; then the others from the beginning and from the end in turn.

    Neighbors in the list use the same kernels, which two processes would compile at the same time.
    """
    waiting = deque(files)
    ordered = [path for name in LONGEST if (path := TESTS / name) in waiting]
    for path in ordered:
        waiting.remove(path)
    while waiting:
        ordered.append(waiting.popleft())
        if waiting:
            ordered.append(waiting.pop())
    return ordered
