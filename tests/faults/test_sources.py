"""Records in many files, in partitions, in a DuckDB file, in PostgreSQL and on S3: what is released when one fails.

After each fault: every released count is the true one (the budget is so large that there is no noise), so no record is
missing or there twice; nothing is on the disk that the ledger does not have; no message quotes a record or a
credential; no temporary file is left; and the same command, repeated, ends as if there had been no fault.

Of the file system calls only those about the records are taken (`ends_of_runs`); all others are those of
`test_every_call.py`. A server fails at places that lie at equal distances in what it sends.
"""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.file_calls import ends_of_runs
from helpers.proxy import proxy_to
from helpers.release_folders import PRIVATE, digest
from helpers.s3_server import BUCKET, parquet
from tallytree.cli.failures import ExitCode
from tallytree.ledger import Ledger
from tallytree.release import Release

SPEC = """\
statistic: counts
records: RECORDS
hierarchy: {path: areas.parquet, levels: [state]}
budget: {epsilon: 10000}
neighboring: add_remove
person: who
ledger: ledger.db
dataset: people
secret: secret
engine: {threads: 1, temp_directory: spill}
"""
COMMAND = ("release", "day.yaml", "--run", "Monday", "--out", "out", "--if-exists", "skip")


def people(letters, first=0):
    return pa.table({"state": list(letters), "who": [f"{PRIVATE}{first + i}" for i in range(len(letters))]})


@pytest.fixture
def begun(faults):
    """Makes a spec of some records; all that a release needs but them is there."""
    pq.write_table(pa.table({"state": ["A", "B"]}), faults.below / "areas.parquet")
    tt.new_secret(faults.below / "secret")
    Ledger(faults.below / "ledger.db").set_limit("people", tt.Budget(epsilon=10_000), neighboring="add_remove")
    (faults.below / "spill").mkdir()
    (faults.below / "spill" / "keep").touch()

    def make(records):
        (faults.below / "day.yaml").write_text(SPEC.replace("RECORDS", records))
        faults.keep_start()

    return make


def released(faults):
    """The released counts; None where there is no release."""
    place = faults.below / "out"
    return Release.load(place).table("state")["count"].to_pylist() if place.exists() else None


class Outcomes:
    """Checks what a fault has left, and what a repetition makes of it."""

    def __init__(self, faults, seen, truth):
        self._faults, self._seen, self._truth, self._repeated = faults, seen, truth, {digest(faults.below)}

    def check(self, fault, status, mend=None, allowed=()):
        """What is left by a fault; then, if nothing has left the same before, `mend`, and the command again."""
        faults, below = self._faults, self._faults.below
        entries, made = Ledger(below / "ledger.db").entries(), released(faults)
        left = [each.name for each in (below / "spill").iterdir() if each.name != "keep"]
        assert len(entries) <= 1, fault
        assert entries or not [*below.rglob("tables")], fault
        assert (made is not None) == (status == 0), (fault, status, faults.log)
        assert made in (None, self._truth, *allowed), (fault, made)
        assert fault[0] == "kill" or not left, (fault, left)
        self._seen[fault[0], "paid" if entries else "not paid", "no folder" if made is None else "folder"] += 1
        now = digest(below)
        if mend is not None:
            mend()
        if now in self._repeated:
            return
        self._repeated.add(now)
        # Files that were written again are other files: a run that is finished is then left, with a code of its own.
        left_as_it_is = ExitCode.CHANGED if mend is not None and made is not None else 0
        assert faults.run(*COMMAND)[0] in (0, left_as_it_is), (fault, faults.log)
        assert released(faults) == (made or self._truth), fault
        (entry,) = Ledger(below / "ledger.db").entries()
        assert entry.state == "finished"
        assert [each.name for each in (below / "spill").iterdir()] == ["keep"], fault


def make_folder(below):
    for place, rows in (("a", people("AAB")), ("b", people("BBB", 3)), ("deep/c", people("A", 6))):
        (below / "lake" / place).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, below / "lake" / f"{place}.parquet")


def make_partitions(below):
    for state, first, number in (("A", 0, 3), ("B", 3, 4)):
        (below / "lake" / f"state={state}").mkdir(parents=True)
        rows = people(state * number, first).drop_columns(["state"])
        pq.write_table(rows, below / "lake" / f"state={state}" / "part.parquet")


