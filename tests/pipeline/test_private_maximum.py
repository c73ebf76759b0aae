"""K that is measured: what is planned and paid for, what comes out, and what nobody gets to know."""

import json
import logging
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.accounting import NoisePlan
from tallytree.accounting.spending import Loss
from tallytree.pipeline import Options, group_sizes_job
from tallytree.pipeline.measured_maximum import within_measured_maximum
from tallytree.private.measurer import Measurer
from tallytree.private.noise import entropy
from tallytree.private.noise.noise_source import KeyedNoise
from tallytree.private.tabulate.true_sizes import TrueSizes
from tallytree.sizes import PrivateMaximum, SizesDomain, level_estimates
from tallytree.sizes.private_maximum import DEFAULT_AT_MOST, DEFAULT_SHARE, largest_published, margin

ROWS = {"state": ["A", "A", "B"], "county": ["x", "x", "x"], "n": [0, 3, 30], "households": [5, 4, 7]}
PEOPLE = pd.DataFrame(
    {
        "state": ["A"] * 6 + ["B"] * 3,
        "county": ["x"] * 5 + ["y"] + ["x"] * 3,
        "household": [1, 1, 1, 2, 2, 3, 4, 5, 5],
        "cars": [0, 4, 9, 1, 0, 0, 2, 1, 1],
    }
)
EXACT = tt.Budget(epsilon=10_000)
PURE = tt.Budget(epsilon=1)
BUDGETS = [tt.Budget(epsilon=10_000), tt.Budget(rho=10_000), tt.Budget(epsilon=200, delta=1e-6)]
HALF = PrivateMaximum(share=0.5)
MECHANISMS = [
    tt.sizes.Matching(),
    tt.sizes.Joint(),
    tt.sizes.HistogramProjection(),
    tt.sizes.CumulativeProjection(),
    tt.sizes.Chain(),
    tt.sizes.CensusTopDown(),
]


def rows(areas, **changes):
    arguments = {"budget": EXACT, "neighboring": "add_remove", "size": "n", "groups": "households"} | changes
    data = pa.table(ROWS | arguments.pop("data", {}))
    return tt.release_group_sizes(data, areas, **({"max_group_size": HALF} | arguments))


def entities(areas, **changes):
    arguments = {"budget": EXACT, "neighboring": "add_remove", "group": "household", "max_group_size": HALF} | changes
    return tt.release_group_sizes(arguments.pop("records", PEOPLE), areas, **arguments)


def planned(areas, budget=PURE, **changes):
    arguments = {"max_group_size": PrivateMaximum(share=0.1), "size": "n", "groups": "households"} | changes
    options = {
        name: arguments.pop(name)
        for name in ("neighboring", "max_contributions", "mechanism", "budget_split", "accounting", "ledger", "dataset")
        if name in arguments
    }
    options = Options(**({"neighboring": "add_remove"} | options))
    return group_sizes_job(arguments.pop("records", pa.table(ROWS)), areas, budget, options, **arguments)


# --- The argument ---


def test_the_defaults_are_those_of_the_word():
    assert PrivateMaximum() == PrivateMaximum(DEFAULT_SHARE, DEFAULT_AT_MOST)
    assert PrivateMaximum(share=0.1).share == Fraction(1, 10)
    assert repr(PrivateMaximum(0.02, 500)) == "PrivateMaximum(share=0.02, at_most=500)"


def test_the_word_private_takes_the_defaults(areas):
    job = planned(areas, max_group_size="private")
    assert job.private_maximum == PrivateMaximum()
    assert (job.largest, job.plan.maximum.share) == (100_000, Fraction(1, 100))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"share": 0}, ValueError, r"share: 0 must lie strictly between 0 and 1 \(for instance 0.01\)"),
        ({"share": 1}, ValueError, "share: 1 must lie strictly between 0 and 1"),
        ({"share": float("nan")}, ValueError, "share: nan must be finite"),
        ({"share": "half"}, TypeError, "share: 'half' must be a number"),
        ({"at_most": 0}, ValueError, "at_most: 0 must be at least 1"),
        ({"at_most": 2**31}, ValueError, "at_most: 2147483648 must be at most 2147483646"),
        ({"at_most": 9.5}, TypeError, "at_most: 9.5 must be an integer"),
    ],
)
def test_a_bad_option_is_named_when_it_is_made(arguments, error, message):
    with pytest.raises(error, match=message):
        PrivateMaximum(**arguments)


