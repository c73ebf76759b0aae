"""No message of an error shows a value of a private column that is given in place of something else."""

from __future__ import annotations

import inspect
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.releases import HOUSEHOLDS, PEOPLE, PUBLIC
from tallytree.evaluate.error_bounds import theorem_4_bound, top_down_error_bound
from tallytree.lab.audit import audit
from tallytree.lab.compare.compared_data import Data
from tallytree.lab.compare.comparison import compare
from tallytree.ledger import Ledger
from tallytree.spec import load_spec

NAMES = ["Zwetschke-NAME", "Quitte-DIAGNOSIS", "Zwetschke-NAME", "Mirabelle-1958-03-02", "Ringlotte", "Kriecherl"]
NUMBERS = [77_712_345, 77_712_346, 77_712_345, 77_712_347, 77_712_348, 77_712_349]
PLANTED = [*dict.fromkeys(NAMES), *(str(number) for number in dict.fromkeys(NUMBERS))]
FRAME = pd.DataFrame({"who": NAMES, "n": NUMBERS})

PRIVATE: dict[str, Any] = {
    "a pandas column": FRAME["who"],
    "a pandas column of numbers": FRAME["n"],
    "a pandas frame": FRAME,
    "a polars column": pl.Series("who", NAMES),
    "a polars frame": pl.DataFrame({"who": NAMES}),
    "an Arrow column": pa.array(NAMES),
    "an Arrow table": pa.table({"who": NAMES}),
    "a NumPy array": np.array(NAMES),
    "a NumPy array of one": np.array(NAMES[:1]),
    "a list": NAMES,
    "a list of lists": [NAMES],
    "a tuple": tuple(NAMES),
    "a set": frozenset(NAMES),
    "a mapping": dict.fromkeys(NAMES, 1),
    "a mapping to values": dict.fromkeys(["state", "county", "all"], NAMES[1:]),
}

TREE = tt.Hierarchy.from_table(PUBLIC, ["state", "county"])
AREAS_ALONE = tt.Product({"area": TREE})
TREES = {"home": TREE, "work": TREE}
BUDGET = tt.Budget(epsilon=1)
COMMON = {"budget": BUDGET, "neighboring": "change_one", "seed": 1}
SIZES = {"records": HOUSEHOLDS, "hierarchy": TREE, "group": "household", "public_groups": PUBLIC, "max_group_size": 9}
TRIPS = pa.table({name: ["A" if "state" in name else "x"] for name in ("a_state", "a_county", "b_state", "b_county")})


@pytest.fixture(scope="module")
def release():
    return tt.release_group_sizes(**{**SIZES, **COMMON, "neighboring": "add_remove"})


def made(function: Callable[..., Any], **right: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    return function, right


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "release_counts": made(tt.release_counts, records=PEOPLE, hierarchy=TREE, **COMMON),
    "release_flows": made(
        tt.release_flows,
        trips=TRIPS,
        origins=TREE,
        destinations=TREE,
        origin=["a_state", "a_county"],
        destination=["b_state", "b_county"],
        **COMMON,
    ),
    "release_group_sizes": made(tt.release_group_sizes, **SIZES, **{**COMMON, "neighboring": "add_remove"}),
    "release_tables": made(
        tt.release_tables,
        records=PEOPLE,
        hierarchy=AREAS_ALONE,
        tables=[("county",), ()],
        measure=[("county",)],
        precision={("county",): 3.0},
        public_totals=pa.table({"state": ["A", "B"], "count": [60, 40]}),
        **COMMON,
    ),
    "Hierarchy.from_table": made(tt.Hierarchy.from_table, table=PUBLIC, levels=["state", "county"]),
    "Product": made(tt.Product, hierarchies=TREES, order=["home", "work", "home", "work"]),
    "Budget(epsilon)": made(tt.Budget, epsilon=1, delta=1e-8),
    "Budget(rho)": made(tt.Budget, rho=1),
    "PrivateMaximum": made(tt.sizes.PrivateMaximum),
    "Local": made(tt.engines.Local),
    "audit": made(
        audit, mechanism=None, tree=TREE, data=[1, 2, 3], neighbor=[1, 2, 2], runs=100, releases=0,
        budget=BUDGET, neighboring="add_remove",
    ),
    "compare": made(
        compare,
        data=Data("people", lambda budget, **options: None, PEOPLE),  # type: ignore[arg-type, return-value]
        mechanisms={"a": tt.counts.TopDown()},
        budgets=BUDGET,
        neighboring="change_one",
        runs=1,
    ),
    "theorem_4_bound": made(theorem_4_bound, branching=2, level=1, sigma=10),
    "top_down_error_bound": made(top_down_error_bound, tree=TREE, budget=BUDGET, neighboring="change_one"),
    "load_spec": made(load_spec, path="nowhere.yaml"),
    "Release.load": made(tt.Release.load, folder="nowhere"),
}  # fmt: skip
MECHANISMS = [getattr(package, name) for package in (tt.counts, tt.sizes, tt.tables) for name in package.__all__]
BASES = tt.counts.CountsMechanism | tt.sizes.SizesMechanism | tt.tables.TablesMechanism
CALLS |= {
    f"{kind.package.rpartition('.')[2]}.{kind.__name__}": made(kind)
    for kind in MECHANISMS
    if isinstance(kind, type) and issubclass(kind, BASES) and not inspect.isabstract(kind)
}


