"""A planned release runs as it was planned, or not at all."""

import dataclasses

import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.ledger import Ledger
from tallytree.run import (
    CountsArguments,
    HouseholdsArguments,
    SizesArguments,
    make_release,
    plan_counts,
    plan_group_sizes,
    plan_households,
)
from tallytree.run.order import paid_noise

PEOPLE = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"], "home": [1, 2, 3], "who": [1, 1, 2]})
AREAS = tt.Hierarchy.from_table(PEOPLE.select(["state", "county"]), ["state", "county"])
STATES = tt.Hierarchy.from_table(pa.table({"state": ["A", "B"]}), ["state"])


def planned_counts(tmp_path, **changes):
    given = {"neighboring": "add_remove", "ledger": tmp_path / "ledger", "dataset": "people"} | changes
    return plan_counts(CountsArguments(PEOPLE, AREAS, tt.Budget(epsilon=1), **given))


def planned_sizes(tmp_path):
    ledger = {"ledger": tmp_path / "ledger", "dataset": "people"}
    given = {"neighboring": "add_remove", "group": "home", "max_group_size": 5, "mechanism": tt.sizes.Chain()} | ledger
    return plan_group_sizes(SizesArguments(PEOPLE, AREAS, tt.Budget(epsilon=1), **given))


@pytest.mark.parametrize("plan", [planned_counts, planned_sizes])
def test_a_copy_of_a_planned_release_is_not_run_whatever_was_replaced(tmp_path, plan):
    planned = plan(tmp_path)
    for field in dataclasses.fields(planned):
        if field.init:
            copy = dataclasses.replace(planned, **{field.name: getattr(planned, field.name)})
            with pytest.raises(tt.BudgetExceeded, match="the release was changed after its noise was planned"):
                make_release(copy)
    assert not (tmp_path / "ledger").exists()
    make_release(planned)
    assert len(Ledger(tmp_path / "ledger").entries()) == 1


def test_a_planned_release_whose_statement_was_changed_is_not_run(tmp_path):
    planned = planned_counts(tmp_path)
    planned.statement["levels"][0]["nodes"] += 1
    with pytest.raises(tt.BudgetExceeded, match="the release was changed after its noise was planned"):
        make_release(planned)
    assert not (tmp_path / "ledger").exists()


def test_a_planned_release_whose_plan_digest_was_changed_is_not_run(tmp_path):
    planned = planned_counts(tmp_path)
    planned.__dict__["plan_digest"] = planned_counts(tmp_path, max_contributions=3).plan_digest
    with pytest.raises(tt.BudgetExceeded, match="the release was changed after its noise was planned"):
        make_release(planned)
    assert not (tmp_path / "ledger").exists()


def test_households_whose_part_was_changed_in_place_are_not_run():
    """Where all records count, and one is replaced, the total would be public and exact."""
    given = {"neighboring": "change_one", "on_unknown": "drop", "household": "home", "max_household_size": 3}
    planned = plan_households(HouseholdsArguments(PEOPLE, AREAS, tt.Budget(epsilon=1), **given))
    object.__setattr__(planned.persons.arguments, "on_unknown", "error")
    with pytest.raises(tt.BudgetExceeded, match="the release was changed after its noise was planned"):
        make_release(planned)


def test_a_planned_release_whose_fields_were_changed_in_place_is_not_run(tmp_path):
    dear = planned_counts(tmp_path, max_contributions=3)
    for name, value in (("plan", dear.plan), ("arguments", dear.arguments)):
        planned = planned_counts(tmp_path)
        object.__setattr__(planned, name, value)
        with pytest.raises(tt.BudgetExceeded, match=r"the release was changed|planned for another release"):
            make_release(planned)
    planned = planned_counts(tmp_path)
    object.__setattr__(
        planned.arguments, "neighboring", "add_remove" if planned.arguments.relation != "add_remove" else "change_one"
    )
    with pytest.raises(tt.BudgetExceeded, match="the release was changed"):
        make_release(planned)
    assert not (tmp_path / "ledger").exists()


def test_no_noise_is_made_for_another_release_than_the_ledger_would_record(tmp_path):
    planned, dear = planned_counts(tmp_path), planned_counts(tmp_path, max_contributions=3)
    changed = (
        {"plan": dear.plan, "arguments": dear.arguments},
        {"arguments": dataclasses.replace(planned.arguments, max_contributions=3)},
        {"arguments": dataclasses.replace(planned.arguments, run="Monday")},
        {"arguments": dataclasses.replace(planned.arguments, on_unknown="drop")},
    )
    for changes in changed:
        with pytest.raises(tt.BudgetExceeded, match="changed after its place in the ledger was planned"):
            paid_noise(dataclasses.replace(planned, **changes), "asked", bytes(32))
    for name, other in (("dataset", "others"), ("statistic", "flows"), ("mechanism", "TopDown"), ("unit", "trip")):
        entry = planned.account.posting
        planned.account.posting = dataclasses.replace(entry, **{name: other})
        with pytest.raises(tt.BudgetExceeded, match="changed after its place in the ledger was planned"):
            paid_noise(planned, "asked", bytes(32))
        planned.account.posting = entry
    assert not (tmp_path / "ledger").exists()


def test_a_warning_points_at_the_line_of_the_caller():
    with pytest.warns(UserWarning, match="For comparison only") as caught:
        tt.release_counts(
            PEOPLE, AREAS, tt.Budget(epsilon=1), neighboring="add_remove", mechanism=tt.counts.LeafGaussian()
        )
    with pytest.warns(UserWarning, match="For comparison only") as caught_of_flows:
        tt.release_flows(
            pa.table({"a": ["A"], "b": ["B"]}), origins=STATES, destinations=STATES, origin=["a"], destination=["b"],
            budget=tt.Budget(epsilon=1), neighboring="add_remove", mechanism=tt.counts.LeafGaussian(),
        )  # fmt: skip
    assert {each.filename for each in (caught[0], caught_of_flows[0])} == {__file__}


def test_tables_beyond_the_machines_memory_are_warned_of_with_the_table_that_takes_it(monkeypatch):
    sides = {"area": tt.Hierarchy.from_values("area", range(3_000)), "age": tt.Hierarchy.from_values("age", range(100))}
    options = {"neighboring": "add_remove", "tables": [("area",), ("area", "age")], "seed": 1}
    monkeypatch.setattr("tallytree.run.planning.machine_bytes", lambda: 10**6)
    message = r"^memory: this takes up to 2\d MB, and this machine has 1 MB; .*'area.age' takes most of it; give memory"
    with pytest.warns(UserWarning, match=message):
        tt.release_tables(pa.table({"area": [1], "age": [2]}), tt.Product(sides), tt.Budget(epsilon=1), **options)


def test_a_fit_beyond_the_machines_memory_is_warned_of(monkeypatch):
    areas = tt.Hierarchy.from_values("area", range(30_000))
    monkeypatch.setattr("tallytree.run.planning.machine_bytes", lambda: 10**6)
    with pytest.warns(UserWarning, match=r"^memory: .*9 MB, .*1 MB; give memory"):
        tt.release_counts(pa.table({"area": [1]}), areas, tt.Budget(epsilon=1), neighboring="add_remove", seed=1)
