"""Nested levels of a hierarchy that are given as ranges of leaves (`first_leaf`), checked and laid out as a forest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_EXACT, check_integers, check_offsets
from tallytree.support.arrays import FloatArray, IntArray, offsets_of

MAX_ROWS = 2**31
"""Sums of so many fractions stay below 2^62."""


class NestedLevels(NamedTuple):
    """Nested levels as one array of inner nodes, coarsest level first, so that parents come before children.

    The number of inner nodes itself stands for what is above all roots.
    """

    nodes: list[int]
    """Of each level, the leaves' included."""
    leaves: int
    parent: IntArray
    """(inner nodes,)"""
    parent_of_leaf: IntArray
    """(leaves,)"""


def check_levels(first_leaf: Sequence[npt.ArrayLike]) -> NestedLevels:
    """Return the levels as a forest, or say what is wrong with them.

    Args:
        first_leaf: as for `margins.fit`.

    Returns:
        The forest of inner nodes.

    Raises:
        TypeError: for offsets that are not integers.
        ValueError: for no levels, nodes without leaves, levels that are not nested or do not end with the leaves.
    """
    if len(first_leaf) == 0:
        raise ValueError("first_leaf is empty; it must have one array for each level, the leaves last")
    last = len(first_leaf) - 1
    finest = check_integers(f"first_leaf[{last}]", first_leaf[last])
    leaves = max(0, len(finest) - 1)
    if not 0 < leaves < MAX_ROWS:
        raise ValueError(f"first_leaf[{last}] has {leaves} leaves; it must have between 1 and 2^31")
    if (finest != np.arange(leaves + 1)).any():
        raise ValueError(f"first_leaf[{last}] must be 0, 1, …, {leaves}: the last level must be the leaves, measured")
    cuts: list[IntArray] = []
    for level, given in enumerate(first_leaf):
        name = f"first_leaf[{level}]"
        offsets = check_offsets(name, given, f"first_leaf[{last}]", leaves)
        empty = np.flatnonzero(offsets[1:] == offsets[:-1])
        if len(empty):
            raise ValueError(f"{name} has no leaf for node {empty[0]}; every node must have one")
        if cuts:
            torn = np.setdiff1d(cuts[-1], offsets)
            if len(torn):
                raise ValueError(
                    f"{name} has a node across leaf {torn[0]}, where one of first_leaf[{level - 1}] ends; "
                    "each level must refine the one before"
                )
        cuts.append(offsets)
    nodes = [len(offsets) - 1 for offsets in cuts]
    start = offsets_of(np.array(nodes[:-1], np.int64))
    above = [np.full(nodes[0], start[-1])]
    above += [
        start[level] + np.searchsorted(coarse, fine[:-1], side="right") - 1
        for level, (coarse, fine) in enumerate(pairwise(cuts))
    ]
    parent = np.concatenate([np.empty(0, np.int64), *above[:-1]])
    return NestedLevels(nodes, leaves, parent, above[-1])


def check_totals(row_totals: npt.ArrayLike, leaves: int) -> IntArray:
    """Return the totals of the leaves as int64, or say what is wrong with them.

    Args:
        row_totals: what the caller gave.
        leaves: how many there must be.

    Returns:
        (leaves,) int64.

    Raises:
        TypeError: if they are not integers.
        ValueError: if there are more or fewer, one is negative, or their sum is beyond 2^53.
    """
    totals = check_integers("row_totals", row_totals)
    if len(totals) != leaves:
        raise ValueError(f"row_totals has {len(totals)} entries; first_leaf describes {leaves} leaves")
    if totals.min() < 0:
        row = int(np.argmin(totals))
        raise ValueError(f"row_totals[{row}]={totals[row]} must not be negative")
    if totals.sum(dtype=np.float64) > MAX_EXACT:
        raise ValueError(f"row_totals adds up to {totals.sum(dtype=np.float64):.3g}; it must stay within 2^53")
    return totals


def check_weights(weights: Sequence[float] | None, levels: NestedLevels) -> FloatArray:
    """Return one weight for each level, or say what is wrong with them.

    Args:
        weights: what the caller gave; None for equal weights.
        levels: what they are for.

    Returns:
        (levels,) float64.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if there are more or fewer, one is not positive and finite, or two differ by a factor over 2^40.
    """
    if weights is None:
        return np.ones(len(levels.nodes))
    given = np.asarray(weights)
    if given.size and given.dtype.kind not in "iuf":
        raise TypeError(f"weights has dtype {given.dtype}; it must hold real numbers")
    if given.shape != (len(levels.nodes),):
        raise ValueError(
            f"weights has shape {given.shape}; it must have one entry for each of {len(levels.nodes)} levels"
        )
    scale = given.astype(np.float64)
    wrong = ~(np.isfinite(scale) & (scale > 0))
    if wrong.any():
        level = int(np.argmax(wrong))
        raise ValueError(f"weights[{level}]={scale[level]} must be positive and finite")
    if scale.max() / 2**40 > scale.min():
        raise ValueError(f"weights must be within a factor 2^40 of each other; got {scale.min()} … {scale.max()}")
    return scale
