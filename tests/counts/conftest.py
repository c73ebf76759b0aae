"""Shared by the tests of counts: small products with records, and noisy measurements that are recorded."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import KeyedNoise, Measurer, TrueCounts, plan_noise, sensitivity


@dataclass
class Recorded:
    """Measures through a Measurer, and records which nodes were measured."""

    inner: Measurer
    asked: dict = field(default_factory=dict)

    def measure(self, level, nodes, statistic):
        self.asked.setdefault(level, []).extend(nodes.tolist())
        return self.inner.measure(level, nodes, statistic)


def make(tree, leaves, counts, key, mechanism, public, epsilon=1):
    bounds = {
        level: (statistic, sensitivity(statistic, "add_remove"))
        for level, statistic in mechanism.statistics(tree, total_is_public=public).items()
    }
    plan = plan_noise(tt.Budget(epsilon=epsilon), bounds)
    return Recorded(Measurer(TrueCounts(tree, leaves, counts), plan, KeyedNoise(key)))


@st.composite
def flows(draw):
    tops = draw(st.integers(1, 3))
    counties = draw(st.lists(st.integers(0, tops - 1), min_size=1, max_size=6))
    table = pa.table(
        {"s": [str(s) for s in counties], "c": [str(i) for i in range(len(counties))], "only": ["o"] * len(counties)}
    )
    areas = tt.Hierarchy.from_table(table, ["s", "c", "only"])
    order = draw(st.permutations(["o"] * 3 + ["d"] * 3))
    product = tt.Product({"o": areas, "d": areas}, order=order)
    leaves = draw(st.lists(st.integers(0, product.size(6) - 1), unique=True, max_size=10))
    counts = draw(st.lists(st.integers(1, 100), min_size=len(leaves), max_size=len(leaves)))
    return product, np.array(sorted(leaves), dtype=np.int64), np.array(counts, dtype=np.int64)


@pytest.fixture(scope="session")
def measurer():
    """measurer(tree, leaves, counts, key, mechanism, public): measures some leaves, as the mechanism has it planned."""
    return make


@pytest.fixture(scope="session")
def small_flows():
    """Products of up to 6 x 6 leaves with up to 10 that have records: (tree, leaves, counts)."""
    return flows()
