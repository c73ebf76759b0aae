"""The entry `risk` of a statement: in private releases only, in plain numbers, and no part of the noise key."""

import pytest

import tallytree as tt
from helpers.releases import counts, group_sizes
from tallytree._accounting import risk
from tallytree._run import CountsArguments, plan_counts, planned
from tallytree.release import Release

PURE = tt.Budget(epsilon=1)


def test_a_private_release_states_its_risk_and_keeps_it_on_disk(areas, tmp_path):
    made = counts(areas, budget=PURE)
    assert made.statement["risk"] == {
        "attack": (
            "The attacker guesses which of two contents the data have for one person, who has one record, from all "
            "that is published, where both cases have the same invariants."
        ),
        "rates": [
            {"false_positive_rate": 0.01, "true_positive_rate": 0.027183},
            {"false_positive_rate": 0.05, "true_positive_rate": 0.135915},
        ],
        "summary": (
            "An attacker who knows all other records has at most 2.72 % true positives at 1 % false positives, and at "
            "most 13.6 % at 5 %."
        ),
    }
    made.save(tmp_path / "out")
    assert Release.load(tmp_path / "out").statement == made.statement


def test_it_names_the_unit_that_is_protected(areas):
    made = group_sizes(areas, max_contributions=2)
    unit = made.statement["unit_of_protection"]
    assert made.statement["risk"]["attack"] == (
        f"The attacker guesses whether the data hold {unit}, from all that is published, where both cases have the "
        "same invariants."
    )


def test_a_seeded_release_has_none_for_nothing_of_it_is_protected(areas):
    assert "risk" not in counts(areas, seed=1).statement


def test_people_by_their_records_have_one_too(areas):
    people = areas.leaf_table().append_column("id", [["a", "b", "c", "d"]])
    made = tt.release_contributions(people, areas, PURE, person="id", neighboring="add_remove")
    assert made.statement["risk"]["rates"][0]["true_positive_rate"] == 0.027183


def test_the_plan_that_enters_the_noise_key_does_not_depend_on_how_risk_is_computed(areas, monkeypatch):
    def planned_now():
        return plan_counts(CountsArguments(None, areas, PURE, neighboring="add_remove"))

    before = planned_now()
    asked, digest = planned.canonical(before.spec, before.statement), before.plan_digest
    monkeypatch.setattr(risk, "FALSE_POSITIVE_RATES", (0.2, 0.3))
    after = planned_now()
    assert [each["false_positive_rate"] for each in after.risk()["risk"]["rates"]] == [0.2, 0.3]
    assert (planned.canonical(after.spec, after.statement), after.plan_digest) == (asked, digest)
    assert "risk" not in after.statement


@pytest.mark.parametrize("budget", [tt.Budget(rho=0.5), tt.Budget(epsilon=0.01)])
def test_rates_lie_between_a_guess_and_certainty(areas, budget):
    for rate in counts(areas, budget=budget).statement["risk"]["rates"]:
        assert rate["false_positive_rate"] < rate["true_positive_rate"] < 1
