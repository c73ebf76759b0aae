"""Optimal matching of a parent's groups with its children's groups, and the merge of their sizes, on runs.

A run is a number of groups of one size and one variance. Runs are never expanded to single groups, so cost grows with
the number of distinct sizes.

Source: Kuo et al. 2018, sections 5.2 (Algorithm 2, Lemma 5) and 5.3 (equations 5 and 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_SUM, check_integers, check_offsets
from tallytree.solvers.exact import share as exact_share
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernel_arrays import enlarged, enlarged_rows, put, stable_order
from tallytree.support.kernels import inlined, kernel


@kernel
def owners(cuts: IntArray) -> IntArray:
    """The child of each run, where child c has the runs `cuts[c]:cuts[c + 1]`, counted from cuts[0]."""
    owner = np.empty(cuts[-1] - cuts[0], np.int64)
    for child in range(len(cuts) - 1):
        owner[cuts[child] - cuts[0] : cuts[child + 1] - cuts[0]] = child
    return owner


@kernel
def pair_runs(
    parent_groups: IntArray, children: int, owner: IntArray, size: Any, groups: IntArray, pairs: IntArray
) -> tuple[IntArray, int]:
    """Algorithm 2 for one family; returns (parent run, child run, groups) as rows of `pairs`, and how many.

    `owner`, `size`, `groups` describe the runs of all children, in child order. They are visited class by class: all
    runs of one size, in child order, which a stable sort gives. Invariant: everything before `run` in the parent and
    before `begin` in the children is matched, in sorted order on both sides, which is what makes the matching optimal.
    Cost: the sort, and per parent run that ends within a class the children present in it. `pairs` is a buffer to
    reuse; it doubles when full.
    """
    order = stable_order(size)
    left = groups.copy()
    cursor, number = np.empty(children, np.int64), np.empty(children, np.int64)
    share, rest = np.empty(children, np.int64), np.empty(children, np.int64)
    used = 0
    run = 0
    available = parent_groups[0] if len(parent_groups) else 0
    begin = 0
    while begin < len(order):
        present, wanted = 0, 0
        end = begin
        while end < len(order) and size[order[end]] == size[order[begin]]:
            if end == begin or owner[order[end]] != owner[order[end - 1]]:
                cursor[present] = end
                number[present] = 0
                present += 1
            number[present - 1] += left[order[end]]
            wanted += left[order[end]]
            end += 1
        begin = end
        while wanted > 0:
            while available == 0:
                run += 1
                available = parent_groups[run]
            taken = min(available, wanted)
            if taken == wanted:
                put(number[:present], share)
            else:
                extra = taken
                for j in range(present):
                    share[j], rest[j] = exact_share(taken, number[j], wanted)
                    extra -= share[j]
                if extra > 0:
                    ranked = stable_order(-rest[:present])
                    for j in ranked[:extra]:
                        share[j] += 1
            for j in range(present):
                number[j] -= share[j]
                while share[j] > 0:
                    part = order[cursor[j]]
                    moved = min(share[j], left[part])
                    left[part] -= moved
                    share[j] -= moved
                    if moved > 0:
                        if used == pairs.shape[1]:
                            pairs = enlarged_rows(pairs, used, 2 * used)
                        pairs[0, used] = run
                        pairs[1, used] = part
                        pairs[2, used] = moved
                        used += 1
                    if left[part] == 0:
                        cursor[j] += 1
            wanted -= taken
            available -= taken
    return pairs, used


@kernel
def _merge(s_p: float, v_p: float, s_c: float, v_c: float, weighted: bool) -> tuple[float, float]:
    """The step from s_p to the merged size, and its variance.

    Neither can over- or underflow on the way. The weighted mean is written as a step from s_p towards s_c, which
    divides only by v_p + v_c and is exact where it falls on a half and the variances are small integers.
    """
    if not weighted:
        return (s_c - s_p) / 2, (v_p + v_c) / 4
    if v_p + v_c == 0:
        return (s_c - s_p) / 2, 0.0
    step = (s_c - s_p) * v_p / (v_p + v_c)
    return step, min(v_p, v_c) * (max(v_p, v_c) / (v_p + v_c))


@inlined
def _landed(size: float, step: float, rounded: bool) -> float:
    """Where a step from a size ends, if `rounded` at the nearest integer, halves up; exact from an integer."""
    if not rounded:
        return size + step
    integer = np.floor(size)
    landed: float = integer + np.floor((size - integer) + step + 0.5)
    return landed


@kernel
def match_families_kernel(
    parent_offsets: IntArray,
    parent_size: FloatArray,
    parent_groups: IntArray,
    parent_variance: FloatArray,
    first_child: IntArray,
    run_offsets: IntArray,
    child_size: FloatArray,
    child_groups: IntArray,
    child_variance: FloatArray,
    weighted: bool,
    rounded: bool,
) -> tuple[IntArray, FloatArray, IntArray, FloatArray]:
    """Pairs of a family are distributed to its children by counting, then sorted and joined child by child.

    Merged sizes of a child follow the matching order under "average", but not under "weighted", hence the sort.
    """
    begin = np.zeros(len(run_offsets), np.int64)
    sizes, numbers, variances = np.empty(1024), np.empty(1024, np.int64), np.empty(1024)
    pairs = np.empty((3, 1024), np.int64)
    used = 0
    for family in range(len(first_child) - 1):
        first, last = first_child[family], first_child[family + 1]
        origin, p = run_offsets[first], parent_offsets[family]
        size = child_size[origin : run_offsets[last]]
        groups = child_groups[origin : run_offsets[last]]
        cuts = run_offsets[first : last + 1]
        owner = owners(cuts)
        here = parent_groups[p : parent_offsets[family + 1]]
        pairs, count = pair_runs(here, len(cuts) - 1, owner, size, groups, pairs)

        place = np.zeros(len(cuts), np.int64)
        for i in range(count):
            place[owner[pairs[1, i]] + 1] += 1
        place = np.cumsum(place)
        at = place.copy()
        merged, number, variance = np.empty(count), np.empty(count, np.int64), np.empty(count)
        for i in range(count):
            above, below = p + pairs[0, i], origin + pairs[1, i]
            j = at[owner[pairs[1, i]]]
            at[owner[pairs[1, i]]] += 1
            number[j] = pairs[2, i]
            step, variance[j] = _merge(
                parent_size[above], parent_variance[above], child_size[below], child_variance[below], weighted
            )
            merged[j] = _landed(parent_size[above], step, rounded)

        if used + count > len(variances):
            capacity = 2 * (used + count)
            sizes, variances = enlarged(sizes, used, capacity), enlarged(variances, used, capacity)
            numbers = enlarged(numbers, used, capacity)
        for child in range(len(cuts) - 1):
            a, b = place[child], place[child + 1]
            opened = used
            for i in _by_size_then_variance(merged[a:b], variance[a:b]) + a:
                if used > opened and sizes[used - 1] == merged[i] and variances[used - 1] == variance[i]:
                    numbers[used - 1] += number[i]
                else:
                    sizes[used], numbers[used], variances[used] = merged[i], number[i], variance[i]
                    used += 1
            begin[first + child + 1] = used
    return begin, sizes[:used].copy(), numbers[:used].copy(), variances[:used].copy()


@inlined
def _by_size_then_variance(size: FloatArray, variance: FloatArray) -> IntArray:
    """The stable order; sorting is skipped where matching order is already that, as it mostly is."""
    for i in range(1, len(size)):
        if size[i] < size[i - 1] or (size[i] == size[i - 1] and variance[i] < variance[i - 1]):
            inner = stable_order(variance)
            return inner[stable_order(size[inner])]
    return np.arange(len(size))


Merge = Literal["weighted", "average"]
Carry = Literal["unrounded", "rounded"]
MAX_SIZE = 2**52
"""Sizes below this are exact as floats, and so are their halves."""
MAX_RUN_VARIANCE = 1e280
"""A variance up to this can be multiplied by any size."""


class Runs(NamedTuple):
    """The estimated groups of one node, smallest first."""

    size: npt.ArrayLike
    """(runs,) never decreasing."""
    groups: npt.ArrayLike
    """(runs,) integers >= 0."""
    variance: npt.ArrayLike
    """(runs,) finite, >= 0: the variance of each group's size."""


