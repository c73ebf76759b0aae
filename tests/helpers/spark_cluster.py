"""A program: a cluster of two executors in processes of their own, which are killed; it prints what came of each run.

Its argument is a folder for all files.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pyarrow as pa

import tallytree as tt
from helpers.inside import (
    ContributionBound,
    CountRecords,
    CountsArguments,
    ForcedCut,
    KeyedNoise,
    LeafKey,
    make_release,
    plan_counts,
)
from helpers.spark import JAVA, bytes_of, started
from tallytree.engines import Spark
from tallytree.private.tabulate import spark_session

SECRET = "s3cr3t-of-a-record"  # noqa: S105
KEY = bytes(range(100, 132))


def executors() -> list[int]:
    """The processes of executors below this one."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        backend = b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words
        if backend and f"-Dtallytree.test={sys.argv[1]}".encode() in words:
            found.append(int(place.parent.name))
    return found


def band_runs(engine: Spark, said: dict[str, object]) -> list[bytes]:
    """A release in bands, during which all executors are killed; and the noise subkeys that tasks were given."""
    from tallytree.private.tabulate import spark_bands

    leaves = pa.table({"county": [f"c{i // 4}" for i in range(16)], "town": range(16)})
    tree = tt.Hierarchy.from_table(leaves, ["county", "town"])
    below, done, killed, subkeys = KeyedNoise.below, spark_bands._Pass.done, [], []

    def noted_below(self: KeyedNoise, asked: object) -> object:
        noise = below(self, asked)
        subkeys.extend(noise.shown_to_task().values())
        return noise

    def kill_and_do(self: object, number: int) -> Path:
        if number == 1 and not killed:
            killed.append(number)
            for pid in executors():
                os.kill(pid, signal.SIGKILL)
        return done(self, number)

    KeyedNoise.below, spark_bands._Pass.done = noted_below, kill_and_do
    records = leaves.take(pa.array([i % 7 for i in range(90)]))
    given = {"mechanism": tt.counts.TopDown(), "neighboring": "add_remove", "seed": 3}

    def counted(**options: object) -> list[int]:
        planned = plan_counts(CountsArguments(records, tree, tt.Budget(epsilon=1), **given, **options))
        forced = ForcedCut(1, 4) if options else None
        return make_release(planned, forced=forced).table("town")["count"].to_pylist()

    said["bands on this machine"] = counted()
    try:
        said["bands"] = counted(memory="1GB", engine=engine)
    except Exception as error:  # noqa: BLE001 (what is raised is what is tested)
        said["bands"] = f"{type(error).__name__}: {error}"
    said["bands killed"] = len(killed)
    return subkeys


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    os.environ["SPARK_WORKER_DIR"] = str(folder / "work")
    spark = started(
        folder, "local-cluster[2,1,600]", spark__speculation="true", spark__speculation__interval="50ms",
        spark__executor__memory="600m", spark__executor__extraJavaOptions=f"{JAVA} -Dtallytree.test={folder}",
    )  # fmt: skip
    tree = tt.Hierarchy.from_table(pa.table({"leaf": ["x", "y"]}), ["leaf"])
    people = pa.table({"leaf": ["x", "y"] * 50, "who": [i % 9 for i in range(100)]})
    asked = CountRecords((LeafKey(tree, ("leaf",)),), bound=ContributionBound("who", 2, KEY))
    engine, said = Spark(spark), {}

    def run(name: str, table: object) -> None:
        try:
            said[name] = engine.tabulate(table, asked).counts.tolist()
        except Exception as error:  # noqa: BLE001 (what is raised is what is tested)
            said[name] = f"{type(error).__name__}: {error}"

    run("whole", people)
    seen = b"".join(Path(f"/proc/{pid}/environ").read_bytes() for pid in [*executors(), os.getpid()])
    seen += b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in executors())
    make, times = spark_session.SparkSQLSession.make, []

    def make_and_kill(self: object, name: str, query: str, **parameters: object) -> None:
        make(self, name, query, **parameters)
        if not times:
            times.append(name)
            for pid in executors():
                os.kill(pid, signal.SIGKILL)

    spark_session.SparkSQLSession.make = make_and_kill
    run("killed", people)
    run("again", people)
    subkeys = band_runs(engine, said)
    texts = pa.table({"leaf": ["x"], "who": [1], "text": [SECRET]})
    run("failing", spark.createDataFrame(texts).selectExpr("leaf", "CAST(text AS INT) AS who"))
    said["executors"] = len(executors())
    spark.stop()
    run("stopped", people)
    seen += bytes_of(folder / "events") + bytes_of(folder / "local")
    forms = [form for key in (KEY, *subkeys) for form in (key, key.hex().encode(), key.hex().upper().encode())]
    said["key seen"] = len(subkeys) == 0 or any(form in seen for form in forms)
    sys.stdout.write(json.dumps(said))


main()
