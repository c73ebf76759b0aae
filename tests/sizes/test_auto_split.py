from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.cases import few
from tallytree.sizes.auto_split import (
    MIN_STEPS_OF_LEAVES,
    STEPS,
    ChosenSplit,
    auto_shares,
    errors_alone,
    expected_errors,
    noise_variances,
    public_facts,
)

TAXI = [np.array([360_872]), np.array([200_000, 160_872]), np.full(28, 12_888)]
"""About the numbers of groups of the papers' taxi data: a city, 2 halves, 28 neighborhoods."""


def of_tree(fan_outs, groups):
    """Numbers of groups per level, root first, of a tree with equal leaves."""
    nodes = np.cumprod([1, *fan_outs])
    return [np.full(n, groups * (nodes[-1] // n)) for n in nodes]


def loss(facts, share, std_devs, gaussian=False):
    errors = expected_errors(facts, noise_variances(std_devs, np.asarray(share, dtype=float), gaussian=gaussian))
    return float(np.log(errors).mean())


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 3.0, 40.0])
def test_the_variance_of_noise_is_that_of_integers(scale):
    at = np.arange(-4_000, 4_001)
    for gaussian, likely in ((False, np.exp(-abs(at) / scale)), (True, np.exp(-(at**2) / (2 * scale**2)))):
        expected = (likely * at**2).sum() / likely.sum()
        std_dev = np.array([scale if gaussian else np.sqrt(2) * scale])
        assert noise_variances(std_dev, np.ones(1), gaussian=gaussian) == pytest.approx(expected, rel=1e-4)


def test_a_share_is_of_epsilon_or_of_rho():
    std_dev, half = np.array([100.0]), np.array([0.5])
    assert noise_variances(std_dev, half, gaussian=True) == pytest.approx(20_000)
    assert noise_variances(std_dev, half, gaussian=False) == pytest.approx(40_000, rel=1e-4)


def test_the_error_of_one_node_with_one_size_by_hand():
    """One cell that counts h = 30 groups on average: no cells to average over, so v is the noise, and at most 30²."""
    facts = public_facts([np.array([100])], 1, [0.3])
    for noise, variance in ((4.0, 4.0), (10_000.0, 900.0)):
        found = expected_errors(facts, np.array([noise]))
        assert found[0, 0] == pytest.approx(variance / (1 + 1.25 * np.sqrt(variance)))


def test_of_two_levels_by_hand():
    """One size, h = 3,000 and 1,500 groups: the root has 1/(1/4 + 1/8), a child 4·(1 − 1/2) + (8/3)/2²."""
    facts = public_facts([np.array([10_000]), np.array([5_000, 5_000])], 1, [0.3])
    variances = np.array([8 / 3, 8 / 3])
    expected = variances / (1 + 1.25 * np.sqrt(variances))
    assert expected_errors(facts, np.array([4.0, 4.0]))[0] == pytest.approx(expected)
    assert errors_alone(facts, np.array([4.0, 4.0]))[0] == pytest.approx([4 / 3.5, 4 / 3.5])


def test_ranges_of_sizes_cover_every_size_once():
    for largest in (1, 2, 7, 8, 9, 10, 100, 20_000):
        sizes = public_facts([np.array([5])], largest, [0.25]).guesses[0]
        assert sizes.width.sum() == largest
        assert (sizes.density * sizes.width).sum() == pytest.approx(0.25)
        assert sizes.tail[0] == pytest.approx(0.25)
        assert (np.diff(sizes.middle) > 0).all()


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 6), min_size=0, max_size=3),
    st.integers(0, 10**6),
    st.sampled_from([1, 5, 300, 20_000]),
    st.floats(0.02, 1e5),
    st.booleans(),
)
@settings(max_examples=40)
def test_shares_are_positive_steps_that_add_up(fan_outs, groups, cells, scale, gaussian):
    levels = len(fan_outs) + 1
    facts = public_facts(of_tree(fan_outs, groups), cells)
    share = auto_shares(facts, np.full(levels, scale), gaussian=gaussian)
    assert len(share) == levels
    assert sum(share) == 1
    assert min(share) > 0
    assert all((each * STEPS * levels).denominator == 1 for each in share)
    assert share[-1] >= Fraction(MIN_STEPS_OF_LEAVES - 1, STEPS * levels)


