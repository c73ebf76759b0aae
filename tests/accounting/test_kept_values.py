"""Numbers of privacy-loss distributions that are kept for the next process: found again, and never wrong."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import tallytree as tt
from helpers.inside import CountsArguments, plan_counts
from helpers.ledger_entries import PEOPLE
from tallytree.accounting import noise_plan, plan_noise, pld
from tallytree.accounting.pld import KeptValues
from tallytree.accounting.sensitivity import sensitivity

BUDGET = tt.Budget(epsilon=1, delta=1e-8)
LEVELS = {
    "root": ("total", sensitivity("total", "add_remove")),
    "leaf": ("counts", sensitivity("counts", "change_one")),
}
EPSILONS = np.array([0.1, 0.5, 1.2])


def forget():
    """What a new process would not know."""
    noise_plan._rho_by_pld.cache_clear()
    pld._composition.cache_clear()
    pld.implied_without_kept.cache_clear()
    pld._folder.cache_clear()
    pld.why_untrusted.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TALLYTREE_CACHE_DIR", str(tmp_path / "kept"))
    forget()
    yield tmp_path / "kept" / "accounting"
    forget()


def answers():
    """All that a release asks of a plan: its scales, what it spends, and δ at several ε."""
    plan = plan_noise(BUDGET, LEVELS)
    mechanisms = pld.curves((each.sensitivity, each.noise) for each in plan.measured)
    return plan.levels, plan.spent, pld.profile(mechanisms, BUDGET.delta)(EPSILONS).tolist()


@pytest.fixture
def right():
    """What is computed with nothing kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TALLYTREE_CACHE_DIR", "")
        forget()
        found = answers()
    forget()
    return found


def refuse_to_compute(monkeypatch):
    def compose(mechanisms, delta):
        raise AssertionError(f"{mechanisms} was composed again")

    monkeypatch.setattr(pld, "_composed", compose)


def test_a_plan_is_solved_once(folder, right, monkeypatch):
    assert answers() == right
    forget()
    refuse_to_compute(monkeypatch)
    assert answers() == right  # to the last bit
    assert oct(folder.stat().st_mode & 0o777) == "0o700"


def test_a_process_that_finds_its_plan_does_not_import_dp_accounting(folder, right):
    answers()
    code = (
        "import sys, tallytree as tt\n"
        "from tallytree.accounting import plan_noise\n"
        "from tallytree.accounting.sensitivity import sensitivity\n"
        "root, leaf = sensitivity('total', 'add_remove'), sensitivity('counts', 'change_one')\n"
        "levels = {'root': ('total', root), 'leaf': ('counts', leaf)}\n"
        "print(plan_noise(tt.Budget(epsilon=1, delta=1e-8), levels).spent['epsilon'], 'dp_accounting' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.split() == [str(right[1]["epsilon"]), "False"]


def test_an_empty_variable_keeps_nothing(folder, right, monkeypatch):
    monkeypatch.setenv("TALLYTREE_CACHE_DIR", "")
    forget()
    assert answers() == right
    assert not folder.exists()


def lower(text, factor=0.01):
    """Every δ a hundred times too small, with a digest that agrees: what no accident does."""
    content = json.loads(text)
    kept = {
        question: (float.fromhex(answer) * (factor if question.startswith("delta") else 1)).hex()
        for question, answer in content["answers"].items()
    }
    made = object.__new__(KeptValues)
    made._about = content["about"]
    return made._text(kept)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        lower,
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"0x1.', '"0x1.0', 1),
        lambda text: text.replace("numpy ", "numpy 0"),
        lambda text: text.replace("Fraction(1,", "Fraction(2,", 1),
        lambda text: "[" * 100_000,
        lambda text: "null",
        lambda text: "\u00e9",
        lambda text: "",
    ],
    ids=["lower", "cut", "flipped", "version", "another", "deep", "null", "letters", "empty"],
)
def test_a_damaged_file_changes_no_answer(folder, right, damage):
    answers()
    for path in folder.glob("*.json"):
        path.write_text(damage(path.read_text()), encoding="utf-8")
    forget()
    assert answers() == right


