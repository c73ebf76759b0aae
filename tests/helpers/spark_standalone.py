"""A program: a standalone cluster, a master and two workers, of which one is killed; it prints what came of each run.

Its argument is a folder for all files. Master and workers are Spark's own programs, in processes of this program, which
ends them by their numbers.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark

import tallytree as tt
from helpers.inside import (
    CountsArguments,
    ForcedCut,
    SizesArguments,
    TablesArguments,
    make_release,
    plan_counts,
    plan_group_sizes,
    plan_tables,
)
from helpers.spark import JAVA, saved, started
from tallytree.engines import Spark
from tallytree.ledger import Ledger

LEAVES = pa.table({"county": [f"c{i // 4}" for i in range(16)], "town": [f"t{i}" for i in range(16)]})
TREE = tt.Hierarchy.from_table(LEAVES, ["county", "town"])
SEXES = tt.Hierarchy.from_values("sex", ["f", "m"])
BANDS, FILES = ForcedCut(1, 4), ForcedCut(0, 1, 20)


def _end_with_this_program() -> None:
    """In a program that begins: it ends when this one does, also where this one is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Cluster:
    """A master and two workers of one core each."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.master, self._folder, self._running = f"spark://127.0.0.1:{port}", folder, []
        self._start("master.Master", "--port", str(port))
        self.workers = [
            self._start(
                "worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{i}"), self.master
            )
            for i in range(2)
        ]

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": JAVA}
        environment |= {
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
        }
        command = [f"{environment['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{program}"]
        with (self._folder / "cluster.log").open("ab") as log:
            started_now = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
                stdout=log, stderr=log, env=environment, preexec_fn=_end_with_this_program,
            )  # fmt: skip
        self._running.append(started_now)
        return started_now

    def end(self) -> None:
        """End what still runs."""
        for each in reversed(self._running):
            each.terminate()
        for each in self._running:
            each.wait(60)


def planned(kind: str, **options: Any) -> Any:
    """A planned release of a kind; with a seed where no run is named."""
    rng = np.random.default_rng(4)
    records = LEAVES.take(pa.array((rng.beta(1, 3, 300) * 16).astype(int)))
    options = {"neighboring": "add_remove", **({} if "secret" in options else {"seed": 3}), **options}
    budget = tt.Budget(epsilon=1)
    if kind == "counts":
        return plan_counts(CountsArguments(records, TREE, budget, mechanism=tt.counts.TopDown(), **options))
    if kind == "sizes":
        rows = records.append_column("size", pa.array(rng.integers(1, 9, 300)))
        rows = rows.append_column("groups", pa.array(rng.integers(1, 5, 300)))
        given = {"size": "size", "groups": "groups", "max_group_size": 10}
        return plan_group_sizes(SizesArguments(rows, TREE, budget, **given, **options))
    records = records.append_column("sex", pa.array(rng.choice(["f", "m"], 300)))
    records = records.append_column("who", pa.array(np.arange(300) // 3))
    tables = [("town", "sex"), ("county",), ()]
    given = {"tables": tables, "person": "who", "max_contributions": 2}
    return plan_tables(TablesArguments(records, tt.Product({"area": TREE, "sex": SEXES}), budget, **given, **options))


def killed_run(engine: Spark, cluster: Cluster, folder: Path, said: dict[str, Any]) -> None:
    """A named run of tables, while which a worker is killed; and the same run again, on Spark and here."""
    from tallytree.private.tabulate.spark_session import SparkSQLSession

    ledger = Ledger(folder / "ledger.db")
    named = {"ledger": ledger, "dataset": "people", "run": "one", "secret": tt.new_secret(folder / "secret")}
    make = SparkSQLSession.make

    def make_and_kill(self: object, name: str, query: str, **parameters: object) -> None:
        make(self, name, query, **parameters)
        if cluster.workers[0].poll() is None:
            os.kill(cluster.workers[0].pid, signal.SIGKILL)
            cluster.workers[0].wait()

    SparkSQLSession.make = make_and_kill
    try:
        make_release(planned("tables", engine=engine, memory="2GB", **named), forced=FILES)
        said["killed"] = "made"
    except Exception as error:  # noqa: BLE001 (what is raised is what is tested)
        said["killed"] = f"{type(error).__name__}: {error}"
    said["killed, entries"] = len(ledger.entries()) if (folder / "ledger.db").exists() else 0  # it is made by the first
    again = make_release(planned("tables", engine=engine, memory="2GB", **named), forced=FILES)
    here = make_release(planned("tables", **named))
    two = saved(again, folder / "again"), saved(here, folder / "here")
    for files in two:
        del files["deployment.yaml"]  # it names the engine's software
    said["again"] = two[0] == two[1]
    said["entries"] = len(ledger.entries())


def main() -> None:
    folder = Path(sys.argv[1])
    (folder / "local").mkdir()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    cluster, said = Cluster(folder), {}
    try:
        spark = started(
            folder, cluster.master, spark__executor__memory="600m", spark__executor__cores="1",
            spark__driver__host="127.0.0.1", spark__network__timeout="120s", spark__executor__heartbeatInterval="10s",
        )  # fmt: skip
        status, end = spark.sparkContext._jsc.sc().statusTracker(), time.monotonic() + 120
        while len(status.getExecutorInfos()) < 3 and time.monotonic() < end:  # the driver is one of them
            time.sleep(0.2)
        said["executors"] = len(status.getExecutorInfos()) - 1
        engine = Spark(spark)
        for kind, forced in (("counts", BANDS), ("sizes", BANDS), ("tables", FILES)):
            made = make_release(planned(kind, engine=engine, memory="2GB"), forced=forced)
            said[kind] = saved(made, folder / f"{kind}-spark") == saved(make_release(planned(kind)), folder / kind)
        killed_run(engine, cluster, folder, said)
        said["worker"] = cluster.workers[0].poll()
        spark.stop()
    finally:
        cluster.end()
    sys.stdout.write(json.dumps(said))


main()
