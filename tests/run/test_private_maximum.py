"""K that is measured: what comes out, and what nobody gets to know."""

import json
import logging
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import KeyedNoise, Measurer, TrueSizes, entropy
from helpers.private_maximum import BUDGETS, PEOPLE, PURE, entities, planned, rows
from helpers.releases import without_tails
from tallytree.run import make_release
from tallytree.run.planned_sizes import within_measured_maximum
from tallytree.sizes import PrivateMaximum, SizesDomain, level_estimates
from tallytree.sizes.private_maximum import largest_published, margin

MECHANISMS = [
    tt.sizes.Matching(),
    tt.sizes.Joint(),
    tt.sizes.HistogramProjection(),
    tt.sizes.CumulativeProjection(),
    tt.sizes.Chain(),
    tt.sizes.CensusTopDown(),
]


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
    assert without_tails(release.table("all")) == {"size": [0, 3, 20], "groups": [5, 4, 7]}


@pytest.mark.parametrize(("invariants", "smallest"), [("groups", 0), ("total", 1), ("none", 1)])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_data_without_members_have_the_least_size(areas, mechanism, invariants, smallest):
    release = rows(areas, mechanism=mechanism, invariants=invariants, data={"n": [0, 0, 0]})
    assert release.statement["maximum"]["noisy"] == smallest
    assert release.statement["maximum"]["max_group_size"] == smallest + 1
    expected = {"size": [0], "groups": [16]} if invariants == "groups" else {"size": [], "groups": []}
    assert without_tails(release.table("all")) == expected


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_no_records_at_all(areas, mechanism):
    release = entities(areas, records=PEOPLE.iloc[:0].astype({"state": str, "county": str}), mechanism=mechanism)
    assert release.statement["maximum"]["max_group_size"] == 2
    assert release.table("county").num_rows == 0


@pytest.mark.slow
def test_noise_that_drowns_the_maximum_ends_at_one_of_the_bounds(areas):
    """Noise of scale 10⁷, where sizes are at most 1,000: K is 1 or 1,000 but for one in ten thousand."""
    domain, true = domain_and_sizes([3, 500, 20], invariants="groups")
    plan = planned(domain.hierarchy, tt.Budget(epsilon=1e-6), max_group_size=PrivateMaximum(0.1, 1_000)).plan
    # Five standard deviations are added, so that the lower bound needs noise that is lower still: 2,000 × 4e-4 of them.
    reached = set()
    for seed in range(20_000):
        if {1, 1_000} <= reached:
            break
        source = KeyedNoise(entropy.key_from_seed(seed))
        reached.add(within_measured_maximum(domain, true, plan, source)[2]["max_group_size"])
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


@pytest.mark.slow
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
    assert without_tails(release.table("all")) == {"size": [0, 3, 30], "groups": [5, 4, 7]}


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
    assert without_tails(cars.table("all")) == {"size": [1, 2, 6], "groups": [1, 2, 1]}
    public = pa.table({"state": list("AAAB"), "county": list("xyzx"), "groups": [2, 1, 0, 3]})
    listed = entities(areas, public_groups=public, min_group_size=1)
    assert without_tails(listed.table("all")) == {"size": [1, 2, 3], "groups": [3, 2, 1]}


def test_noise_may_be_drawn_by_opendp(areas):
    pytest.importorskip("opendp")
    release = rows(areas, noise="opendp")
    assert without_tails(release.table("all")) == {"size": [0, 3, 30], "groups": [5, 4, 7]}


def test_the_statement_says_what_was_measured_and_what_k_came_out(areas):
    job = planned(areas)
    before, after = job.statement, make_release(job).statement
    new = (
        "maximum",
        "constraint_violations",
        "negative_numbers",
        "fractional_numbers",
        "public_groups_kept",
        "release",
        "risk",
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


@pytest.mark.slow
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
    with pytest.raises(ValueError, match="'tail_counts' of 'all' is not what is measured there"):
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
