"""Ledgers of format 1 keep working: they are read as before, and get the present format when they are written to."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction

import pytest

import tallytree as tt
from helpers.ledger_entries import approximate, posting, pure, release, threshold, zcdp
from helpers.old_ledgers import old_ledger, some_old_ledger
from tallytree._accounting.spending import Approval

KEPT = ("number", "recorded_at", "statistic", "mechanism", "loss", "state", "version", "neighboring")
KEPT += ("max_contributions", "unit")


def facts(ledger):
    """All that format 1 had, of every data set."""
    return [
        (
            found.name,
            found.neighboring,
            found.max_contributions,
            found.unit,
            [(limit.limit, limit.set_at) for limit in found.limits],
            [tuple(getattr(entry, name) for name in KEPT) for entry in found.entries],
        )
        for found in ledger.datasets()
    ]


EXPECTED = [
    ("later", "add_remove", 2, None, [(tt.Budget(rho=Fraction(1, 8)), "2026-01-05T00:00:00Z")], []),
    (
        "people",
        "add_remove",
        1,
        "record",
        [
            (tt.Budget(epsilon=1), "2026-01-01T00:00:00Z"),
            (tt.Budget(epsilon=Fraction(5, 2)), "2026-01-03T00:00:00Z"),
        ],
        [
            (1, "2026-01-02T00:00:00Z", "counts", "TopDown", pure("1/2"), "finished", "0.1.0",
             "add_remove", 1, "record"),
            (3, "2026-01-03T00:00:00Z", "counts", "LeastSquares", pure(1), "started", "0.1.1",
             "add_remove", 1, "record"),
        ],
    ),
    (
        "trips",
        "change_one",
        3,
        "trip",
        [],
        [
            (2, "2026-01-02T00:00:00Z", "flows", "TopDown", zcdp("1/3"), "started", "0.1.0", "change_one", 3, "trip"),
            (4, "2026-01-04T00:00:00Z", "flows", "TopDown", approximate(1, "1/1000", "1/9"), "finished", "0.1.1",
             "change_one", 3, "trip"),
        ],
    ),
]  # fmt: skip


def version(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


@pytest.fixture
def old(path, ledger):
    some_old_ledger(path)
    return ledger


def test_an_old_ledger_is_read_as_before_and_stays_as_it_is(old, path):
    before = path.read_bytes()
    assert facts(old) == EXPECTED
    assert old.spent("people") == {"epsilon": Fraction(3, 2)}
    assert old.remaining("people") == {"epsilon": 1}
    assert (old.head, old.strict) == (None, False)
    old.check(posting(pure(1)))
    assert path.read_bytes() == before


WRITES = {
    "finish": lambda ledger: ledger.finish(3),
    "record": lambda ledger: ledger.record(posting(pure(1))),
    "limit": lambda ledger: ledger.set_limit("trips", tt.Budget(rho=1)),
    "strict": lambda ledger: ledger.set_strict(True),
}


@pytest.mark.parametrize("write", WRITES)
def test_the_first_writing_gives_it_the_present_format_and_nothing_is_lost(old, path, write):
    WRITES[write](old)
    assert version(path) == 2
    assert len(old.head) == 64
    found = facts(old)
    if write == "finish":
        entry = found[1][5][1]
        assert entry[5] == "finished"
        found[1][5][1] = (*entry[:5], "started", *entry[6:])
    elif write == "record":
        assert found[1][5].pop()[:1] == (5,)
    elif write == "limit":
        assert found[2][4].pop()[0] == tt.Budget(rho=1)
    assert found == EXPECTED
    assert [entry.release_id for entry in old.entries()][:4] == [None] * 4
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"events", "head", "sqlite_sequence"}


def test_an_old_data_set_keeps_its_terms(old):
    for changes, begins in (
        ({"max_contributions": 2}, "max_contributions: 2 is the bound"),
        ({"unit": "trip", "statistic": "flows"}, "dataset: 'trip' is the unit"),
    ):
        with pytest.raises(ValueError, match=f"^{begins}"):
            old.record(posting(pure("1/10"), **changes))
    with pytest.raises(tt.BudgetExceeded):
        old.record(posting(pure(2)))
    old.record(posting(pure("1/10"), dataset="later", max_contributions=2, unit="membership"))
    assert old.dataset("later").unit == "membership"
    with pytest.raises(ValueError, match=r"^dataset: 'record' is the unit of protection here"):
        old.record(posting(pure("1/10"), dataset="later", max_contributions=2))


def test_a_unit_that_was_open_can_be_stated_once(old):
    lower = tt.Budget(rho=0.1)
    old.set_limit("later", lower, unit="person")
    assert old.dataset("later").unit == "person"
    with pytest.raises(ValueError, match=r"^dataset: 'trip' is the unit of protection here"):
        old.set_limit("later", lower, unit="trip")


def test_a_limit_and_a_release_of_the_same_second_are_listed_in_this_order(old):
    people = old.dataset("people")
    positions = [(entry.position, "release") for entry in people.entries]
    positions += [(limit.position, "raised" if limit.raised else "set") for limit in people.limits]
    assert [what for _, what in sorted(positions)] == ["set", "release", "raised", "release"]


def test_a_release_with_a_threshold_keeps_having_no_rho(path, ledger):
    old_ledger(
        path,
        datasets=[("people", "add_remove", 1, "record")],
        releases=[("people", "2026-01-02T00:00:00Z", "counts", "X", "1", "1/1000", "none", "finished", "0.1")],
    )
    for _ in range(2):
        assert ledger.entries()[0].loss == threshold(1, "1/1000")
        ledger.record(posting(pure(1)))


def test_an_old_ledger_takes_releases_of_real_data(old, path, areas):
    release(areas, path)
    assert [entry.state for entry in old.entries("people")] == ["finished", "started", "finished"]
    old.set_limit("people", tt.Budget(epsilon=4), approval=Approval(reason="more tables"))


CRASH = """
import os, signal, sqlite3, sys
from helpers.ledger_entries import posting, pure
from tallytree.ledger import Ledger, books
from tallytree.ledger import format_1
def stop(*arguments):
    original(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "tables":
    original, format_1.replace_tables = format_1.replace_tables, stop
else:
    original, books.append = books.append, stop
Ledger(sys.argv[1]).record(posting(pure(1)))
"""


@pytest.mark.parametrize("after", ["tables", "events"])
def test_a_crash_while_it_gets_the_present_format_leaves_it_as_it_was(old, path, after):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", CRASH, str(path), after], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert facts(old) == EXPECTED
    assert version(path) == 1
    old.record(posting(pure(1)))
    assert version(path) == 2


DAMAGES = [
    "UPDATE {} SET rho = CAST(x'ff' AS TEXT)",
    "UPDATE {} SET epsilon = x'31'",
    "UPDATE {} SET epsilon = '{}'".format("{}", "9" * 5_000),
    "UPDATE {} SET epsilon = '1/{}'".format("{}", "9" * 5_000),
    "UPDATE {} SET epsilon = 'lots'",
    "UPDATE {} SET epsilon = '-1'",
    "UPDATE {} SET epsilon = '1/0'",
    "UPDATE {} SET dataset = 'peopl'",
    "UPDATE {} SET state = 'undone'",
    "UPDATE {} SET recorded_at = ''",
    "UPDATE {} SET epsilon = NULL",
    "UPDATE {} SET statistic = x'00'",
    "UPDATE datasets SET neighboring = 'none'",
    "UPDATE datasets SET max_contributions = 0",
    "UPDATE datasets SET max_contributions = 'x'",
    "UPDATE datasets SET unit = NULL",
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage[:60])
def test_a_value_that_none_may_have_is_refused(old, path, damage):
    """Checked before the amounts are read as numbers, which takes long for many digits."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(damage.replace("{}", "releases", 1))
        for _, definition in triggers:
            connection.execute(definition)
        connection.commit()
    for ask in (old.datasets, lambda: old.record(posting(pure(1))), lambda: old.set_limit("x", tt.Budget(rho=1))):
        with pytest.raises(ValueError, match=r"^ledger: .*(was changed, or is damaged: |or a damaged one; )") as caught:
            ask()
        assert "restore it from a copy that has all releases" in str(caught.value)
