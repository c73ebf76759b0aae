"""Experiments: one tidy table whose numbers are those of the metrics, and which can be had again from its seed."""

from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tallytree as tt
from tallytree import evaluate
from tallytree.datasets import boninsegna
from tallytree.evaluate import metrics

PEOPLE = pa.table({"state": ["A"] * 60 + ["B"] * 20, "county": ["x"] * 50 + ["y"] * 10 + ["x"] * 20})


@pytest.fixture
def people(areas):
    return evaluate.Data("people", partial(tt.release_counts, PEOPLE, areas), PEOPLE)


@pytest.fixture
def both():
    return {"chebyshev": tt.counts.TopDown(), "euclidean": tt.counts.TopDown(projection="euclidean")}


def without(table, *columns):
    return table.drop_columns(list(columns))


@pytest.mark.slow
def test_there_is_a_row_for_everything_that_differs(people, both):
    budgets = [tt.Budget(epsilon=1), tt.Budget(epsilon=0.1, delta=1e-6), tt.Budget(rho=0.5)]
    results = evaluate.compare(
        people,
        both,
        budgets,
        neighboring=("add_remove", "change_one"),
        accounting=(None, "paper"),
        runs=3,
    )
    # Only the budget with δ has a choice of accounting: 4 accounted budgets, 3 levels, 4 metrics.
    assert results.num_rows == 2 * 4 * 2 * 3 * 3 * 4
    keys = [name for name in results.column_names if name not in ("seed", "seconds", "value")]
    assert results.group_by(keys).aggregate([]).num_rows == results.num_rows
    assert set(results["accounting"].to_pylist()) == {"exact", "pld", "paper"}
    pure = results.filter(pc.and_(pc.is_null(results["delta"]), pc.is_valid(results["epsilon"])))
    assert set(pure["epsilon"].to_pylist()) == {1.0}
    assert set(pure["accounting"].to_pylist()) == {"exact"}
    assert set(zip(results["level"].to_pylist(), results["depth"].to_pylist(), strict=True)) == {
        ("all", 0),
        ("state", 1),
        ("county", 2),
    }


@pytest.mark.slow
def test_values_are_those_of_the_metrics(people, both, areas):
    results = evaluate.compare(people, both, [tt.Budget(epsilon=0.3)], neighboring="add_remove", runs=2, seed=5)
    true = {
        "all": pa.table({"count": [80]}),
        "state": pa.table({"state": ["A", "B"], "count": [60, 20]}),
        "county": pa.table(
            {"state": ["A", "A", "A", "B"], "county": ["x", "y", "z", "x"], "count": [50, 10, 0, 20]},
        ),
    }
    for row in results.to_pylist():
        release = tt.release_counts(
            PEOPLE,
            areas,
            tt.Budget(epsilon=0.3),
            neighboring="add_remove",
            mechanism=both[row["mechanism"]],
            seed=row["seed"],
        )
        metric = getattr(metrics, row["metric"])
        assert row["value"] == metric(release.table(row["level"]), true[row["level"]])


@pytest.mark.slow
def test_equal_seeds_give_equal_results_and_runs_differ(people, both):
    run = partial(evaluate.compare, people, both, [tt.Budget(epsilon=0.01)], neighboring="add_remove", runs=8)
    first = run(seed=1)
    assert without(run(seed=1), "seconds").equals(without(first, "seconds"))
    assert not without(run(seed=2), "seconds").equals(without(first, "seconds"))
    frame = first.to_pandas().query("metric == 'max_absolute_error' and level == 'state'")
    assert (frame.groupby("mechanism")["value"].nunique() > 1).all()
    assert frame["seed"].nunique() == 8


def test_flows_count_nodes_that_no_table_lists():
    small = boninsegna.od_flows("random", "sparse")
    areas = tt.Hierarchy.from_table(small.areas, small.levels)
    release = partial(
        tt.release_flows,
        small.flows,
        origins=areas,
        destinations=areas,
        origin=small.origin,
        destination=small.destination,
        count="count",
    )
    data = evaluate.Data("random sparse", release, small.flows)
    results = evaluate.compare(
        data,
        {"InfTDA": tt.counts.TopDown()},
        [tt.Budget(epsilon=1, delta=1e-8)],
        neighboring="change_one",
        accounting="paper",
        runs=1,
        levels=["all", "origin_level4"],
    )
    values = {(row["level"], row["metric"]): row["value"] for row in results.to_pylist()}
    assert values["all", "max_absolute_error"] == 0
    assert set(results["level"].to_pylist()) == {"all", "origin_level4"}
    made = release(
        mechanism=tt.counts.TopDown(),
        budget=tt.Budget(epsilon=1, delta=1e-8),
        neighboring="change_one",
        accounting="paper",
        seed=results["seed"][0].as_py(),
    )
    table = made.table("origin_level4")
    assert values["origin_level4", "mean_absolute_error"] == pytest.approx(
        metrics.absolute_errors(table, small.flows).sum() / 435**2
    )
    assert values["origin_level4", "false_negative_rate"] == metrics.false_negative_rate(table, small.flows)


