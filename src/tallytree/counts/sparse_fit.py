"""`LeastSquares(sparsity="auto")`: nodes that are more probably 0 are dropped, where that makes counts more accurate.

What is dropped (`kept_nodes`) is chosen by the probability of every node (`counts.auto_sparsity`). Two things decide
whether counts become more accurate by that:

* Records that are in dropped leaves are counted at other leaves of the same parent. Where they are many, leaves are no
  better for it and the levels above are worse. So nothing is dropped where more than `MOST_IN_DROPPED` of all records
  are expected there, nor where more than `auto_sparsity.MAX_SHARE` of the leaves are not 0.
* The leaves that are kept do not add up to what their ancestors have. So an inner node below which that is expected to
  matter (`LEAST_MISSING`) is fitted to its count in the fit of all nodes, and not to its measurement and its kept
  descendants.

`docs/decisions/0037-auto-sparsity.md` has the figures, and on which data the constants were chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallytree.compute.arrays import BoolArray, FloatArray, IntArray
from tallytree.counts.auto_sparsity import Known, known_of, sparsity_of
from tallytree.counts.fitting import combined, fitted, reprojected, supported
from tallytree.counts.listed_errors import listed_errors
from tallytree.counts.measured_level import MeasuredLevel, without
from tallytree.counts.released_counts import ListedErrors
from tallytree.solvers.sparse_posterior import probable

LEAST_PROBABILITY = 0.5
"""A node is kept if it is not 0 with at least this probability: then the expected square of its error is smaller."""
SURELY_KEPT = 3.5
"""κ of what is kept in any case: what the data show so clearly, a wrong model must not drop."""
MOST_IN_DROPPED = 0.25
"""The most of all records that may be expected in leaves that are dropped."""
LEAST_MISSING = 0.5
"""In standard deviations of a node's count in the fit of all nodes."""
FIRMNESS = 30.0
"""What the weight of a node is multiplied by that is fitted to its count in the fit of all nodes."""

NOTHING_MEASURED: Mapping[str, Any] = {
    "applied": False,
    **dict.fromkeys(("leaves_not_zero", "clustering", "in_dropped", "unlisted_below")),
}
"""What the statement says where nothing below the root was measured, or too much to look at."""


@dataclass(frozen=True, eq=False)
class SparseFit:
    """Levels of which nodes were dropped.

    Attributes:
        levels: the measured levels with their counts.
        errors: of their nodes, level by level.
    """

    levels: list[MeasuredLevel]
    errors: list[ListedErrors]


def sparse_fit(
    levels: Sequence[MeasuredLevel], whole: Sequence[MeasuredLevel], sizes: Sequence[int]
) -> tuple[SparseFit | None, Mapping[str, Any]]:
    """The fit without the nodes that are probably 0, and what the statement says of it; None where nothing is dropped.

    Args:
        levels: all measured levels, root first, with what was left out; the root's count is not 0.
        whole: the same levels in the fit of all nodes.
        sizes: the number of nodes of each of them in the public tree.
    """
    found = sparsity_of(levels, sizes)
    about = {
        **found.facts(),
        "in_dropped": None,
        "unlisted_below": found.nine_in_ten_below(float(levels[0].counts[0]), sizes[-1]),
    }
    if not found.few:
        return None, {"applied": False, **about}
    known = known_of(levels, sizes, found)
    kept = np.concatenate(supported(levels, SURELY_KEPT**2))
    kept |= probable(known.tree.first_child, known.posterior.probability, LEAST_PROBABILITY)
    at = known.levels
    mass = (known.posterior.probability * np.maximum(known.posterior.mean, 0))[at[-1]]
    in_dropped = max(1 - float(mass[kept[at[-1]]].sum()) / float(levels[0].counts[0]), 0.0)
    applied = in_dropped <= MOST_IN_DROPPED
    facts = {"applied": applied, **about, "in_dropped": float(f"{in_dropped:.3g}")}
    if not applied:
        return None, facts
    missing = _sums(levels, np.where(kept[at[-1]], 0.0, mass))
    targets, firm = _targets(levels, whole, missing)
    by_level = [kept[part] for part in at]
    smaller = reprojected(without(levels, by_level))
    places = [_places(level.nodes, of.nodes) for level, of in zip(smaller, levels, strict=True)]
    chosen = fitted(
        smaller,
        [target[place] for target, place in zip(targets, places, strict=True)],
        [np.where(each[place], FIRMNESS, 1.0) for each, place in zip(firm, places, strict=True)],
    )
    errors = listed_errors(levels, known, _least_probability(known), sure=SURELY_KEPT)
    return SparseFit(
        chosen, [each.at(_places(a.nodes, b.nodes)) for each, a, b in zip(errors, chosen, levels, strict=True)]
    ), facts


def _targets(
    levels: Sequence[MeasuredLevel], whole: Sequence[MeasuredLevel], missing: Sequence[FloatArray]
) -> tuple[list[IntArray], list[BoolArray]]:
    """Per level, what each node is fitted to, and whether that is its count in the fit of all nodes."""
    targets, firm = [], []
    for level, fit, gone, variance in zip(levels, whole, missing, combined(levels).nodes, strict=True):
        counts = np.zeros(len(level.nodes), dtype=np.int64)
        counts[_places(fit.nodes, level.nodes)] = fit.counts
        firm.append(gone > LEAST_MISSING * np.sqrt(variance))
        targets.append(np.where(firm[-1], counts, level.noisy))
    targets[-1], firm[-1] = levels[-1].noisy, np.zeros(len(levels[-1].nodes), dtype=np.bool_)
    return targets, firm


def _sums(levels: Sequence[MeasuredLevel], leaves: FloatArray) -> list[FloatArray]:
    """Per level, the sums over the leaves below each node."""
    found = [leaves]
    for level in levels[:0:-1]:
        found.append(np.bincount(level.parents, found[-1], minlength=len(level.families)).astype(np.float64))
    return found[::-1]


def _places(nodes: IntArray, among: IntArray) -> IntArray:
    """Where each node is among others that hold it: int64 (n,)."""
    order = np.argsort(among)
    places: IntArray = order[np.searchsorted(among, nodes, sorter=order)]
    return places


def _least_probability(known: Known) -> FloatArray:
    """With which probability of being not 0 each node is kept, all other measurements as they are.

    It is ½, or less where the node is the likeliest of its siblings; but its parent is to be kept too. Of a parent that
    is not 0 with probability r where the node is 0, the probability is p + r·(1 − p) with the node's p.
    """
    probability, first = known.posterior.probability, known.tree.first_child
    found = np.full(len(probability), LEAST_PROBABILITY)
    parents = np.flatnonzero(first[1:] > first[:-1])
    starts = first[parents]
    most = np.maximum.reduceat(probability, starts)
    sizes = first[parents + 1] - starts
    children = np.arange(known.tree.roots, len(probability))
    best = probability[children] == np.repeat(most, sizes)
    others = np.where(best, -1.0, probability[children])
    second = np.maximum(np.maximum.reduceat(others, starts - known.tree.roots), 0.0)
    found[children] = np.where(best, np.minimum(np.repeat(second, sizes), LEAST_PROBABILITY), LEAST_PROBABILITY)
    parent = np.full(len(probability), -1)
    parent[children] = np.repeat(parents, sizes)
    for level in known.levels[1:]:
        above, p = parent[level], probability[level]
        without_it = np.clip((probability[above] - p) / np.maximum(1 - p, 1e-12), 0.0, 1 - 1e-12)
        found[level] = np.maximum(found[level], (found[above] - without_it) / (1 - without_it))
    return found
