"""Tables of other libraries: data frames as Arrow, and the files that a query reads, as far as the query tells.

A query is a LazyFrame of polars or a DuckDB relation. It is asked for its text. No row is read. See `same_tables`.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Collection, Iterator
from typing import Any

import narwhals as nw
import pyarrow as pa

from tallytree.sources.column_types import NOT_READ
from tallytree.sources.scans import quoted


def arrow_of_frame(table: Any, argument: str, columns: Collection[str] | None = None) -> pa.Table:
    """The columns of a data frame; the index of a pandas frame is left out.

    Args:
        table: the frame.
        argument: its name in messages.
        columns: those that are asked for; None: all. The others have the type `NOT_READ`.

    Raises:
        ValueError: two columns have one name.
        TypeError: a column that is asked for has no Arrow type.
    """
    labels = list(table.columns)
    # A name is not shown: where a file without a header was read, the names are the first record.
    first: dict[Any, int] = {}
    for place, label in enumerate(labels, 1):
        if first.setdefault(label, place) != place:
            raise ValueError(
                f"{argument}: columns {first[label]} and {place} have one name; give each column its own name"
            )
    frame = nw.from_native(table, eager_only=True)
    columns_of_table = []
    for place, label in enumerate(labels, 1):
        if columns is not None and str(label) not in columns:
            columns_of_table.append(pa.nulls(len(frame), NOT_READ))
            continue
        try:
            columns_of_table.append(frame.get_column(label).to_arrow())
            fits = True
        except Exception:  # noqa: BLE001 (every library has exceptions of its own; what they say may quote a record)
            fits = False
        if not fits:
            raise TypeError(
                f"{argument}: column {place} of the {frame.implementation.value} frame mixes types or has one that "
                "Arrow does not know; give it one type (for instance with .astype(str)) or leave it out"
            )
    return pa.table(columns_of_table, [str(label) for label in labels])


_SCAN = re.compile(r" SCAN \[(.+)\]\s*$", re.MULTILINE)
_TEXT = re.compile(
    r"""'(?P<single>(?:[^']|'')*)'|"(?P<double>(?:[^"]|"")*)"|\$(?P<tag>\w*)\$(?P<dollars>[\s\S]*?)\$(?P=tag)\$"""
)
_SINGLE = r"'(?:[^']|'')*'"
_SQL = re.compile(
    r"--.*|/\*[\s\S]*?\*/"  # a comment may hold a single quotation mark, as in: it's
    rf"|(?P<list>\[\s*{_SINGLE}(?:\s*,\s*{_SINGLE})*\s*\])|(?P<escaped>\b[eE]'(?:[^'\\]|\\[\s\S]|'')*')|(?P<one>{_TEXT.pattern})"
)


def is_query(table: Any) -> bool:
    """Whether it is a query of a library that is asked here."""
    return is_lazy_frame(table) or _is_relation(table)


def paths_of_query(table: Any) -> list[list[str]]:
    """Per file scan of a query, the paths, patterns and URLs that it names.

    Of a relation these are the texts in its SQL, whether they are paths or not. What is behind a view, a function or an
    object in memory is not known.
    """
    return list(_of_lazy_frame(table) if is_lazy_frame(table) else _of_relation(table))


def is_lazy_frame(table: Any) -> bool:
    """Whether it is a query of polars."""
    return type(table).__module__.partition(".")[0] == "polars" and type(table).__name__ == "LazyFrame"


def columns_of_relation(table: Any, columns: Collection[str] | None) -> Any:
    """A relation with only the columns that are asked for, where it has all of these; anything else as it is.

    So is one whose columns differ in case alone, which DuckDB does not tell apart.
    """
    names = table.columns if _is_relation(table) else ()
    if (
        not columns
        or not all(each in names for each in columns)
        or len({each.casefold() for each in names}) < len(names)
    ):
        return table
    return table.project(", ".join(quoted(name) for name in names if name in columns))


def _is_relation(table: Any) -> bool:
    return type(table).__name__ == "DuckDBPyRelation" and hasattr(table, "sql_query")


def _of_lazy_frame(frame: Any) -> Iterator[list[str]]:
    try:
        text = frame.explain(optimized=False)
        scans = [[path] for path in _SCAN.findall(text)]
        if any(", " in path for (path,) in scans):
            # The text shows the first of several files. The plan as JSON has all; it may hold the rows of tables in
            # memory, which take time.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scans = list(_scanned(json.loads(frame.serialize(format="json"))))
    except Exception:  # noqa: BLE001 (what cannot be planned is refused where it is read)
        return
    if any(word in text for word in ("JOIN", "HCONCAT")):
        yield from scans
    elif scans:  # one after the other, so they are files of one table
        yield [path for paths in scans for path in paths]


def _scanned(plan: Any) -> Iterator[list[str]]:
    """The texts below each `Paths` of a plan; polars wraps them in different ways from version to version."""
    if isinstance(plan, dict):
        for key, inside in plan.items():
            if key == "Paths":
                yield list(_leaves(inside))
            else:
                yield from _scanned(inside)
    elif isinstance(plan, list):
        for inside in plan:
            yield from _scanned(inside)


def _leaves(plan: Any) -> Iterator[str]:
    if isinstance(plan, str):
        yield plan
    elif isinstance(plan, dict | list):
        for inside in plan.values() if isinstance(plan, dict) else plan:
            yield from _leaves(inside)


def _of_relation(relation: Any) -> Iterator[list[str]]:
    try:
        query = relation.sql_query()
    except Exception:  # noqa: BLE001 (as above)
        return
    for found in _SQL.finditer(query):
        if texts := found["list"] or found["one"] or (found["escaped"] or "")[1:]:
            yield [_content(text) for text in _TEXT.finditer(texts)]


def _content(text: re.Match[str]) -> str:
    """What stands between the marks."""
    return text["dollars"] or (text["single"] or "").replace("''", "'") or (text["double"] or "").replace('""', '"')
