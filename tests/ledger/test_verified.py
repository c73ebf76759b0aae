"""What a process has verified: carried on from operation to operation, and never where the file tells another story."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from fractions import Fraction

import pytest

import tallytree as tt
from helpers.changed_ledgers import changed
from helpers.inside import Approval
from helpers.ledger_entries import TERMS, posting, pure, zcdp
from tallytree.ledger import Account, Ledger, books, database, verified
from tallytree.ledger.chain import Head, linked
from tallytree.ledger.database import blank_ledger
from tallytree.ledger.events import event_text, release_text

REFUSED = r"^ledger: '.*' was changed, or is damaged: .*; restore it from a copy"
FORGED = "UPDATE events SET facts = replace(facts, '\"1/3\"', '\"1/9\"') WHERE number = 4"


@pytest.fixture
def thirds(ledger):
    """A ledger with a limit of 5 and six releases of 1/3, which this process knows."""
    ledger.set_limit("people", tt.Budget(epsilon=5), **TERMS)
    for _ in range(6):
        ledger.record(posting(pure("1/3")))
    assert ledger.spent("people") == {"epsilon": 2}
    return ledger


def appended(path, *texts):
    """Add events as another process would, which knows the head."""
    with closing(sqlite3.connect(path)) as connection:
        number, digest = connection.execute("SELECT number, digest FROM head").fetchone()
        digests = linked(texts, Head(number, digest))
        rows = [(number + i, text.decode(), one) for i, (text, one) in enumerate(zip(texts, digests, strict=True), 1)]
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
        connection.execute("UPDATE head SET number = ?, digest = ?", (rows[-1][0], digests[-1]))
        connection.commit()


def a_release(number, loss="1/3"):
    return release_text(posting(pure(loss)), number, "ab" * 16, None)


def let_the_clock_move():
    """Until a file that is written to has another time."""
    time.sleep(0.05)


@pytest.fixture
def taken(monkeypatch):
    """The numbers of events that operations take in."""
    found = []
    take = books.Running.take

    def counted(self, links, path):
        found.append(len(links))
        take(self, links, path)

    monkeypatch.setattr(books.Running, "take", counted)
    return found


def test_a_later_operation_reads_only_what_was_added(thirds, taken):
    thirds.check(posting(pure("1/3")))
    number = thirds.record(posting(pure("1/3"), run="a")).number
    thirds.finish(number)
    assert thirds.spent("people") == {"epsilon": Fraction(7, 3)}
    assert sum(taken) == 2
    taken.clear()
    appended(thirds.path, a_release(8))
    assert thirds.spent("people") == {"epsilon": Fraction(8, 3)}
    assert sum(taken) == 1


def test_the_first_operation_of_a_process_and_a_listing_read_everything(thirds, taken):
    verified.forget()
    thirds.spent("people")
    thirds.contents()
    assert taken == [9, 9]


def test_a_process_made_by_fork_starts_with_nothing(thirds):
    child = os.fork()
    if not child:
        os._exit(len(verified._memories))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert verified._memories


TURNS = """
import sys
from fractions import Fraction
from tallytree.ledger import Ledger
from tallytree.accounting.spending import Loss, Posting
posting = Posting(dataset="people", statistic="counts", mechanism="TopDown", neighboring="add_remove",
                  max_contributions=1, unit="record", loss=Loss(Fraction(1, 7), Fraction(0), Fraction(1, 98)))
ledger = Ledger(sys.argv[1])
for line in sys.stdin:
    ledger.finish(ledger.record(posting).number)
    print(ledger.spent("people")["epsilon"], flush=True)
