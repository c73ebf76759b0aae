"""Errors of released counts, beside the true ones node by node: int64 (nodes,) each, in one order."""

from __future__ import annotations

import numpy as np

from tallytree.support.arrays import IntArray


def max_error(released: IntArray, true: IntArray) -> int:
    """The greatest |released − true|; 0 without nodes."""
    return int(np.abs(released - true).max(initial=0))


def mean_error(released: IntArray, true: IntArray, n_nodes: int) -> float:
    """Σ |released − true| over the number of all nodes, those without a row included; 0 without nodes."""
    return float(np.abs(released - true).sum() / n_nodes) if n_nodes else 0.0


def false_discoveries(released: IntArray, true: IntArray) -> float:
    """The share of the nodes released as positive that are 0; 0 where none is released as positive."""
    positive = released > 0
    return float((true[positive] == 0).mean()) if positive.any() else 0.0


def false_negatives(released: IntArray, true: IntArray) -> float:
    """The share of the positive nodes that are not released as positive; 0 where none is positive."""
    positive = true > 0
    return float((released[positive] <= 0).mean()) if positive.any() else 0.0


def root_mean_square(released: IntArray, true: IntArray, n_nodes: int) -> float:
    """√(Σ (released − true)² / the number of all nodes); 0 without nodes."""
    errors = (released - true).astype(np.float64)
    return float(np.sqrt((errors @ errors) / n_nodes)) if n_nodes else 0.0


def mean_deviation(released: IntArray, true: IntArray, n_nodes: int) -> float:
    """Σ (released − true) over the number of all nodes, the bias; 0 without nodes."""
    return float((released - true).sum() / n_nodes) if n_nodes else 0.0


def relative_error(released: IntArray, true: IntArray) -> float:
    """The mean of |released − true| ÷ true over the positive nodes; 0 where none is positive."""
    positive = true > 0
    return float((np.abs(released - true)[positive] / true[positive]).mean()) if positive.any() else 0.0


def top_overlap(released: IntArray, true: IntArray, k: int) -> float:
    """The share of the k largest positive nodes that are among the k largest as released; 1 where none is positive.

    Of equal numbers the first ones count as larger.
    """
    top = min(k, int((true > 0).sum()))
    largest = [set(np.argsort(-numbers, kind="stable")[:top].tolist()) for numbers in (released, true)]
    return len(largest[0] & largest[1]) / top if top else 1.0
