"""Trees in preorder and checks, for the papers' solvers; the input of Fioretto et al.'s Models 1 and 2."""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_integers
from tallytree.solvers.papers.third_party import check_magnitudes
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernels import kernel


class PreorderTree(NamedTuple):
    """A rooted tree in preorder: node 0 is the root, and every subtree is a range of nodes."""

    order: IntArray
    """(n,) the caller's number of each node."""
    parent: IntArray
    """(n,) the parent of each node, −1 for the root."""
    first: IntArray
    """(n + 1,) node i has the children `children[first[i]:first[i + 1]]`."""
    children: IntArray
    """(n − 1,) the children of node after node, ascending."""


def check_tree_and_values(parent: npt.ArrayLike, noisy: npt.ArrayLike) -> tuple[PreorderTree, IntArray]:
    """The tree, and the noisy values in its order.

    Raises:
        TypeError: for an array that does not hold integers.
        ValueError: for a parent that is not a tree, or noisy of another length.
    """
    tree = check_tree(parent)
    values = check_integers("noisy", noisy)
    if len(values) != len(tree.order):
        raise ValueError(f"noisy has {len(values)} entries; parent has {len(tree.order)}, and they must agree")
    return tree, values[tree.order]


def check_tree(parent: npt.ArrayLike) -> PreorderTree:
    """The tree that `parent` describes.

    Raises:
        TypeError: if it does not hold integers.
        ValueError: if it is not a tree.
    """
    above = check_integers("parent", parent)
    roots = np.flatnonzero(above == -1)
    if len(roots) != 1:
        raise ValueError(f"parent has {len(roots)} entries of -1; it must have one, the root")
    wrong = np.flatnonzero((above < -1) | (above >= len(above)))
    if len(wrong):
        node = int(wrong[0])
        raise ValueError(f"parent[{node}]={above[node]} must be a node, 0 … {len(above) - 1}, or -1 for the root")
    order, reached = _preorder(*_children(above), roots[0])
    if reached < len(above):
        node = int(np.setdiff1d(np.arange(len(above)), order[:reached])[0])
        raise ValueError(f"parent: node {node} does not lead up to the root, because it is below a cycle")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    up = np.where(above[order] >= 0, rank[above[order]], -1)
    return PreorderTree(order, up, *_children(up))


def check_integer(name: str, value: object, *, least: int) -> int:
    """The value, if it is an integer of at least `least`.

    Raises:
        TypeError: if it is not an integer.
        ValueError: if it is less.
    """
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={value!r} must be an integer")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{name}={number} must be at least {least}")
    return number


@kernel
def _children(parent: IntArray) -> tuple[IntArray, IntArray]:
    first = np.zeros(len(parent) + 1, np.int64)
    for node in range(len(parent)):
        if parent[node] >= 0:
            first[parent[node] + 1] += 1
    first = np.cumsum(first)
    at = first.copy()
    children = np.empty(first[-1], np.int64)
    for node in range(len(parent)):
        if parent[node] >= 0:
            children[at[parent[node]]] = node
            at[parent[node]] += 1
    return first, children


@kernel
def _preorder(first: IntArray, children: IntArray, root: int) -> tuple[IntArray, int]:
    """The nodes below the root, parents first and subtrees together, and how many there are."""
    order = np.empty(len(first) - 1, np.int64)
    waiting = np.empty(len(first) - 1, np.int64)
    waiting[0] = root
    left, reached = 1, 0
    while left > 0:
        left -= 1
        node = waiting[left]
        order[reached] = node
        reached += 1
        for j in range(first[node + 1] - 1, first[node] - 1, -1):
            waiting[left] = children[j]
            left += 1
    return order, reached


class TreeModel(NamedTuple):
    """Model 1 (one column) or 2 (a column per tail), in preorder."""

    tree: PreorderTree
    noisy: IntArray
    """(n, K)."""
    weights: FloatArray
    """(n,), 0 for a root whose value is given."""
    total: int | None


def check_model(
    name: str, parent: npt.ArrayLike, noisy: npt.ArrayLike, weights: npt.ArrayLike | None, total: int | None, axes: int
) -> TreeModel:
    """Return the model in preorder, or say which argument is wrong.

    Args:
        name: the caller's name, for the messages.
        parent: (n,) the parent of each node, −1 for the one root; in any order.
        noisy: (n,) integers where `axes` is 1, (n, K) where it is 2; below 2^40 in magnitude.
        weights: (n,) finite, >= 0; all 1 by default.
        total: the value of the root, or None.
        axes: the number of axes that `noisy` must have.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a parent that is not a tree, values of another shape or out of range.
    """
    tree = check_tree(parent)
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
    return TreeModel(tree, table[tree.order], exact[tree.order], top)


def measured_entries(model: TreeModel) -> BoolArray:
    """Which entries have a cost: bool (n, K)."""
    measured = np.repeat(model.weights[:, None] > 0, model.noisy.shape[1], axis=1)
    if model.total is not None:
        measured[0, 0] = False
    return measured


def in_order_of_caller(tree: PreorderTree, x: IntArray) -> IntArray:
    """The values of the nodes in the caller's order, from those in preorder."""
    result = np.empty_like(x)
    result[tree.order] = x
    return result
