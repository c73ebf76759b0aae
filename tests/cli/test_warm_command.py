"""`tallytree warm`: afterwards no release compiles anything."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from tallytree.cli import warming
from tallytree.cli.failures import ExitCode

WARM = "from tallytree.cli import app; app(['warm'], standalone_mode=False)"
RELEASES = """
import contextlib, json, warnings
import tallytree as tt
from tallytree.support.kernels import compilations, found_in_cache
from tallytree.datasets.commutes import commutes
from tallytree.datasets.households import households
from tallytree.datasets.residents import residents

warnings.simplefilter("ignore")
population, movement = households(600, n_group_quarters=3), commutes(2000)
counties = tt.Hierarchy.from_table(population.households, ["country", "state", "county"])
towns = tt.Hierarchy.from_table(movement.municipalities, ["region", "province", "municipality"])
sides = {
    "origin": [f"origin_{level}" for level in ("region", "province", "municipality")],
    "destination": [f"destination_{level}" for level in ("region", "province", "municipality")],
}
began, listening = [], contextlib.ExitStack()
listening.enter_context(compilations(began.append, lambda name: None))
for budget in (tt.Budget(epsilon=1), tt.Budget(epsilon=0.5, delta=1e-6)):
    options = {"budget": budget, "neighboring": "add_remove"}
    stable = [tt.counts.StabilityHistogram()] if budget.delta else []
    for mechanism in (tt.counts.LeastSquares(), tt.counts.TopDown(), tt.counts.LeafGaussian(), *stable):
        tt.release_counts(population.people, counties, mechanism=mechanism, **options)
        tt.release_flows(movement.commutes, origins=towns, destinations=towns, mechanism=mechanism, **sides, **options)
    groups = {"group": "household_id", "public_groups": population.households, "max_group_size": 40, **options}
    for name in tt.sizes.__all__:
        kind = getattr(tt.sizes, name)
        if isinstance(kind, type) and issubclass(kind, tt.sizes.SizesMechanism) and kind is not tt.sizes.SizesMechanism:
            tt.release_group_sizes(population.people, counties, mechanism=kind(), **groups)
    tt.release_group_sizes(population.people, counties, **{**groups, "max_group_size": "private"})
data = residents(40, provinces=8, regions=3)
trees = {"area": tt.Hierarchy.from_table(data.areas, ["region", "province", "county"]),
          "age": tt.Hierarchy.from_table(data.ages, ["age"]), "sex": tt.Hierarchy.from_table(data.sexes, ["sex"])}
for tables in ([("county", "age", "sex"), ("county", "sex"), ()], [("county", "age"), ("region", "sex")]):
    tt.release_tables(data.records(), tt.Product(trees), tables=tables, count="count", **options)
tt.replicate_errors(tt.release_counts(population.people, counties, **options), 10)
print(json.dumps([began, found_in_cache()]))
"""


def run(program, cache):
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_after_it_no_release_compiles_anything(tmp_path):
    # A cache of its own: what other tests compile at the same time is neither found nor lost.
    (cache := tmp_path / "cache").mkdir(mode=0o700)
    assert len(run(WARM, cache)) == 1
    began, found = json.loads(run(RELEASES, cache)[-1])
    assert began == []
    assert found > 25  # those that are called from Python


def test_without_a_place_for_the_cache_it_fails(refusal, monkeypatch):
    monkeypatch.setattr(warming, "synthetic_runs", lambda: iter([("one kernel", numba.njit(lambda: 0))]))
    monkeypatch.setattr(warming, "cache_folders", tuple)
    assert refusal("warm", code=ExitCode.SYSTEM).startswith("no folder for compiled code can be written to; set NUMBA")


def test_where_nothing_was_left_to_compile_no_place_is_needed(output, monkeypatch):
    monkeypatch.setattr(warming, "synthetic_runs", lambda: iter([("none", lambda: None)]))
    monkeypatch.setattr(warming, "cache_folders", tuple)
    assert output("warm").startswith("0 kernels are compiled now, ")


def test_it_says_how_many_and_where(output, monkeypatch):
    monkeypatch.setattr(warming, "synthetic_runs", lambda: iter([("none", lambda: None)]))
    monkeypatch.setattr(warming, "cache_folders", lambda: (Path("/cache/a"), Path("/cache/b")))
    monkeypatch.setattr(warming, "found_in_cache", lambda: 7)
    assert output("warm") == "0 kernels are compiled now, 7 were found compiled. The cache is in /cache.\n"
