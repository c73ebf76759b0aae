"""The page of proofs has a lemma for every entry of the table of sensitivities, and its numbers are those used."""

import itertools
import re
from pathlib import Path
from typing import get_args

import pytest

from helpers.inside import sensitivity
from tallytree.mechanisms import Statistic

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "proofs.md"
FORMULA = re.compile(r"[\dmzn²·]+")
ROW = re.compile(r"^\| `(\w+)` \| (.+) \| (.+) \| (.+) \| (.+) \| ([\d, ]+) \|$", re.MULTILINE)
PROOF = re.compile(r"^\*\*Lemma (\d+) \([^)]*\)\.\*\*(.*)∎$", re.MULTILINE | re.DOTALL)


def rows():
    """By statistic, the formulas of both relations, each L1 and squared L2, and the numbers of its lemmas."""
    return {name: (rest[:4], [int(each) for each in rest[4].split(",")]) for name, *rest in ROW.findall(text())}


def text():
    return PAGE.read_text(encoding="utf-8")


def value(formula, **names):
    """The value of a product of numbers, letters and squares, such as 2m²·z."""
    assert FORMULA.fullmatch(formula)
    found = 1
    for number, letter, square in re.findall(r"(\d+)|([mzn])(²?)", formula):
        found *= int(number) if number else names[letter] ** (2 if square else 1)
    return found


@pytest.mark.parametrize("statistic", get_args(Statistic))
def test_the_numbers_of_the_page_are_those_used(statistic):
    formulas, lemmas = rows()[statistic]
    assert lemmas
    for m, z, n in itertools.product((1, 2, 5), (1, 3), (1, 4)):
        for relation, (l1, l2_squared) in (("add_remove", formulas[:2]), ("change_one", formulas[2:])):
            used = sensitivity(statistic, relation, m, max_quantity=z, nodes=n)
            assert (used.l1, used.l2_squared) == (value(l1, m=m, z=z, n=n), value(l2_squared, m=m, z=z, n=n))


def test_the_page_has_no_other_statistic_and_every_lemma_that_it_names():
    assert set(rows()) == set(get_args(Statistic))
    blocks = text().split("\n\n")
    proven = [int(found[1]) for block in blocks if (found := PROOF.match(block))]
    assert proven == list(range(1, 15))
    assert {lemma for _, lemmas in rows().values() for lemma in lemmas} <= set(proven)
