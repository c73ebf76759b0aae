"""Projection on a tree: non-negative values that add up at every node, nearest to noisy ones.

Source: this is the post-processing of M_H^dp (Fioretto et al. 2021, Model 1 and section 6), solved without cost tables.
That the integer certificate suffices is Murota's exchange property of M♮-convex functions, of which sums of convex
functions of nested sums are an example (Discrete Convex Analysis, 2003).
"""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_integers
from tallytree.solvers.trees.integer import certify, solve_integer
from tallytree.solvers.trees.real import solve_real
from tallytree.solvers.trees.shape import TreeProblem, check_problem, expand
from tallytree.support.arrays import FloatArray, IntArray


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
