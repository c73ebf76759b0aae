"""Releases of neighboring data sets with equal noisy answers show the same; and what leaks is found."""

import dataclasses
import itertools
import logging
import os
import secrets
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import (
    BESIDE_THE_LEVELS,
    HouseholdsArguments,
    KeyedNoise,
    Measurer,
    PlannedCounts,
    Sensitivity,
    TrueCounts,
    arguments,
    sensitivities,
    spill_folders,
    stability,
)
from tallytree.lab.replay import published, replay, replaying
from tallytree.lab.replay.answers import Book, forced
from tallytree.lab.replay.choice import Choice
from tallytree.lab.replay.configurations import KEPT_APART, random_pair
from tallytree.lab.replay.pair import NEW_LEDGER, Pair
from tallytree.lab.replay.replaying import compare_pair
from tallytree.lab.replay.stated import KEYS, contradictions, moved

FIRST_SEED = 8
REACHED = {"counts": 18, "distinct_counts": 80, "histogram": 26, "tail_counts": 14, "chain_tail_counts": 1,
           "sorted_sizes": 76, "stable_counts": 5, "total": 17, "contributions": 11, "largest_size": 138,
           "persons_by_rank": 63}  # fmt: skip
"""What is measured, with the seed of a pair that differs by all that is stated of it."""
PAIRS = int(os.environ.get("TALLYTREE_PAIRS", "80"))
PARTS = 4 if PAIRS < 200 else 1
PEOPLE = pa.table({"a": ["x", "x", "y", "y", "y"], "id": [1, 1, 2, 3, 4]})
AREAS = tt.Hierarchy.from_table(pa.table({"a": ["x", "y"]}), levels=["a"])


