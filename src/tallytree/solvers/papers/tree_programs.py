"""Fioretto et al.'s models as programs for third-party solvers (extra `tallytree[papers]`).

**Models 1 and 2 as mixed-integer programs**, through SCIP, **and their convex relaxations**, through CVXPY. Source:
Fioretto, Van Hentenryck & Zhu 2021, Model 1 (section 5) and Model 2 (section 9), with SCIP and open solvers in place of
the paper's. Every mixed-integer result is checked in exact arithmetic. Every relaxed result is checked, and one that
the solver itself calls inaccurate is an error.

**The constraint programs** of section 6, through OR-tools' CP-SAT. OR-tools and highspy, which CVXPY loads, contain the
same library in two versions: the one that is imported second in a process fails
(github.com/google/or-tools/issues/5246). So OR-tools runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tallytree.solvers.papers.cost_table import cost_of, first_on_edge
from tallytree.solvers.papers.preorder import (
    PreorderTree,
    TreeModel,
    check_integer,
    check_model,
    check_tree_and_values,
    in_order_of_caller,
    measured_entries,
)
from tallytree.solvers.papers.third_party import (
    MAX_MAGNITUDE,
    TOLERANCE,
    TimeLimit,
    check_magnitudes,
    import_cvxpy,
    import_pyscipopt,
    quadratic_solvers,
    solve_quadratic,
)
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.validate import require_packages

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
    """Solve the problem of `tails_relaxed` over integers: Model 2, through SCIP.

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


def tree_relaxed(
    parent: npt.ArrayLike,
    noisy: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    total: int | None = None,
    solver: str | None = None,
    time_limit: float = 60.0,
) -> FloatArray:
    """Minimise Σ weights·(x − noisy)² over real x >= 0 on a tree whose inner nodes equal the sum of their children.

    The convex relaxation of Model 1, through CVXPY.

    Args:
        parent: (n,) the parent of each node, −1 for the one root; in any order.
        noisy: (n,) integers below 2^40 in magnitude.
        weights: (n,) finite, >= 0; all 1 by default.
        total: the value of the root, which is then not weighed; free by default.
        solver: "CLARABEL", "SCS", "OSQP" or "HIGHS"; by default the first of these that is installed, which are in
            the order of their speed on such trees.
        time_limit: seconds; solvers check it between their iterations.

    Returns:
        (n,) float64, whose constraints hold to 1e-6 of its largest value.

    Raises:
        ModuleNotFoundError: CVXPY is not installed.
        TimeoutError: time_limit is over.
        RuntimeError: the solver ends with any other status than optimal.
        TypeError: for values of the wrong kind.
        ValueError: for a parent that is not a tree, values of another shape or out of range, a solver that is not
            installed.

    Example:
        >>> tree_relaxed([-1, 0, 0], [2, 3, 0], total=4).round(3).tolist()
        [4.0, 3.5, 0.5]
    """
    limit = TimeLimit(time_limit, len(np.asarray(parent)))
    return _relaxed(check_model("tree_relaxed", parent, noisy, weights, total, 1), solver, limit, "tree_relaxed")[:, 0]


def tails_relaxed(
    parent: npt.ArrayLike,
    noisy: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    total: int | None = None,
    solver: str | None = None,
    time_limit: float = 60.0,
) -> FloatArray:
    """Minimise Σ weights_v·(x_vs − noisy_vs)² over real vectors x_v1 >= x_v2 >= … >= x_vK >= 0 that add up on a tree.

    The convex relaxation of Model 2, stated in tail counts, the numbers of groups of at least some size. The vectors of
    a node's children add up to its own. The root's first entry is the number of groups.

    Args:
        parent: (n,) the parent of each node, −1 for the one root; in any order.
        noisy: (n, K) integers below 2^40 in magnitude.
        weights: (n,) finite, >= 0; all 1 by default.
        total: the root's first entry; free by default. Its term is then a constant.
        solver: as for `tree_relaxed`.
        time_limit: seconds.

    Returns:
        (n, K) float64, whose constraints hold to 1e-6 of its largest value.

    Raises:
        ModuleNotFoundError: as `tree_relaxed`.
        TimeoutError: as `tree_relaxed`.
        RuntimeError: as `tree_relaxed`.
        TypeError: as `tree_relaxed`.
        ValueError: as `tree_relaxed`.

    Example:
        >>> tails_relaxed([-1, 0], [[5, 1, 3], [5, 1, 3]], total=5).round(3).tolist()
        [[5.0, 2.0, 2.0], [5.0, 2.0, 2.0]]
    """
    limit = TimeLimit(time_limit, len(np.asarray(parent)))
    return _relaxed(check_model("tails_relaxed", parent, noisy, weights, total, 2), solver, limit, "tails_relaxed")


