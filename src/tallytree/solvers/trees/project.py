"""Projection on a tree: non-negative values that add up at every node, nearest to noisy ones.

Source: this is the post-processing of M_H^dp (Fioretto et al. 2021, Model 1 and section 6), solved without cost tables.
That the integer certificate suffices is Murota's exchange property of M♮-convex functions, of which sums of convex
functions of nested sums are an example (Discrete Convex Analysis, 2003).

In the real optimum, leaves that would be negative are held at 0, and the rest is a linear problem (`solve_real`);
`integer` rounds it and moves single units.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_integers
from tallytree.solvers.trees.integer import certify, solve_integer
from tallytree.solvers.trees.shape import Steps, TreeProblem, check_problem, expand, steps, swept, weight_scale
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel


def solve_real(problem: TreeProblem) -> tuple[FloatArray, int]:
    """Return the optimum by place, and how many sweeps over the tree it took.

    Args:
        problem: what to solve.

    Returns:
        (places,) float64 >= 0; the sweeps, up and down counted as one.
    """
    first_child, y, w = problem.first_child, problem.y.astype(np.float64), weight_scale(problem.weights)
    order = steps(first_child)
    return _solve(first_child, y, w, order)


def _solve(first_child: IntArray, y: FloatArray, w: FloatArray, order: Steps) -> tuple[FloatArray, int]:
    """Hold leaves at 0 until the linear problem of the others has no negative leaf.

    Place i stands between two straight lines. Its children together supply taken + below·p at the price (marginal
    cost) p of one more unit; what lies above and beside it demands wanted − give·p. Where they meet, a leaf supplies
    y + p/2w, and is held if that is negative.

    Why a held leaf stays held: holding raises supply at every price, below, above and beside, so no price ever rises
    again, and a leaf wants max(0, y + p/2w). The same makes lines that do not know of all held leaves yet safe: their
    price is too high, never too low. So leaves are held during the sweeps, upward with the demand of the sweep before
    and downward with fresh demand: what follows from a held leaf travels any path of the tree in one sweep. When
    nothing more is held, all optimality conditions are met. O(n) a sweep; within a family this is Newton's method on
    a convex piecewise linear function. No bound on the number of sweeps better than that of leaves is proved; it
    was 1 to 19 on all shapes with up to 10^6 nodes, and up to 77 where weights differ by 2^780.

    Later sweeps upward visit only the families that changed, as the others would get the numbers that they have. The
    families of a level are independent in every pass, so threads share wide levels and no number depends on them.
    """
    n = len(y)
    base, slope = np.empty(n), np.empty(n)
    taken, below, idle = np.empty(n), np.empty(n), np.empty(n, np.int64)
    wanted, give = np.zeros(n), np.full(n, -1.0)
    rest_taken, rest_below = np.empty(n), np.empty(n)
    held, stale = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    x = np.empty(n)

    def upward(begin: int, end: int) -> int:
        return _upward(
            begin, end, first_child, y, w, held, stale, base, slope, taken, below, idle, wanted, give
        )  # fmt: skip

    def downward(begin: int, end: int) -> int:
        return _downward(
            begin, end, first_child, y, w, held, stale, base, slope, taken, below, idle, wanted, give, rest_taken,
            rest_below,
        )  # fmt: skip

    def split(begin: int, end: int) -> int:
        return _split(begin, end, first_child, base, slope, taken, below, idle, w, held, stale, x)

    sweeps = 0
    while True:
        sweeps += 1
        fresh = swept(upward, order[::-1]) + swept(downward, order)
        if fresh == 0 and swept(split, order) == 0:
            break
    return np.maximum(0.0, x, out=x), sweeps


@kernel
def _upward(
    begin: int, end: int, first_child: IntArray, y: FloatArray, w: FloatArray, held: Any, stale: Any, base: Any,
    slope: Any, taken: Any, below: Any, idle: Any, wanted: Any, give: Any,
) -> int:  # fmt: skip
    """At a price p, place i supplies base + slope·p to its parent. Returns how many leaves were held on the way.

    Leaves without weight are counted as `idle`: they supply any amount at price 0, all the same amount.
    Families that are not stale, nor have a child that supplies anything else than before, are as the last sweep left
    them. Afterwards `stale` says which inner places supply something else.
    """
    fresh = 0
    for i in range(end - 1, begin - 1, -1):
        if first_child[i] == first_child[i + 1]:
            if stale[i]:
                base[i] = 0.0 if held[i] else y[i]
                slope[i] = 0.0 if held[i] or w[i] == 0 or np.isinf(w[i]) else 0.5 / w[i]
                stale[i] = False
            continue
        renew = stale[i]
        for c in range(first_child[i], first_child[i + 1]):
            renew = renew or stale[c]
        if not renew:
            continue
        _supply(i, first_child, w, held, base, slope, taken, below, idle)
        if give[i] >= 0:
            fresh += _hold(i, first_child, w, held, base, slope, taken, below, idle, wanted, give)
        if np.isinf(w[i]):
            amount, rate = y[i], 0.0
        elif w[i] == 0:
            amount, rate = taken[i], below[i]
        elif idle[i] > 0:
            amount, rate = y[i], 0.5 / w[i]
        else:
            ratio = 2 * w[i] * below[i]
            amount = taken[i] / (1 + ratio) + y[i] * (ratio / (1 + ratio))
            rate = below[i] / (1 + ratio)
        stale[i] = give[i] < 0 or amount != base[i] or rate != slope[i]
        base[i], slope[i] = amount, rate
    return fresh


@inlined
def _supply(
    i: int, first_child: IntArray, w: FloatArray, held: Any, base: Any, slope: Any, taken: Any, below: Any, idle: Any
) -> None:
    total, spread, free = 0.0, 0.0, 0
    for c in range(first_child[i], first_child[i + 1]):
        total += base[c]
        spread += slope[c]
        free += first_child[c] == first_child[c + 1] and w[c] == 0 and not held[c]
    taken[i], below[i], idle[i] = total, spread, free


@kernel
def _hold(
    i: int, first_child: IntArray, w: FloatArray, held: Any, base: Any, slope: Any, taken: Any, below: Any, idle: Any,
    wanted: Any, give: Any,
) -> int:  # fmt: skip
    """Hold the leaves of one family that are negative where supply meets demand, until none is."""
    count = 0
    while True:
        short = wanted[i] - taken[i]
        fresh = 0
        if idle[i] > 0:
            if np.isinf(give[i]) or short >= 0:
                price = 0.0
            else:
                for c in range(first_child[i], first_child[i + 1]):
                    if first_child[c] == first_child[c + 1] and w[c] == 0 and not held[c]:
                        held[c] = True
                        fresh += 1
                idle[i] = 0
                count += fresh
                continue
        elif np.isinf(give[i]):
            price = 0.0
        elif give[i] + below[i] > 0:
            price = short / (give[i] + below[i])
        else:
            return count
        for c in range(first_child[i], first_child[i + 1]):
            if first_child[c] == first_child[c + 1] and slope[c] > 0 and base[c] + slope[c] * price < 0:
                held[c] = True
                base[c], slope[c] = 0.0, 0.0
                fresh += 1
        if fresh == 0:
            return count
        count += fresh
        _supply(i, first_child, w, held, base, slope, taken, below, idle)


@kernel
def _downward(
    begin: int, end: int, first_child: IntArray, y: FloatArray, w: FloatArray, held: Any, stale: Any, base: Any,
    slope: Any, taken: Any, below: Any, idle: Any, wanted: Any, give: Any, rest_taken: Any, rest_below: Any,
) -> int:  # fmt: skip
    """Renew the demand on every family from what is above and beside it; hold leaves, return how many.

    What all siblings but one supply is summed from both ends, never by subtraction: slopes differ by any factor.
    """
    fresh = 0
    for i in range(begin, end):
        if i == 0:
            _demand(0, y, w, 0.0, np.inf, wanted, give)
        if first_child[i] == first_child[i + 1]:
            continue
        count = _hold(i, first_child, w, held, base, slope, taken, below, idle, wanted, give)
        stale[i] = count > 0
        fresh += count
        if first_child[first_child[i]] == first_child[first_child[i + 1]]:
            continue  # no child has children, so no child needs a demand
        total, spread = 0.0, 0.0
        for c in range(first_child[i + 1] - 1, first_child[i] - 1, -1):
            rest_taken[c], rest_below[c] = total, spread
            total += base[c]
            spread += slope[c]
        total, spread = 0.0, 0.0
        for c in range(first_child[i], first_child[i + 1]):
            if first_child[c] < first_child[c + 1]:
                elastic = np.inf if idle[i] > 0 else give[i] + (spread + rest_below[c])
                _demand(c, y, w, wanted[i] - (total + rest_taken[c]), elastic, wanted, give)
            total += base[c]
            spread += slope[c]
    return fresh


@inlined
def _demand(i: int, y: FloatArray, w: FloatArray, amount: float, elastic: float, wanted: Any, give: Any) -> None:
    """Demand on the children of i, where amount − elastic·p is the demand on i itself; p = 0 if elastic is infinite."""
    if np.isinf(w[i]):
        wanted[i], give[i] = y[i], 0.0
    elif np.isinf(elastic):
        wanted[i], give[i] = y[i], 0.5 / w[i] if w[i] > 0 else np.inf
    else:
        ratio = 2 * w[i] * elastic
        wanted[i] = amount / (1 + ratio) + y[i] * (ratio / (1 + ratio))
        give[i] = elastic / (1 + ratio)


@kernel
def _split(
    begin: int, end: int, first_child: IntArray, base: Any, slope: Any, taken: Any, below: Any, idle: Any,
    w: FloatArray, held: Any, stale: Any, x: Any,
) -> int:  # fmt: skip
    """Split each place's value among its children in proportion to their slopes; hold negative leaves, count them."""
    fresh = 0
    if begin == 0:
        x[0] = base[0]
        if len(x) == 1 and x[0] < 0:
            held[0] = stale[0] = True
            return 1
    for i in range(begin, end):
        gap = x[i] - taken[i]
        for c in range(first_child[i], first_child[i + 1]):
            leaf = first_child[c] == first_child[c + 1]
            x[c] = base[c]
            if idle[i] > 0:
                if leaf and w[c] == 0 and not held[c]:
                    x[c] += gap / idle[i]
            elif below[i] > 0:
                x[c] += gap * (slope[c] / below[i])
            if leaf and x[c] < 0 and not held[c]:
                held[c] = stale[c] = stale[i] = True
                fresh += 1
    return fresh


