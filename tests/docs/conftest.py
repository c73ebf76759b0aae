"""The program `tallytree` for the commands of pages and examples."""

import tempfile
from pathlib import Path

import pytest

from helpers.warm_program import warm_program


@pytest.fixture(scope="session")
def with_program():
    """Variables of an environment in which the shell finds the program, without the seconds that it takes to load."""
    with tempfile.TemporaryDirectory(prefix="tallytree-") as folder, warm_program(Path(folder)) as variables:
        yield variables
