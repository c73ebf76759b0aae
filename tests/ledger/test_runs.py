"""Runs: the same release is charged once, and another one under the same name is refused, or charged."""

import hashlib
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import tallytree as tt
from helpers.inside import Approval
from helpers.ledger_entries import TERMS, posting, pure
from tallytree.ledger import Account, Ledger, Recorded

PLAN, OTHER_PLAN = "a" * 64, "b" * 64


def keyed(statistics):
    """A stand-in for the keyed digest of the statistics, by release id."""
    return lambda release_id: hashlib.sha256(f"{statistics} {release_id}".encode()).hexdigest()


STATISTICS, OTHER_STATISTICS = keyed("some"), keyed("others")
MONDAY = posting(pure(1), run="monday", plan=PLAN)
PARTS = {"the spec": "a" * 64, "the software": "b" * 64}
ANOTHER = r"^run: 'monday' is the run of entry 1 of the data set 'people', and this release is another one: "
REMEDY = r"; give another run name, or on_changed=\"charge\" \(`--on-changed charge`\) to spend its budget as well$"


def test_the_same_release_is_charged_once_and_keeps_its_entry(ledger):
    first = ledger.record(MONDAY, statistics=STATISTICS)
    assert first == Recorded(1, first.release_id, again=False)
    assert re.fullmatch("[0-9a-f]{32}", first.release_id)
    for on_changed in ("error", "charge"):
        assert ledger.record(MONDAY, statistics=STATISTICS, on_changed=on_changed) == replace(first, again=True)
    ledger.finish(1)
    assert ledger.record(MONDAY, statistics=STATISTICS) == replace(first, again=True)
    (entry,) = ledger.entries()
    assert (entry.run, entry.plan, entry.statistics) == ("monday", PLAN, STATISTICS(first.release_id))
    assert entry.release_id == first.release_id
    assert ledger.spent("people") == {"epsilon": 1}


def test_where_changes_are_charged_a_finished_run_is_charged_whether_or_not_it_changed(ledger):
    ledger.record(MONDAY, statistics=STATISTICS)
    ledger.finish(1)
    for number in (2, 3):
        made = ledger.record(MONDAY, statistics=STATISTICS, on_changed="charge")
        assert (made.number, made.again) == (number, False)
        ledger.finish(number)
    assert ledger.spent("people") == {"epsilon": 3}
    assert len({entry.statistics for entry in ledger.entries()}) == 3


def test_only_the_last_entry_of_a_run_is_repeated(ledger):
    ledger.record(MONDAY, statistics=STATISTICS)
    ledger.record(MONDAY, statistics=OTHER_STATISTICS, on_changed="charge")
    assert ledger.record(MONDAY, statistics=OTHER_STATISTICS).number == 2
    with pytest.raises(ValueError, match=r"^run: 'monday' is the run of entry 2 .* its statistics differ"):
        ledger.record(MONDAY, statistics=STATISTICS)
    assert not ledger.record(MONDAY, statistics=STATISTICS, on_changed="charge").again


def test_only_the_last_entry_of_a_run_is_finished_and_shown(ledger):
    ledger.record(MONDAY, statistics=STATISTICS)
    ledger.record(MONDAY, statistics=OTHER_STATISTICS, on_changed="charge")
    with pytest.raises(ValueError, match=r"^run: .*recorded the run 'monday' meanwhile; its release"):
        ledger.finish(1)
    ledger.finish(2)
    ledger.finish(2)  # the same release, shown twice
    with pytest.raises(ValueError, match=r"^run: .*finished the run 'monday' meanwhile; its release"):
        ledger.finish(2, shown_once=True)
    assert [entry.state for entry in ledger.entries()] == ["started", "finished"]


def test_a_copy_made_before_the_run_was_finished_repeats_it_where_changes_are_charged(ledger, tmp_path):
    """The case that decision 21 leaves: only the head that was noted elsewhere shows it."""
    first = ledger.record(MONDAY, statistics=STATISTICS, on_changed="charge")
    copy = Ledger(shutil.copyfile(ledger.path, tmp_path / "copy.db"))
    ledger.finish(first.number, shown_once=True)
    assert not ledger.record(MONDAY, statistics=STATISTICS, on_changed="charge").again
    again = copy.record(MONDAY, statistics=STATISTICS, on_changed="charge")
    assert (again.release_id, again.again) == (first.release_id, True)
    assert copy.head != ledger.head


