"""The six synthetic data sets of Boninsegna and Silvestri (2025), section 5: flows on two partitions."""

from __future__ import annotations

import random
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from tallytree.lab.datasets.flows import Flows, pair_table
from tallytree.support.arrays import IntArray, offsets_of

Partition = Literal["binary", "random"]
Density = Literal["complete", "dense", "sparse"]

PARETO_SHAPE = 3.0
MAX_FLOW = 1_000

_DEPTH: dict[Partition, int] = {"binary": 8, "random": 4}
_PAIRS_PER_HUNDRED: dict[Density, int] = {"complete": 100, "dense": 50, "sparse": 1}


def od_flows(partition: Partition, density: Density, *, seed: int = 42) -> Flows:
    """Generate one of the six data sets. The default seed gives the data set of the paper.

    * **Partition**: `"binary"` divides the country 8 times in two, `"random"` 4 times into a number of areas uniform
      on 2 … 10. Each side of a trip has all levels, so the destination tree is 16 or 8 levels deep.
    * **Pairs**: all pairs of areas (`"complete"`), half of them (`"dense"`) or 1 % (`"sparse"`), rounded down, drawn
      without replacement.
    * **Flows**: x from a Lomax (shifted Pareto) distribution of shape 3, density ∝ (1 + x)⁻⁴; a pair has
      1 + ⌊999·x / max x⌋ trips, so at least 1, and the largest flow is 1,000.

    The paper's formula of the flows is missing in the text we have. Shape, scale, rounding and the generators' order of
    draws were inferred from four of its data sets, which these functions give row for row; the users of all six are
    those of the paper's Table 1. The 95,612 pairs of "Random Dense" in that table are a misprint of 94,612, which is
    half of 435² and gives its users.

    As in the paper one seed serves the partition, the pairs and the flows; area i of a family is divided as the seed of
    the area above plus i says, so subtrees repeat. Do not use these data where independent draws matter.

    Args:
        partition: how areas are divided. `"random"` has 435 areas with the default seed; their number depends on the
            seed.
        density: the share of the pairs of areas that have trips.
        seed: of partition, pairs and flows. Equal arguments give equal tables.

    Returns:
        The flows in the order they were drawn, and the areas, for levels `level1`, `level2`, …; the name of
        an area is its position in the post-order of the tree.

    Raises:
        ValueError: an unknown partition or density.
    """
    if partition not in get_args(Partition):
        raise ValueError(f'partition: {partition!r} is not known; choose "binary" or "random"')
    if density not in get_args(Density):
        raise ValueError(f'density: {density!r} is not known; choose "complete", "dense" or "sparse"')
    areas = _areas(_divide(partition, seed))
    n_pairs = areas.num_rows**2 * _PAIRS_PER_HUNDRED[density] // 100
    pairs = np.array(random.Random(seed).sample(range(areas.num_rows**2), n_pairs))  # noqa: S311
    origin, destination = np.divmod(pairs.astype(np.int64), areas.num_rows)
    pareto = np.random.RandomState(seed).pareto(PARETO_SHAPE, n_pairs)
    count = 1 + np.floor((MAX_FLOW - 1) * pareto / pareto.max()).astype(np.int64)
    return Flows(pair_table(areas, origin, destination, count), areas, tuple(areas.column_names))


def _divide(partition: Partition, seed: int) -> list[IntArray]:
    """How many areas every area is divided into: int64 (areas,) per level, root first, without the leaves."""
    divisions = []
    seeds = np.array([seed], dtype=np.int64)
    for _ in range(_DEPTH[partition]):
        if partition == "binary":
            n_children = np.full(len(seeds), 2, dtype=np.int64)
        else:
            distinct, of_area = np.unique(seeds, return_inverse=True)
            drawn = [random.Random(int(s)).randint(2, 10) for s in distinct]  # noqa: S311 (data, not secrets)
            n_children = np.array(drawn, dtype=np.int64)[of_area]
        divisions.append(n_children)
        first = offsets_of(n_children)[:-1]
        seeds = np.repeat(seeds - first, n_children) + np.arange(n_children.sum())
    return divisions


def _areas(divisions: list[IntArray]) -> pa.Table:
    """The paths of the leaves. The name of an area is its position in the post-order of the tree."""
    # An area's place is that of the last of its subtree: where the subtree starts plus its size, less one.
    sizes = [np.ones(int(divisions[-1].sum()), dtype=np.int64)]
    n_leaves = [sizes[0]]
    for n_children in reversed(divisions):
        first = offsets_of(n_children)[:-1]
        sizes.insert(0, 1 + np.add.reduceat(sizes[0], first))
        n_leaves.insert(0, np.add.reduceat(n_leaves[0], first))
    start = np.zeros(1, dtype=np.int64)
    columns = {}
    for depth, n_children in enumerate(divisions, start=1):
        before = offsets_of(sizes[depth])[:-1]
        first = offsets_of(n_children)[:-1]
        start = np.repeat(start - before[first], n_children) + before
        place = np.repeat(start + sizes[depth] - 1, n_leaves[depth])
        columns[f"level{depth}"] = pa.array(place).cast(pa.string())
    return pa.table(columns)