class NodeRuns(NamedTuple):
    """The estimated groups of many nodes: node i has the runs `offsets[i]:offsets[i + 1]`, smallest first."""

    offsets: IntArray
    """(nodes + 1,)"""
    size: IntArray | FloatArray
    """(runs,) never decreasing within a node: int64, or float64 where sizes are carried unrounded."""
    groups: IntArray
    """(runs,) >= 0."""
    variance: FloatArray
    """(runs,) finite, >= 0."""


class Matches(NamedTuple):
    """Row i: `groups[i]` groups of the parent's run match as many of one child's run. All int64, smallest first."""

    parent_run: IntArray
    child: IntArray
    child_run: IntArray
    groups: IntArray


def match(parent: Runs | tuple[npt.ArrayLike, ...], children: Sequence[Runs | tuple[npt.ArrayLike, ...]]) -> Matches:
    """Minimise Σ |size in the parent − size in the child| over one-to-one matchings of groups.

    The smallest unmatched groups of the parent meet the smallest unmatched groups of the children. Where a run of
    the parent has fewer groups than the children have at their smallest size, the children share it in proportion
    to their numbers; largest remainders are rounded up, ties by child order. Within a child, runs of one size are
    used in the order given. Variances do not matter here.

    Args:
        parent: its runs: a `Runs`, or three arrays (size, groups, variance).
        children: the runs of each child.

    Returns:
        The matched runs; every group of either side is in exactly one row.

    Raises:
        TypeError: for groups that are not integers, or sizes or variances that are not numbers.
        ValueError: where arrays differ in length, sizes decrease or are not finite, groups or variances are negative,
            or the children have another number of groups than the parent.

    Example:
        >>> a, b, c = ([1], [200], [1.0]), ([1], [100], [1.0]), ([1, 4], [100, 50], [1.0, 1.0])
        >>> match(([1, 2], [300, 150], [1.0, 1.0]), [a, b, c]).groups.tolist()
        [150, 75, 75, 50, 25, 25, 50]
    """
    above = _one_node("parent", parent)
    parts = [_one_node(f"children[{i}]", child) for i, child in enumerate(children)]
    have, need = sum(int(part[1].sum()) for part in parts), int(above[1].sum())
    if have != need:
        raise ValueError(f"children have {have} groups in all and parent {need}; the two must be equal")
    cuts = np.concatenate(([0], np.cumsum([len(part[0]) for part in parts]))).astype(np.int64)
    size = np.concatenate([part[0] for part in parts]) if parts else np.empty(0)
    groups = np.concatenate([part[1] for part in parts]) if parts else np.empty(0, np.int64)
    owner = owners(cuts)
    pairs, used = pair_runs(above[1], len(parts), owner, size, groups, np.empty((3, 1024), np.int64))
    child = owner[pairs[1, :used]]
    return Matches(pairs[0, :used].copy(), child, pairs[1, :used] - cuts[child], pairs[2, :used].copy())


