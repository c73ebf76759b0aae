"""Typical errors of counts: of the published number, learned from the noisy numbers of its level."""

import numpy as np
import pandas as pd
import pytest

import tallytree as tt
from tallytree.counts.released_counts import ReleasedCounts, typical_error


def country(parts, towns):
    names = [(f"p{i}", f"t{i}-{k}") for i in range(parts) for k in range(towns)]
    return tt.Hierarchy.from_table(pd.DataFrame(names, columns=["part", "town"]), levels=["part", "town"])


@pytest.fixture(scope="module")
def small_towns():
    """Eight releases of 1,200 towns of about 12 people by noise of about 17, with the true numbers."""
    tree = country(30, 40)
    people = pd.DataFrame(
        [(part, f"t{part[1:]}-{k}") for part in [f"p{i}" for i in range(30)] for k in range(40)],
        columns=["part", "town"],
    )
    people["n"] = np.random.default_rng(1).poisson(12, len(people))
    return people, tree, [
        tt.release_counts(people, tree, tt.Budget(epsilon=0.5, delta=1e-8), neighboring="add_remove", count="n",
                          seed=seed)
        for seed in range(8)
    ]  # fmt: skip


def beside_truth(data, release, level, columns):
    shown = release.table(level, alpha=0.1, unbiased=True).to_pandas()
    true = data.groupby(columns, sort=False)["n"].sum().rename("true").reset_index()
    return shown.merge(true, on=columns)


def test_the_typical_error_is_the_root_mean_square_error_of_the_published_number(small_towns):
    """9,600 numbers: the standard error of the root mean square is below 1.5 % of it. `std_dev` is 14 % larger."""
    data, _, releases = small_towns
    rows = pd.concat([beside_truth(data, release, "town", ["part", "town"]) for release in releases])
    found = np.sqrt(((rows["count"] - rows["true"]) ** 2).mean())
    assert np.sqrt((rows["typical_error"] ** 2).mean()) / found == pytest.approx(1, abs=0.1)
    assert np.sqrt((rows["std_dev"] ** 2).mean()) > 1.1 * found


def test_intervals_hold_by_what_a_reader_sees(small_towns):
    """By published number and by width; without typical errors they held for 50 % or less of some."""
    data, _, releases = small_towns
    rows = pd.concat([beside_truth(data, release, "town", ["part", "town"]) for release in releases])
    held = (rows["ci_lower"] <= rows["true"]) & (rows["true"] <= rows["ci_upper"])
    around_unbiased = np.maximum(np.rint(rows["unbiased"]) + 1.645 * rows["std_dev"], rows["count"])
    width = pd.qcut(rows["ci_upper"], 10, duplicates="drop")
    for seen in (pd.cut(rows["count"], [-1, 0, 5, 20, 50, 200]), width, rows["quality"].astype(str)):
        of = held.groupby(seen, observed=True).agg(["mean", "size"])
        assert of[of["size"] >= 300]["mean"].min() >= 0.87
    assert (rows["true"] <= around_unbiased)[rows["unbiased"] < -1.645 * rows["std_dev"]].mean() < 0.7


def test_each_number_of_a_level_has_one_and_its_verdict_follows_from_it(small_towns):
    _, tree, releases = small_towns
    for level in tree.levels:
        rows = releases[0].to_pandas(level)
        assert rows["typical_error"].between(0, np.inf, inclusive="left").all()
        kept = rows["quality"].isin(["reliable", "with_care"])
        assert (rows["typical_error"] <= 0.333 * rows["count"])[kept].all()
    assert releases[0].to_pandas("all")["typical_error"].item() == releases[0].to_pandas("all")["std_dev"].item()


def test_a_count_that_nothing_explains_errs_by_no_less_than_its_noise():
    """One town has 900 people where the others have about 12; and one estimate is far from its count."""
    tree = country(2, 100)
    rng = np.random.default_rng(2)
    true = rng.poisson(12, 200)
    true[7] = 900
    z = true + rng.normal(0, 20, 200)
    counts = np.maximum(np.rint(z), 0).astype(int)
    counts[9] = counts[9] + 200
    nodes = [np.arange(tree.size(depth)) for depth in range(3)]
    parts = np.add.reduceat(counts, [0, 100])
    levels = [
        ReleasedCounts(nodes[0], np.array([parts.sum()]), np.array([10.0]), unbiased=np.array([float(parts.sum())])),
        ReleasedCounts(nodes[1], parts, np.full(2, 10.0), unbiased=parts.astype(float)),
        ReleasedCounts(nodes[2], counts, np.full(200, 20.0), unbiased=z),
    ]
    above, found = None, None
    for depth, level in enumerate(levels):
        found = typical_error(tree, depth, level, above)
        above = ReleasedCounts(level.nodes, level.counts, level.std_dev, None, None, level.unbiased, found)
    assert found[7] >= 20
    assert found[9] >= abs(counts[9] - z[9]) - 40 > 100
    assert np.median(found) < 15


def test_exact_counts_have_no_error():
    tree = country(2, 60)
    z = np.arange(120.0)
    root = ReleasedCounts(np.zeros(1, int), np.array([z.sum()]), np.zeros(1), unbiased=np.array([z.sum()]))
    assert typical_error(tree, 0, root, None).tolist() == [0.0]
    root = ReleasedCounts(root.nodes, root.counts, root.std_dev, None, None, root.unbiased, np.zeros(1))
    parts = ReleasedCounts(np.arange(2), np.add.reduceat(z, [0, 60]), np.zeros(2), unbiased=np.add.reduceat(z, [0, 60]))
    assert typical_error(tree, 1, parts, root).tolist() == [0.0, 0.0]
