"""Spark, for one tabulation: a session with settings of its own, whose tables are rows that are never computed again.

A table that `make` keeps is a local checkpoint: it has no lineage. If an executor that holds a part of it is lost, the
work fails; nothing is computed a second time from records that may have changed meanwhile. All statistics are on the
driver before the noise key exists, so a failure here never meets noise.

What Spark says when it fails may quote a record, so its exceptions end here: see `SparkSQLSession._shield`.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tallytree.private.core_dumps import core_dumps_disabled
from tallytree.private.tabulate.in_period import kept_rows
from tallytree.private.tabulate.records import Records, enumerate_names
from tallytree.private.tabulate.renamed_columns import renamed_columns
from tallytree.private.tabulate.spark_answers import Answer, Where, answering
from tallytree.private.tabulate.spark_dialect import PLACE_FUNCTION, rendered
from tallytree.private.tabulate.spark_errors import quiet_driver, refusal
from tallytree.private.tabulate.spark_places import place_function
from tallytree.private.tabulate.spark_reading import arrow_for_spark, frames
from tallytree.sources.failures import SourceError

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
    # Timestamps in nanoseconds are none of Spark's types: see `spark_reading`.
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
