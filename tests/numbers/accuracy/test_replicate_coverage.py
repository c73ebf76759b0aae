"""Errors from replicates are those of the release, and intervals cover what they say."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt

# --- What the figures are ---


def test_the_standard_deviation_is_that_of_the_projection():
    """n towns with large counts and a public total: noise less its mean has σ·√(1 − 1/n).

    The mean of n squares over R replicates is off by √(2/(nR)) = 0.9 % of itself, so 5 % is beyond five deviations, and
    a noise that is wrong by 10 % is seen.
    """
    n, rounds = 12, 2_000
    towns = tt.Hierarchy.from_table(pa.table({"town": [str(i) for i in range(n)]}), ["town"])
    records = pa.table({"town": [str(i) for i in range(n)], "records": [10_000] * n})
    release = tt.release_counts(
        records,
        towns,
        tt.Budget(rho=0.01),
        neighboring="change_one",
        count="records",
        mechanism=tt.counts.TopDown("euclidean"),
    )
    noise = release.statement["levels"][1]["noise"]["std_dev"]
    found = tt.replicate_errors(release, rounds, seed=1).table("town")["std_dev"].to_numpy()
    expected = noise * math.sqrt(1 - 1 / n)
    assert np.sqrt(np.mean(found**2)) == pytest.approx(expected, rel=0.05)
    assert np.abs(found / expected - 1).max() < 0.1


@pytest.mark.slow
def test_a_ninety_percent_interval_covers_about_ninety_percent(tree, records):
    """40 releases of 20 counties, some with few records: 800 intervals, of which about 90 % are to cover.

    Their share has a standard deviation of at most 1.1 % (errors within a family are negatively correlated), so
    85 … 97 % is missed by chance less than once in 10,000; intervals that are 30 % too narrow cover 75 % and fail.
    """
    truth = records["records"].to_numpy()
    inside, narrow = [], []
    for seed in range(40):
        release = tt.release_counts(
            records, tree, tt.Budget(epsilon=0.5), neighboring="change_one", count="records", seed=seed
        )
        table = tt.replicate_errors(release, 30, seed=1_000 + seed).table("county")
        count, lower, upper = (table[name].to_numpy() for name in ("count", "ci_lower", "ci_upper"))
        inside.append((lower <= truth) & (truth <= upper))
        narrow.append((count - 0.7 * (count - lower) <= truth) & (truth <= count + 0.7 * (upper - count)))
    assert 0.85 < np.mean(inside) < 0.97
    assert np.mean(narrow) < 0.85


@pytest.mark.slow
@pytest.mark.shared_data
def test_sparse_flows_of_a_full_size_have_errors_within_the_noise(shared_data):
    """No number errs by more than the noise of all levels above it, and ends contain the number."""
    areas = pq.read_table(shared_data / "od_random_areas.parquet")
    tree = tt.Hierarchy.from_table(areas, areas.column_names)
    trips = pq.read_table(shared_data / "od_random_sparse.parquet")
    names = trips.column_names
    sides = {side: [name for name in names if name.startswith(side[0])] for side in ("origin", "destination")}
    (count,) = {*names} - {*sides["origin"], *sides["destination"]}
    release = tt.release_flows(
        trips,
        origins=tree,
        destinations=tree,
        count=count,
        budget=tt.Budget(epsilon=1, delta=1e-8),
        neighboring="change_one",
        **sides,
    )
    made = tt.replicate_errors(release, 10)
    noise = release.statement["levels"][1]["noise"]["std_dev"]
    for depth, level in enumerate(made.levels):
        table = made.table(level)
        std_dev, lower, upper = (table[name].to_numpy() for name in ("std_dev", "ci_lower", "ci_upper"))
        assert ((lower <= table["count"].to_numpy()) & (table["count"].to_numpy() <= upper)).all()
        assert std_dev.max() <= 4 * noise * math.sqrt(depth)
        assert depth == 0 or np.sqrt(np.mean(std_dev**2)) > 0.3 * noise
