"""The tree of a projection, checked and laid out for kernels: siblings side by side, parents before children.

Passes over it go level by level: the families of one level are independent.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_integers
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import kernel
from tallytree.support.machine import available_threads, side_by_side

MAX_TREE_SUM = 2**53
"""Σ|noisy| + total of measured integers is at most this, so that every sum is a double exactly."""
MAX_FLOAT_TREE_SUM = 1e300
"""Σ|noisy| + total of floats is at most this, so that no sum overflows."""
MAX_TREE_WEIGHT_RATIO = 2.0**800
"""Positive finite weights of one problem differ by at most this factor, so that no product of them overflows."""
FLOAT_SLACK = 2.0**-40
"""Fixed floats may miss the sum of what is fixed below them by this share of it."""


class TreeProblem(NamedTuple):
    """A checked problem, in breadth-first places: parents before children, siblings side by side and in node order.

    Inner nodes without weight are left out, because they have no cost: their children belong to the nearest node above
    that has a weight, or to the root.
    """

    nodes: IntArray
    """(places,) the node at each place; the root is first."""
    first_child: IntArray
    """(places + 1,) the children of place i are `first_child[i]:first_child[i + 1]`."""
    y: Any
    """(places,) int64 or float64; 0 where not measured; the total, if there is one, at the root."""
    weights: FloatArray
    """(places,) inf where fixed."""
    least: Any
    """(places,) the least value the fixed ones below allow."""
    closed: npt.NDArray[np.bool_]
    """(places,) whether everything below, and so the value, is fixed."""
    full_nodes: IntArray
    """(n,) `nodes`, with those left out."""
    full_first_child: IntArray
    """(n + 1,) `first_child`, with those left out."""


def check_problem(
    parent: npt.ArrayLike, noisy: npt.ArrayLike, weights: npt.ArrayLike | None, total: float | None, integer: bool
) -> TreeProblem:
    """Return the problem laid out, or say what is wrong with it.

    Args:
        parent: (n,) each node's parent; −1 for the root.
        noisy: (n,) integers; floats too unless `integer`.
        weights: (n,) >= 0, inf for fixed; None for 1 everywhere.
        total: the root's value, or None.
        integer: whether the solution must be.

    Returns:
        The problem.

    Raises:
        TypeError: for an argument of the wrong kind.
        ValueError: for a graph that is not one tree, numbers out of range, or fixed values that contradict each other.
    """
    above = check_integers("parent", parent)
    n = len(above)
    root = _check_root(above)
    y = _check_noisy(noisy, n, integer)
    scale = _check_weights(weights, n)
    y = np.where(scale > 0, y, 0)
    if total is not None:
        amount = _check_total(total, integer)
        if np.isinf(scale[root]) and y[root] != amount:
            raise ValueError(
                f"total={amount} and noisy[{root}]={y[root]} both fix the root; make them equal or leave one out"
            )
        y = y.astype(np.float64) if isinstance(amount, float) else y
        y[root], scale[root] = amount, np.inf
    _check_sum(y)
    full_nodes, full_first_child, reached = _breadth_first(above, root)
    if reached < n:
        raise ValueError(_cycle(above, full_nodes[:reached]))
    nodes, first_child = full_nodes, full_first_child
    inner = full_first_child[1:] > full_first_child[:-1]
    left_out = inner & (scale[full_nodes] == 0)
    left_out[0] = False
    if left_out.any():
        nodes, first_child = _without(full_nodes, full_first_child, left_out)
    y, scale = y[nodes], scale[nodes]
    slack = FLOAT_SLACK if y.dtype == np.float64 else 0.0
    least, closed, place = _reach(first_child, y, scale, slack)
    problem = TreeProblem(nodes, first_child, y, scale, least, closed, full_nodes, full_first_child)
    if place >= 0:
        raise ValueError(_conflict(problem, int(place), total))
    return problem


def expand(problem: TreeProblem, x: Any) -> Any:
    """Return the values of all n nodes, in node order, from those of the places."""
    values = np.zeros(len(problem.full_nodes), x.dtype)
    values[problem.nodes] = x
    if len(problem.nodes) < len(problem.full_nodes):
        kept = np.zeros(len(values), np.bool_)
        kept[problem.nodes] = True
        _add_up(problem.full_nodes, problem.full_first_child, kept, values)
    return values


def _check_root(parent: IntArray) -> int:
    n = len(parent)
    if n == 0:
        raise ValueError("parent is empty; a tree has at least its root, a node whose parent is -1")
    wrong = np.flatnonzero((parent < -1) | (parent >= n))
    if len(wrong):
        raise ValueError(
            f"parent[{wrong[0]}]={parent[wrong[0]]}; it must be the index of a node, 0 … {n - 1}, or -1 for the root"
        )
    roots = np.flatnonzero(parent == -1)
    if len(roots) == 0:
        raise ValueError("parent holds no -1; exactly one node must be the root, with parent -1")
    if len(roots) > 1:
        raise ValueError(
            f"parent is -1 for {len(roots)} nodes ({_some(roots)}); there must be one root:"
            " put them under a virtual root with weight 0"
        )
    return int(roots[0])


def _check_noisy(noisy: npt.ArrayLike, n: int, integer: bool) -> Any:
    array = np.asarray(noisy)
    if not integer and array.dtype.kind == "f" and array.ndim == 1:
        y: Any = array.astype(np.float64)
        wrong = np.flatnonzero(~np.isfinite(y))
        if len(wrong):
            raise ValueError(f"noisy[{wrong[0]}]={y[wrong[0]]} must be finite; give what is not measured weight 0")
    else:
        if integer and array.dtype.kind == "f":
            raise TypeError(f"noisy has dtype {array.dtype}; it must hold integers, or set integer=False")
        y = check_integers("noisy", array)
    if len(y) != n:
        raise ValueError(f"noisy has {len(y)} entries; parent has {n}, and they must agree")
    return y


def _check_weights(weights: npt.ArrayLike | None, n: int) -> FloatArray:
    if weights is None:
        return np.ones(n)
    array = np.asarray(weights)
    if array.size and array.dtype.kind not in "iuf":
        raise TypeError(f"weights has dtype {array.dtype}; it must hold real numbers")
    if array.shape != (n,):
        raise ValueError(f"weights has shape {array.shape}; it must be ({n},), one for each entry of parent")
    scale = array.astype(np.float64)
    wrong = np.flatnonzero(~(scale >= 0))
    if len(wrong):
        raise ValueError(f"weights[{wrong[0]}]={array[wrong[0]]} must be >= 0: 0 for not measured, inf for fixed")
    if array.dtype.kind in "iu" and array.max() > 2**53:
        node = int(array.argmax())
        raise ValueError(f"weights[{node}]={array[node]} must be at most 2^53; only the ratios matter, so divide all")
    used = scale[(scale > 0) & np.isfinite(scale)]
    if len(used) and used.max() / MAX_TREE_WEIGHT_RATIO > used.min():
        raise ValueError(
            f"weights must be within a factor 2^800 of each other; got {used.min()} … {used.max()}:"
            " use 0 for not measured and inf for fixed"
        )
    return scale


def _check_total(total: float, integer: bool) -> float:
    if isinstance(total, bool | np.bool_):
        raise TypeError(f"total={total!r} must be a number")
    amount: float
    try:
        amount = operator.index(total)  # type: ignore[arg-type]
    except TypeError:
        if integer or not isinstance(total, float | np.floating):
            raise TypeError(f"total={total!r} must be an integer" + " or a float" * (not integer)) from None
        amount = float(total)
    if not 0 <= amount <= (MAX_TREE_SUM if isinstance(amount, int) else MAX_FLOAT_TREE_SUM):
        raise ValueError(f"total={total} must be between 0 and {'2^53' if isinstance(amount, int) else '1e300'}")
    return amount


def _check_sum(y: Any) -> None:
    magnitude = np.abs(y.astype(np.float64))
    reach = magnitude.sum()
    if y.dtype == np.int64 and reach >= MAX_TREE_SUM:
        at = int(magnitude.argmax())
        raise ValueError(
            "noisy and total must satisfy Σ|noisy| + total < 2^53, else sums are not exact;"
            f" got {reach:.6g}, of which {y[at]} is one value"
        )
    if not reach <= MAX_FLOAT_TREE_SUM:
        raise ValueError(f"noisy and total must satisfy Σ|noisy| + total <= 1e300, else sums overflow; got {reach}")


def _some(nodes: Any) -> str:
    return ", ".join(str(node) for node in nodes[:5]) + (", …" if len(nodes) > 5 else "")


def _cycle(parent: IntArray, reached: IntArray) -> str:
    lost = np.ones(len(parent), np.bool_)
    lost[reached] = False
    node = int(np.argmax(lost))
    seen: dict[int, None] = {}
    while node not in seen:
        seen[node] = None
        node = int(parent[node])
    walk = list(seen)
    cycle = walk[walk.index(node) :]
    return f"parent runs in a circle through node(s) {_some(cycle)}; every node must lead up to the root"


def _conflict(problem: TreeProblem, place: int, total: float | None) -> str:
    """The message that names a fixed value that cannot be met, and a few of the fixed values nearest below it."""
    node, value = problem.nodes[place], problem.y[place]
    name = f"total={total}" if place == 0 and total is not None else f"noisy[{node}]={value}"
    if value < 0:
        return f"{name} is fixed by its infinite weight; it must not be negative: raise it or make its weight finite"
    below: list[int] = []
    stack = [place]
    while stack and len(below) < 6:
        at = stack.pop()
        if at != place and np.isinf(problem.weights[at]):
            below.append(int(problem.nodes[at]))
        else:
            stack.extend(range(problem.first_child[at + 1] - 1, problem.first_child[at] - 1, -1))
    word = "more" if problem.least[place] > value else "less, and nothing else is"
    return (
        f"{name} fixes node {node}, but the fixed values below it (node(s) {_some(below)}) add up to"
        f" {problem.least[place]}, which is {word}: make them agree, or make one of the weights finite"
    )


@kernel
def _breadth_first(parent: IntArray, root: int) -> tuple[IntArray, IntArray, int]:
    """The nodes in breadth-first order, siblings in node order, where each one's children begin, how many are reached.

    Children are dealt out by counting, so the cost is O(n). Nodes on a circle are not reached.
    """
    n = len(parent)
    begin = np.zeros(n + 1, np.int64)
    for v in range(n):
        if parent[v] >= 0:
            begin[parent[v] + 1] += 1
    for v in range(n):
        begin[v + 1] += begin[v]
    children = np.empty(n, np.int64)
    at = begin[:n].copy()
    for v in range(n):
        if parent[v] >= 0:
            children[at[parent[v]]] = v
            at[parent[v]] += 1
    nodes, first_child = np.empty(n, np.int64), np.empty(n + 1, np.int64)
    nodes[0] = root
    reached = 1
    i = 0
    while i < reached:
        first_child[i] = reached
        for k in range(begin[nodes[i]], begin[nodes[i] + 1]):
            nodes[reached] = children[k]
            reached += 1
        i += 1
    first_child[reached] = reached
    return nodes, first_child, reached


def _without(nodes: IntArray, first_child: IntArray, left_out: npt.NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """Lay the tree out again, with the children of those left out given to the nearest node above that stays."""
    above = _parent_that_stays(nodes, first_child, left_out)
    staying = np.flatnonzero(above >= -1)
    number = np.full(len(nodes), -1, np.int64)
    number[staying] = np.arange(len(staying))
    parent = above[staying]
    root = int(np.flatnonzero(parent == -1)[0])
    parent = np.where(parent >= 0, number[parent], -1)
    places, begin, _ = _breadth_first(parent, root)
    return staying[places], begin


@kernel
def _parent_that_stays(nodes: IntArray, first_child: IntArray, left_out: npt.NDArray[np.bool_]) -> IntArray:
    """By node: the nearest one above that stays, −1 for the root, −2 for those left out."""
    stays = nodes.copy()
    above = np.full(len(nodes), -2, np.int64)
    above[nodes[0]] = -1
    for i in range(len(nodes)):
        for c in range(first_child[i], first_child[i + 1]):
            if left_out[c]:
                stays[c] = stays[i]
            else:
                above[nodes[c]] = stays[i]
    return above


@kernel
def _reach(first_child: IntArray, y: Any, weights: FloatArray, slack: float) -> tuple[Any, Any, int]:
    """The least value of each place, whether it is the only one, and a fixed place that cannot be met, or −1.

    A leaf that is not fixed can have any value >= 0, so what lies above one is bounded from below only.
    """
    n = len(y)
    least, closed = np.zeros(n, y.dtype), np.zeros(n, np.bool_)
    for i in range(n - 1, -1, -1):
        closed[i] = first_child[i] < first_child[i + 1]
        for c in range(first_child[i], first_child[i + 1]):
            least[i] += least[c]
            closed[i] = closed[i] and closed[c]
        if np.isinf(weights[i]):
            room = slack * max(abs(least[i]), abs(y[i]))
            if y[i] < 0 or least[i] - y[i] > room or (closed[i] and y[i] - least[i] > room):
                return least, closed, i
            least[i] = y[i]
            closed[i] = True
    return least, closed, -1


@kernel
def _add_up(nodes: IntArray, first_child: IntArray, kept: npt.NDArray[np.bool_], values: Any) -> None:
    for i in range(len(nodes) - 1, -1, -1):
        if not kept[nodes[i]]:
            for c in range(first_child[i], first_child[i + 1]):
                values[nodes[i]] += values[nodes[c]]


def weight_scale(weights: FloatArray) -> FloatArray:
    """The positive finite weights divided by a power of 2 that brings the greatest below 1; the others as they are."""
    used = weights[(weights > 0) & np.isfinite(weights)]
    if len(used) == 0:
        return weights
    return np.ldexp(weights, -math.frexp(used.max())[1])


WIDE = 50_000
"""A level with this many places is worth several threads; the levels between two such ones are one range."""

Range = tuple[int, int]
Steps = list[tuple[Range, ...]]
"""From the root down. The ranges of places of one step may be worked on at once, the steps one after the other."""


def steps(first_child: IntArray, *, wide: int = WIDE, threads: int | None = None) -> Steps:
    """Cut the places into steps.

    Args:
        first_child: (places + 1,) as in `Problem`.
        wide: how many places make a level worth several threads.
        threads: into how many ranges such a level is cut; one per processor by default.

    Returns:
        The steps; one with one range where no level is wide, or there is one thread only.
    """
    places = len(first_child) - 1
    pieces = available_threads() if threads is None else threads
    if places < wide or pieces < 2:
        return [((0, places),)]
    cut: Steps = []
    for begin, end, level_is_wide in _cuts(first_child, wide).tolist():
        bounds = np.linspace(begin, end, (pieces if level_is_wide else 1) + 1).astype(np.int64).tolist()
        cut.append(tuple(pairwise(bounds)))
    return cut


def swept(work: Callable[[int, int], int], order: Sequence[tuple[Range, ...]]) -> int:
    """Do the work for every range, the steps in order, and add up what it returns.

    Args:
        work: takes the first place of a range and the one after its last; a kernel, so that threads run side by side.
        order: steps; reversed for a pass from the leaves up.
    """
    found = 0
    for ranges in order:
        if len(ranges) == 1:
            found += work(*ranges[0])
        else:
            found += sum(side_by_side(lambda each: work(*each), ranges, threads=len(ranges)))
    return found


@kernel
def _cuts(first_child: IntArray, wide: int) -> IntArray:
    """(cuts, 3) begin, end and whether it is one wide level; else it is as many small levels as follow each other."""
    n = len(first_child) - 1
    cuts = np.empty((2 * (n // wide) + 2, 3), np.int64)
    count, begin, end, pending = 0, 0, 1, 0
    while begin < n:
        if end - begin >= wide:
            if pending < begin:
                cuts[count, 0], cuts[count, 1], cuts[count, 2] = pending, begin, 0
                count += 1
            cuts[count, 0], cuts[count, 1], cuts[count, 2] = begin, end, 1
            count += 1
            pending = end
        begin, end = end, first_child[end]
    if pending < n:
        cuts[count, 0], cuts[count, 1], cuts[count, 2] = pending, n, 0
        count += 1
    return cuts[:count]
