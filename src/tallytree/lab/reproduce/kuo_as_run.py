"""What the published code of Kuo et al. 2018 does: every region gets the same noise.

In github.com/yzk5145/coco (be89e04) `algs.py`, lines 20 and 85, makes `numpy.random.RandomState(seed)` anew for each
region, and `hierarchy.py`, lines 47, 64 and 84, and `main.py`, line 71, give the same seed for all of them. The noisy
vectors of all regions have the same length, K. So all regions get one noise vector, and the errors of a parent's
children add up instead of averaging out. Such noise protects nobody: the difference of two regions is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.lab._internals import Measurement, Noise, Statistic
from tallytree.lab.compare.metrics import earth_movers_distance
from tallytree.lab.reproduce.kuo_data import Groups
from tallytree.sizes import SizesDomain
from tallytree.sizes.mechanism import SizesMechanism
from tallytree.support.arrays import IntArray


class OneNoiseForAll:
    """Answers with tail counts to which one noise vector is added, the same for every node.

    Args:
        groups: the data; sizes begin at 0.
        scale: of the discrete Laplace noise, at every level.
        seed: of the noise.
    """

    def __init__(self, groups: Groups, scale: Fraction, seed: int) -> None:
        self._hierarchy, self._largest, self._scale = groups.hierarchy, groups.largest, scale
        self._size = groups.rows["size"].to_numpy()
        self._groups = groups.rows["groups"].to_numpy()
        self._node = dict(zip(groups.hierarchy.levels, nodes_of_rows(groups), strict=True))
        self._noise = geometric_noise(groups.largest, float(scale), seed)

    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """Tail counts T_1 … T_K of the nodes, all with the same noise."""
        if statistic != "tail_counts" or cells is not None:
            raise ValueError(
                f"statistic: {statistic!r} of parts of nodes is not measured here; only whole tail counts are"
            )
        offsets = np.arange(len(nodes) + 1, dtype=np.int64) * self._largest
        noise = Noise("discrete_laplace", self._scale)
        return Measurement(level, statistic, nodes, (self.true(level, nodes) + self._noise).ravel(), offsets, noise)

    def measure_stable(self, level: str) -> Measurement:
        """No part of these experiments."""
        raise ValueError(f"level: counts above a threshold are not measured at {level!r}")

    def true(self, level: str, nodes: IntArray) -> IntArray:
        """T_1 … T_K of the nodes, int64 (n, K)."""
        place = np.full(self._hierarchy.size(self._hierarchy.levels.index(level)), -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        row = place[self._node[level]]
        histogram = np.zeros((len(nodes), self._largest + 1), dtype=np.int64)
        np.add.at(histogram, (row[row >= 0], np.minimum(self._size[row >= 0], self._largest)), self._groups[row >= 0])
        tails: IntArray = histogram[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        return tails


def geometric_noise(cells: int, scale: float, seed: int | Sequence[int]) -> IntArray:
    """The difference of two geometric variables in each cell, as the published code draws it: int64 (cells,)."""
    rng, chance = np.random.default_rng(seed), -math.expm1(-1 / scale)
    noise: IntArray = rng.geometric(chance, cells) - rng.geometric(chance, cells)
    return noise


def nodes_of_rows(groups: Groups) -> list[IntArray]:
    """The node of each row at each level, root first: int64 (rows,) each."""
    hierarchy = groups.hierarchy
    leaves = hierarchy.leaf_table()
    paths = [
        pc.binary_join_element_wise(
            *(table[name].cast(pa.large_string()) for name in leaves.column_names), pa.scalar("\x1f", pa.large_string())
        )
        for table in (groups.rows, leaves)
    ]
    nodes = [pc.index_in(paths[0], value_set=paths[1]).to_numpy().astype(np.int64)]
    for depth in range(len(hierarchy.levels) - 1, 0, -1):
        nodes.insert(0, hierarchy.parents(depth, nodes[0]))
    return nodes


def errors_with_one_noise(groups: Groups, mechanism: SizesMechanism, epsilon: float, seed: int) -> list[float]:
    """The mean earth mover's distance per node at each level, root first, where all nodes have the same noise.

    Args:
        groups: the data.
        mechanism: measures tail counts.
        epsilon: of all measured levels together; each has the same share.
        seed: of the noise.
    """
    hierarchy = groups.hierarchy
    measured = mechanism.statistics(hierarchy, invariants="groups")
    scale = Fraction(len(measured)) / Fraction(str(epsilon))
    nodes = nodes_of_rows(groups)
    sums = np.bincount(nodes[-1], groups.rows["groups"].to_numpy(), minlength=hierarchy.n_leaves).astype(np.int64)
    domain = SizesDomain.from_leaves(hierarchy, sums, 0, groups.largest)
    released = mechanism.reconcile(domain, OneNoiseForAll(groups, scale, seed))
    found = []
    for depth, level in enumerate(released):
        tables = [
            pa.table({"node": pa.array(node).cast(pa.string()), "size": size, "groups": number})
            for node, size, number in (
                (level.nodes, level.sizes, level.groups),
                (nodes[depth], groups.rows["size"].to_numpy(), groups.rows["groups"].to_numpy()),
            )
        ]
        found.append(float(earth_movers_distance(*tables).sum() / hierarchy.size(depth)))
    return found
