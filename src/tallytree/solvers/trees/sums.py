"""The variance of any sum of nodes of a tree once all that was measured is combined by least squares.

Let x be the counts of the nodes without measured children, and y = Bx + noise what was measured of all nodes, with the
variances W. The least-squares estimate has the covariance (BᵀW⁻¹B)⁻¹, so the estimate of a sum cᵀx has the variance
cᵀ(BᵀW⁻¹B)⁻¹c. This module computes it without any matrix, in one pass from the leaves to the root.

Of a node v, let t be its count and s the part of the sum that lies below it. Given what was measured below v and at v,
t and s are normal: t has the variance a_v (`tree_variance`), and s = β_v·t + a rest that does not depend on t, of
variance ρ_v. The measurement of v itself changes neither β_v nor ρ_v, since it is of t alone. With A = Σ a over the
children c of v:

    a node that lies in the sum as a whole   β = 1, ρ = 0
    a node that has nothing of the sum       β = 0, ρ = 0
    any other                                β_v = Σ_c a_c·β_c / A      ρ_v = Σ_c (ρ_c + a_c·(β_c − β_v)²)
    the sum                                  variance = ρ + β²·a of the root

Every term is ≥ 0, so nothing cancels. Only the nodes above and in a sum are visited; time and memory are linear in
their number. The same values come from the Census Bureau's two-pass generalised least squares with covariances (arXiv
2404.13164), which computes the covariances of pairs of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tallytree.solvers.trees.variance import upward_variances
from tallytree.support.arrays import FloatArray, IntArray


class InSums(NamedTuple):
    """What of one level lies in which sum, as a whole.

    A sum may have a node twice, or a node and its descendant: what is in both then counts twice. So the variance of two
    sums together is that of one sum, and their covariance is half of what it has more than theirs.

    Attributes:
        sums: int64 (k,), the sum of each entry.
        nodes: int64 (k,), the node of the level that lies in it.
        others_sums: int64 (j,), the sum of each entry about other children (see `sum_variances`).
        others_parents: int64 (j,), the parent of these children, a node of the level above.
        others_numbers: int64 (j,), how many of its other children lie in the sum; each of them is in one entry.
        others_times: int64 (j,), how often they count; None for once.
    """

    sums: IntArray
    nodes: IntArray
    others_sums: IntArray
    others_parents: IntArray
    others_numbers: IntArray
    others_times: IntArray | None = None


def sum_variances(
    first_child: Sequence[IntArray],
    own: Sequence[float] | FloatArray,
    others: Sequence[IntArray],
    inside: Sequence[InSums],
    n: int,
) -> FloatArray:
    """The variance of every sum after least squares over all of the tree; see the module's docstring.

    Args:
        first_child: per level but the last, int64 (nodes + 1,): node i has the children first_child[i] …
            first_child[i + 1] − 1 of the next level, at least one.
        own: (levels,) the variance of each level's own noise; 0 at the root where its value is given.
        others: per level but the last, int64 (nodes,): how many more children of each node were measured, none of which
            has measured children of its own.
        inside: per level, what lies in which sum.
        n: how many sums there are, numbered 0 … n − 1.

    Returns:
        float64 (n,); 0 for a sum of nothing.

    Raises:
        ValueError: an entry is about a node, a parent or a sum that does not exist, or about more children than a
            parent has.
    """
    noise = np.asarray(own, dtype=np.float64)
    a, families = upward_variances(first_child, noise, others)
    _check(a, others, inside, n)
    nothing = np.zeros(0, dtype=np.int64)
    here = _joined(_Nodes(nothing, nothing, np.zeros(0), np.zeros(0)), _whole(inside[-1]))
    for depth in range(len(noise) - 2, -1, -1):
        below = inside[depth + 1]
        parent = np.searchsorted(first_child[depth], here.nodes, side="right") - 1
        entries = _Entries(
            np.concatenate([here.sums, below.others_sums]),
            np.concatenate([parent, below.others_parents]),
            np.concatenate([a[depth + 1][here.nodes], below.others_numbers * noise[depth + 1]]),
            np.concatenate([np.ones_like(parent), below.others_numbers]),
            np.concatenate([here.beta, _times(below)]),
            np.concatenate([here.rest, np.zeros(len(below.others_sums))]),
        )
        children = np.diff(first_child[depth]) + others[depth]
        here = _joined(_above(entries, families[depth], children), _whole(inside[depth]))
    found = np.zeros(n)
    found[here.sums] = here.rest + here.beta**2 * a[0][0] if len(a[0]) else 0.0
    return found


class _Nodes(NamedTuple):
    """β and ρ of the nodes of a level that have something of a sum: one entry for a sum and a node."""

    sums: IntArray
    nodes: IntArray
    beta: FloatArray
    rest: FloatArray


class _Entries(NamedTuple):
    """Children of some nodes, for each sum: their parent, the sum of their a, how many they are, β and ρ."""

    sums: IntArray
    parents: IntArray
    a: FloatArray
    numbers: IntArray
    beta: FloatArray
    rest: FloatArray


def _times(inside: InSums) -> FloatArray:
    """How often the entries about other children count."""
    if inside.others_times is None:
        return np.ones(len(inside.others_sums))
    return inside.others_times.astype(np.float64)


def _whole(inside: InSums) -> _Nodes:
    return _Nodes(inside.sums, inside.nodes, np.ones(len(inside.sums)), np.zeros(len(inside.sums)))


def _joined(first: _Nodes, second: _Nodes) -> _Nodes:
    """Both: a node that is in both, or twice in one, has the sum of its β; what it has as a whole has no rest."""
    sums, nodes = np.concatenate([first.sums, second.sums]), np.concatenate([first.nodes, second.nodes])
    beta, rest = np.concatenate([first.beta, second.beta]), np.concatenate([first.rest, second.rest])
    if not len(sums):
        return first
    order = np.lexsort((nodes, sums))
    sums, nodes = sums[order], nodes[order]
    starts = np.flatnonzero(np.concatenate([[True], (sums[1:] != sums[:-1]) | (nodes[1:] != nodes[:-1])]))
    return _Nodes(
        sums[starts], nodes[starts], np.add.reduceat(beta[order], starts), np.add.reduceat(rest[order], starts)
    )


def _above(entries: _Entries, families: FloatArray, children: IntArray) -> _Nodes:
    """β and ρ of the parents; `families` has A, and `children` how many children were measured, of every parent."""
    if not len(entries.sums):
        return _Nodes(entries.sums, entries.parents, entries.beta, entries.rest)
    order = np.lexsort((entries.parents, entries.sums))
    sums, parents, numbers = entries.sums[order], entries.parents[order], entries.numbers[order]
    a, beta, rest = entries.a[order], entries.beta[order], entries.rest[order]
    new = np.concatenate([[True], (sums[1:] != sums[:-1]) | (parents[1:] != parents[:-1])])
    starts = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    parent = parents[starts]
    # Where all children lie in the sum, so does the parent: exactly, whatever the sums below round to.
    complete = np.add.reduceat(numbers, starts) == children[parent]
    least, most = np.minimum.reduceat(beta, starts), np.maximum.reduceat(beta, starts)
    total = families[parent]
    above = np.where(complete & (least == most), least, np.add.reduceat(a * beta, starts) / total)
    untouched = np.where(complete, 0.0, np.maximum(total - np.add.reduceat(a, starts), 0.0))
    spread = np.add.reduceat(rest + a * (beta - above[group]) ** 2, starts) + untouched * above**2
    return _Nodes(sums[starts], parent, above, spread)


def _check(a: Sequence[FloatArray], others: Sequence[IntArray], inside: Sequence[InSums], n: int) -> None:
    if len(inside) != len(a) or len(others) != len(a) - 1:
        raise ValueError(f"inside: {len(inside)} levels and others: {len(others)} must be {len(a)} and {len(a) - 1}")
    for depth, level in enumerate(inside):
        above = len(a[depth - 1]) if depth else 0
        limits = ((level.sums, n), (level.nodes, len(a[depth])), (level.others_sums, n), (level.others_parents, above))
        for numbers, limit in limits:
            if len(numbers) and not 0 <= numbers.min() <= numbers.max() < limit:
                raise ValueError(
                    f"inside: {int(numbers.min())} … {int(numbers.max())} at level {depth} must lie between 0 and "
                    f"{limit - 1}"
                )
        if depth and (level.others_numbers > others[depth - 1][level.others_parents]).any():
            raise ValueError(f"inside: more other children at level {depth} than a parent has; count each of them once")
