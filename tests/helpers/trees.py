"""Small random trees with noisy values and weights, and exact costs, for the tests of tree projections."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from tallytree.solvers.trees.project import project

INF = float("inf")
some_weights = st.one_of(st.sampled_from([0, 0, 1, 1, 1, 2, 0.1, 1 / 3, 1e-9, 1e9, INF]), st.floats(1e-3, 1e3))
small_values = st.integers(-4, 5)


def caterpillar(n):
    """A path on which every inner node has one more leaf: even nodes are the path."""
    v = np.arange(1, n)
    return np.concatenate([[-1], np.where(v % 2 == 1, v - 1, v - 2)])


def random_tree(n, rng):
    return np.concatenate([[-1], (rng.random(n - 1) * np.arange(1, n)).astype(np.int64)])


def shape(kind, n, draw):
    if kind == "chain":
        return np.arange(n) - 1
    if kind == "star":
        return np.concatenate([[-1], np.zeros(n - 1, np.int64)])
    if kind == "caterpillar":
        return caterpillar(n)
    return np.array([-1] + [draw(st.integers(0, v - 1)) for v in range(1, n)])


@st.composite
def problems(draw, largest=7, weights=some_weights, values=small_values):
    """A small tree, shuffled, sometimes a forest; noisy values, weights and perhaps a total."""
    n = draw(st.integers(1, largest))
    parent = shape(draw(st.sampled_from(["chain", "star", "caterpillar", "random", "random"])), n, draw)
    w = draw(st.lists(weights, min_size=n, max_size=n))
    if draw(st.booleans()):
        w[0] = 0
    new = np.array(draw(st.permutations(range(n))))
    moved = np.empty(n, np.int64)
    moved[new] = np.where(parent >= 0, new[parent], -1)
    return moved.tolist(), draw(st.lists(values, min_size=n, max_size=n)), w, draw(st.none() | st.integers(0, 6))


def top_down(parent):
    order = [parent.index(-1)]
    for v in order:
        order.extend(c for c in range(len(parent)) if parent[c] == v)
    return order


def leaves_of(parent):
    return [v for v in range(len(parent)) if v not in parent]


def add_up(parent, leaf_values):
    x = [0] * len(parent)
    for v, value in leaf_values.items():
        x[v] = value
    for v in reversed(top_down(parent)):
        if parent[v] >= 0:
            x[parent[v]] += x[v]
    return x


def cost(x, y, w):
    return sum(Fraction(c) * (int(a) - b) ** 2 for a, b, c in zip(x, y, w, strict=True) if c not in (0, INF))


def solve_or_refuse(parent, y, w, total):
    try:
        return project(parent, y, w, total=total).tolist()
    except ValueError:
        return None
