"""Spark: the right release or none, whatever fails; and nothing private where others look."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import ContributionBound, CountRecords, LeafKey
from helpers.inside import spark_engine as engine_module
from helpers.spark import bytes_of, files_with_rows, saved
from tallytree.engines import Spark

pytestmark = pytest.mark.needs("pyspark", "sqlglot")

SECRET = "s3cr3t"  # noqa: S105
TESTS = Path(__file__).parents[1]
PEOPLE = pa.table(
    {
        "state": ["A"] * 60 + ["B"] * 20,
        "county": ["x"] * 50 + ["y"] * 10 + ["x"] * 20,
        "who": [f"{SECRET}{i % 30}" for i in range(80)],
    }
)


def release(areas: Any, records: Any, engine: Any = None) -> tt.Release:
    return tt.release_counts(
        records, areas, tt.Budget(epsilon=1), neighboring="add_remove", person="who", max_contributions=2, seed=7,
        contributions=0.1, engine=engine,
    )  # fmt: skip


@pytest.mark.slow
def test_a_release_is_the_local_engines_byte_for_byte_at_any_number_of_partitions(
    spark: Any, areas: Any, tmp_path: Path
) -> None:
    right = saved(release(areas, PEOPLE), tmp_path / "local")
    assert len(right) > 5
    for partitions in (1, 4, 13):
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
        made = release(areas, spark.createDataFrame(PEOPLE).repartition(partitions), Spark(spark))
        assert saved(made, tmp_path / str(partitions)) == right
    assert {"pyspark", "sqlglot"} <= set(made.statement["software"])
    spark.conf.set("spark.sql.shuffle.partitions", "2")


# Before the tests in which tasks are tried again, whose shuffle files stay: see docs/how-to/large-data.md.
@pytest.mark.slow
def test_nothing_is_left_and_neither_the_key_nor_a_record_is_seen(
    spark: Any, spark_folder: Path, areas: Any, monkeypatch: Any
) -> None:
    from tallytree.private.tabulate.spark_session import SparkSQLSession

    key = bytes(range(50, 82))
    before = set(files_with_rows(spark_folder))  # of tests whose tasks were tried again: see docs/how-to/large-data.md
    drop, seen = SparkSQLSession.drop, []

    def look_and_drop(self: Any, name: str) -> None:
        seen.append(bytes_of(spark_folder))  # while the key is in use
        drop(self, name)

    monkeypatch.setattr(SparkSQLSession, "drop", look_and_drop)
    asked = CountRecords((LeafKey(areas, ("state", "county")),), bound=ContributionBound("who", 1, key))
    Spark(spark).tabulate(PEOPLE, asked)
    assert len(seen) >= 2
    everything = b"".join(seen) + bytes_of(spark_folder) + json.dumps(dict(os.environ)).encode()
    encoded = base64.b64encode(key)[:40]
    assert not any(form in everything for form in (key, key.hex().encode(), key.hex().upper().encode(), encoded))
    events = bytes_of(spark_folder / "events")
    assert b"SparkListenerJobStart" in events
    assert SECRET.encode() not in events
    # Spark removes broadcast rows some time after Java has collected its garbage.
    for _ in range(100):
        if set(files_with_rows(spark_folder)) <= before:
            break
        time.sleep(0.1)
    assert set(files_with_rows(spark_folder)) <= before
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()
    assert [view.name for view in spark.catalog.listTables() if view.name in ("matched", "grouped", "leaves0")] == []


@pytest.fixture
def spark_that_is_damaged(spark: Any, spark_sessions: list[Any]) -> Iterator[Any]:
    """A session that ends with the test: the next test gets a new one, in the same Java process.

    Where shuffle files are lost, Spark forgets the executor that had them. On one machine that is the driver, and from
    then on nothing is removed from its memory. What no longer fits there is written to disks, and of a broadcast that
    was destroyed there is no file: work of later tests would fail.
    """
    yield spark
    spark_sessions.remove(spark)
    spark.stop()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["a worker is killed", "shuffle files are lost"])
def test_tasks_that_are_tried_again_count_every_record_once(
    spark_that_is_damaged: Any, spark_folder: Path, areas: Any, tmp_path: Path, how: str
) -> None:
    spark = spark_that_is_damaged
    marker, local = str(tmp_path / "failed"), str(spark_folder / "local")

    def fail_once(batches: Any) -> Any:
        import os
        from pathlib import Path

        yield from batches
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if how == "a worker is killed":
            os.kill(os.getpid(), 9)
        for file in Path(local).rglob("shuffle_*"):
            file.unlink()
        raise OSError

    frame = spark.createDataFrame(PEOPLE).repartition(3)
    made = release(areas, frame.mapInArrow(fail_once, frame.schema), Spark(spark))
    assert Path(marker).exists()
    assert made.table("county").equals(release(areas, PEOPLE).table("county"))


@pytest.mark.slow
def test_executors_that_are_killed_and_a_query_that_fails(tmp_path: Path) -> None:
    """A cluster of two processes, with speculation: see `helpers.spark_cluster`."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "helpers.spark_cluster", str(tmp_path)],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert sum(said["whole"]) == 18
    assert said["again"] == said["whole"]
    assert said["killed"] == said["whole"] or said["killed"].startswith("OSError: records: an executor was lost")
    assert said["bands killed"] == 1
    assert said["bands"] == said["bands on this machine"] or said["bands"].startswith("OSError: engine: the work on a")
    assert said["failing"].startswith("ValueError: records: Spark cannot read or group the records")
    assert said["stopped"].startswith("OSError: engine: the Spark session was stopped, or")
    assert not said["key seen"]
    assert "s3cr3t" not in done.stdout + done.stderr


