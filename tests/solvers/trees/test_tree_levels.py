"""Passes over a tree by levels: the cut covers every place once, and threads change no number."""

import numpy as np
import pytest

from helpers.cases import few
from tallytree.solvers.trees import integer as tree_integer
from tallytree.solvers.trees import project as tree_real
from tallytree.solvers.trees.project import project
from tallytree.solvers.trees.shape import check_problem, steps, swept


def tree_with_weights(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 200))
    parent = np.array([-1, *(int(rng.integers(max(0, i - 9 - 20 * (seed % 3)), i)) for i in range(1, n))])
    weights = [None, rng.random(n), np.where(rng.random(n) < 0.3, 0, rng.random(n))][seed % 3]
    return parent, np.rint(rng.normal(0, 30, n)).astype(np.int64), weights


@pytest.mark.parametrize("seed", range(6))
def test_steps_cover_every_place_once_and_parents_come_first(seed):
    parent, noisy, weights = tree_with_weights(seed)
    first_child = check_problem(parent, noisy, weights, None, True).first_child
    cut = steps(first_child, wide=3, threads=2)
    places = np.concatenate([np.arange(*each) for ranges in cut for each in ranges])
    assert places.tolist() == list(range(len(first_child) - 1))
    for ranges in cut:
        if len(ranges) > 1:  # no place of a shared step is the child of another one
            assert first_child[ranges[0][0]] >= ranges[-1][1]


def test_a_level_is_shared_only_where_it_is_wide():
    first_child = np.array([1, 5, 5, 5, 5, 5])
    assert steps(first_child, wide=4, threads=2) == [((0, 1),), ((1, 3), (3, 5))]
    assert steps(first_child, wide=5, threads=2) == [((0, 5),)]
    assert steps(first_child, wide=4, threads=1) == [((0, 5),)]


def test_swept_adds_up_what_all_ranges_find():
    assert swept(lambda begin, end: end - begin, [((0, 1),), ((1, 3), (3, 5))]) == 5


@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize("seed", few(range(12), 3))
def test_threads_change_no_bit(seed, integer, monkeypatch):
    parent, noisy, weights = tree_with_weights(seed)
    alone = project(parent, noisy, weights, integer=integer)
    used = []

    def shared(first_child):
        cut = steps(first_child, wide=2, threads=3)
        used.append(max(map(len, cut)))
        return cut

    monkeypatch.setattr(tree_real, "steps", shared)
    monkeypatch.setattr(tree_integer, "steps", shared)
    assert project(parent, noisy, weights, integer=integer).tobytes() == alone.tobytes()
    assert max(used) == 3