def test_what_max_group_size_may_be_is_said(areas):
    with pytest.raises(
        ValueError, match="max_group_size: 'privat' is not known; give an integer, \"private\", or tally"
    ):
        planned(areas, max_group_size="privat")
    with pytest.raises(TypeError, match=r"max_group_size: 2.5 must be an integer"):
        planned(areas, max_group_size=2.5)


@pytest.mark.parametrize("given", [None, PrivateMaximum])
def test_what_is_no_size_is_told_what_would_be(areas, given):
    with pytest.raises(TypeError, match=r'max_group_size: .* must be an integer, "private", or tallytree'):
        rows(areas, max_group_size=given)


@pytest.mark.parametrize(
    ("given", "name"),
    [(2_000_000_000, "max_group_size"), (PrivateMaximum(at_most=2_000_000_000), "max_group_size: at_most")],
)
def test_more_cells_than_a_machine_holds_are_refused_before_anything_is_spent(areas, given, name):
    with pytest.raises(
        ValueError, match=rf"^{name}: 2,000,000,001 sizes at \d nodes are .* cells to measure, more than"
    ):
        rows(areas, max_group_size=given)
    assert planned(areas, max_group_size=given, mechanism=tt.sizes.Matching("sorted")) is not None


@pytest.mark.parametrize(("least", "invariants", "at_most"), [(5, "groups", 5), (0, "none", 1), (0, "total", 1)])
def test_a_bound_that_leaves_one_size_is_refused(areas, least, invariants, at_most):
    with pytest.raises(ValueError, match=rf"at_most: {at_most} must be more than the least size that is published, "):
        planned(areas, max_group_size=PrivateMaximum(at_most=at_most), min_group_size=least, invariants=invariants)


# --- The plan and what it costs ---


def test_the_levels_share_what_the_maximum_leaves_as_the_split_says(areas):
    split = {"all": 1, "state": 1, "county": 2}
    plan = planned(areas, budget_split=split).plan
    assert plan.maximum.share == Fraction(1, 10)
    assert [level.share for level in plan.levels.values()] == [Fraction(9, 40), Fraction(9, 40), Fraction(9, 20)]
    assert sum(each.share for each in plan.measured) == 1
    assert plan.maximum.noise.scale == 10
    assert [level.noise.scale for level in plan.levels.values()] == [Fraction(40, 9), Fraction(40, 9), Fraction(20, 9)]
    assert plan.spent == {"epsilon": 1}


@pytest.mark.parametrize(
    ("budget", "accounting"),
    [
        (tt.Budget(epsilon=2), None),
        (tt.Budget(rho=2), None),
        (tt.Budget(epsilon=2, delta=1e-6), "pld"),
        (tt.Budget(epsilon=2, delta=1e-6), "zcdp"),
    ],
)
def test_totals_and_the_ledger_have_the_maximum(areas, budget, accounting):
    plan = planned(areas, budget, accounting=accounting).plan
    without = NoisePlan(budget, plan.accounting, plan.levels)
    for name in plan.spent:
        if name != "delta":
            assert without.spent[name] < plan.spent[name]
    loss = Loss.of(plan)
    assert loss.rho - Loss.of(without).rho == (plan.maximum.cost**2 / 2 if budget.kind == "pure" else plan.maximum.cost)
    if budget.epsilon is not None:
        assert loss.epsilon == plan.spent["epsilon"] <= budget.epsilon
        assert loss.epsilon > Fraction(999, 1000) * budget.epsilon


