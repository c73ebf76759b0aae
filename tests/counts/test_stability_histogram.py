"""StabilityHistogram: what is released and stated, what is refused, and that only noisy counts pass the threshold."""

import dataclasses
import io
import json
import logging
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import tallytree as tt
from helpers.inside import (
    CountsArguments,
    KeyedNoise,
    LargestSize,
    Measurer,
    OpenDPNoise,
    TrueCounts,
    make_release,
    plan_counts,
    plan_noise,
    plan_stability,
    sensitivity,
)
from tallytree.cli.rendering.statements import show_measurements
from tallytree.lab.audit.runs import ReplayMeasurer, draw_runs
from tallytree.ledger import Ledger

AREAS = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "B", "B"], "c": ["x", "y", "x", "y"]}), ["s", "c"])
PEOPLE = pa.table({"state": ["A"] * 160 + ["B"] * 140, "county": ["x"] * 150 + ["y"] * 10 + ["x"] * 140})
BUDGET = tt.Budget(epsilon=1, delta=1e-6)
SH = tt.counts.StabilityHistogram()
KEY = bytes(range(32))
PLAN = plan_stability(BUDGET, "c", sensitivity("stable_counts", "add_remove"), 1)


class Spy:
    """Adds nothing, and remembers for which cells noise was drawn."""

    def __init__(self):
        self.asked = []

    def draw(self, noise, address, cells):
        self.asked.append((address, cells.tolist()))
        return np.zeros(len(cells), dtype=np.int64)


def measurer(source, leaves=(0, 1, 3), counts=(100, 5, 300), plan=PLAN):
    return Measurer(TrueCounts(AREAS, np.array(leaves), np.array(counts)), plan, source)


def release(areas, **changes):
    arguments = {"budget": BUDGET, "neighboring": "change_one", "mechanism": SH, "records": PEOPLE} | changes
    return tt.release_counts(arguments.pop("records"), areas, **arguments)


# --- The Measurer ---


def test_noise_is_drawn_for_cells_with_records_alone_and_only_those_above_the_threshold_come_out():
    spy = Spy()
    measures = measurer(spy)
    measured = measures.measure_stable("c")
    assert (measured.nodes.tolist(), measured.values.tolist()) == ([0, 3], [100, 300])
    assert spy.asked == [(("c", "stable_counts"), [0, 1, 3])]
    assert measured.noise == PLAN.stable.noise
    assert measures.measure_stable("c") is measured
    assert len(spy.asked) == len(measures.taken) == 1


@pytest.mark.parametrize(("count", "passes"), [(PLAN.stable.threshold - 1, False), (PLAN.stable.threshold, True)])
def test_the_threshold_itself_is_published(count, passes):
    assert measurer(Spy(), [2], [count]).measure_stable("c").nodes.tolist() == [2] * passes


def test_the_noise_is_that_of_the_cells_address():
    true = np.array([100, 5, 300])
    noise = KeyedNoise(KEY).draw(PLAN.stable.noise, ("c", "stable_counts"), np.array([0, 1, 3]))
    noisy = true + noise
    passed = noisy >= PLAN.stable.threshold
    measured = measurer(KeyedNoise(KEY)).measure_stable("c")
    assert measured.nodes.tolist() == np.array([0, 1, 3])[passed].tolist()
    assert measured.values.tolist() == noisy[passed].tolist()
    other = measurer(KeyedNoise(KEY), [0, 3], [100, 300]).measure_stable("c")  # a cell's noise is its own
    assert other.values.tolist() == measured.values.tolist()


def test_no_plan_gives_counts_above_a_threshold_and_others():
    with pytest.raises(tt.BudgetExceeded, match="'stable_counts' at level 'c' is not in the plan"):
        measurer(Spy()).measure("c", np.arange(4), "stable_counts")
    with pytest.raises(tt.BudgetExceeded, match="counts above a threshold at level 's' are not in the plan"):
        measurer(Spy()).measure_stable("s")
    plain = plan_noise(BUDGET, {"c": ("counts", sensitivity("counts", "add_remove"))})
    with pytest.raises(tt.BudgetExceeded, match="counts above a threshold at level 'c' are not in the plan"):
        measurer(Spy(), plan=plain).measure_stable("c")


def test_statistics_without_present_nodes_are_refused_before_noise_is_drawn():
    spy = Spy()
    with pytest.raises(TypeError, match="statistics: they must be counts"):
        Measurer(LargestSize("c", 3), PLAN, spy).measure_stable("c")
    with pytest.raises(OverflowError, match="beyond 2\\^62"):
        measurer(spy, [0], [2**62 + 1]).measure_stable("c")
    assert spy.asked == []