"""


def test_two_processes_that_write_in_turn_know_the_same(thirds):
    with subprocess.Popen(
        [sys.executable, "-c", TURNS, str(thirds.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        for turn in range(1, 4):
            other.stdin.write("\n")
            other.stdin.flush()
            theirs = Fraction(other.stdout.readline())
            assert theirs == thirds.spent("people")["epsilon"] == 2 + Fraction(turn, 7) + Fraction(turn - 1, 3)
            thirds.record(posting(pure("1/3")))
        other.stdin.close()
    standing = thirds.standing("people")
    verified.forget()
    assert thirds.standing("people") == standing


def test_threads_with_one_ledger_keep_to_its_limit(thirds):
    passed = []

    def record():
        for _ in range(4):
            with suppress(tt.BudgetExceeded):
                passed.append(Ledger(thirds.path).record(posting(pure("1/3"))).number)

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(passed) == list(range(7, 16))
    assert thirds.remaining("people") == {"epsilon": 0}


def test_what_another_thread_has_read_meanwhile_is_not_taken_in_twice(thirds, monkeypatch):
    remember = verified._remember_written

    def after_another_thread(path, memory, books):
        if books.written:
            Ledger(path).spent("people")
        remember(path, memory, books)

    monkeypatch.setattr(verified, "_remember_written", after_another_thread)
    thirds.set_limit("people", tt.Budget(epsilon=6), approval=Approval(reason="more"))
    assert [limit.limit.epsilon for limit in thirds.standing("people").limits] == [5, 6]


def refused_by_all(ledger):
    for ask in (
        lambda: ledger.spent("people"),
        lambda: ledger.record(posting(pure("1/3"))),
        ledger.contents,
    ):
        with pytest.raises(ValueError, match=REFUSED):
            ask()


def test_an_edit_without_a_new_event_is_refused_by_the_process_that_knew_the_ledger(thirds):
    let_the_clock_move()
    changed(thirds.path, FORGED)
    refused_by_all(thirds)


def test_an_edit_hidden_by_a_new_event_changes_nothing_here_and_is_refused_by_the_next_process(thirds):
    changed(thirds.path, FORGED)
    appended(thirds.path, a_release(7))
    assert thirds.spent("people") == {"epsilon": Fraction(7, 3)}  # by the texts that were verified
    with pytest.raises(ValueError, match=REFUSED):
        thirds.contents()
    verified.forget()
    refused_by_all(thirds)


def test_an_edit_of_what_was_added_is_refused(thirds):
    appended(thirds.path, a_release(7))
    changed(thirds.path, "UPDATE events SET facts = replace(facts, '1/3', '1/9') WHERE number = 10")
    refused_by_all(thirds)


@pytest.mark.parametrize(
    "damage",
    [
        ("DELETE FROM events WHERE number = 9",),
        ("DELETE FROM events WHERE number = 9", "UPDATE head SET number = 8"),
        ("UPDATE head SET number = 10",),
        ("UPDATE head SET digest = upper(digest)",),
        ("DELETE FROM head",),
        ("DELETE FROM events",),
        ("DELETE FROM events WHERE number < 9",),
    ],
)
def test_a_ledger_that_lost_events_is_refused(thirds, damage):
    let_the_clock_move()
    changed(thirds.path, *damage)
    refused_by_all(thirds)


def without_the_last(path):
    """Cut off the last event in a way that only who noted the head can tell."""
    back = "(SELECT digest FROM events WHERE number = 8)"
    changed(path, "DELETE FROM events WHERE number = 9", f"UPDATE head SET number = 8, digest = {back}")


OLDER = (
    r"^ledger: '.*' was changed, or is damaged: event {}, which this process has verified, is no longer in it, as in an"
)


def refused_as_older(ledger, last):
    """By every operation, as often as it is tried; until the newest file is back."""
    for _ in range(2):
        for ask in (lambda: ledger.spent("people"), lambda: ledger.record(posting(pure("1/3"))), ledger.contents):
            with pytest.raises(ValueError, match=OLDER.format(last)):
                ask()


def test_an_older_chain_in_the_same_file_is_refused_by_the_process_that_knew_its_end(thirds):
    without_the_last(thirds.path)
    refused_as_older(thirds, 9)
    verified.forget()
    assert thirds.spent("people") == {"epsilon": Fraction(5, 3)}


@pytest.mark.parametrize("number", [1, 2])
def test_another_end_that_is_as_long_or_longer_is_refused(thirds, number):
    without_the_last(thirds.path)
    appended(thirds.path, *(event_text("finish", number=each + 1) for each in range(number)))
    refused_as_older(thirds, 9)


@pytest.mark.parametrize("put", [shutil.move, shutil.copyfile], ids=["another file", "the same file"])
def test_an_older_copy_in_its_place_is_refused_also_after_damage(thirds, tmp_path, put):
    older, newest = tmp_path / "older.db", tmp_path / "newest.db"
    shutil.copyfile(thirds.path, older)
    thirds.record(posting(pure("1/3")))  # what is known is what was written, too
    shutil.copyfile(thirds.path, newest)
    changed(thirds.path, "DELETE FROM events")
    refused_by_all(thirds)
    put(older, thirds.path)
    refused_as_older(thirds, 10)
    put(newest, thirds.path)
    assert thirds.spent("people") == {"epsilon": Fraction(7, 3)}


@pytest.mark.parametrize("put", [os.replace, shutil.copyfile], ids=["another file", "the same file"])
def test_a_copy_with_all_events_in_its_place_is_verified_as_a_whole(thirds, tmp_path, put):
    copy = tmp_path / "copy.db"
    shutil.copyfile(thirds.path, copy)
    changed(copy, FORGED)
    appended(copy, a_release(7))  # follows the head that is known
    let_the_clock_move()
    put(copy, thirds.path)
    if put is os.replace:
        refused_by_all(thirds)
    else:  # it looks as if another process had added an event
        assert thirds.spent("people") == {"epsilon": Fraction(7, 3)}
        with pytest.raises(ValueError, match=REFUSED):
            thirds.contents()


def test_a_ledger_that_is_deleted_and_made_again_is_a_new_one(thirds):
    for _ in range(3):
        thirds.path.unlink()  # the next one may have the same time, so the same first event, and the same inode
        thirds.set_limit("people", tt.Budget(epsilon=5), **TERMS)
        assert thirds.spent("people") == {"epsilon": 0}
        thirds.path.unlink()
        thirds.record(posting(pure("1/3")))
        assert thirds.spent("people") == {"epsilon": Fraction(1, 3)}


@pytest.mark.parametrize("other", ["older", "another ledger"])
def test_what_was_checked_is_still_there_when_the_release_is_recorded(thirds, tmp_path, other, no_noise):
    """Also where the file has the same inode, and where this process remembers nothing."""
    copy = tmp_path / "copy.db"
    if other == "older":
        shutil.copyfile(thirds.path, copy)
        thirds.record(posting(pure("1/3")))
    else:
        Ledger(copy).set_limit("people", tt.Budget(epsilon=9), **TERMS)
    account = Account(thirds, posting(pure("1/3")))
    account.check()
    shutil.copyfile(copy, thirds.path)
    verified.forget()
    with pytest.raises(ValueError, match=r"^ledger: '.*' is not the file that was checked"):
        account.record()
    assert account.recorded is None
    account.check()
    assert account.record().number == (7 if other == "older" else 1)


def test_another_ledger_in_its_place_is_read_from_its_start(thirds, tmp_path):
    other = Ledger(tmp_path / "other.db")
    for _ in range(40):
        other.record(posting(zcdp("1/4"), dataset="others"))
    other.path.replace(thirds.path)
    assert thirds.spent("others") == {"rho": 10}
    assert [each.name for each in thirds.standings()] == ["others"]


def test_a_ledger_that_is_replaced_while_it_is_opened_is_refused(thirds, monkeypatch):
    identities = iter([(1, 1), (1, 2)])
    monkeypatch.setattr(database, "file_identity", lambda path: next(identities))
    with pytest.raises(ValueError, match=r"^ledger: '.*' was replaced while it was opened; run the command again"):
        thirds.spent("people")


def test_the_text_of_an_earlier_entry_is_compared_with_the_digest_that_was_verified(thirds):
    run = {"run": "monday", "plan": "ab" * 32}
    thirds.record(posting(pure("1/3"), **run), statistics=lambda release_id: "cd" * 32)
    changed(thirds.path, "UPDATE events SET facts = replace(facts, 'cdcd', 'efef') WHERE number = 10")
    appended(thirds.path, a_release(8))
    for ask in (
        lambda: thirds.record(posting(pure("1/3"), **run), statistics=lambda release_id: "ef" * 32),
        lambda: thirds.finish(7),
    ):
        with pytest.raises(ValueError, match=r"event 10 does not agree with its digest"):
            ask()


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(verified, "CHUNK", 3)


def test_a_long_chain_is_verified_in_pieces_without_the_write_lock(thirds, taken, small_pieces, monkeypatch):
    verified.forget()
    carry_on, others = verified._carry_on, []

    def with_another_writer(connection, path, memory, stated):
        carry_on(connection, path, memory, stated)
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
                others.append(True)
            except sqlite3.OperationalError:
                others.append(False)

    monkeypatch.setattr(verified, "_carry_on", with_another_writer)
    assert thirds.record(posting(pure("1/3"))).number == 7
    assert taken[:3] == [3, 3, 3]
    assert others == [True, True, False]


@pytest.mark.parametrize("damaged", [1, 3, 4, 8])
def test_damage_in_any_piece_is_refused(thirds, small_pieces, damaged):
    changed(thirds.path, f"UPDATE events SET facts = replace(facts, '202', '203') WHERE number = {damaged}")
    verified.forget()
    refused_by_all(thirds)


def test_more_events_than_the_head_says_are_refused(thirds, small_pieces):
    changed(thirds.path, "UPDATE head SET number = 2, digest = (SELECT digest FROM events WHERE number = 2)")
    verified.forget()
    refused_by_all(thirds)


def test_a_run_that_is_charged_again_and_again_is_judged_by_its_last_entries(ledger):
    """Those that decide: of the plan, the last one with each loss, and the last one of all."""
    losses, made = ("1/3", "1/4"), []
    for i in range(40):
        plan, loss = ("ab", "cd", "ef")[i % 3] * 32, pure(losses[i % 5 == 0])
        text = release_text(posting(loss, run="r", plan=plan), i + 1, "ab" * 16, None)
        made.append((plan, loss, i + 1))
        if i:
            appended(ledger.path, text)
        else:
            ledger.record(posting(loss, run="r", plan=plan))
    with verified.opened_books(ledger.path, 1, "BEGIN") as books:
        for plan in ("ab" * 32, "cd" * 32, "00" * 32, None):
            found = [entry.number for entry in books.of_run("people", "r", plan)]
            last_of_each = {(each, loss): number for each, loss, number in made if each == plan}
            assert set(found) == {*last_of_each.values(), 40}
            assert found[-1] == 40
        assert books.of_run("people", "another") == books.of_run("nobody", "r") == []


def test_a_killed_command_leaves_no_folder_for_ever(path):
    """A process that is killed while it makes a ledger leaves a folder; the next command removes it."""
    code = (
        "import os, signal, sys, tallytree as tt\n"
        "from tallytree.ledger import Ledger, database\n"
        "database.create_tables = lambda connection: os.kill(os.getpid(), signal.SIGKILL)\n"
        "Ledger(sys.argv[1]).set_limit('people', tt.Budget(epsilon=1), neighboring='add_remove')"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    (left,) = path.parent.iterdir()
    assert left.name.endswith(".partial")
    kept = path.parent / f".{path.name}.abcd1234.partial"
    kept.mkdir()
    (kept / "mine").touch()  # not of the ledger's making
    Ledger(path).set_limit("people", tt.Budget(epsilon=1), **TERMS)
    assert sorted(path.parent.iterdir()) == sorted([kept, path])


def test_the_folder_of_a_live_process_stays(path):
    with blank_ledger(path, event_text("ledger", strict=False, made_from_format=None)) as blank:
        Ledger(path).set_limit("people", tt.Budget(epsilon=1), **TERMS)
        assert blank.exists()
    assert [*path.parent.iterdir()] == [path]