def test_a_finished_run_needs_room_where_changes_are_charged(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), **TERMS)
    ledger.record(MONDAY, statistics=STATISTICS)
    ledger.check(MONDAY, on_changed="charge")
    ledger.finish(1)
    ledger.check(MONDAY)
    with pytest.raises(tt.BudgetExceeded):
        ledger.check(MONDAY, on_changed="charge")


def test_retries_at_once_are_charged_once(ledger, path):
    patient = Ledger(path, timeout=600)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: patient.record(MONDAY, statistics=STATISTICS), range(16)))
    assert sorted(each.again for each in made) == [False] + [True] * 15
    assert len({(each.number, each.release_id) for each in made}) == 1
    assert ledger.spent("people") == {"epsilon": 1}


def test_a_run_that_is_made_again_needs_no_room(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), **TERMS)
    ledger.record(MONDAY, statistics=STATISTICS)
    assert ledger.check(MONDAY).remaining == {"epsilon": 0}
    assert ledger.record(MONDAY, statistics=STATISTICS).again
    for ask in (ledger.check, ledger.record):
        with pytest.raises(tt.BudgetExceeded):
            ask(replace(MONDAY, run="tuesday"))
    with pytest.raises(tt.BudgetExceeded):
        ledger.record(MONDAY, statistics=OTHER_STATISTICS, on_changed="charge")


@pytest.mark.parametrize(
    ("made", "asked", "statistics", "why"),
    [
        (STATISTICS, MONDAY, OTHER_STATISTICS, "its statistics differ: the records, or the secret"),
        (STATISTICS, replace(MONDAY, plan=OTHER_PLAN), STATISTICS,
         "its plan differs: the spec, a public table, the version of the software, or whether a secret was given"),
        (STATISTICS, MONDAY, None, "no secret was given, so the same release cannot be made again"),
        (None, MONDAY, STATISTICS, "that one was made without a secret, so the same release cannot be made again"),
        (None, MONDAY, None, "that one was made without a secret, so the same release cannot be made again"),
    ],
)  # fmt: skip
def test_another_release_under_the_name_of_a_run_is_refused_or_charged(ledger, made, asked, statistics, why):
    ledger.record(MONDAY, statistics=made)
    with pytest.raises(ValueError, match=ANOTHER + why + REMEDY):
        ledger.record(asked, statistics=statistics)
    assert len(ledger.entries()) == 1
    second = ledger.record(asked, statistics=statistics, on_changed="charge")
    assert (second.number, second.again) == (2, False)
    assert ledger.spent("people") == {"epsilon": 2}


@pytest.mark.parametrize(
    ("parts", "which"),
    [({"the spec": "0" * 64}, "the spec"), ({"the software": "0" * 64}, "the software"), ({}, "a public table"),
     (dict.fromkeys(PARTS, "0" * 64), "the spec and the software")],
)  # fmt: skip
def test_the_refusal_names_the_parts_of_the_plan_that_differ(ledger, parts, which):
    ledger.record(replace(MONDAY, parts=PARTS), statistics=STATISTICS)
    assert ledger.entries()[0].parts == PARTS
    with pytest.raises(ValueError, match=ANOTHER + f"its plan differs: {which}" + REMEDY):
        ledger.record(replace(MONDAY, plan=OTHER_PLAN, parts=PARTS | parts), statistics=STATISTICS)


def test_a_check_knows_the_plan_and_not_the_statistics(ledger):
    ledger.record(MONDAY, statistics=STATISTICS)
    ledger.check(MONDAY)
    changed = replace(MONDAY, plan=OTHER_PLAN)
    with pytest.raises(ValueError, match=ANOTHER + "its plan differs"):
        ledger.check(changed)
    ledger.check(changed, on_changed="charge")
    ledger.record(replace(MONDAY, run="tuesday"))
    with pytest.raises(ValueError, match="that one was made without a secret"):
        ledger.check(replace(MONDAY, run="tuesday"))
    assert len(ledger.entries()) == 2


