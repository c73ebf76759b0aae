from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from tallytree.sizes.auto_split import auto_shares
from tallytree.solvers.tree_variance import combined_variances


def even_tree(*fan_outs):
    first_child, nodes = [], 1
    for fan_out in fan_outs:
        first_child.append(np.arange(nodes + 1) * fan_out)
        nodes *= fan_out
    return first_child


@st.composite
def trees(draw):
    first_child, nodes = [], 1
    for _ in range(draw(st.integers(1, 3))):
        children = np.array(draw(st.lists(st.integers(1, 4), min_size=nodes, max_size=nodes)))
        first_child.append(np.concatenate([[0], np.cumsum(children)]))
        nodes = int(children.sum())
    return first_child


def dense_variances(first_child, own):
    """The same by inverting the normal equations of all measurements over the leaves."""
    leaves = int(first_child[-1][-1])
    below = np.eye(leaves)
    rows = [below]
    for cuts in reversed(first_child):
        below = np.add.reduceat(below, cuts[:-1], axis=0)
        rows.append(below)
    rows.reverse()
    information = sum(level.T @ level / w for level, w in zip(rows, own, strict=True))
    covariance = np.linalg.inv(information)
    return [np.diag(level @ covariance @ level.T) for level in rows]


@settings(max_examples=60)
@given(trees(), st.lists(st.floats(0.1, 10), min_size=4, max_size=4))
def test_variances_are_those_of_least_squares_over_the_tree(first_child, own):
    own = own[: len(first_child) + 1]
    for found, dense in zip(combined_variances(first_child, own).nodes, dense_variances(first_child, own), strict=True):
        np.testing.assert_allclose(found, dense, rtol=1e-8)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("fan_out", [2, 3, 50])
def test_two_levels_share_evenly_however_many_children_there_are(fan_out, gaussian):
    """By hand: with halves and Laplace noise both levels' variances are 4n/(n + 1) times what they had alone."""
    root, leaf = combined_variances(even_tree(fan_out), [4.0, 4.0]).nodes
    assert root[0] == pytest.approx(4 * fan_out / (fan_out + 1))
    assert leaf[0] == pytest.approx(4 * fan_out / (fan_out + 1))
    assert auto_shares(even_tree(fan_out), [1.0, 1.0], gaussian=gaussian) == [Fraction(1, 2)] * 2


def test_levels_in_the_middle_of_narrow_trees_get_less():
    """Both their children's sums and their parents measure them too."""
    shares = auto_shares(even_tree(2, 2, 2, 2), [1.0] * 5, gaussian=False)
    assert shares[0] == pytest.approx(shares[-1], abs=1e-3)
    assert max(shares[1:-1]) < 0.8 * shares[0]
    assert auto_shares(even_tree(1_000, 1_000), [1.0] * 3, gaussian=False) == pytest.approx([1 / 3] * 3, abs=1e-3)


def losses(first_child, std_devs, share, power, groups, cells):
    everything = np.square(std_devs)
    found = combined_variances(first_child, everything / np.power(share, power)).nodes
    worst = []
    for depth, (variance, alone) in enumerate(zip(found, everything, strict=True)):
        if groups is None:
            worst.append(np.mean(np.cbrt(variance)) / np.cbrt(alone))
            continue
        g = groups[depth]
        error, best = (np.mean(np.minimum(np.cbrt(v * g / cells), g)) for v in (variance, alone))
        worst.append(error / best if best > 0 else 1.0)
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 25.0, 200.0, 2_000.0])
@pytest.mark.parametrize("groups_per_leaf", [None, [1, 1, 1, 1, 1, 1], [1_000, 3, 0, 40, 500, 0], [0] * 6])
def test_no_split_on_a_grid_has_a_lesser_greatest_loss(groups_per_leaf, scale, power):
    first_child = [np.array([0, 2]), np.array([0, 2, 6])]
    std_devs, cells = [scale, 2 * scale, scale], 500
    groups = None
    if groups_per_leaf is not None:
        leaves = np.array(groups_per_leaf)
        middle = np.add.reduceat(leaves, first_child[1][:-1])
        groups = [middle.sum(keepdims=True), middle, leaves]
    share = auto_shares(first_child, std_devs, gaussian=power == 1, groups=groups, cells=cells)
    assert sum(share) == 1
    assert min(share) > 0
    found = max(losses(first_child, std_devs, np.array(share, float), power, groups, cells))
    grid = [
        max(losses(first_child, std_devs, np.array([a, b, 60 - a - b]) / 60, power, groups, cells))
        for a, b in product(range(1, 59), repeat=2)
        if a + b < 60
    ]
    assert found <= 1.01 * min(grid)
    even = max(losses(first_child, std_devs, np.full(3, 1 / 3), power, groups, cells))
    assert found <= even * (1 + 1e-9)


def test_leaves_that_noise_drowns_leave_the_budget_to_the_levels_above():
    first_child, groups = even_tree(3), [np.array([300]), np.array([100, 100, 100])]
    drowned = auto_shares(first_child, [3_000.0, 3_000.0], gaussian=False, groups=groups, cells=1_000)
    assert drowned[0] > Fraction(9, 10)
    clear = auto_shares(first_child, [1.0, 1.0], gaussian=False, groups=groups, cells=1_000)
    assert clear == [Fraction(1, 2)] * 2


@pytest.fixture
def people():
    path = {"half": ["N"] * 2 + ["S"] * 3, "area": list("abcde")}
    areas = tt.Hierarchy.from_table(pa.table(path), levels=["half", "area"])
    rows = pa.table({"half": ["N", "N", "S"], "area": ["a", "a", "d"], "home": [1, 1, 2]})
    return rows, areas, pa.table({**path, "groups": [5, 5, 5, 5, 5]})


def shares_of(release):
    return {level["level"]: level["share"] for level in release.statement["levels"]}


@pytest.mark.parametrize("budget", [tt.Budget(epsilon=1), tt.Budget(rho=0.1), tt.Budget(epsilon=1, delta=1e-6)])
def test_a_release_takes_the_split_from_public_facts_alone(people, budget):
    rows, areas, public = people
    options = {
        "neighboring": "add_remove",
        "group": "home",
        "public_groups": public,
        "max_group_size": 8,
        "budget_split": "auto",
    }
    release = tt.release_group_sizes(rows, areas, budget, **options)
    shares = shares_of(release)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["half"] < shares["area"]
    assert shares == shares_of(tt.release_group_sizes(rows.slice(0, 0), areas, budget, **options))
    more = public.set_column(2, "groups", pa.array([1, 1, 1, 10_000, 1]))
    tiny = tt.Budget(epsilon=1e-3)
    few, many = (
        shares_of(tt.release_group_sizes(rows.slice(0, 0), areas, tiny, **{**options, "public_groups": table}))
        for table in (public, more)
    )
    assert few != many


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


def test_no_variance_rounds_to_less_than_zero():
    only_children = [np.array([0, 1]), np.array([0, 1]), np.array([0, 2])]
    variances = combined_variances(only_children, [0.0, 0.5, 0.5, 0.5]).nodes
    assert [level.tolist() for level in variances] == [[0.0], [0.0], [0.0], [0.25, 0.25]]