@overload
def project(
    parent: npt.ArrayLike,
    noisy: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    total: float | None = None,
    integer: Literal[True] = True,
) -> IntArray: ...


@overload
def project(
    parent: npt.ArrayLike,
    noisy: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    total: float | None = None,
    integer: Literal[False],
) -> FloatArray: ...


def project(
    parent: npt.ArrayLike,
    noisy: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    total: float | None = None,
    integer: bool = True,
) -> IntArray | FloatArray:
    """Minimise Σ weights·(x − noisy)² over x >= 0 where each inner node is the sum of its children.

    The tree may have any shape and its nodes any order; for a forest, give a virtual root with weight 0.

    With `integer`, x is an exact integer optimum: costs are compared as exact integers of as many 62-bit words as
    they need, float weights counting as the exact numbers they are. Of several optimal solutions it is the one that

    1. has the least Σx² over leaves without weight: units that no measurement decides are spread evenly;
    2. has the least root;
    3. gives more to the sibling that comes first in node order; inner nodes without weight do not count for this,
       their children are siblings of the children of the nearest node above that has a weight, or is the root.

    So x depends on the order of nodes only where 3. does, and on nothing else: not on the machine, nor on rounding.

    Otherwise x is the real optimum in float arithmetic, with 1. among several optimal ones (which makes it unique).

    Args:
        parent: (n,) the index of each node's parent; −1 for the root.
        noisy: (n,) integers; floats too if `integer` is false. Ignored where the weight is 0.
        weights: (n,) >= 0; all 1 by default. 0 is for not measured, inf for fixed: x must be equal to noisy there.
        total: what the root must be, as if it were fixed; free by default.
        integer: whether x must be integer.

    Returns:
        (n,) int64, or float64 if `integer` is false. O(n) memory, times the words that costs need; O(n) time a sweep
        for the real optimum, and O(n log n) a round of integer moves. On most trees, however deep, some ten sweeps
        and two or three rounds do; hundreds of rounds where inner nodes on a path of 10^5 have a millionth of the
        weight of their leaves, or less.

    Raises:
        TypeError: for arguments that are not numbers, or not integers where they must be.
        ValueError: for no node at all, a graph that is not one tree, wrong shapes, weights that are negative, NaN, or
            differ by a factor over 2^800, a negative total, Σ|noisy| + total >= 2^53 (of integers), and fixed values
            that are negative or contradict each other.

    Example:
        >>> project([-1, 0, 0], [2, 3, 0]).tolist()
        [2, 2, 0]
        >>> project([-1, 0, 0], [2, 3, 0], integer=False).round(2).tolist()
        [2.5, 2.5, 0.0]
        >>> project([-1, 0, 0, 0], [0, 4, 0, 0], [0, 1, 0, 0], total=9).tolist()
        [9, 4, 3, 2]
    """
    problem = check_problem(parent, noisy, weights, total, integer)
    x, _ = solve_real(problem)
    if not integer:
        real: FloatArray = expand(problem, x)
        return real
    exact, _ = solve_integer(problem, x)
    rounded: IntArray = expand(problem, exact)
    return rounded


