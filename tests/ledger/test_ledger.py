"""The ledger: what it adds up, what it refuses, and that no noise is drawn unrecorded, whatever goes wrong."""

import dataclasses
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import tallytree as tt
from tallytree import counts
from tallytree.accounting.spending import Loss, Posting
from tallytree.ledger.book import Account, Ledger
from tallytree.pipeline import CountsArguments, plan_counts
from tallytree.private.noise import entropy
from tallytree.private.noise.noise_source import KeyedNoise

PEOPLE = pa.table({"state": ["A"] * 60 + ["B"] * 40, "county": ["x"] * 50 + ["y"] * 10 + ["x"] * 40})
TERMS = {"neighboring": "add_remove"}
CANARY = "canary-8473625"


def pure(epsilon):
    return Loss(Fraction(epsilon), Fraction(0), Fraction(epsilon) ** 2 / 2)


def approximate(epsilon, delta, rho="1/100"):
    return Loss(Fraction(epsilon), Fraction(delta), Fraction(rho))


def zcdp(rho):
    return Loss(None, None, Fraction(rho))


def threshold(epsilon, delta):
    return Loss(Fraction(epsilon), Fraction(delta), None)


def posting(loss, **changes):
    facts = {
        "dataset": "people",
        "statistic": "counts",
        "mechanism": "TopDown",
        "neighboring": "add_remove",
        "max_contributions": 1,
        "unit": "record",
    }
    return Posting(**facts | changes, loss=loss)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path):
    return Ledger(path)


@pytest.fixture
def nothing_drawn(monkeypatch):
    """Fails the test if a key or noise is made, or a private row is read."""

    def refuse(*arguments, **options):
        pytest.fail("noise was drawn, or the records were read")

    monkeypatch.setattr(KeyedNoise, "draw", refuse)
    monkeypatch.setattr(entropy, "fresh_key", refuse)
    monkeypatch.setattr(tt.engines.Local, "count_records", refuse)


@pytest.fixture
def no_noise(monkeypatch):
    """Fails the test if noise is drawn; records may be read."""
    monkeypatch.setattr(KeyedNoise, "draw", lambda *arguments: pytest.fail("noise was drawn"))


def release(areas, path, **changes):
    arguments = {"budget": tt.Budget(epsilon=1), "neighboring": "add_remove", "ledger": path, "dataset": "people"}
    return tt.release_counts(PEOPLE, areas, **arguments | changes)


# --- Adding up ---


def test_sums_are_exact(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), **TERMS)
    for _ in range(3):
        ledger.record(posting(pure("1/3")))
    assert ledger.spent("people") == {"epsilon": 1}
    assert ledger.remaining("people") == {"epsilon": 0}
    with pytest.raises(tt.BudgetExceeded):
        ledger.record(posting(pure(Fraction(1, 10**40))))
    assert len(ledger.entries("people")) == 3


def test_many_different_amounts_are_added_exactly(ledger):
    amounts = [Fraction(1, n) for n in range(1, 60)]
    for amount in amounts:
        ledger.record(posting(zcdp(amount)))
    assert ledger.spent("people") == {"rho": sum(amounts)}
    assert list(ledger.dataset("people").running_totals())[-1] == ledger.spent("people")


PURE, BOTH, RHO = tt.Budget(epsilon=2), tt.Budget(epsilon=2, delta=1e-6), tt.Budget(rho=2)
CANNOT = "cannot be counted against the limit of the data set 'people'"


@pytest.mark.parametrize(
    ("limit", "loss", "counted"),
    [
        (PURE, pure(1), {"epsilon": Fraction(1)}),
        (PURE, approximate(1, "1/10000000"), CANNOT),
        (PURE, zcdp(1), CANNOT),
        (BOTH, pure(1), {"epsilon": Fraction(1), "delta": Fraction(0)}),
        (BOTH, approximate(1, "1/10000000"), {"epsilon": Fraction(1), "delta": Fraction(1, 10**7)}),
        (BOTH, zcdp(1), CANNOT),
        (RHO, pure(1), {"rho": Fraction(1, 2)}),
        (RHO, approximate(1, "1/10000000", "1/30"), {"rho": Fraction(1, 30)}),
        (RHO, zcdp(1), {"rho": Fraction(1)}),
        (PURE, threshold(1, "1/10000000"), CANNOT),
        (BOTH, threshold(1, "1/10000000"), {"epsilon": Fraction(1), "delta": Fraction(1, 10**7)}),
        (RHO, threshold(1, "1/10000000"), CANNOT),
    ],
)
def test_a_limit_counts_every_kind_of_release_soundly_or_not_at_all(ledger, limit, loss, counted):
    ledger.set_limit("people", limit, **TERMS)
    if isinstance(counted, str):
        with pytest.raises(ValueError, match=f"^budget: .*{counted}") as caught:
            ledger.record(posting(loss))
        assert "or set its limit in " in str(caught.value)
        assert ledger.entries() == ()
    else:
        ledger.record(posting(loss))
        assert ledger.spent("people") == counted


