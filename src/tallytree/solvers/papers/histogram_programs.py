"""The papers' optimisation models handed to general solvers, kept for comparison (extra `tallytree[papers]`).

Source: Fioretto, Van Hentenryck & Zhu 2021, Model 1 (section 5), the constraint program of section 6 and Model 2
(section 9), with open solvers in the place of the paper's. Every result is checked; none is returned that a solver
itself calls inaccurate.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import time
import warnings
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.compute.arrays import FloatArray, IntArray
from tallytree.solvers.checks import check_integers
from tallytree.solvers.papers.cost_table import cost_of, first_on_edge
from tallytree.solvers.papers.preorder import Tree, check_integer, check_tree, checked_tree

SAFE_VALUE = 2**40
"""Noisy values and totals are below this magnitude: the solvers compute in floats, to about nine digits."""
SAFE_COST = 2**60
"""Costs of a constraint program stay below this."""
TIE = 1e-9
"""Costs that differ by less, relative to the largest weight, are one to a solver that computes in floats."""
TOLERANCE = 1e-6
"""What a relaxed solution may violate a constraint by, relative to its largest value, or to 1."""

# Settings at which every solver is as accurate; by name, the settings and how its time limit is called. Clarabel is the
# fastest: 0.1 s at 3,000 nodes and 2-4 s at 100,000, SCS 0.2 s and 5-9 s, OSQP 0.1-2 s and 7 s to over 40 s, HiGHS
# (active set) 3 s at 3,000.
QP_SOLVERS: dict[str, tuple[dict[str, Any], str]] = {
    "CLARABEL": ({"tol_gap_rel": 1e-12, "tol_gap_abs": 1e-8, "tol_feas": 1e-9}, "time_limit"),
    "SCS": ({"eps_abs": 1e-6, "eps_rel": 1e-9, "max_iters": 1_000_000}, "time_limit_secs"),
    "OSQP": ({"eps_abs": 1e-6, "eps_rel": 1e-9, "max_iter": 1_000_000}, "time_limit"),
    "HIGHS": ({}, "time_limit"),
}


class _Problem(NamedTuple):
    """Model 1 (one column) or 2 (a column per tail), in preorder."""

    tree: Tree
    noisy: IntArray
    """(n, K)."""
    weights: FloatArray
    """(n,), 0 for a root whose value is given."""
    total: int | None


class Clock:
    """What is left of a time limit."""

    def __init__(self, time_limit: float, nodes: int) -> None:
        if isinstance(time_limit, bool) or not isinstance(time_limit, int | float | np.integer | np.floating):
            raise TypeError(f"time_limit={time_limit!r} must be a number of seconds")
        if not (time_limit > 0 and math.isfinite(time_limit)):
            raise ValueError(f"time_limit={time_limit} must be a positive number of seconds")
        self.limit, self.nodes = float(time_limit), nodes
        self.end = time.monotonic() + self.limit

    def left(self, solver: str) -> float:
        """The seconds that are left.

        Raises:
            TimeoutError: if none are.
        """
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            raise self.over(solver)
        return seconds

    def over(self, solver: str) -> TimeoutError:
        """The error that says so."""
        return TimeoutError(
            f"time_limit: {self.limit:g} seconds were not enough for {solver} on {self.nodes:,} nodes; "
            "give more, or use the library's own solver"
        )


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
        time_limit: seconds; a solver looks at it between its iterations.

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
    clock = Clock(time_limit, len(np.asarray(parent)))
    return _relaxed(_checked("tree_relaxed", parent, noisy, weights, total, 1), solver, clock, "tree_relaxed")[:, 0]


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
    arithmetic: costs are convex and the constraints a flow, so it is that where no unit moved between two leaves (with
    a free total: added to or taken from one) lowers the cost.

    Args:
        parent: as for `tree_relaxed`.
        noisy: as for `tree_relaxed`.
        weights: as for `tree_relaxed`; they count as the exact numbers they are.
        total: as for `tree_relaxed`.
        time_limit: seconds.

    Returns:
        (n,) int64.

    Raises:
        ModuleNotFoundError: PySCIPOpt is not installed.
        TimeoutError: time_limit is over.
        RuntimeError: SCIP ends with another status, or floats did not suffice to find the optimum.
        TypeError: as `tree_relaxed`.
        ValueError: as `tree_relaxed`.

    Example:
        >>> tree_mip([-1, 0, 0], [2, 3, 0], total=5).tolist()
        [5, 4, 1]
    """
    clock = Clock(time_limit, len(np.asarray(parent)))
    problem = _checked("tree_mip", parent, noisy, weights, total, 1)
    x, _ = _mip(problem, clock, "tree_mip")
    gain = _best_change(problem, x[:, 0])
    if (
        gain < -TIE * problem.weights.max()
    ):  # of costs that are this close the solver's floats do not tell which is less
        raise RuntimeError(f"SCIP's solution is not the optimum, one unit moved lowers its cost by {float(-gain):g}")
    return _ints_in_order(problem.tree, x[:, 0])


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

    The convex relaxation of Model 2, stated in tail counts, the numbers of groups of at least some size: the vectors of
    the children of a node add up to its own, and the root's first entry is the number of groups.

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
    clock = Clock(time_limit, len(np.asarray(parent)))
    return _relaxed(_checked("tails_relaxed", parent, noisy, weights, total, 2), solver, clock, "tails_relaxed")