FULL_DISK = """
import sys
from pathlib import Path
import pyarrow as pa
import tallytree as tt
from helpers.spark import files_with_rows, started
folder = Path(sys.argv[1])
spark = started(folder, "local[2,2]")
areas = tt.Hierarchy.from_table(pa.table({"leaf": ["x", "y"]}), ["leaf"])
for rows in (100, 400_000, 100):
    people = spark.range(rows).selectExpr("if(id % 2 = 0, 'x', 'y') AS leaf", "concat('s3cr3t', id) AS who")
    try:
        made = tt.release_counts(
            people, areas, tt.Budget(epsilon=1e4), neighboring="add_remove", person="who", max_contributions=1, seed=1,
            engine=tt.engines.Spark(spark),
        )
        print(made.table("leaf")["count"].to_pylist())
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
print(files_with_rows(folder))
"""


@pytest.mark.slow
def test_a_full_disk_is_named_and_what_was_written_is_removed(tmp_path: Path) -> None:
    """Spark's local folder is a file system of 3 MB, which only this process sees."""
    (tmp_path / "local").mkdir()
    mount = f"mount -t tmpfs -o size=3m none '{tmp_path / 'local'}'"
    alone = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*alone, mount], capture_output=True, check=False).returncode != 0:
        pytest.skip("this system lets no user mount a file system of its own")
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*alone, f'{mount} && exec "$@"', "sh", sys.executable, "-W", "ignore", "-c", FULL_DISK, str(tmp_path)],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path}, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    few, many, again, left = done.stdout.splitlines()
    assert few == again == "[50, 50]"
    assert many == ("OSError: records: the disk of Spark's local folders is full; give spark.local.dir more room")
    assert left == "[]"
    assert SECRET not in done.stdout + done.stderr