@pytest.mark.slow
@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize(
    "groups", [TAXI, of_tree([52, 60], 3_548), of_tree([4, 5], 200)], ids=["taxi", "large", "small"]
)
def test_no_split_on_a_grid_has_a_lesser_expected_error(groups, epsilon, gaussian):
    facts, std_devs = public_facts(groups, 1_000), np.full(3, np.sqrt(2) / epsilon)
    found = loss(facts, auto_shares(facts, std_devs, gaussian=gaussian), std_devs, gaussian)
    cuts = np.array([0.005, 0.05, 0.2, 0.4, 0.6])
    splits = [(a, b, 1 - a - b) for a, b in product(cuts, cuts) if 1 - a - b >= 0.251]
    assert found <= min(loss(facts, split, std_devs, gaussian) for split in splits) + 0.02


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_where_few_leaves_add_up_nearly_everything_goes_to_the_leaves(epsilon):
    """Issue: on taxi at ε = 1, that has less than half the error at the leaves for 20 % more at the root."""
    share = auto_shares(public_facts(TAXI, 20_000), np.full(3, np.sqrt(2) / epsilon), gaussian=False)
    assert share[-1] > Fraction(98, 100)


def test_where_noise_hides_the_leaves_of_a_large_tree_the_levels_above_get_more():
    share = auto_shares(public_facts(of_tree([52, 60], 3_548), 1_000), np.full(3, 14.1), gaussian=False)
    assert share[0] > Fraction(1, 5)
    assert share[1] > Fraction(1, 5)


def test_the_reason_names_the_levels_and_what_they_lose():
    chosen = ChosenSplit({"city": Fraction(1, 4), "area": Fraction(3, 4)}, [2.34, 1.06])
    assert "2.3 ('city'), 1.1 ('area') times" in chosen.reason()


@pytest.fixture
def people():
    path = {"half": ["N"] * 2 + ["S"] * 3, "area": list("abcde")}
    areas = tt.Hierarchy.from_table(pa.table(path), levels=["half", "area"])
    rows = pa.table({"half": ["N", "N", "S"], "area": ["a", "a", "d"], "home": [1, 1, 2]})
    return rows, areas, pa.table({**path, "groups": [5, 5, 5, 5, 5]})


def shares_of(release):
    return {level["level"]: level["share"] for level in release.statement["levels"]}


def has_reason(release):
    return any("chosen from public facts" in note for note in release.statement["notes"])


@pytest.mark.parametrize("budget", few([tt.Budget(epsilon=1), tt.Budget(rho=0.1), tt.Budget(epsilon=1, delta=1e-6)], 1))
def test_a_release_takes_the_split_from_public_facts_alone(people, budget):
    rows, areas, public = people
    options = {"neighboring": "add_remove", "group": "home", "public_groups": public, "max_group_size": 8}
    release = tt.release_group_sizes(rows, areas, budget, **options)
    assert has_reason(release)
    shares = shares_of(release)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares == shares_of(tt.release_group_sizes(rows.slice(0, 0), areas, budget, **options))


def test_public_numbers_of_groups_count(people):
    rows, areas, public = people
    more = public.set_column(2, "groups", pa.array([10_000, 1, 900_000, 10_000, 1]))
    few, many = (
        shares_of(
            tt.release_group_sizes(
                rows, areas, tt.Budget(epsilon=0.01), neighboring="add_remove", group="home", public_groups=table,
                max_group_size=8,
            )
        )
        for table in (public, more)
    )  # fmt: skip
    assert few != many


