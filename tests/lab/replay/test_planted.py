"""Leaks and faults of noise that are planted one by one, and found by a replay of one pair."""

import dataclasses
import io
import logging
import os
import re
import sys
import warnings
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

import tallytree as tt
from helpers.inside import KeyedNoise, Measurer, PlannedCounts, ReleaseKeys, TrueCounts, discrete, pld, release_keys
from tallytree.cli.app import main
from tallytree.cli.commands import release_command
from tallytree.counts.least_squares import LeastSquares
from tallytree.engines import Spark
from tallytree.lab.replay import replay
from tallytree.lab.replay.answers import Book, forced
from tallytree.lab.replay.configurations import OPENDP, _many_cells, random_pair
from tallytree.lab.replay.pair import KINDS, NEW_LEDGER, NEW_SECRET, Pair
from tallytree.lab.replay.published import clock_stopped, differences, keys_shown
from tallytree.lab.replay.replaying import compare_pair
from tallytree.release import files, release
from tallytree.solvers.laws import learned_laws
from tallytree.solvers.tables import decided

pytestmark = pytest.mark.planted

STATES = tt.Hierarchy.from_table(pa.table({"s": ["x", "x", "y"], "c": ["a", "b", "c"]}), levels=["s", "c"])
PEOPLE = pa.table({"s": ["x", "x", "x", "y", "y"], "c": ["a", "a", "b", "c", "c"], "n": [1, 1, 1, 5000, 7000]})


def pair(second=None, **options):
    """Two data sets, of which the second lacks a record."""
    given = {"hierarchy": STATES, "budget": tt.Budget(epsilon=4), "neighboring": "add_remove", "count": "n", **options}
    return Pair(tt.release_counts, PEOPLE, PEOPLE.slice(1) if second is None else second, given)


@pytest.fixture
def truth(monkeypatch):
    """The true total of the data set that was tabulated last."""
    tabulate, known = PlannedCounts.tabulate, {}

    def noting(self, *given, **more):
        found = tabulate(self, *given, **more)
        known["total"] = int(found.total)
        return found

    monkeypatch.setattr(PlannedCounts, "tabulate", noting)
    return known


RECORDED = {"ledger": NEW_LEDGER, "dataset": "people"}
OPTIONS = {"alone": {}, "recorded": RECORDED, "named": RECORDED | {"secret": NEW_SECRET, "run": "monday"},
           "banded": {"memory": "1GB"}}  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_without_a_plant_nothing_is_found(options):
    assert compare_pair(pair(**options), widely=not options) == ([], False)


@pytest.mark.slow
def test_tables_that_learn_from_all_areas_show_nothing(monkeypatch):
    """60 areas with 180 cells: laws are learned. The second data set lacks a record."""
    laws = []

    def noting(*given, **more):
        laws.append(learned_laws(*given, **more))
        return laws[-1]

    monkeypatch.setattr(decided, "learned_laws", noting)
    areas, sexes = [f"a{i}" for i in range(60)], ["f", "g", "h"]
    people = pa.table({"area": areas * 6, "sex": sexes * 120})
    product = tt.Product(
        {"area": tt.Hierarchy.from_values("area", areas), "sex": tt.Hierarchy.from_values("sex", sexes)}
    )
    for options in ({}, {"budget": tt.Budget(epsilon=2, delta=1e-6)}):
        given = {"hierarchy": product, "budget": tt.Budget(epsilon=2), "neighboring": "add_remove", **options}
        given["tables"] = [("area",), ("area", "sex")]
        assert compare_pair(Pair(tt.release_tables, people, people.slice(1), given)) == ([], False)
    assert len(laws) >= 4
    assert all(laws)


def pieces_of_keys(found):
    return {fault.removesuffix(" has a piece of a key") for fault in found if fault.endswith(" has a piece of a key")}


