"""Tabulation on a Spark cluster, or on Spark on this machine. Nothing of Spark is imported before an engine works."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from tallytree.private.band_work import BandPlace
from tallytree.private.engines.engine import Found, Request
from tallytree.private.tabulate.records import Records, check_records, close, located_records
from tallytree.sources.column_types import is_text_type, type_in_messages
from tallytree.support.validate import require_packages, safe_text

LEAST_SPARK = (4, 1)
"""Spark's first version with all that is used."""

_ALWAYS = {"spark.ui.enabled": "false", "spark.eventLog.enabled": "false", "spark.ui.showConsoleProgress": "false"}
"""Of a session that is made here, unless `conf` says otherwise: what shows or keeps how many rows a task read."""

_FILES = re.compile(r"[/\\*?\[]|\.(parquet|pq|csv|csv\.gz)$", re.IGNORECASE)

_OF_BOUNDS, _OF_BANDS = ("pyarrow", "numpy"), ("pyarrow", "numpy", "numba", "tallytree")
"""Modules that workers import for contribution bounds, and for bands."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True)
class Spark:
    """Tabulates with Spark SQL: the records stay on the executors, and the statistics of the leaves come to the driver.

    All else (noise, mechanisms, files) happens on the driver, as with `Local`. For the same records the statistics are
    those of `Local`, and so is a release with a seed or of a named run.

    Records may be a Spark data frame, the name of a table of the catalog, a Parquet file, folder or glob that every
    executor can read at the same path, or what `Local` takes; CSV files and tables in memory go through the driver.
    What is read, shuffled and kept lies on executors, where Spark keeps it, until the tabulation ends:
    docs/how-to/large-data.md.

    Attributes:
        session: the Spark session; by default the active one, or one that is made from the next two.
        master: of a session that is made, for instance `"local[4]"` or `"spark://host:7077"`.
        conf: settings of a session that is made.

    Raises:
        TypeError: the session is none of Spark's, or is one of Spark Connect; another field is of the wrong kind.
        ValueError: `master` or `conf` together with a session.
    """

    session: Any = field(default=None, repr=False)
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    largest_band: ClassVar[int] = 2**31
    """Bytes that the work on a band may take on an executor: what is made of one fits Spark's limits for a result."""

    name: ClassVar[str] = "spark"
    software: ClassVar[tuple[str, ...]] = ("pyspark", "sqlglot")
    support: ClassVar[dict[str, str]] = {
        "Parquet files": "scanned by the executors, under one path",
        "CSV files": "read on the driver, into memory",
        "table in memory, record batches, DuckDB relation": "sent from the driver, through memory",
        "Spark data frame": "its query runs on the executors",
        "name of a table in Spark's catalog": "its query runs on the executors",
        "address of files (`s3://…`)": "read on the driver, into memory",
        "group's id": "text, integer, decimal without places, date",
        "person's id": "text, integer",
    }

    def __post_init__(self) -> None:
        if self.master is not None and not isinstance(self.master, str):
            raise TypeError(f"master: {safe_text(self.master)} must be text such as 'local[4]'")
        texts = isinstance(self.conf, Mapping) and all(
            isinstance(key, str) and isinstance(value, str) for key, value in self.conf.items()
        )
        if not texts:
            raise TypeError("conf: it must be a mapping of names of settings to texts")
        if self.session is None:
            return
        if self.master is not None or self.conf:
            raise ValueError("session: it has its master and settings already; give either it or master and conf")
        _require_classic(self.session)

    def check(self, table: Any, request: Request[Found]) -> None:
        """Raise what `tabulate` would raise for the columns and their types; no row is read.

        A table that Spark alone can look up starts a session, files do not.
        """
        close(self._records(table, request).source, table)

    def tabulate(self, table: Any, request: Request[Found]) -> Found:
        """The true statistics that the request asks for: see `Engine`.

        Raises:
            ModuleNotFoundError: the extra `tallytree[spark]` is not installed.
            OSError: besides what `Engine` says, Spark does not start, was stopped, or lost an executor; no statistics
                exist then, and nothing was released.
        """
        request.require_bound()
        _require_spark()
        spark = self._started()
        if getattr(request, "bound", None) is not None:
            require_workers(spark, _OF_BOUNDS)
        records = self._records(table, request)
        try:
            from tallytree.private.tabulate import spark_session

            with spark_session.session(spark, request.argument) as db:
                return request.statistics(db, records)
        finally:
            close(records.source, table)

    @contextmanager
    def bands(self, folder: Path) -> Iterator[BandPlace]:
        """Where bands are worked on, with `memory`: on the executors. See `tallytree.private.band_work`."""
        _require_spark()
        from tallytree.private.tabulate import spark_bands

        require_workers(self._started(), _OF_BANDS)
        with ExitStack() as closing:
            yield spark_bands.SparkBands(self._started, folder, closing)

    def _records(self, table: Any, request: Request[Found]) -> Records:
        wanted: tuple[Any, ...] = (request.keys, request.others, request.argument)
        drop = request.drop_unknown
        frame = self._frame(table, request.argument)
        if frame is None:
            records = check_records(table, *wanted, drop_unknown=drop)
        else:
            from tallytree.private.tabulate import spark_session

            schema = spark_session.schema_of(frame, request.argument)
            records = located_records(frame, [((), schema)], *wanted, drop_unknown=drop)
        _require_ids_with_one_text(records)
        return records

    def _frame(self, table: Any, argument: str) -> Any:
        """The data frame that a table is, or is the name of; None for what is read without the catalog."""
        module = type(table).__module__.split(".")
        if module[:2] == ["pyspark", "sql"] and type(table).__name__ == "DataFrame":
            _require_spark()
            _require_classic(table.sparkSession)
            return table
        if not isinstance(table, str) or not names_no_file(table) or os.path.exists(table):  # noqa: PTH110
            return None
        # Spark's own reader would read a file twice that two names lead to, and let a folder's name replace a column.
        if _ADDRESS.match(table):
            return None
        _require_spark()
        return _table(self._started(), table, argument)

    def _started(self) -> Any:
        """The session.

        Raises:
            OSError: it was stopped, its Java has ended, or none can be made.
            ValueError: Spark is too old.
        """
        from py4j.protocol import Py4JError

        try:
            session = self.session or _active()
            context = None if session is None else session.sparkContext
            stopped = context is not None and (context._jsc is None or context._jsc.sc().isStopped())
        except (Py4JError, ConnectionError):  # nobody answers
            stopped = True
        if stopped:
            raise OSError(
                "engine: the Spark session was stopped, or the Java process that it runs in has ended; start another "
                "one and give that (where Java has ended, in a new Python process)"
            )
        session = session or _made(self.master, self.conf)
        _require_version(session.version, "engine: the session's Spark")
        return session