def test_the_delta_of_a_limit_is_a_limit_too(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=10, delta=1e-6), **TERMS)
    ledger.record(posting(approximate(1, "6/10000000")))
    with pytest.raises(tt.BudgetExceeded, match="delta 4e-07 that is left"):
        ledger.record(posting(approximate(1, "5/10000000")))


@pytest.mark.parametrize(
    ("losses", "spent"),
    [
        ([], {"epsilon": 0}),
        ([pure(1), pure(2)], {"epsilon": 3}),
        ([pure(1), approximate(2, "1/1000")], {"epsilon": 3, "delta": Fraction(1, 1000)}),
        ([pure(1), approximate(2, "1/1000", "1/8"), zcdp("1/4")], {"rho": Fraction(7, 8)}),
    ],
)
def test_without_a_limit_a_data_set_is_added_up_in_the_strongest_terms_it_has(ledger, losses, spent):
    ledger.record(posting(pure(1), dataset="another"))
    for loss in losses:
        ledger.record(posting(loss))
    if losses:
        assert ledger.spent("people") == spent
        assert ledger.remaining("people") is None
    ledger.set_limit("people", tt.Budget(rho=10), **TERMS)
    assert list(ledger.spent("people")) == ["rho"]


@pytest.mark.parametrize(
    ("budget", "loss"),
    [
        # Two levels of half the budget: each is eps²/2-zCDP.
        (tt.Budget(epsilon=1), Loss(Fraction(1), Fraction(0), Fraction(1, 4))),
        (tt.Budget(rho=0.5), None),
        (tt.Budget(epsilon=1, delta=1e-8), None),
    ],
)
def test_a_loss_is_what_the_plan_spends_and_never_more_than_the_budget(areas, budget, loss):
    job = plan_counts(CountsArguments(PEOPLE, areas, budget, neighboring="change_one"))
    spent = Loss.of(job.plan)
    if loss is not None:
        assert spent == loss
    assert spent.kind == budget.kind
    if budget.epsilon is not None:
        assert spent.epsilon <= budget.epsilon
        assert spent.delta == (budget.delta or 0)
    if budget.kind != "pure":
        assert spent.rho == sum(level.cost for level in job.plan.levels.values())
    if budget.rho is not None:
        assert Fraction(49, 100) < spent.rho <= budget.rho


# --- Terms and names ---


@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        ({"neighboring": "change_one"}, "neighboring: 'change_one' is the relation here"),
        ({"max_contributions": 2}, "max_contributions: 2 is the bound"),
        ({"unit": "trip", "statistic": "flows"}, "dataset: 'trip' is the unit"),
    ],
)
@pytest.mark.parametrize("by", ["release", "limit"])
def test_another_relation_or_unit_is_never_mixed_in(path, ledger, changes, begins, by):
    if by == "release":
        ledger.record(posting(pure(1)))
    else:
        ledger.set_limit("people", tt.Budget(epsilon=9), **TERMS, unit="record")
    for refused in (ledger.check, ledger.record):
        with pytest.raises(ValueError, match=f"^{begins}") as caught:
            refused(posting(pure(1), **changes))
        assert "so keep to " in str(caught.value)
    assert len(ledger.entries()) == (by == "release")
    ledger.record(posting(pure(1), **changes, dataset="another"))


