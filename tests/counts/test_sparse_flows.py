"""Flows whose cells are mostly 0: what the default drops, and what it states of the cells that it lists."""

import math

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.datasets import boninsegna
from tallytree.release.remainders import unlisted_sentence

MODES = {"zero": {}, "remainder": {"unlisted": "remainder"}}


@pytest.fixture(scope="module")
def sparse():
    """The paper's sparse pairs of random trees: 8 levels below the root, 0.9 % of 190,000 pairs are not 0."""
    return boninsegna.od_flows("random", "sparse")


def released(data, epsilon=1.0, **options):
    areas = tt.Hierarchy.from_table(data.areas, levels=data.levels)
    sides = {side: [f"{side}_{level}" for level in data.levels] for side in ("origin", "destination")}
    budget = {"delta": 1e-8} | options.pop("budget", {})
    return tt.release_flows(
        data.flows, origins=areas, destinations=areas, **sides, budget=tt.Budget(epsilon=epsilon, **budget),
        neighboring="add_remove", count="count", **{"seed": 1, **options},
    )  # fmt: skip


def beside_truth(release, level, data, **options):
    """The rows of a level that name a cell, with the true number of each."""
    rows = release.table(level, **options).to_pandas()
    flows = data.flows.to_pandas()
    paths = [column for column in rows.columns if column in flows.columns and column != "count"]
    rows = rows.dropna(subset=paths)
    if not paths:
        return rows.assign(true=flows["count"].sum())
    true = flows.groupby(paths)["count"].sum().rename("true").reset_index()
    return rows.merge(true, on=paths, how="left").fillna({"true": 0})


def error(release, level, data):
    """Σ|published − true| of a level; what is not listed is published as 0."""
    rows = beside_truth(release, level, data)
    return (rows["count"] - rows["true"]).abs().sum() + data.flows.to_pandas()["count"].sum() - rows["true"].sum()


def test_the_default_says_what_it_found_and_shows_errors_of_listed_cells(sparse, tmp_path):
    release = released(sparse)
    leaf = release.levels[-1]
    assert release.statement["mechanism"]["options"]["sparsity"] == "auto"
    told = release.statement["sparsity"]
    assert told["applied"]
    assert told["unlisted_below"] in (1, 2)
    assert 0 < told["in_dropped"] < 1.25 * told["counted_there"]
    columns = release.table(leaf).column_names
    assert columns[-4:] == ["count", "std_dev", "probability_zero", "quality"]
    shown = release.table(leaf, alpha=0.1, unbiased=True).to_pandas()
    assert {"unbiased", "listed_from", "ci_lower", "ci_upper"} <= set(shown.columns)
    assert (shown["ci_lower"] <= shown["count"]).all()
    assert (shown["count"] <= shown["ci_upper"]).all()
    assert shown["probability_zero"].between(0, 1).all()
    chosen = shown.dropna(subset=["listed_from"])
    assert len(chosen) > 50
    assert (chosen["unbiased"] >= chosen["listed_from"]).all()
    loaded = tt.Release.load(release.save(tmp_path / "out", csv=True))
    assert loaded.table(leaf, alpha=0.2).equals(release.table(leaf, alpha=0.2))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pure", [False, True])
