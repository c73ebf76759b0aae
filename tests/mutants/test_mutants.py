"""The list of planted faults stays alive: each finds its text, and names tests that exist. `run.py` tries them."""

import ast
import shlex

import pytest

from mutants.mutant import SOURCE, Mutant, mutated, sources
from mutants.planted import MUTANTS

TEXTS = sources()
REPOSITORY = SOURCE.parents[1]


def test_every_planted_fault_finds_its_text_once_and_is_python():
    for mutant in MUTANTS:
        for path, text in mutated(mutant, TEXTS).items():
            assert text != TEXTS[path], mutant.name
            ast.parse(text)


def test_every_planted_fault_names_tests_that_exist():
    """The function in the file; `make mutants` finds out whether its parameters exist, too."""
    for mutant in MUTANTS:
        arguments = [each for each in shlex.split(mutant.check) if each.startswith("tests/")]
        assert arguments or mutant.check.startswith("tallytree "), mutant.name
        for argument in arguments:
            file, *names = argument.partition("[")[0].split("::")
            text = (REPOSITORY / file).read_text(encoding="utf-8")
            assert all(f"def {name}(" in text or f"class {name}" in text for name in names), mutant.name


def test_there_are_many_and_no_two_have_one_name():
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names)) > 60


@pytest.mark.parametrize("text", ["", "that is nowhere in the sources"])
def test_a_text_that_is_not_found_once_is_an_error(text):
    with pytest.raises(LookupError, match="wrong: the text must be found once"):
        mutated(Mutant("wrong", "", ((text, ""),)), TEXTS)
