"""Differences between two numbers of one release, whose errors depend on each other."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers import dense_trees as small
from helpers import releases


@pytest.fixture(scope="module")
def made():
    return small.release(1)


@pytest.mark.parametrize(
    ("first", "second", "weights"),
    [
        ("v", "w", [1, -1, 0, 0, 0]),
        ({"state": "A", "county": "x"}, {"county": "y"}, [0, 0, 1, -1, 0]),
        ("A", "B", [1, 1, 1, -1, -1]),
        ("A", "z", [1, 1, 1, 0, -1]),
    ],
)
def test_the_variance_has_the_covariance(made, first, second, weights):
    (row,) = made.difference(first, second).to_pylist()
    weights = np.array(weights)
    counts = made.table("county")["count"].to_numpy()
    assert row["difference"] == weights @ counts
    dense = np.sqrt(weights @ small.covariance(made) @ weights)
    assert row["std_dev"] == pytest.approx(dense)
    if (first, second) == ("v", "w"):  # siblings: more than independent errors
        assert dense > np.hypot(*made.table("county")["std_dev"].to_numpy()[:2])
    assert row["ci_lower"] <= row["difference"] <= row["ci_upper"]
    assert row["verdict"] == ("more" if row["ci_lower"] > 0 else "fewer" if row["ci_upper"] < 0 else row["verdict"])


def test_differences_in_tables(areas):
    release = releases.tables(areas, seed=1)
    (row,) = release.difference({"state": "A", "sex": "f"}, {"state": "B", "sex": "f"}).to_pylist()
    totals = release.total(by="state", where={"sex": "f"}).to_pylist()
    assert row["difference"] == totals[0]["count"] - totals[1]["count"]
    (row,) = release.difference({"sex": "f"}, {"sex": "m"}).to_pylist()
    totals = [release.total(where={"sex": sex}).to_pylist()[0] for sex in "fm"]
    assert row["difference"] == totals[0]["count"] - totals[1]["count"]
    both = release.total().to_pylist()[0]  # Var(f − m) = 2·Var(f) + 2·Var(m) − Var(f + m)
    variances = [2 * each["std_dev"] ** 2 for each in totals]
    assert row["std_dev"] == pytest.approx(np.sqrt(sum(variances) - both["std_dev"] ** 2), rel=0.1)


def test_differences_from_replicates_and_of_leaves():
    top = small.release(1, mechanism=tt.counts.TopDown())
    (row,) = top.difference("v", "w", replicates=20, seed=1).to_pylist()
    assert row["std_dev"] > 0
    with pytest.warns(UserWarning, match="LeafGaussian"):
        leaves = small.release(1, mechanism=tt.counts.LeafGaussian(), budget=tt.Budget(rho=0.01))
    (row,) = leaves.difference("A", "z").to_pylist()
    noise = leaves.statement["levels"][-1]["noise"]["std_dev"]
    assert row["std_dev"] == pytest.approx(noise * 2)


def test_weighted_totals_have_the_error_of_the_sum(made, tmp_path):
    file = tmp_path / "parts.csv"
    file.write_text("state,county,district,part\nA,v,p,1\nA,w,p,0.4\nA,w,q,0.6\nB,,q,0.5\n")
    rows = made.total(file, by="district", weight="part").to_pylist()
    counts = made.table("county")["count"].to_numpy()
    for row, weights in zip(rows, ([1, 0.4, 0, 0, 0], [0, 0.6, 0, 0.5, 0.5]), strict=True):
        assert row["count"] == pytest.approx(weights @ counts)
        assert row["std_dev"] == pytest.approx(np.sqrt(weights @ small.covariance(made) @ np.array(weights)))
        assert row["ci_upper"] - row["ci_lower"] == pytest.approx(2 * 1.6449 * row["std_dev"], rel=0.1)


def test_weighted_totals_of_tables_are_sums_of_their_areas(areas):
    release = releases.tables(areas, seed=1)
    parts = pa.table({"state": ["A", "A"], "county": ["x", "y"], "part": [0.5, 0.5]})
    (half,) = release.total(parts, weight="part", where={"sex": "f"}).to_pylist()
    (whole,) = release.total(parts.drop_columns("part"), where={"sex": "f"}).to_pylist()
    assert half["count"] == whole["count"] / 2
    assert half["std_dev"] == pytest.approx(whole["std_dev"] / 2)


def test_what_cannot_be_is_refused(made, areas):
    parts = pa.table({"county": ["v", "v"], "state": ["A", "A"], "part": [1.0, -1.0]})
    tables, flows = releases.tables(areas, seed=1), releases.flows(areas, seed=1)
    for call, message in (
        (lambda: made.difference("v", "v"), r"second: it is the same as first"),
        (lambda: made.difference("v", "A"), r"second: one of the two areas lies in the other"),
        (lambda: made.difference("u", "v"), r"first: 'u' is no label of state, county"),
        (lambda: made.difference({"county": "u"}, "v"), r"first: 'u' is no county of the release"),
        (lambda: made.difference("v", {"sex": "f"}), r"second: 'sex' is none of the columns state, county"),
        (lambda: made.difference("v", 3), r"second: 3 must be a label, or labels by columns"),
        (lambda: tables.difference("x", "y"), r"first: 'x' names several areas; give its path, {'state': …, 'county'"),
        (
            lambda: tables.difference({"state": "A", "sex": "f"}, {"state": "B", "sex": "m"}),
            r"second: it differs from first by its area and by its attributes",
        ),
        (lambda: tables.difference({"sex": "f"}, {"sex": "u"}), r"second: 'u' is no label of 'sex'"),
        (lambda: tables.difference({"sex": "f"}, {"sex": "m"}, replicates=20), r"replicates: 20, but differences in "),
        (lambda: flows.difference("A", "B"), r"release: differences are of counts and tables"),
        (lambda: releases.group_sizes(areas, seed=1).difference("A", "B"), r"release: its statistic is 'group_sizes'"),
        (lambda: made.total(parts, weight="part"), r"areas: row 2 has part=-1.0, which must be a number of 0 or more"),
        (lambda: made.total(parts, weight="share"), r"areas: .*share"),
        (lambda: made.total(parts.slice(0, 1), weight=3), r"weight: int must be the name of a column"),
        (lambda: tables.total(weight="part"), r"weight: 'part' must be a column of areas; give a table of areas that"),
        (
            lambda: releases.group_sizes(areas, seed=1).total(pa.table({"state": ["A"], "w": [1]}), weight="w"),
            r"weight: 'w', but a group has one size and cannot be divided",
        ),
        (
            lambda: made.total(parts.set_column(2, "part", pa.array([1.0, 1.0])), weight="part"),
            r"areas: state='A', county='v' is listed twice",
        ),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^{message}"):
            call()


@pytest.mark.slow
def test_90_percent_of_intervals_hold_the_true_difference():
    """300 releases, three pairs of siblings each: the standard error of 90 % is 1 to 2 points."""
    covered = []
    for seed in range(300):
        made = small.release(seed)
        for first, second in (("v", "w"), ("w", "x"), ("y", "z")):
            (row,) = made.difference(first, second).to_pylist()
            true = dict(zip("vwxyz", small.COUNTS.tolist(), strict=True))
            covered.append(row["ci_lower"] <= true[first] - true[second] <= row["ci_upper"])
    assert 0.87 < np.mean(covered) < 0.94


def test_what_a_sparsity_left_out_has_no_known_error(areas):
    """Replicates of numbers that were raised from 0, or left at 0, do not show how far these are off."""
    release = small.release(1, mechanism=tt.counts.LeastSquares(sparsity=3.0))
    with pytest.raises(ValueError, match="release: what its sparsity left out"):
        release.difference("v", "w")
    weights = pa.table({"state": ["A"], "county": ["v"], "part": [0.5]})
    with pytest.raises(ValueError, match="release: what its sparsity left out"):
        release.total(weights, weight="part")
