"""`kind_of`: what each released statistic is, by its name and by a statement of it."""

import typing

import pytest

from tallytree.kinds.kind import Kind
from tallytree.kinds.registry import KINDS, kind_of
from tallytree.kinds.terms import Unit
from tallytree.spec.models import SPECS


@pytest.mark.parametrize("name", KINDS)
def test_a_statistic_is_found_by_its_name_and_by_a_statement(name):
    assert kind_of(name) is kind_of({"statistic": name})
    assert kind_of(name).name == name


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
    assert not kind.lists_nodes or kind.counts_nodes
    assert kind.by_size == ("size" in kind.keys)
    assert len(kind.sides) in (0, len(kind.trees))
    assert all(kind.errors.count(each) == 1 for each in kind.errors)


def test_what_is_measured_beside_the_levels_is_what_the_statement_has_of_it():
    statement = {"statistic": "group_sizes", "maximum": {"at_most": 9}, "levels": []}
    assert kind_of(statement).measured_beside(statement) == {"maximum": {"at_most": 9}}
    alone = {"statistic": "contributions", "contributions": {"at_most": 9}}
    assert kind_of(alone).measured_beside(alone) == {}, "its level is what was measured"