def match_families(
    parents: NodeRuns,
    first_child: npt.ArrayLike,
    children: NodeRuns,
    *,
    merge: Merge = "weighted",
    carry: Carry = "rounded",
) -> NodeRuns:
    """Match every parent with its children as `match` does, and give each child's groups their merged sizes.

    With sizes s, variances v, of the parent (p) and the child (c), a matched group gets

        "weighted"  size (s_p/v_p + s_c/v_c) / (1/v_p + 1/v_c), variance 1 / (1/v_p + 1/v_c)
        "average"   size (s_p + s_c) / 2,                        variance (v_p + v_c) / 4

    An estimate of variance 0 is taken as it is; two of them are averaged. A merged size lies between the two.

    Args:
        parents: runs of the parents.
        first_child: (parents + 1,) parent i has the children `first_child[i]:first_child[i + 1]`.
        children: runs of all children.
        merge: how to reconcile the two estimates.
        carry: `"rounded"` for sizes that are integers, with halves up (the paper's section 5.3), `"unrounded"` for
            float64 sizes.

    Returns:
        The merged runs of every child, ordered by size, then variance; equal ones are joined, empty ones left out.
        Each child keeps its number of groups. Memory is linear in the runs that are returned and in the pairs of
        the largest family.

    Raises:
        TypeError: for groups or offsets that are not integers, or sizes or variances that are not numbers.
        ValueError: as `match`, for any family; for sizes of 2^52 or more in magnitude, for offsets that do not fit, or
            for another `merge` or `carry`.
    """
    if merge not in ("weighted", "average"):
        raise ValueError(f'merge={merge!r}; it must be "weighted" or "average"')
    if carry not in ("unrounded", "rounded"):
        raise ValueError(f'carry={carry!r}; it must be "unrounded" or "rounded"')
    above = _check_nodes("parents", parents)
    below = _check_nodes("children", children)
    cuts = check_offsets("first_child", first_child, "children", len(below.offsets) - 1)
    if len(cuts) != len(above.offsets):
        raise ValueError(f"first_child describes {len(cuts) - 1} parents; parents has {len(above.offsets) - 1}")
    need = np.diff(_cumulative(above.groups)[above.offsets])
    have = np.diff(_cumulative(below.groups)[below.offsets[cuts]])
    wrong = np.flatnonzero(have != need)
    if len(wrong):
        i = wrong[0]
        raise ValueError(f"children of parent {i} have {have[i]} groups and the parent {need[i]}; they must be equal")
    offsets, size, groups, variance = match_families_kernel(
        above.offsets, above.size.astype(np.float64, copy=False), above.groups, above.variance, cuts,
        below.offsets, below.size.astype(np.float64, copy=False), below.groups, below.variance,
        merge == "weighted", carry == "rounded",
    )  # fmt: skip
    return NodeRuns(offsets, size.astype(np.int64) if carry == "rounded" else size, groups, variance)


