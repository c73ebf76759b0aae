"""The entry `risk` of a statement: in private releases only, in plain numbers, and no part of the noise key."""

import pytest

import tallytree as tt
from helpers.inside import CountsArguments, front_page, plan_counts, planned, risk
from helpers.releases import counts, group_sizes
from tallytree.release import Release
from tallytree.release.registry_entry import REGISTRY_FILE
from tallytree.release.view.release_view import ReleaseView

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


WEAK = "WEAK PROTECTION: an attacker who knows all other records, and accepts 5 false suspicions in 100, finds out in "
WHAT = "which of two contents the data have for one person, who has one record; "
CERTAIN = f"{WEAK}up to 100 of 100 cases {WHAT}"
DELTA = "about the probability that more is told, is above"


@pytest.mark.parametrize(
    ("budget", "warning"),
    [
        (tt.Budget(epsilon=500), f"{CERTAIN}epsilon = 500 is above 10."),
        (tt.Budget(epsilon=10), None),
        (tt.Budget(epsilon=12), f"{CERTAIN}epsilon = 12 is above 10."),
        (tt.Budget(epsilon=1, delta=0.5), f"{WEAK}up to 64 of 100 cases {WHAT}delta = 0.5, {DELTA} 1e-05."),
        (tt.Budget(epsilon=1, delta=1e-5), None),
        (tt.Budget(rho=5), f"{CERTAIN}epsilon = 19.05 at delta = 1e-05 is above 10."),
        (tt.Budget(rho=1), None),
    ],
)
def test_a_release_that_protects_weakly_says_first_what_an_attacker_finds_out(areas, tmp_path, budget, warning):
    made = counts(areas, budget=budget)
    assert made.statement.get("warning") == warning
    if warning is not None:
        assert next(iter(made.statement)) == "warning"
    made.save(tmp_path / "out")
    assert ((tmp_path / "out" / REGISTRY_FILE).read_text().startswith("# WEAK PROTECTION: ")) == (warning is not None)
    view = ReleaseView(Release.load(tmp_path / "out"))
    (who,) = (each.number for each in front_page(view, [], "out").cards if each.question == "Who is protected?")
    assert who == ("one person" if warning is None else "one person, weakly")


@pytest.mark.parametrize(("total", "weak"), [(900_000, False), (1_100_000, True)])
def test_a_delta_above_1_per_record_of_a_public_total_is_too_large(areas, total, weak):
    records = areas.leaf_table().slice(0, 1).append_column("n", [[total]])
    budget = tt.Budget(epsilon=1, delta=1e-6)
    public = tt.release_counts(records, areas, budget, count="n", neighboring="change_one")
    tables = tt.release_tables(
        records, tt.Product({"area": areas}), budget, tables=[("county",)], count="n", neighboring="change_one"
    )
    for each in (public, tables):
        said = each.statement.get("warning", "")
        assert said.endswith(f"is above 1 / {total:,}, with the public total.") == weak
    private = tt.release_counts(records, areas, budget, count="n", neighboring="add_remove")
    assert "warning" not in private.statement


def test_a_seeded_release_has_no_warning_beside_that_it_is_not_private(areas):
    assert "warning" not in counts(areas, seed=1, budget=tt.Budget(epsilon=500)).statement


def test_the_parts_of_households_have_the_warning_of_the_whole(areas):
    homes = areas.leaf_table().append_column("home", [["a", "b", "c", "d"]])
    whole = tt.release_households(
        homes, areas, tt.Budget(epsilon=500), household="home", max_household_size=3, neighboring="add_remove"
    )
    for each in (whole, whole.persons, whole.households):
        assert each.statement["warning"].startswith("WEAK PROTECTION: ")


def test_the_warning_has_the_publishers_words(areas):
    made = counts(areas, budget=tt.Budget(epsilon=500), words={"record": "trip"})
    assert "who has one trip; epsilon" in made.statement["warning"]
