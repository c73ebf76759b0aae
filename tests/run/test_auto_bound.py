"""`max_contributions="auto"`: the bound is chosen from noisy numbers of people; what both phases lose, and publish."""

import copy
import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.auto_bound import (
    ASKED,
    EPSILON,
    PEOPLE,
    RECORDS,
    RHO,
    options_of,
    planned,
    planned_sizes,
    planned_tables,
    released,
    table,
)
from helpers.banded import saved
from helpers.inside import KeyedNoise, sensitivity
from tallytree.mechanisms import Noise
from tallytree.release.contributions_table import left_out_unknown
from tallytree.run import CountsArguments, auto_bound, contributions_of, make_release, plan_counts
from tallytree.run.auto_bound import chosen_bound, first_phase, recommendation, second_phase
from tallytree.run.order import PaidNoise, measured_people
from tallytree.run.people import CountedPeople, MeasuredContributions
from tallytree.run.planned import Planned
from tallytree.run.release_keys import ReleaseKeys

# --- The loss, over neighbors ---


def cells_of(true, level, size, statistic):
    values, _, numbers = true.cells(level, np.arange(size), statistic)
    return dict(zip(numbers.tolist(), values.tolist(), strict=True))


def moved(first, second, level, size, statistic):
    """By how much every cell of a level differs between two data sets."""
    one, two = (cells_of(true, level, size, statistic) for true in (first, second))
    return [one.get(cell, 0) - two.get(cell, 0) for cell in {*one, *two}]


def loss(bound, first, second):
    """The loss of both phases for a pair of data sets, where this bound is chosen: ε or ρ, at most over all outputs.

    Args:
        bound: the planned release with the bound that is chosen.
        first: the statistics of one data set, tabulated as the run tabulates them.
        second: those of the other.
    """
    parts = [(bound.plan.contributions.noise, moved(first.contributions, second.contributions, "all", 1,
                                                    "contributions"))]  # fmt: skip
    parts += [
        (each.noise, moved(first, second, level, bound.tree.size(bound.tree.levels.index(level)), each.statistic))
        for level, each in bound.plan.levels.items()
    ]
    total = Fraction(0)
    for noise, changes in parts:
        if noise.distribution == "discrete_laplace":
            total += sum(map(abs, changes)) / noise.scale
        else:
            total += sum(change**2 for change in changes) / (2 * noise.scale**2)
    return total


def tabulated(release, records):
    """The statistics under a bound: the key that chooses which records count is that of the seed."""
    arguments = copy.copy(release.arguments)
    object.__setattr__(arguments, "records", records)
    return dataclasses.replace(release, arguments=arguments).tabulate(None, CountedPeople(ASKED.at_most, 1))


FEW = {"a": [0, 1, 2], "b": [3] * 8, "c": [1, 1]}
PERSONS = [[0], [0] * 5, [0, 1, 2, 3] * 2, [3] * 20, [2] * 75, [0, 3] * 40]
"""Of one person, the places of all records; some have more than `at_most`."""
DATA_SETS = [FEW, *(FEW | {"one": places} for places in PERSONS)]


def neighbors(neighboring):
    """Pairs of data sets, by number, that differ in one person."""
    if neighboring == "add_remove":
        return [(0, number) for number in range(1, len(DATA_SETS))]
    return list(itertools.combinations(range(1, len(DATA_SETS)), 2))


def greatest_loss(auto, neighboring, bounds=None):
    """Over all pairs and bounds: whatever the noisy numbers of people are, one of the candidates is chosen."""
    return max(
        loss(bound, found[one], found[other])
        for bound in map(auto.with_bound, bounds or auto.candidates)
        for found in [[tabulated(bound, table(people)) for people in DATA_SETS]]
        for one, other in neighbors(neighboring)
    )


@pytest.mark.slow
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("budget", [EPSILON, RHO])
@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_the_loss_is_at_most_the_budget_whichever_bound_is_chosen(areas, neighboring, budget, distinct):
    auto = planned(areas, neighboring=neighboring, budget=budget, distinct=distinct, seed=1)
    limit = budget.epsilon if budget.epsilon is not None else budget.rho
    found = greatest_loss(auto, neighboring, (1, 2, 5, 20))
    assert found <= limit
    assert found > Fraction(3, 10) * limit  # the pairs come near what is planned for