def test_a_limit_without_a_unit_takes_that_of_the_first_release(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=9), **TERMS)
    assert ledger.dataset("people").unit is None
    ledger.record(posting(pure(1), unit="membership"))
    with pytest.raises(ValueError, match=r"^dataset: 'record' is the unit of protection here, but that of "):
        ledger.record(posting(pure(1)))


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", ValueError),
        (" people", ValueError),
        ("a\nb", ValueError),
        ("\udc80", ValueError),
        ("x" * 201, ValueError),
        (7, TypeError),
    ],
)
def test_a_data_set_needs_a_name_that_can_be_seen(areas, path, ledger, name, error):
    for ask in (
        lambda: ledger.set_limit(name, tt.Budget(epsilon=1), **TERMS),
        lambda: release(areas, path, dataset=name),
    ):
        with pytest.raises(error, match=r"^dataset: .* must be (a|the) name"):
            ask()
    assert not path.exists()


def test_the_same_name_in_another_encoding_is_the_same_data_set(areas, path):
    ledger = Ledger(path)
    ledger.set_limit("Bevo\N{LATIN SMALL LETTER O WITH DIAERESIS}", tt.Budget(epsilon=1), **TERMS)
    release(areas, path, dataset="Bevoo\N{COMBINING DIAERESIS}")
    assert [dataset.name for dataset in ledger.datasets()] == ["Bevo\N{LATIN SMALL LETTER O WITH DIAERESIS}"]


# --- Limits ---


def test_a_limit_may_be_raised_and_lowered_but_not_below_what_is_spent(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), **TERMS)
    ledger.record(posting(pure(1)))
    with pytest.raises(tt.BudgetExceeded) as caught:
        ledger.record(posting(pure("1/2")))
    assert str(caught.value) == (
        "budget: epsilon 0.5 is more than the epsilon 0 that is left of the limit of the data set 'people', "
        "epsilon 1; grant less, or raise the limit with `tallytree limit`"
    )
    ledger.set_limit("people", tt.Budget(epsilon=3))
    ledger.record(posting(pure("1/2")))
    with pytest.raises(
        ValueError, match=r"^budget: a limit of epsilon 1 is less than what is spent already, epsilon 1"
    ):
        ledger.set_limit("people", tt.Budget(epsilon=1))
    ledger.set_limit("people", tt.Budget(epsilon=1.5))
    assert ledger.remaining("people") == {"epsilon": 0}


def test_a_limit_that_cannot_count_what_was_released_is_refused(ledger):
    ledger.record(posting(zcdp("1/2")))
    for budget in (PURE, BOTH):
        with pytest.raises(ValueError, match=r"^budget: the data set has releases that a limit of .* cannot count; "):
            ledger.set_limit("people", budget)
    ledger.set_limit("people", RHO)
    assert ledger.remaining("people") == {"rho": Fraction(3, 2)}


def test_a_release_with_a_threshold_has_no_rho_and_shares_no_data_set_with_releases_in_rho(ledger):
    ledger.record(posting(threshold(1, "1/1000")))
    ledger.record(posting(approximate(1, "1/1000", "1/8")))
    assert ledger.spent("people") == {"epsilon": 2, "delta": Fraction(1, 500)}
    assert [entry.loss.rho for entry in ledger.entries("people")] == [None, Fraction(1, 8)]
    with pytest.raises(ValueError, match=r"^budget: rho 0.5 cannot be added to what the data set 'people' has spent: "):
        ledger.record(posting(zcdp("1/2")))
    with pytest.raises(ValueError, match=r"cannot count; set it in epsilon and delta, which counts every release$"):
        ledger.set_limit("people", RHO)
    ledger.record(posting(zcdp("1/2"), dataset="others"))
    with pytest.raises(ValueError, match=r"^budget: epsilon 1, delta 0.001 cannot be added to what .* 'others' has"):
        ledger.record(posting(threshold(1, "1/1000"), dataset="others"))
    assert len(ledger.entries("people")) == 2
    assert len(ledger.entries("others")) == 1


@pytest.mark.parametrize(
    ("changes", "error", "begins"),
    [
        ({"neighboring": None}, ValueError, "neighboring: the ledger does not know the data set 'new' yet; "),
        ({"neighboring": "both"}, ValueError, "neighboring: 'both' is not known; "),
        ({"max_contributions": 0}, ValueError, "max_contributions: 0 must be at least 1"),
        ({"unit": "house"}, ValueError, "unit: 'house' is not known; "),
        ({"budget": 1.0}, TypeError, "budget: 1.0 must be a tallytree.Budget, "),
    ],
)
def test_a_mistaken_limit_changes_nothing(ledger, changes, error, begins):
    ledger.record(posting(pure(1)))
    with pytest.raises(error, match=f"^{begins}"):
        ledger.set_limit("new", **{"budget": PURE, "neighboring": "bounded"} | changes)
    assert [dataset.name for dataset in ledger.datasets()] == ["people"]


