"""The engines, which tabulate private records: the same requests and the same statistics in each."""

from typing import Any

from tallytree.private.engines.engine import Engine
from tallytree.private.engines.local import Local
from tallytree.private.engines.remembering import Remembering
from tallytree.private.engines.requests import CountRecords, GroupRows, GroupSizes

ENGINES: dict[str, type[Any]] = {engine.name: engine for engine in (Local,)}
"""The engines that a spec can choose, by name; a second one is added here."""

__all__ = ["ENGINES", "CountRecords", "Engine", "GroupRows", "GroupSizes", "Local", "Remembering"]
