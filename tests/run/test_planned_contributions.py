"""People by their number of records as a release of their own, and the recommended contribution bound."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import contribution_bins
from tallytree.ledger import Ledger
from tallytree.mechanisms import Noise
from tallytree.run import (
    ContributionsArguments,
    CountsArguments,
    SizesArguments,
    contributions_of,
    make_release,
    plan_contributions,
    plan_counts,
    plan_group_sizes,
)
from tallytree.run.auto_bound import expected_absolute, recommendation
from tallytree.run.people import MeasuredContributions

NUMBERS = [1] * 60 + [2] * 30 + [3] * 20 + [6] * 10 + [30]
"""How many records people have."""
WHO = [who for who, number in enumerate(NUMBERS) for _ in range(number)]
RECORDS = pa.table(
    {
        "who": WHO,
        "state": ["A"] * len(WHO),
        "county": ["xy"[place % 2] for place in range(len(WHO))],
        "home": [f"{'xy'[place % 2]}{place % 9}" for place in range(len(WHO))],
    }
)
HOMES = RECORDS.set_column(2, "county", pa.array([home[0] for home in RECORDS["home"].to_pylist()]))
SILENT = Noise("discrete_laplace", Fraction(1, 64))


def given(areas, **changes):
    options = {"budget": tt.Budget(epsilon=1), "neighboring": "add_remove", "person": "who", "max_contributions": 2}
    options |= changes
    return options.pop("records", RECORDS), areas, options.pop("budget"), options


def released(areas, **changes):
    records, tree, budget, options = given(areas, **changes)
    return tt.release_contributions(records, tree, budget, **options)


def sizes_plan(areas, **changes):
    records, tree, budget, options = given(areas, records=HOMES, group="home", max_group_size=30, **changes)
    return plan_group_sizes(SizesArguments(records, tree, budget, **options))


def counts_plan(areas, **changes):
    records, tree, budget, options = given(areas, **changes)
    return plan_counts(CountsArguments(records, tree, budget, **options))


def people(release):
    return {row["records_from"]: row["people"] for row in release.table("contributions").to_pylist() if row["people"]}


def test_it_has_one_table_and_no_level(areas, tmp_path):
    release = released(areas, budget=tt.Budget(epsilon=10**6), at_most=40)
    assert people(release) == {1: 60, 2: 30, 3: 20, 6: 10, 29: 1}
    assert release.levels == ("contributions",)
    assert release.measurements("contributions")["value"].equals(release.table("contributions")["people"])
    release.save(tmp_path / "out", csv=True)
    loaded = tt.Release.load(tmp_path / "out")
    assert loaded.table("contributions").equals(release.table("contributions"))
    assert loaded.statement == json.loads(json.dumps(release.statement))
    for use in (tt.replicate_errors, lambda one: tt.reconcile_group_sizes(one, areas)):
        with pytest.raises(ValueError, match="release: its statistic is 'contributions'"):
            use(loaded)


def test_group_sizes_are_given_as_a_plan(areas):
    release = make_release(contributions_of(sizes_plan(areas, budget=tt.Budget(epsilon=10**6))))
    assert {first: number for first, number in people(release).items() if first < 7} == {1: 60, 2: 30, 3: 20, 6: 10}
    assert "A bound of 2 leaves out about" in release.statement["contributions"]["summary"]
    assert "of the memberships" in release.statement["contributions"]["summary"]


def test_the_statement_is_about_a_person_with_all_records(areas):
    statement = released(areas, share=0.25).statement
    assert statement["statistic"] == "contributions"
    assert statement["spent"] == statement["budget"] == {"epsilon": 0.25}
    assert statement["unit_of_protection"] == "one person, with all of their records, however many"
    assert statement["guarantee"].endswith("one person, with all of their records, however many, given the invariants.")
    assert (statement["max_contributions"], statement["max_contributions_enforced"]) == (None, None)
    facts = statement["contributions"]
    (table,) = statement["levels"]
    assert (table["level"], table["nodes"]) == ("contributions", len(contribution_bins(2, 1_000)))
    assert table["noise"] == facts["noise"]
    assert (facts["share"], facts["at_most"], facts["bound"]) == (1.0, 1_000, 2)
    assert not any("at most max_contributions count" in note for note in statement["notes"])
    assert facts["recommended"]["max_contributions"] in {last for _, last in contribution_bins(2, 1_000)}


@pytest.mark.parametrize(
    ("budget", "part"),
    [
        (tt.Budget(epsilon=1), tt.Budget(epsilon=0.25)),
        (tt.Budget(epsilon=1, delta=1e-6), tt.Budget(epsilon=0.25, delta=2.5e-7)),
        (tt.Budget(rho=1), tt.Budget(rho=0.25)),
    ],
)
@pytest.mark.parametrize(("neighboring", "l1"), [("add_remove", 1), ("change_one", 2)])
def test_it_spends_a_share_of_any_budget(areas, budget, part, neighboring, l1):
    records, tree, budget, options = given(areas, budget=budget, neighboring=neighboring)
    for planned in (
        plan_contributions(ContributionsArguments(records, tree, budget, share=0.25, **options)),
        plan_contributions(ContributionsArguments(records, tree, budget, contributions=0.25, **options)),
    ):
        assert planned.plan.budget == part
        assert planned.plan.contributions.sensitivity.l1 == l1
        for name, amount in planned.plan.spent.items():
            limit = getattr(part, name) if getattr(part, name) is not None else 1
            assert 0 < amount <= limit
    whole = plan_contributions(ContributionsArguments(records, tree, budget, **options))
    assert whole.plan.budget == budget


def test_the_ledger_has_it_as_a_statistic_of_its_own(areas, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.set_limit("d", tt.Budget(epsilon=1), neighboring="add_remove", max_contributions=2)
    released(areas, share=0.25, ledger=ledger, dataset="d")
    tt.release_counts(*given(areas)[:2], tt.Budget(epsilon=0.75), **given(areas)[3], ledger=ledger, dataset="d")
    first, second = ledger.entries("d")
    assert (first.statistic, first.loss.epsilon, first.state) == ("contributions", Fraction(1, 4), "finished")
    assert (second.statistic, ledger.remaining("d")) == ("counts", {"epsilon": 0})
    with pytest.raises(tt.BudgetExceeded, match="left of the limit"):
        released(areas, share=0.25, ledger=ledger, dataset="d")


def test_a_job_that_was_altered_does_not_run(areas):
    records, tree, budget, options = given(areas)
    job = plan_contributions(ContributionsArguments(records, tree, budget, **options))
    one = job.plan.contributions
    for altered in (
        replace(job, plan=replace(job.plan, beside=())),
        replace(job, plan=replace(job.plan, beside=(replace(one, sensitivity=replace(one.sensitivity, l1=0)),))),
        replace(job, chosen_for=counts_plan(areas, neighboring="change_one")),
    ):
        with pytest.raises(tt.BudgetExceeded, match="the release was changed after its noise was planned"):
            make_release(altered)
        with pytest.raises(tt.BudgetExceeded, match="the noise is planned for another release"):
            altered.seal()


def test_a_seed_gives_the_same_release_whatever_the_order(areas):
    turned = RECORDS.take(pa.array(np.random.default_rng(1).permutation(RECORDS.num_rows)))
    one, two = (released(areas, records=records, seed=4) for records in (RECORDS, turned))
    assert one.table("contributions").equals(two.table("contributions"))
    assert not one.table("contributions").equals(released(areas, seed=5).table("contributions"))


BAD = [
    ({"person": None}, "person: to count people by their number of records, name the column with the ids of people"),
    ({"at_most": 2}, "at_most: 2 must be more than max_contributions, which is 2"),
    ({"share": 0}, r"share: 0\.0 must be above 0 and at most 1, the whole budget"),
    ({"share": 1.5}, r"share: 1\.5 must be above 0 and at most 1, the whole budget"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_arguments(areas, changes, message):
    with pytest.raises(ValueError, match=message):
        released(areas, **changes)


# --- The recommended bound ---


def recommended(planned, numbers=NUMBERS, at_most=40, noise=SILENT):
    bins = contribution_bins(planned.arguments.max_contributions, at_most)
    people = np.array([sum(first <= number <= last for number in numbers) for first, last in bins])
    return recommendation(planned, MeasuredContributions(bins, people, noise))


def objective(planned, bound, numbers):
    """As `tallytree.run.auto_bound` states it, for even shares of a pure budget, from the true numbers."""
    levels, nodes = 3, [1, 2, 4]
    relation = 2 if planned.arguments.relation == "change_one" else 1
    total = sum(numbers)
    cut = sum(max(number - bound, 0) for number in numbers)
    scales = [levels * bound / float(planned.plan.budget.epsilon)] + [levels * relation * bound] * 2
    noise = [min(n / math.sinh(1 / scale), total) for n, scale in zip(nodes, scales, strict=True)]
    return sum(noise) / levels + cut


@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_the_recommended_bound_minimises_the_objective(areas, neighboring):
    planned = counts_plan(areas, neighboring=neighboring)
    numbers = [1] * 600 + [2] * 300 + [3] * 40 + [5] * 9 + [7] * 2
    found = recommended(planned, numbers)
    errors = {choice["max_contributions"]: choice["expected_error"] for choice in found["choices"]}
    for bound, error in errors.items():
        assert error == pytest.approx(objective(planned, bound, numbers), rel=1e-3, abs=0.2)
    assert found["max_contributions"] == min(errors, key=lambda bound: (errors[bound], bound))
    assert 1 < found["max_contributions"] < 7


def test_more_budget_recommends_a_larger_bound(areas):
    bounds = [
        recommended(counts_plan(areas, budget=tt.Budget(epsilon=epsilon)))["max_contributions"]
        for epsilon in (0.1, 1, 10, 100)
    ]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1]
    assert bounds[-1] >= 6


@pytest.mark.slow
def test_noise_in_the_last_bins_raises_no_bound(areas):
    """With so many bins, and nobody in most of them, the noise alone would count as thousands of records."""
    loud = tt.Budget(epsilon=0.5)
    bounds = [
        released(areas, budget=loud, records=RECORDS.slice(0, 180), seed=seed).statement["contributions"]["recommended"]
        for seed in range(20)
    ]
    assert max(each["max_contributions"] for each in bounds) < 100


def test_some_noise_follows_no_such_rule(areas):
    stable = counts_plan(areas, mechanism=tt.counts.StabilityHistogram(), budget=tt.Budget(epsilon=1, delta=1e-6))
    assert recommended(stable) is None
    release = make_release(contributions_of(stable, share=0.1))
    assert release.statement["contributions"]["recommended"] is None
    assert recommended(sizes_plan(areas))["max_contributions"] >= 1


@pytest.mark.parametrize("scale", [2, 20])
def test_the_expected_absolute_noise(scale):
    support = np.arange(-2_000, 2_001)
    laplace, gaussian = np.exp(-np.abs(support) / scale), np.exp(-(support**2) / (2 * scale**2))
    for law, mass, room in [("discrete_laplace", laplace, 1e-9), ("discrete_gaussian", gaussian, 0.05)]:
        right = (np.abs(support) * mass).sum() / mass.sum()
        assert expected_absolute(Noise(law, Fraction(scale))) == pytest.approx(right, rel=room)


def test_measurements_that_are_not_kept_are_not_in_the_folder(areas, tmp_path):
    release = released(areas, keep_measurements=False, seed=3)
    assert release.statement["measurements_kept"] is False
    release.save(tmp_path / "out")
    assert pq.read_metadata(tmp_path / "out" / "measurements" / "contributions.parquet").num_rows == 0
    assert release.table("contributions").num_rows > 0
