"""Tables with `memory`: the same release as in memory, byte for byte, and refusals before anything is spent."""

import errno
import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.banded import hierarchies, saved
from helpers.inside import ForcedCut, TablesArguments, make_release, plan_tables
from tallytree.ledger import Ledger
from tallytree.release import level_files, level_tables

AGES = tt.Hierarchy.from_table(
    pa.table({"band": ["y", "y", "o"], "age": ["0-9", "10-19", "20+"]}), levels=["band", "age"]
)
SEXES = tt.Hierarchy.from_values("sex", ["f", "m"])


def planned(areas, records, tables, **options):
    """A planned release of tables with a seed."""
    options = {"neighboring": "add_remove", "seed": 7, "budget": tt.Budget(epsilon=1.0, delta=1e-9)} | options
    product = tt.Product({"area": areas, "age": AGES, "sex": SEXES}, impossible=options.pop("impossible", None))
    return plan_tables(TablesArguments(records, product, options.pop("budget"), tables=tables, **options))


def people(leaves, rows, seed=0):
    """Records of the leaves of a hierarchy; most of them in the first ones."""
    rng = np.random.default_rng(seed)
    taken = leaves.take(pa.array((rng.beta(1, 3, rows) * leaves.num_rows).astype(int), pa.int64()))
    ages = rng.integers(0, 3, rows)
    return (
        taken.append_column("band", pa.array(np.array(["y", "y", "o"])[ages]))
        .append_column("age", pa.array(np.array(["0-9", "10-19", "20+"])[ages]))
        .append_column("sex", pa.array(rng.choice(["f", "m"], rows)))
    )


def in_files(rows=10_000):
    """All arrays are in files, and so many cells are worked on at once."""
    return ForcedCut(0, 1, rows)


@pytest.fixture
def towns():
    """Thirty towns of ten counties, and their leaves."""
    leaves = pa.table({"county": [f"c{i // 3}" for i in range(30)], "town": [f"t{i}" for i in range(30)]})
    return tt.Hierarchy.from_table(leaves, levels=["county", "town"]), leaves


TABLES = [("town",), ("town", "age"), ("county", "band", "sex"), ("town", "age", "sex"), ()]
TOTALS = pd.DataFrame(
    {"county": [f"c{i}" for i in range(10)], "count": [600, 400, 300, 200, 150, 150, 100, 60, 30, 10]}
)
NEVER = pd.DataFrame({"age": ["0-9"], "sex": ["m"]})


@pytest.mark.parametrize("rows", [40, 10_000])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"impossible": [NEVER], "on_unknown": "drop", "keep_measurements": False},
        {"neighboring": "change_one", "public_totals": TOTALS, "mechanism": tt.tables.LeastSquares(pooling="none")},
        {"budget": tt.Budget(epsilon=30.0)},
    ],
    ids=["plain", "impossible", "public totals", "little noise"],
)
def test_the_saved_release_is_the_same_in_files(towns, options, rows, tmp_path):
    areas, leaves = towns
    records = people(leaves, 2_000)
    whole = make_release(planned(areas, records, TABLES, **options))
    part = make_release(planned(areas, records, TABLES, memory="2GB", **options), forced=in_files(rows))
    assert saved(part, tmp_path / "part") == saved(whole, tmp_path / "whole")


def test_the_measurements_are_the_same_in_files(towns):
    areas, leaves = towns
    options = {"impossible": [NEVER], "on_unknown": "drop"}
    whole = make_release(planned(areas, people(leaves, 300), TABLES, **options))
    part = make_release(planned(areas, people(leaves, 300), TABLES, memory="2GB", **options), forced=in_files(40))
    assert all(part.measurements(name).equals(whole.measurements(name)) for name in whole.levels)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    tree=st.integers(1, 3).flatmap(hierarchies),
    rows=st.sampled_from([0, 1, 300]),
    at_once=st.sampled_from([1, 30, 10_000]),
    sides=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([(), ("band",), ("age",)]), st.sampled_from([(), ("sex",)])),
        min_size=1,
        max_size=5,
        unique=True,
    ),
    epsilon=st.sampled_from([0.1, 1.0]),
)
def test_the_saved_release_is_the_same_for_all_trees_tables_and_parts(tree, rows, at_once, sides, epsilon):
    areas, leaves = tree
    # Of levels with the same nodes one is named, and none that has the root's.
    sizes = {len(leaves[name].unique()): name for name in areas.columns}
    levels = [name for size, name in sizes.items() if size > 1]
    sides = [(at if levels else 0, *of_record) for at, *of_record in sides]
    named = {(*((levels[min(at, len(levels)) - 1],) if at else ()), *age, *sex) for at, age, sex in sides}
    tables = sorted(named)
    records = people(leaves, rows)
    options = {"budget": tt.Budget(rho=epsilon**2 / 2)}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "release"
        whole = saved(make_release(planned(areas, records, tables, **options)), out)
        part = make_release(planned(areas, records, tables, memory="2GB", **options), forced=in_files(at_once))
        assert saved(part, out) == whole