def test_a_kept_number_that_is_far_too_small_is_not_used(folder):
    asked = ((Fraction(5), 1, 1),), BUDGET.epsilon / 10, BUDGET.delta
    assert not pld.implied(*asked)
    (path,) = folder.glob("*.json")
    path.write_text(lower(path.read_text(), 1e-9))
    forget()
    assert not pld.implied(*asked)


def test_the_file_of_another_plan_is_not_taken_for_this_one(folder):
    """The plans are near each other, so that the numbers of the other one are plausible."""

    def deltas():
        forget()
        near = [((Fraction(sigma), 1, 1),) for sigma in (30, 31)]
        return [pld.profile(each, BUDGET.delta)(np.array([0.01])).tolist() for each in near]

    before = deltas()
    paths = sorted(folder.glob("*.json"))
    contents = [path.read_bytes() for path in paths]
    assert len(contents) == 2
    for path, content in zip(paths, reversed(contents), strict=True):
        path.write_bytes(content)
    assert deltas() == before
    assert before[0] > before[1]


@pytest.mark.parametrize("open_to_all", ["folder", "file"])
def test_what_others_could_have_written_is_neither_used_nor_added_to(folder, right, open_to_all):
    answers()
    for path in folder.glob("*.json"):
        path.write_text(lower(path.read_text()))
        path.chmod(0o666 if open_to_all == "file" else 0o600)
    folder.chmod(0o777 if open_to_all == "folder" else 0o700)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    forget()
    assert pld._folder(os.environ["TALLYTREE_CACHE_DIR"]) is None
    assert answers() == right
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_place_where_nothing_can_be_kept_is_no_error(tmp_path, right, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TALLYTREE_CACHE_DIR", str(tmp_path / "file"))
    forget()
    assert answers() == right


def test_a_full_disk_is_no_error_and_leaves_no_part(folder, right, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pld.Path, "replace", full)
    assert answers() == right
    assert list(folder.iterdir()) == []


def test_old_files_make_room(folder, monkeypatch):
    monkeypatch.setattr(pld, "MAX_FILES", 6)
    for sigma in range(20, 40):
        pld.implied(((Fraction(sigma), 1, 1),), BUDGET.epsilon, BUDGET.delta)
    assert 3 <= len(list(folder.iterdir())) <= 6


@pytest.fixture
def too_much(monkeypatch):
    """Plans are made with 0.4 % more ρ than fits, as a search over damaged numbers could make them."""
    right = noise_plan._rho_by_pld
    monkeypatch.setattr(noise_plan, "_rho_by_pld", cache(lambda *asked: right(*asked) * Fraction(1004, 1000)))


def test_a_damaged_number_cannot_understate_what_a_ledger_is_charged(areas, folder, too_much, tmp_path, monkeypatch):
    """Within what is plausible a kept δ could be a tenth too small, and the plan passed."""
    asked = {"neighboring": "change_one", "ledger": tmp_path / "ledger.db", "dataset": "people"}
    monkeypatch.setattr(tt.engines.Local, "tabulate", lambda *arguments: pytest.fail("the records were read"))
    with pytest.raises(tt.BudgetExceeded, match=r"^budget: the levels would spend more than"):
        tt.release_counts(PEOPLE, areas, BUDGET, **asked)
    for path in folder.glob("*.json"):
        path.write_text(lower(path.read_text(), 0.91), encoding="ascii")
    forget()
    plan = plan_counts(CountsArguments(PEOPLE, areas, BUDGET, neighboring="change_one")).plan
    assert pld.implied(plan._curves, BUDGET.epsilon, BUDGET.delta)
    assert not pld.implied_without_kept(plan._curves, BUDGET.epsilon, BUDGET.delta)
    with pytest.raises(tt.BudgetExceeded, match=r"^accounting: a number of this plan that an earlier process kept \('"):
        tt.release_counts(PEOPLE, areas, BUDGET, **asked)
    assert not (tmp_path / "ledger.db").exists()


def test_right_numbers_are_computed_once_more_for_a_ledger_and_accepted(folder, right):
    plan_noise(BUDGET, LEVELS)
    forget()
    plan_noise(BUDGET, LEVELS).check_without_kept()
    plan_noise(tt.Budget(epsilon=1), LEVELS).check_without_kept()  # nothing is kept of it