def test_no_log_tells_how_many_cells_have_records(caplog):
    def logged(leaves):
        caplog.clear()
        with caplog.at_level(logging.DEBUG):
            measurer(Spy(), leaves, [1] * len(leaves)).measure_stable("c")
        return caplog.messages

    assert logged([0]) == logged([0, 1, 2, 3]) == ["published 0 nodes of level 'c', above a threshold"]


def test_a_lone_record_is_published_as_often_as_the_tail_says():
    """100,000 cells of one record, p = q/(1 + q) = 0.11920 at t = 2, b = 1/2: within 5 standard deviations (0.0051)."""
    n = 100_000
    tree = tt.Hierarchy.from_table(pa.table({"c": [str(i) for i in range(n)]}), ["c"])
    plan = plan_stability(tt.Budget(epsilon=2, delta=0.12), "c", sensitivity("stable_counts", "add_remove"), 1)
    assert (plan.stable.noise.scale, plan.stable.threshold) == (Fraction(1, 2), 2)
    true = TrueCounts(tree, np.arange(n), np.ones(n, dtype=np.int64))
    published = len(Measurer(true, plan, KeyedNoise(KEY)).measure_stable("c").nodes)
    expected = np.exp(-2) / (1 + np.exp(-2))
    assert abs(published / n - expected) < 5 * np.sqrt(expected * (1 - expected) / n)


def test_opendp_draws_at_its_own_scale():
    pytest.importorskip("opendp", reason="the extra tallytree[opendp] is not installed")
    measured = measurer(OpenDPNoise(), [0, 3], [10_000, 20_000]).measure_stable("c")
    assert measured.nodes.tolist() == [0, 3]
    assert (np.abs(measured.values - [10_000, 20_000]) < 100).all()


def test_an_audit_replays_what_a_measurer_answers():
    true = TrueCounts(AREAS, np.array([0, 1, 3]), np.array([15, 14, 16]))
    drawn = draw_runs(true, PLAN, KeyedNoise(KEY), 50)
    seen = set()
    for run in range(50):
        replayed = ReplayMeasurer(drawn, run).measure_stable("c")
        noisy = np.array([15, 14, 16]) + KeyedNoise(KEY).draw(
            PLAN.stable.noise, ("c", "stable_counts"), np.array([0, 1, 3]) + 4 * run
        )
        passed = noisy >= PLAN.stable.threshold
        assert replayed.nodes.tolist() == np.array([0, 1, 3])[passed].tolist()
        assert replayed.values.tolist() == noisy[passed].tolist()
        seen.add(int(passed.sum()))
    assert seen == {0, 1, 2, 3}
    with pytest.raises(tt.BudgetExceeded):
        ReplayMeasurer(drawn, 0).measure("c", np.arange(4), "stable_counts")
    with pytest.raises(tt.BudgetExceeded):
        ReplayMeasurer(drawn, 0).measure_stable("s")


# --- The release ---


@pytest.mark.parametrize("noise", ["keyed", "opendp"])
@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_sums_of_the_cells_above_the_threshold(areas, neighboring, noise):
    if noise == "opendp":
        pytest.importorskip("opendp", reason="the extra tallytree[opendp] is not installed")
    budget = tt.Budget(epsilon=50, delta=1e-6)  # next to no noise, and a threshold of 2
    made = release(areas, records=pa.concat_tables([PEOPLE, PEOPLE.slice(0, 0)]), budget=budget,
                   neighboring=neighboring, noise=noise)  # fmt: skip
    assert made.table("county")["count"].to_pylist() == [150, 10, 0, 140]
    assert made.table("state")["count"].to_pylist() == [160, 140]
    assert made.table("all")["count"].to_pylist() == [300]
    assert made.measurements("county")["value"].to_pylist() == [150, 10, 140]
    assert made.measurements("all").num_rows == 0


def test_the_statement_says_what_a_threshold_does_and_lists_no_total(areas, tmp_path):
    made = release(areas)
    statement = made.statement
    assert statement["invariants"] == ["the hierarchy"]
    assert statement["spent"] == {"epsilon": 1.0, "delta": 1e-6}
    assert statement["accounting"] == "exact"
    assert "rho" not in json.dumps(statement)
    (level,) = (each for each in statement["levels"] if each["measured"])
    assert (level["level"], level["statistic"], level["share"]) == ("county", "stable_counts", 1)
    assert level["noise"]["distribution"] == "discrete_laplace"
    assert level["noise"]["scale_exact"] == "2"
    assert level["threshold"] == 28  # 1 + 2·(ln 1e6 - ln(1 + e^-1/2)) = 27.68
    assert level["spent"] == {"epsilon": 1.0}
    assert any("below 28 at the level 'county' were left out" in note for note in statement["notes"])
    assert any("neither used nor published exactly" in note for note in statement["notes"])
    assert (statement["negative_numbers"], statement["constraint_violations"]) == (0, 0)
    assert statement["guarantee"].startswith("epsilon = 1, delta = 1e-06 (approximate")
    for published in made.measurements("county")["value"].to_pylist():
        assert published >= 28
    saved = tt.Release.load(made.save(tmp_path / "out"))
    assert saved.table("county").equals(made.table("county"))
    assert saved.statement == json.loads(json.dumps(dict(statement)))