def names_no_file(table: str) -> bool:
    """Whether a text is an address that Spark reads, or may be the name of a table in its catalog."""
    return bool(_ADDRESS.match(table)) or (bool(table) and _FILES.search(table) is None)


def _require_spark() -> None:
    """Refuse to go on without the extra's packages, or with an older PySpark.

    Raises:
        ModuleNotFoundError: one is not installed.
        ValueError: PySpark is too old.
    """
    require_packages("engine", "Spark", ("pyspark", "sqlglot", "cryptography"), "spark")
    _require_version(version("pyspark"), "engine: PySpark")


def _require_version(found: str, what: str) -> None:
    if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < LEAST_SPARK:
        raise ValueError(
            f"{what} is version {found}; tallytree needs {'.'.join(map(str, LEAST_SPARK))} or newer: "
            'pip install "tallytree[spark]", on a cluster of that version'
        )


def require_workers(session: Any, modules: Sequence[str]) -> None:
    """Run one task that has no records, once per session, and refuse workers that could not do the work.

    Bands are worked on after the payment, so this is before it.

    Args:
        session: Spark's.
        modules: what the work imports.

    Raises:
        OSError: they run another Python, or one without these modules.
    """
    if set(modules) <= getattr(session, "_tallytree_checked", set()):
        return

    def worker(batches: Any) -> Any:  # sent by value: the workers may not have tallytree
        import importlib.util
        import platform
        import sys

        import pyarrow

        missing = ", ".join(name for name in modules if importlib.util.find_spec(name) is None)
        about = {"executable": [sys.executable], "version": [platform.python_version()], "missing": [missing]}
        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict(about)

    from tallytree.private.tabulate.spark_errors import quiet_driver

    found, said = None, ""
    try:
        asked = session.range(0, 1, 1, 1).mapInArrow(worker, "executable string, version string, missing string")
        with quiet_driver(session):  # Java's log of the failed task has thirty lines
            (found,) = asked.collect()
    except Exception as error:  # noqa: BLE001 (it is about no record, but long, and different in each version)
        said = str(error)
    wanted = platform.python_version()
    if found is None:
        other = "PYTHON_VERSION_MISMATCH" in said
        problem = "run another version of Python" if other else "cannot run a task of this Python"
    elif found["version"].split(".")[:2] != wanted.split(".")[:2]:
        problem = f"run {found['executable']}, which is Python {found['version']}"
    elif found["missing"]:
        problem = f"run {found['executable']}, which does not have {found['missing']}"
    else:
        session._tallytree_checked = {*modules, *getattr(session, "_tallytree_checked", ())}
        return
    raise OSError(
        f"engine: Spark's workers {problem}; this one is {sys.executable}, Python {wanted}. Give every "
        "worker such a Python, with tallytree and pyarrow, and set the environment variable PYSPARK_PYTHON to its "
        "path. To set it on this machine suffices, before the session is made"
    )