@pytest.mark.parametrize("budget", [tt.Budget(epsilon=2), tt.Budget(rho=2), tt.Budget(epsilon=2, delta=1e-6)])
def test_a_plan_that_does_not_pay_for_its_maximum_cannot_exist(areas, budget):
    """Levels that spend all of the budget, and a maximum beside them."""
    whole = planned(areas, budget, max_group_size=100).plan
    maximum = planned(areas, budget).plan.maximum
    with pytest.raises(tt.BudgetExceeded, match="would spend"):
        NoisePlan(budget, whole.accounting, whole.levels, maximum)


@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_the_noise_is_for_what_one_person_can_move(areas, neighboring):
    """Three records of 2 join the largest group; one who goes while another comes moves it no further."""
    job = planned(areas, neighboring=neighboring, max_contributions=3, max_quantity=2)
    assert (job.plan.maximum.sensitivity.l1, job.plan.maximum.sensitivity.l2_squared) == (6, 36)
    assert job.plan.maximum.noise.scale == 60
    bounded = planned(areas, max_quantity=1_000, max_group_size=PrivateMaximum(share=0.1, at_most=20))
    assert bounded.plan.maximum.sensitivity.l1 == 21  # sizes 0 … 20
    assert {level.sensitivity.l1 for level in bounded.plan.levels.values()} == {21}


def test_the_noise_of_the_levels_is_that_of_the_public_bound_whatever_comes_out(areas):
    """Quantities up to 1,000 cross 50 thresholds at most, though K is 31 in the end."""
    release = rows(areas, max_quantity=1_000, max_group_size=PrivateMaximum(share=0.5, at_most=50))
    assert release.statement["maximum"]["max_group_size"] < 50
    assert {level["sensitivity"]["l1"] for level in release.statement["levels"]} == {51}


def test_privacy_loss_distributions_are_composed_where_they_are_proven(areas):
    approximate = tt.Budget(epsilon=1, delta=1e-6)
    assert planned(areas, approximate).plan.accounting == "pld"
    assert planned(areas, approximate, neighboring="change_one").plan.accounting == "pld"
    # A quantity moves the largest size by anything up to z, and no proof says that z is the worst.
    assert planned(areas, approximate, max_quantity=2, max_group_size=100).plan.accounting == "pld"
    assert planned(areas, approximate, max_quantity=2).plan.accounting == "zcdp"
    with pytest.raises(ValueError, match="how the cells of 'largest_size' at 'all' move most is not proven"):
        planned(areas, approximate, max_quantity=2, accounting="pld")
    with pytest.raises(ValueError, match=r"but the largest size needs about .*; choose \"zcdp\""):
        planned(areas, approximate, max_group_size=PrivateMaximum(1e-9), accounting="pld")


def test_the_published_chain_spends_its_share_beside_the_loss_that_it_understates(areas):
    with pytest.warns(UserWarning, match="truly spends"):
        plan = planned(areas, mechanism=tt.sizes.Chain("as_published")).plan
    assert plan.maximum.cost == Fraction(1, 10)
    assert plan.spent["epsilon"] == pytest.approx(float(Fraction(1, 10) + Fraction(9, 30) * (1 + 2 + 4)))
    assert {level.noise.scale for level in plan.levels.values()} == {Fraction(10, 3)}


def test_a_job_whose_maximum_was_altered_does_not_run(areas):
    job, public = planned(areas), planned(areas, max_group_size=100_000)
    cheap = replace(job.plan.maximum, sensitivity=replace(job.plan.maximum.sensitivity, l1=0))
    elsewhere = replace(job.plan.maximum, level="state")
    for altered in (
        replace(job, private_maximum=None),
        replace(job, plan=public.plan),
        replace(public, plan=job.plan),
        replace(public, private_maximum=PrivateMaximum()),
        replace(job, plan=replace(job.plan, maximum=cheap)),
        replace(job, plan=replace(job.plan, maximum=elsewhere)),
        replace(job, max_quantity=2),
        replace(job, terms=replace(job.terms, max_contributions=2)),
    ):
        with pytest.raises(tt.BudgetExceeded, match="the job was changed after its noise was planned"):
            altered.run()
    assert job.run().statement["spent"] == {"epsilon": 1}


