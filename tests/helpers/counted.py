"""Records in two states with three counties: their true counts, their release, and all that an error says."""

from __future__ import annotations

import traceback
from typing import Any

import pyarrow as pa

import tallytree as tt
from helpers.inside import CountRecords, LeafKey
from tallytree.engines import Local

TREE = tt.Hierarchy.from_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}), ["state", "county"])
COMMON: dict[str, Any] = {"hierarchy": TREE, "budget": tt.Budget(epsilon=1), "neighboring": "add_remove", "seed": 1}


def counts(records: Any, **more: Any) -> list[int]:
    """The true counts of the leaves; with more options those that a release has."""
    if set(more) <= {"count"}:
        request = CountRecords([LeafKey(TREE, ("state", "county"))], **more)
        return Local(threads=2).tabulate(records, request).counts.tolist()
    return tt.release_counts(records, **{**COMMON, **more}).table("county")["count"].to_pylist()


def said(error: BaseException) -> str:
    """All of an error, with those that it came from."""
    return "".join(traceback.format_exception(error))
