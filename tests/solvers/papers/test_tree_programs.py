"""What the programs for third-party solvers have in common: time limits, missing packages, wrong arguments."""

import sys

import numpy as np
import pytest

from helpers.tree_models import PAIR, realistic
from tallytree.solvers.papers.tree_programs import (
    tails_mip,
    tails_relaxed,
    tree_constraint_program,
    tree_mip,
    tree_relaxed,
)


def calls(limit):
    parent, noisy = realistic(400)
    table = np.stack([noisy + 40, noisy, noisy - 30], axis=1)
    return {
        "tree_relaxed": lambda: tree_relaxed(parent, noisy, time_limit=limit),
        "tree_mip": lambda: tree_mip(parent, noisy, time_limit=limit),
        "tree_constraint_program": lambda: tree_constraint_program(parent, noisy, delta=400, time_limit=limit),
        "tails_relaxed": lambda: tails_relaxed(parent, table, time_limit=limit),
        "tails_mip": lambda: tails_mip(parent, table, time_limit=limit),
    }


PACKAGES = {"tree_relaxed": "cvxpy", "tails_relaxed": "cvxpy", "tree_mip": "pyscipopt", "tails_mip": "pyscipopt"}


@pytest.fixture
def installed(name, or_tools):
    """Skips where the package of the program `name` is absent."""
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name], reason="the extra tallytree[papers] is not installed")


@pytest.mark.parametrize("name", list(calls(1)))
def test_a_time_limit_that_is_too_small_is_an_error(name, installed):
    says = r"time_limit: 1e-06 seconds were not enough for .* on 400 nodes; give more, or use the library"
    with pytest.raises(TimeoutError, match=says):
        calls(1e-6)[name]()


@pytest.mark.parametrize("name", ["tree_constraint_program", "tails_mip"])
def test_solvers_stop_at_their_time_limit(name, installed):
    with pytest.raises(TimeoutError, match=r"time_limit: 0\.5 seconds were not enough"):
        calls(0.5)[name]()


@pytest.mark.parametrize(
    ("package", "module", "name"),
    [
        ("CVXPY", "cvxpy", "tree_relaxed"),
        ("CVXPY", "cvxpy", "tails_relaxed"),
        ("PySCIPOpt", "pyscipopt", "tree_mip"),
        ("PySCIPOpt", "pyscipopt", "tails_mip"),
    ],
)
def test_without_the_extra_the_message_names_it(monkeypatch, package, module, name):
    monkeypatch.setitem(sys.modules, module, None)
    says = rf'{name} needs {package}, which is not installed: pip install "tallytree\[papers\]"'
    with pytest.raises(ModuleNotFoundError, match=says):
        calls(60)[name]()


def test_without_or_tools_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools", None)
    says = r'tree_constraint_program needs OR-tools, which is not installed: pip install "tallytree\[papers\]"'
    with pytest.raises(ModuleNotFoundError, match=says):
        tree_constraint_program(PAIR, [1, 2, 3], delta=4)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"parent": [-1, 2, 1]}, ValueError, "parent: node 1 does not lead up to the root"),
        ({"noisy": [1, 2]}, ValueError, r"noisy has shape \(2,\); tree_.* needs \(3,\), an entry for each of parent"),
        ({"noisy": [1.0, 2, 3]}, TypeError, "noisy has dtype float64"),
        ({"noisy": [1, 2, 2**40]}, ValueError, "must stay below 2\\^40 in magnitude"),
        ({"total": 2**40}, ValueError, "must stay below 2\\^40 in magnitude"),
        ({"total": -1}, ValueError, "total=-1 must be at least 0"),
        ({"weights": [1, 2]}, ValueError, r"weights has shape \(2,\); it must be \(3,\)"),
        ({"weights": [1, -2, 1]}, ValueError, "weights must be finite and not negative; got -2.0"),
        ({"weights": [1, np.nan, 1]}, ValueError, "weights must be finite"),
        ({"weights": ["a", "b", "c"]}, TypeError, "weights has dtype"),
        ({"time_limit": 0}, ValueError, "time_limit=0 must be a positive number of seconds"),
        ({"time_limit": "1"}, TypeError, "time_limit='1' must be a number of seconds"),
    ],
)
@pytest.mark.parametrize("solve", [tree_relaxed, tree_mip])
def test_they_say_what_is_wrong(solve, changes, error, says):
    with pytest.raises(error, match=says):
        solve(**({"parent": PAIR, "noisy": [1, 2, 3]} | changes))


@pytest.mark.parametrize("solve", [tails_relaxed, tails_mip])
def test_tails_need_a_table(solve):
    with pytest.raises(ValueError, match=r"noisy has shape \(3,\); tails_.* needs \(3, K\) with K >= 1"):
        solve(PAIR, [1, 2, 3])