def test_a_data_set_that_is_not_there_is_named_with_those_that_are(ledger):
    ledger.record(posting(pure(1)))
    for ask in (ledger.spent, ledger.remaining, ledger.entries, ledger.dataset):
        with pytest.raises(ValueError, match=r"^dataset: the ledger '.*' has no 'peeple'; it has 'people'$"):
            ask("peeple")


# --- Releases ---


def test_each_release_is_recorded_and_says_so(areas, path):
    released = release(areas, path)
    assert released.statement["ledger"] == {"dataset": "people", "recorded": True}
    assert tt.release_counts(PEOPLE, areas, PURE, neighboring="add_remove").statement["ledger"] is None
    (entry,) = Ledger(path).entries("people")
    assert (entry.statistic, entry.mechanism, entry.state) == ("counts", "LeastSquares", "finished")
    assert (entry.neighboring, entry.max_contributions, entry.unit) == ("add_remove", 1, "record")
    assert (entry.loss.epsilon, entry.loss.delta) == (1, 0)
    assert abs(time.time() - time.mktime(time.strptime(entry.recorded_at, "%Y-%m-%dT%H:%M:%SZ")) + time.timezone) < 60


def test_flows_and_group_sizes_are_recorded_in_their_own_units(areas, path):
    trips = PEOPLE.rename_columns(["o_state", "o_county"])
    trips = trips.append_column("d_state", trips["o_state"]).append_column("d_county", trips["o_county"])
    common = {"neighboring": "add_remove", "ledger": Ledger(path), "max_contributions": 3}
    tt.release_flows(
        trips,
        origins=areas,
        destinations=areas,
        origin=["o_state", "o_county"],
        destination=["d_state", "d_county"],
        budget=tt.Budget(rho=0.1),
        dataset="trips",
        **common,
    )
    rows = pa.table({"state": ["A"], "county": ["x"], "n": [2], "homes": [9]})
    tt.release_group_sizes(
        rows, areas, tt.Budget(epsilon=1), size="n", groups="homes", max_group_size=5, dataset="homes", **common
    )
    entries = Ledger(path).entries()
    assert [(entry.dataset, entry.statistic, entry.unit, entry.max_contributions) for entry in entries] == [
        ("trips", "flows", "trip", 3),
        ("homes", "group_sizes", "membership", 3),
    ]
    assert {entry.state for entry in entries} == {"finished"}


def test_it_is_on_the_disk_before_the_key_exists_and_after_the_records_were_accepted(areas, path, monkeypatch):
    seen = []

    def look(what, original):
        def looking(*arguments, **options):
            states = [entry.state for entry in Ledger(path).entries()] if path.exists() else None
            seen.append((what, states))
            return original(*arguments, **options)

        return looking

    monkeypatch.setattr(tt.engines.Local, "count_records", look("records", tt.engines.Local.count_records))
    monkeypatch.setattr(entropy, "fresh_key", look("key", entropy.fresh_key))
    monkeypatch.setattr(KeyedNoise, "draw", look("noise", KeyedNoise.draw))
    release(areas, path)
    assert seen == [("records", None), ("key", ["started"]), *[("noise", ["started"])] * 3]


def test_records_that_are_refused_spend_nothing(areas, path):
    with pytest.raises(ValueError, match=r"^records: "):
        tt.release_counts(
            pa.table({"state": ["Nowhere"], "county": ["x"]}),
            areas,
            PURE,
            neighboring="add_remove",
            ledger=path,
            dataset="people",
        )
    assert not path.exists()


def test_a_release_over_the_limit_draws_and_records_nothing(areas, path, nothing_drawn):
    ledger = Ledger(path)
    ledger.set_limit("people", tt.Budget(epsilon=0.5), **TERMS)
    with pytest.raises(tt.BudgetExceeded, match=r"^budget: epsilon 1 is more than the epsilon 0.5 that is left"):
        release(areas, path)
    assert ledger.entries() == ()


