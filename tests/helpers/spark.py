"""A Spark session for tests, and where to look for what it leaves behind."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What Java is told: to compile quickly, not for long runs, and to collect garbage with one thread."""


def started(folder: Path, master: str = "local[2,4]", **conf: str) -> Any:
    """A small session with all its files in a folder: event logs in `events`, shuffled and kept rows in `local`.

    A failed task is tried up to four times, as on a cluster.
    """
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession

    for name in ("events", "local", "warehouse"):
        (folder / name).mkdir(exist_ok=True)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": f"file://{folder / 'events'}",
        # Nothing is compressed, so that a search finds what is there.
        **{f"spark.{what}.compress": "false" for what in ("eventLog", "shuffle", "shuffle.spill", "broadcast", "rdd")},
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
        # Java ends by itself where it did not hear of itself for minutes: the machine may stand still for as long.
        **({} if "cluster" in master else {"spark.network.timeout": "24h", "spark.executor.heartbeatInterval": "12h"}),
        # A process runs hundreds of queries, and nobody looks at what is kept of them.
        **{f"spark.{what}": "1" for what in ("sql.ui.retainedExecutions", "ui.retainedJobs", "ui.retainedStages")},
        # Compiling takes longer than the few rows do. In a cluster (`helpers.spark_cluster`) Spark compiles by itself.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "FALLBACK" if "cluster" in master else "NO_CODEGEN",
    }
    builder = SparkSession.Builder().master(master).appName("tests of tallytree")
    for key, value in (settings | {key.replace("__", "."): value for key, value in conf.items()}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def ended(session: Any) -> bool:
    """Whether the Java process of a session has ended."""
    return session.sparkContext._gateway.proc.poll() is not None


def forget(session: Any) -> None:
    """Make PySpark start Java anew for the next session: by itself it asks the process that has ended."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = session.sparkContext._gateway
    gateway.shutdown()
    with suppress(BrokenPipeError):  # what it was told last has not arrived
        gateway.proc.stdin.close()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def files_with_rows(folder: Path) -> list[str]:
    """The files in which Spark keeps or shuffles rows."""
    return sorted(
        file.name
        for file in (folder / "local").rglob("*")
        if file.is_file() and file.name.startswith(("shuffle_", "rdd_", "temp_", "broadcast_"))
    )


def bytes_of(folder: Path) -> bytes:
    """All that is in the files of a folder, one after the other."""
    return b"\n".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def saved(made: Any, folder: Path) -> dict[str, bytes]:
    """All files of a release, but for what its manifest says of software and of the kind of table, and its digest."""
    made.save(folder)
    files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    manifest = json.loads(files.pop("release.json"))
    manifest["statement"]["software"] = manifest["spec"]["records"] = manifest["digest"] = None
    return {**files, "release.json": json.dumps(manifest).encode()}
