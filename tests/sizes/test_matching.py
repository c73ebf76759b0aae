import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import KeyedNoise, Measurer, TrueSizes, plan_noise, sensitivity
from tallytree.sizes import SizesDomain, level_estimates

ESTIMATORS = ["cumulative", "sorted", "naive", {"all": "sorted", "state": "cumulative", "county": "naive"}]


def release(tree, mechanism, largest=50, epsilon=3, key=bytes(32)):
    random = np.random.default_rng(3)
    leaves = random.integers(0, tree.n_leaves - 1, 3_000)  # the last leaf has no groups
    sizes = np.minimum(random.geometric(0.2, 3_000) - 1, largest)
    domain = SizesDomain.from_leaves(tree, np.bincount(leaves, minlength=tree.n_leaves), 0, largest)
    true = TrueSizes(tree, leaves, sizes, np.ones(3_000, np.int64), domain.groups, 0, largest)
    bounds = {
        level: (s, sensitivity(s, "add_remove")) for level, s in mechanism.statistics(tree, invariants="groups").items()
    }
    plan = plan_noise(tt.Budget(epsilon=epsilon), bounds)
    return mechanism.reconcile(domain, Measurer(true, plan, KeyedNoise(key))), domain, (leaves, sizes)


@pytest.mark.parametrize(
    ("merge", "carry"), [("weighted", "unrounded"), ("average", "unrounded"), ("weighted", "rounded")]
)
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_groups_are_kept_and_children_add_up_to_their_parent(towns, estimator, norm, merge, carry):
    levels, domain, _ = release(towns, tt.sizes.Matching(estimator=estimator, norm=norm, merge=merge, carry=carry))
    tables = []
    for depth, level in enumerate(levels):
        assert (level.groups > 0).all()
        assert ((level.sizes >= 0) & (level.sizes <= 50)).all()
        table = np.zeros((towns.size(depth), 51), dtype=np.int64)
        np.add.at(table, (level.nodes, level.sizes), level.groups)
        assert np.array_equal(table.sum(axis=1), domain.groups[depth])
        assert len(np.unique(level.nodes * 51 + level.sizes)) == len(level.nodes)
        tables.append(table)
    for depth in (1, 2):
        assert np.array_equal(np.add.reduceat(tables[depth], towns.first_child[depth - 1][:-1]), tables[depth - 1])


def test_with_next_to_no_noise_the_truth_comes_back(towns):
    levels, _, (leaves, sizes) = release(towns, tt.sizes.Matching(), epsilon=300)
    found = {
        (int(n), int(s)): int(g) for n, s, g in zip(levels[2].nodes, levels[2].sizes, levels[2].groups, strict=True)
    }
    keys, counts = np.unique(leaves * 51 + sizes, return_counts=True)
    assert found == {(int(k // 51), int(k % 51)): int(c) for k, c in zip(keys, counts, strict=True)}


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_release_does_not_depend_on_how_nodes_are_chunked(towns, monkeypatch, estimator, norm):
    """Also where a node has more groups than a chunk has cells: 3,000 at the root, 25 chunks."""
    mechanism = tt.sizes.Matching(estimator=estimator, norm=norm)
    at_once = release(towns, mechanism)[0]
    monkeypatch.setattr(level_estimates, "CELLS_AT_ONCE", 120)
    parts = release(towns, mechanism)[0]
    for a, b in zip(at_once, parts, strict=True):
        assert np.array_equal(np.stack([a.nodes, a.sizes, a.groups]), np.stack([b.nodes, b.sizes, b.groups]))


def test_levels_that_repeat_the_one_above_are_not_measured():
    tree = tt.Hierarchy.from_table(
        pa.table({"country": ["N"] * 2, "again": ["N"] * 2, "c": ["x", "y"], "only": ["o"] * 2}),
        ["country", "again", "c", "only"],
    )
    assert tt.sizes.Matching().statistics(tree, invariants="groups") == {"country": "tail_counts", "c": "tail_counts"}
    levels, _domain, _ = release(tree, tt.sizes.Matching())
    assert [int(level.groups.sum()) for level in levels] == [3_000] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "median"}, "estimator: 'median' is not known; choose one of cumulative, sorted, naive"),
        ({"estimator": {"all": "median"}}, "estimator: 'median' is not known"),
        ({"norm": 3}, "norm: 3 must be 1 or 2"),
        ({"norm": True}, "norm: True must be 1 or 2"),
        ({"norm": {"all": 1, "state": 3}}, "norm: 3 must be 1 or 2"),
        ({"merge": "best"}, "merge: 'best' is not known"),
        ({"carry": "up"}, 'carry: \'up\' is not known; choose "unrounded" or "rounded"'),
    ],
)
def test_an_unknown_option_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        tt.sizes.Matching(**options)


def test_a_norm_of_each_level_is_used_at_that_level(towns):
    """Levels that are not matched: each has the sizes that the norm gives alone."""
    one, two = (release(towns, tt.sizes.Independent("sorted", norm), epsilon=1)[0] for norm in (1, 2))
    mixed = release(towns, tt.sizes.Independent("sorted", {"all": 2, "state": 1, "county": 2}), epsilon=1)[0]

    def columns(level):
        return level.nodes.tolist(), level.sizes.tolist(), level.groups.tolist()

    assert [columns(level) for level in mixed] == [columns(two[0]), columns(one[1]), columns(two[2])]
    assert all(columns(a) != columns(b) for a, b in zip(one, two, strict=True))


def test_norms_must_be_named_for_every_level_and_no_other(towns):
    with pytest.raises(ValueError, match="norm: none is given for the level 'state'; name one for every level"):
        tt.sizes.Matching(norm={"all": 1}).statistics(towns, invariants="groups")
    norms = dict.fromkeys(["all", "state", "county", "town"], 2)
    with pytest.raises(ValueError, match="norm: 'town' is not a level; the levels are all, state, county"):
        tt.sizes.Matching(norm=norms).statistics(towns, invariants="groups")


def test_estimators_must_be_named_for_every_level_and_no_other(towns):
    with pytest.raises(ValueError, match="none is given for the level 'state'"):
        tt.sizes.Matching(estimator={"all": "sorted"}).statistics(towns, invariants="groups")
    names = dict.fromkeys(["all", "state", "county", "town"], "sorted")
    with pytest.raises(ValueError, match="'town' is not a level; the levels are all, state, county"):
        tt.sizes.Matching(estimator=names).statistics(towns, invariants="groups")
    with pytest.raises(TypeError, match="must be a name, or a mapping"):
        tt.sizes.Matching(estimator=["sorted"])
