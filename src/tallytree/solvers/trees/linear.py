"""What every node of a tree is estimated to be, and how surely, once all measurements are combined by least squares.

**Variances.**

    upward      1/a_v = 1/w_v + 1/Σ_children a_c        (a leaf: a = w, the variance of its own noise)
    downward    u_c = a_c − a_c²/A + (a_c/A)²·u_v       with A the sum of a over the children of v (the root: u = a)

Hay et al. 2010 (section 4) give the estimate for equal variances; this is its variance for any. Where levels are fitted
from the root down only, each given the one above, a = w at every level (`downward_variances`).

**Estimates.** The numbers that have these variances; nothing is kept non-negative, so each is unbiased. With a, A and w
as there, S the sum of the x of a node's children, and X what is found in the end,

    upward      x_v = a_v · (y_v/w_v + S/A)        (a leaf: x = y)
    downward    X_c = x_c + (a_c/A) · (X_v − S)    (the root: X = x)

Source: Hay et al. 2010, section 4, for any variances.

**Sums of nodes.** Let x be the counts of the nodes without measured children, and y = Bx + noise what was measured of
all nodes, with the variances W. The least-squares estimate has the covariance (BᵀW⁻¹B)⁻¹, so the estimate of a sum cᵀx
has the variance cᵀ(BᵀW⁻¹B)⁻¹c. `sum_variances` computes it without any matrix, in one pass from the leaves to the root.

Of a node v, let t be its count and s the part of the sum that lies below it. Given what was measured below v and at v,
t and s are normal: t has the variance a_v (above), and s = β_v·t + a rest that does not depend on t, of variance ρ_v.
The measurement of v itself changes neither β_v nor ρ_v, since it is of t alone. With A = Σ a over the children c of v:

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
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.support.arrays import FloatArray, IntArray, NumberArray


class Combined(NamedTuple):
    """Variances, level by level.

    Attributes:
        nodes: per level, float64 (n,), u of every node.
        families: per level but the last, float64 (n,), A of every node's children.
    """

    nodes: list[FloatArray]
    families: list[FloatArray]

    def of_a_child(self, depth: int, own: float) -> FloatArray:
        """Float64 (n,): u of a child of each node of level `depth` that has no measured children; `own` is its w."""
        return _share(np.float64(own), self.families[depth], self.nodes[depth])


def combined_variances(
    first_child: Sequence[IntArray], own: npt.ArrayLike, others: Sequence[IntArray] | None = None
) -> Combined:
    """The variance of every node of a tree after least squares over all of it; see the module's docstring.

    Args:
        first_child: per level but the last, int64 (n + 1,): node i has the children first_child[i] … first_child[i + 1]
            − 1 of the next level, at least one.
        own: (levels,) w, the variance of each level's own noise; 0 at the root where its value is given.
        others: per level but the last, int64 (n,): how many more children of each node were measured, none of which
            has measured children of its own.
    """
    noise = np.asarray(own, dtype=np.float64)
    upward, sums = upward_variances(first_child, noise, others)
    found = [upward[0]]
    for depth in range(1, len(noise)):
        children = np.diff(first_child[depth - 1])
        found.append(_share(upward[depth], np.repeat(sums[depth - 1], children), np.repeat(found[-1], children)))
    return Combined(found, sums)


def upward_variances(
    first_child: Sequence[IntArray], noise: FloatArray, others: Sequence[IntArray] | None = None
) -> tuple[list[FloatArray], list[FloatArray]]:
    """The variance a of every node given what was measured below it and of it, and A of the children of every node.

    Args and levels as in `combined_variances`; `noise` is its `own`.
    """
    leaves = int(first_child[-1][-1]) if first_child else 1
    upward = [np.full(leaves, noise[-1])]
    sums: list[FloatArray] = []
    for depth in range(len(noise) - 2, -1, -1):
        total = np.add.reduceat(upward[-1], first_child[depth][:-1])
        if others is not None:
            total += others[depth] * noise[depth + 1]
        sums.append(total)
        upward.append(noise[depth] * total / (noise[depth] + total))
    return upward[::-1], sums[::-1]


def downward_variances(first_child: Sequence[IntArray], own: npt.ArrayLike) -> list[FloatArray]:
    """The variance of every node where a family's difference from its parent is shared out evenly, root first.

    Args:
        first_child: see `combined_variances`.
        own: (levels,) the variance of each level's own noise; 0 at the root where its value is given.

    Returns:
        Per level, float64 (n,).
    """
    noise = np.asarray(own, dtype=np.float64)
    found = [np.full(1, noise[0])]
    for offsets, below in zip(first_child, noise[1:], strict=True):
        children = np.diff(offsets)
        found.append(_share(np.float64(below), np.repeat(children * below, children), np.repeat(found[-1], children)))
    return found


def mean_family_variances(nodes: Sequence[int], own: npt.ArrayLike, *, upward: bool) -> list[float]:
    """The variance of a node of each level of a tree whose families of one level all have the mean size, root first.

    Args:
        nodes: (levels,) how many nodes each level has.
        own: (levels,) the variance of each level's own noise; 0 at the root where its value is given.
        upward: whether the measurements of a node's descendants correct the node; else as in `downward_variances`.
    """
    up = [float(each) for each in np.asarray(own, dtype=np.float64)]
    sizes = [below / above for above, below in pairwise(nodes)]
    if upward:
        for depth in range(len(up) - 2, -1, -1):
            total = sizes[depth] * up[depth + 1]
            up[depth] = up[depth] * total / (up[depth] + total)
    found = up[:1]
    for size, a in zip(sizes, up[1:], strict=True):
        found.append(a * (1 - 1 / size) + found[-1] / size**2)
    return found


def _share(a: FloatArray | np.float64, total: FloatArray, above: FloatArray) -> FloatArray:
    # Not a − a²/A, which can round to less than 0.
    return a * ((total - a) / total) + (a / total) ** 2 * above


class TreeEstimates(NamedTuple):
    """Estimates, level by level.

    Attributes:
        nodes: per level, float64 (n,), X of every node.
        shifts: per level but the last, float64 (n,), what a child of each node that has no measured children gets in
            addition to its own measurement: (w/A)·(X_v − S).
    """

    nodes: list[FloatArray]
    shifts: list[FloatArray]


def combined_estimates(
    first_child: Sequence[IntArray],
    own: npt.ArrayLike,
    noisy: Sequence[npt.NDArray[np.number]],
    others: Sequence[IntArray],
    other_sums: Sequence[FloatArray],
) -> TreeEstimates:
    """The least-squares estimate of every node of a tree; see the module's docstring.

    Args:
        first_child: see `combined_variances`.
        own: (levels,) w, the variance of each level's own noise; 0 at the root where its value is given.
        noisy: per level, (n,) y.
        others: per level but the last, int64 (n,): how many more children of each node were measured, none of which has
            measured children of its own.
        other_sums: per level but the last, float64 (n,): the sum of their measurements.

    Example:
        A root measured as 10 and its two children as 4 and 9, all with the same noise:

        >>> two = combined_estimates([np.array([0, 2])], [1, 1], [np.array([10]), np.array([4, 9])],
        ...                          [np.zeros(1, int)], [np.zeros(1)])
        >>> [each.tolist() for each in two.nodes]
        [[11.0], [3.0, 8.0]]
    """
    noise = np.asarray(own, dtype=np.float64)
    upward, totals = upward_variances(first_child, noise, others)
    x = [np.asarray(level, dtype=np.float64) for level in noisy]
    sums: list[FloatArray] = [np.empty(0)] * len(first_child)
    for depth in range(len(noise) - 2, -1, -1):
        sums[depth] = np.add.reduceat(x[depth + 1], first_child[depth][:-1]) + other_sums[depth]
        if noise[depth] > 0:
            share = upward[depth] / noise[depth]
            x[depth] = share * x[depth] + (1 - share) * sums[depth]
    shifts = []
    for depth in range(len(first_child)):
        missing = (x[depth] - sums[depth]) / totals[depth]
        shifts.append(noise[depth + 1] * missing)
        x[depth + 1] = x[depth + 1] + upward[depth + 1] * np.repeat(missing, np.diff(first_child[depth]))
    return TreeEstimates(x, shifts)


class InSums(NamedTuple):
    """What of one level lies in which sum, as a whole.

    A sum may have a node twice, or a node and its descendant: what is in both then counts twice. So the variance of two
    sums together is that of one sum, and their covariance is half of what it has more than theirs. Weights count a node
    more or less often: the proof above holds for any β of what lies in a sum as a whole.

    Attributes:
        sums: int64 (k,), the sum of each entry.
        nodes: int64 (k,), the node of the level that lies in it.
        others_sums: int64 (j,), the sum of each entry about other children (see `sum_variances`).
        others_parents: int64 (j,), the parent of these children, a node of the level above.
        others_numbers: int64 (j,), how many of its other children lie in the sum; each of them is in one entry.
        others_times: (j,), how often they count; None for once.
        weights: float64 (k,), how often each node counts; None for once.
    """

    sums: IntArray
    nodes: IntArray
    others_sums: IntArray
    others_parents: IntArray
    others_numbers: IntArray
    others_times: NumberArray | None = None
    weights: FloatArray | None = None


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
    weights = np.ones(len(inside.sums)) if inside.weights is None else inside.weights
    return _Nodes(inside.sums, inside.nodes, weights, np.zeros(len(inside.sums)))


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
