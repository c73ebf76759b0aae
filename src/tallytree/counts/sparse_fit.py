"""`LeastSquares(sparsity="auto")`: nodes that are more probably 0 are dropped, where that makes counts more accurate.

What is dropped is chosen by the probability of every node (`counts.auto_sparsity`). Two things decide whether counts
become more accurate by that:

* Records that are in dropped leaves are counted at other leaves of the same parent, and false counts at dropped leaves
  go away. With D records in dropped leaves, and X counted there by the fit of all nodes, the error of the leaves rises
  by about 2·D and falls by up to 2·X. So nothing is dropped where D is larger than `MOST_IN_DROPPED` times X, nor where
  more than `auto_sparsity.MAX_SHARE` of the leaves are not 0. D is what the model expects there, or what is missing of
  the total beside the kept leaves, whichever is more: the second holds whatever the model is.
* The leaves that are kept do not add up to what their ancestors have. So an inner node below which that is expected to
  matter (`LEAST_MISSING`) is fitted to its count in the fit of all nodes, and not to its measurement and its kept
  descendants.

`docs/decisions/0037-auto-sparsity.md` has the figures, and on which data the constants were chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallytree.counts.listed_errors import Known, Rule, known_of, listed_errors, sparsity_of
from tallytree.counts.measured_level import MeasuredLevel, combined, fitted, reprojected, supported, without
from tallytree.counts.released_counts import ListedErrors
from tallytree.solvers.trees.sparse_posterior import probable
from tallytree.support.arrays import BoolArray, FloatArray, IntArray

LEAST_PROBABILITY = 0.5
"""A node is kept if it is not 0 with at least this probability: then the expected square of its error is smaller."""
SURELY_KEPT = 3.5
"""κ of what is kept in any case: what the data show so clearly, a wrong model must not drop."""
MOST_IN_DROPPED = 1.25
"""Times what the fit of all nodes counts in leaves that are dropped: the most records that may be there."""
LEAST_MISSING = 0.5
"""In standard deviations of a node's count in the fit of all nodes."""
FIRMNESS = 30.0
"""What the weight of a node is multiplied by that is fitted to its count in the fit of all nodes."""

ONE_IN_TEN = 1.2816
"""Standard deviations that a normal variable exceeds with a probability of a tenth."""
SURELY_AT_MOST = 0.05
"""Of the intervals of listed leaves, where a sum of thousands of them is not to be too large by their bias."""

NOTHING_MEASURED: Mapping[str, Any] = {
    "applied": False,
    **dict.fromkeys(
        ("leaves_not_zero", "clustering", "in_dropped", "counted_there", "unlisted_below", "unlisted_at_most")
    ),
}
"""What the statement says where nothing below the root was measured, or too much to look at."""


@dataclass(frozen=True, eq=False)
class SparseFit:
    """The measured levels as they are published.

    Attributes:
        levels: with their counts.
        errors: of their nodes, level by level.
        facts: what the statement says of the choice.
    """

    levels: Sequence[MeasuredLevel]
    errors: list[ListedErrors]
    facts: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class NothingDropped:
    """Why the fit of all nodes is published.

    Attributes:
        facts: what the statement says of the choice.
        known: what the measurements say of the nodes, where few leaves are not 0.
    """

    facts: Mapping[str, Any]
    known: Known | None = None


def sparse_fit(
    levels: Sequence[MeasuredLevel], whole: Sequence[MeasuredLevel], sizes: Sequence[int]
) -> SparseFit | NothingDropped:
    """The fit without the nodes that are probably 0, where that is more accurate.

    Args:
        levels: all measured levels, root first, with what was left out; the root's count is not 0.
        whole: the same levels in the fit of all nodes.
        sizes: the number of nodes of each of them in the public tree.
    """
    found = sparsity_of(levels, sizes)
    about = {**NOTHING_MEASURED, **found.facts()}
    if not found.few:
        return NothingDropped(about)
    known = known_of(levels, sizes, found)
    total = float(levels[0].counts[0])
    kept = np.concatenate(supported(levels, SURELY_KEPT**2))
    kept |= probable(known.tree.first_child, known.posterior.probability, LEAST_PROBABILITY)
    by_level = [kept[part] for part in known.levels]
    errors = listed_errors(levels, Rule(known, _least_probability(known), sure=SURELY_KEPT).least(), zero=known.zero)
    missing, in_dropped = expected_in(known, errors, total, by_level[-1])
    counts, firm = firm_counts(levels, whole, missing, errors)
    counted = counts[-1][~by_level[-1]].sum()
    about |= {"in_dropped": _share(in_dropped / total), "counted_there": _share(counted / total)}
    if in_dropped > MOST_IN_DROPPED * counted:
        return NothingDropped(about, known)
    targets = [np.where(each, count, level.noisy) for each, count, level in zip(firm, counts, levels, strict=True)]
    smaller = reprojected(without(levels, by_level))
    places = [places_of(level.nodes, of.nodes) for level, of in zip(smaller, levels, strict=True)]
    chosen = fitted(
        smaller,
        [target[place] for target, place in zip(targets, places, strict=True)],
        [np.where(each[place], FIRMNESS, 1.0) for each, place in zip(firm, places, strict=True)],
    )
    return _published(chosen, levels, errors, sizes[-1], {**about, "applied": True})


