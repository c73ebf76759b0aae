"""People by their number of records, as published: the table, its file, and what is said of the bound in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.accounting.left_out import ALPHA, Estimated, LeftOutRecords
from tallytree.release.counted_unit import at_most, bound_sentence, counted_unit, is_bounded
from tallytree.release.files import sha256, write_csv, write_parquet
from tallytree.release.level_tables import ChangedTable, FileTable, LevelTable, PlainTable
from tallytree.support.arrays import IntArray

FILE = "contributions"
"""The name of the file, without its suffix; of a release of nothing else, the name of its one table too."""

COVERS = (
    "An interval covers the noise of the numbers of people and the width of the bins, if nobody has more than at_most "
    "records; not errors in the records, nor records that are missing or outside the hierarchy."
)
METADATA_KEY = b"tallytree"
"""Under which the Parquet files of tables say, in JSON, what their numbers count under a contribution bound."""


def contributions_table(
    bins: Sequence[tuple[int, int]], people: IntArray, std_dev: float, *, column: str = "people"
) -> PlainTable:
    """A row for each bin: `records_from`, `records_to`, the noisy number of people, `std_dev` of its noise."""
    first, last = np.array(bins, dtype=np.int64).T
    numbers = {column: people.astype(np.int64), "std_dev": np.full(len(first), std_dev)}
    return PlainTable(pa.table({"records_from": first, "records_to": last, **numbers}))


def left_out_facts(found: LeftOutRecords, bound: int, noun: str, *, applied: bool) -> dict[str, Any]:
    """What a statement says of what the bound leaves out, JSON-able.

    Args:
        found: the estimates.
        bound: m.
        noun: what is counted: `"records"`, `"trips"`, …
        applied: whether the release has counts, to which the bound was applied.
    """
    records, share = found.records, found.share
    begin, end = f"A bound of {bound:,} leaves out", ""
    if applied:
        begin = f"Counts are of {at_most(noun, bound)}. The bound leaves out"
        end = "; counts are short by about so much"
    return {
        "records_left_out": {"estimate": round(records.estimate), **_ends(records)},
        "share_left_out": {"estimate": round(share.estimate, 4), **_ends(share)},
        "alpha": ALPHA,
        "covers": COVERS,
        "summary": (
            f"{begin} about {percent(share.estimate)} of the {noun} (interval {percent(share.ci_lower)} to "
            f"{percent(share.ci_upper)}), about {round(records.estimate):,} (interval {int(records.ci_lower):,} to "
            f"{int(records.ci_upper):,}){end}."
        ),
    }


def left_out_unknown(bound: int, noun: str, *, applied: bool) -> str:
    """The sentence on a bound that is the most records that people are counted by; see `left_out_facts`."""
    begin = f"Counts are of {at_most(noun, bound)}." if applied else f"A bound of {bound:,} is at_most."
    return f"{begin} How many {noun} of people with more it leaves out is not known: people were counted by so many."


def percent(share: float) -> str:
    """A share as people read it, with three digits."""
    return f"{100 * share:.3g} %"


def _ends(of: Estimated) -> dict[str, float]:
    return {"ci_lower": of.ci_lower, "ci_upper": of.ci_upper}


def described(table: LevelTable, statement: Mapping[str, Any]) -> LevelTable:
    """The table as it is written: its file says what its numbers count, where a contribution bound is enforced."""
    metadata = {} if isinstance(table, FileTable) else description(statement)
    if not metadata:
        return table
    return ChangedTable(
        table, lambda rows, _: rows.replace_schema_metadata({**(rows.schema.metadata or {}), **metadata})
    )


def description(statement: Mapping[str, Any]) -> dict[bytes, bytes]:
    """What the file of a table says about the bound in the metadata of its schema; nothing without an enforced one."""
    if not is_bounded(statement):
        return {}
    facts = statement.get("contributions", {})
    measured = ("records_left_out", "share_left_out", "alpha", "covers")
    said = {
        "max_contributions": statement["max_contributions"],
        "unit": counted_unit(statement),
        "summary": bound_sentence(statement),
        **{key: facts[key] for key in measured if key in facts},
    }
    return {METADATA_KEY: json.dumps(said, ensure_ascii=False).encode()}


def write_contributions(table: LevelTable | None, folder: Path, *, csv: bool) -> dict[str, dict[str, Any]]:
    """Write the table into the folder of a release, where there is one; what the manifest says of its files."""
    files: dict[str, dict[str, Any]] = {}
    if table is not None:
        for write, suffix in ((write_parquet, "parquet"), *(((write_csv, "csv"),) if csv else ())):
            name = f"{FILE}.{suffix}"
            write(table, folder / name)
            files[name] = {"rows": table.num_rows, "sha256": sha256(folder / name)}
    return files


def stored_contributions(place: Path, files: Mapping[str, Mapping[str, Any]]) -> FileTable | None:
    """The table in the folder of a release, if its manifest names one."""
    name = f"{FILE}.parquet"
    return FileTable(place / name, files[name]["rows"]) if name in files else None