def test_intervals_of_listed_cells_hold_and_naive_ones_do_not(sparse, mode, pure):
    """Three releases; about 2,000 listed leaves, so the share has a standard error of 0.7 points."""
    held, naive, zeros = [], [], []
    for seed in range(3):
        release = released(sparse, seed=seed, budget={"delta": None} if pure else {}, **MODES[mode])
        rows = beside_truth(release, release.levels[-1], sparse, alpha=0.1, unbiased=True)
        held.append((rows["ci_lower"] <= rows["true"]) & (rows["true"] <= rows["ci_upper"]))
        chosen = rows.dropna(subset=["listed_from"])
        naive.append((chosen["unbiased"] - chosen["true"]).abs() <= 1.645 * chosen["std_dev"])
        zeros.append(rows["true"] == 0)
    held, naive, zeros = (np.concatenate(each) for each in (held, naive, zeros))
    assert 0.88 <= held.mean() <= 0.97  # an interval also holds 0 where the number may well be 0
    assert held[zeros].mean() >= 0.85
    assert naive.mean() < 0.86


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_of_the_cells_with_a_chance_of_being_0_so_many_are(sparse, mode):
    chance, zero = [], []
    for seed in range(6):
        release = released(sparse, seed=seed, **MODES[mode])
        rows = beside_truth(release, release.levels[-1], sparse)
        chance.append(rows["probability_zero"])
        zero.append(rows["true"] == 0)
    chance, zero = np.concatenate(chance), np.concatenate(zero)
    for low, high in ((0, 0.05), (0.05, 0.2), (0.2, 0.5)):
        here = (chance >= low) & (chance < high)
        assert here.sum() > 100
        assert low - 0.04 <= zero[here].mean() <= high + 0.04


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_no_level_is_worse_for_it_and_leaves_are_better(sparse, epsilon):
    """The mean of four releases, beside those of all nodes on other noise of the same size: 1.05 and sampling error."""
    levels = released(sparse).levels[1:]
    ours, whole = (
        np.mean(
            [
                [error(found, level, sparse) for level in levels]
                for found in (released(sparse, epsilon, seed=seed, **option) for seed in range(4))
            ],
            axis=0,
        )
        for option in ({}, {"mechanism": tt.counts.LeastSquares()})
    )
    assert (ours[2:] <= 1.12 * whole[2:]).all()
    if epsilon >= 1:
        assert ours[-1] < 0.85 * whole[-1]


def test_nothing_is_dropped_where_too_many_records_would_be_in_dropped_cells(sparse):
    """At ε = 0.1 nine tenths of the records are in cells that noise hides."""
    release = released(sparse, 0.1)
    statement = release.statement
    told = statement["sparsity"]
    assert not told["applied"]
    assert told["in_dropped"] > 0.7
    assert told["in_dropped"] > 1.5 * told["counted_there"]
    share = math.ceil(100 * told["unlisted_at_most"])
    said = unlisted_sentence(statement)
    assert f"There at most {share} % of all records are in cells without a row, nine times in ten, and are" in said
    listed = beside_truth(release, release.levels[-1], sparse)["true"].sum()
    assert 0.7 < 1 - listed / sparse.flows.to_pandas()["count"].sum() < share / 100 < 0.95
    assert "nine in ten of those at the finest level are" in said


def test_in_parts_the_fit_is_that_of_all_cells(sparse):
    release = released(sparse, memory="600MB")
    assert release.statement["mechanism"]["options"]["sparsity"] == 0.0


@pytest.mark.parametrize(
    ("mechanism", "budget", "seed", "trips"),
    [
        ("zero", tt.Budget(epsilon=0.05), 9, 1),
        ("zero", tt.Budget(rho=1.0), 27, 1),
        ("zero", tt.Budget(rho=1.0), 33, 0),
        ("auto", tt.Budget(epsilon=0.05), 53, 0),
        ("auto", tt.Budget(epsilon=0.05), 106, 3),
        ("auto", tt.Budget(rho=0.0005), 41, 1),
    ],
)
def test_a_total_that_is_measured_above_0_and_fitted_to_0_is_released(mechanism, budget, seed, trips):
    areas = {"state": ["s0", "s1", "s1"], "town": ["t0", "t1", "t2"]}
    tree = tt.Hierarchy.from_table(pa.table(areas), levels=["state", "town"])
    columns = {"so": "s0", "o": "t0", "sd": "s1", "d": "t1"}
    table = pa.table({name: pa.array([value] * trips, pa.string()) for name, value in columns.items()})
    options = {"mechanism": tt.counts.LeastSquares()} if mechanism == "zero" else {}
    release = tt.release_flows(
        table, origins=tree, destinations=tree, origin=["so", "o"], destination=["sd", "d"], budget=budget,
        neighboring="add_remove", seed=seed, **options,
    )  # fmt: skip
    assert {level: release.table(level).num_rows for level in release.levels} == dict.fromkeys(release.levels, 0)
    assert release.statement["constraint_violations"] == release.statement["negative_numbers"] == 0