def arguments() -> Iterator[Any]:
    for name, (function, _) in CALLS.items():
        for parameter in inspect.signature(function).parameters:
            slow = [pytest.mark.slow] if parameter == "public_groups" else []
            yield pytest.param(name, parameter, id=f"{name}-{parameter}", marks=slow)


def all_that_is_said(error: BaseException) -> str:
    """The messages of an error and of those behind it, as a traceback, a log or a debugger shows them."""
    texts, waiting = [], [error]
    while waiting:
        each = waiting.pop()
        texts += [str(each), repr(each), *getattr(each, "__notes__", [])]
        waiting += [behind for behind in (each.__cause__, each.__context__) if behind is not None]
    return "\n".join(texts) + "\n".join(traceback.format_exception_only(error))


def shows_nothing(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    said = ""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            function(**given)
        except Exception as error:  # noqa: BLE001 (whatever is raised, it must show nothing)
            said = all_that_is_said(error)
    said += "\n".join(str(warning.message) for warning in warned)
    assert [value for value in PLANTED if value in said] == [], said


@pytest.mark.parametrize(("name", "parameter"), [*arguments()])
def test_a_private_column_in_place_of_an_argument_is_not_shown(name, parameter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, right = CALLS[name]
    for kind, value in PRIVATE.items():
        if parameter == "levels" and kind == "a NumPy array of one":
            continue  # a list of one name is what the argument takes, so the name that is missing is shown
        shows_nothing(function, {**right, parameter: value})


@pytest.mark.parametrize("call", ["table", "to_pandas", "measurements", "save", "replicate_errors", "reconcile"])
def test_nor_in_place_of_an_argument_about_a_release(call, release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    right: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "table": (release.table, {"level": "state", "alpha": 0.1}),
        "to_pandas": (release.to_pandas, {"level": "state", "alpha": 0.1}),
        "measurements": (release.measurements, {"level": "state"}),
        "save": (release.save, {"folder": tmp_path / "out"}),
        "replicate_errors": (tt.replicate_errors, {"release": release, "replicates": 10, "seed": 1}),
        "reconcile": (
            tt.reconcile_group_sizes,
            {"release": release, "hierarchy": TREE, "mechanism": tt.sizes.BottomUp()},
        ),
    }
    function, given = right[call]
    for parameter in given:
        for value in PRIVATE.values():
            shows_nothing(function, {**given, parameter: value})


@pytest.mark.parametrize("call", ["create", "set_limit", "dataset", "standing", "last_of_run", "remaining", "entries"])
def test_nor_in_place_of_an_argument_about_a_ledger(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.set_limit("people", BUDGET, neighboring="change_one")
    right: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "create": (Ledger.create, {"path": "new.db", "timeout": 1.0}),
        "set_limit": (
            ledger.set_limit,
            {"dataset": "people", "budget": BUDGET, "neighboring": None, "max_contributions": 1, "unit": "record"},
        ),
        "dataset": (ledger.dataset, {"dataset": "people"}),
        "standing": (ledger.standing, {"dataset": "people"}),
        "last_of_run": (ledger.last_of_run, {"dataset": "people", "run": "monday"}),
        "remaining": (ledger.remaining, {"dataset": "people"}),
        "entries": (ledger.entries, {"dataset": "people"}),
    }
    function, given = right[call]
    for parameter in given:
        for value in PRIVATE.values():
            shows_nothing(function, {**given, parameter: value})


def test_a_ledger_and_a_data_set_given_to_a_release_are_not_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    right = {"records": PEOPLE, "hierarchy": TREE, "budget": BUDGET, "neighboring": "change_one"}
    for value in PRIVATE.values():
        shows_nothing(tt.release_counts, {**right, "ledger": value, "dataset": "people"})
        shows_nothing(tt.release_counts, {**right, "ledger": tmp_path / "ledger.db", "dataset": value})


@pytest.mark.parametrize("text", ["state,county\nA,Zwetschke-NAME\n", "Zwetschke-NAME\0", "Zwetschke-NAME" * 1_000])
def test_the_content_of_a_file_in_place_of_its_path_is_not_shown(text):
    shows_nothing(tt.release_counts, {"records": text, "hierarchy": TREE, **COMMON})
    shows_nothing(tt.Hierarchy.from_table, {"table": text, "levels": ["state"]})