def test_group_sizes_have_metrics_of_their_own(areas):
    rows = pa.table(
        {
            "state": ["A", "A", "B"],
            "county": ["x", "y", "x"],
            "size": [1, 3, 2],
            "groups": [40, 10, 20],
        }
    )
    release = partial(tt.release_group_sizes, rows, areas, size="size", groups="groups", max_group_size=5)
    results = evaluate.compare(
        evaluate.Data("households", release, rows),
        {"joint": None, "bottom up": tt.sizes.BottomUp()},
        [tt.Budget(epsilon=2)],
        neighboring="add_remove",
        runs=2,
    )
    assert set(results["metric"].to_pylist()) == {"earth_movers_distance", "l1_error"}
    first = results.to_pylist()[-4]  # the last run's counties
    assert (first["level"], first["metric"]) == ("state", "earth_movers_distance")
    made = release(
        budget=tt.Budget(epsilon=2), neighboring="add_remove", mechanism=tt.sizes.BottomUp(), seed=first["seed"]
    )
    distances = metrics.earth_movers_distance(made.table("state"), rows)
    assert first["value"] == distances.sum() / 2


def test_metrics_can_be_given(people, both):
    results = evaluate.compare(
        people,
        both,
        [tt.Budget(epsilon=1)],
        neighboring="change_one",
        runs=1,
        metrics={"rows": lambda level: level.released.num_rows, "nodes": lambda level: level.n_nodes},
    )
    assert results["value"].to_pylist() == [1, 1, 2, 2, 4, 4] * 2


@pytest.mark.slow
def test_a_summary_is_that_of_pandas(people, both):
    results = evaluate.compare(
        people, both, [tt.Budget(epsilon=0.1), tt.Budget(rho=0.1)], neighboring="add_remove", runs=5
    )
    summary = evaluate.summary(results)
    frame = results.to_pandas()
    keys = ["data", "mechanism", "epsilon", "delta", "rho", "neighboring", "accounting", "level", "depth", "metric"]
    expected = frame.groupby(keys, dropna=False, sort=False)["value"].agg(["count", "mean", "std", "min", "max"])
    assert summary.column_names == [*keys, "runs", "mean", "sd", "min", "max", "seconds", "true_number", "noise"]
    found = summary.to_pandas()
    assert (found["runs"] == 5).all()
    for ours, theirs in (("mean", "mean"), ("sd", "std"), ("min", "min"), ("max", "max")):
        np.testing.assert_allclose(found[ours], expected[theirs], rtol=1e-12, atol=1e-12)
    pd.testing.assert_frame_equal(found[keys], expected.reset_index()[keys], check_dtype=False)


def test_the_spread_of_one_run_is_unknown(people, both):
    one = evaluate.compare(people, both, [tt.Budget(epsilon=1)], neighboring="add_remove", runs=1)
    assert evaluate.summary(one)["sd"].null_count == evaluate.summary(one).num_rows


def test_what_a_release_raises_says_which_it_was(people):
    with pytest.raises(ValueError, match="accounting") as raised:
        evaluate.compare(
            people,
            {"top down": tt.counts.TopDown()},
            [tt.Budget(epsilon=1, delta=1e-6)],
            neighboring="add_remove",
            accounting="exact",
        )
    assert raised.value.__notes__ == [
        "compare: data 'people', mechanism 'top down', Budget(epsilon=1.0, delta=1e-06), run 0"
    ]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"data": []}, ValueError, "data: nothing is given to compare"),
        ({"mechanisms": {}}, ValueError, "mechanisms: nothing is given"),
        ({"mechanisms": [None]}, TypeError, "mechanisms: list has no names; give a dictionary"),
        ({"metrics": [max]}, TypeError, "metrics: list has no names"),
        ({"budgets": []}, ValueError, "budgets: nothing is given"),
        ({"data": ("people", None)}, TypeError, r"data: str must be a tallytree\.evaluate\.Data"),
        ({"data": evaluate.Data("p", None, PEOPLE.to_pandas())}, TypeError, "truth of 'p' is a DataFrame and must be"),
        ({"budgets": [1.0]}, TypeError, r"budgets: 1\.0 must be a tallytree\.Budget, for instance Budget\(epsilon=1\)"),
        ({"metrics": {"m": "max"}}, TypeError, "metrics: str must be a function of a LevelResult"),
        ({"levels": "all"}, TypeError, r"levels: str must be a list of levels' names, for instance \['all'\]"),
        ({"runs": 0}, ValueError, "runs: 0 must be at least 1"),
        ({"runs": 2.5}, TypeError, r"runs: 2\.5 must be an integer"),
        ({"levels": ["city"]}, ValueError, "levels: 'city' is not a level of 'people'; its levels are all, state, cou"),
    ],
)
def test_bad_arguments_are_refused(people, both, change, error, message):
    arguments = {
        "data": people,
        "mechanisms": both,
        "budgets": [tt.Budget(epsilon=1)],
        "neighboring": "add_remove",
    } | change
    with pytest.raises(error, match=message):
        evaluate.compare(**arguments)


def test_two_data_sets_of_one_name_and_a_truth_without_a_path_are_refused(people, both, areas):
    budgets = [tt.Budget(epsilon=1)]
    with pytest.raises(ValueError, match="data: 'people' is the name of two data sets"):
        evaluate.compare([people, people], both, budgets, neighboring="add_remove")
    blind = evaluate.Data("blind", people.release, PEOPLE.select(["state"]))
    with pytest.raises(ValueError, match="data: true of 'blind' has no column 'county', which the release has"):
        evaluate.compare(blind, both, budgets, neighboring="add_remove")
    with pytest.raises(ValueError, match="results: column 'data' is missing"):
        evaluate.summary(PEOPLE)


def test_one_budget_needs_no_list(people, both):
    found = evaluate.compare(people, both, tt.Budget(epsilon=1), neighboring="add_remove", runs=1)
    assert set(found["epsilon"].to_pylist()) == {1.0}


def test_nothing_of_the_data_is_in_a_repr(people):
    assert repr(people) == "Data('people')"
    assert repr(evaluate.LevelResult(PEOPLE, PEOPLE, 4)) == "LevelResult(4 nodes)"
