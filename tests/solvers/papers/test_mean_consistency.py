"""Mean consistency: against dense weighted least squares, Hay's closed form, and numbers worked by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.papers.mean_consistency import fit, with_exact_sums


def dense(noisy, first_child, variances):
    """min ‖V^(-1/2)(A·leaves − noisy)‖, where A adds leaves up to nodes, by numpy's solver; nodes of variance 0 by rows
    of weight 10^6."""
    leaves = len(noisy[-1])
    adds_up = [np.eye(leaves)]
    for begins in reversed(first_child):
        adds_up.insert(0, np.add.reduceat(adds_up[0], begins[:-1], axis=0))
    matrix = np.concatenate(adds_up)
    variance = np.concatenate([np.broadcast_to(v, len(y)) for v, y in zip(variances, noisy, strict=True)])
    weight = np.where(variance > 0, 1 / np.sqrt(np.where(variance > 0, variance, 1)), 1e6)[:, None]
    solved = np.linalg.lstsq(weight * matrix, weight * np.concatenate(noisy), rcond=None)[0]
    return [each @ solved for each in adds_up]


@st.composite
def trees(draw, exact_root=False):
    """Up to four levels of families of any sizes, from one root or several; noisy numbers and variances of nodes."""
    sizes = [draw(st.integers(1, 2))]
    first_child = []
    for _ in range(draw(st.integers(1 if exact_root else 0, 3))):
        families = draw(st.lists(st.integers(1, 4), min_size=sizes[-1], max_size=sizes[-1]))
        first_child.append(np.cumsum([0, *families]))
        sizes.append(sum(families))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    noisy = [random.integers(-20, 100, (n, 2)).astype(float) for n in sizes]
    variances = [random.uniform(0.1, 10, n) if draw(st.booleans()) else 2.5 for n in sizes]
    if exact_root:
        variances[0] = 0.0
    return noisy, first_child, variances


@settings(max_examples=200)
@given(trees())
def test_it_is_the_dense_weighted_least_squares_solution(problem):
    for found, expected in zip(fit(*problem), dense(*problem), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-8)


@settings(max_examples=100)
@given(trees(exact_root=True))
def test_an_exact_top_level_is_kept(problem):
    found = fit(*problem)
    np.testing.assert_allclose(found[0], problem[0][0], atol=1e-9)
    for here, expected in zip(found, dense(*problem), strict=True):
        np.testing.assert_allclose(here, expected, atol=1e-4)


@pytest.mark.parametrize(("k", "height"), [(2, 3), (3, 3), (4, 2), (2, 5)])
def test_on_complete_trees_with_equal_variances_it_is_hays_closed_form(k, height):
    """Hay et al. 2010: z = (k^i − k^(i−1))/(k^i − 1)·y + (k^(i−1) − 1)/(k^i − 1)·Σ z of the children, at height i (1 of
    the leaves), then x = z + (parent's x − Σ z of the siblings)/k."""
    random = np.random.default_rng(1)
    noisy = [random.integers(-10, 50, (k**depth, 1)).astype(float) for depth in range(height)]
    z = [noisy[-1]]
    for i, y in enumerate(noisy[-2::-1], start=2):
        children = z[0].reshape(len(y), k).sum(axis=1, keepdims=True)
        z.insert(0, (k**i - k ** (i - 1)) / (k**i - 1) * y + (k ** (i - 1) - 1) / (k**i - 1) * children)
    x = [z[0]]
    for below in z[1:]:
        families = below.reshape(-1, k)
        x.append((families + (x[-1] - families.sum(axis=1, keepdims=True)) / k).reshape(-1, 1))
    found = fit(noisy, [np.arange(k**depth + 1) * k for depth in range(height - 1)], [3.0] * height)
    for here, expected in zip(found, x, strict=True):
        np.testing.assert_allclose(here, expected, atol=1e-9)


def test_a_hand_worked_answer_is_negative_and_fractional_although_all_that_is_noisy_is_positive():
    """Kuo et al., footnote 7. z of the root is 2 + (13 − 2)·1/4 = 4.75 and 8.25 are taken from three children alike."""
    found = fit([[[2.0]], [[1.0], [2.0], [10.0]]], [[0, 3]], [1.0, 1.0])
    assert [level[:, 0].tolist() for level in found] == [[4.75], [-1.75, -0.75, 7.25]]


def test_hand_worked_variances_share_out_the_discrepancy():
    """The root's sum is trusted three times as much as the children's: 8 + (4 − 8)·1/4 = 7; of the 3 the second child,
    with twice the variance, gets 2."""
    found = fit([[[8.0]], [[3.0], [1.0]]], [[0, 2]], [1.0, [1.0, 2.0]])
    assert [level[:, 0].tolist() for level in found] == [[7.0], [4.0, 3.0]]


def test_at_full_size_levels_add_up_and_noise_shrinks_as_it_should():
    """20,000 leaves, 40 columns. Of a family of k under a root, a leaf keeps the variance 1 − 1/(k + 1) when all are
    measured alike, and the root 1/(1 + 1/k); the standard error of these means is below 0.3 %, and 2 % are allowed."""
    random = np.random.default_rng(5)
    families, k = 2_000, 10
    noisy = [random.normal(size=(families, 40)), random.normal(size=(families * k, 40))]
    top, leaves = fit(noisy, [np.arange(families + 1) * k], [1.0, 1.0])
    np.testing.assert_allclose(leaves.reshape(families, k, 40).sum(axis=1), top, atol=1e-12)
    assert leaves.var() == pytest.approx(1 - 1 / (k + 1), rel=0.02)
    assert top.var() == pytest.approx(k / (k + 1), rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([], [], []), ValueError, "noisy: 0 levels, with 0 of first_child and 0 variances; give at least one level"),
        (([[[1.0]], [[1.0]]], [], [1, 1]), ValueError, "noisy: 2 levels, with 0 of first_child"),
        (([[1.0]], [], [1]), ValueError, r"noisy: the shapes are \[\(1,\)\]; every level needs rows"),
        (([[[1.0]], [[1.0, 2.0]]], [[0, 1]], [1, 1]), ValueError, "noisy: the shapes are .* all as many columns"),
        (([[[np.nan]]], [], [1]), ValueError, "noisy: it holds a number that is not finite"),
        (([[[1.0]], [[1.0], [2.0]]], [[0, 0, 2]], [1, 1]), ValueError, "first_child: 3 offsets for 1 nodes"),
        (([[[1.0], [1.0]], [[1.0]]], [[0, 0, 1]], [1, 1]), ValueError, "every node needs one, and a child"),
        (
            ([[[1.0]], [[1.0], [2.0]]], [[0, 1]], [1, 1]),
            ValueError,
            "first_child is 0 … 1; it must run from 0 to",
        ),
        (([[[1.0]], [[1.0], [2.0]]], [[0.0, 2.0]], [1, 1]), TypeError, "first_child has dtype float64"),
        (
            ([[[1.0]], [[1.0], [2.0]]], [[0, 2]], [1, [1, 1, 1]]),
            ValueError,
            r"variances: the shape \(3,\) does not",
        ),
        (([[[1.0]], [[1.0], [2.0]]], [[0, 2]], [1, 0]), ValueError, r"variances: .*0.* in level 1 must be positive"),
        (([[[1.0]]], [], [0]), ValueError, "in level 0 must be positive and finite"),
        (([[[1.0]]], [], [np.inf]), ValueError, "in level 0 must be positive and finite"),
    ],
)
def test_what_is_no_problem_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        fit(*arguments)


