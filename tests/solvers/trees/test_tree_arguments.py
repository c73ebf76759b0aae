"""Wrong arguments of `tree.project` and `tree.is_optimal` are named."""

import numpy as np
import pytest

from helpers.trees import INF
from tallytree.solvers.trees.project import is_optimal, project


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"parent": [], "noisy": []}, ValueError, "parent is empty; a tree has at least its root"),
        ({"parent": [0.0, 1.0]}, TypeError, "parent has dtype float64"),
        ({"parent": [[-1, 0, 0]]}, ValueError, r"parent has shape \(1, 3\)"),
        ({"parent": [-1, 0, 3]}, ValueError, r"parent\[2\]=3; it must be the index of a node, 0 … 2, or -1"),
        ({"parent": [-1, -2, 0]}, ValueError, r"parent\[1\]=-2; it must be the index of a node"),
        ({"parent": [1, 2, 0]}, ValueError, "parent holds no -1; exactly one node must be the root"),
        ({"parent": [-1, 0, -1]}, ValueError, r"-1 for 2 nodes \(0, 2\).* under a virtual root with weight 0"),
        ({"parent": [-1, 2, 1]}, ValueError, r"a circle through node\(s\) 1, 2; every node must lead up"),
        ({"parent": [-1, 1, 0]}, ValueError, r"a circle through node\(s\) 1;"),
        ({"noisy": [1, 2]}, ValueError, "noisy has 2 entries; parent has 3"),
        ({"noisy": [1.0, 2.0, 3.0]}, TypeError, "noisy has dtype float64; .* or set integer=False"),
        ({"noisy": [1, 2**53, 3]}, ValueError, r"Σ\|noisy\| \+ total < 2\^53.*9007199254740992 is one value"),
        ({"noisy": [1, -(2**63), 3]}, ValueError, r"Σ\|noisy\| \+ total < 2\^53"),
        ({"noisy": [2**52, 2**51, 2**51]}, ValueError, r"Σ\|noisy\| \+ total < 2\^53"),
        ({"total": 2**52, "noisy": [0, 2**52, 1]}, ValueError, r"Σ\|noisy\| \+ total < 2\^53"),
        ({"weights": [1, 2]}, ValueError, r"weights has shape \(2,\); it must be \(3,\)"),
        ({"weights": ["a", "b", "c"]}, TypeError, "weights has dtype"),
        ({"weights": [1, -1, 1]}, ValueError, r"weights\[1\]=-1 must be >= 0: 0 for not measured, inf for fixed"),
        ({"weights": [1, 1, np.nan]}, ValueError, r"weights\[2\]=nan must be >= 0"),
        ({"weights": [1, 1, 2**53 + 1]}, ValueError, r"weights\[2\]=9007199254740993 must be at most 2\^53"),
        ({"weights": [1e-300, 1, 1e300]}, ValueError, r"within a factor 2\^800 .* use 0 for not measured"),
        ({"total": -1}, ValueError, r"total=-1 must be between 0 and 2\^53"),
        ({"total": 1.0}, TypeError, "total=1.0 must be an integer"),
        ({"total": 2.5}, TypeError, "total=2.5 must be an integer"),
        ({"total": True}, TypeError, "total=True must be a number"),
        (
            {"total": 5, "weights": [INF, 1, 1]},
            ValueError,
            r"total=5 and noisy\[0\]=4 both fix the root; make them equal",
        ),
        ({"noisy": [1, -2, 3], "weights": [1, INF, 1]}, ValueError, r"noisy\[1\]=-2 is fixed .* must not be negative"),
        (
            {"weights": [INF, INF, INF]},
            ValueError,
            r"noisy\[0\]=4 fixes node 0, but the fixed values below it \(node\(s\) 1, 2\) add up to 3, which is less",
        ),
        (
            {"noisy": [4, 5, 0], "weights": [INF, INF, 1]},
            ValueError,
            r"\(node\(s\) 1\) add up to 5, which is more: make",
        ),
        ({"total": 1, "weights": [1, 1, INF]}, ValueError, r"total=1 fixes node 0, but .*\(node\(s\) 2\) add up to 2"),
    ],
)
def test_arguments_are_checked(changes, error, says):
    arguments = {"parent": [-1, 0, 0], "noisy": [4, 1, 2]} | changes
    with pytest.raises(error, match=says):
        project(**arguments)
    with pytest.raises(error, match=says):
        is_optimal(**arguments, x=[0] * len(arguments["noisy"]))


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        (
            {"noisy": [1.0, np.nan, 2.0]},
            ValueError,
            r"noisy\[1\]=nan must be finite; give what is not measured weight 0",
        ),
        ({"noisy": [1.0, 2.0]}, ValueError, "noisy has 2 entries"),
        ({"noisy": ["a", "b", "c"]}, TypeError, "noisy has dtype"),
        ({"noisy": [1e300, 1e300, 0]}, ValueError, r"Σ\|noisy\| \+ total <= 1e300"),
        ({"total": np.nan}, ValueError, "total=nan must be between 0 and 1e300"),
        ({"total": -0.5}, ValueError, "total=-0.5 must be between 0 and 1e300"),
        ({"total": "5"}, TypeError, "total='5' must be an integer or a float"),
        ({"noisy": [0.5, 0.1, 0.2], "weights": [INF] * 3}, ValueError, "add up to 0.3.*, which is less"),
    ],
)
def test_arguments_of_the_real_problem_are_checked(changes, error, says):
    with pytest.raises(error, match=says):
        project(**({"parent": [-1, 0, 0], "noisy": [4, 1, 2]} | changes), integer=False)


def test_a_real_total_may_be_a_float():
    assert project([-1, 0, 0], [0, 1, 1], total=3.5, integer=False).tolist() == [3.5, 1.75, 1.75]


@pytest.mark.parametrize(
    ("x", "error", "says"),
    [
        ([1, 1], ValueError, "x has 2 entries; parent has 3"),
        ([1.0, 1.0, 0.0], TypeError, "x has dtype float64"),
        ([2**53, 2**53, 0], ValueError, r"x holds a value of magnitude 9007199254740992; it must stay below 2\^53"),
        ([-(2**63), 0, 0], ValueError, r"must stay below 2\^53"),
    ],
)
def test_a_point_to_certify_is_checked(x, error, says):
    with pytest.raises(error, match=says):
        is_optimal([-1, 0, 0], [2, 3, 0], x)


@pytest.mark.parametrize("x", [[3, 2, 0], [2, 3, -1], [0, 0, 0], [4, 4, 0], [2, 1, 1]])
def test_points_that_are_infeasible_or_dearer_are_not_certified(x):
    assert not is_optimal([-1, 0, 0], [2, 3, 0], x)
