"""Compiling everything ahead: small synthetic releases that call every kernel as a real release does.

Kernels are compiled for the types of the arrays that they are called with, so the surest way is to call them as a
release does, through the public functions. Every mechanism runs over an irregular tree, with each kind of noise, each
unit and each kind of table that leads to other code. The data are synthetic, and no result is kept.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from tallytree import counts, sizes
from tallytree.api import release_counts, release_flows, release_group_sizes, release_households, release_tables
from tallytree.budget import Budget
from tallytree.hierarchy import Hierarchy
from tallytree.numbers.accuracy.replicate_errors import replicate_errors
from tallytree.numbers.reconcile import reconcile_group_sizes
from tallytree.product import Product
from tallytree.release import Release
from tallytree.sizes.estimators import EstimatorName
from tallytree.support.kernels import cache_folders, compilations, found_in_cache

PURE, GAUSSIAN = Budget(epsilon=1), Budget(rho=0.1)
LARGE_SCALES = (Budget(epsilon=1e-5), Budget(rho=1e-9))
"""Noise of a large scale is drawn in digits."""

SEED = 13


@dataclass(frozen=True)
class Warmed:
    """What was compiled.

    Attributes:
        new: how many kernels were compiled, each once for the types that it takes.
        found: how many were found compiled; those inside them are not counted.
        folders: where they are cached; none where they cannot be.
    """

    new: int
    found: int
    folders: tuple[Path, ...]


def warm_up(begin: Callable[[str], None] = lambda name: None) -> Warmed:
    """Compile every kernel that a release, its replicates or another reconciliation can need.

    Args:
        begin: called with the name of each synthetic release as it begins.
    """
    compiled: list[str] = []
    with warnings.catch_warnings(), compilations(lambda kernel: None, compiled.append):
        warnings.simplefilter("ignore")  # some mechanisms warn that they are for comparison only
        for name, run in synthetic_runs():
            begin(name)
            run()
    return Warmed(len(compiled), found_in_cache(), cache_folders())


def synthetic_runs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every synthetic release, by a name."""
    yield from _of_counts()
    yield from _of_tables()
    yield from _of_sizes()


def _of_counts() -> Iterator[tuple[str, Callable[[], Any]]]:
    areas = _areas()
    records = _people(areas)
    crossed = Product({"area": areas, "sex": Hierarchy.from_table(pa.table({"sex": ["f", "m"]}), ["sex"])}, order=ORDER)
    attributes = records.append_column("sex", pa.array(np.resize(["f", "m"], records.num_rows)))
    mechanisms = (
        counts.LeastSquares(),
        counts.LeastSquares(sparsity=2),
        counts.LeastSquares(sparsity="auto"),
        counts.TopDown(),
        counts.TopDown("euclidean"),
        counts.TopDown(sparsity=2),
        counts.LeafGaussian(),
    )
    for mechanism, (budget, relation) in itertools.product(
        mechanisms, ((PURE, "add_remove"), (GAUSSIAN, "change_one"))
    ):
        shared: dict[str, Any] = {"budget": budget, "neighboring": relation, "mechanism": mechanism, "seed": SEED}
        yield f"counts, {mechanism}", _counts(records, areas, **shared)
        yield f"counts of a product, {mechanism}", _counts(attributes, crossed, **shared)
        yield f"flows, {mechanism}", _flows(areas, **shared)
    for mechanism in (counts.LeastSquares(), counts.TopDown()):
        shared = {"budget": GAUSSIAN, "neighboring": "add_remove", "mechanism": mechanism, "seed": SEED}
        yield f"people, {mechanism}", _counts(records, areas, person="person", max_contributions=2, **shared)
        distinct: dict[str, Any] = {"person": "person", "max_contributions": 2, "distinct": True}
        yield f"people once a leaf, {mechanism}", _counts(records, areas, **distinct, **shared)
    stable = counts.StabilityHistogram()
    threshold: dict[str, Any] = {**DEFAULT, "budget": Budget(epsilon=1, delta=1e-6), "mechanism": stable}
    yield "counts, a threshold", _counts(records, areas, **threshold)
    yield "flows, a threshold", _flows(areas, **threshold)
    for budget in LARGE_SCALES:
        yield f"counts, {budget}", _counts(records, areas, budget=budget, neighboring="add_remove", seed=SEED)
    for statistic in (_counts(records, areas, **DEFAULT), _flows(areas, **DEFAULT)):
        yield "replicates of counts", partial(_replicated, statistic)
    automatic = _counts(records, areas, **{**DEFAULT, "budget_split": "auto"})
    yield "counts, split by the data's tree", automatic


def _of_tables() -> Iterator[tuple[str, Callable[[], Any]]]:
    areas = _areas()
    product = Product({"area": areas, "sex": Hierarchy.from_values("sex", ["f", "m", "x"])})  # enough to be pooled
    people = _people(areas).select(["state", "county"])
    people = people.append_column("sex", pa.array(np.resize(["f", "m", "x"], people.num_rows)))
    totals = people.group_by("state").aggregate([([], "count_all")]).rename_columns(["state", "count"])
    named = [("county", "sex"), ("state",), ()]
    for budget, relation, public in (
        (PURE, "add_remove", None),
        (GAUSSIAN, "change_one", None),
        (GAUSSIAN, "change_one", totals),
    ):
        for tables, rows in itertools.product((named, [("county",), ("sex",)]), (1, 2**34)):  # narrow and wide integers
            shared: dict[str, Any] = {"budget": budget, "neighboring": relation, "public_totals": public, "seed": SEED}
            many = people.append_column("n", pa.array(np.full(people.num_rows, rows)))
            run = partial(release_tables, many, product, tables=tables, count="n", **shared)
            yield f"tables {tables}", run
    yield "replicates of tables", partial(_replicated, run)


