"""What is told of an error of Spark: its kind and the remedy, and never its text, which may quote a record."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.logger import PySparkLogger

_CAUSES: tuple[tuple[tuple[str, ...], type[Exception], str], ...] = (
    (
        ("No space left on device", "DiskErrorException", "Disk quota exceeded"),
        OSError,
        "the disk of Spark's local folders is full; give spark.local.dir more room",
    ),
    (
        ("spark.driver.maxResultSize", "maxResultSize"),
        MemoryError,
        "the statistics of the leaves do not fit the driver; raise spark.driver.maxResultSize and its memory",
    ),
    (
        ("OutOfMemory", "UNABLE_TO_ACQUIRE_MEMORY", "MemoryError"),
        MemoryError,
        "memory ran out while the records were grouped; give the executors more memory, or use more partitions "
        "(spark.sql.shuffle.partitions)",
    ),
    (
        ("tallytree-key",),
        OSError,
        "an executor could not fetch from the driver what it needs to bound contributions; let executors connect to "
        "spark.driver.host, on any port",
    ),
    (
        ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Checkpoint block", "ExecutorLost", "FetchFailed", "MetadataFetchFailed"),
        OSError,
        "an executor was lost with rows that it held; nothing was released, run it again",
    ),
    (
        ("FileNotFoundException", "FAILED_READ_FILE.FILE_NOT_EXIST", "AccessDenied", "Permission denied"),
        OSError,
        "a file cannot be read, or was removed or replaced meanwhile; nothing was released",
    ),
    (
        ("Py4JNetwork", "Py4JError: Answer", "Connection refused", "SparkContext was shut down",
         "SparkContext has been", "stopped SparkContext", "_jsc", "_jvm", "NO_ACTIVE_SESSION",
         "cancelled because SparkContext"),
        OSError,
        "Spark was stopped, or its process has ended; nothing was released, start a session and run it again",
    ),
)  # fmt: skip
"""What is looked for in an error's text, the kind of our error, and what it says; the first that fits."""


_WORK_CAUSES: tuple[tuple[tuple[str, ...], type[Exception], str], ...] = (
    (
        ("tallytree-versions", "No module named 'tallytree'"),
        OSError,
        "the executors lack tallytree, or have other versions of Python, tallytree, numpy, numba or pyarrow than the "
        "driver, so that numbers could differ; install the same ones there",
    ),
    (
        ("tallytree-key",),
        OSError,
        "an executor could not fetch from the driver what it needs to work on a band; let executors connect to "
        "spark.driver.host, on any port",
    ),
    (
        ("spark.driver.maxResultSize", "maxResultSize"),
        MemoryError,
        "what was made of a band does not fit the driver; raise spark.driver.maxResultSize and its memory, or give "
        "less memory, for smaller bands",
    ),
    (
        ("OutOfMemory", "UNABLE_TO_ACQUIRE_MEMORY", "MemoryError"),
        MemoryError,
        "an executor ran out of memory while it worked on a band; give less memory, for smaller bands, or raise "
        "spark.executor.memoryOverhead",
    ),
    (
        ("No space left on device", "DiskErrorException", "Disk quota exceeded"),
        OSError,
        "a disk is full; give spark.local.dir, or the driver's temporary folder, more room",
    ),
    (
        ("ExecutorLost", "Python worker exited", "worker crashed", "Connection reset"),
        OSError,
        "the work on a band was lost with its executor each time that it was tried; where executors are killed for "
        "their memory, give less memory, for smaller bands, or raise spark.executor.memoryOverhead",
    ),
    (
        ("Py4JNetwork", "Py4JError: Answer", "Connection refused", "SparkContext was shut down",
         "SparkContext has been", "stopped SparkContext", "_jsc", "_jvm", "NO_ACTIVE_SESSION",
         "cancelled because SparkContext"),
        OSError,
        "Spark was stopped, or its process has ended, while bands were worked on; start a session",
    ),
)  # fmt: skip
"""As `_CAUSES`, of work on bands. A release may be paid for by then; the pipeline adds what is to be done."""


def refusal_of_work(error: Exception) -> BaseException:
    """Our error in place of one of Spark's while executors work on bands."""
    text = f"{type(error).__name__}: {error}"
    for signs, kind, says in _WORK_CAUSES:
        if any(sign in text for sign in signs):
            return kind(f"engine: {says}; nothing was published")
    return OSError(
        f"engine: Spark could not work on a band ({type(error).__name__}); nothing was published, and what it said is "
        "withheld because it may be about the records"
    )


def refusal(error: Exception, argument: str) -> BaseException:
    """Our error in place of one of Spark's (or of what a user's function raised in it).

    Args:
        error: what was raised.
        argument: the name of the table of records in messages.
    """
    text = f"{type(error).__name__}: {error}"
    for signs, kind, says in _CAUSES:
        if any(sign in text for sign in signs):
            return kind(f"{argument}: {says}")
    return ValueError(
        f"{argument}: Spark cannot read or group the records ({type(error).__name__}); what it said is withheld "
        "because it may quote a record. Do the files have one schema, and does the data frame's own query work?"
    )


class _Quiet:
    """How many tabulations run in this process, and how loud Spark was before the first of them."""

    lock = threading.Lock()
    users = 0
    py4j_level = logging.NOTSET
    before: tuple[str | None, list[bool]] = (None, [])


@contextmanager
def quiet_driver(spark: Any) -> Iterator[None]:
    """Keep Spark's own log lines of the driver off while records are read: a failed task's line may quote a record.

    They are put back afterwards. Executors in other processes write their own logs.
    """
    # These write each error of a query to standard error.
    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
    with _Quiet.lock:
        if _Quiet.users == 0:
            _Quiet.before = (_root_level(spark), [each.disabled for each in loggers])
            _set_root_level(spark, "OFF")
            for each in loggers:
                each.disabled = True
            # At the level DEBUG py4j writes all that it sends and receives.
            _Quiet.py4j_level = logging.getLogger("py4j").level
            logging.getLogger("py4j").setLevel(logging.CRITICAL)
        _Quiet.users += 1
    try:
        yield
    finally:
        with _Quiet.lock:
            _Quiet.users -= 1
            if _Quiet.users == 0:
                level, disabled = _Quiet.before
                _set_root_level(spark, level)
                logging.getLogger("py4j").setLevel(_Quiet.py4j_level)
                for each, was in zip(loggers, disabled, strict=True):
                    each.disabled = was


def _root_level(spark: Any) -> str | None:
    """The level of Log4j in the driver's Java process; None where that has ended."""
    try:
        return str(spark._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().name())
    except Exception:  # noqa: BLE001 (py4j has many for a process that has ended)
        return None


def _set_root_level(spark: Any, level: str | None) -> bool:
    """Whether it could be set: a process that has ended has no log."""
    if level is None:
        return False
    try:
        log4j = spark._jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setRootLevel(log4j.Level.getLevel(level))
    except Exception:  # noqa: BLE001
        return False
    return True