def tails_mip(
    parent: npt.ArrayLike,
    noisy: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    total: int | None = None,
    time_limit: float = 60.0,
) -> IntArray:
    """Solve what `tails_relaxed` does over integers: Model 2, through SCIP.

    That the solution is optimal is SCIP's own proof, in floats. It is accepted only if SCIP's lower bound leaves no
    room below the exact cost: for a cost one less with integer weights, for one lower by 1e-6 of it with others.

    Args:
        parent: as for `tails_relaxed`.
        noisy: as for `tails_relaxed`.
        weights: as for `tails_relaxed`.
        total: as for `tails_relaxed`.
        time_limit: seconds.

    Returns:
        (n, K) int64.

    Raises:
        ModuleNotFoundError: PySCIPOpt is not installed.
        TimeoutError: as `tree_mip`.
        RuntimeError: as `tree_mip`.
        TypeError: as `tails_relaxed`.
        ValueError: as `tails_relaxed`.

    Example:
        >>> tails_mip([-1, 0, 0], [[4, 1], [3, 3], [1, -2]], total=4).tolist()
        [[4, 2], [3, 2], [1, 0]]
    """
    clock = Clock(time_limit, len(np.asarray(parent)))
    problem = _checked("tails_mip", parent, noisy, weights, total, 2)
    x, bound = _mip(problem, clock, "tails_mip")
    measured = _measured(problem)
    cost = sum(
        Fraction(float(w)) * cost_of(row[use], y[use])
        for w, row, y, use in zip(problem.weights, x, problem.noisy, measured, strict=True)
    )
    whole = bool((problem.weights == np.rint(problem.weights)).all())
    if float(cost) - bound >= (1 - TOLERANCE if whole else TOLERANCE * max(1.0, float(cost))):
        raise RuntimeError(f"SCIP's solution costs {float(cost)} and its proof rules out only less than {bound}")
    return _ints_in_order(problem.tree, x)


