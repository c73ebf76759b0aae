"""Releases are recorded before their noise is drawn, and stay recorded after a failure."""

import dataclasses
import json
import secrets
import sqlite3
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import CountsArguments, KeyedNoise, check, entropy, make_release, plan_counts
from helpers.ledger_entries import PEOPLE, PURE, TERMS, posting, pure, release
from tallytree import counts
from tallytree.ledger import Account, Ledger


def test_each_release_is_recorded_and_says_so(areas, path):
    begun = datetime.now(UTC)
    released = release(areas, path)
    assert released.statement["ledger"] == {"dataset": "people", "recorded": True}
    assert tt.release_counts(PEOPLE, areas, PURE, neighboring="add_remove").statement["ledger"] is None
    (entry,) = Ledger(path).entries("people")
    assert (entry.statistic, entry.mechanism, entry.state) == ("counts", "LeastSquares", "finished")
    assert (entry.neighboring, entry.max_contributions, entry.unit) == ("add_remove", 1, "record")
    assert (entry.loss.epsilon, entry.loss.delta) == (1, 0)
    assert begun.replace(microsecond=0) <= datetime.fromisoformat(entry.recorded_at) <= datetime.now(UTC)


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

    monkeypatch.setattr(tt.engines.Local, "tabulate", look("records", tt.engines.Local.tabulate))
    monkeypatch.setattr(entropy, "fresh_key", look("key", entropy.fresh_key))
    monkeypatch.setattr(KeyedNoise, "draw", look("noise", KeyedNoise.draw))
    release(areas, path)
    assert seen == [("records", None), ("key", ["started"]), *[("noise", ["started"])] * 3]


def test_the_id_of_an_entry_is_16_bytes_that_the_system_is_asked_for(areas, path, monkeypatch):
    monkeypatch.setattr(secrets, "token_hex", lambda size: bytes(range(100, 100 + size)).hex())
    release(areas, path)
    assert Ledger(path).entries()[0].release_id == bytes(range(100, 116)).hex()


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
    original = tt.engines.Local.tabulate

    def meanwhile(*arguments, **options):
        ledger.record(posting(pure("1/10")))
        return original(*arguments, **options)

    monkeypatch.setattr(tt.engines.Local, "tabulate", meanwhile)
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
    check(plan_counts(given))
    assert list(path.parent.iterdir()) == []
    Ledger.create(path)
    before = path.read_bytes()
    check(plan_counts(given))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("changes", "error", "begins"),
    [
        ({"seed": 1}, ValueError, "seed: 1 makes a release that is not private, so no ledger takes it; "),
        ({"dataset": None}, ValueError, "dataset: the ledger 'ledger.db' keeps what is spent by data set; name "),
        ({"ledger": None}, ValueError, "dataset: 'people' is a name in a ledger; give the ledger too, "),
        ({"ledger": 7}, TypeError, "ledger: int must be the path of a file, or a "),
        ({"ledger": b"x"}, TypeError, "ledger: bytes must be the path of a file, or a "),
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
    tabulate = tt.engines.Local.tabulate
    for swap in (lambda: None, lambda: Ledger.create(path)):

        def meanwhile(self, *arguments, swap=swap, **options):
            path.rename(path.with_name("moved"))
            swap()
            return tabulate(self, *arguments, **options)

        monkeypatch.setattr(tt.engines.Local, "tabulate", meanwhile)
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
        with pytest.raises(tt.BudgetExceeded, match="changed after its noise was planned"):
            make_release(dataclasses.replace(paid, **changes))
    with pytest.raises(TypeError, match="does not support item assignment"):
        paid.plan.levels["all"] = dear.plan.levels["all"]
    assert not path.exists()


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


class FailsWhenDone(sqlite3.Connection):
    """Its COMMIT fails when it is done, as where the folder cannot be synchronised."""

    def execute(self, statement, *values):
        done = super().execute(statement, *values)
        if statement == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_DIR_FSYNC
            raise error
        return done


@pytest.mark.parametrize("then", ["it can be read", "it cannot be read", "it is not there"])
def test_a_payment_that_fails_when_it_is_done_says_that_the_budget_is_or_may_be_spent(
    areas, path, monkeypatch, no_noise, then
):
    Ledger(path).set_limit("people", tt.Budget(epsilon=2), **TERMS)
    connect, record, kept = sqlite3.connect, Account.record, path.read_bytes()

    def connect_once(*given, **options):
        monkeypatch.setattr(sqlite3, "connect", connect_again)
        return connect(*given, **options, factory=FailsWhenDone)

    def connect_again(*given, **options):
        monkeypatch.setattr(sqlite3, "connect", connect)
        if then != "it can be read":
            path.write_bytes(kept if then == "it is not there" else b"x" * 5000)
        return connect(*given, **options)

    def record_and_fail(*given):
        monkeypatch.setattr(sqlite3, "connect", connect_once)
        return record(*given)

    monkeypatch.setattr(Account, "record", record_and_fail)
    with pytest.raises(OSError, match=r"could not be written \(disk I/O error\)") as caught:
        release(areas, path)
    notes = getattr(caught.value, "__notes__", [])
    if then == "it is not there":
        assert notes == []
    elif then == "it can be read":
        assert notes == [
            "ledger: the budget of this release is spent (ledger entry 1); the same run is repeated free of charge "
            "with the same secret; any other attempt spends it again"
        ]
        assert Ledger(path).spent("people") == {"epsilon": 1}
    else:
        (note,) = notes
        assert note.startswith("ledger: the budget of this release may be spent (ledger entry 1): ledger: '")
        assert note.endswith("look with `tallytree ledger` before another attempt")
