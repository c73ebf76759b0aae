"""`CensusTopDown`: two levels at a time, from the root down; Abowd's algorithm as Fioretto et al. 2021 describe it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measures, Statistic
from tallytree.kinds.terms import Invariants
from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain, SizesMechanism, measured_everywhere
from tallytree.sizes.nearest_consistent import forest_weights, released, size_forest
from tallytree.sizes.noisy import NoisyLevel, children_offsets, level_weights, measure_levels
from tallytree.solvers.sizes import margins
from tallytree.solvers.trees import project as tree
from tallytree.solvers.trees import simplex
from tallytree.solvers.trees.families import round_families
from tallytree.support.arrays import IntArray, offsets_of


@dataclass(frozen=True)
class CensusTopDown(SizesMechanism):
    """Measure the histogram of every node; fit two levels at a time by non-negative least squares, and round the fit.

    First the two topmost levels are fitted, then each level below, given the integers of the level above. The real
    least-squares solution is rounded so that every total is kept (section 10 of the paper: "a program analogous to
    M_H^r, but it operates on two consecutive levels only", then "an ad-hoc rounding strategy"). Below the second level
    the rounded solution is the integer optimum of its two levels. Where the numbers of groups are public it is not, but
    every count differs from the real one by less than 1.
    """

    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""
        return measured_everywhere(hierarchy, "histogram")

    def reconcile(self, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
        """Measure, and compute the group sizes of every level, root first."""
        noisy = measure_levels(domain, measurer, "histogram")
        decide = _with_public_groups if domain.groups_are_public else _with_public_total
        return released(domain, decide(domain, noisy))


def _with_public_total(domain: SizesDomain, noisy: Sequence[NoisyLevel]) -> IntArray:
    """The histograms of the leaves, where at most the total number of groups is public."""
    decided = _topmost(noisy[:2], domain.total)
    for above, level in pairwise(noisy[1:]):
        # In a row of the transposed table, which is of one size, the children of one parent are a family.
        width, children = domain.width, len(level.values)
        families = children_offsets(above.first_leaf, level.first_leaf)
        begins = np.arange(width)[:, None] * children + families[:-1]
        offsets = np.append(begins.reshape(-1), width * children)
        fitted = simplex.euclidean_families(level.values.T.reshape(-1), offsets, decided.T.reshape(-1))
        decided = fitted.reshape(width, children).T
    return np.ascontiguousarray(decided)


def _topmost(noisy: Sequence[NoisyLevel], total: int | None) -> IntArray:
    """The two topmost levels, fitted at once: the histograms of the lower one, int64 (nodes, sizes)."""
    parent, values = size_forest(noisy)
    width = noisy[0].values.shape[1]
    real = tree.project(parent, values, forest_weights(noisy), total=total, integer=False)
    by_size = np.maximum(real[:-1].reshape(width, -1), 0)
    groups = round(float(by_size[:, 0].sum())) if total is None else total
    rounded_root = round_families(by_size[:, 0], np.array([0, width]), np.array([groups]))
    if len(noisy) == 1:
        return rounded_root[None, :]
    children = by_size.shape[1] - 1
    below = round_families(by_size[:, 1:].reshape(-1), offsets_of(np.full(width, children)), rounded_root)
    return below.reshape(width, children).T


def _with_public_groups(domain: SizesDomain, noisy: Sequence[NoisyLevel]) -> IntArray:
    """The histograms of the leaves, where the number of groups of every node is public."""
    groups = [cast(IntArray, domain.groups[level.depth]) for level in noisy]
    itself = np.arange(len(noisy[0].values) + 1)
    if len(noisy) == 1:
        return margins.project([noisy[0].values], [itself], groups[0])
    weights = [float(w) for w in level_weights(noisy[:2])]
    top = [children_offsets(noisy[0].first_leaf, noisy[1].first_leaf), np.arange(len(noisy[1].values) + 1)]
    decided = margins.project([level.values for level in noisy[:2]], top, groups[1], weights=weights)
    from tallytree.solvers.papers import transport

    for i in range(2, len(noisy)):
        decided = transport.project(
            noisy[i].values, children_offsets(noisy[i - 1].first_leaf, noisy[i].first_leaf), decided, groups[i]
        )
    return decided
