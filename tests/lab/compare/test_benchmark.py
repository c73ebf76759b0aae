"""Benchmarks: more measures of error, by the size of the true number, with shared noise, differences, a picture."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallytree as tt
from helpers.foreign import UniformBelow
from tallytree import evaluate
from tallytree.lab.compare import count_errors
from tallytree.lab.compare.shared_noise import shared_noise

AREAS = tt.Hierarchy.from_table(
    pa.table({"state": [f"{i // 4}" for i in range(40)], "county": [f"{i}" for i in range(40)]}), ["state", "county"]
)
TRUE = pa.table({"state": AREAS.leaf_table()["state"], "county": AREAS.leaf_table()["county"], "count": [
    0 if i % 5 == 0 else 3 ** (i % 9) for i in range(40)]})  # fmt: skip
RELEASE = partial(tt.release_counts, TRUE, AREAS, count="count")
DATA = evaluate.Data("made up", RELEASE, TRUE)
MECHANISMS = {"top down": tt.counts.TopDown(), "euclidean": tt.counts.TopDown("euclidean"), "uniform": UniformBelow()}
compare = partial(evaluate.compare, DATA, neighboring="change_one", metrics=evaluate.BENCHMARK_METRICS)

COUNTS = st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 50)), min_size=1, max_size=12)


@given(COUNTS, st.integers(1, 4))
def test_measures_of_error_are_what_their_names_say(pairs, k):
    released, true = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    n = len(pairs)
    assert count_errors.root_mean_square(released, true, n) == pytest.approx(
        (sum((r - t) ** 2 for r, t in pairs) / n) ** 0.5
    )
    assert count_errors.mean_deviation(released, true, n) == pytest.approx(sum(r - t for r, t in pairs) / n)
    relative = [abs(r - t) / t for r, t in pairs if t > 0]
    assert count_errors.relative_error(released, true) == pytest.approx(
        sum(relative) / len(relative) if relative else 0
    )
    top = min(k, len(relative))
    ranked = [sorted(range(n), key=lambda i: (-side[i], i))[:top] for side in (released, true)]
    expected = len(set(ranked[0]) & set(ranked[1])) / top if top else 1
    assert count_errors.top_overlap(released, true, k) == pytest.approx(expected)


def test_parts_by_the_true_number_add_up_to_the_whole():
    results = compare({"least squares": tt.counts.LeastSquares()}, tt.Budget(epsilon=1), runs=2, by_size=True)
    counties = results.filter(pc.field("level") == "county").to_pylist()
    value = {(row["metric"], row["true_number"], row["run"]): row["value"] for row in counties}
    true = np.array(TRUE["count"].to_pylist())
    ends = {
        "0": (0, 0),
        "1 to 9": (1, 9),
        "10 to 99": (10, 99),
        "100 to 999": (100, 999),
        "1,000 to 9,999": (1000, 9999),
    }
    sizes = {name: int(((true >= least) & (true <= most)).sum()) for name, (least, most) in ends.items()}
    assert (sum(sizes.values()), min(sizes.values()) > 0) == (40, True)
    assert {row["true_number"] for row in counties} == {"all", *sizes}
    for run in (0, 1):
        for metric in ("mean_absolute_error", "bias"):
            whole = sum(value[metric, name, run] * nodes for name, nodes in sizes.items()) / 40
            assert whole == pytest.approx(value[metric, "all", run])
        assert 0.5 < value["coverage", "all", run] <= 1
    assert b"NOT PRIVATE" in results.schema.metadata[b"privacy"]


@pytest.mark.slow
def test_paired_mechanisms_get_the_same_noise_and_need_fewer_runs():
    own, shared = (compare(MECHANISMS, tt.Budget(epsilon=0.3), runs=6, paired=paired) for paired in (False, True))
    assert (set(own["noise"].to_pylist()), set(shared["noise"].to_pylist())) == ({"own"}, {"shared"})
    found = [
        evaluate.differences(table, "top down").filter(
            (pc.field("level") == "county") & (pc.field("metric") == "rmse") & (pc.field("mechanism") == "euclidean")
        )
        for table in (own, shared)
    ]
    assert found[0].column_names[-5:] == ["mechanism", "runs", "difference", "std_error", "fewer_runs"]
    assert found[1]["std_error"][0].as_py() < found[0]["std_error"][0].as_py()
    assert found[1]["fewer_runs"][0].as_py() > 2
    assert b"NOT PRIVATE" in evaluate.differences(shared, "top down").schema.metadata[b"privacy"]


def test_shared_noise_is_that_of_the_seed_and_of_no_other_release():
    def measured(seed, mechanism=None):
        made = RELEASE(tt.Budget(epsilon=1), neighboring="change_one", seed=seed, mechanism=mechanism)
        return made.measurements("county")["value"].to_pylist()

    with shared_noise(1):
        first, second = measured(1), measured(1, tt.counts.TopDown())
        others = [measured(None), measured(None), measured(2)]
    assert first == second
    assert measured(1) != first
    assert measured(2) == others[2]
    assert len({tuple(each) for each in (first, *others)}) == 4


def test_a_picture_has_a_panel_for_each_budget():
    results = compare(MECHANISMS, [tt.Budget(epsilon=1), tt.Budget(rho=0.5)], runs=2)
    drawn = evaluate.plot(results, "rmse").to_dict()
    assert drawn["facet"]["field"] == "panel"
    assert "rmse by level, for top down, euclidean, uniform" in str(drawn)


def test_what_cannot_be_compared_is_refused():
    results = compare({"top down": tt.counts.TopDown()}, tt.Budget(epsilon=1), runs=1)
    with pytest.raises(ValueError, match=r"^baseline: 'nobody' .*they have top down$"):
        evaluate.differences(results, "nobody")
    both = compare({"top down": tt.counts.TopDown(), "x": tt.counts.TopDown()}, tt.Budget(epsilon=1), runs=1)
    with pytest.raises(ValueError, match=r"^results: two runs or more are needed"):
        evaluate.differences(both, "top down")
    with pytest.raises(ValueError, match=r"^metric: 'nothing' is not in the results; they have bias, coverage"):
        evaluate.plot(results, "nothing")
    homes = TRUE.append_column("size", pa.array([1] * 40)).append_column("groups", pa.array([1] * 40)).drop(["count"])
    sizes = partial(tt.release_group_sizes, homes, AREAS, size="size", groups="groups", max_group_size=4)
    data = evaluate.Data("homes", sizes, homes)
    with pytest.raises(ValueError, match=r"^by_size: 'homes' .*about counts; leave it out$"):
        evaluate.compare(data, {"a": None}, tt.Budget(epsilon=1), neighboring="change_one", runs=1, by_size=True)
