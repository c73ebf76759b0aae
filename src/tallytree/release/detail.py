"""The detail of a release of tables: the cells of the one table of integers that all published tables are sums of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.release.contributions_table import described
from tallytree.release.files import sha256, write_parquet
from tallytree.release.level_tables import FileTable, LevelTable, NodeTable
from tallytree.release.manifest import DETAIL_FILE
from tallytree.support.arrays import IntArray
from tallytree.tables import TableLayout

DETAIL_NOTE = (
    "The detail is published, too: the cells of the one table of integers that all published tables are sums of. It "
    "follows from the noisy measurements, so it spends nothing. Its cells are mostly noise, and their errors are not "
    "known: only numbers of the published tables have known errors."
)


def detail_table(layout: TableLayout, leaves: IntArray) -> NodeTable:
    """The cells that are not 0, with their paths at the finest levels, in order.

    Args:
        layout: the tables.
        leaves: (finest areas, detail cells), integers.
    """
    counts = leaves.ravel()
    cells = np.flatnonzero(counts)
    numbers = pa.table({"count": counts[cells].astype(np.int64)})
    return NodeTable(TableLayout(layout.product, [layout.finest], 1), 0, cells, numbers)


def detail_facts(layout: TableLayout, detail: LevelTable) -> dict[str, Any]:
    """What a statement says of it, JSON-able."""
    cells = layout.areas_per_level[-1] * layout.detail.cells
    return {"levels": list(layout.finest.levels), "cells": cells, "cells_listed": detail.num_rows}


def write_detail(detail: LevelTable | None, folder: Path, statement: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Write it into the folder of a release, where there is one; what the manifest says of its file."""
    if detail is None:
        return {}
    write_parquet(described(detail, statement), folder / DETAIL_FILE)
    return {DETAIL_FILE: {"rows": detail.num_rows, "sha256": sha256(folder / DETAIL_FILE)}}


def stored_detail(place: Path, files: Mapping[str, Mapping[str, Any]]) -> FileTable | None:
    """The detail in the folder of a release, if its manifest names it."""
    return FileTable(place / DETAIL_FILE, files[DETAIL_FILE]["rows"]) if DETAIL_FILE in files else None