def test_half_of_the_release_key_as_an_id(monkeypatch):
    """Both releases have it, so nothing differs."""
    monkeypatch.setattr(ReleaseKeys, "unrecorded_id", lambda keys: keys.key.hex()[:32])
    found = compare_pair(pair())[0]
    assert pieces_of_keys(found) == {"statement", "file release.json", "file deployment.yaml"}
    assert len(found) == 6


def test_bytes_of_the_noise_key_in_a_file(monkeypatch):
    """They differ, too: the key follows from the statistics."""
    noise, write, known = ReleaseKeys.noise, files.write_csv, []

    def noting(keys, release_id):
        known.append(noise(keys, release_id))
        return known[-1]

    def leaking(table, path):
        write(table, path)
        path.write_bytes(path.read_bytes() + known[-1][5:17])

    monkeypatch.setattr(ReleaseKeys, "noise", noting)
    monkeypatch.setattr(release, "write_csv", leaking)
    assert "file tables/c.csv" in pieces_of_keys(compare_pair(pair())[0])


def test_a_subkey_in_capital_digits_in_the_log(monkeypatch):
    filled = discrete._filled

    def logging_it(sampler, subkey, *rest):
        logging.getLogger("tallytree.noise").debug("with %s", subkey.hex().upper())
        return filled(sampler, subkey, *rest)

    monkeypatch.setattr(discrete, "_filled", logging_it)
    assert pieces_of_keys(compare_pair(pair())[0]) == {"log"}