def make_duckdb(below):
    rows = people("AAABBBB")
    with duckdb.connect(below / "lake.db") as connection:
        connection.register("rows", rows)
        connection.execute("CREATE TABLE people AS FROM rows")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "records"),
    [
        (make_folder, "lake"),
        (make_folder, "['lake/*.parquet', lake/deep/c.parquet]"),
        (make_partitions, "{parquet: lake, partitions: [state]}"),
        (make_duckdb, "{duckdb: lake.db, table: people}"),
    ],
    ids=["folder", "globs", "partitions", "duckdb"],
)
def test_faults_of_files_lose_no_record(faults, begun, seen, make, records):
    make(faults.below)
    begun(records)
    outcomes = Outcomes(faults, seen, [3, 4])
    about = lambda calls: [call for call in ends_of_runs(calls) if call.place.startswith("lake")]  # noqa: E731
    for fault, status in faults.each_fault(*COMMAND, choose=about):
        outcomes.check(fault, status)
    assert seen["fail", "not paid", "no folder"] > 3
    assert released(faults) is None


@pytest.mark.slow
@pytest.mark.needs("adbc_driver_postgresql")
@pytest.mark.parametrize("how", ["closed", "reset", "crashed"])
def test_a_database_that_breaks_off_loses_no_record(faults, begun, seen, database, how):
    rows = 20_000
    database.run(f"CREATE TABLE people AS SELECT chr(65 + (g % 5) / 4) AS state, '{PRIVATE}' || g AS who "
                 f"FROM generate_series(1, {rows}) AS g")  # fmt: skip
    faults.environment = {"PGPASSWORD": database.password}
    with proxy_to(database.port) as proxy:
        begun(f'{{postgresql: "postgresql://publisher@127.0.0.1:{proxy.port}/postgres", table: people}}')
        assert faults.run(*COMMAND)[0] == 0, faults.log
        assert released(faults) == [rows * 4 // 5, rows // 5]
        everything = proxy.sent
        assert everything > rows * 10
        outcomes = Outcomes(faults, seen, [rows * 4 // 5, rows // 5])
        crash = database.crash if how == "crashed" else lambda: None
        places = (
            [everything // 2] if how == "crashed" else [10, *range(600, everything, everything // 6), everything - 100]
        )
        for place in places:
            faults.back()
            proxy.begin(place, reset=how == "reset", at_end=crash)
            status, _ = faults.run(*COMMAND)
            assert proxy.ended, (place, everything)
            proxy.begin()
            faults.check_message((how, place), status)
            assert not any(each in faults.log for each in (database.password, "publisher")), faults.log
            outcomes.check((how, place), status, mend=database.start if how == "crashed" else None)
    assert seen[how, "not paid", "no folder"] >= len(places) - 1


@pytest.mark.slow
@pytest.mark.needs("moto")
@pytest.mark.parametrize("how", ["stops", "deleted", "replaced", "refuses"])
def test_an_object_store_that_fails_loses_no_record(faults, begun, seen, s3, how):
    rows = 3_000
    before, after = (people(first * rows + "B" * rows) for first in "AB")
    faults.environment = s3.environment

    def mend():
        s3.gate.stop_after = s3.gate.on_get = s3.gate.refuse_from = None
        s3.write("people/a.parquet", parquet(before, row_group_size=rows))
        s3.write("people/b.parquet", parquet(people("AB", 2 * rows)))

    mend()
    begun(f"s3://{BUCKET}/people")
    s3.gate.ranges.clear()
    s3.gate.asked = 0
    assert faults.run(*COMMAND)[0] == 0, faults.log
    truth, changed = [rows + 1, rows + 1], [1, 2 * rows + 1]
    assert released(faults) == truth
    asked = s3.gate.asked if how == "refuses" else len(s3.gate.ranges)
    assert asked > 6
    outcomes = Outcomes(faults, seen, truth)

    def fail():
        if how == "stops":
            s3.gate.stop_after = 10
        elif how == "deleted":
            s3.system.delete_file(f"{BUCKET}/people/a.parquet")
        else:
            s3.write("people/a.parquet", parquet(after, row_group_size=rows))

    for at in range(0, asked, {"stops": 3, "refuses": 1}.get(how, 2)):
        faults.back()
        if how == "refuses":
            s3.gate.asked, s3.gate.refuse_from = 0, at + 1
        waiting = iter(range(at + 1))

        def at_this_one(_, waiting=waiting, at=at):
            if next(waiting, None) == at:
                fail()

        s3.gate.on_get = None if how == "refuses" else at_this_one
        status, _ = faults.run(*COMMAND)
        faults.check_message((how, at), status)
        assert not any(key in faults.log for key in ("KEY-OF-THE-LAKE", "AKIAPUBLISHER")), faults.log
        # What is replaced before it is looked at was never there.
        outcomes.check((how, at), status, mend=mend, allowed=[changed] if how == "replaced" else ())
    assert seen[how, "not paid", "no folder"] > 0