def test_a_limit_that_is_used_up_while_the_records_are_read_still_holds(areas, path, monkeypatch):
    ledger = Ledger(path)
    ledger.set_limit("people", tt.Budget(epsilon=1), **TERMS)
    original = tt.engines.Local.count_records

    def meanwhile(*arguments, **options):
        ledger.record(posting(pure("1/10")))
        return original(*arguments, **options)

    monkeypatch.setattr(tt.engines.Local, "count_records", meanwhile)
    monkeypatch.setattr(KeyedNoise, "draw", lambda *arguments: pytest.fail("noise was drawn"))
    with pytest.raises(tt.BudgetExceeded, match=r"epsilon 0.9 that is left"):
        release(areas, path)
    assert len(ledger.entries()) == 1


def test_nothing_is_given_back_after_a_failure(areas, path, monkeypatch):
    def fail(*arguments):
        raise MemoryError("records: too many")

    monkeypatch.setattr(KeyedNoise, "draw", fail)
    with pytest.raises(MemoryError):
        release(areas, path)
    (entry,) = Ledger(path).entries()
    assert entry.state == "started"
    assert Ledger(path).spent("people") == {"epsilon": 1}


def test_checking_and_planning_record_nothing(areas, path):
    given = CountsArguments(PEOPLE, areas, PURE, neighboring="add_remove", ledger=path, dataset="people")
    plan_counts(given).check()
    assert list(path.parent.iterdir()) == []
    Ledger.create(path)
    before = path.read_bytes()
    plan_counts(given).check()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("changes", "error", "begins"),
    [
        ({"seed": 1}, ValueError, "seed: 1 makes a release that is not private, so no ledger takes it; "),
        ({"dataset": None}, ValueError, "dataset: the ledger 'ledger.db' keeps what is spent by data set; name "),
        ({"ledger": None}, ValueError, "dataset: 'people' is a name in a ledger; give the ledger too, "),
        ({"ledger": 7}, TypeError, "ledger: 7 must be the path of a file, or a "),
        ({"ledger": b"x"}, TypeError, "ledger: b'x' must be the path of a file, or a "),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(areas, path, nothing_drawn, changes, error, begins):
    with pytest.raises(error, match=f"^{begins}"):
        release(areas, path, **changes)
    assert not path.exists()


def test_a_release_is_paid_for_once_even_where_it_cannot_be_noted_as_finished(areas, path, monkeypatch, caplog):
    def fail(self, number):
        raise TimeoutError("ledger: locked")

    monkeypatch.setattr(Ledger, "finish", fail)
    released = release(areas, path)
    assert released.levels == ("all", "state", "county")
    assert "the release stays in the ledger as started" in caplog.text
    assert [entry.state for entry in Ledger(path).entries()] == ["started"]


def test_opendp_that_is_not_installed_is_found_out_before_anything_is_spent(areas, path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "tallytree\[opendp\]"'):
        release(areas, path, noise="opendp")
    assert not path.exists()


def test_the_ledger_that_was_checked_is_the_one_that_is_charged(areas, path, ledger, monkeypatch, no_noise):
    ledger.set_limit("people", tt.Budget(epsilon=2), neighboring="add_remove")
    tabulate = tt.engines.Local.count_records
    for swap in (lambda: None, lambda: Ledger.create(path)):

        def meanwhile(self, *arguments, swap=swap, **options):
            path.rename(path.with_name("moved"))
            swap()
            return tabulate(self, *arguments, **options)

        monkeypatch.setattr(tt.engines.Local, "count_records", meanwhile)
        with pytest.raises((ValueError, FileNotFoundError), match=r"ledger: .*(no file at|is not the file that was)"):
            release(areas, path)
        path.unlink(missing_ok=True)
        path.with_name("moved").rename(path)
    assert Ledger(path).entries() == ()


def test_a_job_that_was_changed_after_it_was_planned_is_not_run(areas, path, no_noise):
    def job(epsilon, **options):
        given = CountsArguments(PEOPLE, areas, tt.Budget(epsilon=epsilon), neighboring="add_remove", **options)
        return plan_counts(given)

    paid, dear = job(1, ledger=path, dataset="people"), job(50)
    for changes in ({"plan": dear.plan}, {"arguments": dataclasses.replace(paid.arguments, seed=1)}):
        with pytest.raises(tt.BudgetExceeded, match="changed after its place in the ledger was planned"):
            dataclasses.replace(paid, **changes).run()
    with pytest.raises(TypeError, match="does not support item assignment"):
        paid.plan.levels["all"] = dear.plan.levels["all"]
    assert not path.exists()


@pytest.mark.parametrize(
    "amounts",
    [(Fraction(-5), Fraction(0), Fraction(1)), (0.25, Fraction(0), Fraction(1)), (Fraction(1), None, Fraction(1)),
     (Fraction(1), Fraction(1), Fraction(1)), (Fraction(1), Fraction(0), Fraction(-1)), (None, None, None),
     (Fraction(1), Fraction(0), None)],
)  # fmt: skip
def test_a_loss_that_no_release_can_have_is_never_added_up(amounts):
    with pytest.raises(ValueError, match="loss: "):
        Loss(*amounts)


@pytest.mark.parametrize(
    "change",
    [
        "INSERT OR REPLACE INTO releases SELECT number, dataset, recorded_at, statistic, mechanism, '0/1', '0/1', "
        "'0/1', state, version FROM releases",
        "INSERT OR REPLACE INTO limits SELECT number, dataset, set_at, '100/1', delta, rho FROM limits",
        "INSERT OR REPLACE INTO datasets SELECT name, 'change_one', 7, unit FROM datasets",
        "UPDATE datasets SET unit = 'trip'",
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
    with pytest.raises(ValueError, match="ledger: .* has the journal mode 'wal', in which a copy can miss entries"):  # noqa: RUF043
        ledger.record(posting(pure(1)))


# --- The file ---


def test_it_is_for_its_owner_alone_and_nothing_else_is_left_beside_it(ledger, path):
    ledger.record(posting(pure(1)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_create_makes_an_empty_one_and_never_replaces_any(path):
    assert Ledger.create(path).entries() == ()
    with pytest.raises(FileExistsError, match=r"^ledger: '.*' exists; "):
        Ledger.create(path)


def test_no_private_value_is_in_it(areas, path):
    """Neither a label nor a count: other records leave the same entry, but for its time."""
    kept = []
    for n in (60, 61):
        place = path.with_name(f"{n}.db")
        people = pa.table({"state": ["A"] * n, "county": ["x"] * n, "name": [CANARY] * n})
        pq.write_table(people, path.with_name(f"{CANARY}.parquet"))
        arguments = {"neighboring": "add_remove", "ledger": place, "dataset": "people"}
        tt.release_counts(path.with_name(f"{CANARY}.parquet"), areas, PURE, **arguments)
        with closing(sqlite3.connect(place)) as connection:
            rows = "".join(connection.iterdump())
        (entry,) = Ledger(place).entries()
        kept.append(rows.replace(entry.recorded_at, ""))
        assert CANARY.encode() not in place.read_bytes()
    assert kept[0] == kept[1]


@pytest.mark.parametrize("change", ["DELETE FROM releases", "UPDATE releases SET epsilon = '0'"])
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


def make_other_version(path):
    Ledger.create(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")


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
        connection.execute("DROP TABLE limits")


def make_nonsense(path):
    Ledger(path).record(posting(pure(1)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO releases (dataset, recorded_at, statistic, mechanism, epsilon, delta, rho, state, version) "
            "VALUES ('people', '', 'counts', '', 'lots', '0', '1', 'started', '')"
        )
        connection.commit()


def make_changeable(path):
    Ledger(path).record(posting(pure(1)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER releases_stay")


def make_folder(path):
    path.mkdir()


BROKEN = {
    make_text: "is not a tallytree ledger, or a damaged one; give the path of one, or restore it from a copy",
    make_empty: "is not a tallytree ledger; give the path of one",
    make_other_database: "is not a tallytree ledger; give the path of one",
    make_other_version: "has format version 7; this tallytree reads 1",
    make_truncated: "is not a tallytree ledger, or a damaged one; ",
    make_scribbled: "is not a tallytree ledger, or a damaged one; ",
    make_tableless: "is not a tallytree ledger, or a damaged one; ",
    make_nonsense: "is not a tallytree ledger, or a damaged one; ",
    make_changeable: "is not a tallytree ledger, or a damaged one; ",
    make_folder: "is not a file; give the path of a ledger",
}


@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__.removeprefix("make_"))
def test_a_file_that_is_no_whole_ledger_is_refused_and_nothing_is_drawn(areas, path, request, make):
    make(path)
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
    monkeypatch.setattr("tallytree.ledger.book._PRAGMAS", ("max_page_count = 1", "synchronous = EXTRA"))
    with pytest.raises(OSError, match=r"^ledger: '.*' could not be written \(database or disk is full\)"):
        ledger.record(posting(pure(1), mechanism="x" * 10_000))
    monkeypatch.undo()
    assert len(ledger.entries()) == 1


# --- Several processes ---

HOLD = """
import pathlib, sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
pathlib.Path(sys.argv[2]).touch()
time.sleep(60)
"""


@contextmanager
def locked(path):
    """The ledger while another process holds its lock."""
    sign = path.with_name("held")
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(sign)]) as process:
        try:
            wait_for(sign.exists, process)
            yield
        finally:
            process.kill()


def wait_for(condition, *processes):
    while not condition():
        assert all(process.poll() is None for process in processes)
        time.sleep(0.01)


def test_a_locked_ledger_is_waited_for_then_refused_and_nothing_is_drawn(areas, path, nothing_drawn):
    ledger = Ledger(path, timeout=0.3)
    ledger.record(posting(pure(1)))
    with locked(path):
        for ask in (
            lambda: release(areas, ledger),
            lambda: ledger.record(posting(pure(1))),
            lambda: ledger.set_limit("people", PURE),
        ):
            start = time.monotonic()
            with pytest.raises(TimeoutError, match=r"^ledger: '.*' is locked by another process; try again when"):
                ask()
            assert 0.2 < time.monotonic() - start < 5
        assert len(ledger.entries()) == 1
    ledger.record(posting(pure(1)))  # whoever held it was killed, and left nothing


RACE = """
import pathlib, sys, time
from fractions import Fraction
from tallytree.errors import BudgetExceeded
from tallytree.privacy.ledger import Ledger
from tallytree.privacy.spending import Loss, Posting
path, me = sys.argv[1:]
loss = Loss(Fraction(1, 3), Fraction(0), Fraction(1, 18))
posting = Posting(dataset="people", statistic="counts", mechanism="TopDown", neighboring="add_remove",
                  max_contributions=1, unit="record", loss=loss)
folder = pathlib.Path(path).parent
(folder / f"ready-{me}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
passed = 0
for _ in range(3):
    try:
        Ledger(path, timeout=60).record(posting)
        passed += 1
    except BudgetExceeded:
        pass
print(passed)
"""


@pytest.mark.parametrize(
    ("limit", "admits"), [(tt.Budget(epsilon=2), 6), (None, 18)], ids=["limit", "no limit, no file"]
)
def test_of_processes_that_race_as_many_pass_as_the_limit_admits(path, ledger, limit, admits):
    if limit is not None:
        ledger.set_limit("people", limit, **TERMS)
    racers = [
        subprocess.Popen([sys.executable, "-c", RACE, str(path), str(i)], stdout=subprocess.PIPE, text=True)
        for i in range(6)
    ]
    try:
        wait_for(lambda: len(list(path.parent.glob("ready-*"))) == 6, *racers)
        (path.parent / "go").touch()
        passed = [int(racer.communicate(timeout=120)[0]) for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    assert sum(passed) == admits
    assert ledger.spent("people") == {"epsilon": Fraction(admits, 3)}
    assert [entry.number for entry in ledger.entries()] == list(range(1, admits + 1))


CRASH = """
import pathlib, sys, time
import pyarrow as pa
import tallytree as tt
from tallytree.privacy.sources import KeyedNoise
def wait(*arguments):
    pathlib.Path(sys.argv[2]).touch()
    time.sleep(60)
KeyedNoise.draw = wait
table = pa.table({"state": ["A", "B"], "county": ["x", "x"]})
areas = tt.Hierarchy.from_table(table, ["state", "county"])
tt.release_counts(table, areas, tt.Budget(epsilon=1), neighboring="add_remove", ledger=sys.argv[1], dataset="people")
"""


def test_a_release_that_is_killed_counts_as_spent(areas, path):
    ledger = Ledger(path)
    ledger.set_limit("people", tt.Budget(epsilon=1), **TERMS)
    sign = path.with_name("drawing")
    with subprocess.Popen([sys.executable, "-c", CRASH, str(path), str(sign)]) as process:
        wait_for(sign.exists, process)
        os.kill(process.pid, signal.SIGKILL)
    (entry,) = ledger.entries("people")
    assert entry.state == "started"
    assert ledger.remaining("people") == {"epsilon": 0}
    with pytest.raises(tt.BudgetExceeded):
        release(areas, path)


# --- A model ---

AMOUNTS = st.fractions(min_value=Fraction(1, 50), max_value=1, max_denominator=50)
LOSSES = st.one_of(
    AMOUNTS.map(pure),
    st.builds(lambda epsilon, delta: approximate(epsilon, delta / 100), AMOUNTS, AMOUNTS),
    AMOUNTS.map(zcdp),
)
LIMITS = st.one_of(
    AMOUNTS.map(lambda epsilon: tt.Budget(epsilon=3 * epsilon)),
    st.builds(lambda epsilon, delta: tt.Budget(epsilon=3 * epsilon, delta=delta / 40), AMOUNTS, AMOUNTS),
    AMOUNTS.map(lambda rho: tt.Budget(rho=3 * rho)),
)


def fits(losses, limit):
    """Whether the losses can be counted against the limit, and lie within it."""
    if limit is None:
        return True
    if limit.rho is not None:
        return sum(loss.rho for loss in losses) <= limit.rho
    if any(loss.epsilon is None for loss in losses):
        return False
    return sum(loss.epsilon for loss in losses) <= limit.epsilon and sum(loss.delta for loss in losses) <= (
        limit.delta or 0
    )


class Bookkeeping(RuleBasedStateMachine):
    """The ledger against a list."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = Ledger(Path(self.folder.name) / "ledger.db")
        self.losses, self.limit, self.finished = [], None, set()

    def teardown(self):
        self.folder.cleanup()

    @rule(loss=LOSSES)
    def record(self, loss):
        if fits([*self.losses, loss], self.limit):
            self.ledger.check(posting(loss))
            assert self.ledger.record(posting(loss)) == len(self.losses) + 1
            self.losses.append(loss)
        else:
            with pytest.raises((tt.BudgetExceeded, ValueError), match=r"^budget: "):
                self.ledger.record(posting(loss))

    @rule(limit=LIMITS)
    def set_limit(self, limit):
        if fits(self.losses, limit):
            self.ledger.set_limit("people", limit, neighboring="unbounded")
            self.limit = limit
        else:
            with pytest.raises(ValueError, match=r"^budget: "):
                self.ledger.set_limit("people", limit, neighboring="unbounded")

    @precondition(lambda self: self.losses)
    @rule(data=st.data())
    def finish(self, data):
        number = data.draw(st.integers(1, len(self.losses)))
        self.ledger.finish(number)
        self.finished.add(number)

    @invariant()
    def the_books_agree(self):
        if not self.losses:
            return
        entries = self.ledger.entries("people")
        assert [entry.loss for entry in entries] == self.losses
        assert {entry.number for entry in entries if entry.state == "finished"} == self.finished
        assert self.ledger.dataset("people").limit == self.limit
        for name, amount in self.ledger.spent("people").items():
            assert amount == sum(getattr(loss, name) for loss in self.losses)


TestBookkeeping = Bookkeeping.TestCase
TestBookkeeping.settings = settings(max_examples=12, stateful_step_count=12, deadline=None)


def test_mechanisms_are_named_without_their_options(areas, path):
    release(areas, path, mechanism=counts.TopDown(projection="euclidean"))
    (entry,) = Ledger(path).entries()
    assert entry.mechanism == "TopDown"


def test_an_account_that_was_never_recorded_has_nothing_to_finish(ledger, path):
    Account(ledger, posting(pure(1))).finish()
    assert not path.exists()


def test_a_statement_with_a_ledger_is_still_json(areas, path):
    assert json.loads(json.dumps(release(areas, path).statement))["ledger"]["dataset"] == "people"


def test_a_name_that_is_nearly_a_known_one_is_warned_of(tmp_path, areas):
    """Once, before anything is read; a name of its own, or a known one, is no slip."""
    path = tmp_path / "ledger.db"
    Ledger.create(path).set_limit("people 2020", tt.Budget(epsilon=9), neighboring="add_remove")

    def release(name):
        tt.release_counts(PEOPLE, areas, PURE, neighboring="add_remove", ledger=path, dataset=name)

    for slip in ("People 2020", "peopel 2020"):
        with pytest.warns(UserWarning, match="no limit; if 'people 2020' is meant, give that name") as warned:
            release(slip)
        assert len(warned) == 1
    release("people 2020")
    release("trips")
    release("People 2020")