def tree_constraint_program(
    parent: npt.ArrayLike, noisy: npt.ArrayLike, *, delta: int, total: int | None = None, time_limit: float = 60.0
) -> IntArray:
    """Minimise Σ (x − noisy)² over integers x >= 0 on a tree whose inner nodes equal the sum of their children.

    The paper's section 6: `cost_table.project` with one constraint program for every value of every inner node
    (Equation 4), in which a table constraint ties each child's value to its cost; through OR-tools' CP-SAT, on one
    core and in a process of its own, which takes a second to start. For small inputs: O(inner nodes · delta) programs.

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
    clock = Clock(time_limit, len(np.asarray(parent)))
    tree, y = check_tree(parent, noisy)
    half_width = check_integer("delta", delta, least=1)
    top = None if total is None else check_integer("total", total, least=0)
    check_magnitudes(y, top)
    if len(y) * (2 * half_width + SAFE_VALUE) >= SAFE_COST or len(y) * half_width**2 >= SAFE_COST:
        raise ValueError(f"delta={half_width} is too large: costs of {len(y)} nodes could reach 2^60")
    if importlib.util.find_spec("ortools") is None:
        raise ModuleNotFoundError(missing_extra("tree_constraint_program", "OR-tools"))
    given = {"first": tree.first, "children": tree.children, "noisy": y}
    task = {name: array.tolist() for name, array in given.items()} | {"delta": half_width, "total": top}
    answer = _in_child(task, clock)
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
    return _ints_in_order(tree, x)


def _checked(
    name: str, parent: npt.ArrayLike, noisy: npt.ArrayLike, weights: npt.ArrayLike | None, total: int | None, axes: int
) -> _Problem:
    tree = checked_tree(parent)
    n = len(tree.order)
    values = np.asarray(noisy)
    if values.ndim != axes or len(values) != n or values.size == 0:
        expected = f"({n},)" if axes == 1 else f"({n}, K) with K >= 1"
        raise ValueError(f"noisy has shape {values.shape}; {name} needs {expected}, an entry for each of parent")
    table = check_integers("noisy", values.ravel()).reshape(n, -1)
    top = None if total is None else check_integer("total", total, least=0)
    check_magnitudes(table, top)
    scale = np.ones(n) if weights is None else np.asarray(weights)
    if scale.dtype.kind not in "iuf":
        raise TypeError(f"weights has dtype {scale.dtype}; it must hold real numbers")
    if scale.shape != (n,):
        raise ValueError(f"weights has shape {scale.shape}; it must be ({n},), one for each node")
    exact = scale.astype(np.float64)
    if not (np.isfinite(exact) & (exact >= 0)).all():
        raise ValueError(f"weights must be finite and not negative; got {exact.min()} … {exact.max()}")
    return _Problem(tree, table[tree.order], exact[tree.order], top)


def check_magnitudes(noisy: IntArray, total: int | None) -> None:
    """Refuse values that solvers which compute in floats could not tell apart.

    Raises:
        ValueError: a value of 2^40 or more in magnitude.
    """
    largest = max(int(noisy.max()), -int(noisy.min()), total or 0)
    if largest >= SAFE_VALUE:
        raise ValueError(f"noisy and total must stay below 2^40 in magnitude for a general solver; got {largest}")


def _measured(problem: _Problem) -> npt.NDArray[np.bool_]:
    """(n, K) which entries have a cost."""
    measured = np.repeat(problem.weights[:, None] > 0, problem.noisy.shape[1], axis=1)
    if problem.total is not None:
        measured[0, 0] = False
    return measured


def _ints_in_order(tree: Tree, x: IntArray) -> IntArray:
    result = np.empty_like(x)
    result[tree.order] = x
    return result


def _relaxed(problem: _Problem, solver: str | None, clock: Clock, name: str) -> FloatArray:
    """The quadratic program over all nodes, with only the leaves' vectors constrained: the others are their sums.

    Measured at equal accuracy: it is solved as fast as over the leaves alone, and faster for many levels, because
    its matrices are sparser.
    """
    cp = cvxpy_for(name)
    solvers = qp_solvers(cp, solver)
    n, columns = problem.noisy.shape
    if problem.total == 0:  # the one feasible point, and no interior for a solver to move in
        return np.zeros((n, columns))
    sums, ordered = _constraints(problem.tree, columns)
    y, used = problem.noisy.ravel().astype(np.float64), np.flatnonzero(_measured(problem))
    scale = np.sqrt(np.repeat(problem.weights, columns)[used])
    x = cp.Variable(n * columns)
    constraints = [ordered @ x >= 0]
    if sums.shape[0]:
        constraints.append(sums @ x == 0)
    if problem.total is not None:
        constraints.append(x[0] == problem.total)
    task = cp.Problem(cp.Minimize(cp.sum_squares(cp.multiply(scale, x[used] - y[used]))), constraints)
    trouble: str | None = None
    for chosen in solvers:
        trouble = attempt(cp, task, chosen, clock)
        if trouble is None:
            break
    else:
        raise RuntimeError(trouble)
    solution = np.asarray(x.value, np.float64)
    allowed = TOLERANCE * max(1.0, float(np.abs(solution).max()))
    violation = max(float(np.abs(sums @ solution).max(initial=0)), -float((ordered @ solution).min()))
    if problem.total is not None:
        violation = max(violation, abs(float(solution[0]) - problem.total))
    if not violation <= allowed:
        raise RuntimeError(f"{chosen} calls a solution optimal that violates a constraint by {violation:.3g}")
    result = np.empty((n, columns))
    result[problem.tree.order] = np.maximum(solution, 0).reshape(n, columns)
    return result


def attempt(cp: Any, task: Any, solver: str, clock: Clock) -> str | None:
    """Solve; returns what went wrong, if anything, unless it was the time."""
    settings, limit = QP_SOLVERS[solver]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is inaccurate is told by the status, and refused
            task.solve(solver=solver, **settings, **{limit: clock.left(solver)})
    except cp.error.SolverError as error:
        clock.left(solver)
        return f"{solver} failed: {error}"
    if task.status != "optimal":
        clock.left(solver)
        return f"{solver} ended with status {task.status!r}, not 'optimal'"
    return None


def _constraints(tree: Tree, columns: int) -> tuple[Any, Any]:
    """S and D, sparse, with S·x = 0 where children add up and D·x >= 0 where each leaf's row falls, to 0 at least."""
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


