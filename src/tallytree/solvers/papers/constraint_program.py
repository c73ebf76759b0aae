"""The constraint programs of Fioretto et al., section 6, through OR-tools' CP-SAT (extra `tallytree[papers]`).

OR-tools and highspy, which CVXPY loads, contain the same library in two versions: the one that is imported second in a
process fails (github.com/google/or-tools/issues/5246). So OR-tools runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tallytree.solvers.papers.cost_table import first_on_edge
from tallytree.solvers.papers.preorder import check_integer, check_tree_and_values
from tallytree.solvers.papers.third_party import MAX_MAGNITUDE, TimeLimit, check_magnitudes
from tallytree.solvers.papers.tree_models import in_order_of_caller
from tallytree.support.arrays import IntArray
from tallytree.support.validate import require_packages

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
    program = "from tallytree.solvers.papers.constraint_program import _serve; _serve()"
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