def test_the_ledger_is_charged_for_the_maximum(areas, tmp_path):
    job = planned(areas, ledger=tmp_path / "l", dataset="d")
    assert job.account.posting.loss.epsilon == 1
    job.run()
    cheaper = planned(areas, max_group_size=100).plan
    with pytest.raises(tt.BudgetExceeded):
        replace(job, plan=NoisePlan(cheaper.budget, None, job.plan.levels)).run()


# --- K ---


def domain_and_sizes(sizes, at_most=1_000, invariants="none"):
    one = tt.Hierarchy.from_table(pa.table({"county": ["x"]}), ["county"])
    smallest = 0 if invariants == "groups" else 1
    domain = SizesDomain.from_leaves(one, np.array([len(sizes)]), smallest, at_most, invariants)
    here = np.zeros(len(sizes), dtype=np.int64)
    true = TrueSizes(one, here, np.array(sizes, dtype=np.int64), here + 1, domain.groups, smallest, at_most)
    return domain, true


def found(true, domain, plan, runs):
    return [
        within_measured_maximum(domain, true, plan, KeyedNoise(entropy.key_from_seed(seed)))[2] for seed in range(runs)
    ]


@pytest.mark.parametrize("budget", [PURE, tt.Budget(rho=Fraction(1, 20))])
def test_the_noisy_maximum_has_the_noise_of_the_plan(budget):
    """Of 4,000 the mean absolute noise is known to 1.6 %: a scale that is wrong by 15 % is rejected with power 1."""
    domain, true = domain_and_sizes([3, 500, 20])
    plan = planned(domain.hierarchy, budget, max_group_size=PrivateMaximum(0.1, 1_000), invariants="none").plan
    results = found(true, domain, plan, 4_000)
    noise = np.array([facts["noisy"] for facts in results]) - 500
    scale = float(plan.maximum.noise.scale)
    mean = scale if budget.kind == "pure" else scale * math.sqrt(2 / math.pi)
    assert np.abs(noise).mean() == pytest.approx(mean, rel=0.06)
    assert abs(noise.mean()) < 5 * plan.maximum.noise.std_dev / math.sqrt(len(noise))
    reach = margin(plan.maximum.noise)
    assert reach == math.ceil(5 * plan.maximum.noise.std_dev)
    assert [facts["max_group_size"] for facts in results] == np.clip(500 + noise + reach, 2, 1_000).tolist()
    # Laplace noise reaches further down than five standard deviations with probability 4.2e-4, Gaussian with 3e-7.
    assert sum(facts["max_group_size"] < 500 for facts in results) <= (8 if budget.kind == "pure" else 0)


def test_k_is_at_most_what_is_public(areas):
    release = rows(areas, max_group_size=PrivateMaximum(share=0.5, at_most=20))
    assert release.statement["maximum"]["max_group_size"] == 20
    assert release.statement["maximum"]["noisy"] == 20  # sizes were set to 20 before
    assert release.table("all").to_pydict() == {"size": [0, 3, 20], "groups": [5, 4, 7]}


@pytest.mark.parametrize(("invariants", "smallest"), [("groups", 0), ("total", 1), ("none", 1)])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_data_without_members_have_the_least_size(areas, mechanism, invariants, smallest):
    release = rows(areas, mechanism=mechanism, invariants=invariants, data={"n": [0, 0, 0]})
    assert release.statement["maximum"]["noisy"] == smallest
    assert release.statement["maximum"]["max_group_size"] == smallest + 1
    expected = {"size": [0], "groups": [16]} if invariants == "groups" else {"size": [], "groups": []}
    assert release.table("all").to_pydict() == expected


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_no_records_at_all(areas, mechanism):
    release = entities(areas, records=PEOPLE.iloc[:0].astype({"state": str, "county": str}), mechanism=mechanism)
    assert release.statement["maximum"]["max_group_size"] == 2
    assert release.table("county").num_rows == 0


