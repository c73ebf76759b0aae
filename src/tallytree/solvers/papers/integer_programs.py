"""Fioretto et al.'s Models 1 and 2 as mixed-integer programs, through SCIP (extra `tallytree[papers]`).

Source: Fioretto, Van Hentenryck & Zhu 2021, Model 1 (section 5) and Model 2 (section 9), with SCIP in place of the
paper's solver. Every result is checked in exact arithmetic.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tallytree.solvers.papers.cost_table import cost_of
from tallytree.solvers.papers.third_party import TOLERANCE, TimeLimit, import_pyscipopt
from tallytree.solvers.papers.tree_models import TreeModel, check_model, in_order_of_caller, measured_entries
from tallytree.support.arrays import IntArray

COST_TOLERANCE = 1e-9
"""A solver that computes in floats cannot tell apart costs that differ by less, relative to the largest weight."""


def tree_mip(
    parent: npt.ArrayLike,
    noisy: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    total: int | None = None,
    time_limit: float = 60.0,
) -> IntArray:
    """Minimise Σ weights·(x − noisy)² over integers x >= 0 on a tree whose inner nodes equal the sum of their children.

    Model 1, through SCIP. SCIP computes in floats; its solution is returned only if it is the optimum in exact
    arithmetic. As the costs are convex and the constraints are those of a flow, it is the optimum if no unit moved
    between two leaves lowers the cost (with a free total, also none added to or taken from one leaf).

    Args:
        parent: (n,) the parent of each node, −1 for the one root; in any order.
        noisy: (n,) integers below 2^40 in magnitude.
        weights: (n,) finite, >= 0, exact as given; all 1 by default.
        total: the value of the root, whose term is then left out; free by default.
        time_limit: seconds.

    Returns:
        (n,) int64.

    Raises:
        ModuleNotFoundError: PySCIPOpt is not installed.
        TimeoutError: time_limit is over.
        RuntimeError: SCIP ends with another status, or floats did not suffice to find the optimum.
        TypeError: for values of the wrong kind.
        ValueError: for a parent that is not a tree, values of another shape or out of range.

    Example:
        >>> tree_mip([-1, 0, 0], [2, 3, 0], total=5).tolist()
        [5, 4, 1]
    """
    limit = TimeLimit(time_limit, len(np.asarray(parent)))
    model = check_model("tree_mip", parent, noisy, weights, total, 1)
    x, _ = _mip(model, limit, "tree_mip")
    gain = _best_change(model, x[:, 0])
    if gain < -COST_TOLERANCE * model.weights.max():
        raise RuntimeError(f"SCIP's solution is not the optimum, one unit moved lowers its cost by {float(-gain):g}")
    return in_order_of_caller(model.tree, x[:, 0])


def tails_mip(
    parent: npt.ArrayLike,
    noisy: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    total: int | None = None,
    time_limit: float = 60.0,
) -> IntArray:
    """Solve the problem of `relaxed_programs.tails_relaxed` over integers: Model 2, through SCIP.

    SCIP proves in floats that its solution is optimal. The solution is accepted only if its exact cost is above SCIP's
    lower bound by less than 1 (integer weights), or by less than 1e-6 of the cost (other weights).

    Args:
        parent: as for `tree_mip`.
        noisy: (n, K) integers below 2^40 in magnitude.
        weights: as for `tree_mip`.
        total: the root's first entry, whose term is then a constant; free by default.
        time_limit: seconds.

    Returns:
        (n, K) int64.

    Raises:
        ModuleNotFoundError: PySCIPOpt is not installed.
        TimeoutError: as `tree_mip`.
        RuntimeError: as `tree_mip`.
        TypeError: as `tree_mip`.
        ValueError: as `tree_mip`.

    Example:
        >>> tails_mip([-1, 0, 0], [[4, 1], [3, 3], [1, -2]], total=4).tolist()
        [[4, 2], [3, 2], [1, 0]]
    """
    limit = TimeLimit(time_limit, len(np.asarray(parent)))
    model = check_model("tails_mip", parent, noisy, weights, total, 2)
    x, bound = _mip(model, limit, "tails_mip")
    measured = measured_entries(model)
    cost = sum(
        Fraction(float(w)) * cost_of(row[use], y[use])
        for w, row, y, use in zip(model.weights, x, model.noisy, measured, strict=True)
    )
    integer_weights = bool((model.weights == np.rint(model.weights)).all())
    if float(cost) - bound >= (1 - TOLERANCE if integer_weights else TOLERANCE * max(1.0, float(cost))):
        raise RuntimeError(f"SCIP's solution costs {float(cost)} and its proof rules out only less than {bound}")
    return in_order_of_caller(model.tree, x)


def _mip(model: TreeModel, limit: TimeLimit, name: str) -> tuple[IntArray, float]:
    """SCIP's solution, which satisfies the constraints exactly, and its lower bound on the cost.

    The variables are the distances d = x − noisy, so that large counts take no digits from the costs w·d².
    """
    pyscipopt = import_pyscipopt(name)
    tree, y = model.tree, model.noisy
    n, columns = y.shape
    limit.left("SCIP")
    program = pyscipopt.Model()
    program.hideOutput()
    program.setParam("numerics/feastol", 1e-9)
    distance = [
        [program.addVar(vtype="I", lb=-float(y[v, s]), ub=None) for s in range(columns)] for v in range(n)
    ]  # x >= 0
    for v, s in np.argwhere(measured_entries(model)).tolist():
        cost = program.addVar(vtype="C", lb=0, obj=float(model.weights[v]))
        program.addCons(cost >= distance[v][s] * distance[v][s])
    for v in range(n):
        family = tree.children[tree.first[v] : tree.first[v + 1]].tolist()
        for s in range(columns):
            if family:
                gap = float(y[v, s] - y[family, s].sum())
                program.addCons(pyscipopt.quicksum(distance[c][s] for c in family) - distance[v][s] == gap)
            elif s:
                program.addCons(distance[v][s - 1] - distance[v][s] >= float(y[v, s] - y[v, s - 1]))
    if model.total is not None:
        program.fixVar(distance[0][0], float(model.total - y[0, 0]))
    program.setParam("limits/time", limit.left("SCIP"))
    program.optimize()
    status = program.getStatus()
    if status != "optimal":
        raise limit.over("SCIP") if status == "timelimit" else RuntimeError(f"SCIP ended with status {status!r}")
    off = np.array([[program.getVal(d) for d in row] for row in distance])
    x = y + np.rint(off).astype(np.int64)
    sums = np.zeros_like(x)
    np.add.at(sums, tree.parent[1:], x[1:])
    inner = tree.first[1:] > tree.first[:-1]
    consistent = (sums[inner] == x[inner]).all() and (x >= 0).all() and (x[:, 1:] <= x[:, :-1]).all()
    if not consistent or (model.total is not None and x[0, 0] != model.total):
        raise RuntimeError("SCIP calls a solution optimal whose rounded values violate a constraint")
    return x, float(program.getDualbound())


def _best_change(model: TreeModel, x: IntArray) -> int | Fraction:
    """The least change of the cost when a unit is moved between leaves, added to a leaf or taken from one; exact.

    `up` and `down` are the least costs of one more and one less unit in a subtree. A move between two leaves involves
    two children of their lowest common ancestor, so only the two cheapest of each kind can be part of the best move.
    """
    tree = model.tree
    n = len(x)
    up: list[int | Fraction | None] = [None] * n
    down: list[int | Fraction | None] = [None] * n
    least: int | Fraction = 0

    def two(kind: list[int | Fraction | None], family: list[int]) -> list[tuple[int | Fraction, int]]:
        return sorted((cost, c) for c in family if (cost := kind[c]) is not None)[:2]

    for v in range(n - 1, -1, -1):
        off = int(x[v] - model.noisy[v, 0])
        weight = 0 if v == 0 and model.total is not None else Fraction(float(model.weights[v]))
        family = tree.children[tree.first[v] : tree.first[v + 1]].tolist()
        if not family:
            up[v], down[v] = weight * (2 * off + 1), weight * (1 - 2 * off) if x[v] else None
            continue
        rises, falls = two(up, family), two(down, family)
        least = min([least, *(rise + fall for rise, c in rises for fall, d in falls if c != d)])
        up[v] = weight * (2 * off + 1) + rises[0][0]
        down[v] = weight * (1 - 2 * off) + falls[0][0] if falls else None
    alone = [cost for cost in (up[0], down[0]) if model.total is None and cost is not None]
    return min([least, *alone])