def test_joint_has_it_by_default_and_the_papers_mechanisms_do_not(people):
    rows, areas, public = people
    options = {"neighboring": "add_remove", "group": "home", "public_groups": public, "max_group_size": 8, "seed": 1}

    def release(**more):
        return tt.release_group_sizes(rows, areas, tt.Budget(epsilon=1), **options, **more)

    assert shares_of(release()) == shares_of(release(budget_split="auto"))
    even = release(budget_split="even")
    assert set(shares_of(even).values()) == {1 / 3}
    assert not has_reason(even)
    for mechanism in (tt.sizes.Matching(), tt.sizes.BottomUp()):
        assert not has_reason(release(mechanism=mechanism))
        assert has_reason(release(mechanism=mechanism, budget_split="auto"))


def test_a_public_table_that_can_be_read_once_is_read_once(people):
    rows, areas, public = people
    options = {"neighboring": "add_remove", "group": "home", "max_group_size": 8, "budget_split": "auto", "seed": 1}
    once = pa.RecordBatchReader.from_batches(public.schema, public.to_batches())
    found = tt.release_group_sizes(rows, areas, tt.Budget(epsilon=1), public_groups=once, **options)
    expected = tt.release_group_sizes(rows, areas, tt.Budget(epsilon=1), public_groups=public, **options)
    assert shares_of(found) == shares_of(expected)
    assert sum(found.table("all")["groups"].to_pylist()) == 25


def test_one_measured_level_gets_everything():
    tree = tt.Hierarchy.from_table(pa.table({"home": [1]}), levels=["home"])
    release = tt.release_group_sizes(
        pa.table({"home": [1], "size": [3], "groups": [2]}),
        tree,
        tt.Budget(epsilon=1),
        neighboring="add_remove",
        size="size",
        groups="groups",
        max_group_size=5,
        budget_split="auto",
    )
    assert list(shares_of(release).values()) == [1]


def mean_error(release, true, path):
    """The mean earth mover's distance of the nodes of a level."""
    level = path[-1] if path else "all"
    found = release.table(level).to_pandas()
    both = found.set_index([*path, "size"])["groups"].sub(true.groupby([*path, "size"])["groups"].sum(), fill_value=0)
    tables = both.unstack("size", fill_value=0) if path else both.to_frame().T
    every = np.arange(0, max(tables.columns) + 1)
    tails = tables.reindex(columns=every, fill_value=0).iloc[:, ::-1].cumsum(axis=1)
    return float(tails.abs().sum(axis=1).mean())


@pytest.mark.slow
def test_on_taxi_no_simple_split_is_much_better(shared_data):
    """ε = 1, 2 seeds, K = 3,000: the geometric mean over the levels is within 7 % of the best of five splits."""
    rows = pq.read_table(shared_data / "taxi_2013_manhattan.parquet")
    path = ["half", "neighbourhood"]
    tree = tt.Hierarchy.from_table(rows.group_by(path).aggregate([]), path)
    true = rows.to_pandas()
    true["size"] = true["size"].clip(upper=3_000)

    def mean_logarithm(split):
        logarithms = []
        for seed in (1, 2):
            release = tt.release_group_sizes(
                rows, tree, tt.Budget(epsilon=1), neighboring="add_remove", size="size", groups="groups",
                max_group_size=3_000, budget_split=split, seed=seed,
            )  # fmt: skip
            logarithms += [np.log(mean_error(release, true, path[:depth])) for depth in range(3)]
        return np.mean(logarithms)

    weights = [(1, 1, 1), (1, 1, 98), (1, 1, 4), (1, 4, 1), (4, 1, 1)]
    grid = [mean_logarithm(dict(zip(tree.levels, each, strict=True))) for each in weights]
    assert mean_logarithm("auto") <= min(grid) + np.log(1.07)
    assert grid[0] > min(grid) + np.log(1.12)  # the even split is not