def test_noise_that_drowns_the_maximum_ends_at_one_of_the_bounds(areas):
    """Noise of scale 10⁷, where sizes are at most 1,000: K is 1 or 1,000 but for one in ten thousand."""
    domain, true = domain_and_sizes([3, 500, 20], invariants="groups")
    plan = planned(domain.hierarchy, tt.Budget(epsilon=1e-6), max_group_size=PrivateMaximum(0.1, 1_000)).plan
    # Five standard deviations are added, so that the lower bound needs noise that is lower still: 2,000 × 4e-4 of them.
    reached = {facts["max_group_size"] for facts in found(true, domain, plan, 20_000)}
    assert {1, 1_000} <= reached
    for budget in (tt.Budget(epsilon=1e-6), tt.Budget(rho=1e-12)):
        release = rows(areas, budget=budget, max_group_size=PrivateMaximum(0.1, 40), invariants="groups")
        assert release.statement["maximum"]["max_group_size"] in range(1, 41)
        assert sum(release.table("all")["groups"].to_pylist()) == 16


def test_k_leaves_a_size_to_tell_apart_and_stays_within_its_bounds():
    noise = replace(planned_noise(), scale=Fraction(1, 10))
    noisy = np.array([-(10**15), -5, 0, 7, 20, 10**15])
    assert margin(noise) == 1
    assert largest_published(noisy, noise, 3, 20).tolist() == [4, 4, 4, 8, 20, 20]


def planned_noise():
    one = tt.Hierarchy.from_table(pa.table({"county": ["x"]}), ["county"])
    return planned(one).plan.maximum.noise


# --- End to end ---


@pytest.mark.parametrize("invariants", ["groups", "total", "none"])
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.kind)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_every_mechanism_releases_within_the_k_that_came_out(areas, mechanism, budget, invariants):
    """With next to no noise the tables are those of a public K."""
    release = rows(areas, mechanism=mechanism, budget=budget, invariants=invariants)
    maximum = release.statement["maximum"]
    assert 30 <= maximum["max_group_size"] <= 40
    public = rows(areas, mechanism=mechanism, invariants=invariants, max_group_size=maximum["max_group_size"])
    for level in release.levels:
        assert release.table(level)["size"].to_pylist() == public.table(level)["size"].to_pylist() or budget.delta
        lengths = {len(values) for values in release.measurements(level)["values"].to_pylist()}
        assert lengths == {len(values) for values in public.measurements(level)["values"].to_pylist()}
    assert release.statement["constraint_violations"] == 0


def test_sorted_sizes_are_clamped_to_k(areas):
    release = rows(areas, mechanism=tt.sizes.Matching("sorted"))
    assert release.table("all").to_pydict() == {"size": [0, 3, 30], "groups": [5, 4, 7]}


def test_sorted_sizes_in_parts_are_those_of_the_whole_under_the_same_k(areas, monkeypatch):
    options = {"mechanism": tt.sizes.Matching("sorted"), "seed": 8, "budget": PURE}
    whole = rows(areas, **options)
    monkeypatch.setattr(level_estimates, "CELLS_AT_ONCE", 3)
    parts = rows(areas, **options)
    assert parts.statement["maximum"] == whole.statement["maximum"]
    for level in areas.levels:
        assert parts.measurements(level).equals(whole.measurements(level))
        assert parts.table(level).equals(whole.table(level))


def test_quantities_and_members_of_entity_rows(areas):
    assert entities(areas).statement["maximum"]["noisy"] == 3
    cars = entities(areas, quantity="cars", max_quantity=3)
    assert cars.statement["maximum"]["noisy"] == 6
    assert cars.table("all").to_pydict() == {"size": [1, 2, 6], "groups": [1, 2, 1]}
    public = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"], "groups": [2, 1, 3]})
    listed = entities(areas, public_groups=public, min_group_size=1)
    assert listed.table("all").to_pydict() == {"size": [1, 2, 3], "groups": [3, 2, 1]}


