"""Spark, for one tabulation: a session with settings of its own, whose tables are rows that are never computed again.

A table that `make` keeps is a local checkpoint: it has no lineage. If an executor that holds a part of it is lost, the
work fails; nothing is computed a second time from records that may have changed meanwhile. All statistics are on the
driver before the noise key exists, so a failure here never meets noise.

What Spark says when it fails may quote a record, so its exceptions end here: see `SparkSQLSession._shield`.

**Reading.** Data frames and Parquet files are read on the executors; all else goes through the driver, as Arrow.

**Dialect.** sqlglot renders the statements, and our own functions are put in place of their calls. Parameters become
literals here. They are public options (a bound, a range of sizes); a secret is never one of them.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
import sqlglot
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody writes it)
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType
from sqlglot import exp

from tallytree.private.tabulate.columns import kept_rows, renamed_columns
from tallytree.private.tabulate.records import Records, enumerate_names
from tallytree.private.tabulate.spark_answers import Answer, Where, answering, place_function
from tallytree.private.tabulate.spark_errors import quiet_driver, refusal
from tallytree.sources.failures import SourceError
from tallytree.support.spill_folders import core_dumps_disabled


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


SUMS = exp.DataType.build("DECIMAL(38, 0)", dialect="spark")
"""The type of sums: a sum of 64-bit integers is exact in it for 10^19 rows, as in DuckDB's HUGEINT."""

PLACE_FUNCTION = "tallytree_place"
"""The function that a session registers for `keyed_place`; it has the key from the driver (see `spark_answers`)."""


def rendered(query: str, parameters: Mapping[str, object]) -> str:
    """A statement in Spark's dialect.

    Args:
        query: in DuckDB's dialect, with the functions of `session.DUCKDB_FUNCTIONS`.
        parameters: the integers of `$name`.

    Raises:
        ValueError: a parameter that is not an integer, which a plan must not hold.
    """
    tree = sqlglot.parse_one(query, read="duckdb")
    # `find_all` yields a call before the calls within it, so the innermost is replaced first.
    for node in reversed(list(tree.find_all(exp.Anonymous))):
        if node.name.lower() in SPARK_FUNCTIONS:
            node.replace(SPARK_FUNCTIONS[node.name.lower()](*node.expressions))
    for node in list(tree.find_all(exp.Parameter, exp.Placeholder)):
        node.replace(_literal(node.name, parameters))
    text: str = tree.sql(dialect="spark")
    return text


def _literal(name: str, parameters: Mapping[str, object]) -> exp.Expression:
    value = parameters[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"parameter {name!r}: a plan holds integers only")
    return exp.Literal.number(value)


def full_match(content: exp.Expression, pattern: exp.Expression) -> exp.Expression:
    """Spark's patterns are searched for, so both ends are fixed.

    `$` matches before a last line break too; behind an x that is put at the end it matches at the end alone.
    """
    if "\\" in pattern.name:
        raise ValueError("pattern: engines read a backslash in different ways")
    ended = exp.Concat(expressions=[content, exp.Literal.string("x")])
    return exp.RegexpLike(this=ended, expression=exp.Literal.string(f"^({pattern.name})x$"))


def exact_sum(number: exp.Expression) -> exp.Expression:
    """The sum of BIGINT overflows."""
    return exp.Sum(this=exp.Cast(this=number, to=SUMS.copy()))


def utf8_length(content: exp.Expression) -> exp.Expression:
    """The length in bytes."""
    return exp.Anonymous(this="octet_length", expressions=[content])


def utc_day(moment: exp.Expression) -> exp.Expression:
    """The zone of the session is UTC."""
    return exp.Cast(this=moment, to=exp.DataType.build("DATE", dialect="spark"))


def keyed_place(key: exp.Expression, content: exp.Expression) -> exp.Expression:
    """A function of the session, which has the key; the key is no part of the statement."""
    del key
    return exp.Anonymous(this=PLACE_FUNCTION, expressions=[content])


SPARK_FUNCTIONS: dict[str, Callable[..., exp.Expression]] = {
    function.__name__: function for function in (full_match, exact_sum, utf8_length, utc_day, keyed_place)
}
"""Of each function of `session.DUCKDB_FUNCTIONS`, what stands in its place."""