def test_the_threshold_is_shown_beside_the_levels(areas):
    console = Console(record=True, width=120, file=io.StringIO())
    show_measurements(console, release(areas).statement)
    assert "Threshold: noisy counts below 28 at county are left out." in console.export_text()


def test_a_dropped_record_and_several_of_a_person_are_covered(areas):
    outside = pa.table({"state": ["C"], "county": ["x"]})
    made = release(areas, records=pa.concat_tables([PEOPLE, outside]), on_unknown="drop", max_contributions=3)
    (level,) = (each for each in made.statement["levels"] if each["measured"])
    assert level["sensitivity"]["l1"] == 6
    assert level["noise"]["scale_exact"] == "6"


def test_a_huge_tree_costs_what_its_records_cost():
    towns = [str(i) for i in range(20_000)]
    areas = tt.Hierarchy.from_table(pa.table({"s": [t[:2] for t in towns], "t": towns}), ["s", "t"])
    trips = pa.table({"os": ["10"], "ot": ["1000"], "ds": ["11"], "dt": ["1100"], "n": [500]})
    made = tt.release_flows(
        trips,
        origins=areas,
        destinations=areas,
        origin=["os", "ot"],
        destination=["ds", "dt"],
        count="n",
        budget=BUDGET,
        neighboring="add_remove",
        mechanism=SH,
    )  # 400,000,000 cells
    (row,) = made.table("ot").to_pylist()
    assert (row["ot"], row["dt"]) == ("1000", "1100")
    assert abs(row["count"] - 500) < 40


def test_no_records_at_all_is_a_release_like_any_other(areas):
    made = release(areas, records=PEOPLE.slice(0, 0))
    assert made.table("county")["count"].to_pylist() == [0, 0, 0, 0]
    assert made.table("all")["count"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("changes", "error", "begins"),
    [
        ({"budget": tt.Budget(epsilon=1)}, ValueError, "budget: .* has no delta, but StabilityHistogram"),
        ({"budget": tt.Budget(rho=1)}, ValueError, "budget: .* has no delta, but StabilityHistogram"),
        ({"budget": 1}, TypeError, "budget: 1 must be a tallytree.Budget"),
        ({"accounting": "pld"}, ValueError, "accounting: 'pld' composes the noise of levels"),
        ({"accounting": "zcdp"}, ValueError, "accounting: 'zcdp' composes the noise of levels"),
        ({"budget_split": {"state": 1}}, ValueError, "budget_split: 'state' is not measured"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_is_spent(areas, changes, error, begins):
    with pytest.raises(error, match=begins):
        release(areas, **changes)


def test_a_weight_for_the_one_level_is_all_of_the_budget(areas):
    assert release(areas, budget_split={"county": 3}).statement["levels"][2]["share"] == 1


def test_the_ledger_adds_epsilon_and_delta(areas, tmp_path):
    path = tmp_path / "ledger"
    for _ in range(2):
        release(areas, ledger=path, dataset="people")
    ledger = Ledger(path)
    assert ledger.spent("people") == {"epsilon": 2, "delta": Fraction(2, 10**6)}
    assert {(entry.mechanism, entry.loss.rho) for entry in ledger.entries("people")} == {("StabilityHistogram", None)}
    with pytest.raises(ValueError, match="cannot be added to what the data set 'people' has spent"):
        release(areas, ledger=path, dataset="people", mechanism=None, budget=tt.Budget(rho=1))


def test_a_job_whose_plan_is_not_its_own_is_not_run(areas):
    def job(**changes):
        options = {"neighboring": "change_one", "mechanism": SH} | changes
        return plan_counts(CountsArguments(PEOPLE, areas, BUDGET, **options))

    planned = job()
    for other in (job(neighboring="add_remove"), job(max_contributions=2), job(mechanism=tt.counts.TopDown())):
        with pytest.raises(tt.BudgetExceeded, match="changed after its noise was planned"):
            make_release(dataclasses.replace(planned, plan=other.plan))
        with pytest.raises(tt.BudgetExceeded, match="planned for another release"):
            dataclasses.replace(planned, plan=other.plan).seal()
    # As if one person had two records, all in one place at add_remove: the same L1 as one under change_one.
    bound = planned.plan.stable.sensitivity
    with pytest.raises(tt.BudgetExceeded, match="planned for another release"):
        dataclasses.replace(planned, plan=plan_stability(BUDGET, "county", bound, 2)).seal()