def test_noise_may_be_drawn_by_opendp(areas):
    pytest.importorskip("opendp")
    release = rows(areas, noise="opendp")
    assert release.table("all").to_pydict() == {"size": [0, 3, 30], "groups": [5, 4, 7]}


def test_the_statement_says_what_was_measured_and_what_k_came_out(areas):
    job = planned(areas)
    before, after = job.statement(), job.run().statement
    new = (
        "maximum",
        "constraint_violations",
        "negative_numbers",
        "fractional_numbers",
        "public_groups_kept",
    )  # known once it has run
    assert before["maximum"] == {
        "statistic": "largest_size",
        "share": 0.1,
        "sensitivity": {"l1": 1, "l2": 1.0},
        "noise": {
            "distribution": "discrete_laplace",
            "scale": 10.0,
            "scale_exact": "10",
            "std_dev": pytest.approx(14.14, abs=0.01),
        },
        "spent": {"epsilon": 0.1},
        "at_most": 100_000,
        "margin": 71,
    }
    assert after["maximum"].keys() - before["maximum"].keys() == {"noisy", "max_group_size"}
    assert after["maximum"]["max_group_size"] == max(1, after["maximum"]["noisy"] + 71)
    assert {key: value for key, value in after.items() if key not in new} == {
        key: value for key, value in before.items() if key != "maximum"
    }
    assert any("then larger groups are set to K" in note for note in after["notes"])
    assert any("groups of size >= s, for s = 1 … K;" in note for note in after["notes"])
    assert "maximum" not in rows(areas, max_group_size=30).statement


def test_a_saved_release_keeps_k_and_what_was_asked_for(areas, tmp_path):
    release = rows(areas, max_group_size=PrivateMaximum(0.5, 200))
    release.save(tmp_path / "out")
    loaded = tt.Release.load(tmp_path / "out")
    assert loaded.statement["maximum"] == release.statement["maximum"]
    assert loaded.spec["max_group_size"] == {"share": 0.5, "at_most": 200}
    json.dumps(loaded.statement, allow_nan=False)


@pytest.mark.parametrize("invariants", ["groups", "none"])
def test_tables_are_made_again_within_the_k_that_came_out(areas, tmp_path, invariants):
    release = rows(areas, budget=PURE, invariants=invariants)
    release.save(tmp_path / "out")
    again = tt.reconcile_group_sizes(tmp_path / "out", areas)
    for level in release.levels:
        assert again.table(level) == release.table(level)
    assert again.statement["maximum"] == release.statement["maximum"]
    spec = {**release.spec, "max_group_size": {"share": 0.5}}
    for damaged in (None, {"max_group_size": None}, {"max_group_size": 0.5}):
        statement = {**release.statement, "maximum": damaged}
        with pytest.raises(ValueError, match="release: its spec has min_group_size = "):
            tt.reconcile_group_sizes(replace(release, spec=spec, statement=statement), areas)


def test_an_automatic_split_is_of_what_the_maximum_leaves(areas):
    plan = planned(areas, budget_split="auto").plan
    assert plan.maximum.share == Fraction(1, 10)
    assert sum(level.share for level in plan.levels.values()) == Fraction(9, 10)
    public = planned(areas, budget_split="auto", max_group_size=100_000).plan
    assert [level.share for level in plan.levels.values()] == [
        level.share * Fraction(9, 10) for level in public.levels.values()
    ]


def test_a_seeded_maximum_is_not_private_and_reproducible(areas):
    first, second = (rows(areas, budget=PURE, seed=3) for _ in range(2))
    assert first.statement["maximum"] == second.statement["maximum"]
    assert first.statement["maximum"]["spent"] == {"epsilon": "infinity"}
    assert first.table("county") == second.table("county")


