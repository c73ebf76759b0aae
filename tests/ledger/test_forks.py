"""Children made by fork while another thread uses a ledger."""

import os
import threading
import time
from contextlib import contextmanager
from fractions import Fraction

import pytest

from helpers.ledger_entries import posting, pure
from tallytree.ledger import Ledger, database, verified


def child_of(work):
    """What a forked child's work returns: 0, or 1 after an error that says why, or 2; killed after 10 minutes."""
    child = os.fork()
    if not child:
        try:
            work()
        except OSError as error:
            os._exit(1 if "made by fork while a ledger was in use; start processes by spawn" in str(error) else 2)
        else:
            os._exit(0)
        finally:
            os._exit(2)
    last = time.monotonic() + 600
    while time.monotonic() < last:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "wedged"


@contextmanager
def thread(work):
    running = threading.Thread(target=work)
    running.start()
    try:
        yield running
    finally:
        running.join()


def test_children_of_a_process_whose_threads_use_the_ledger_use_it_too(ledger, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 600)
    ledger.record(posting(pure("1/9")))
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            ledger.standing("people")

    def record_and_fork_again():
        ledger.record(posting(pure("1/9")))
        assert child_of(lambda: ledger.record(posting(pure("1/9")))) == 0

    with thread(busy):
        try:
            assert [child_of(record_and_fork_again) for _ in range(6)] == [0] * 6
        finally:
            stop.set()
    assert ledger.spent("people") == {"epsilon": Fraction(13, 9)}


@contextmanager
def another_thread_within(ledger):
    """While another thread is within a transaction; it leaves when the context ends."""
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with verified.opened_books(ledger.path, 1, "BEGIN"):
            inside.set()
            leave.wait(600)

    with thread(hold):
        assert inside.wait(600)
        try:
            yield leave
        finally:
            leave.set()


def test_a_fork_waits_for_a_thread_that_is_within_a_transaction(ledger, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 600)
    ledger.record(posting(pure(1)))
    with another_thread_within(ledger) as leave:
        threading.Timer(0.2, leave.set).start()
        assert child_of(lambda: ledger.record(posting(pure(1)))) == 0
        assert leave.is_set()
    assert len(ledger.entries()) == 2


def test_a_child_that_was_not_waited_for_is_refused_every_ledger_and_so_are_its_children(ledger, monkeypatch):
    ledger.record(posting(pure(1)))
    monkeypatch.setattr(database, "PATIENCE", 0.05)
    with another_thread_within(ledger):
        assert child_of(lambda: ledger.record(posting(pure(1)))) == 1
        assert child_of(lambda: os._exit(child_of(lambda: ledger.spent("people")))) == 1
    assert child_of(lambda: ledger.record(posting(pure(1)))) == 0
    assert len(ledger.entries()) == 2


def test_a_thread_that_forks_within_its_own_transaction_is_not_waited_for(ledger, monkeypatch):
    ledger.record(posting(pure(1)))
    with verified.opened_books(ledger.path, 1, "BEGIN"), monkeypatch.context() as patched:
        patched.setattr(database._gate.changed, "wait_for", lambda *_: pytest.fail("the fork waited"))
        assert child_of(lambda: ledger.spent("people")) == 1
    assert child_of(lambda: ledger.spent("people")) == 0


def test_a_new_ledger_is_made_apart_from_forks_too(path, monkeypatch):
    entered = []

    @contextmanager
    def noted(of):
        entered.append(of)
        yield

    monkeypatch.setattr("tallytree.ledger.database.apart_from_forks", noted)
    Ledger.create(path)
    assert entered == [path]


@pytest.fixture(autouse=True)
def _nobody_is_left_inside():
    yield
    assert not database._gate.inside
    assert not database._gate.forking
