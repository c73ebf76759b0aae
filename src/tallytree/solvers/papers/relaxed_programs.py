"""The convex relaxations of Fioretto et al.'s Models 1 and 2, through CVXPY (extra `tallytree[papers]`).

Source: Fioretto, Van Hentenryck & Zhu 2021, Model 1 (section 5) and Model 2 (section 9), with open solvers in place of
the paper's. Every result is checked. A result that the solver itself calls inaccurate is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tallytree.solvers.papers.preorder import PreorderTree
from tallytree.solvers.papers.third_party import TOLERANCE, TimeLimit, import_cvxpy, quadratic_solvers, solve_quadratic
from tallytree.solvers.papers.tree_models import TreeModel, check_model, measured_entries
from tallytree.support.arrays import FloatArray


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
