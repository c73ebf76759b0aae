"""The engines, which tabulate private records: the same requests and the same statistics in each."""

from typing import Any

from tallytree.private.engines.engine import (
    CountGroups,
    CountHouseholds,
    CountRecords,
    Engine,
    FindDefects,
    GroupRows,
    InPeriod,
)
from tallytree.private.engines.local import Local, Remembering, one_release
from tallytree.private.engines.spark import Spark

ENGINES: dict[str, type[Any]] = {engine.name: engine for engine in (Local, Spark)}
"""The engines that a spec can choose, by name."""


def support_table() -> str:
    """Which tables each engine reads, and how, in Markdown for the documentation; made from what the engines declare.

    A row is a kind of table or column, a column is an engine.
    """
    engines = (Local, Spark)
    rows = [f"| | {' | '.join(f'`{engine.__name__}`' for engine in engines)} |", "| --- " * (len(engines) + 1) + "|"]
    kinds = dict.fromkeys(kind for engine in engines for kind in engine.support)
    rows += [f"| {kind} | {' | '.join(engine.support.get(kind, 'no') for engine in engines)} |" for kind in kinds]
    return "\n".join(rows)


__all__ = [
    "ENGINES",
    "CountGroups",
    "CountHouseholds",
    "CountRecords",
    "Engine",
    "FindDefects",
    "GroupRows",
    "InPeriod",
    "Local",
    "Remembering",
    "Spark",
    "one_release",
    "support_table",
]
