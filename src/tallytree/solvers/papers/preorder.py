"""Trees in preorder, and checks of integer arguments, for the papers' solvers."""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_integers
from tallytree.support.arrays import IntArray
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