def _of_sizes() -> Iterator[tuple[str, Callable[[], Any]]]:
    areas = _areas()
    people, listed = _people(areas), _listed(areas)
    estimators = get_args(EstimatorName)
    variants = (
        *(sizes.Matching(each, norm, merge) for each in estimators for norm in (1, 2) for merge in MERGES),
        *(sizes.Independent(each) for each in estimators),
        *(sizes.BottomUp(each) for each in estimators),
    )
    mechanisms = (
        sizes.Joint(),
        sizes.Matching(),
        sizes.MeanConsistency(),
        sizes.HistogramProjection(),
        sizes.CumulativeProjection(),
        sizes.Chain(),
        sizes.CensusTopDown(),
    )
    for mechanism, budget in (*itertools.product(mechanisms, (PURE, GAUSSIAN)), *((each, PURE) for each in variants)):
        shared: dict[str, Any] = {"budget": budget, "neighboring": "add_remove", "mechanism": mechanism, "seed": SEED}
        yield f"group sizes, {mechanism}", _sizes(people, areas, listed, max_group_size=12, **shared)
    for mechanism in (sizes.Joint(), sizes.Matching(), sizes.HistogramProjection("cost_table")):
        for invariants in ("none", "total"):
            private: dict[str, Any] = {**DEFAULT, "mechanism": mechanism, "invariants": invariants}
            name = f"group sizes, invariants={invariants}, {mechanism}"
            yield name, _sizes(people, areas, None, max_group_size=12, **private)
    largest: dict[str, Any] = {**DEFAULT, "max_group_size": "private"}
    yield "group sizes, a private largest size", _sizes(people, areas, listed, **largest)
    once = _sizes(people, areas, listed, max_group_size=12, **DEFAULT)
    for mechanism in (sizes.Joint(), sizes.Matching()):
        yield "reconciled again", partial(_reconciled, once, areas, mechanism)
    yield "replicates of group sizes", partial(_replicated, once)
    for budget in LARGE_SCALES:
        large: dict[str, Any] = {**DEFAULT, "budget": budget}
        yield f"group sizes, {budget}", _sizes(people, areas, listed, max_group_size=12, **large)
    homes = people["home"].to_numpy()
    people = people.set_column(2, "home", pa.array(homes, mask=homes % 3 == 0))  # a third live in no household
    for budget in (PURE, GAUSSIAN):
        both: dict[str, Any] = {**DEFAULT, "budget": budget, "household": "home", "max_household_size": 4}
        yield f"persons and households, {budget}", partial(release_households, people, areas, **both)


ORDER = ["area", "sex", "area"]
MERGES: tuple[Literal["weighted", "average"], ...] = ("weighted", "average")
DEFAULT: dict[str, Any] = {"budget": PURE, "neighboring": "add_remove", "seed": SEED}


def _areas() -> Hierarchy:
    """An irregular tree of three levels: an only child, and families of 2 to 9."""
    states = np.repeat([f"state {i}" for i in range(4)], [1, 2, 5, 36])
    counties = [f"county {i}" for i in range(len(states))]
    return Hierarchy.from_table(pa.table({"state": states, "county": counties}), ["state", "county"])


def _people(areas: Hierarchy) -> pa.Table:
    """Records with a place, a household and a person; some leaves have none."""
    leaves = areas.leaf_table()
    households = np.repeat(np.arange(200), 1 + np.arange(200) % 5)
    places = leaves.take(households % (leaves.num_rows - 2))
    return places.append_column("home", pa.array(households)).append_column(
        "person", pa.array(np.arange(len(households)) // 2)
    )


def _listed(areas: Hierarchy) -> pa.Table:
    """The public number of households of every leaf."""
    leaves = areas.leaf_table()
    return leaves.append_column("groups", pa.array(np.full(leaves.num_rows, 20)))


def _counts(records: pa.Table, tree: Hierarchy | Product, **options: Any) -> Callable[[], Release]:
    return lambda: release_counts(records, tree, **options)


def _flows(areas: Hierarchy, **options: Any) -> Callable[[], Release]:
    leaves = areas.leaf_table()
    origins, destinations = (leaves.take(np.arange(300) * step % leaves.num_rows) for step in (7, 4))
    columns = {"from_state": "state", "from_county": "county"}, {"to_state": "state", "to_county": "county"}
    trips = pa.table(
        {
            **{name: origins.column(level) for name, level in columns[0].items()},
            **{name: destinations.column(level) for name, level in columns[1].items()},
        }
    )
    sides: dict[str, Any] = {"origin": [*columns[0]], "destination": [*columns[1]]}
    return lambda: release_flows(trips, origins=areas, destinations=areas, **sides, **options)


def _sizes(people: pa.Table, areas: Hierarchy, listed: pa.Table | None, **options: Any) -> Callable[[], Release]:
    return lambda: release_group_sizes(people, areas, group="home", public_groups=listed, **options)


def _replicated(make: Callable[[], Release]) -> Release:
    return replicate_errors(make(), 10, seed=SEED)


def _reconciled(make: Callable[[], Release], areas: Hierarchy, mechanism: sizes.SizesMechanism) -> Release:
    return reconcile_group_sizes(make(), areas, mechanism=mechanism)
