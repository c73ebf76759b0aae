"""Data dictionaries beside exported files: Frictionless `datapackage.json`, and CSVW `csv-metadata.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tallytree.release.files import sha256, write_text
from tallytree.views.export.dictionary import Column, about_text, title_of
from tallytree.views.export.naming import resource_names, variable_names
from tallytree.views.export.tables import ExportedTable

DATA_PACKAGE = "datapackage.json"
CSVW = "csv-metadata.json"


class Described(Protocol):
    """What a data package says of a file."""

    @property
    def name(self) -> str:
        """Of the table."""

    @property
    def text(self) -> str:
        """What it holds, in sentences."""

    @property
    def columns(self) -> Sequence[Column]:
        """Its columns, described."""


def write_data_package(
    folder: Path,
    files: Mapping[str, Described],
    statement: Mapping[str, Any],
    *,
    kind: str,
    notes: Sequence[str] = (),
    columns: Mapping[str, Sequence[Column]] | None = None,
    file: str = DATA_PACKAGE,
    first: Sequence[str] = (),
) -> None:
    """Write a Frictionless Data Package for the files of a folder.

    Args:
        folder: of the files.
        files: by path below the folder, the table that each file holds.
        statement: of the release.
        kind: `"csv"` or `"parquet"`.
        notes: paragraphs to add to the description.
        columns: of files whose columns are not those of their tables.
        file: the name of the file to write.
        first: the first of them is the title of the whole, before that of the release; all begin the description.
    """
    names = resource_names(table.name for table in files.values())
    resources = [
        _resource(name, path, table, folder, kind, (columns or {}).get(path, table.columns))
        for name, (path, table) in zip(names, files.items(), strict=True)
    ]
    package = {
        "name": "tallytree-release",
        "title": ". ".join((*first[:1], title_of(statement))),
        "description": "\n\n".join((*first, about_text(statement), *notes)),
        "resources": resources,
    }
    _write_json(package, folder / file)


def _resource(
    name: str, path: str, table: Described, folder: Path, kind: str, columns: Sequence[Column]
) -> dict[str, Any]:
    key = [column.name for column in columns if column.role in ("path", "key")]
    file = folder / path
    csv = {"encoding": "utf-8", "dialect": {"delimiter": ",", "quoteChar": '"', "doubleQuote": True}}
    return {
        "name": name,
        "path": path,
        "title": table.name,
        "description": table.text,
        "type": "table",
        "format": kind,
        "mediatype": "text/csv" if kind == "csv" else "application/vnd.apache.parquet",
        **(csv if kind == "csv" else {}),
        "bytes": file.stat().st_size,
        "hash": f"sha256:{sha256(file)}",
        "schema": {
            "fields": [_field(column) for column in columns],
            "missingValues": [""] if any(column.may_be_empty for column in columns) else [],
            **({"primaryKey": key} if key else {}),
        },
    }


def _field(column: Column) -> dict[str, Any]:
    constraints: dict[str, Any] = {} if column.may_be_empty else {"required": True}
    if column.least is not None:
        constraints["minimum"] = column.least
    unit = f" Unit: {column.unit}." if column.unit else ""
    described = {"name": column.name, "type": column.kind, "description": column.description + unit}
    return described | ({"constraints": constraints} if constraints else {})


def write_csvw(
    folder: Path, files: Mapping[str, ExportedTable], statement: Mapping[str, Any], notes: Sequence[str] = ()
) -> None:
    """Write `csv-metadata.json` (W3C CSV on the Web) for the CSV files of a folder.

    Args:
        folder: of the files.
        files: by path below the folder, the table that each file holds.
        statement: of the release.
        notes: paragraphs to add to the description.
    """
    tables = []
    for path, table in files.items():
        names = variable_names(column.name for column in table.columns)
        key = [name for name, column in zip(names, table.columns, strict=True) if column.role in ("path", "key")]
        described = [_csvw_column(name, column) for name, column in zip(names, table.columns, strict=True)]
        tables.append(
            {
                "url": path,
                "dc:title": table.name,
                "dc:description": table.text,
                "tableSchema": {"columns": described, **({"primaryKey": key} if key else {})},
            }
        )
    group = {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "dc:title": title_of(statement),
        "dc:description": "\n\n".join((about_text(statement), *notes)),
        "dialect": {"encoding": "utf-8", "header": True, "commentPrefix": None},
        "tables": tables,
    }
    _write_json(group, folder / CSVW)


def _csvw_column(name: str, column: Column) -> dict[str, Any]:
    unit = f" Unit: {column.unit}." if column.unit else ""
    kind = {"string": "string", "integer": "integer", "number": "double"}[column.kind]
    described = {"name": name, "titles": column.name, "datatype": kind, "dc:description": column.description + unit}
    # An empty label is text, and not a missing cell.
    return described if column.kind == "string" or column.may_be_empty else described | {"required": True}


def _write_json(content: Mapping[str, Any], path: Path) -> None:
    write_text(json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n", path)