def pair(**options):
    """Two data sets, of which the second lacks a person with two records."""
    given = {"hierarchy": AREAS, "budget": tt.Budget(epsilon=1), "neighboring": "add_remove", "max_contributions": 2}
    return Pair(tt.release_counts, PEOPLE, PEOPLE.slice(2), given | options)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_pairs_show_nothing(part):
    """`make replay` compares 200 in one part, which have every value of every option."""
    found = replay(PAIRS // PARTS, seed=FIRST_SEED + part)
    assert found.faults == ()
    assert (found.pairs, found.passed) == (PAIRS // PARTS, True)
    assert found.least >= (PARTS == 1)


@pytest.mark.parametrize(("statistic", "seed"), REACHED.items())
def test_some_pair_differs_by_all_that_is_stated(statistic, seed, monkeypatch):
    """So a smaller sensitivity would be found."""
    reached = set()

    def noting(statement, *runs):
        stated = {each["level"]: each.get("sensitivity") for each in statement["levels"]}
        for one in moved(*runs):
            level, name = one.address
            most = statement[KEYS[name]]["sensitivity"] if name in BESIDE_THE_LEVELS else stated[level]
            if one.l1 == most["l1"]:
                reached.add(name)
        return contradictions(statement, *runs)

    monkeypatch.setattr(replaying, "contradictions", noting)
    for later in range(seed, seed + 30):  # pairs of seeds change when options do
        assert compare_pair(random_pair(np.random.default_rng(later)))[0] == []
        if statistic in reached:
            break
    assert statistic in reached


def test_equal_seeds_give_equal_pairs():
    first, again, other = (str(random_pair(np.random.default_rng(seed))) for seed in (4, 4, 5))
    assert first == again != other


def test_answers_are_forced_whatever_the_data_and_the_noise_that_this_takes_is_known():
    book, tables, runs = Book(), [], []
    for private in (PEOPLE, PEOPLE.slice(2)):
        with forced(book) as run:
            release = tt.release_counts(
                private, AREAS, tt.Budget(epsilon=1), neighboring="add_remove", max_contributions=2
            )
        tables.append([release.measurements(level).to_pylist() for level in release.levels])
        runs.append(run)
        book.first = False
    assert tables[0] == tables[1]
    assert {one.address: (one.l1, one.squared) for one in moved(*runs)} == {
        ("all", "total"): (2, 4),
        ("a", "counts"): (2, 4),
    }
    # Both levels have half of ε, and the two records of the person are all that m = 2 allows.
    assert sum(one.cost for one in moved(*runs)) == 1


def test_a_pair_within_the_stated_sensitivity_passes_and_one_beyond_it_does_not():
    assert compare_pair(pair()) == ([], False)
    found, refused = compare_pair(pair(max_contributions=1))
    assert not refused
    assert any("moves by 2 in L1" in fault for fault in found)
    assert any("the loss is 2, where 1 is stated" in fault for fault in found)


def test_after_a_replay_nothing_is_forced():
    before = Measurer.__init__, secrets.token_bytes, secrets.token_hex
    with suppress(ZeroDivisionError), forced(Book()):
        assert Measurer.__init__ is not before[0]
        assert secrets.token_bytes(32) == secrets.token_bytes(32)
        raise ZeroDivisionError
    assert (Measurer.__init__, secrets.token_bytes, secrets.token_hex) == before


def test_a_release_of_another_thread_keeps_its_own_noise_and_key():
    def released():
        many = pa.concat_tables([PEOPLE] * 1_000)  # so that no noise of scale 200 makes a count 0
        release = tt.release_counts(many, AREAS, tt.Budget(epsilon=0.01), neighboring="add_remove")
        return release.statement["release"]["id"], release.measurements("a")["value"].to_pylist()

    with forced(Book()) as run, ThreadPoolExecutor(1) as elsewhere:
        keys = {elsewhere.submit(secrets.token_bytes, 32).result() for _ in range(3)}
        first, second = (elsewhere.submit(released).result() for _ in range(2))
        here = released()
    assert len(keys) == 3
    assert first[0] != second[0]
    assert first[1] != second[1]  # two cells, equal by chance once in 10^5
    assert here[0] not in (first[0], second[0])
    assert set(run.true) == {("all", "total"), ("a", "counts")}  # of the release that was made here


def test_one_thread_at_a_time_forces_answers():
    order = []

    def other():
        with forced(Book()):
            order.append("other")

    with forced(Book()):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


@pytest.mark.planted
def test_a_statement_that_has_a_true_number_is_found(monkeypatch):
    reconcile = PlannedCounts.fit

    def leaking(self, true, *rest, **more):
        made = reconcile(self, true, *rest, **more)
        return dataclasses.replace(made, about={**made.about, "records": int(true.total)})

    monkeypatch.setattr(PlannedCounts, "fit", leaking)
    found, _ = compare_pair(pair())
    assert "statement differs" in found
    assert "file release.json differs" in found


@pytest.mark.planted
def test_a_halved_sensitivity_is_found(monkeypatch):
    whole = sensitivities.sensitivity

    def halved(*given, **more):
        right = whole(*given, **more)
        return Sensitivity(max(right.l1 // 2, 1), max(right.l2_squared // 4, 1))

    monkeypatch.setattr(sensitivities, "sensitivity", halved)
    # With so little noise the root's answer is above 0, and both levels are measured.
    found, _ = compare_pair(pair(budget=tt.Budget(epsilon=20)))
    assert any("beyond" in fault for fault in found)
    assert any("the loss is 40, where 20 is stated" in fault for fault in found)


def test_a_cell_number_that_two_cells_share_is_found(monkeypatch):
    cells = TrueCounts.cells

    def shared(self, *given, **more):
        true, offsets, numbers = cells(self, *given, **more)
        return true, offsets, numbers // 2

    monkeypatch.setattr(TrueCounts, "cells", shared)
    found, _ = compare_pair(pair())
    assert any("so they have the same noise" in fault for fault in found)


@pytest.mark.planted
def test_noise_at_two_scales_is_found(monkeypatch):
    draw = KeyedNoise.draw
    seen = itertools.count(2)

    def measured_twice(self, level, nodes, statistic, cells=None):
        first = measure(self, level, nodes, statistic, cells)
        if level == "a":
            plan = self._plan.planned(level, statistic)
            object.__setattr__(plan, "noise", dataclasses.replace(plan.noise, scale=plan.noise.scale * next(seen)))
            measure(self, level, nodes, statistic, cells)
        return first

    measure = Measurer.measure
    monkeypatch.setattr(Measurer, "measure", measured_twice)
    found, _ = compare_pair(pair())
    assert any("noise of two scales" in fault for fault in found)
    assert KeyedNoise.draw is draw


@pytest.mark.planted
def test_noise_of_a_scale_that_follows_from_the_data_is_found(monkeypatch):
    measure = Measurer.measure

    def wider(self, level, nodes, statistic, cells=None):
        plan = self._plan.planned(level, statistic)
        if level == "a" and self._statistics.total == PEOPLE.num_rows:  # more noise, which costs less than is stated
            object.__setattr__(plan, "noise", dataclasses.replace(plan.noise, scale=plan.noise.scale * 2))
        return measure(self, level, nodes, statistic, cells)

    monkeypatch.setattr(Measurer, "measure", wider)
    found, _ = compare_pair(pair())
    assert any("where Noise(distribution='discrete_laplace', scale=Fraction(4, 1)) is stated" in each for each in found)


@pytest.mark.planted
def test_a_threshold_below_that_of_the_statement_is_found(monkeypatch):
    measure = Measurer.measure_stable

    class Lower:
        def __init__(self, plan):
            self.plan = plan

        def planned_stable(self, level):
            stated = self.plan.planned_stable(level)
            return dataclasses.replace(stated, threshold=stated.threshold - 1)

    def lower(self, level):
        self._plan = Lower(self._plan)
        return measure(self, level)

    above_a_threshold = pair(budget=tt.Budget(epsilon=1, delta=1e-6), mechanism=tt.counts.StabilityHistogram())
    assert compare_pair(above_a_threshold) == ([], False)
    monkeypatch.setattr(Measurer, "measure_stable", lower)
    assert "table a differs" in compare_pair(above_a_threshold)[0]


@pytest.mark.planted
@pytest.mark.parametrize(("lower_by", "faults"), [(0, 0), (2, 1)])
def test_a_threshold_that_is_too_low_for_delta_is_found(monkeypatch, lower_by, faults):
    enough = stability.suffices
    monkeypatch.setattr(stability, "suffices", lambda threshold, *rest: enough(threshold + lower_by, *rest))
    found, _ = compare_pair(pair(budget=tt.Budget(epsilon=1, delta=1e-6), mechanism=tt.counts.StabilityHistogram()))
    assert len(found) == faults
    assert all("is shown with a probability of 1." in fault for fault in found)


def test_a_log_line_with_the_number_of_records_is_found(monkeypatch):
    tabulate = PlannedCounts.tabulate

    def talkative(self, *given, **more):
        true = tabulate(self, *given, **more)
        logging.getLogger("tallytree.run").debug("read %d records", true.total)
        return true

    monkeypatch.setattr(PlannedCounts, "tabulate", talkative)
    about = " [DEBUG tallytree.run []]"
    assert compare_pair(pair())[0] == [f"log differs: 'read 5 records{about}' and 'read 3 records{about}'"]


@pytest.mark.planted
def test_rows_in_an_order_that_follows_from_the_data_are_found(monkeypatch):
    reconcile = PlannedCounts.fit

    def reordered(self, true, *rest, **more):
        made = reconcile(self, true, *rest, **more)
        about = {**made.about, "order": sorted(made.tables, key=lambda level: (true.total % 2, level))[:1]}
        return dataclasses.replace(made, about=about if true.total % 2 else made.about)

    monkeypatch.setattr(PlannedCounts, "fit", reordered)
    second = PEOPLE.slice(1)
    assert "statement differs" in compare_pair(dataclasses.replace(pair(max_contributions=1), second=second))[0]


def test_a_release_that_is_refused_for_one_of_the_data_sets_only_is_found():
    unknown = pa.table({"a": ["z"], "id": [9]})
    found, refused = compare_pair(dataclasses.replace(pair(), second=pa.concat_tables([PEOPLE, unknown])))
    assert refused
    assert found[0].startswith("error differs: '' and \"ValueError: records: ")


@pytest.mark.slow
def test_every_option_of_every_statistic_is_in_some_configuration():
    rng = np.random.default_rng(1)
    used = {}
    for _ in range(700):
        made = random_pair(rng)
        for name, value in made.options.items():
            used.setdefault((made.function.__name__, name), set()).add(repr(value))
    owners = {
        "release_counts": arguments.CountsArguments,
        "release_flows": arguments.FlowsArguments,
        "release_tables": arguments.TablesArguments,
        "release_group_sizes": arguments.SizesArguments,
        "release_contributions": arguments.ContributionsArguments,
        "release_households": HouseholdsArguments,
    }
    missing = [
        (function, field.name)
        for function, kind in owners.items()
        for field in dataclasses.fields(kind)
        if field.name not in KEPT_APART and not field.name.startswith("_") and (function, field.name) not in used
    ]
    # What a release of contributions alone has no use for.
    # Persons and households are refused with memory.
    assert [each for each in missing if each[0] != "release_contributions"] == [("release_households", "memory")]
    known = {"contributions", "count", "distinct", "mechanism", "unlisted", "memory", "prior", "prior_is_public"}
    assert {name for _, name in missing} <= known
    assert repr(NEW_LEDGER) in used["release_counts", "ledger"]


@pytest.mark.slow
def test_every_value_of_every_option_is_covered():
    found = replay(3, seed=1)
    assert 0 <= found.least <= 3
    assert len(found.covered) > 50
    assert dataclasses.replace(found, covered={"a": 3, "b": 2}).found_with(0.5) == 0.75
    candidates = [random_pair(np.random.default_rng(seed)) for seed in range(60)]
    choice = Choice(candidates)
    chosen = [choice.next() for _ in range(12)]
    for each in chosen:
        choice.note(each, refused=False)
    assert len({value for each in chosen for value in each.values()}) > len(
        {value for each in candidates[:12] for value in each.values()}
    )


@pytest.mark.parametrize(("arguments", "error"), [({"pairs": 0}, ValueError), ({"pairs": 1, "seed": -1}, ValueError),
                                                  ({"pairs": 2.5}, TypeError)])  # fmt: skip
def test_numbers_that_cannot_be_are_refused(arguments, error):
    with pytest.raises(error, match=r"^(pairs|seed): .* must be"):
        replay(**arguments)


@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
@pytest.mark.parametrize("budget", [tt.Budget(epsilon=20), tt.Budget(rho=9)])
def test_a_bound_that_is_chosen_shows_no_more_of_a_person_with_many_records(neighboring, budget):
    """A person of 90 records, more than at_most; without this person most people have few, so another m is best."""
    few = pa.table({"id": [*range(40), *range(20)], "a": ["x", "y"] * 30})
    one, other = (pa.table({"id": [99] * n, "a": (["x", "y"] * n)[:n]}) for n in (90, 2))
    second = few if neighboring == "add_remove" else pa.concat_tables([few, other])
    options = {
        "hierarchy": tt.Hierarchy.from_values("a", ["x", "y"]), "budget": budget, "neighboring": neighboring,
        "person": "id", "max_contributions": "auto", "contributions": tt.Contributions(0.5, 30),
    }  # fmt: skip
    given = Pair(tt.release_counts, pa.concat_tables([few, one]), second, options)
    assert compare_pair(given) == ([], False)


def test_what_a_killed_run_of_another_process_has_left_is_not_compared(tmp_path, monkeypatch):
    """Whichever of the two releases comes first removes it, and says so in the log."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tempfile.mkdtemp(prefix=spill_folders.PREFIX)
    with published._logged() as log:
        pair().release(PEOPLE, tmp_path)
    assert "left" not in log.getvalue()
    assert "tabulate" in log.getvalue()
    assert not list(tmp_path.glob(f"{spill_folders.PREFIX}*"))