def test_the_same_plan_cannot_have_another_loss(ledger):
    ledger.record(MONDAY, statistics=STATISTICS)
    dearer = replace(MONDAY, loss=pure(2))
    for ask in (
        lambda: ledger.check(dearer),
        lambda: ledger.record(dearer, statistics=STATISTICS, on_changed="charge"),
    ):
        with pytest.raises(ValueError, match=r"^plan: entry 1 of the data set 'people' has the digest of this plan, "):
            ask()


def test_runs_of_other_data_sets_and_releases_without_one_are_unrelated(ledger):
    ledger.record(MONDAY, statistics=STATISTICS)
    assert not ledger.record(replace(MONDAY, dataset="trips"), statistics=STATISTICS).again
    for _ in range(2):
        assert not ledger.record(replace(MONDAY, run=None), statistics=STATISTICS).again
    assert ledger.spent("people") == {"epsilon": 3}
    assert len({entry.release_id for entry in ledger.entries()}) == 4


def test_the_same_run_in_another_encoding_is_the_same_run(ledger):
    ledger.record(replace(MONDAY, run="fête"), statistics=STATISTICS)
    assert ledger.record(replace(MONDAY, run="fe\N{COMBINING CIRCUMFLEX ACCENT}te"), statistics=STATISTICS).again


@pytest.mark.parametrize(
    ("changes", "statistics", "error", "begins"),
    [
        ({"run": ""}, None, ValueError, "run: '' must be a name of 1 to 200 printable characters"),
        ({"run": "x" * 201}, None, ValueError, "run: 'xx"),
        ({"run": 7}, None, TypeError, "run: int must be the name of the run"),
        ({"plan": "A" * 64}, None, ValueError, "plan: a digest must be 64 hex digits"),
        ({"run": "tuesday"}, lambda release_id: "1" * 63, ValueError, "statistics: a digest must be 64 hex digits"),
    ],
)
def test_names_and_digests_are_checked(ledger, path, changes, statistics, error, begins):
    ledger.record(MONDAY)
    with pytest.raises(error, match=f"^{begins}"):
        ledger.record(replace(MONDAY, **changes), statistics=statistics)
    assert len(ledger.entries()) == 1


def test_what_is_done_with_a_changed_run_is_one_of_two_things(ledger):
    for ask in (
        lambda: ledger.record(MONDAY, on_changed="skip"),
        lambda: ledger.check(MONDAY, on_changed="skip"),
        lambda: Account(ledger, MONDAY, "skip"),
    ):
        with pytest.raises(ValueError, match=r"^on_changed: 'skip' is not known; choose \"error\" or \"charge\"$"):
            ask()


def test_an_account_records_a_run_and_finishes_it_once(ledger):
    first, again = Account(ledger, MONDAY), Account(ledger, MONDAY)
    for account in (first, again):
        account.check()
        account.record(STATISTICS)
    assert [account.recorded.again for account in (first, again)] == [False, True]
    again.finish_repeatable()
    first.finish_repeatable()
    (entry,) = ledger.entries()
    assert entry.state == "finished"
    charged = Account(ledger, MONDAY, "charge")
    assert charged.record(OTHER_STATISTICS).number == 2
    with pytest.raises(ValueError, match=r"^run: another process has recorded the run 'monday' meanwhile"):
        first.finish_repeatable()


def test_a_release_that_cannot_be_repeated_is_finished_when_it_was_handed_over(ledger):
    account = Account(ledger, MONDAY)
    account.record(None)
    account.finish_repeatable()
    assert [entry.state for entry in ledger.entries()] == ["started"]
    account.finish()
    assert [entry.state for entry in ledger.entries()] == ["finished"]


def test_an_entry_has_who_approved_it_and_why(ledger):
    approval = Approval(approved_by="A. Person", reason="census tables", ticket="DP-7")
    ledger.record(posting(pure(1), approval=approval))
    ledger.record(posting(pure(1)))
    assert [entry.approval for entry in ledger.entries()] == [approval, Approval()]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"approved_by": 7}, TypeError, "approved_by: int must be text"),
        ({"reason": ""}, ValueError, "reason: '' must be one line of 1 to 500 printable characters"),
        ({"reason": "a\nb"}, ValueError, "reason: 'a"),
        ({"ticket": "x" * 501}, ValueError, "ticket: 'xx"),
    ],
)
def test_an_approval_is_one_line_of_text(given, error, message):
    with pytest.raises(error, match=f"^{message}"):
        Approval(**given)
