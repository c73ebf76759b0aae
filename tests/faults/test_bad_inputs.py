"""The corpus of bad inputs: each line of `bad_inputs.jsonl` is refused with the sentence that it has.

A line has an `id`, a `kind` (one of `KINDS`, which says how the call is built), what the kind needs, and under `says`
the error: its type and its message, with `DIR` in place of the folder. `slow` marks those that read records.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import socket
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import export, write_report
from helpers.releases import HOUSEHOLDS, PEOPLE, PUBLIC
from tallytree.evaluate.error_bounds import theorem_4_bound, top_down_error_bound
from tallytree.ledger import Ledger
from tallytree.release.registry_file import given_values
from tallytree.spec import load_spec
from tallytree.spec.scalars import written_number

LINES = [json.loads(line) for line in Path(__file__).with_name("bad_inputs.jsonl").read_text("utf-8").splitlines()]
NAMES = {
    "Decimal": Decimal, "Fraction": Fraction, "math": math, "np": np, "pd": pd, "pl": pl, "pa": pa, "tt": tt,
    "PEOPLE": PEOPLE,
}  # fmt: skip
"""What an expression of the corpus may use."""

SPEC = {
    "statistic": "counts",
    "records": "people.parquet",
    "hierarchy": "{path: areas.csv, levels: [state, county]}",
    "budget": "{epsilon: 1}",
    "neighboring": "change_one",
}
TABLES_SPEC = {
    "statistic": "tables",
    "records": "people.parquet",
    "hierarchy": "{attributes: {area: {path: areas.csv, levels: [state, county]}}}",
    "tables": "[[county], []]",
    "budget": "{epsilon: 1}",
    "neighboring": "change_one",
}
AREAS_CSV = "state,county\nA,x\nA,y\nB,x\n"


def counts(**changes: Any) -> Any:
    tree = tt.Hierarchy.from_table(PUBLIC, ["state", "county"])
    given = {"records": PEOPLE, "hierarchy": tree, "budget": tt.Budget(epsilon=1), "neighboring": "change_one"}
    return tt.release_counts(**{**given, "seed": 1, **changes})


def group_sizes(**changes: Any) -> Any:
    tree = tt.Hierarchy.from_table(PUBLIC, ["state", "county"])
    given = {"records": HOUSEHOLDS, "hierarchy": tree, "budget": tt.Budget(epsilon=1), "neighboring": "add_remove"}
    return tt.release_group_sizes(**{**given, "group": "household", "max_group_size": 9, "seed": 1, **changes})


def people_by_records() -> Any:
    tree = tt.Hierarchy.from_table(PUBLIC, ["state", "county"])
    given = {"neighboring": "add_remove", "person": "household", "at_most": 9, "seed": 1}
    return tt.release_contributions(HOUSEHOLDS, tree, tt.Budget(epsilon=1), **given)


def top_down_bound(**changes: Any) -> Any:
    tree = tt.Hierarchy.from_table(PUBLIC, ["state", "county"])
    return top_down_error_bound(**{"tree": tree, "budget": tt.Budget(rho=1), "neighboring": "change_one", **changes})


CALLS: dict[str, Callable[..., Any]] = {
    "counts": counts,
    "group_sizes": group_sizes,
    "top_down_error_bound": top_down_bound,
    "theorem_4_bound": lambda **changes: theorem_4_bound(**{"branching": 2, "level": 1, "sigma": 1.0, **changes}),
    "Budget": tt.Budget,
    "Local": tt.engines.Local,
    "PrivateMaximum": tt.sizes.PrivateMaximum,
    "Hierarchy": lambda **changes: tt.Hierarchy.from_table(**{"table": PUBLIC, "levels": ["state"], **changes}),
    "Matching": tt.sizes.Matching,
    "Joint": tt.sizes.Joint,
    "Chain": tt.sizes.Chain,
    "TopDown": tt.counts.TopDown,
    "LeastSquares": tt.counts.LeastSquares,
    "HistogramProjection": tt.sizes.HistogramProjection,
    "Ledger": Ledger,
    "Release.load": tt.Release.load,
    "load_spec": load_spec,
    "replicate_errors": lambda **changes: tt.replicate_errors(counts(), **changes),
    "write_report": lambda **changes: write_report(**{"release": counts(), **changes}),
    "plot.sizes": lambda **changes: counts().plot.sizes(**changes),
    "plot.flows": lambda **changes: counts().plot.flows(**changes),
    "table": lambda **changes: people_by_records().table("contributions", **changes),
    "export": lambda **changes: export(**{"release": counts(), "to": "csv", "out": "out", **changes}),
    "given_values": given_values,
    "save": lambda **changes: counts().save(**changes),
}


def python_argument(line: dict[str, Any], folder: Path) -> None:
    """A public function, with arguments that are Python expressions."""
    given = {name: eval(text, dict(NAMES)) for name, text in line["arguments"].items()}  # noqa: S307
    CALLS[line["call"]](**given)


def spec_keys(line: dict[str, Any], folder: Path) -> None:
    """A right spec with some of its keys changed (null takes one out), or with other text below it."""
    pq.write_table(PEOPLE, folder / "people.parquet")
    (folder / "areas.csv").write_text(AREAS_CSV)
    keys = {**(TABLES_SPEC if line["kind"] == "tables_spec_keys" else SPEC), **line.get("keys", {})}
    text = "".join(f"{key}: {value}\n" for key, value in keys.items() if value is not None)
    text += line.get("below", "") * line.get("times", 1)
    (folder / "spec.yaml").write_text(line.get("text", text), encoding="utf-8")
    load_spec(folder / "spec.yaml").check()


def tables_spec_keys(line: dict[str, Any], folder: Path) -> None:
    """A right spec of tables, changed in the same way; and a public table of totals beside it."""
    (folder / "totals.csv").write_text(line.get("totals", "state,count\nA,60\nB,40\n"))
    spec_keys(line, folder)


def csv_bytes(line: dict[str, Any], folder: Path) -> None:
    """Records in a CSV file, of which each character is a byte; a hierarchy of the labels x and y of `county`."""
    content = line["content"].encode("latin-1")
    path = folder / line.get("name", "records.csv")
    path.write_bytes(gzip.compress(content) if path.name.lower().endswith(".gz") else content)
    tree = tt.Hierarchy.from_table(pa.table({"county": line.get("labels", ["x", "y"])}), ["county"])
    counts(records=path, hierarchy=tree, **line.get("options", {}))


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


def place(line: dict[str, Any], folder: Path) -> None:
    """Something in the file system, given as the path of records."""
    makers: dict[str, Callable[[Path], Any]] = {
        "pipe": os.mkfifo,
        "socket": make_socket,
        "folder": Path.mkdir,
        "link to nothing": lambda path: path.symlink_to("nowhere"),
        "link to itself": lambda path: path.symlink_to(path.name),
        "link to a device": lambda path: path.symlink_to("/dev/zero"),
        "name that is not UTF-8": lambda path: Path(os.fsdecode(b"a\xff.csv")).write_text(AREAS_CSV),
        "nothing": lambda path: None,
    }
    makers[line["what"]](folder / line.get("name", "t.csv"))
    counts(records=line["path"])


def ledger_amount(line: dict[str, Any], folder: Path) -> None:
    """An amount as `tallytree limit` reads it."""
    budget = tt.Budget(**{name: written_number(text, name) for name, text in line["amounts"].items()})
    Ledger(folder / "ledger.db").set_limit(line.get("dataset", "people"), budget, neighboring="change_one")


KINDS = {
    each.__name__: each for each in (python_argument, spec_keys, tables_spec_keys, csv_bytes, place, ledger_amount)
}


def cases() -> list[Any]:
    return [pytest.param(line, id=line["id"], marks=[pytest.mark.slow] if line.get("slow") else []) for line in LINES]


@pytest.mark.parametrize("line", cases())
def test_a_bad_input_is_refused_with_its_sentence(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception) as caught:
        KINDS[line["kind"]](line, tmp_path)
    said = f"{type(caught.value).__name__}: {caught.value}".replace(str(tmp_path), "DIR")
    assert said == line["says"]


def test_the_corpus_is_large_and_each_line_has_a_name_of_its_own():
    assert len({line["id"] for line in LINES}) == len(LINES) >= 150
    assert {line["kind"] for line in LINES} == set(KINDS)