def test_noise_that_is_halved_where_a_true_value_exceeds_1000(monkeypatch):
    measure = Measurer.measure

    def halved(self, level, nodes, statistic, cells=None):
        found = measure(self, level, nodes, statistic, cells)
        true = self._statistics.cells(level, nodes, statistic, cells)[0]
        values = np.where(true > 1000, true + (found.values - true) // 2, found.values)
        return dataclasses.replace(found, values=values)

    monkeypatch.setattr(Measurer, "measure", halved)
    second = PEOPLE.set_column(2, "n", pa.array([1, 1, 1, 4999, 7000]))  # the total, y and c move by 1
    assert "table s differs" in compare_pair(pair(second))[0]


def test_cell_numbers_modulo_2_to_the_20(monkeypatch):
    cells = TrueCounts.cells

    def folded(self, *given, **more):
        true, offsets, numbers = cells(self, *given, **more)
        return true, offsets, numbers % 2**20

    given = _many_cells(np.random.default_rng(1))
    assert compare_pair(given) == ([], False)
    monkeypatch.setattr(TrueCounts, "cells", folded)
    assert any("so they have the same noise" in fault for fault in compare_pair(given)[0])


def test_a_time_of_a_file_that_is_a_true_number(monkeypatch, truth):
    save = release.Release.save

    def dated(self, folder, **more):
        path = save(self, folder, **more)
        os.utime(path / "release.json", (truth["total"], truth["total"]))
        return path

    monkeypatch.setattr(release.Release, "save", dated)
    assert compare_pair(pair())[0] == [
        "times differs: 'release.json: 12003.0' and 'release.json: 12002.0'",
    ]


def test_a_mode_that_follows_from_the_data(monkeypatch, truth):
    save = release.Release.save

    def moded(self, folder, **more):
        path = save(self, folder, **more)
        (path / "release.json").chmod(0o644 if truth["total"] % 2 else 0o600)
        return path

    monkeypatch.setattr(release.Release, "save", moded)
    assert compare_pair(pair())[0] == ["mode release.json differs"]


def test_a_true_number_in_the_message_about_stray_records(monkeypatch):
    tabulate = PlannedCounts.tabulate

    def talkative(self, *given, **more):
        try:
            return tabulate(self, *given, **more)
        except ValueError as error:
            raise ValueError(f"{error}; there are {self.arguments.records.num_rows} records") from None

    stray = pa.table({"s": ["z"], "c": ["z"], "n": [1]})
    both = dataclasses.replace(
        pair(pa.concat_tables([PEOPLE.slice(1), stray])), first=pa.concat_tables([PEOPLE, stray])
    )
    assert compare_pair(both) == ([], True)
    monkeypatch.setattr(PlannedCounts, "tabulate", talkative)
    found, refused = compare_pair(both)
    assert refused
    assert found[0].startswith("error differs")


@pytest.mark.parametrize("extra", [False, True])
def test_a_true_number_as_the_seconds_of_a_line_or_in_an_attribute_of_the_log(monkeypatch, truth, extra):
    reconcile = PlannedCounts.fit

    def logging_it(self, *given, **more):
        seconds = 0.0 if extra else truth["total"]
        logging.getLogger("tallytree.stages").info(
            "fit: %.1f s", seconds, extra={"rows": truth["total"]} if extra else {}
        )
        return reconcile(self, *given, **more)

    monkeypatch.setattr(PlannedCounts, "fit", logging_it)
    (fault,) = compare_pair(pair())[0]
    assert fault.startswith(("log differs: 'fit: ", 'log differs: "fit: '))


def test_a_true_number_in_the_csv_alone(monkeypatch, truth):
    write = files.write_csv

    def leaking(table, path):
        write(table, path)
        path.write_text(f"{path.read_text()}# {truth['total']}\n")

    monkeypatch.setattr(release, "write_csv", leaking)
    found = compare_pair(pair())[0]
    assert "file tables/c.csv differs" in found
    assert not any("parquet" in fault for fault in found)


def test_a_sparsity_that_is_decided_by_true_data(monkeypatch, truth):
    begun = LeastSquares.begin

    def deciding(self, *given, **more):
        kappa = 0.0 if truth["total"] % 2 else 9.0
        return begun(dataclasses.replace(self, sparsity=kappa), *given, **more)

    monkeypatch.setattr(LeastSquares, "begin", deciding)
    given = pair(mechanism=tt.counts.LeastSquares(sparsity="auto"), budget=tt.Budget(epsilon=0.5))
    assert "table c differs" in compare_pair(given)[0]


def test_a_level_that_is_missing_in_the_subkey(monkeypatch):
    subkey = discrete._subkey
    monkeypatch.setattr(discrete, "_subkey", lambda used, name, key, address: subkey(used, name, key, address[1:]))
    assert any("is that of another cell or value" in fault for fault in compare_pair(pair())[0])


def test_a_key_that_does_not_follow_from_the_statistics(monkeypatch):
    monkeypatch.setattr(release_keys.ReleaseKeys, "noise", lambda *given: bytes(32))
    assert any("is that of another cell or value" in fault for fault in compare_pair(pair())[0])


@pytest.mark.parametrize(("budget", "least"), [(tt.Budget(epsilon=1), 0), (tt.Budget(epsilon=0.002, delta=1e-6), 512)])
def test_keyed_noise_of_half_the_scale(monkeypatch, budget, least):
    draw = KeyedNoise.draw

    def halved(self, noise, address, cells):
        scale = noise.scale / 2 if noise.scale > least else noise.scale
        return draw(self, dataclasses.replace(noise, scale=scale), address, cells)

    monkeypatch.setattr(KeyedNoise, "draw", halved)
    assert any("another scale than was asked for" in fault for fault in compare_pair(pair(budget=budget))[0])


def test_a_budget_of_composed_losses_that_is_5_percent_too_large(monkeypatch):
    largest, implied = pld.largest_rho, pld.implied
    wider = Fraction(21, 20)
    monkeypatch.setattr(
        pld, "largest_rho", lambda at, epsilon, delta, known: largest(at, epsilon * wider, delta, known=known)
    )
    monkeypatch.setattr(pld, "implied", lambda curves, epsilon, delta: implied(curves, epsilon * wider, delta))
    monkeypatch.setattr(pld, "implied_without_kept", lambda *given: True)
    monkeypatch.setattr(pld, "epsilon_spent", lambda curves, epsilon, delta: epsilon)
    given = pair(budget=tt.Budget(epsilon=1.2345, delta=1e-6), accounting="pld")  # which no other test has planned
    many = pa.concat_tables([PEOPLE, pa.table({"s": ["x"], "c": ["a"], "n": [1000]})])  # so that no node is pruned
    given = dataclasses.replace(given, first=many, second=many.slice(1))
    found = compare_pair(given)[0]
    assert any(fault.startswith("delta is ") for fault in found), found


@pytest.mark.slow
def test_stray_records_too_many_records_and_opendp_are_among_the_pairs():
    made = [random_pair(np.random.default_rng(seed)) for seed in range(800)]
    assert {each.kind for each in made} == {"", *KINDS}
    assert {each.options.get("noise", "keyed") for each in made} == {"keyed", *(["opendp"] if OPENDP else [])}


SPEC = """\
statistic: counts
records: people.parquet
count: n
hierarchy: {path: areas.parquet, levels: [s, c]}
neighboring: add_remove
budget: {epsilon: 4}
"""
TIME = re.compile(rb'"time": "[^"]*"')


def said_by_the_program(folder, monkeypatch):
    """What `tallytree release` writes for two neighbors with the same noisy answers, and the exit codes."""
    book, said = Book(), []
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # the program puts its own there
    for private in (PEOPLE, PEOPLE.slice(1)):
        place = folder / str(len(said))
        place.mkdir()
        pq.write_table(private, place / "people.parquet")
        pq.write_table(STATES.leaf_table(), place / "areas.parquet")
        (place / "spec.yaml").write_text(SPEC)
        words = ["tallytree", "release", str(place / "spec.yaml"), "--out", str(place / "out"), "--csv"]
        monkeypatch.setattr(sys, "argv", [*words, "-v", "--log-format", "json"])
        shown = {"stdout": io.StringIO(), "stderr": io.StringIO()}
        with forced(book), clock_stopped(), monkeypatch.context() as streams:
            for name, stream in shown.items():
                streams.setattr(sys, name, stream)
            with pytest.raises(SystemExit) as ended:
                main()
        found = {name: stream.getvalue().encode() for name, stream in shown.items()}
        found |= {str(each.relative_to(place)): each.read_bytes() for each in (place / "out").rglob("*.*")}
        found = {name: TIME.sub(b"", text.replace(str(place).encode(), b"")) for name, text in found.items()}
        said.append({"exit code": str(ended.value.code or 0).encode(), **found})
        assert keys_shown(found, book.keys) == []
        book.first = False
    return said


def test_the_program_writes_the_same_and_ends_alike(tmp_path, monkeypatch):
    first, second = said_by_the_program(tmp_path, monkeypatch)
    assert b"tabulate" in first["stderr"]
    assert "out/tables/c.csv" in first
    assert first["exit code"] == b"0"
    assert differences(first, second) == []


def test_a_program_that_writes_a_true_number_is_found(tmp_path, truth, monkeypatch):
    reconcile = PlannedCounts.fit

    def talkative(self, *given, **more):
        logging.getLogger("tallytree.stages").info("fit", extra={"seconds": truth["total"]})
        return reconcile(self, *given, **more)

    monkeypatch.setattr(PlannedCounts, "fit", talkative)
    assert differences(*said_by_the_program(tmp_path, monkeypatch)) == ["stderr differs"]


@pytest.mark.parametrize("odd", [0, 1])
def test_an_exit_code_that_is_7_where_the_true_total_is_odd_is_found(tmp_path, truth, monkeypatch, odd):
    """The totals are 12,003 and 12,002."""

    def broken(statement, out):
        if truth["total"] % 2 == odd:
            raise typer.Exit(7)

    monkeypatch.setattr(release_command, "fail_if_broken", broken)
    assert differences(*said_by_the_program(tmp_path, monkeypatch)) == ["exit code differs"]


@pytest.mark.slow
@pytest.mark.needs("pyspark", "sqlglot")
def test_pairs_that_spark_tabulates_show_nothing(spark):
    assert replay(2, seed=3, engines=[Spark(spark)]).faults == ()
