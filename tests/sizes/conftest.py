"""What tests of all mechanisms for group sizes share: a hierarchy, data, and a release from within the firewall."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import KeyedNoise, Measurer, TrueSizes, plan_noise, sensitivity
from tallytree.sizes import SizesDomain


@pytest.fixture(scope="session")
def towns():
    """Four states, of one to thirty counties."""
    counties = [(str(s), f"{s}-{c}") for s, n in enumerate([1, 30, 2, 7]) for c in range(n)]
    return tt.Hierarchy.from_table(
        pa.table({"state": [s for s, _ in counties], "county": [c for _, c in counties]}), ["state", "county"]
    )


@dataclass(frozen=True)
class Released:
    """What a mechanism released, level by level as (nodes, sizes) tables, the true tables, and what was measured."""

    tables: list
    true: list
    domain: SizesDomain
    measured: tuple


@pytest.fixture(scope="session")
def release_sizes():
    """A function that makes data, measures it and runs a mechanism."""

    def release(
        tree,
        mechanism,
        *,
        invariants="groups",
        smallest=None,
        largest=50,
        epsilon=3,
        key=bytes(32),
        split=None,
        groups=3_000,
    ):
        smallest = (0 if invariants == "groups" else 1) if smallest is None else smallest
        random = np.random.default_rng(3)
        leaves = random.integers(0, max(tree.n_leaves - 1, 1), groups)  # the last leaf has no groups
        sizes = np.clip(random.geometric(0.2, groups) - 1 + smallest, smallest, largest)
        per_leaf = np.bincount(leaves, minlength=tree.n_leaves)
        domain = SizesDomain.from_leaves(tree, per_leaf, smallest, largest, invariants)
        ones = np.ones(groups, np.int64)
        true = TrueSizes(tree, leaves, sizes, ones, domain.groups, smallest, largest)
        bounds = {
            level: (s, sensitivity(s, "add_remove", nodes=tree.size(tree.levels.index(level))))
            for level, s in mechanism.statistics(tree, invariants=invariants).items()
        }
        plan = plan_noise(tt.Budget(epsilon=epsilon), bounds, split)
        measurer = Measurer(true, plan, KeyedNoise(key))
        levels = mechanism.reconcile(domain, measurer)
        leaf_table = np.zeros((tree.n_leaves, largest + 1), dtype=np.int64)
        np.add.at(leaf_table, (leaves, sizes), 1)
        return Released(_tables(tree, levels, largest), _summed(tree, leaf_table), domain, measurer.taken)

    return release


def _tables(tree, levels, largest):
    tables = []
    for depth, level in enumerate(levels):
        assert (level.groups > 0 if level.groups.dtype == np.int64 else level.groups != 0).all()
        table = np.zeros((tree.size(depth), largest + 1), dtype=level.groups.dtype)
        np.add.at(table, (level.nodes, level.sizes), level.groups)
        assert np.count_nonzero(table) == len(level.nodes), "a (node, size) has two rows"
        tables.append(table)
    return tables


def _summed(tree, leaves):
    tables = [leaves]
    for depth in range(len(tree.levels) - 1, 0, -1):
        tables.append(np.add.reduceat(tables[-1], tree.first_child[depth - 1][:-1]))
    return tables[::-1]
