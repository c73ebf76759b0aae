"""SDMX-CSV 2.0, with the structures that it follows as SDMX-JSON 2.0.

One dataflow is about the tables of the release, another about people by their number of records, where these were
counted. The observation status is of SDMX's cross-domain code list CL_OBS_STATUS (version 2.2), and follows from the
verdict of the number, which is the attribute QUALITY: U, "low reliability", where it is unreliable or not
distinguishable from 0; Q, "missing value; suppressed", where such a number is left out; else A, "normal value". Where
no error is known the status is empty.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tallytree.hierarchy import QUALITY
from tallytree.release.quality import NEAR_ZERO, UNRELIABLE
from tallytree.release.remainders import lists_remainders
from tallytree.support.whole_files import flush
from tallytree.views.export.dictionary import Column
from tallytree.views.export.metadata_files import write_data_package
from tallytree.views.export.sdmx_codes import SideCodes
from tallytree.views.export.sdmx_structure import VERSION, Flow, write_structures
from tallytree.views.export.tables import ExportedTable

STRUCTURES = "structure.json"
_AGENCY = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,60}(\.[A-Za-z][A-Za-z0-9_-]{0,60})*")


def checked_agency(agency: object) -> str:
    """The id of the agency, if SDMX allows it.

    Raises:
        ValueError: it does not.
        TypeError: it is no text.
    """
    if not isinstance(agency, str):
        raise TypeError(f"agency: {type(agency).__name__} must be text, such as 'ESTAT'")
    if not _AGENCY.fullmatch(agency):
        raise ValueError(f"agency: {agency[:80]!r} must be letters, digits, _ and -, such as 'ESTAT' or 'SDMX.SUB'")
    return agency


def write_sdmx_files(tables: Sequence[ExportedTable], folder: Path, *, agency: str) -> None:
    """Write an SDMX-CSV file for each table, the structures, and `datapackage.json`.

    Args:
        tables: what to write.
        folder: where to, an empty folder.
        agency: the id of the agency that publishes.
    """
    codes = [SideCodes(side, lists_remainders(tables[0].statement)) for side in tables[0].sides]
    flows: dict[str, Flow] = {}
    files, columns = {}, {}
    for table in tables:
        people = "people" in table.schema.names
        flow = flows.setdefault("people" if people else "numbers", Flow.of(table, () if people else codes, agency))
        flow.add(table)
    for table in tables:
        flow = flows["people" if "people" in table.schema.names else "numbers"]
        path = f"{table.stem}.csv"
        _write_table(table, flow, folder / path)
        files[path] = table
        columns[path] = _described(flow)
    limits = tables[0].thresholds
    note = (
        "OBS_STATUS (SDMX CL_OBS_STATUS 2.2) follows from QUALITY: U (low reliability) where the error of a number is "
        f"more than {limits.with_care:.3g} of the number, or its 90 % interval holds 0; Q (suppressed) where such "
        "a number is left out; else A, or P (provisional); it is empty where no error is known."
    )
    for flow in flows.values():
        flow.text += f"\n\n{note}"
    write_structures(folder / STRUCTURES, [*flows.values()])
    write_data_package(folder, files, tables[0].statement, kind="csv", notes=(note,), columns=columns)


def _described(flow: Flow) -> list[Column]:
    meanings = {"STRUCTURE": "Always dataflow.", "STRUCTURE_ID": "The dataflow.", "ACTION": "I: for information."}
    columns = [Column(name, "string", "constant", "", meaning) for name, meaning in meanings.items()]
    for dimension in flow.dimensions:
        kind = "string" if dimension.codes or dimension.time else "integer"
        columns.append(Column(dimension.id, kind, "key", "", dimension.description))
    number = "number" if flow.fractions else "integer"
    columns.append(Column("OBS_VALUE", number, flow.value_role, "", flow.value_description))
    columns += [Column(each.id, each.kind, "attribute", "", each.description) for each in flow.attributes]
    return columns


def _write_table(table: ExportedTable, flow: Flow, path: Path) -> None:
    writer = None
    try:
        for rows in table.coded_slices():
            made = _observations(rows, flow)
            if writer is None:
                writer = pyarrow.csv.CSVWriter(
                    path, made.schema, write_options=pyarrow.csv.WriteOptions(quoting_header="none")
                )
            writer.write_table(made)
    finally:
        if writer is not None:
            writer.close()
    flush(path)


def _observations(rows: pa.Table, flow: Flow) -> pa.Table:
    count = rows.num_rows
    same = {"STRUCTURE": "dataflow", "STRUCTURE_ID": f"{flow.agency}:{flow.id}({VERSION})", "ACTION": "I"}
    made = {name: pa.repeat(pa.scalar(value, pa.large_string()), count) for name, value in same.items()}
    for dimension in flow.dimensions:
        if dimension.time:
            made[dimension.id] = pa.repeat(pa.scalar(dimension.time, pa.large_string()), count)
        else:
            made[dimension.id] = dimension.codes.of_rows(rows) if dimension.codes else rows.column(dimension.column)
    made["OBS_VALUE"] = rows.column(flow.value)
    for attribute in flow.attributes:
        if attribute.column is None:
            made[attribute.id] = _status(rows, flow.value, normal=flow.normal)
        elif attribute.column in rows.column_names:
            column = rows.column(attribute.column)
            made[attribute.id] = column.cast(pa.large_string()) if attribute.kind == "string" else column
        else:
            kind = {"integer": pa.int64(), "number": pa.float64(), "string": pa.large_string()}[attribute.kind]
            made[attribute.id] = pa.nulls(count, kind)
    return pa.table(made)


def _status(rows: pa.Table, value: str, *, normal: str = "A") -> pa.Array:
    """`U`, `Q` or the code of a normal value for each row; null where no error is known."""
    if "std_dev" not in rows.column_names:
        return pa.nulls(rows.num_rows, pa.large_string())
    verdict = rows.column(QUALITY).cast(pa.large_string())
    poor = pc.is_in(verdict, pa.array([UNRELIABLE, NEAR_ZERO], pa.large_string()))
    status = pc.if_else(poor, pc.if_else(pc.is_null(rows.column(value)), *_codes("Q", "U")), *_codes(normal))
    return pc.if_else(pc.is_valid(verdict), status, pa.scalar(None, pa.large_string()))


def _codes(*codes: str) -> list[pa.Scalar]:
    return [pa.scalar(code, pa.large_string()) for code in codes]
