"""Shared by the generators of group sizes: their result, and the sizes of households of 7 and more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tallytree.support.arrays import FloatArray, IntArray, sum_by_key

LAST_HOUSEHOLD = 60
"""Households of the geometric tail end here; beyond it the papers' data expect 1e-8 of them at most."""


@dataclass(frozen=True)
class GroupSizes:
    """Groups and their sizes on a hierarchy, counted and not listed one by one.

    Attributes:
        rows: one row per leaf and size that has groups: the columns in `levels`, `size` and `groups` (int64, ≥ 1), in
            the order of the leaves, then by size. It would be private if it were real.
        leaves: one row per leaf, with the columns in `levels`. Public; it includes leaves without groups.
        levels: the path columns, top first.
        largest: N, the greatest size that the data can have; often no group is that large.
    """

    rows: pa.Table
    leaves: pa.Table
    levels: tuple[str, ...]
    largest: int

    @property
    def n_groups(self) -> int:
        """How many groups there are in all, those of size 0 included."""
        return int(self.rows["groups"].to_numpy().sum())

    @property
    def n_members(self) -> int:
        """How many members all groups have together."""
        return int(self.rows["size"].to_numpy() @ self.rows["groups"].to_numpy())

    @property
    def n_distinct_sizes(self) -> int:
        """How many different sizes occur."""
        return len(np.unique(self.rows["size"].to_numpy()))


def count_rows(leaves: pa.Table, leaf: IntArray, size: IntArray, groups: IntArray, *, largest: int) -> GroupSizes:
    """Gather groups, given in any order and with repetitions, into a data set.

    Args:
        leaves: the paths of all leaves, whose columns are the levels.
        leaf: row in `leaves`, entry by entry.
        size: 0 … `largest`, entry by entry.
        groups: how many groups of that size the entry adds to that leaf.
        largest: N.
    """
    width = largest + 1
    keys, totals = sum_by_key(leaf * width + size, groups)
    keys, totals = keys[totals > 0], totals[totals > 0]
    row_leaf, row_size = np.divmod(keys, width)
    rows = leaves.take(pa.array(row_leaf))
    rows = rows.append_column("size", pa.array(row_size)).append_column("groups", pa.array(totals))
    return GroupSizes(rows, leaves, tuple(leaves.column_names), largest)


def household_weights(
    shares: tuple[float, ...], tilt: FloatArray, *, largest: int, ratio: float | None = None, last: int = LAST_HOUSEHOLD
) -> FloatArray:
    """The probability that a household has 1, 2, … members, with the papers' geometric tail: float (regions, sizes).

    Sizes 7, 8, 9, … get n_7, n_7·r, n_7·r², …, which add up to the share of "7 or more". Where r is not given it is
    n_7/n_6, so that r/(1 − r) is that share over n_6. A tilt by exp(t·size) keeps them equal: they are r·exp(t).

    Args:
        shares: of the households with 1, 2, … 6 members, and with 7 or more.
        tilt: t of every region; above 0, larger households.
        largest: no household is larger.
        ratio: r, in (0, 1).
        last: the tail ends here.
    """
    n_6, seven_or_more = shares[5], shares[6]
    r = seven_or_more / (n_6 + seven_or_more) if ratio is None else ratio
    first = n_6 * r if ratio is None else seven_or_more * (1 - r)
    sizes = np.arange(1, min(largest, last) + 1)
    share = np.concatenate([shares[:6], first * r ** np.arange(max(len(sizes) - 6, 1))])[: len(sizes)]
    weights = share * np.exp(np.outer(tilt, sizes))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)


def centred_normal(rng: np.random.Generator, scale: float, weight: FloatArray) -> FloatArray:
    """Normal numbers with weighted mean 0, so that regions differ and the mean of the country stays."""
    drawn = rng.normal(scale=scale, size=len(weight))
    return np.asarray(drawn - np.average(drawn, weights=weight), dtype=np.float64)