# --- Exact sums ---


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(0, 26), st.booleans())
def test_sums_and_differences_are_exact_whatever_the_order(seed, rows, magnitude, has_total):
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, 3)) * 2.0**magnitude
    total = int(np.rint(values[:, 0].sum())) if has_total else None
    if has_total:
        values[:, 0] += (total - values[:, 0].sum()) / rows
    found = with_exact_sums(values, total)
    largest = np.abs(values).sum(axis=0).max()
    unit = 2.0**-20 if largest < 2**30 else largest * 2.0**-49
    assert np.abs(found - values).max() <= (1.501 if has_total else 0.501) * unit
    units = [[int(cell) for cell in row] for row in (found * 2**20).tolist()]
    assert (found * 2**20).tolist() == units  # multiples of the unit
    differences = found[:, :-1] - found[:, 1:]
    for column in range(2):
        exact = sum(row[column] - row[column + 1] for row in units)
        for order in (np.arange(rows), random.permutation(rows)):
            assert int(differences[order, column].sum() * 2**20) == exact
    if has_total:
        assert found[:, 0].sum() == total


def test_whole_numbers_stay_whole_and_so_does_what_float_error_kept_from_it():
    found = with_exact_sums(np.array([[3.0, 0.1 + 0.2 + 0.7], [-5.0, 1 / 3]]))
    assert found[:, 0].tolist() == [3, -5]
    assert found[0, 1] == 1
    assert found[1, 1] != 1 / 3
    assert abs(found[1, 1] - 1 / 3) < 2**-20


def test_sums_that_floats_cannot_hold_are_refused():
    assert with_exact_sums(np.array([[2.0**49 + 0.25]])).tolist() == [[2.0**49]]
    with pytest.raises(ValueError, match=r"values: .*4.5e\+15, .*exact below"):
        with_exact_sums(np.full((2, 1), 2.0**51))
