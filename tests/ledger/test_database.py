"""The file of a ledger: who may read it, what cannot be changed in it, and which files are refused."""

import hashlib
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.ledger_entries import PURE, RHO, TERMS, posting, pure, release
from tallytree.ledger import Ledger, database, verified
from tallytree.ledger.database import blank_ledger, expected_tables
from tallytree.ledger.events import event_text

CANARY = "canary-8473625"


@pytest.mark.parametrize(
    "change",
    [
        "INSERT OR REPLACE INTO events SELECT number, '{}', digest FROM events",
        "INSERT OR REPLACE INTO head SELECT only, number - 1, digest FROM head",
        "UPDATE head SET number = number - 1",
        "INSERT INTO events VALUES (9, '{}', '')",
    ],
)
def test_entries_cannot_be_replaced_either(ledger, path, change):
    ledger.set_limit("people", tt.Budget(epsilon=2), neighboring="add_remove")
    ledger.record(posting(pure(1)))
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(change)
    assert ledger.spent("people") == {"epsilon": 1}


def test_a_ledger_in_another_journal_mode_is_refused(ledger, path):
    ledger.record(posting(pure(1)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(ValueError, match=r"ledger: .* journal mode 'wal'.*miss entries"):
        ledger.record(posting(pure(1)))


def test_it_is_for_its_owner_alone_and_nothing_else_is_left_beside_it(ledger, path):
    ledger.record(posting(pure(1)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_create_makes_an_empty_one_and_never_replaces_any(path):
    assert Ledger.create(path).entries() == ()
    with pytest.raises(FileExistsError, match=r"^ledger: '.*' exists; "):
        Ledger.create(path)


def test_no_private_value_is_in_it(areas, path):
    """Neither a label nor a count: other records leave the same entry, but for its time and its random id."""
    kept = []
    for n in (60, 61):
        place = path.with_name(f"{n}.db")
        people = pa.table({"state": ["A"] * n, "county": ["x"] * n, "name": [CANARY] * n})
        pq.write_table(people, path.with_name(f"{CANARY}.parquet"))
        arguments = {"neighboring": "add_remove", "ledger": place, "dataset": "people"}
        tt.release_counts(path.with_name(f"{CANARY}.parquet"), areas, PURE, **arguments)
        with closing(sqlite3.connect(place)) as connection:
            rows = "".join(text for (text,) in connection.execute("SELECT facts FROM events"))
        (entry,) = Ledger(place).entries()
        kept.append(re.sub('"at":"[^"]*"', "", rows).replace(entry.release_id, ""))
        assert CANARY.encode() not in place.read_bytes()
    assert kept[0] == kept[1]


@pytest.mark.parametrize("change", ["DELETE FROM events", "UPDATE events SET facts = '{}'", "DELETE FROM head"])
def test_entries_cannot_be_taken_back(ledger, path, change):
    ledger.record(posting(pure(1)))
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="gives nothing back"),
    ):
        connection.execute(change)


def make_text(path):
    path.write_text("statistic: counts\n" * 100)


def make_empty(path):
    path.touch()


def make_other_database(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE releases (x)")


def make_other_version(path, version=7):
    Ledger.create(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


def make_version_before_the_first(path):
    """Of format 1, which was never published, other tables are not read as empty ones."""
    make_other_version(path, 1)


def make_truncated(path):
    ledger = Ledger(path)
    for _ in range(50):
        ledger.record(posting(pure(1)))
    path.write_bytes(path.read_bytes()[:9000])


def make_scribbled(path):
    ledger = Ledger(path)
    for _ in range(40):
        ledger.record(posting(pure(1), mechanism="x" * 200))
    content = bytearray(path.read_bytes())
    content[-3500:-500] = bytes(range(250)) * 12
    path.write_bytes(content)


def make_tableless(path):
    Ledger.create(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE head")


def make_changeable(path):
    Ledger(path).record(posting(pure(1)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER events_stay")


def make_folder(path):
    path.mkdir()


BROKEN = {
    make_text: "is not a tallytree ledger, or a damaged one; give the path of one, or restore it from a copy",
    make_empty: "is not a tallytree ledger; give the path of one",
    make_other_database: "is not a tallytree ledger; give the path of one",
    make_other_version: "has format version 7; this tallytree reads 2",
    make_version_before_the_first: "has format version 1; this tallytree reads 2; read it with the version that wrote",
    make_truncated: "is not a tallytree ledger, or a damaged one; ",
    make_scribbled: "is not a tallytree ledger, or a damaged one; ",
    make_tableless: "is not a tallytree ledger, or a damaged one; ",
    make_changeable: "is not a tallytree ledger, or a damaged one; ",
    make_folder: "is not a file; give the path of a ledger",
}


@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__.removeprefix("make_"))
def test_a_file_that_is_no_whole_ledger_is_refused_and_nothing_is_drawn(areas, path, request, make):
    make(path)
    verified.forget()  # as the next process would read it
    before = path.read_bytes() if path.is_file() else None
    request.getfixturevalue("nothing_drawn")
    asked = (
        lambda: release(areas, path),
        lambda: Ledger(path).record(posting(pure(1))),
        lambda: Ledger(path).datasets(),
        lambda: Ledger(path).set_limit("people", RHO, **TERMS),
    )
    for ask in asked:
        with pytest.raises(ValueError, match=r"^ledger: ") as caught:
            ask()
        assert str(caught.value).startswith(f"ledger: {str(path)!r} {BROKEN[make]}")
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_ledger_that_is_not_there_cannot_be_listed_and_is_not_made(path):
    for ask in (Ledger(path).datasets, Ledger(path).entries, lambda: Ledger(path).spent("people")):
        with pytest.raises(FileNotFoundError, match=r"^ledger: no file at "):
            ask()
    assert not path.exists()


def test_a_folder_that_is_not_there_is_named(areas, path, nothing_drawn):
    with pytest.raises(FileNotFoundError) as caught:
        release(areas, path.parent / "nowhere" / "ledger.db")
    assert caught.value.filename == str(path.parent / "nowhere")
    assert "the ledger 'ledger.db' cannot be made there" in caught.value.strerror


@pytest.fixture
def open_folder():
    """A folder that everyone may enter; files are made in it as root, where the tests run as root."""
    folder = Path(tempfile.mkdtemp(prefix="tallytree-ledger-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def nobody():
    """Without root's right to write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
@pytest.mark.parametrize("what", ["file", "folder", "both", "missing"])
def test_a_ledger_that_cannot_be_written_is_refused_and_nothing_is_drawn(areas, open_folder, request, what):
    path = open_folder / "ledger.db"
    if what != "missing":
        Ledger(path).record(posting(pure(1)))
        path.chmod(0o444 if what in ("file", "both") else 0o666)
    open_folder.chmod(0o777 if what == "file" else 0o555)
    request.getfixturevalue("nothing_drawn")
    with nobody():
        with pytest.raises(PermissionError) as caught:
            release(areas, path)
        with pytest.raises(PermissionError):
            Ledger(path).record(posting(pure(1)))
        if what != "missing":
            assert len(Ledger(path).entries()) == 1  # it can still be read
    if what == "missing":
        assert caught.value.filename == str(open_folder)
        assert "the ledger 'ledger.db' cannot be made there" in str(caught.value)
    else:
        assert str(caught.value).startswith(f"ledger: {str(path)!r} cannot be ")


def test_a_full_disk_is_told_apart(ledger, monkeypatch):
    ledger.record(posting(pure(1)))
    monkeypatch.setattr("tallytree.ledger.database._PRAGMAS", ("max_page_count = 1", "synchronous = EXTRA"))
    with pytest.raises(OSError, match=r"^ledger: '.*' could not be written \(database or disk is full\)"):
        ledger.record(posting(pure(1), mechanism="x" * 10_000))
    monkeypatch.undo()
    assert len(ledger.entries()) == 1


def test_the_tables_are_those_of_existing_ledgers():
    """A file whose definitions differ in one character is refused, so no `schema.sql` can be edited freely."""
    definitions = json.dumps(expected_tables(), sort_keys=True).encode()
    digest = "37db5a02ab2afecd1b4fb9a886bd753a9927728c9a6b0390a5b64b3052b20152"
    assert hashlib.sha256(definitions).hexdigest() == digest


def test_a_ledger_with_a_second_name_is_refused_by_both_before_sqlite_opens_it(ledger, path, monkeypatch):
    """SQLite would find the journal of a killed process by the one name, and not by the other."""
    monkeypatch.setattr(database, "_MOMENT", 0.05)
    ledger.record(posting(pure(1)))
    other = path.with_name("other.db")
    os.link(path, other)
    monkeypatch.setattr(sqlite3, "connect", lambda *arguments, **options: pytest.fail("it was opened"))
    for name in (path, other):
        for ask in (lambda: Ledger(name).record(posting(pure(1))), Ledger(name).contents):  # noqa: B023
            message = rf"^ledger: '{name}' is a file with 2 names \(hard links\), .* make symbolic links of the others"
            with pytest.raises(ValueError, match=message):
                ask()
    monkeypatch.undo()
    other.unlink()
    other.symlink_to(path)
    Ledger(other).record(posting(pure(1)))
    assert len(ledger.entries()) == 2


def test_a_ledger_whose_maker_is_about_to_remove_its_first_name_is_waited_for(path):
    with blank_ledger(path, event_text("ledger", strict=False, made_from_format=None)) as blank:
        os.link(blank, path)
        threading.Timer(0.1, blank.unlink).start()
        assert Ledger(path).entries() == ()


def test_a_ledger_whose_maker_was_killed_before_that_is_read(path):
    code = (
        "import os, signal, sys\n"
        "from tallytree.ledger import Ledger, database\n"
        "database._remove = lambda folder: os.kill(os.getpid(), signal.SIGKILL)\n"
        "Ledger.create(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert path.stat().st_nlink == 2
    assert Ledger(path).entries() == ()
    assert [*path.parent.iterdir()] == [path]