def test_noise_that_is_scaled_to_another_bound_loses_more_and_is_refused(areas, monkeypatch):
    auto = planned(areas, seed=1)

    with_bound = Planned.with_bound

    def too_little(release, bound):
        found = with_bound(release, bound)
        return dataclasses.replace(found, plan=with_bound(release, 1).plan)

    monkeypatch.setattr(Planned, "with_bound", too_little)
    assert greatest_loss(auto, "add_remove", (1, 5)) > 1
    with pytest.raises(tt.BudgetExceeded, match="the noise is planned for another release"):
        auto.check_plan()
    with pytest.raises(tt.BudgetExceeded, match="the noise is planned for another release"):
        planned(areas)


def laplace(value, center, scale):
    """The probability of a discrete Laplace variable."""
    ratio = math.exp(-1 / float(scale))
    return (1 - ratio) / (1 + ratio) * ratio ** abs(value - center)


def log_ratios(auto, one, other, scale_of):
    """log P(o) / P'(o) of the whole release (people in two bins, then the total), over a grid of outputs, by bound.

    Args:
        auto: the planned release; people are counted up to 2 records.
        one: people in bins, and the counted records by bound.
        other: those of the neighbor.
        scale_of: the scale of the total's noise for a bound.
    """
    noise = auto.plan.contributions.noise
    found = {}
    for first in range(-3, 12):
        for second in range(-3, 12):
            answers = np.array([first, second])
            m = chosen_bound(auto, MeasuredContributions(auto.counted_people.bins, answers, noise))["max_contributions"]
            for total in range(-5, 20):
                p, q = (
                    laplace(first, bins[0], noise.scale) * laplace(second, bins[1], noise.scale)
                    * laplace(total, counted[m], scale_of(m))
                    for bins, counted in (one, other)
                )  # fmt: skip
                found.setdefault(m, []).append(abs(math.log(p / q)))
    return {m: max(ratios) for m, ratios in found.items()}


@pytest.mark.slow
def test_the_joint_law_of_both_phases_is_enumerated():
    """One node, so that the second answer is the total: people in the bins 1 and 2 or more, with at most m counted."""
    one_node = tt.Hierarchy.from_table(pa.table({"place": ["here"]}), ["place"])
    budget = tt.Budget(epsilon=4)
    records = pa.table({"who": ["a"], "place": ["here"]})
    auto = planned(one_node, records, budget, contributions=tt.Contributions(share=0.5, at_most=2))
    (level,) = auto.plan.levels

    def scale_of(m):
        return auto.with_bound(m).plan.levels[level].noise.scale

    pairs = [
        # The person comes with 1 record, with 2, or with 7: more than at_most.
        (((5, 2), {1: 7, 2: 9}), ((4, 2), {1: 6, 2: 8})),
        (((4, 3), {1: 7, 2: 10}), ((4, 2), {1: 6, 2: 8})),
        (((0, 1), {1: 1, 2: 2}), ((0, 0), {1: 0, 2: 0})),
    ]
    found = [log_ratios(auto, *pair, scale_of) for pair in pairs]
    assert all(set(each) == {1, 2} for each in found)  # noisy answers choose either
    assert max(max(each.values()) for each in found) == pytest.approx(4, abs=1e-9)
    # Noise that forgets m: the law shows it.
    planted = [log_ratios(auto, *pair, lambda m: scale_of(1)) for pair in pairs]
    assert max(max(each.values()) for each in planted) > 5


def test_the_shares_are_those_of_one_plan_and_no_bound_spends_more(areas):
    for auto in (
        planned(areas, budget_split="auto", distinct=True, budget=RHO),
        planned_sizes(areas), planned_tables(areas, budget_split="auto"),
        planned_sizes(areas, max_contributions="auto", contributions=0.2),
    ):  # fmt: skip
        shares = {each.statistic + each.level: each.share for each in auto.plan.measured}
        for m in auto.candidates:
            plan = auto.with_bound(m).plan
            assert {each.statistic + each.level: each.share for each in plan.measured} == shares
            limit = plan.budget.epsilon if plan.budget.epsilon is not None else plan.budget.rho
            assert sum(each.cost for each in plan.measured) <= limit
            assert all(each.cost <= limit * each.share for each in plan.measured)
            for level, each in plan.levels.items():
                assert each.sensitivity == sensitivity(each.statistic, "add_remove", m), level