# --- What stays secret ---


def test_the_noise_of_the_maximum_belongs_to_all_statistics(areas):
    """One group elsewhere is one larger: the largest size is the same, its noise is another."""
    noisy = {
        rows(areas, budget=tt.Budget(epsilon=1e-3), seed=5, data={"n": [0, size, 30]}).statement["maximum"]["noisy"]
        for size in range(3, 11)
    }
    assert len(noisy) == 8


def test_what_is_above_the_public_bound_does_not_exist(areas):
    at_most = PrivateMaximum(0.5, 20)
    releases = [rows(areas, budget=PURE, seed=5, max_group_size=at_most, data={"n": [0, 3, size]}) for size in (20, 99)]
    assert releases[0].statement == releases[1].statement
    assert releases[0].table("county") == releases[1].table("county")


def test_a_mechanism_learns_k_and_cannot_measure_the_maximum_again(areas):
    """Clamped to K the largest size may be another, and its noise would be the same: together they give it away."""
    seen = {}

    class Spy(tt.sizes.CumulativeProjection):
        def reconcile(self, domain, measurer):
            seen["largest"] = domain.largest
            with pytest.raises(ValueError, match="'largest_size' is not a statistic of group sizes"):
                measurer.measure("all", np.array([0]), "largest_size")
            with pytest.raises(tt.BudgetExceeded, match="'largest_size' at level 'state' is not in the plan"):
                measurer.measure("state", np.array([0]), "largest_size")
            return super().reconcile(domain, measurer)

    release = rows(areas, budget=PURE, mechanism=Spy())
    assert seen["largest"] == release.statement["maximum"]["max_group_size"]
    taken = [len(values) for values in release.measurements("all")["values"].to_pylist()]
    assert taken == [seen["largest"]]


def test_whoever_measures_the_maximum_measures_nothing_else(areas):
    sizes = TrueSizes(areas, np.array([1]), np.array([7]), np.array([2]), (None,) * 3, 1, 20)
    measurer = Measurer(sizes.largest_size(), planned(areas).plan, KeyedNoise(bytes(range(32))))
    with pytest.raises(ValueError, match="'tail_counts' of 'all' is not the largest size"):
        measurer.measure("all", np.array([0]), "tail_counts")
    with pytest.raises(ValueError, match="nodes: 0"):
        measurer.measure("state", np.array([0]), "tail_counts")
    assert measurer.taken == ()


def test_a_mechanism_that_asks_for_the_maximum_is_refused(areas):
    class Curious(tt.sizes.CumulativeProjection):
        def statistics(self, hierarchy, *, invariants):
            return {"all": "largest_size"}

    with pytest.raises(ValueError, match="mechanism: Curious wants 'largest_size' measured at 'all'"):
        planned(areas, mechanism=Curious())


def test_nothing_says_the_true_maximum(areas, caplog):
    """86,753 members; ε = 1/1000 hides them in noise of scale 2,000."""
    caplog.set_level(logging.DEBUG)
    release = rows(areas, budget=tt.Budget(epsilon=1e-3), data={"n": [0, 3, 86_753]})
    _, true = domain_and_sizes([3, 86_753], at_most=100_000)
    written = [caplog.text, json.dumps(release.statement), json.dumps(release.spec), repr(release)]
    written += [repr(true), repr(true.largest_size())]
    assert not any("86753" in text or "86,753" in text for text in written)
    assert caplog.records
    assert release.statement["maximum"]["noisy"] != 86_753


def test_data_sets_that_differ_above_k_alone_are_the_same_to_the_levels():
    _, true = domain_and_sizes([3, 500, 20], invariants="groups")
    _, other = domain_and_sizes([3, 700, 20], invariants="groups")
    for statistic in ("tail_counts", "histogram", "sorted_sizes", "chain_tail_counts"):
        cells = [each.clamped(100).cells("county", np.array([0]), statistic)[0].tolist() for each in (true, other)]
        assert cells[0] == cells[1]