def _relaxed(model: TreeModel, solver: str | None, limit: TimeLimit, name: str) -> FloatArray:
    """Solve the quadratic program over all nodes; only the leaves' vectors are constrained, the others are their sums.

    At equal accuracy it takes as long as a program over the leaves alone, and less for many levels, because its
    matrices are sparser (measured).
    """
    cp = import_cvxpy(name)
    solvers = quadratic_solvers(cp, solver)
    n, columns = model.noisy.shape
    if model.total == 0:  # one feasible point; solvers need an interior
        return np.zeros((n, columns))
    sums, ordered = _constraints(model.tree, columns)
    y, used = model.noisy.ravel().astype(np.float64), np.flatnonzero(measured_entries(model))
    scale = np.sqrt(np.repeat(model.weights, columns)[used])
    x = cp.Variable(n * columns)
    constraints = [ordered @ x >= 0]
    if sums.shape[0]:
        constraints.append(sums @ x == 0)
    if model.total is not None:
        constraints.append(x[0] == model.total)
    task = cp.Problem(cp.Minimize(cp.sum_squares(cp.multiply(scale, x[used] - y[used]))), constraints)
    trouble: str | None = None
    for chosen in solvers:
        trouble = solve_quadratic(cp, task, chosen, limit)
        if trouble is None:
            break
    else:
        raise RuntimeError(trouble)
    solution = np.asarray(x.value, np.float64)
    allowed = TOLERANCE * max(1.0, float(np.abs(solution).max()))
    violation = max(float(np.abs(sums @ solution).max(initial=0)), -float((ordered @ solution).min()))
    if model.total is not None:
        violation = max(violation, abs(float(solution[0]) - model.total))
    if not violation <= allowed:
        raise RuntimeError(f"{chosen} calls a solution optimal that violates a constraint by {violation:.3g}")
    result = np.empty((n, columns))
    result[model.tree.order] = np.maximum(solution, 0).reshape(n, columns)
    return result


def _constraints(tree: PreorderTree, columns: int) -> tuple[Any, Any]:
    """Sparse S and D: S·x = 0 where children add up, D·x >= 0 where each leaf's row is non-increasing and >= 0."""
    from scipy import sparse  # CVXPY depends on it

    n = len(tree.order)
    leaf = tree.first[1:] == tree.first[:-1]
    inner, leaves = np.flatnonzero(~leaf), np.flatnonzero(leaf)
    row = np.cumsum(~leaf) - 1
    below = np.arange(1, n)
    entries = np.concatenate((np.ones(n - 1), -np.ones(len(inner))))
    rows, places = np.concatenate((row[tree.parent[1:]], row[inner])), np.concatenate((below, inner))
    sums = sparse.csr_matrix((entries, (rows, places)), shape=(len(inner), n))
    picked = sparse.csr_matrix((np.ones(len(leaves)), (np.arange(len(leaves)), leaves)), shape=(len(leaves), n))
    falls = sparse.eye(columns) - sparse.eye(columns, k=1)
    return sparse.kron(sums, sparse.eye(columns), format="csr"), sparse.kron(picked, falls, format="csr")


MAX_COST = 2**60
"""Costs of a constraint program are below this."""


def tree_constraint_program(
    parent: npt.ArrayLike, noisy: npt.ArrayLike, *, delta: int, total: int | None = None, time_limit: float = 60.0
) -> IntArray:
    """Minimise Σ (x − noisy)² over integers x >= 0 on a tree whose inner nodes equal the sum of their children.

    The paper's section 6: `cost_table.project` with one constraint program for every value of every inner node
    (Equation 4), in which a table constraint ties each child's value to its cost. CP-SAT runs on one core, in a process
    of its own that takes a second to start. For small inputs: it solves O(inner nodes · delta) programs.

    Args:
        parent: (n,) the parent of each node, −1 for the one root; in any order.
        noisy: (n,) integers.
        delta: half the width of the domains {noisy − delta … noisy + delta} ∩ Z+, >= 1; it is not widened.
        total: the value of the root, which is then not measured; free by default.
        time_limit: seconds for all programs together.

    Returns:
        (n,) int64.

    Raises:
        ModuleNotFoundError: OR-tools is not installed.
        TimeoutError: time_limit is over.
        RuntimeError: CP-SAT ends with any other status than optimal or infeasible.
        TypeError: as `cost_table.project`.
        ValueError: as `cost_table.project` with widen=False: also where the domains leave no solution or cut off the
            optimum.

    Example:
        >>> tree_constraint_program([-1, 0, 0], [2, 3, 0], delta=4, total=5).tolist()
        [5, 4, 1]
    """
    limit = TimeLimit(time_limit, len(np.asarray(parent)))
    tree, y = check_tree_and_values(parent, noisy)
    half_width = check_integer("delta", delta, least=1)
    top = None if total is None else check_integer("total", total, least=0)
    check_magnitudes(y, top)
    if len(y) * (2 * half_width + MAX_MAGNITUDE) >= MAX_COST or len(y) * half_width**2 >= MAX_COST:
        raise ValueError(f"delta={half_width} is too large: costs of {len(y)} nodes could reach 2^60")
    given = {"first": tree.first, "children": tree.children, "noisy": y}
    task = {name: array.tolist() for name, array in given.items()} | {"delta": half_width, "total": top}
    require_packages("solver", "tree_constraint_program", {"ortools": "OR-tools"}, "papers")
    answer = _in_child(task, limit)
    if "status" in answer:
        raise RuntimeError(f"CP-SAT ended with status {answer['status']!r}")
    if "barred" in answer:
        node = answer["barred"]
        what = f"node {tree.order[node]} has no value within" if node or top is None else f"total={top} is not within"
        raise ValueError(f"delta={half_width}: {what} the domains; give a larger delta")
    x = np.array(answer["x"], np.int64)
    edge = first_on_edge(x, y, half_width, top is not None)
    if edge >= 0:
        trouble = f"the solution gives node {tree.order[edge]} the value {x[edge]}, an end of its domain"
        raise ValueError(f"delta={half_width}: {trouble}; give a larger delta")
    return in_order_of_caller(tree, x)