def is_optimal(
    parent: npt.ArrayLike,
    noisy: npt.ArrayLike,
    x: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    total: float | None = None,
) -> bool:
    """Whether x is feasible and no integer solution of `project` costs less; exact.

    The certificate: no exchange of one unit between two leaves lowers the cost, and with a free root no single unit
    more or less does. Any optimal solution passes, also one that `project` does not prefer.

    Args:
        parent: as for `project`.
        noisy: as for `project`, integers.
        x: (n,) integers below 2^53 in magnitude.
        weights: as for `project`.
        total: as for `project`.

    Returns:
        Whether it is. O(n).

    Raises:
        TypeError: as `project`, also for x.
        ValueError: as `project`, also for x of another shape or too large.

    Example:
        >>> is_optimal([-1, 0, 0], [2, 3, 0], [2, 2, 0]), is_optimal([-1, 0, 0], [2, 3, 0], [2, 1, 1])
        (True, False)
    """
    problem = check_problem(parent, noisy, weights, total, integer=True)
    values = check_integers("x", x)
    if len(values) != len(problem.full_nodes):
        raise ValueError(f"x has {len(values)} entries; parent has {len(problem.full_nodes)}, and they must agree")
    largest = max(int(values.max()), -int(values.min()))
    if largest >= 2**53:
        raise ValueError(f"x holds a value of magnitude {largest}; it must stay below 2^53")
    return _is_feasible(problem, values) and certify(problem, values[problem.nodes])


def _is_feasible(problem: TreeProblem, x: IntArray) -> bool:
    fixed = np.isinf(problem.weights)
    if (x < 0).any() or (x[problem.nodes][fixed] != problem.y[fixed]).any():
        return False
    values = x[problem.full_nodes]
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(values)))
    first_child = problem.full_first_child
    inner = first_child[:-1] < first_child[1:]
    # Cumulative sums may wrap around; their differences are right modulo 2^64 all the same.
    below = sums[first_child[1:]] - sums[first_child[:-1]]
    return bool((below[inner] == values[inner]).all())
