"""Small and realistic trees with noisy values, and checks of solutions of Fioretto et al.'s Models 1 and 2."""

from itertools import product

import numpy as np
from hypothesis import strategies as st

PAIR = [-1, 0, 0]


@st.composite
def trees(draw, most, least=-4, largest=6, columns=None):
    n = draw(st.integers(1, most))
    above = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    label = draw(st.permutations(range(n)))
    parent = [0] * n
    for i, node in enumerate(label):
        parent[node] = above[i] if i == 0 else label[above[i]]
    values = st.integers(least, largest)
    row = values if columns is None else st.lists(values, min_size=columns, max_size=columns)
    return parent, draw(st.lists(row, min_size=n, max_size=n))


def below(parent):
    """(n, leaves) 0/1: which leaves lie in each node's subtree."""
    leaves = [v for v in range(len(parent)) if v not in parent]
    inside = np.zeros((len(parent), len(leaves)), np.int64)
    for j, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            inside[node, j] = 1
            node = parent[node]
    return inside


def cost(x, parent, noisy, weights, total):
    squares = (np.asarray(x, float) - noisy) ** 2
    if total is not None:
        squares[(parent.index(-1), 0) if squares.ndim == 2 else parent.index(-1)] = 0
    return float((np.reshape(weights, (-1,) + (1,) * (squares.ndim - 1)) * squares).sum())


def tables(parent, columns, most, total):
    """Every integer solution of Model 2 whose leaves are at most `most`."""
    inside = below(parent)
    rows = [row for row in product(range(most + 1), repeat=columns) if all(np.diff(row) <= 0)]
    for leaves in product(rows, repeat=inside.shape[1]):
        x = inside @ np.array(leaves)
        if total is None or x[parent.index(-1), 0] == total:
            yield x


def assert_consistent(x, parent, total, tolerance):
    x = np.asarray(x, float)
    sums = np.zeros_like(x)
    for v, above in enumerate(parent):
        if above >= 0:
            sums[above] += x[v]
    inner = sorted({above for above in parent if above >= 0})
    assert np.abs(x[inner] - sums[inner]).max(initial=0) <= tolerance
    assert x.min() >= 0
    if total is not None:
        assert abs(x[parent.index(-1)].flat[0] - total) <= tolerance


def realistic(n, seed=1):
    rng = np.random.default_rng(seed)
    inner = max(1, int(n**0.5))
    parent = np.concatenate([[-1], np.zeros(inner, np.int64), rng.integers(1, inner + 1, n - 1 - inner)])
    true = np.where(np.isin(np.arange(n), parent), 0, rng.poisson(5, n))
    for v in range(n - 1, 0, -1):
        true[parent[v]] += true[v]
    return parent.tolist(), true + np.round(rng.laplace(0, 20, n)).astype(np.int64)


def optimality_gap(x, parent, noisy, weights, total):
    """How much cheaper any feasible table could be by first order: Σ gradient·(x − z) at most, over tables z."""
    inside, x = below(parent), np.asarray(x, float)
    slope = 2 * np.asarray(weights, float) * (x - noisy)
    if total is not None:
        slope[parent.index(-1)] = 0
    gradient, leaf = slope @ inside, np.array([x[v] for v in range(len(parent)) if v not in parent])
    if total is not None:
        return leaf @ gradient - total * gradient.min()
    return leaf @ gradient - 1e3 * min(0.0, gradient.min())  # within 1,000 units of the optimum