# --- What is chosen ---


@pytest.mark.parametrize("plan", [planned, planned_sizes, planned_tables])
def test_the_bound_is_the_one_that_is_recommended_of_the_same_noisy_numbers(areas, plan):
    auto, key = plan(areas, budget=tt.Budget(epsilon=20)), bytes(range(32))
    alone = contributions_of(auto, 0.1)
    assert (alone.counted_people, alone.bound) == (auto.counted_people, None)
    about = measured_people(alone, alone.tabulate(), KeyedNoise(key)).facts["contributions"]
    keys = ReleaseKeys(key, False, bytes(32), "asked", "plan")
    paid = PaidNoise(KeyedNoise(key), "id", keys)
    shown, true, source, people = second_phase(auto, first_phase(auto, None), paid.source, paid.after_a_choice, None)
    made = shown.fit(true, source, lambda level: None, None, people)
    chosen = made.beside["contributions"]["chosen"]
    assert chosen == about["recommended"]
    assert shown.arguments.bound == chosen["max_contributions"] == about["bound"]
    assert 1 < shown.arguments.bound < 20
    assert [row["people"] for row in made.contributions.rows.to_pylist()] == [
        row["people"] for row in measured_people(alone, alone.tabulate(), KeyedNoise(key)).table.rows.to_pylist()
    ]
    # The same where the spec says a number.
    number = plan_counts(CountsArguments(RECORDS, areas, EPSILON, **options_of(max_contributions=1)))
    noisy = MeasuredContributions(
        auto.counted_people.bins, made.contributions.rows["people"].to_numpy(), number.plan.contributions.noise
    )
    assert recommendation(number, noisy) == chosen_bound(planned(areas), noisy)


@pytest.mark.planted
@pytest.mark.parametrize("memory", [None, "1GB"])
@pytest.mark.parametrize("m", [1, 4])
def test_of_every_person_at_most_the_chosen_number_of_records_is_measured(areas, monkeypatch, m, memory):
    """With next to no noise. People have up to 9 records, and at_most is 20."""
    monkeypatch.setattr(auto_bound, "chosen_bound", lambda *given: chosen_bound(*given) | {"max_contributions": m})
    release = released(areas, budget=tt.Budget(epsilon=10**5), memory=memory)
    wanted = sum(min(len(places), m) for places in PEOPLE.values())
    assert [sum(release.table(level)["count"].to_pylist()) for level in areas.levels] == [wanted] * 3


def test_equal_noisy_numbers_choose_the_same_bound_whatever_the_records_are(areas):
    other = table({"x": [0], "y": [1, 2]})
    noise = Noise("discrete_laplace", Fraction(10))
    for answers in ([90, 40, 20] + [0] * 10, [5] * 13, [-3] * 13):
        numbers = np.array((answers + [0] * 20)[: len(planned(areas).counted_people.bins)])
        noisy = MeasuredContributions(planned(areas).counted_people.bins, numbers, noise)
        found = [chosen_bound(planned(areas, records), noisy) for records in (RECORDS, other)]
        assert found[0] == found[1]


def test_the_release_says_which_bound_was_chosen_and_from_what(areas, tmp_path):
    """With next to no noise: the bound of least error is then below the most."""
    release = released(areas, budget=tt.Budget(epsilon=5_000), seed=None)
    statement = release.statement
    facts, m = statement["contributions"], statement["max_contributions"]
    assert facts["chosen"]["max_contributions"] == m
    assert [each["max_contributions"] for each in facts["chosen"]["choices"]] == planned(areas).candidates
    assert statement["counted"] == f"records, at most {m} a person"
    assert statement["max_contributions_enforced"]
    assert statement["spent"] == {"epsilon": 5000.0}
    assert f"at most {m} count" in statement["unit_of_protection"]
    assert facts["summary"].startswith(f"Counts are of records, at most {m} a person. The bound leaves out about")
    assert "is chosen from the noisy numbers of people" in statement["notes"][-1]
    assert release.spec["max_contributions"] == "auto"
    assert release.contributions["records_to"].to_pylist() == planned(areas).candidates
    root = statement["levels"][0]
    assert root["sensitivity"]["l1"] == m
    assert Fraction(root["noise"]["scale_exact"]) == m / (5_000 * Fraction(3, 10))
    release.save(tmp_path / "out")
    assert tt.Release.load(tmp_path / "out").statement == statement
    # What is read from the published bins works for the chosen bound, which ends one.
    assert release.scaled("county", spread=0.2).num_rows == 4