def rounded_sizes(nodes: NodeRuns) -> IntArray:
    """Each run's size as an integer, halves up; what was in order stays so."""
    rounded: IntArray = np.floor(np.asarray(nodes.size) + 0.5).astype(np.int64)
    return rounded


def _sizes(name: str, sizes: npt.ArrayLike) -> FloatArray | IntArray:
    size = np.asarray(sizes)
    if size.dtype.kind == "f" and size.ndim == 1 and size.size:
        if not np.isfinite(size).all():
            raise ValueError(f"{name}.size holds {size[~np.isfinite(size)][0]}; it must be finite")
        return np.ascontiguousarray(size, np.float64)
    return check_integers(f"{name}.size", size)


def _one_node(name: str, runs: Runs | tuple[npt.ArrayLike, ...]) -> tuple[FloatArray | IntArray, IntArray]:
    if len(runs) != 3:
        raise ValueError(f"{name} has {len(runs)} parts; it must be (size, groups, variance)")
    size = _sizes(name, runs[0])
    offsets = np.array([0, len(size)])
    groups, _ = _check_runs(name, offsets, size, runs[1], runs[2])
    return size, groups


def _check_nodes(name: str, nodes: NodeRuns) -> NodeRuns:
    if len(nodes) != 4:
        raise ValueError(f"{name} has {len(nodes)} parts; it must be (offsets, size, groups, variance)")
    size = _sizes(name, nodes[1])
    if len(size) and max(size.max(), -int(size.min())) >= MAX_SIZE:
        raise ValueError(f"{name}.size must be below 2^52 in magnitude; got {size.min()} … {size.max()}")
    offsets = check_offsets(f"{name}.offsets", nodes[0], f"{name}.size", len(size))
    return NodeRuns(offsets, size, *_check_runs(name, offsets, size, nodes[2], nodes[3]))


def _check_runs(
    name: str, offsets: IntArray, size: Any, groups: npt.ArrayLike, variance: npt.ArrayLike
) -> tuple[IntArray, FloatArray]:
    numbers = check_integers(f"{name}.groups", groups)
    spread = np.asarray(variance)
    if spread.size and spread.dtype.kind not in "iuf":
        raise TypeError(f"{name}.variance has dtype {spread.dtype}; it must hold real numbers")
    if numbers.shape != size.shape or spread.shape != size.shape:
        shapes = f"{size.shape}, {numbers.shape}, {spread.shape}"
        raise ValueError(f"{name}: size, groups and variance have shapes {shapes}; they must be the same")
    falls = size[1:] < size[:-1]
    starts = offsets[(offsets > 0) & (offsets < len(size))]
    falls[starts - 1] = False
    if falls.any():
        i = int(np.flatnonzero(falls)[0])
        raise ValueError(f"{name}.size falls from {size[i]} to {size[i + 1]}; sizes must not decrease")
    if (numbers < 0).any():
        raise ValueError(f"{name}.groups holds {numbers.min()}; it must not be negative")
    if numbers.sum(dtype=np.float64) >= MAX_SUM:
        raise ValueError(f"{name}.groups adds up to {numbers.sum(dtype=np.float64):.3g}; it must stay below 2^62")
    if not ((spread >= 0) & (spread <= MAX_RUN_VARIANCE)).all():
        raise ValueError(f"{name}.variance holds {spread.min()} … {spread.max()}; it must be within 0 … 1e280")
    return numbers, np.ascontiguousarray(spread, np.float64)


def _cumulative(groups: IntArray) -> IntArray:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(groups)))