def qp_solvers(cp: Any, solver: str | None) -> list[str]:
    """The solver that was named; or all that are installed, since the fastest stalls on some degenerate problems."""
    installed = [name for name in QP_SOLVERS if name in cp.installed_solvers()]
    if not installed:
        raise ModuleNotFoundError('solver: no quadratic solver is installed: pip install "tallytree[papers]"')
    if solver is None:
        return installed
    if solver not in installed:
        raise ValueError(f"solver: {solver!r} is not known or not installed; choose one of {', '.join(installed)}")
    return [solver]


def _mip(problem: _Problem, clock: Clock, name: str) -> tuple[IntArray, float]:
    """SCIP's solution, which satisfies the constraints exactly, and its lower bound on the cost.

    Variables are the distances d = x − noisy, so that the costs w·d² need no digits for the size of the counts.
    """
    pyscipopt = _pyscipopt(name)
    tree, y = problem.tree, problem.noisy
    n, columns = y.shape
    clock.left("SCIP")
    model = pyscipopt.Model()
    model.hideOutput()
    model.setParam("numerics/feastol", 1e-9)
    distance = [
        [model.addVar(vtype="I", lb=-float(y[v, s]), ub=None) for s in range(columns)] for v in range(n)
    ]  # x >= 0
    for v, s in np.argwhere(_measured(problem)).tolist():
        cost = model.addVar(vtype="C", lb=0, obj=float(problem.weights[v]))
        model.addCons(cost >= distance[v][s] * distance[v][s])
    for v in range(n):
        family = tree.children[tree.first[v] : tree.first[v + 1]].tolist()
        for s in range(columns):
            if family:
                gap = float(y[v, s] - y[family, s].sum())
                model.addCons(pyscipopt.quicksum(distance[c][s] for c in family) - distance[v][s] == gap)
            elif s:
                model.addCons(distance[v][s - 1] - distance[v][s] >= float(y[v, s] - y[v, s - 1]))
    if problem.total is not None:
        model.fixVar(distance[0][0], float(problem.total - y[0, 0]))
    model.setParam("limits/time", clock.left("SCIP"))
    model.optimize()
    status = model.getStatus()
    if status != "optimal":
        raise clock.over("SCIP") if status == "timelimit" else RuntimeError(f"SCIP ended with status {status!r}")
    off = np.array([[model.getVal(d) for d in row] for row in distance])
    x = y + np.rint(off).astype(np.int64)
    sums = np.zeros_like(x)
    np.add.at(sums, tree.parent[1:], x[1:])
    inner = tree.first[1:] > tree.first[:-1]
    consistent = (sums[inner] == x[inner]).all() and (x >= 0).all() and (x[:, 1:] <= x[:, :-1]).all()
    if not consistent or (problem.total is not None and x[0, 0] != problem.total):
        raise RuntimeError("SCIP calls a solution optimal whose rounded values violate a constraint")
    return x, float(model.getDualbound())


