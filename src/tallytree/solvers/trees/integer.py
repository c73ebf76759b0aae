"""The integer optimum of a tree projection: round the real optimum, then move every node by a few units, exactly.

Marginal costs are integers of as many limbs as they need, so nothing is ever decided by rounding.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tallytree.solvers.trees.shape import Steps, TreeProblem, steps, swept, weight_scale
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernel_arrays import consecutive, stable_order
from tallytree.support.kernels import inlined, kernel

LIMB = 62
"""Bits of a limb. The lowest limbs are in 0 … 2^62 − 1, the last one is signed."""
MASK = 2**62 - 1
SMALL = 32
"""Up to this many marginal costs are sorted by insertion, which beats a call."""


class ExactWeights(NamedTuple):
    """Weight i is mantissa·2^shift, all of them times one power of 2, so that shifts are >= 0. Fixed places have 0."""

    mantissa: IntArray
    """(places,) odd, below 2^53, or 0."""
    shift: IntArray
    """(places,)"""
    limbs: int
    """Limbs that hold the marginal cost of any subtree."""


def exact_weights(problem: TreeProblem, largest: int, even: bool) -> ExactWeights:
    """Return the weights as integers, and the limbs that marginal costs need.

    Args:
        problem: whose weights.
        largest: no value will be above it.
        even: give leaves without weight a weight (with y = 0) so small that it only decides between optimal solutions.

    Returns:
        The weights.
    """
    counts = (problem.weights > 0) & np.isfinite(problem.weights)
    fraction, exponent = np.frexp(np.where(counts, weight_scale(problem.weights), 0.0))
    mantissa = (fraction * 2.0**53).astype(np.int64)
    zeros = np.frexp((mantissa & -mantissa).astype(np.float64))[1].astype(np.int64) - 1
    mantissa >>= np.where(counts, zeros, 0)
    shift = exponent.astype(np.int64) - 53 + zeros
    lowest = int(shift[counts].min(initial=2000))
    shift = np.where(counts, shift - lowest, 0)
    weight = np.ldexp(mantissa.astype(np.float64), shift)
    bits = math.ceil(math.log2(1 + _longest_path(problem.first_child, problem.y, weight, float(largest)))) + 2
    leaves = problem.first_child[1:] == problem.first_child[:-1]
    idle = leaves & (problem.weights == 0)
    if even and idle.any():
        # An exchange of units changes at most two such leaves, each by at most 2·largest + 1.
        room = (4 * largest + 4).bit_length()
        shift[counts] += room
        mantissa[idle] = 1
        bits += room
    return ExactWeights(mantissa, shift, -(-(bits + 1) // LIMB))


def solve_integer(problem: TreeProblem, real: FloatArray) -> tuple[IntArray, int]:
    """Return the optimum by place.

    Args:
        problem: what to solve.
        real: its real optimum, or anything near: it decides how long this takes, not what comes out.

    Returns:
        (places,) int64; how many rounds of moves were tried, the last of which found none.
    """
    first_child, y = problem.first_child, problem.y
    fixed = np.isinf(problem.weights)
    largest = max(int(np.maximum(y, 0).sum()), 1)
    weights = exact_weights(problem, largest, even=True)
    x = _round(first_child, real, y, fixed, problem.least, problem.closed, largest)
    radius = np.full(len(x), 2, np.int64)
    order = steps(first_child)
    rounds = 0
    while True:
        rounds += 1
        moves = _best_moves(first_child, y, weights, fixed, x, radius, largest, order)
        if not moves.any():
            return x, rounds
        x += moves
        # A place that moved as far as its radius allowed gets a larger one. The sum of the radii bounds the memory.
        far = np.abs(moves) >= radius
        radius = np.where(far, 4 * radius, np.where(moves == 0, np.maximum(1, radius // 2), radius))
        while radius.sum() > 8 * len(x) + 1_000_000:
            radius = np.minimum(radius, max(1, int(radius.max()) // 2))


def certify(problem: TreeProblem, x: IntArray) -> bool:
    """Whether no single unit, taken, given or moved, lowers the cost of the feasible x.

    Args:
        problem: the problem.
        x: (places,) a feasible solution.

    Returns:
        Whether x is an integer optimum.
    """
    largest = max(int(x.max()), 1)
    weights = exact_weights(problem, largest, even=False)
    return bool(_certified(problem.first_child, problem.y, *weights, np.isinf(problem.weights), x))


@kernel
def _longest_path(first_child: IntArray, y: IntArray, weight: FloatArray, largest: float) -> float:
    """A bound on the marginal cost of any subtree: the greatest sum of w·(2(largest + |y|) + 1) on a path."""
    bound = np.empty(len(y))
    for i in range(len(y) - 1, -1, -1):
        deepest = 0.0
        for c in range(first_child[i], first_child[i + 1]):
            deepest = max(deepest, bound[c])
        bound[i] = deepest + weight[i] * (2 * (largest + 1 + abs(y[i])) + 1)
    return float(bound[0])


@kernel
def _round(
    first_child: IntArray, real: FloatArray, y: IntArray, fixed: Any, least: IntArray, closed: Any, largest: int
) -> IntArray:
    """A feasible point near `real`: top down, sums of siblings up to each one are rounded, and so each one nearly is.

    Invariant: x[i] >= least[i], and equal where closed; so a family can always be brought to its parent's value, by
    raising one that is not closed or by lowering those above their least value.
    """
    n = len(real)
    x = least.copy()
    if not closed[0]:
        x[0] = min(largest, max(least[0], int(np.floor(real[0] + 0.5))))
    for i in range(n):
        left = x[i]
        exact, rounded = 0.0, 0
        for c in range(first_child[i], first_child[i + 1]):
            if not closed[c]:
                exact += real[c]
                upto = int(np.floor(exact + 0.5))
                x[c] = max(least[c], upto - rounded)
                rounded = upto
            left -= x[c]
        for c in range(first_child[i], first_child[i + 1]):
            if left == 0:
                break
            if not closed[c]:
                step = max(left, least[c] - x[c])
                x[c] += step
                left -= step
    return x


@kernel
def _add_product(out: IntArray, mantissa: int, shift: int, m: int) -> None:
    """Add mantissa·m·2^shift to the limbs; mantissa < 2^53, |m| < 2^56."""
    if mantissa == 0:
        return
    if len(out) == 1:
        out[0] += (mantissa << shift) * m
        return
    sign = 1 if m > 0 else -1
    m *= sign
    low, high = mantissa & (2**27 - 1), mantissa >> 27
    _add_shifted(out, low * (m & (2**28 - 1)), shift, sign)
    _add_shifted(out, high * (m & (2**28 - 1)), shift + 27, sign)
    _add_shifted(out, low * (m >> 28), shift + 28, sign)
    _add_shifted(out, high * (m >> 28), shift + 55, sign)


@inlined
def _add_shifted(out: IntArray, part: int, shift: int, sign: int) -> None:
    """Add sign·part·2^shift to the limbs, for 0 <= part < 2^56."""
    if part == 0:
        return
    limb, bit = shift // LIMB, shift % LIMB
    last = len(out) - 1
    if limb == last:
        out[limb] += sign * (part << bit)
        return
    out[limb] += sign * ((part & (MASK >> bit)) << bit)
    out[limb + 1] += sign * (part >> (LIMB - bit))
    for k in range(limb, last):
        carry = out[k] >> LIMB
        out[k] &= MASK
        out[k + 1] += carry


@inlined
def _less(rows: IntArray, i: int, j: int) -> bool:
    for k in range(rows.shape[1] - 1, -1, -1):
        if rows[i, k] != rows[j, k]:
            return bool(rows[i, k] < rows[j, k])
    return False


@kernel
def _sort(rows: IntArray, begin: int, end: int, order: IntArray) -> None:
    """Write the stable ascending order of rows[begin:end] to order[begin:end]."""
    if end - begin <= SMALL:
        for i in range(begin, end):
            j = i
            while j > begin and _less(rows, i, order[j - 1]):
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
        return
    ranked = consecutive(0, end - begin)
    for k in range(rows.shape[1]):
        ranked = ranked[stable_order(rows[begin:end, k][ranked])]
    for i in range(end - begin):
        order[begin + i] = begin + ranked[i]


def _best_moves(
    first_child: IntArray, y: IntArray, weights: ExactWeights, fixed: Any, x: IntArray, radius: IntArray, largest: int,
    order: Steps,
) -> IntArray:  # fmt: skip
    """The moves to the optimum among all feasible points with |move| <= radius, 0 <= value <= largest at each place.

    Place i may go `down[i]` units down and `up[i]` up; rows begin[i]:begin[i + 1] are its subtree's costs of each of
    these units from the lowest up, which ascend, as the subtree's least cost is convex. What a family shares is its
    rows merged (a family's cheapest way to any sum takes the first rows), plus the parent's own cost of each unit.
    Going back down, each place takes as many of the family's first rows as come to its value; equal rows go to the
    first sibling. Without a total, a root takes the rows below zero.

    With radius >= 1 everywhere, no move means optimal: an exchange of one unit moves no place by more than one, and in
    a sum of convex functions of nested sums, whatever is no optimum can be improved by such an exchange. The order
    of preference among equal costs is another such function, smaller than any cost, so it is settled likewise.
    """
    n = len(x)
    down, up, begin = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n + 1, np.int64)
    swept(lambda low, high: _room(low, high, first_child, fixed, x, radius, largest, down, up), order[::-1])
    np.cumsum(down + up, out=begin[1:])
    rows, ranks = np.empty((begin[n], weights.limbs), np.int64), np.empty(begin[n], np.int64)
    mantissa, shift = weights.mantissa, weights.shift
    swept(
        lambda low, high: _marginal_costs(low, high, first_child, y, mantissa, shift, x, down, begin, rows, ranks),
        order[::-1],
    )
    move = np.zeros(n, np.int64)
    move[0] = -down[0]
    move[0] += int(np.count_nonzero(rows[: begin[1], -1] < 0))  # these are the first ones, as the rows ascend
    swept(lambda low, high: _descend(low, high, first_child, down, begin, ranks, move), order)
    return move


@kernel
def _room(
    low: int, high: int, first_child: IntArray, fixed: Any, x: IntArray, radius: IntArray, largest: int,
    down: IntArray, up: IntArray,
) -> int:  # fmt: skip
    """How far each place of a range may go down and up."""
    for i in range(high - 1, low - 1, -1):
        if fixed[i]:
            continue
        down[i], up[i] = min(radius[i], x[i]), min(radius[i], largest - x[i])
        if first_child[i] < first_child[i + 1]:
            lower, higher = 0, 0
            for c in range(first_child[i], first_child[i + 1]):
                lower += down[c]
                higher += up[c]
            down[i], up[i] = min(down[i], lower), min(up[i], higher)
    return 0


@kernel
def _marginal_costs(
    low: int, high: int, first_child: IntArray, y: IntArray, mantissa: IntArray, shift: IntArray, x: IntArray,
    down: IntArray, begin: IntArray, rows: IntArray, ranks: IntArray,
) -> int:  # fmt: skip
    """Write the rows of each place of a range, and the ranks of its children's rows."""
    limbs = rows.shape[1]
    for i in range(high - 1, low - 1, -1):
        start, inner = 0, first_child[i] < first_child[i + 1]
        if inner:
            first, last = begin[first_child[i]], begin[first_child[i + 1]]
            _sort(rows, first, last, ranks)
            start = first - down[i]
            for c in range(first_child[i], first_child[i + 1]):
                start += down[c]
        for k in range(begin[i + 1] - begin[i]):
            row = begin[i] + k
            for limb in range(limbs):
                rows[row, limb] = rows[ranks[start + k], limb] if inner else 0
            units = 2 * (x[i] - down[i] + k - y[i]) + 1
            if limbs == 1:
                rows[row, 0] += (mantissa[i] << shift[i]) * units
            else:
                _add_product(rows[row], mantissa[i], shift[i], units)
    return 0


@kernel
def _descend(
    low: int, high: int, first_child: IntArray, down: IntArray, begin: IntArray, ranks: IntArray, move: IntArray
) -> int:
    """Give each place's move to its children."""
    for i in range(low, high):
        if first_child[i] < first_child[i + 1]:
            at = begin[first_child[i]]
            taken = move[i]
            for c in range(first_child[i], first_child[i + 1]):
                taken += down[c]
                move[c] = -down[c]
            _deal(ranks[at : at + taken], begin, first_child[i], first_child[i + 1], move)
    return 0


@inlined
def _deal(taken: IntArray, begin: IntArray, first: int, last: int, move: IntArray) -> None:
    """Add one to the move of the place that each taken row belongs to."""
    if last - first == 1:
        move[first] += len(taken)
        return
    for row in taken:
        low, high = first, last
        while high - low > 1:
            middle = (low + high) // 2
            if begin[middle] <= row:
                low = middle
            else:
                high = middle
        move[low] += 1


@kernel
def _certified(
    first_child: IntArray, y: IntArray, mantissa: IntArray, shift: IntArray, limbs: int, fixed: Any, x: IntArray
) -> bool:
    """Compare, in each family, the dearest unit that can be taken away with the cheapest that can be added.

    Row i of `fall` is the cost of subtree i's last unit, the dearest; row i of `rise` that of one more, the cheapest.
    An exchange between two leaves meets at one family; what it changes above cancels.
    """
    n = len(x)
    # Two rows a place, so that both kinds can be compared.
    rows = np.zeros((2 * n + 1, limbs), np.int64)
    falls, rises = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for i in range(n - 1, -1, -1):
        fall, rise = -1, -1
        for c in range(first_child[i], first_child[i + 1]):
            if falls[c] and (fall < 0 or _less(rows, fall, 2 * c)):
                fall = 2 * c
            if rises[c] and (rise < 0 or _less(rows, 2 * c + 1, rise)):
                rise = 2 * c + 1
        if fall >= 0 and rise >= 0 and _less(rows, rise, fall):
            return False
        if fixed[i]:
            continue
        leaf = first_child[i] == first_child[i + 1]
        falls[i], rises[i] = (x[i] > 0 if leaf else fall >= 0), leaf or rise >= 0
        if falls[i]:
            if not leaf:
                rows[2 * i] = rows[fall]
            _add_product(rows[2 * i], mantissa[i], shift[i], 2 * (x[i] - y[i]) - 1)
        if rises[i]:
            if not leaf:
                rows[2 * i + 1] = rows[rise]
            _add_product(rows[2 * i + 1], mantissa[i], shift[i], 2 * (x[i] - y[i]) + 1)
    # The last row is zero.
    return not (falls[0] and _less(rows, 2 * n, 0)) and not (rises[0] and _less(rows, 1, 2 * n))
