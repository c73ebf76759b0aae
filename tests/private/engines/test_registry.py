"""Every engine has a name and the packages that it tabulates with."""

from importlib import metadata

import pytest

from tallytree.engines import ENGINES, Engine, Local, Remembering


@pytest.mark.parametrize(("name", "engine"), ENGINES.items())
def test_an_engine_is_registered_by_its_own_name(name, engine):
    made = engine()
    assert isinstance(made, Engine)
    assert made.name == name
    assert all(metadata.version(package) for package in made.software)


def test_the_local_engine_is_local_and_tabulates_with_duckdb():
    assert (Local().name, Local().software) == ("local", ("duckdb",))


def test_an_engine_that_remembers_has_the_name_of_the_one_that_tabulates():
    remembering = Remembering(Local(threads=1))
    assert isinstance(remembering, Engine)
    assert (remembering.name, remembering.software) == ("local", ("duckdb",))
