"""The constraint programs against the cost tables."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tree_models import PAIR, assert_consistent, cost, trees
from tallytree.solvers.papers import cost_table, tree_programs
from tallytree.solvers.papers.tree_programs import tree_constraint_program

few = settings(max_examples=10)


@pytest.fixture(scope="module")
def one_process(or_tools):
    """A process that answers any number of tasks, one a line: starting one for each takes a second."""
    program = """
import json, sys
from tallytree.solvers.papers.tree_programs import _constraint_programs
for line in sys.stdin:
    print(json.dumps(_constraint_programs(json.loads(line))), flush=True)
"""
    paths = os.pathsep.join(path for path in sys.path if path)
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
    )

    def answer(task, limit):
        child.stdin.write(json.dumps(task) + "\n")
        child.stdin.flush()
        return json.loads(child.stdout.readline())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_programs, "_in_child", answer)
        yield
    child.communicate(timeout=600)


@pytest.mark.slow
@few
@given(trees(6), st.one_of(st.none(), st.integers(0, 9)))
def test_the_constraint_programs_give_the_cost_tables_solution(one_process, tree, total):
    parent, noisy = tree
    try:
        exact = cost_table.project(parent, noisy, delta=12, total=total, widen=False)
    except ValueError:
        with pytest.raises(ValueError, match=r"delta=12: .*; give a larger delta"):
            tree_constraint_program(parent, noisy, delta=12, total=total)
        return
    x = tree_constraint_program(parent, noisy, delta=12, total=total)
    assert_consistent(x, parent, total, 0)
    assert cost(x, parent, noisy, np.ones(len(x)), total) == exact.cost


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"delta": 0}, "delta=0 must be at least 1"),
        ({"delta": 2**40}, "delta=1099511627776 is too large"),
        ({"noisy": [0, -9, 4], "delta": 5}, "delta=5: node 1 has no value within the domains; give a larger delta"),
        ({"total": 99}, "delta=4: total=99 is not within the domains; give a larger delta"),
        ({"noisy": [0, 7, 7], "total": 6}, "delta=4: the solution gives node 1 the value 3, an end of its domain"),
    ],
)
def test_constraint_programs_say_what_is_wrong(changes, says, or_tools):
    with pytest.raises(ValueError, match=says):
        tree_constraint_program(**({"parent": PAIR, "noisy": [1, 2, 3], "delta": 4} | changes))