def whole_fit(
    levels: Sequence[MeasuredLevel], whole: Sequence[MeasuredLevel], leaves: int, nothing: NothingDropped | None = None
) -> SparseFit:
    """The fit of all nodes. A node is listed where IntOpt left it positive.

    Where nothing was dropped that might have been, the total is its unbiased estimate. In the least-squares fit,
    children that are 0 pull it upward, because they are there only where their noise is positive.

    Args:
        levels: the measured levels, root first, with what was left out.
        whole: the same in the fit.
        leaves: the number of leaves of the public tree.
        nothing: why nothing was dropped; None where there was no choice.
    """
    errors = listed_errors(levels, zero=None if nothing is None or nothing.known is None else nothing.known.zero)
    if nothing is not None and levels[0].variance > 0:
        targets, factors = [level.noisy for level in levels], [np.ones(len(level.nodes)) for level in levels]
        targets[0], factors[0] = unbiased_total(errors), np.full(1, FIRMNESS)
        whole = fitted(levels, targets, factors)
    return _published(whole, levels, errors, leaves, {} if nothing is None else nothing.facts)


def unbiased_total(errors: Sequence[ListedErrors]) -> IntArray:
    """The integer nearest to the unbiased estimate of the root, which is not 0: int64 (1,)."""
    found: IntArray = np.maximum(np.rint(errors[0].unbiased).astype(np.int64), 1)
    return found


def _published(
    chosen: Sequence[MeasuredLevel],
    levels: Sequence[MeasuredLevel],
    errors: Sequence[ListedErrors],
    leaves: int,
    about: Mapping[str, Any],
) -> SparseFit:
    """The chosen fit with the errors of its nodes, and what nine in ten leaves that are not listed are below."""
    places = [places_of(level.nodes, of.nodes) for level, of in zip(chosen, levels, strict=True)]
    found = [each.at(at) for each, at in zip(errors, places, strict=True)]
    return SparseFit(chosen, found, {**about, **_of_unlisted(errors[0], found[-1], leaves)})


def _of_unlisted(root: ListedErrors, listed: ListedErrors, leaves: int) -> dict[str, Any]:
    """What nine in ten leaves that are not listed are below, and the share of records in them; None where all are.

    If more than a tenth of them had N or more, they would have more than N/10 each on average (Markov's inequality).
    """
    unlisted = leaves - len(listed.unbiased)
    if unlisted <= 0:
        return {"unlisted_below": None, "unlisted_at_most": None}
    share = share_unlisted(root, listed)
    records = share * max(float(root.unbiased[0]), 1.0)
    return {"unlisted_below": max(1, math.ceil(10 * records / unlisted)), "unlisted_at_most": _share(share)}


def share_unlisted(root: ListedErrors, listed: ListedErrors) -> float:
    """The share of records in leaves that are not listed, at most, nine times in ten.

    It is what the total has beside the listed leaves, each without the bias of listing, and the noise of both.
    """
    noise = math.sqrt(float((listed.std_dev**2).sum()) + float(root.std_dev[0]) ** 2)
    records = float(root.unbiased[0] - listed.bounds(SURELY_AT_MOST)[0].sum()) + ONE_IN_TEN * noise
    return min(max(records / max(float(root.unbiased[0]), 1.0), 0.0), 1.0)


def _share(value: float) -> float:
    return float(f"{value:.3g}")


def counts_of(fit: MeasuredLevel, level: MeasuredLevel) -> IntArray:
    """The count of every node of a level in a fit that has some of them, int64 (n,)."""
    counts = np.zeros(len(level.nodes), dtype=np.int64)
    counts[places_of(fit.nodes, level.nodes)] = fit.counts
    return counts


def firm_counts(
    levels: Sequence[MeasuredLevel],
    whole: Sequence[MeasuredLevel],
    missing: FloatArray,
    errors: Sequence[ListedErrors],
) -> tuple[list[IntArray], list[BoolArray]]:
    """Per level, the counts of the fit of all nodes, and which nodes are to keep theirs.

    The root's is its unbiased estimate: what is kept of leaves that are 0 pulls the total upward.

    Args:
        levels: the measured levels, root first.
        whole: the same in the fit of all nodes.
        missing: float64 (leaves,), what is expected in each leaf that is not listed; 0 in others.
        errors: of all nodes, level by level.

    Returns:
        Inner nodes below which so much is missing that it matters to their count. No leaf.
    """
    sums = [missing]
    for level in levels[:0:-1]:
        sums.append(np.bincount(level.parents, sums[-1], minlength=len(level.families)).astype(np.float64))
    variances = combined(levels).nodes
    firm = [gone > LEAST_MISSING * np.sqrt(u) for gone, u in zip(sums[::-1], variances, strict=True)]
    firm[-1] = np.zeros(len(levels[-1].nodes), dtype=np.bool_)
    fits = [counts_of(fit, level) for fit, level in zip(whole, levels, strict=True)]
    fits[0] = unbiased_total(errors)
    return fits, firm


def expected_in(
    known: Known, errors: Sequence[ListedErrors], total: float, listed: BoolArray
) -> tuple[FloatArray, float]:
    """What is expected in each leaf that is not listed, float64 (leaves,), and how much it is in all.

    It is what the model says, or more where more is missing of the total beside the listed leaves, each without the
    bias of listing.

    Args:
        known: what the measurements say of the nodes.
        errors: of all nodes, level by level.
        total: the count of the root.
        listed: bool (leaves,), which leaves are listed.
    """
    mass = (known.posterior.probability * np.maximum(known.posterior.mean, 0))[known.levels[-1]]
    expected = max(total - float(mass[listed].sum()), 0.0)
    missing = float(errors[0].unbiased[0] - errors[-1].centers()[listed].sum())
    return np.where(listed, 0.0, mass * max(missing / max(expected, 1.0), 1.0)), max(expected, missing)


def places_of(nodes: IntArray, among: IntArray) -> IntArray:
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
    parents = np.flatnonzero(known.tree.inner)
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
