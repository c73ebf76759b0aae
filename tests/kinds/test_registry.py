"""`kind_of`: what each released statistic is, by its name and by a statement of it."""

import ast
import typing
from pathlib import Path

import pytest

import tallytree
from tallytree.kinds.kind import Kind
from tallytree.kinds.registry import KINDS, kind_of
from tallytree.kinds.terms import Unit
from tallytree.spec.models import SPECS


@pytest.mark.parametrize("name", KINDS)
def test_a_statistic_is_found_by_its_name_and_by_a_statement(name):
    assert kind_of(name) is kind_of({"statistic": name})
    assert repr(kind_of(name)) == f"Kind({name!r})"


@pytest.mark.parametrize("given", ["count", "", {"statistic": "Counts"}, {"statistic": None}, {}, {"statistic": ["x"]}])
def test_an_unknown_statistic_is_refused_with_those_that_are_known(given):
    with pytest.raises(ValueError, match=r"^statistic: .* is not known; choose one of counts, flows"):
        kind_of(given)


def test_every_spec_is_of_a_known_statistic_and_every_other_statistic_protects_all_records():
    assert set(SPECS) <= set(KINDS)
    assert all(KINDS[name].protects_all_records for name in set(KINDS) - set(SPECS))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_facts_of_a_statistic_agree_with_each_other(kind: Kind):
    assert kind.unit in typing.get_args(Unit)
    assert not kind.has_tables or (kind.has_attributes and not kind.nested)
    assert not kind.parts or not kind.has_tree, "what has parts leaves files to them"
    assert len(kind.sides) in (0, len(kind.trees))
    assert all(kind.errors.count(each) == 1 for each in kind.errors)


def test_what_is_measured_beside_the_levels_is_what_the_statement_has_of_it():
    statement = {"statistic": "group_sizes", "maximum": {"at_most": 9}, "levels": []}
    assert kind_of(statement).measured_beside(statement) == {"maximum": {"at_most": 9}}
    alone = {"statistic": "contributions", "contributions": {"at_most": 9}}
    assert kind_of(alone).measured_beside(alone) == {}, "its level is what was measured"


OF_WHAT_IS_MEASURED = {"accounting/noise_plan.py", "accounting/sensitivity.py"}
"""These compare the name of what is measured, of which two are names of statistics too."""


def compared_names(text):
    """The lines in which something is compared with the name of a statistic, or with several."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            sides = [part for side in (node.left, *node.comparators) for part in (side, *getattr(side, "elts", ()))]
            named = any(isinstance(each, ast.Constant) and each.value in KINDS for each in sides)
            of_a_key = any(isinstance(each, ast.In) for each in node.ops) and "statistic" not in ast.unparse(node)
            if named and not of_a_key:  # else it asks whether a statement has that key
                yield node.lineno


@pytest.mark.parametrize(
    "line",
    ['if view.statistic == "flows": pass', 'x = statement["statistic"] in ("counts", "flows")', '"tables" != kind'],
)
def test_a_comparison_with_a_name_is_seen(line):
    assert [*compared_names(line)] == [1]


def test_nothing_but_the_lab_compares_the_name_of_a_statistic():
    folder = Path(tallytree.__file__).parent
    found = {
        path.relative_to(folder).as_posix(): lines
        for path in folder.rglob("*.py")
        if (lines := [*compared_names(path.read_text(encoding="utf-8"))])
    }
    assert {file for file in found if not file.startswith("lab/")} <= OF_WHAT_IS_MEASURED