WITH_A_LEDGER = """
import sys
import time
from pathlib import Path
import pyarrow as pa
import tallytree as tt
from helpers.spark import started
from tallytree.ledger import Ledger

folder = Path(sys.argv[1])
areas = tt.Hierarchy.from_table(pa.table({"leaf": ["x", "y"]}), ["leaf"])
people = pa.table({"leaf": ["x", "x", "y"] * 10, "who": [f"s3cr3t{i}" for i in range(30)]})
ledger = Ledger(folder / "ledger.db")
ledger.set_limit("people", tt.Budget(epsilon=1), neighboring="add_remove")
options = {"neighboring": "add_remove", "person": "who", "max_contributions": 1, "ledger": ledger, "dataset": "people",
           "run": "Monday", "secret": tt.new_secret(folder / "secret")}

def release(records, engine=None):
    try:
        made = tt.release_counts(records, areas, tt.Budget(epsilon=1), **options, engine=engine)
        print("made", made.table("leaf")["count"].to_pylist())
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
    print(len(ledger.entries()))

spark = started(folder, "local[2]")
java = spark.sparkContext._gateway.proc.pid
for how in ("a task fails", "Java is killed"):
    def fail(batches, how=how, java=java):
        import os, time
        for batch in batches:
            if how == "a task fails":
                if "s3cr3t15" in str(batch):
                    time.sleep(2)  # it ends when the release has failed by the other task
                raise OSError(str(batch))
            os.kill(java, 9)
            yield batch
    frame = spark.createDataFrame(people)
    release(frame.mapInArrow(fail, frame.schema), tt.engines.Spark(spark))
    if how == "a task fails":
        time.sleep(3)  # what ends now would be written to Spark's log
        release(frame, tt.engines.Spark(spark))
        ledger = Ledger(folder / "other.db")
        ledger.set_limit("people", tt.Budget(epsilon=1), neighboring="add_remove")
        options["ledger"] = ledger
release("people", tt.engines.Spark(spark))
release("people", tt.engines.Spark())
release(people)
release(people)
"""


@pytest.mark.slow
def test_a_task_that_fails_and_java_that_is_killed_cost_nothing_and_the_repetition_is_charged_once(
    tmp_path: Path,
) -> None:
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITH_A_LEDGER, str(tmp_path)],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path}, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    task, unpaid, made, paid, killed, unpaid_too, *dead, again, paid_once, repeated, last = done.stdout.splitlines()
    assert task.startswith("ValueError: records: Spark cannot read or group the records")
    assert killed.startswith("OSError: records: Spark was stopped, or its process has ended; nothing was released")
    assert (unpaid, paid, unpaid_too, paid_once, last) == ("0", "1", "0", "1", "1")
    assert [line[:54] for line in dead] == ["OSError: engine: the Spark session was stopped, or the", "0"] * 2
    assert made.startswith("made [")
    assert again.startswith("made [")
    assert repeated == again
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_local_run_imports_nothing_of_spark() -> None:
    script = """
        import sys, pyarrow as pa, tallytree as tt
        tt.engines.Spark()
        tree = tt.Hierarchy.from_table(pa.table({"a": ["x"]}), ["a"])
        tt.release_counts(pa.table({"a": ["x"]}), tree, tt.Budget(epsilon=1), neighboring="add_remove", memory="1GB")
        print([name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j", "sqlglot")])
    """
    lines = "\n".join(line.strip() for line in script.splitlines())
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_without_java_the_remedy_is_named(tmp_path: Path) -> None:
    (tmp_path / "areas.csv").write_text("a\nx\n")
    (tmp_path / "people.csv").write_text("a\nx\n")
    (tmp_path / "spec.yaml").write_text(
        "statistic: counts\nrecords: people.csv\nhierarchy: {path: areas.csv, levels: [a]}\nbudget: {epsilon: 1}\n"
        "neighboring: add_remove\nengine: spark\n"
    )
    nowhere = {"JAVA_HOME": "", "PATH": "/nowhere"}
    environment = {name: value for name, value in os.environ.items() if name not in nowhere} | {"PATH": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tallytree", "release", "spec.yaml", "--out", "out"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.returncode != 0
    assert "Java 17" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("found", "kind", "says"),
    [
        (None, ModuleNotFoundError, r'engine: Spark needs pyspark, which is not installed: pip install "tallytree\[sp'),
        ("3.5.4", ValueError, "engine: PySpark is version 3.5.4; tallytree needs 4.1 or newer"),
    ],
)
def test_without_pyspark_or_with_an_old_one_the_remedy_is_named(
    monkeypatch: Any, found: Any, kind: Any, says: str
) -> None:
    if found is None:
        monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(engine_module, "version", lambda package: found)
    with pytest.raises(kind, match=says):
        Spark().tabulate(PEOPLE, CountRecords(()))
