"""Named runs: a repetition is the same release and free; all else is another release, charged or refused."""

import json
from fractions import Fraction

import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.ledger import Ledger

AREAS = tt.Hierarchy.from_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}), ["state", "county"])
PEOPLE = pa.table({"state": ["A", "A", "B"] * 9, "county": ["x", "y", "x"] * 9, "who": [i % 5 for i in range(27)],
                   "home": [i % 3 * 10 + i % 2 for i in range(27)]})  # fmt: skip
FEWER = PEOPLE.slice(1)
WIDE = 1e-6
"""An epsilon with noise so wide (b = 3e6) that two independent draws agree with probability 1e-7."""
TURNED = PEOPLE.take(list(reversed(range(27))))


@pytest.fixture
def book(tmp_path):
    """The ledger, with a limit of 3."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.set_limit("people", tt.Budget(epsilon=3), neighboring="add_remove")
    return ledger


@pytest.fixture
def counts(tmp_path, book):
    """Releases counts in a run that can be repeated."""
    secret = tt.new_secret(tmp_path / "secret")

    def release(records=PEOPLE, epsilon=1, tree=AREAS, **options):
        given = {"secret": secret, "run": "Monday", "ledger": book, "dataset": "people"} | options
        return tt.release_counts(records, tree, tt.Budget(epsilon=epsilon), neighboring="add_remove", **given)

    return release


def noisy_total(release):
    """The noisy measurement of the root."""
    return release.measurements("all")["value"][0].as_py()


def published(release):
    """All of a release that is published."""
    tables = [release.table(level).to_pydict() for level in release.levels]
    measured = [release.measurements(level).to_pydict() for level in release.levels]
    return json.dumps([release.statement, release.spec, tables, measured])


@pytest.mark.parametrize("records", [PEOPLE, TURNED, PEOPLE.append_column("more", pa.nulls(27))])
def test_a_repetition_is_the_same_release_and_costs_nothing(counts, book, records):
    first, again = counts(), counts(records)
    assert published(again) == published(first)
    assert book.spent("people") == {"epsilon": 1}
    (entry,) = book.entries("people")
    assert first.statement["release"] == {"id": entry.release_id, "run": "Monday", "plan": entry.plan}
    assert entry.run == "Monday"


def test_a_repetition_is_free_where_nothing_is_left(counts, book):
    first = [counts(run=day, epsilon=1.5) for day in ("Monday", "Tuesday")]
    with pytest.raises(tt.BudgetExceeded):
        counts(run="Wednesday", epsilon=1.5)
    again = [counts(run=day, epsilon=1.5) for day in ("Monday", "Tuesday")]
    assert [published(each) for each in again] == [published(each) for each in first]
    assert book.remaining("people") == {"epsilon": 0}


def test_group_sizes_and_flows_are_repeated_too(counts, book, tmp_path):
    shared = {"secret": tmp_path / "secret", "ledger": book, "dataset": "people", "neighboring": "add_remove"}

    def sizes():
        return tt.release_group_sizes(
            PEOPLE, AREAS, tt.Budget(epsilon=1), group="home", max_group_size=9, run="sizes", **shared
        )

    def flows():
        trips = PEOPLE.rename_columns(["from", "c", "to", "h"])
        trips = trips.set_column(2, "to", PEOPLE["state"])
        states = tt.Hierarchy.from_table(pa.table({"state": ["A", "B"]}), ["state"])
        return tt.release_flows(trips, origins=states, destinations=states, origin=["from"], destination=["to"],
                                budget=tt.Budget(epsilon=1), run="flows", **shared)  # fmt: skip

    for made in (sizes, flows):
        assert published(made()) == published(made())
    assert book.spent("people") == {"epsilon": 2}


def test_the_records_that_count_are_the_same_in_a_repetition(counts, book):
    first = counts(person="who", max_contributions=2)
    assert published(counts(person="who", max_contributions=2)) == published(first)
    assert len(book.entries("people")) == 1
    # A secret choice of its own would have found other statistics nearly every time, and refused.
    assert published(counts(TURNED, person="who", max_contributions=2)) == published(first)


CHANGED = {
    "records": ({"records": FEWER}, "the records, or the secret"),
    "budget": ({"epsilon": 0.5}, "plan"),
    "mechanism": ({"mechanism": tt.counts.TopDown()}, "plan"),
    "unknown records": ({"on_unknown": "drop"}, "plan"),
    "split": ({"budget_split": {"all": 1, "state": 1, "county": 2}}, "plan"),
}


@pytest.mark.parametrize("changes", CHANGED)
def test_what_changed_is_refused_and_nothing_is_spent(counts, book, changes):
    options, what = CHANGED[changes]
    counts()
    with pytest.raises(ValueError, match=f"^run: .*Monday.* entry 1.*{what}"):
        counts(**options)
    assert book.spent("people") == {"epsilon": 1}


@pytest.mark.parametrize("changes", CHANGED)
def test_what_changed_is_charged_as_a_release_of_its_own_with_other_noise(counts, book, changes):
    options, _ = CHANGED[changes]
    first = counts()
    changed = counts(**options, on_changed="charge")
    assert changed.statement["release"]["id"] != first.statement["release"]["id"]
    assert book.spent("people") == {"epsilon": 1 + options.get("epsilon", 1)}
    # The last one can be repeated from now on, and no other: which of two was repeated would tell what has changed.
    assert published(counts(**options)) == published(changed)
    with pytest.raises(ValueError, match=r"^run: .*Monday.* entry 2"):
        counts()
    assert len(book.entries("people")) == 2


def test_a_changed_run_is_refused_before_the_records_are_read_if_its_plan_says_so(counts, monkeypatch):
    counts()
    monkeypatch.setattr(tt.engines.Local, "tabulate", lambda *_, **__: pytest.fail("the records were read"))
    with pytest.raises(ValueError, match=r"^run: .*plan"):
        counts(epsilon=0.5)


def test_another_order_of_the_labels_is_another_plan(counts):
    counts()
    turned = tt.Hierarchy.from_table(
        pa.table({"state": ["A", "A", "B"], "county": ["y", "x", "x"]}), ["state", "county"]
    )
    with pytest.raises(ValueError, match=r"^run: .*plan"):
        counts(tree=turned)


def test_another_secret_makes_other_keys_and_is_refused(counts, tmp_path):
    counts()
    with pytest.raises(ValueError, match="the records, or the secret"):
        counts(secret=tt.new_secret(tmp_path / "rotated"))


def test_without_a_secret_a_run_can_be_made_once(counts, book):
    counts(secret=None)
    with pytest.raises(ValueError, match=r"^run: .*entry 1.*secret"):
        counts(secret=None)
    assert book.spent("people") == {"epsilon": 1}
    counts(secret=None, on_changed="charge")
    assert book.spent("people") == {"epsilon": 2}


def test_two_data_sets_with_the_same_records_and_run_have_independent_noise(counts, book):
    book.set_limit("others", tt.Budget(epsilon=3), neighboring="add_remove")
    first, second = counts(epsilon=WIDE), counts(epsilon=WIDE, dataset="others")
    assert noisy_total(first) != noisy_total(second)
    assert book.spent("others") == {"epsilon": Fraction(1, 10**6)}


def test_a_run_without_a_ledger_is_named_in_the_statement_only():
    made = tt.release_counts(PEOPLE, AREAS, tt.Budget(epsilon=1), neighboring="add_remove", run="Monday")
    assert made.statement["release"]["run"] == "Monday"
    assert len(made.statement["release"]["id"]) == 32


def test_a_seeded_release_has_the_same_id_each_time():
    def made(seed):
        options = {"neighboring": "add_remove", "seed": seed}
        return tt.release_counts(PEOPLE, AREAS, tt.Budget(epsilon=1), **options).statement["release"]["id"]

    assert made(1) == made(1) != made(2)


def test_an_error_after_the_payment_says_that_the_budget_is_spent_and_how_to_go_on(counts, book, monkeypatch):
    monkeypatch.setattr(
        tt.counts.LeastSquares, "reconcile_and_tell", lambda *_: (_ for _ in ()).throw(MemoryError("no room"))
    )
    with pytest.raises(MemoryError) as caught:
        counts()
    assert caught.value.__notes__ == [
        "ledger: the budget of this release is spent (ledger entry 1); repeat the run 'Monday' with the same secret, "
        "free of charge"
    ]
    with pytest.raises(MemoryError) as caught:
        counts(secret=None, run=None)
    assert caught.value.__notes__ == [
        "ledger: the budget of this release is spent (ledger entry 2); another attempt is another release, and spends "
        "it again"
    ]
    monkeypatch.undo()
    counts()
    assert [entry.state for entry in book.entries()] == ["finished", "started"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run": None}, "secret: it makes a run repeatable, which needs run"),
        ({"ledger": None, "dataset": None}, "secret: it makes a run repeatable, which needs ledger"),
        ({"dataset": None}, "secret: it makes a run repeatable, which needs dataset"),
        ({"seed": 1}, "secret: a seed makes a release that is not private"),
        ({"noise": "opendp"}, "secret: OpenDP draws from the operating system"),
        ({"secret": "absent"}, "secret: no file at 'absent'"),
        ({"secret": PEOPLE["who"]}, "secret: ChunkedArray must be the path"),
        ({"run": " "}, "run: ' ' must be a name"),
        ({"run": PEOPLE["who"]}, "run: ChunkedArray must be"),
        ({"on_changed": "ask"}, "on_changed: 'ask' is not known"),
        ({"on_changed": "charge", "run": None, "secret": None}, 'on_changed: "charge" is about a run'),
        ({"reason": "yearly", "ledger": None, "dataset": None, "secret": None}, "reason: it is kept in the ledger"),
    ],
)
def test_options_that_do_not_go_together_are_refused(counts, options, message):
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=f"^{message}"):
        counts(**options)


def test_entries_carry_who_why_and_a_reference(counts, book):
    counts(approved_by="A. Board", reason="yearly tables", ticket="DP-7")
    (entry,) = book.entries()
    approval = entry.approval
    assert (approval.approved_by, approval.reason, approval.ticket) == ("A. Board", "yearly tables", "DP-7")


def test_where_changes_are_charged_two_outputs_of_a_run_do_not_tell_whether_the_records_changed(counts, book):
    """Equal or not, they would be an exact test of the statistics; so a finished run is charged in both cases."""
    outcomes = {}
    for name, second in (("as before", PEOPLE), ("changed", FEWER)):
        releases = [counts(run=name, epsilon=WIDE), counts(second, run=name, epsilon=WIDE, on_changed="charge")]
        entries = [entry for entry in book.entries("people") if entry.run == name]
        different = noisy_total(releases[0]) != noisy_total(releases[1])
        outcomes[name] = (len(entries), different, releases[0].statement["release"]["id"] != entries[1].release_id)
    assert outcomes["as before"] == outcomes["changed"] == (2, True, True)
    first, second = (entry.statistics for entry in book.entries("people") if entry.run == "as before")
    assert first != second  # nor does the ledger tell


def interrupted(*_, **__):
    raise KeyboardInterrupt


def test_an_entry_that_is_not_finished_is_repeated_where_changes_are_charged(counts, book, monkeypatch):
    monkeypatch.setattr(Ledger, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        counts()
    monkeypatch.undo()
    counts(on_changed="charge")
    assert [entry.state for entry in book.entries("people")] == ["finished"]


@pytest.mark.parametrize("failure", [OSError("locked"), ValueError("ledger: it was changed")])
def test_a_release_that_can_be_repeated_is_not_shown_before_the_ledger_has_it_as_finished(
    counts, book, monkeypatch, failure
):
    monkeypatch.setattr(Ledger, "finish", lambda *_, **__: (_ for _ in ()).throw(failure))
    with pytest.raises(type(failure)) as caught:
        counts()
    assert "repeat the run 'Monday' with the same secret, free of charge" in caught.value.__notes__[0]
    counts(secret=None, run=None)  # one that cannot be repeated is shown all the same
    monkeypatch.undo()
    counts()
    assert [entry.state for entry in book.entries("people")] == ["finished", "started"]


@pytest.mark.parametrize("second", [PEOPLE, FEWER], ids=["as before", "changed"])
def test_of_two_processes_at_once_one_shows_its_release_where_changes_are_charged(counts, book, monkeypatch, second):
    """Two outputs would be equal where the records are, and different where they are not."""
    real, shown = tt.counts.LeastSquares.reconcile_and_tell, []

    def reconcile(self, *arguments):
        if not shown:  # the other process runs while this one computes
            shown.append(None)
            shown[0] = counts(second, on_changed="charge")
        return real(self, *arguments)

    monkeypatch.setattr(tt.counts.LeastSquares, "reconcile_and_tell", reconcile)
    with pytest.raises(ValueError, match=r"^run: .*(recorded|finished) the run 'Monday' meanwhile"):
        counts(on_changed="charge")
    assert shown[0] is not None
    assert [entry.state for entry in book.entries("people")][-1] == "finished"


def test_two_ledgers_have_independent_noise_whether_or_not_the_records_are_the_same(counts, tmp_path):
    """Else two releases of one run name, recorded in two ledgers, would tell whether the records are the same."""
    books = (("a", PEOPLE), ("b", PEOPLE), ("c", FEWER))
    made = [counts(records, ledger=tmp_path / name, epsilon=WIDE) for name, records in books]
    assert len({noisy_total(each) for each in made}) == 3


def test_a_secret_that_is_replaced_during_a_run_does_not_part_the_noise_from_the_entry(
    counts, book, tmp_path, monkeypatch
):
    secret, real = tmp_path / "secret", Ledger.record

    def record(self, *arguments, **options):
        try:
            return real(self, *arguments, **options)
        finally:
            secret.write_bytes(tt.new_secret(tmp_path / "rotated").read_bytes())

    before = secret.read_bytes()
    monkeypatch.setattr(Ledger, "record", record)
    first = counts()
    monkeypatch.undo()
    assert secret.read_bytes() != before
    secret.write_bytes(before)
    assert published(counts()) == published(first)
    assert len(book.entries("people")) == 1


def test_a_smaller_bound_that_is_assumed_is_warned_of(counts):
    counts(max_contributions=5, run="five", epsilon=0.5)
    counts(max_contributions=1, run="enforced", epsilon=0.5, person="who")
    with pytest.warns(UserWarning, match=r"^max_contributions: 1 is assumed, .*counts .* had 5"):
        counts(max_contributions=1, run="one", epsilon=0.5)


def test_what_is_said_of_risk_is_computed_before_the_payment(counts, book, monkeypatch):
    def failing(*_):
        raise MemoryError

    monkeypatch.setattr("tallytree.run.planned.risk_statement", failing)
    with pytest.raises(MemoryError):
        counts()
    assert book.entries() == ()