def _best_change(problem: _Problem, x: IntArray) -> int | Fraction:
    """The least that the cost changes by when a unit is moved between leaves, or put on or taken off one; exact.

    `up` and `down` are the cheapest ways to have one more or one less in a subtree. Moves between two leaves meet at
    the lowest node above both, and come from two of its children: all but the two cheapest of each kind lose.
    """
    tree = problem.tree
    n = len(x)
    up: list[int | Fraction | None] = [None] * n
    down: list[int | Fraction | None] = [None] * n
    least: int | Fraction = 0

    def two(kind: list[int | Fraction | None], family: list[int]) -> list[tuple[int | Fraction, int]]:
        return sorted((cost, c) for c in family if (cost := kind[c]) is not None)[:2]

    for v in range(n - 1, -1, -1):
        off = int(x[v] - problem.noisy[v, 0])
        weight = 0 if v == 0 and problem.total is not None else Fraction(float(problem.weights[v]))
        family = tree.children[tree.first[v] : tree.first[v + 1]].tolist()
        if not family:
            up[v], down[v] = weight * (2 * off + 1), weight * (1 - 2 * off) if x[v] else None
            continue
        rises, falls = two(up, family), two(down, family)
        least = min([least, *(rise + fall for rise, c in rises for fall, d in falls if c != d)])
        up[v] = weight * (2 * off + 1) + rises[0][0]
        down[v] = weight * (1 - 2 * off) + falls[0][0] if falls else None
    alone = [cost for cost in (up[0], down[0]) if problem.total is None and cost is not None]
    return min([least, *alone])


def _in_child(task: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Run `_constraint_programs` in a Python of its own, which ends with the time limit.

    OR-tools and highspy, which CVXPY loads, bring the same library in two versions: whichever is imported second in
    a process fails (github.com/google/or-tools/issues/5246).
    """
    program = "from tallytree.solvers.papers.histogram_programs import _serve; _serve()"
    paths = os.pathsep.join(path for path in sys.path if path)
    try:
        child = subprocess.run(  # noqa: S603 (our own interpreter and code)
            [sys.executable, "-c", program],
            input=json.dumps(task),
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=clock.left("CP-SAT"),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise clock.over("CP-SAT") from None
    if child.returncode:
        raise RuntimeError(f"CP-SAT's process ended with {child.returncode}: {child.stderr.strip()[-300:]}")
    answer: dict[str, Any] = json.loads(child.stdout)
    return answer


def _serve() -> None:
    sys.stdout.write(json.dumps(_constraint_programs(json.load(sys.stdin))))


def _constraint_programs(task: dict[str, Any]) -> dict[str, Any]:
    """The cost tables of all nodes, bottom-up, and the values they stand for, top-down."""
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


def missing_extra(name: str, package: str) -> str:
    """What is said where a package of the extra is missing."""
    return f'{name} needs {package}, which is not installed: pip install "tallytree[papers]"'


def cvxpy_for(name: str) -> Any:
    """CVXPY.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    try:
        import cvxpy
    except ModuleNotFoundError:
        raise ModuleNotFoundError(missing_extra(name, "CVXPY")) from None
    return cvxpy


def _pyscipopt(name: str) -> Any:
    try:
        import pyscipopt
    except ModuleNotFoundError:
        raise ModuleNotFoundError(missing_extra(name, "PySCIPOpt")) from None
    return pyscipopt