def test_a_bound_at_the_most_says_that_nothing_is_known_of_people_with_more(areas):
    release = released(areas, budget=tt.Budget(epsilon=10**4), contributions=tt.Contributions(0.5, 4))
    assert release.statement["max_contributions"] == 4
    assert release.statement["contributions"]["summary"] == left_out_unknown(4, "records", applied=True)
    assert "share_left_out" not in release.statement["contributions"]
    with pytest.raises(ValueError, match="did not measure what its contribution bound leaves out"):
        release.scaled("county", spread=0.2)


@pytest.mark.slow
def test_it_works_for_flows_tables_sizes_and_distinct_people(areas):
    two = RECORDS.rename_columns(["who", "s1", "c1", "home"])
    trips = two.append_column("s2", two["s1"]).append_column("c2", two["c1"])
    flows = tt.release_flows(
        trips, origins=areas, destinations=areas, origin=["s1", "c1"], destination=["s2", "c2"],
        budget=tt.Budget(epsilon=20), **options_of(),
    )  # fmt: skip
    m = flows.statement["max_contributions"]
    assert flows.statement["counted"] == f"trips, at most {m} a person"
    assert isinstance(make_release(planned_tables(areas)).statement["max_contributions"], int)
    assert "groups of memberships" in make_release(planned_sizes(areas)).statement["counted"]
    private = planned_sizes(areas, max_contributions="auto")
    assert make_release(private).statement["levels"][0]["measured"]
    distinct = released(areas, distinct=True, budget=tt.Budget(rho=50))
    assert distinct.statement["counted"].startswith("leaves of people, at most ")
    assert released(areas, budget=tt.Budget(epsilon=1, delta=1e-6)).statement["accounting"] == "zcdp"


@pytest.mark.slow
def test_a_private_largest_size_is_measured_in_the_second_phase(areas, drawn):
    release = tt.release_group_sizes(
        RECORDS, areas, tt.Budget(epsilon=20), group="home", max_group_size=tt.sizes.PrivateMaximum(0.1, 9),
        **options_of(),
    )  # fmt: skip
    m, maximum = release.statement["max_contributions"], release.statement["maximum"]
    assert maximum["sensitivity"]["l1"] == m
    assert [address for _, _, address in drawn][:2] == [("all", "contributions"), ("all", "largest_size")]
    assert drawn[0][0] != drawn[1][0]


@pytest.mark.parametrize("budget", [EPSILON, RHO])
def test_with_memory_the_same_is_released(areas, budget, tmp_path):
    words = {"record": "trip", "person": "rider"}
    here, in_files = (released(areas, budget=budget, seed=4, memory=memory, words=words) for memory in (None, "1GB"))
    assert in_files.statement == here.statement
    assert saved(in_files, tmp_path / "in_files") == saved(here, tmp_path / "here")


@pytest.mark.needs("opendp")
def test_opendp_draws_it_too(areas):
    assert released(areas, noise="opendp").statement["noise_source"] == "opendp"


@pytest.mark.parametrize(("people", "said"), [(300, True), (9_000, False)])
def test_the_summary_says_where_too_few_people_were_seen_for_the_choice(people, said):
    areas = tt.Hierarchy.from_table(pa.table({"town": ["x", "y"]}), levels=["town"])
    cards = [card for card in range(people) for _ in range(1 + card % 9)]
    trips = pa.table({"town": ["x" if place % 2 else "y" for place in range(len(cards))], "card": cards})
    release = tt.release_counts(
        trips, areas, tt.Budget(epsilon=1), neighboring="add_remove", person="card", max_contributions="auto",
        contributions=tt.Contributions(share=0.1, at_most=20), seed=3,
    )  # fmt: skip
    summary = release.statement["contributions"]["summary"]
    assert ("may be far from the best one" in summary) == said
