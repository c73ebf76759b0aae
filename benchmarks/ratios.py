"""The ratios that `make bench` keeps: how a benchmark gives them, and how two peers are timed in one process.

A benchmark that takes part has a function `ratios() -> Iterator[Ratio | LeftOut]`. `run.py` finds every such file in
this folder and calls the function in a process of its own. A benchmark adds nothing to any list:

    from ratios import LeftOut, Ratio, least_seconds

    def ratios() -> Iterator[Ratio | LeftOut]:
        rows = made(20_000_000)
        seconds = least_seconds({"ours": lambda: tabulate(rows), "duckdb": lambda: group_by(rows)}, times=5)
        yield Ratio("tabulate 20 M rows in 3,000 leaves", "bare DuckDB", seconds["ours"], seconds["duckdb"])
        yield LeftOut("tabulate 20 M rows in 3,000 leaves", "Spark", "no Java on this machine")
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ratio:
    """One figure beside that of a peer; the smaller the better.

    Attributes:
        name: what was done, and on how much; with `peer` the key in `results.json`.
        peer: who did the same: a library with its function, or a plain limit ("16 GiB").
        ours: our figure.
        theirs: the peer's, of the same unit, measured in the same process unless the peer needs one of its own.
        unit: "seconds", or "GiB" of memory.
    """

    name: str
    peer: str
    ours: float
    theirs: float
    unit: str = "seconds"

    @property
    def ratio(self) -> float:
        """Ours as a share of theirs."""
        return self.ours / self.theirs


@dataclass(frozen=True)
class LeftOut:
    """A peer that could not be asked here, and why."""

    name: str
    peer: str
    why: str


def best(action: Callable[[], Any], times: int = 3) -> float:
    """The least of several wall times, in seconds."""
    durations = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        durations.append(time.perf_counter() - begin)
    return min(durations)


def least_seconds(actions: Mapping[str, Callable[[], Any]], times: int = 5) -> dict[str, float]:
    """The least wall time of each action; they take turns, so that a busy moment of the machine meets all of them.

    Each is called once more before the clock starts, which compiles and fills caches. Where the first call is what
    matters, measure it in a process of its own.
    """
    for action in actions.values():
        action()
    found: dict[str, float] = {}
    for _ in range(times):
        for name, action in actions.items():
            begin = time.perf_counter()
            action()
            seconds = time.perf_counter() - begin
            found[name] = min(seconds, found.get(name, seconds))
    return found
