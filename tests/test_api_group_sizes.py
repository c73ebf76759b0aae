"""Group sizes end to end: which numbers of groups are public, what a record adds, and what the statement says."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import SizesArguments, make_release, plan_group_sizes
from helpers.releases import without_tails
from tallytree.evaluate.metrics import constraint_violations
from tallytree.sizes import level_estimates

HOUSEHOLDS = pd.DataFrame(
    {
        "state": ["A"] * 6 + ["B"] * 3,
        "county": ["x"] * 5 + ["y"] + ["x"] * 3,
        "household": [1, 1, 1, 2, 2, 3, 4, 5, 5],
        "cars": [0, 4, 9, 1, 0, 0, 2, 1, 1],
    }
)
ROWS = pa.table({"state": ["A", "A", "B"], "county": ["x", "x", "x"], "n": [0, 3, 30], "households": [5, 4, 7]})
EXACT = tt.Budget(epsilon=10_000)
MECHANISMS = [
    tt.sizes.Matching(),
    tt.sizes.BottomUp(),
    tt.sizes.HistogramProjection(),
    tt.sizes.CumulativeProjection(),
    tt.sizes.Chain(),
    tt.sizes.CensusTopDown(),
]


def entities(areas, **changes):
    arguments = {"budget": EXACT, "neighboring": "add_remove", "group": "household", "max_group_size": 20} | changes
    return tt.release_group_sizes(arguments.pop("records", HOUSEHOLDS), areas, **arguments)


def rows(areas, **changes):
    arguments = {"budget": EXACT, "neighboring": "add_remove", "size": "n", "groups": "households"} | changes
    return tt.release_group_sizes(ROWS, areas, **({"max_group_size": 20} | arguments))


# --- Which numbers of groups are public ---


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_entity_rows_alone_keep_the_numbers_of_groups_private(areas, mechanism):
    release = entities(areas, mechanism=mechanism)
    assert release.table("county").to_pydict() == {
        "state": ["A", "A", "A", "B", "B"],
        "county": ["x", "x", "y", "x", "x"],
        "size": [2, 3, 1, 1, 2],
        "groups": [1, 1, 1, 1, 1],
    }
    assert release.statement["invariants"] == ["the hierarchy"]
    assert "Groups with members are counted, so sizes begin with 1." in release.statement["notes"]
    assert release.spec["invariants"] == "none"


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("invariants", ["total", "none"])
def test_groups_without_members_are_left_out_where_numbers_are_private(areas, mechanism, invariants):
    release = rows(areas, mechanism=mechanism, invariants=invariants)
    assert without_tails(release.table("all")) == {"size": [3, 20], "groups": [4, 7]}
    assert without_tails(rows(areas, mechanism=mechanism).table("all")) == {"size": [0, 3, 20], "groups": [5, 4, 7]}


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_the_total_is_kept_whatever_the_noise(areas, mechanism, neighboring):
    release = rows(
        areas, mechanism=mechanism, invariants="total", budget=tt.Budget(epsilon=0.05), neighboring=neighboring
    )
    for level in release.levels:
        assert sum(release.table(level)["groups"].to_pylist()) == 11
    assert release.statement["invariants"] == ["the hierarchy", "the total number of groups with members"]
    assert any("neighbouring data sets have the same" in note for note in release.statement["notes"])


@pytest.mark.slow
def test_without_any_public_number_the_total_is_noisy(areas):
    totals = {
        sum(rows(areas, invariants="none", budget=tt.Budget(epsilon=0.3)).table("all")["groups"].to_pylist())
        for _ in range(12)
    }
    assert len(totals) > 3


def test_no_private_number_of_groups_reaches_a_mechanism_or_a_plan(areas):
    """A mechanism that looks for the numbers of groups finds what is public, and nothing else."""
    seen = {}

    class Spy(tt.sizes.CumulativeProjection):
        def reconcile(self, domain, measurer):
            seen["groups"] = domain.groups
            seen["cells"] = {
                level: len(measurer.measure(level, np.array([0]), "tail_counts").values) for level in ("all", "state")
            }
            return super().reconcile(domain, measurer)

    rows(areas, mechanism=Spy(), invariants="none")
    assert seen["groups"] == (None, None, None)
    assert seen["cells"] == {"all": 20, "state": 20}
    rows(areas, mechanism=Spy(), invariants="total")
    assert [None if groups is None else groups.tolist() for groups in seen["groups"]] == [[11], None, None]
    assert seen["cells"] == {"all": 19, "state": 20}
    rows(areas, mechanism=Spy(), invariants="groups")
    assert [groups.tolist() for groups in seen["groups"]] == [[16], [9, 7], [9, 0, 0, 7]]


def test_a_least_size_clamps_groups_that_have_members(areas):
    release = entities(areas, min_group_size=2)
    assert without_tails(release.table("all")) == {"size": [2, 3], "groups": [4, 1]}
    assert "no group has fewer than 2 members (smaller ones are set to that)" in release.statement["invariants"]


def test_one_size_counts_groups(areas):
    assert entities(areas, max_group_size=1).table("state").to_pydict()["groups"] == [3, 2]
    with pytest.raises(ValueError, match="min_group_size: 2 must be less than max_group_size, which is 2"):
        entities(areas, max_group_size=2, min_group_size=2)


def test_sorted_sizes_are_refused_before_anything_is_read(areas):
    with pytest.raises(ValueError, match="estimator: 'sorted' at 'all' needs the public number of groups"):
        entities(areas, records="nowhere.parquet", mechanism=tt.sizes.Matching("sorted"))


def test_a_node_of_too_many_groups_for_a_list_is_refused_before_anything_is_spent(areas, tmp_path):
    many = ROWS.set_column(3, "households", pa.array([5, 4, 2**31]))
    arguments = {"size": "n", "groups": "households", "max_group_size": 20, "neighboring": "add_remove"}
    arguments |= {"ledger": tmp_path / "ledger.db", "dataset": "households", "budget": tt.Budget(epsilon=1)}
    with pytest.raises(ValueError, match="the sorted sizes of a node at 'all' are 2147483657 cells"):
        tt.release_group_sizes(many, areas, mechanism=tt.sizes.Matching("sorted"), **arguments)
    assert not (tmp_path / "ledger.db").exists()
    release = tt.release_group_sizes(many, areas, mechanism=tt.sizes.Matching(), **arguments)
    assert sum(release.table("all")["groups"].to_pylist()) == 2**31 + 9


def test_a_release_is_the_same_whether_nodes_are_measured_whole_or_in_parts(areas, monkeypatch, tmp_path):
    arguments = {"mechanism": tt.sizes.Matching("sorted"), "budget": tt.Budget(epsilon=1), "seed": 5}
    whole = rows(areas, **arguments)
    monkeypatch.setattr(level_estimates, "CELLS_AT_ONCE", 4)
    parts = rows(areas, **arguments)
    for level in whole.levels:
        assert parts.table(level).equals(whole.table(level))
        assert parts.measurements(level).combine_chunks().equals(whole.measurements(level).combine_chunks())
    loaded = tt.Release.load(parts.save(tmp_path / "out"))
    assert loaded.measurements("state").equals(whole.measurements("state"))


# --- What a record adds to a size ---


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_sizes_are_sums_of_quantities_that_are_cut(areas, mechanism):
    release = entities(areas, quantity="cars", max_quantity=3, mechanism=mechanism)
    # Households 1 … 5 have 0 + 3 + 3, 1, 0, 2 and 2 cars; the one without is not counted.
    assert without_tails(release.table("all")) == {"size": [1, 2, 6], "groups": [1, 2, 1]}
    assert "each with a quantity of at most 3" in release.statement["unit_of_protection"]
    assert any("'cars', each cut to 3" in note for note in release.statement["notes"])
    assert release.spec["quantity"] == "cars"


def test_a_public_total_of_quantities_says_which_groups_it_counts(areas):
    """Household 3 has a member but no car, so that its first car would show in the total."""
    release = entities(areas, quantity="cars", max_quantity=3, invariants="total", on_unknown="drop")
    counted = "groups with a sum of 'cars' of at least 1 inside the hierarchy"
    assert release.statement["invariants"] == ["the hierarchy", f"the total number of {counted}"]
    assert sum(release.table("all")["groups"].to_pylist()) == 4
    assert any(f"The number of {counted} is published exactly" in note for note in release.statement["notes"])


def test_groups_without_quantity_have_size_0_where_groups_are_public(areas):
    public = pa.table({"state": list("AAAB"), "county": list("xyzx"), "groups": [2, 1, 0, 2]})
    release = entities(areas, quantity="cars", max_quantity=3, public_groups=public)
    assert without_tails(release.table("all")) == {"size": [0, 1, 2, 6], "groups": [1, 1, 2, 1]}


def test_public_groups_list_every_leaf_once(areas):
    twice = pa.table({"state": list("AAAB"), "county": list("xxyx"), "groups": [1, 1, 1, 2]})
    with pytest.raises(ValueError, match=r"^public_groups: .*state='A', county='x' is listed twice"):
        entities(areas, public_groups=twice)
    short = pa.table({"state": ["A"], "county": ["x"], "groups": [5]})
    with (
        pytest.warns(UserWarning, match=r"^public_groups: \d+ of \d+ areas are not listed, so that 0 is published"),
        pytest.raises(ValueError, match="the records hold more groups than it says"),
    ):
        entities(areas, public_groups=short)


@pytest.mark.parametrize(
    ("mechanism", "scale"),
    [("Matching", 9), ("BottomUp", 3), ("CumulativeProjection", 9), ("HistogramProjection", 6), ("CensusTopDown", 6)],
)
def test_the_noise_grows_with_the_quantity_where_the_sensitivity_does(areas, mechanism, scale):
    """Three levels at epsilon 1: tail counts move in z cells, histograms in two whatever z is."""
    release = entities(
        areas, quantity="cars", max_quantity=3, mechanism=getattr(tt.sizes, mechanism)(), budget=tt.Budget(epsilon=1)
    )
    assert {level["noise"]["scale"] for level in release.statement["levels"] if level["measured"]} == {scale}


def test_a_quantity_beyond_all_sizes_costs_no_more_noise(areas):
    """There are 20 thresholds to be crossed, however large a quantity may be."""
    release = entities(areas, quantity="cars", max_quantity=1_000, budget=tt.Budget(epsilon=1), budget_split="even")
    assert {level["sensitivity"]["l1"] for level in release.statement["levels"]} == {20}
    assert {level["noise"]["scale"] for level in release.statement["levels"]} == {60}


def test_rows_of_sizes_take_the_most_that_a_record_adds(areas):
    release = rows(areas, max_quantity=2, budget=tt.Budget(epsilon=1))
    assert {level["sensitivity"]["l1"] for level in release.statement["levels"]} == {2}
    assert any("adds more than 2 to a size is assumed" in note for note in release.statement["notes"])
    with pytest.raises(ValueError, match="quantity: 'cars' is a column of entity rows"):
        rows(areas, quantity="cars")


@pytest.mark.parametrize("bad", [[-1.0] * 9, [0.5] * 9, [None] + [1.0] * 8])
def test_quantities_that_are_no_whole_numbers_are_refused(areas, bad):
    with pytest.raises(ValueError, match=r"column 'cars' \(quantity\) must hold integers"):
        entities(areas, records=HOUSEHOLDS.assign(cars=bad), quantity="cars")


def test_a_ledger_refuses_quantities_that_are_only_assumed(areas, tmp_path):
    ledger = {"ledger": tmp_path / "l", "dataset": "d", "budget": tt.Budget(epsilon=1)}
    with pytest.raises(ValueError, match=r"max_quantity: 3 is assumed of .* rows, not enforced"):
        rows(areas, max_quantity=3, **ledger)
    entities(areas, quantity="cars", max_quantity=3, **ledger)


def test_a_job_whose_fields_were_altered_does_not_run(areas):
    """The noise would be that of the plan, and the statement would say otherwise."""
    given = SizesArguments(
        HOUSEHOLDS,
        areas,
        tt.Budget(epsilon=1),
        neighboring="add_remove",
        group="household",
        quantity="cars",
        max_quantity=1,
    )
    planned = plan_group_sizes(given)
    histograms = plan_group_sizes(replace(given, mechanism=tt.sizes.HistogramProjection()))
    for altered in (
        replace(planned, arguments=replace(given, max_quantity=5)),
        replace(planned, mechanism=histograms.mechanism, statistics=histograms.statistics),
        replace(planned, arguments=replace(given, max_contributions=2)),
    ):
        with pytest.raises(tt.BudgetExceeded, match="the release was changed after its noise was planned"):
            make_release(altered)
        with pytest.raises(tt.BudgetExceeded, match="the noise is planned for another release"):
            altered.seal()
    assert make_release(planned).statement["spent"] == {"epsilon": 1}


def test_more_groups_than_floats_can_hold_are_refused_before_anything_is_spent(areas, tmp_path):
    many = pa.table({"state": ["A"], "county": ["x"], "n": [2], "households": [2**51]})
    with pytest.raises(ValueError, match=r"records: they hold more than 2\^50 groups"):
        tt.release_group_sizes(
            many,
            areas,
            tt.Budget(epsilon=1),
            neighboring="add_remove",
            size="n",
            groups="households",
            ledger=tmp_path / "l",
            dataset="d",
        )
    assert not (tmp_path / "l").exists()


# --- The chain ---


def test_the_chain_spends_what_is_granted_and_its_noise_grows_with_the_level(areas):
    release = entities(areas, mechanism=tt.sizes.Chain(), budget=tt.Budget(epsilon=1))
    assert [level["noise"]["scale"] for level in release.statement["levels"]] == [3, 6, 12]
    assert release.statement["spent"] == {"epsilon": 1}


def test_the_published_chain_warns_and_states_what_it_truly_spends(areas, tmp_path):
    chain = tt.sizes.Chain("as_published")
    with pytest.warns(UserWarning, match=r"published as epsilon = 1 truly spends epsilon = 2.33334"):
        release = entities(areas, mechanism=chain, budget=tt.Budget(epsilon=1), ledger=tmp_path / "l", dataset="d")
    statement = release.statement
    assert [level["noise"]["scale"] for level in statement["levels"]] == [3, 3, 3]
    assert statement["spent"]["epsilon"] == pytest.approx(7 / 3)
    assert statement["budget"]["epsilon"] >= 7 / 3
    assert statement["guarantee"].startswith("epsilon = 2.33334 ")
    assert "For reproducing the paper only" in statement["notes"][0]
    json.dumps(statement)
    with pytest.warns(UserWarning, match="truly spends"):
        job = plan_group_sizes(
            SizesArguments(
                HOUSEHOLDS,
                areas,
                tt.Budget(epsilon=1),
                neighboring="add_remove",
                mechanism=chain,
                ledger=tmp_path / "l",
                dataset="d",
                group="household",
            )
        )
    assert job.account.posting.loss.epsilon == job.plan.spent["epsilon"]


def test_the_published_chain_keeps_to_its_split(areas):
    split = {"all": 2, "state": 1, "county": 1}
    with pytest.warns(UserWarning, match="truly spends epsilon = 2"):
        release = entities(
            areas, mechanism=tt.sizes.Chain("as_published"), budget=tt.Budget(epsilon=1), budget_split=split
        )
    assert [level["noise"]["scale"] for level in release.statement["levels"]] == [2, 4, 4]


def test_the_published_chain_knows_pure_budgets_only(areas):
    for budget in (tt.Budget(rho=1), tt.Budget(epsilon=1, delta=1e-6)):
        with pytest.raises(ValueError, match='must be pure with calibration="as_published"'):
            entities(areas, mechanism=tt.sizes.Chain("as_published"), budget=budget)


# --- The papers' own solvers ---


@pytest.mark.parametrize("mechanism", ["HistogramProjection", "CumulativeProjection"])
def test_relaxed_programs_do_not_add_up_and_say_so(areas, mechanism):
    pytest.importorskip("cvxpy")
    many = pa.table(
        {
            "state": ["A"] * 60 + ["B"] * 30,
            "county": ["x"] * 30 + ["y"] * 30 + ["x"] * 30,
            "n": [*range(1, 31)] * 3,
            "households": [40] * 90,
        }
    )
    with pytest.warns(UserWarning, match=r"mechanism: .*levels need not add up"):
        release = tt.release_group_sizes(
            many,
            areas,
            tt.Budget(epsilon=1),
            neighboring="add_remove",
            size="n",
            groups="households",
            invariants="total",
            max_group_size=30,
            mechanism=getattr(tt.sizes, mechanism)(solver="relaxed"),
        )
    assert release.statement["mechanism"]["options"]["solver"] == "relaxed"
    assert "nor keep the numbers of groups that are public" in release.statement["notes"][0]
    tables = [release.table(level) for level in release.levels]
    counted = sum(constraint_violations(above, below) for above, below in itertools.pairwise(tables))
    assert release.statement["constraint_violations"] == counted > 0
    assert rows(areas).statement["constraint_violations"] == 0


@pytest.mark.parametrize(
    ("mechanism", "options", "error", "message"),
    [
        ("HistogramProjection", {"solver": "gurobi"}, ValueError, "solver: 'gurobi' is not known; choose one of exact"),
        (
            "CumulativeProjection",
            {"solver": "exact"},
            ValueError,
            "solver: 'exact' is not known; choose one of two_step",
        ),
        ("HistogramProjection", {"delta": 5}, ValueError, "delta: 5 is the width of cost tables; the solver 'exact'"),
        ("HistogramProjection", {"solver": "cost_table", "delta": 0}, ValueError, "delta: 0 must be at least 1"),
        ("HistogramProjection", {"solver": "cost_table", "delta": 1.5}, TypeError, "delta: 1.5 must be an integer"),
        ("HistogramProjection", {"time_limit": 0}, ValueError, "time_limit: 0 must be a positive number of seconds"),
        ("CumulativeProjection", {"time_limit": "1"}, TypeError, "time_limit: str must be a number of seconds"),
    ],
)
def test_a_bad_option_is_named_when_the_mechanism_is_made(mechanism, options, error, message):
    with pytest.raises(error, match=message):
        getattr(tt.sizes, mechanism)(**options)


@pytest.mark.parametrize(
    ("solver", "package"), [("relaxed", "cvxpy"), ("mip", "pyscipopt"), ("constraint_program", "ortools")]
)
def test_a_missing_extra_is_named_before_anything_is_spent(monkeypatch, solver, package):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=rf'{package}, which is not installed: pip install "tallytree\[papers\]"'
    ):
        tt.sizes.HistogramProjection(solver=solver)


def test_the_papers_solvers_refuse_public_numbers_of_groups(areas):
    with pytest.raises(ValueError, match="solver: 'cost_table' keeps at most the total number of groups"):
        rows(areas, mechanism=tt.sizes.HistogramProjection(solver="cost_table"))
