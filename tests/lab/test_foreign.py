"""Audits and replays of mechanisms from outside."""

import numpy as np
import pytest

import tallytree as tt
from helpers.foreign import FinestTable, LeafTails, Rounded, UniformBelow
from tallytree.lab.audit import audit_mechanism
from tallytree.lab.audit.library import mechanism_cases
from tallytree.lab.replay import replay, replaying
from tallytree.lab.replay.configurations import random_pair


@pytest.mark.parametrize(
    ("mechanism", "cases"), [(UniformBelow("county"), 18), (Rounded(), 24), (LeafTails(), 20), (FinestTable(), 19)]
)
def test_a_mechanism_is_audited_in_the_cases_that_it_does_not_refuse(mechanism, cases):
    found = mechanism_cases(mechanism)
    assert len(found) == cases
    result = found[0].run(runs=200, releases=100, seed=1)
    assert result.passed
    assert result.epsilon_stated == 1


def test_all_cases_are_audited_by_name(monkeypatch):
    monkeypatch.setattr("tallytree.lab.audit.library._counts_cases", lambda *given: mechanism_cases_of_one(*given))
    found = audit_mechanism(UniformBelow("county"), runs=100, releases=0, seed=1)
    assert [*found] == ["1. counts UniformBelow(level=county), add_remove, m = 1, Budget(epsilon=1.0)"]
    assert all(result.passed for result in found.values())


def mechanism_cases_of_one(mechanism, budgets, cases=mechanism_cases.__globals__["_counts_cases"]):
    return cases(mechanism, budgets)[:1]


def test_what_is_no_mechanism_or_fits_nowhere_is_not_audited():
    with pytest.raises(TypeError, match=r"^mechanism: str must be a mechanism, with one of the three bases"):
        mechanism_cases("TopDown")
    with pytest.raises(ValueError, match="refuses every case; those of counts have the levels state and county"):
        mechanism_cases(UniformBelow("town"))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [Rounded(), LeafTails(), FinestTable()], ids=lambda given: type(given).__name__)
def test_neighbors_with_the_same_answers_show_the_same(mechanism):
    """What a mechanism is tried on has noise of its own, which the replay leaves alone."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        pair = random_pair(rng, mechanisms=[mechanism])
        found, refused = replaying.compare_pair(pair)
        assert found == []
        if not refused:
            return
    pytest.fail("every pair was refused")


def test_a_replay_of_a_mechanism_that_fits_nowhere_ends(monkeypatch):
    monkeypatch.setattr(replaying, "compare_pair", lambda pair, *, widely: ([], True))
    with pytest.raises(ValueError, match=r"^mechanisms: 21 of 21 .*refused; give mechanisms"):
        replay(1, mechanisms=[tt.counts.TopDown()])
