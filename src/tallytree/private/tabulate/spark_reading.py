"""How Spark reads records: data frames and Parquet files on the executors; all else through the driver, as Arrow."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody writes it)
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType

from tallytree.private.tabulate.records import Records


def frames(session: SparkSession, records: Records) -> list[tuple[DataFrame, tuple[pa.DataType, ...]]]:
    """The wanted columns in their order, named c0, c1, …, and their types; a frame for each schema among files."""
    if isinstance(records.source, DataFrame):
        (layout,) = records.layouts
        return [(_wanted(_in_session(session, records.source), layout.positions), layout.types)]
    if records.local_parquet and not _named_by_folders(records):
        with suppress(
            AnalysisException, ArithmeticException
        ):  # of a column, wanted or not, Spark's own reader does not know the type
            scanned = [session.read.parquet(*map(_literal_path, layout.paths)) for layout in records.layouts]
            pairs = zip(scanned, records.layouts, strict=True)
            return [(_wanted(frame, layout.positions), layout.types) for frame, layout in pairs]
    # Columns from the names of folders are checked against those in the files where these are streamed.
    tables = (rows.read_all() if isinstance(rows, pa.RecordBatchReader) else rows for rows in records.streams())
    sent = (session.createDataFrame(arrow_for_spark(table)) for table in tables)
    return [(frame, layout.types) for frame, layout in zip(sent, records.layouts, strict=True)]


def _named_by_folders(records: Records) -> bool:
    """Whether a wanted column is in the names of the files' folders, and maybe in the files too."""
    files: Any = records.source
    wanted = {column.name for column in records.wanted}
    paths = (path for layout in records.layouts for path in layout.paths)
    return any(wanted & dict(files.partition_values(path)).keys() for path in paths)


def schema_of(frame: DataFrame, argument: str) -> pa.Schema:
    """The columns of a data frame; a type that Arrow does not know is a struct without fields, which no use allows.

    Raises:
        ValueError: the query of the data frame may yield other rows each time: a part that Spark computes again (a lost
            executor, a second stage) would not be the part that was counted.
    """
    if not frame._jdf.queryExecution().analyzed().deterministic():
        raise ValueError(
            f"{argument}: the data frame's query is not deterministic (rand(), uuid() or the like); write its rows to "
            "a table first, and give that"
        )
    return pa.schema([(field.name, _arrow_type(field.dataType)) for field in frame.schema.fields])


def _arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, StringType):  # also one with a length or a collation
        return pa.string()
    try:
        return to_arrow_type(kind)
    except Exception:  # noqa: BLE001 (Spark has an error of its own for each kind)
        return pa.struct([])


def _wanted(frame: DataFrame, positions: tuple[int, ...]) -> DataFrame:
    """Columns are addressed by position, and texts compared byte by byte, whatever their collation is."""
    named = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    chosen = []
    for place, position in enumerate(positions):
        column = F.col(f"c{position}")
        if isinstance(frame.schema.fields[position].dataType, StringType):
            column = column.cast("string")
        chosen.append(column.alias(f"c{place}"))
    return named.select(*chosen)


def _in_session(session: SparkSession, frame: DataFrame) -> DataFrame:
    """The same query in another session on the same executors."""
    plan = frame._jdf.queryExecution().analyzed()
    dataset = session._jvm.org.apache.spark.sql.classic.Dataset
    return type(frame)(dataset.ofRows(session._jsparkSession, plan), session)


def arrow_for_spark(table: pa.Table) -> pa.Table:
    """The same values in types that Spark reads; a label or an id has the same text in both."""
    return pa.table([_column_for_spark(column) for column in table.columns], names=table.column_names)


def _column_for_spark(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _column_for_spark(column.cast(kind.value_type))
    if pa.types.is_unsigned_integer(kind):
        return column.cast(pa.decimal128(20, 0) if kind.bit_width == 64 else pa.int64())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_date64(kind):
        return column.cast(pa.date32())
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.string())
    return column


def _literal_path(path: str) -> str:
    """A path that Hadoop's globbing takes for what it is."""
    escaped = "".join(f"\\{letter}" if letter in "*?[]{}\\," else letter for letter in str(Path(path).absolute()))
    return f"file:{escaped}"