def test_a_small_country_is_the_same_in_files(tmp_path):
    """The shape of the redistricting file: blocks in groups, tracts, counties and states; half of them are empty."""
    rng, number = np.random.default_rng(0), np.arange(96)
    levels = {"state": 48, "county": 24, "tract": 12, "group": 4, "block": 1}
    blocks = pa.table({name: pa.array([f"{name}{i // each}" for i in number]) for name, each in levels.items()})
    sides = {"race": [f"r{i}" for i in range(63)], "hispanic": ["no", "yes"], "adult": ["no", "yes"]}
    joint = tuple(sides)
    people = rng.poisson(82, 96) * (number % 2)
    shares = rng.dirichlet(np.full(252, 0.05))
    at, cell = np.stack([rng.multinomial(n, shares) for n in people]).nonzero()
    codes = dict(zip(joint, np.unravel_index(cell, (63, 2, 2)), strict=True))
    records = blocks.take(pa.array(at))
    for name, values in sides.items():
        records = records.append_column(name, pa.array(np.array(values)[codes[name]]))
    areas = tt.Hierarchy.from_table(blocks, levels=list(levels))
    product = tt.Product(
        {"area": areas, **{name: tt.Hierarchy.from_values(name, each) for name, each in sides.items()}}
    )
    tables = [("block",), ("block", "race"), ("block", "hispanic", "adult"), ("block", *joint), ("county", *joint)]
    options = {"neighboring": "change_one", "tables": tables, "seed": 2, "keep_measurements": False}
    budget = tt.Budget(epsilon=4.0, delta=1e-10)
    whole = make_release(plan_tables(TablesArguments(records, product, budget, **options)))
    planned = plan_tables(TablesArguments(records, product, budget, memory="2GB", **options))
    part = make_release(planned, forced=in_files(3_000))
    assert saved(part, tmp_path / "part") == saved(whole, tmp_path / "whole")


def test_slices_of_any_size_make_the_same_tables(towns, tmp_path, monkeypatch):
    areas, leaves = towns
    for module in (level_files, level_tables):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    records = people(leaves, 500)
    whole = make_release(planned(areas, records, TABLES)).save(tmp_path / "whole")
    part = make_release(planned(areas, records, TABLES, memory="2GB"), forced=in_files(11)).save(tmp_path / "part")
    one, other = tt.Release.load(whole), tt.Release.load(part)
    for table in one.levels:
        assert other.table(table).equals(one.table(table))
        assert other.table(table, unbiased=True, alpha=0.1).equals(one.table(table, unbiased=True, alpha=0.1))
        assert other.measurements(table).equals(one.measurements(table))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise": "opendp", "seed": None}, "opendp"),
        ({"keep_detail": True}, "keep_detail"),
        ({"prior": pa.table({"county": ["c0"], "count": [5]}), "prior_is_public": True}, "prior"),
    ],
)
def test_what_is_worked_on_in_memory_is_refused(towns, options, words):
    areas, leaves = towns
    with pytest.raises(ValueError, match=rf"^memory: .*{words}"):
        planned(areas, people(leaves, 10), TABLES, memory="2GB", **options)


def test_a_run_that_cannot_keep_to_its_memory_is_refused(towns):
    wide = tt.Hierarchy.from_values("age", range(60_000))
    areas, leaves = towns
    product = tt.Product({"area": areas, "age": wide})
    records = leaves.append_column("age", pa.array([3] * 30))
    options = {"tables": [("town", "age")], "neighboring": "add_remove", "memory": "50MB", "seed": 1}
    with pytest.raises(ValueError, match=r"^memory: '50MB' is less than the .* give more memory"):
        plan_tables(TablesArguments(records, product, tt.Budget(epsilon=1), **options))


