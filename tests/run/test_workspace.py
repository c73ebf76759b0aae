"""Runs with `memory`: their folders, the engine's limit, refusals, and what is left after an error or a kill."""

import gc
import os
import re
import signal
import subprocess
import sys

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.banded import planned
from helpers.inside import CountsInFiles, ForcedCut
from helpers.releases import group_sizes
from tallytree.ledger import Ledger
from tallytree.run import make_release
from tallytree.run.workspace import band_bytes, limited

RECORDS = pa.table({"state": ["A"] * 60 + ["B"] * 40, "county": ["x"] * 50 + ["y"] * 10 + ["x"] * 40})
TOP_DOWN = tt.counts.TopDown()


def in_bands(areas, folder, **options):
    engine = tt.engines.Local(temp_directory=folder, threads=1)
    return planned(areas, RECORDS, TOP_DOWN, memory="1GB", engine=engine, **options)


def test_the_engine_has_half_of_the_memory_unless_it_has_a_limit():
    assert limited(tt.engines.Local(threads=2), "4GB") == tt.engines.Local(memory_limit="2000000000B", threads=2)
    assert limited(tt.engines.Local(), "1MB").memory_limit == "64000000B"
    own = tt.engines.Local(memory_limit="3GB")
    assert limited(own, "4GB") is own
    assert limited(own, None) is own


def test_a_band_on_spark_is_no_larger_than_spark_can_bring_back():
    spark, here = tt.engines.Spark(), tt.engines.Local()
    assert [band_bytes("4GB", engine) for engine in (spark, here)] == [10**9, 10**9]
    assert [band_bytes("400GB", engine) for engine in (spark, here)] == [2**31, 10**11]


@pytest.mark.slow
def test_files_live_as_long_as_the_release(areas, tmp_path):
    release = make_release(in_bands(areas, tmp_path), forced=ForcedCut(1, 2))
    (folder,) = tmp_path.iterdir()  # that of private statistics is gone
    assert {file.name.partition("-")[0] for file in folder.iterdir()} == {"lock", "table", "measured"}
    assert release.table("all")["count"].to_pylist()[0] >= 0
    other = release.with_tables(release.level_tables, release.statement)
    del release
    gc.collect()
    assert other.table("county").num_rows == 4
    del other
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_saved_release_does_not_need_its_files(areas, tmp_path):
    (tmp_path / "spill").mkdir()
    release = make_release(in_bands(areas, tmp_path / "spill"), forced=ForcedCut(1, 2))
    saved = release.save(tmp_path / "out", csv=True)
    expected = release.table("county")
    assert release.save(tmp_path / "again").is_dir()
    del release
    gc.collect()
    assert list((tmp_path / "spill").iterdir()) == []
    assert tt.Release.load(saved).table("county").equals(expected)
    assert (saved / "tables" / "county.csv").read_text().startswith('"state","county","count"')


def test_a_table_can_be_read_by_those_who_may_read_the_folder(areas, tmp_path):
    mask = os.umask(0o022)
    try:
        saved = make_release(in_bands(areas, tmp_path)).save(tmp_path / "out")
    finally:
        os.umask(mask)
    assert {file.stat().st_mode & 0o777 for file in saved.rglob("*.parquet")} == {0o644}


@pytest.mark.parametrize("when", ["CountsInFiles.__init__", "CountsInFiles.in_bands"])
def test_nothing_is_left_after_an_error_in_the_middle_of_a_band(areas, tmp_path, monkeypatch, when):
    (tmp_path / "spill").mkdir()

    def fail(*_, **__):
        assert len(list((tmp_path / "spill").iterdir())) == 2
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CountsInFiles, when.partition(".")[2], fail)
    ledger = Ledger(tmp_path / "ledger.db")
    tt.new_secret(tmp_path / "secret")
    names = {"ledger": ledger, "dataset": "people", "run": "Monday", "secret": tmp_path / "secret", "seed": None}
    with pytest.raises(OSError, match="No space left") as caught:
        make_release(in_bands(areas, tmp_path / "spill", **names), forced=ForcedCut(1, 2))
    paid = when.endswith("in_bands")
    assert any("repeat the run 'Monday'" in note for note in getattr(caught.value, "__notes__", [])) == paid
    del caught
    assert list((tmp_path / "spill").iterdir()) == []
    assert len(ledger.entries()) == paid if paid else not (tmp_path / "ledger.db").exists()
    monkeypatch.undo()
    again = make_release(in_bands(areas, tmp_path / "spill", **names), forced=ForcedCut(1, 2))
    assert len(ledger.entries()) == 1
    assert again.table("county").num_rows == 4


KILLED = """
import os, signal, sys
import pyarrow as pa
import tallytree as tt
from tallytree.private.tabulate.true_counts import CountsInFiles
CountsInFiles.in_bands = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
areas = tt.Hierarchy.from_values("area", ["a", "b"])
engine = tt.engines.Local(temp_directory=sys.argv[1], threads=1)
tt.release_counts(pa.table({"area": ["a"] * 9}), areas, tt.Budget(epsilon=1), neighboring="add_remove", seed=1,
                  mechanism=tt.counts.TopDown(), memory="1GB", engine=engine)
"""


@pytest.mark.slow
def test_a_later_run_removes_what_a_killed_one_has_left(areas, tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    release = make_release(in_bands(areas, tmp_path))
    assert len(list(tmp_path.iterdir())) == 1
    del release


def test_the_memory_is_in_neither_spec_nor_statement(areas):
    with_memory, without = (planned(areas, RECORDS, TOP_DOWN, memory=memory) for memory in ("1GB", None))
    assert with_memory.spec == without.spec
    assert with_memory.statement == without.statement
    assert with_memory.plan_digest == without.plan_digest


@pytest.mark.parametrize(
    ("memory", "error", "message"),
    [
        ("lots", ValueError, r"^memory: 'lots' must be a number and a unit, such as '4GB'"),
        ("1KB", ValueError, r"^memory: '1KB' must be between 1MB and 1000TB"),
        (4, TypeError, r"^memory: .* must be text such as '4GB'"),
    ],
)
def test_an_amount_that_is_none_is_refused(areas, memory, error, message):
    with pytest.raises(error, match=message):
        planned(areas, RECORDS, TOP_DOWN, memory=memory)


def test_with_the_amount_that_a_refusal_names_the_run_works(areas):
    wide = tt.Hierarchy.from_values("leaf", range(3_371))
    records = pa.table({"leaf": [1] * 9})
    with pytest.raises(ValueError, match=r"^memory: '1MB' is less than the .*MB that this may take; Lea") as refusal:
        planned(wide, records, tt.counts.LeastSquares(), memory="1MB")
    enough = re.search(r"less than the (\S+) that", str(refusal.value))[1]
    assert make_release(planned(wide, records, tt.counts.LeastSquares(), memory=enough)).levels


def test_an_engine_is_not_given_less_than_is_of_use(areas):
    with pytest.raises(ValueError, match=r"^memory_limit: '7.9MB' must be between 8MB and 1000TB"):
        tt.engines.Local(memory_limit="7.9MB")
    engine = tt.engines.Local(memory_limit="8MB")
    assert make_release(planned(areas, RECORDS, TOP_DOWN, engine=engine)).levels


def test_group_sizes_without_their_measurements_cannot_be_reconciled_again(areas):
    release = group_sizes(areas, keep_measurements=False, seed=3)
    assert release.table("county").equals(group_sizes(areas, seed=3).table("county"))
    with pytest.raises(ValueError, match=r"^measurements: the release was made with keep_measurements=False"):
        tt.reconcile_group_sizes(release, areas)
