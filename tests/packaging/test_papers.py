"""Published figures, on the papers' own data sets where they lie beside the repository (seeded: they do not vary)."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.evaluate.metrics import earth_movers_distance, false_discovery_rate, max_absolute_error

pytestmark = pytest.mark.shared_data
SEEDS = range(5)


@pytest.mark.parametrize(
    ("data", "estimator", "norm", "published"),
    [
        ("taxi_2013_manhattan", "cumulative", 1, 2_819.8),
        ("taxi_2013_manhattan", "sorted", 2, 11_227.6),
        ("hawaiian_2010_blocks_nation", "cumulative", 1, 254.0),
    ],
)
def test_kuo_table_3_one_node(shared_data, data, estimator, norm, published):
    rows = pq.read_table(shared_data / f"{data}.parquet", columns=["size", "groups"])
    rows = rows.append_column("nation", pa.array(["N"] * rows.num_rows))
    nation = tt.Hierarchy.from_table(pa.table({"nation": ["N"]}), ["nation"])
    distances = [
        earth_movers_distance(
            tt.release_group_sizes(
                rows,
                nation,
                tt.Budget(epsilon=1),
                size="size",
                groups="groups",
                neighboring="add_remove",
                max_group_size=100_000,
                mechanism=tt.sizes.Matching(estimator=estimator, norm=norm),
                seed=seed,
            ).table("nation"),
            rows,
        ).mean()
        for seed in SEEDS
    ]
    assert np.mean(distances) == pytest.approx(published, rel=0.1)


def taxi_distances(shared_data, mechanism, **options):
    """Mean earth mover's distance per node of each level, root first: Manhattan, its halves, its neighbourhoods."""
    rows = pq.read_table(shared_data / "taxi_2013_manhattan.parquet")
    path = ["half", "neighbourhood"]
    areas = tt.Hierarchy.from_table(rows.group_by(path, use_threads=False).aggregate([]), path)
    distances = []
    for seed in SEEDS:
        release = tt.release_group_sizes(
            rows,
            areas,
            tt.Budget(epsilon=1),
            size="size",
            groups="groups",
            neighboring="add_remove",
            max_group_size=20_000,
            mechanism=mechanism,
            seed=seed,
            **options,
        )
        distances.append([earth_movers_distance(release.table(level), rows).mean() for level in release.levels])
    return np.mean(distances, axis=0)


@pytest.mark.slow
def test_the_prototypes_matching_on_three_levels_of_taxis(shared_data):
    rounded = tt.sizes.Matching(carry="rounded")  # as the paper has it
    assert taxi_distances(shared_data, rounded) == pytest.approx([10_000, 6_000, 2_350], rel=0.1)


@pytest.mark.slow
def test_bottom_up_is_at_the_published_error_of_the_leaves_and_below_it_above_them(shared_data):
    """Kuo's Table 4 has 20,731 / 10,405.5 / 772.8 at ε = 1, with a bias that adds up above the leaves; ours has none:
    10 runs of the prototype gave 7,812 / 4,324 / 757."""
    means = taxi_distances(shared_data, tt.sizes.BottomUp())
    assert means == pytest.approx([7_812, 4_324, 757], rel=0.03)
    assert means[2] == pytest.approx(772.8, rel=0.05)


@pytest.mark.slow
def test_the_joint_estimate_has_a_fifth_less_error_than_published_at_every_level(shared_data):
    """Measured: 5,689 / 3,450 / 1,631 with an even split, standard errors below 0.6 %; published in Table 4 (Matching):
    10,547 / 5,431.5 / 1,601.8."""
    assert (taxi_distances(shared_data, tt.sizes.Joint(), budget_split="even") < [6_250, 3_750, 1_750]).all()
    split = {"all": 0.25, "half": 0.25, "neighbourhood": 0.5}
    better = taxi_distances(shared_data, tt.sizes.Joint(), budget_split=split)
    assert (better < 0.8 * np.array([10_547, 5_431.5, 1_601.8])).all()


def sparse_flows(shared_data, mechanism, runs, published_as=None, **options):
    """Mean largest error and false discovery rate by level on random_sparse, and the published rows by level."""
    reference = Path(shared_data).parent / "reference" / "inftda_published.csv"
    name = ("random_sparse", published_as or type(mechanism).__name__, 1.0)
    with reference.open(encoding="utf-8") as file:
        rows = [
            row for row in csv.DictReader(file) if (row["dataset"], row["mechanism"], float(row["epsilon"])) == name
        ]
    areas = tt.Hierarchy.from_table(shared_data / "od_random_areas.parquet", [f"level{i}" for i in range(1, 5)])
    trips = pq.read_table(shared_data / "od_random_sparse.parquet")
    errors = []
    for seed in range(runs):
        release = tt.release_flows(
            trips,
            origins=areas,
            destinations=areas,
            origin=[f"origin_level{i}" for i in range(1, 5)],
            destination=[f"destination_level{i}" for i in range(1, 5)],
            count="count",
            budget=tt.Budget(epsilon=1, delta=1e-8),
            neighboring="change_one",
            mechanism=mechanism,
            seed=seed,
            **options,
        )
        tables = [release.table(level) for level in release.levels]
        errors.append([(max_absolute_error(each, trips), false_discovery_rate(each, trips)) for each in tables])
    return np.mean(errors, axis=0), {int(row["level"]): row for row in rows}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:mechanism. LeafGaussian")
def test_vanilla_gauss_with_the_papers_conversion_has_the_published_errors(shared_data):
    means, published = sparse_flows(shared_data, tt.counts.LeafGaussian(), 10, accounting="paper")
    ratios = [means[depth, 0] / float(published[depth]["max_abs_error_mean"]) for depth in range(4, 9)]
    assert np.mean(ratios) == pytest.approx(1, rel=0.1)
    assert 100 * means[8, 1] == pytest.approx(float(published[8]["false_discovery_pct"]), abs=0.5)


def test_the_stability_histogram_finds_nothing_false_and_loses_up_to_its_threshold(shared_data):
    means, published = sparse_flows(shared_data, tt.counts.StabilityHistogram(), 10)
    assert (means[:, 1] == 0).all()
    assert 37 <= means[8, 0] < 37 + 10 * 2  # the threshold, and noise of scale 2
    # More than was published, which is what a threshold of about 27 loses: see docs/explanation/stability.md.
    assert means[0, 0] > 1.3 * float(published[0]["max_abs_error_mean"])


@pytest.mark.slow
def test_inftda_at_the_full_budget_has_less_error_than_was_published_at_half_of_it(shared_data):
    means, published = sparse_flows(shared_data, tt.counts.TopDown(), 20, published_as="InfTDA", accounting="paper")
    assert means[0].tolist() == [0, 0]
    ratios = [means[depth, 0] / float(published[depth]["max_abs_error_mean"]) for depth in range(2, 9)]
    assert np.mean(ratios) == pytest.approx(np.sqrt(0.5), rel=0.1)
    assert 100 * means[8, 1] <= float(published[8]["false_discovery_pct"])
