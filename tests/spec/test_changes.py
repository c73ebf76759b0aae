"""Keys that are given beside the spec: `--set` and `changes=`."""

from fractions import Fraction

import pytest

from helpers.specs import COUNTS, write
from tallytree.spec import SpecError, load_spec


@pytest.fixture
def spec(folder):
    return write(folder, COUNTS, "changed.yaml")


@pytest.mark.parametrize(
    "changes",
    [["budget.epsilon=0.1"], ["budget.epsilon = 0.1"], ["budget.epsilon='0.1'"], {"budget.epsilon": 0.1}],
    ids=["text", "spaces", "quoted", "mapping"],
)
def test_a_number_that_is_set_is_exact(spec, changes):
    assert load_spec(spec, changes=changes).budget.epsilon == Fraction(1, 10)


def test_a_date_is_text_in_an_option_since_a_shell_takes_quotes_away(spec):
    assert load_spec(spec, changes=["period=2026-03-04"])._value("period") == "2026-03-04"


def test_what_is_not_set_stays(spec):
    changed = load_spec(spec, changes=["budget.epsilon=2", "seed=7", "budget_split.state=0.5"])
    assert (changed.budget.delta, changed.seed) == (Fraction(1, 10**8), 7)
    assert changed.budget_split == {"state": Fraction(1, 2), "county": Fraction(1, 5)}
    assert load_spec(spec).seed is None


def test_a_key_without_a_value_is_as_good_as_not_given(spec):
    assert load_spec(spec, changes=["budget.delta="]).budget.delta is None
    assert load_spec(spec, changes={"budget.delta": None}).budget.delta is None


def test_a_section_that_the_spec_does_not_have_is_made(spec):
    assert load_spec(spec, changes=["engine.threads=2"]).engine.threads == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("budget.epsilon=-1", ", --set budget.epsilon: -1 must be greater than 0"),
        ("budget.epsilom=1", ", --set budget.epsilom: unknown key; did you mean epsilon?"),
        ("sead=1", ", --set sead: unknown key; did you mean seed?"),
        ("records=2024", ', --set records: 2024 is read as a number; put it in quotes: "2024"'),
        ("records.path=x", ", --set records.path: records is 'people.parquet', no mapping"),
        ("hierarchy.levels=[a, b]", ", --set hierarchy.levels: a list or a mapping is given; give one value, or write"),
        ("records=*x", ", --set records: the value is not valid YAML; put it in quotes"),
        ("records=!tag x", ", --set records, line 1: the tag !tag is not supported; leave it out"),
        ("max_contributions=0", ", --set max_contributions: 0 must be at least 1"),
        ("budget=", ", --set budget: has no value; "),
    ],
    ids=lambda value: value.partition("=")[0] if "=" in value else "",
)
def test_a_mistake_names_the_option(spec, change, message):
    with pytest.raises(SpecError) as caught:
        load_spec(spec, changes=[change])
    assert str(caught.value).startswith(f"{spec}{message}")


def test_a_mistake_in_python_names_the_changes(spec):
    with pytest.raises(SpecError, match=r"changed\.yaml, changes budget\.epsilon: -1 must be greater than 0"):
        load_spec(spec, changes={"budget.epsilon": -1})


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (["budget.epsilon"], ValueError, "set: each must be KEY=VALUE, such as budget.epsilon=0.5"),
        (["=1"], ValueError, "set: '' is no key of a spec"),
        (["a..b=1"], ValueError, "set: 'a..b' is no key of a spec"),
        (["seed=1", "seed=2"], ValueError, "set: seed is given twice; keep one"),
        (["variables=1"], ValueError, "set: variables is no variable; give one such as variables.DATE="),
        ("seed=1", TypeError, "changes: str must be a mapping of dotted keys, or a list of KEY=VALUE"),
        (7, TypeError, "changes: int must be a mapping"),
        ({7: 1}, ValueError, "changes: int is no key of a spec"),
    ],
    ids=str,
)
def test_changes_of_another_form_are_refused(spec, changes, kind, message):
    with pytest.raises(kind) as caught:
        load_spec(spec, changes=changes)
    assert str(caught.value).startswith(message)
