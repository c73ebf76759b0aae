"""Specs that are given as Python mappings."""

from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml

from helpers.specs import COUNTS, FLOWS, GROUP_SIZES, write
from tallytree.spec import SpecError, load_spec

GIVEN = {
    "statistic": "counts",
    "records": "people.parquet",
    "hierarchy": {"path": "areas.parquet", "levels": ["state", "county"]},
    "budget": {"epsilon": 1, "delta": 1e-8},
    "neighboring": "change_one",
}


@pytest.mark.parametrize("text", [COUNTS, FLOWS, GROUP_SIZES], ids=["counts", "flows", "group_sizes"])
def test_a_mapping_gives_the_spec_that_its_yaml_gives(folder, monkeypatch, text):
    given = yaml.safe_load(text)
    if "delta" in given["budget"]:
        given["budget"]["delta"] = 1e-8  # YAML 1.1 reads it as text
    if "budget_split" in given:
        given["budget_split"]["county"] = 0.2
    monkeypatch.chdir(folder)
    written = load_spec(write(folder, text, "written.yaml"))
    assert dict(load_spec(given)) == dict(written)


def test_it_is_released_with_paths_relative_to_the_working_directory(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    release = load_spec({**GIVEN, "seed": 1}).release(tmp_path / "out")
    assert release.spec["records"] == "people.parquet"
    assert load_spec({**GIVEN, "records": folder / "people.parquet"}).check()


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (Decimal("0.1"), Fraction(1, 10)),
        (np.int32(3), Fraction(3)),
        ("0.1", Fraction(1, 10)),
        (5e-299, Fraction(5, 10**299)),
    ],
)
def test_a_number_is_the_decimal_number_that_is_written(value, exact):
    assert load_spec({**GIVEN, "budget": {"epsilon": value}}).budget.epsilon == exact


def test_changes_and_variables_work_as_in_a_file():
    given = {**GIVEN, "records": "${DAY}.parquet", "variables": {"DAY": {"default": date(2026, 11, 22)}, "X": None}}
    assert load_spec(given).records == "2026-11-22.parquet"
    assert load_spec(given, changes={"variables.DAY": "today", "seed": 3}).seed == 3
    assert given["records"] == "${DAY}.parquet"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sead": 1}, "spec, sead: unknown key; did you mean seed?"),
        ({"budget": {"epsilon": float("nan")}}, "spec, budget.epsilon: nan must be a number"),
        ({"budget": {"epsilon": float("inf")}}, "spec, budget.epsilon: inf must be a number"),
        ({"budget": {"epsilon": Decimal("1E-99999999")}}, "spec, budget.epsilon: 1E-99999999 is out of range"),
        (
            {"budget": {"epsilon": Fraction(1, 3)}},
            "spec, budget.epsilon: Fraction is given; a spec holds text, paths, ",
        ),
        ({"records": 2024}, 'spec, records: 2024 is read as a number; put it in quotes: "2024"'),
        ({"records": [date(2024, 1, 1)]}, "spec, records: 2024-01-01 is read as a date; put it in quotes: "),
        ({"records": b"x"}, "spec, records: bytes is given; a spec holds text, paths, "),
        ({1: 2}, "spec: a key is of type int; keys must be text"),
        ({"statistic": None}, "spec, statistic: is missing; choose counts, flows, tables, group_sizes or households"),
        ({"records": None}, "spec, records: has no value; "),
        ({"hierarchy": {"path": Path("no.parquet"), "levels": ["a"]}}, "spec, hierarchy.path: no file at "),
    ],
    ids=str,
)
def test_mistakes_name_the_key(folder, monkeypatch, more, message):
    monkeypatch.chdir(folder)
    with pytest.raises(SpecError) as caught:
        load_spec({**GIVEN, **more}).check()
    assert str(caught.value).startswith(message)


def test_a_table_is_not_shown(folder):
    with pytest.raises(SpecError, match=r"^spec, records: ndarray is given; ") as caught:
        load_spec({**GIVEN, "records": np.array(["Ann"])})
    assert "Ann" not in str(caught.value)


def test_a_mapping_that_holds_itself_is_refused():
    around = {}
    around["again"] = around
    with pytest.raises(SpecError, match="spec, hierarchy: has too many entries for a spec"):
        load_spec({**GIVEN, "hierarchy": around})


@pytest.mark.parametrize("given", [None, 7, ["statistic"]])
def test_another_kind_of_value_is_refused(given):
    with pytest.raises(TypeError, match=r"spec: \w+ must be the path of a YAML file, or a mapping of keys"):
        load_spec(given)