_T = TypeVar("_T")

SETTINGS = {
    # What the statements mean must not depend on what somebody set for other work.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.groupByAliases": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # A file that cannot be read is an error, never a file without records.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Timestamps in nanoseconds are none of Spark's types: see `schema_of`.
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    # Shuffled rows are private: their files are removed when a statement ends.
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    # Of a plan from which parts were taken out while it ran, not all shuffles could be found.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    # The text of plans goes to event logs and to the web page.
    "spark.sql.maxPlanStringLength": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}


WAIT = 10.0
"""How long cleaning up may take at most where an error is on its way, in seconds, for each thing that it does."""


class SparkSQLSession:
    """A Spark session for one tabulation: a `tallytree.private.tabulate.session.Session`.

    Args:
        session: a session that nobody else uses.
        argument: the name of the table of records in messages.
        closing: what is undone at the end.
    """

    spread: ClassVar[bool] = True

    def __init__(self, session: SparkSession, argument: str, closing: ExitStack) -> None:
        self._session = session
        self._argument = argument
        self._closing = closing
        self._kept: dict[str, Any] = {}

    @property
    def spark(self) -> SparkSession:
        """The session itself."""
        return self._session

    def source(self, records: Records) -> tuple[str, dict[str, Any]]:
        """A query that yields the wanted columns under our names, and its parameters (none)."""
        queries = []
        found = self._shield(lambda: frames(self._session, records))
        for i, (frame, types) in enumerate(found):
            self._show(frame, f"records{i}")
            values = [name for name, _ in enumerate_names(records.wanted)]
            kept = kept_rows(records, values, types)
            queries.append(f"SELECT {renamed_columns(records, values, types)} FROM records{i}{kept}")
        return " UNION ALL ".join(queries), {}

    def register(self, name: str, table: pa.Table) -> None:
        """Let statements read a public table under a name."""
        self._show(self._shield(lambda: self._session.createDataFrame(arrow_for_spark(table))), name)

    def make(self, name: str, query: str, **parameters: Any) -> None:
        """Run a query once and keep its rows, on the executors, without their lineage."""
        key = parameters.pop("key", None)
        if key is not None:
            self._serve(key)
        frame = self._run(query, parameters, lambda asked: asked.localCheckpoint(eager=True))
        self._kept[name] = frame
        self._show(frame, name)

    def drop(self, name: str) -> None:
        """Remove the rows that were kept under a name from memory and disks."""
        frame = self._kept.pop(name, None)
        self._shield(lambda: self._session.catalog.dropTempView(name))
        if frame is not None:
            self._shield(lambda: _remove_blocks(frame))

    def run(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run a query and fetch its few rows; see `Session.run`."""
        table = self._run(query, parameters, lambda asked: asked.toArrow())
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def arrays(self, query: str, **parameters: Any) -> list[Any]:
        """Run a query and fetch its columns as arrays; see `Session.arrays`."""
        table = self._run(query, parameters, lambda asked: asked.toArrow())
        return [column.combine_chunks().to_numpy(zero_copy_only=False) for column in table.columns]

    def close(self) -> None:
        """Remove what is kept; after an error as well, as far as Spark still answers.

        Java collects its garbage, so that Spark removes what cannot be removed by name, such as broadcast rows.
        """
        for name in list(self._kept):
            self.drop(name)
        self._shield(lambda: self._session._jvm.System.gc())

    def _show(self, frame: DataFrame, name: str) -> None:
        self._shield(lambda: frame.createOrReplaceTempView(name))

    def _run(self, query: str, parameters: dict[str, Any], work: Callable[[DataFrame], _T]) -> _T:
        """Run a query, and remove the rows that were shuffled for it from the executors' disks."""
        frame = self._shield(lambda: self._session.sql(rendered(query, parameters)))
        try:
            return self._shield(lambda: work(frame))
        finally:
            quietly(lambda: _remove_shuffles(self._session, frame))

    def _serve(self, key: bytes) -> None:
        """Let the tasks of this tabulation fetch the key, until its end."""
        where = self._closing.enter_context(serving(self._session, lambda number: key))
        self._shield(lambda: self._session.udf.register(PLACE_FUNCTION, place_function(where)))

    def _shield(self, work: Callable[[], _T]) -> _T:
        return shielded(work, lambda error: refusal(error, self._argument))


def serving(session: SparkSession, answer: Answer) -> AbstractContextManager[Where]:
    """A server at the driver that the session's tasks can ask; see `spark_answers`."""
    conf = session.sparkContext.getConf()
    host = conf.get("spark.driver.host") or "127.0.0.1"
    return answering(answer, host, conf.get("spark.driver.bindAddress") or host)


def shielded(work: Callable[[], _T], refused: Callable[[Exception], BaseException]) -> _T:
    """What the work returns; an error that it raises becomes the one of ours in its place, which quotes nothing."""
    try:
        return work()
    except SourceError as error:  # in our own words
        told: BaseException = error
    except Exception as error:  # noqa: BLE001 (py4j, Arrow and a user's functions raise whatever they like)
        told = refused(error)
    # Raised out here, so that not even `__context__` holds the original, whose message may quote a record.
    raise told


def _remove_blocks(frame: Any) -> None:
    """Remove the rows of a local checkpoint; Spark itself would only when Java collects its garbage."""
    frame._jdf.queryExecution().analyzed().rdd().unpersist(True)


def _remove_shuffles(session: SparkSession, frame: DataFrame) -> None:
    """Remove the shuffle files of a query that has run."""
    cleaner = session.sparkContext._jsc.sc().cleaner().get()
    for number in _shuffles(frame._jdf.queryExecution().executedPlan()):
        cleaner.doCleanupShuffle(number, True)


def _shuffles(plan: Any) -> Iterator[int]:
    """The numbers of the shuffles of a physical plan."""
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        yield from _shuffles(plan.executedPlan())
    elif kind.endswith("QueryStageExec"):
        yield from _shuffles(plan.plan())
    if kind == "ShuffleExchangeExec":
        yield plan.shuffleId()
    children = plan.children()
    for place in range(children.size()):
        yield from _shuffles(children.apply(place))


@contextmanager
def session(spark: SparkSession, argument: str) -> Iterator[SparkSQLSession]:
    """A session beside the user's, on the same executors, with the user's settings and above them ours.

    Nothing of it is left: its views end with it, its kept rows are removed, and its jobs are canceled, also after an
    error or an interruption.
    """
    tag = f"tallytree-{uuid.uuid4().hex}"
    with core_dumps_disabled(), quiet_driver(spark), ExitStack() as closing:
        own = shielded(lambda: _beside(spark), lambda error: refusal(error, argument))
        db = SparkSQLSession(own, argument, closing)
        shielded(lambda: spark.sparkContext.addJobTag(tag), lambda error: refusal(error, argument))
        try:
            yield db
        except BaseException:
            quietly(lambda: spark.sparkContext.cancelJobsWithTag(tag))
            quietly(lambda: _wait_for_tasks(spark))
            quietly(db.close)
            raise
        finally:
            quietly(lambda: spark.sparkContext.removeJobTag(tag))
        db.close()


def _wait_for_tasks(spark: SparkSession) -> None:
    """Wait until no task runs, for at most `WAIT`; those of other jobs are waited for, too.

    Of a task that ends later, Spark's log, which is on again, says why its job failed.
    """
    tracker, end = spark.sparkContext._jsc.sc().statusTracker(), time.monotonic() + WAIT
    while any(each.numRunningTasks() for each in tracker.getExecutorInfos()) and time.monotonic() < end:
        time.sleep(0.05)


def _beside(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    for name, value in spark.conf.getAll.items():
        if own.conf.isModifiable(name):
            own.conf.set(name, value)
    for name, value in SETTINGS.items():
        own.conf.set(name, value)
    return own


def quietly(work: Callable[[], Any]) -> None:
    """Clean up where the error that is on its way matters more; Spark may be gone."""
    worker = threading.Thread(target=_without_errors, args=(work,), daemon=True)
    worker.start()
    worker.join(timeout=WAIT)


def _without_errors(work: Callable[[], Any]) -> None:
    from contextlib import suppress

    with suppress(Exception):
        work()