def _in_child(task: dict[str, Any], limit: TimeLimit) -> dict[str, Any]:
    """Run `_constraint_programs` in a Python process of its own, which ends with the time limit."""
    program = "from tallytree.solvers.papers.tree_programs import _serve; _serve()"
    paths = os.pathsep.join(path for path in sys.path if path)
    try:
        child = subprocess.run(  # noqa: S603 (our own interpreter and code)
            [sys.executable, "-c", program],
            input=json.dumps(task),
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=limit.left("CP-SAT"),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise limit.over("CP-SAT") from None
    if child.returncode:
        raise RuntimeError(f"CP-SAT's process ended with {child.returncode}: {child.stderr.strip()[-300:]}")
    answer: dict[str, Any] = json.loads(child.stdout)
    return answer


def _serve() -> None:
    """The program of the child process: a task on standard input, its answer on standard output."""
    sys.stdout.write(json.dumps(_constraint_programs(json.load(sys.stdin))))


def _constraint_programs(task: dict[str, Any]) -> dict[str, Any]:
    """The cost tables of all nodes, bottom-up; then the values of all nodes, top-down.

    Returns:
        `x`; or `status` where CP-SAT gives up, `barred` a node without a solution.
    """
    from ortools.sat.python import cp_model

    first, children, noisy, delta, total = (task[k] for k in ("first", "children", "noisy", "delta", "total"))
    families = [children[a:b] for a, b in pairwise(first)]
    tables: list[dict[int, int]] = [{} for _ in noisy]
    choices: list[dict[int, list[int]]] = [{} for _ in noisy]
    for node in range(len(noisy) - 1, -1, -1):
        own, domain = noisy[node], range(max(0, noisy[node] - delta), noisy[node] + delta + 1)
        if node == 0 and total is not None:
            own, domain = total, range(total, total + 1)
        below = [tables[child] for child in families[node]]
        for v in domain:
            status, cost, values = _least_cost(cp_model, below, v) if below else (cp_model.OPTIMAL, 0, [])
            if status == cp_model.OPTIMAL:
                tables[node][v], choices[node][v] = (v - own) ** 2 + cost, values
            elif status != cp_model.INFEASIBLE:
                return {"status": status.name}
        if not tables[node]:
            return {"barred": node}
    x = [0] * len(noisy)
    x[0] = min(tables[0], key=lambda v: (tables[0][v], -v))
    for node, family in enumerate(families):
        for child, value in zip(family, choices[node][x[node]], strict=True):
            x[child] = value
    return {"x": x}


def _least_cost(cp_model: Any, tables: list[dict[int, int]], value: int) -> tuple[Any, int, list[int]]:
    """φ(value) of Equation 4b and the children's values."""
    model = cp_model.CpModel()
    values, costs = [], []
    for i, table in enumerate(tables):
        values.append(model.new_int_var(min(table), max(table), f"x{i}"))
        costs.append(model.new_int_var(min(table.values()), max(table.values()), f"c{i}"))
        model.add_allowed_assignments([values[i], costs[i]], list(table.items()))
    model.add(sum(values) == value)
    model.minimize(sum(costs))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status != cp_model.OPTIMAL:
        return status, 0, []
    return status, sum(solver.value(c) for c in costs), [solver.value(x) for x in values]