def test_one_large_family_needs_memory_for_it():
    """30,000 towns are one family where no table names the counties, and 300 where one does."""
    towns = pa.table({"county": [f"c{i // 100}" for i in range(30_000)], "town": [f"t{i}" for i in range(30_000)]})
    sides = {
        "area": tt.Hierarchy.from_table(towns, levels=["county", "town"]),
        "code": tt.Hierarchy.from_values("code", range(1_000)),
    }
    records = pa.table({"county": ["c0"], "town": ["t1"], "code": [5]})
    options = {"neighboring": "add_remove", "seed": 1, "memory": "1.2GB"}

    def plan(*tables):
        return plan_tables(TablesArguments(records, tt.Product(sides), tt.Budget(epsilon=1), tables=tables, **options))

    with pytest.raises(ValueError, match=r"^memory: '1.2GB' .* 30,000 areas of one .* name a table of a level between"):
        plan(("town", "code"))
    assert "temporary files" in plan(("town", "code"), ("county",)).expected_work


def test_a_disk_that_is_too_small_is_refused_before_the_payment(towns, tmp_path, monkeypatch):
    areas, leaves = towns
    Ledger(tmp_path / "ledger.db").set_limit("people", tt.Budget(rho=1), neighboring="add_remove")
    options = {"seed": None, "ledger": tmp_path / "ledger.db", "dataset": "people", "budget": tt.Budget(rho=0.1)}
    release = planned(areas, people(leaves, 500), TABLES, memory="2GB", **options)
    room = iter([10**3, 10**18, 10**3])
    monkeypatch.setattr("tallytree.run.planned_tables.bytes_at_once", lambda layout: 10**15)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=next(room)))
    with pytest.raises(OSError, match=r"temp_directory: the disk has"):
        make_release(release)
    assert Ledger(tmp_path / "ledger.db").entries("people") == ()
    assert make_release(release).levels  # and after the payment nothing is refused


def test_true_cells_of_a_first_phase_that_failed_are_not_kept(towns, monkeypatch):
    """The phase before a bound is chosen. An error holds the arrays of its frames, as a notebook does."""
    areas, leaves = towns
    records = people(leaves, 2_000).append_column("who", pa.array(np.arange(2_000) // 3))
    options = {"person": "who", "max_contributions": "auto", "contributions": tt.Contributions(share=0.1, at_most=20)}
    release = planned(areas, records, TABLES, memory="2GB", **options)
    held = []

    def failing(self, leaves, depth, arrays=None):
        held.append(leaves)
        raise ZeroDivisionError

    monkeypatch.setattr("tallytree.tables.layout.TableLayout.summed", failing)
    with pytest.raises(ZeroDivisionError):
        make_release(release, forced=in_files(100))
    assert [int(each.sum()) for each in held] == [0]


def test_a_named_run_whose_disk_was_full_goes_on_with_the_same_noise(towns, tmp_path, monkeypatch):
    areas, leaves = towns
    records, ledger = people(leaves, 500), tmp_path / "ledger.db"
    Ledger(ledger).set_limit("people", tt.Budget(rho=1), neighboring="add_remove")
    options = {
        "seed": None, "ledger": ledger, "dataset": "people", "run": "Monday", "secret": tt.new_secret(tmp_path / "s"),
        "budget": tt.Budget(rho=0.1), "memory": "2GB",
    }  # fmt: skip
    reserve, made = os.posix_fallocate, []

    def full(handle, begin, size):
        made.append(size)
        if len(made) == 12:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reserve(handle, begin, size)

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left") as error:
        make_release(planned(areas, records, TABLES, **options), forced=in_files(100))
    assert "free of charge" in error.value.__notes__[0]
    again = make_release(planned(areas, records, TABLES, **options), forced=in_files(100))
    third = make_release(planned(areas, records, TABLES, **{**options, "memory": None}))
    assert all(again.measurements(name).equals(third.measurements(name)) for name in third.levels)
    assert all(again.table(name).equals(third.table(name)) for name in third.levels)
    assert len(Ledger(ledger).entries("people")) == 1
