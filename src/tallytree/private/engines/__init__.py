"""The engines, which tabulate private records: the same requests and the same statistics in each."""

from typing import Any

from tallytree.private.engines.engine import Engine
from tallytree.private.engines.local import Local, one_release
from tallytree.private.engines.remembering import Remembering
from tallytree.private.engines.requests import (
    CountGroups,
    CountHouseholds,
    CountRecords,
    FindDefects,
    GroupRows,
    InPeriod,
)
from tallytree.private.engines.spark import Spark

ENGINES: dict[str, type[Any]] = {engine.name: engine for engine in (Local, Spark)}
"""The engines that a spec can choose, by name."""

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
]