def _require_classic(session: Any) -> None:
    module = type(session).__module__
    if not module.startswith("pyspark.sql"):
        raise TypeError(f"session: {type(session).__name__} must be a pyspark.sql.SparkSession")
    if module.startswith("pyspark.sql.connect"):
        raise TypeError(
            "session: Spark Connect cannot be used, because its client cannot keep a tabulation apart from other work; "
            "run tallytree on the driver, with a classic SparkSession"
        )


def _active() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _made(master: str | None, conf: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    if master is None or master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers on this machine run this Python
    builder = SparkSession.Builder().appName("tallytree")
    if master is not None:
        builder = builder.master(master)
    for key, value in {**_ALWAYS, **conf}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # noqa: BLE001 (Java that is missing or too old, settings that Spark refuses)
        kind = type(error).__name__
    raise OSError(
        f"engine: Spark did not start ({kind}); it needs Java 17 or newer on the path or in JAVA_HOME, and a master "
        "that can be reached"
    )


def _table(spark: Any, name: str, argument: str) -> Any:
    # Raised outside the `except`: what Spark says is neither printed with it nor found in its `__context__`.
    try:
        frame = spark.table(name)
    except Exception:  # noqa: BLE001
        frame = None
    if frame is not None:
        return frame
    raise ValueError(
        f"{argument}: {name!r} is neither a file nor a table of Spark's catalog; give the path of Parquet files, or "
        "the name as spark.table() takes it"
    )


def _require_ids_with_one_text(records: Records) -> None:
    """Ids are compared as texts where contributions are bounded; of these types it is the same in every engine.

    Raises:
        TypeError: a group's id is of another type.
    """
    for layout in records.layouts:
        for column, kind in zip(records.wanted, layout.types, strict=True):
            plain = kind.value_type if pa.types.is_dictionary(kind) else kind
            whole = pa.types.is_decimal(plain) and plain.scale == 0
            known = is_text_type(plain) or pa.types.is_integer(plain) or pa.types.is_null(plain) or whole
            if column.use in ("group", "household", "person") and not (known or pa.types.is_date32(plain)):
                raise TypeError(
                    f"{records.argument}: column {column.name!r} ({column.argument}) holds {type_in_messages(kind)}, "
                    "whose text differs between engines; cast the column to text first, or use tt.engines.Local()"
                )
