"""Fixtures that the tests of the papers' solvers share."""

import importlib.util

import pytest


@pytest.fixture(scope="session")
def or_tools():
    if importlib.util.find_spec("ortools") is None:  # not imported: it cannot live in one process with highspy
        pytest.skip("the extra tallytree[papers] is not installed")
