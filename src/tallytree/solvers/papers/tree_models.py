"""The input of Fioretto et al.'s Models 1 and 2, checked and in preorder."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_integers
from tallytree.solvers.papers.preorder import PreorderTree, check_integer, check_tree
from tallytree.solvers.papers.third_party import check_magnitudes
from tallytree.support.arrays import BoolArray, FloatArray, IntArray


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
