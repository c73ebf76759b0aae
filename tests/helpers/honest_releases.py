"""Releases of every kind, as tallytree makes them: what `tools/check_release.py` must accept."""

import tempfile
from pathlib import Path

import pyarrow as pa

import tallytree as tt
from helpers.inside import fitted_errors
from tallytree.mechanisms import reconcile_counts

RECORDS = pa.table(
    {
        "state": ["A", "A", "B", "B"] * 25,
        "county": ["x", "y", "x", "z"] * 25,
        "sex": ["f", "m", "m", "f", "f"] * 20,
        "age": ["young", "old", "old", "old", "old"] * 20,
        "who": [f"p{number // 3}" for number in range(100)],
        "home": [f"{'xyxz'[number % 4]}{'AABB'[number % 4]}{number // 9}" for number in range(100)],
        "several": [1, 2, 3, 1, 1] * 20,
        "day": ["2026-03-04"] * 90 + ["2026-04-01"] * 10,
    }
)
AREAS = tt.Hierarchy.from_table(
    pa.table({"state": ["A", "A", "B", "B"], "county": ["x", "y", "x", "z"]}), ["state", "county"]
)
SEXES = tt.Hierarchy.from_values("sex", ["f", "m"])
AGES = tt.Hierarchy.from_values("age", ["young", "old"])
APPROXIMATE = tt.Budget(epsilon=1, delta=1e-6)
PURE = tt.Budget(epsilon=0.5)
GROUPS = pa.table({"state": ["A", "A", "B", "B"], "county": ["x", "y", "x", "z"], "groups": [14, 13, 15, 16]})
TOTALS = pa.table({"state": ["A", "B"], "count": [50, 50]})


def counts(**options):
    return tt.release_counts(RECORDS, AREAS, **{"budget": APPROXIMATE, "neighboring": "add_remove", **options})


def tables(*others, **options):
    sides = {"area": AREAS, "sex": SEXES, **({"age": AGES} if others else {})}
    impossible = others[0] if others else None
    given = {"budget": APPROXIMATE, "neighboring": "change_one", "tables": ["state", ("county", "sex")], **options}
    return tt.release_tables(RECORDS, tt.Product(sides, impossible=impossible), **given)


def flows(**options):
    trips = RECORDS.select(["state", "county"]).rename_columns(["os", "oc"])
    trips = trips.append_column("ds", pa.array(["A", "B"] * 50)).append_column("dc", pa.array(["x", "z"] * 50))
    given = {"budget": APPROXIMATE, "neighboring": "add_remove", **options}
    return tt.release_flows(
        trips, origins=AREAS, destinations=AREAS, origin=["os", "oc"], destination=["ds", "dc"], **given
    )


def sizes(**options):
    given = {"budget": tt.Budget(rho=1), "neighboring": "add_remove", "group": "home", "max_group_size": 20, **options}
    return tt.release_group_sizes(RECORDS, AREAS, **given)


def sizes_by_row(**options):
    rows = GROUPS.append_column("size", pa.array([1, 2, 3, 0]))
    given = {"budget": PURE, "neighboring": "add_remove", "size": "size", "groups": "groups", "max_group_size": 6}
    return tt.release_group_sizes(rows, AREAS, **{**given, **options})


def households(**options):
    given = {"budget": tt.Budget(rho=1), "neighboring": "add_remove", "household": "home", "max_household_size": 4}
    product = tt.Product({"area": AREAS, "sex": SEXES})
    return tt.release_households(RECORDS, product, **{**given, "tables": [("county", "sex")], **options})


def people(**options):
    given = {"budget": tt.Budget(epsilon=1), "neighboring": "add_remove", "person": "who", **options}
    return tt.release_contributions(RECORDS, AREAS, contributions=tt.Contributions(at_most=4), **given)


def revision(**options):
    """Two releases: the second takes the place of the first."""
    with tempfile.TemporaryDirectory() as folder:
        first = counts(period="2026-03").save(Path(folder) / "first")
        return counts(period="2026-03", revises=first, **options)


CHANGE_ONE = {"neighboring": "change_one"}
PERSON = {"max_contributions": 3, "person": "who"}
BOUNDS = {"person": "who", "contributions": tt.Contributions(0.2, 4)}
HONEST = {
    "counts, pld": counts,
    "counts, zcdp": lambda: counts(accounting="zcdp"),
    "counts, paper": lambda: counts(accounting="paper"),
    "counts, rho": lambda: counts(budget=tt.Budget(rho=0.1)),
    "counts, pure": lambda: counts(budget=PURE, **CHANGE_ONE),
    "counts, pure, add_remove": lambda: counts(budget=PURE),
    "counts, change_one": lambda: counts(**CHANGE_ONE),
    "counts, small epsilon": lambda: counts(budget=tt.Budget(epsilon=0.001, delta=1e-8)),
    "counts, large epsilon": lambda: counts(budget=tt.Budget(epsilon=40, delta=1e-3)),
    "counts, large pure epsilon": lambda: counts(budget=tt.Budget(epsilon=60)),
    "counts, odd shares": lambda: counts(budget_split={"all": 1, "state": 2, "county": 7}),
    "counts, several records": lambda: counts(**PERSON),
    "counts, several records assumed": lambda: counts(max_contributions=3, budget=PURE),
    "counts, distinct": lambda: counts(**PERSON, distinct=True),
    "counts, threshold": lambda: counts(mechanism=tt.counts.StabilityHistogram()),
    "counts, threshold, several": lambda: counts(mechanism=tt.counts.StabilityHistogram(), **PERSON, **CHANGE_ONE),
    "counts, leaves": lambda: counts(mechanism=tt.counts.LeafGaussian()),
    "counts, top down": lambda: counts(mechanism=tt.counts.TopDown()),
    "counts, top down, euclidean": lambda: counts(mechanism=tt.counts.TopDown(projection="euclidean"), **CHANGE_ONE),
    "counts, sparse": lambda: counts(mechanism=tt.counts.LeastSquares(sparsity="auto")),
    "counts, contributions": lambda: counts(max_contributions=2, **BOUNDS),
    "counts, auto bound": lambda: counts(max_contributions="auto", **BOUNDS),
    "counts, auto bound, pure": lambda: counts(max_contributions="auto", **BOUNDS, budget=tt.Budget(epsilon=4)),
    "counts, period": lambda: counts(period="2026-03", period_column="day"),
    "counts, period assumed": lambda: counts(period="2026-W10"),
    "counts, revision": revision,
    "counts, described": lambda: counts(title="T", publisher="P", status="final", words={"record": "trip"}),
    "counts, dropped": lambda: counts(on_unknown="drop"),
    "counts, without measurements": lambda: counts(keep_measurements=False),
    "counts, seeded": lambda: counts(seed=1),
    "counts, replicates": lambda: tt.replicate_errors(counts(mechanism=tt.counts.TopDown()), replicates=10),
    "counts, fitted errors": lambda: fitted_errors(counts()),
    "counts, made again": lambda: reconcile_counts(counts(), mechanism=tt.counts.TopDown()),
    "counts, product": lambda: tt.release_counts(
        RECORDS, tt.Product({"area": AREAS, "sex": SEXES}, order=["area", "sex", "area"]), APPROXIMATE, **CHANGE_ONE
    ),
    "counts, one leaf": lambda: tt.release_counts(
        RECORDS.slice(0, 1), tt.Hierarchy.from_table(pa.table({"state": ["A"]}), ["state"]), PURE,
        neighboring="add_remove",
    ),
    "flows": flows,
    "flows, change_one": lambda: flows(**CHANGE_ONE),
    "flows, pure": lambda: flows(budget=tt.Budget(epsilon=3)),
    "flows, by origin": lambda: flows(tree="origin"),
    "flows, remainder": lambda: flows(unlisted="remainder"),
    "flows, remainder, much": lambda: flows(unlisted="remainder", budget=tt.Budget(epsilon=20)),
    "flows, much": lambda: flows(budget=tt.Budget(epsilon=20)),
    "flows, threshold": lambda: flows(mechanism=tt.counts.StabilityHistogram()),
    "flows, top down": lambda: flows(mechanism=tt.counts.TopDown()),
    "tables": tables,
    "tables, add_remove": lambda: tables(neighboring="add_remove", budget=PURE),
    "tables, public totals": lambda: tables(public_totals=TOTALS),
    "tables, helpful": lambda: tables(budget_split="auto", tables=["state", ("county", "sex"), ()]),
    "tables, measured otherwise": lambda: tables(tables=["state", ("state", "sex")], measure=[("county", "sex")]),
    "tables, detail": lambda: tables(keep_detail=True),
    "tables, distinct": lambda: tables(**PERSON, distinct=True),
    "tables, several records": lambda: tables(**PERSON),
    "tables, triangle": lambda: tables(
        pa.table({"sex": ["m"], "age": ["young"]}), tables=[("county", "sex"), ("county", "age"), ("sex", "age")],
        budget=tt.Budget(epsilon=20),
    ),
    "tables, auto bound": lambda: tables(max_contributions="auto", **BOUNDS),
    "sizes": sizes,
    "sizes, pure, replaced": lambda: sizes(budget=tt.Budget(epsilon=2), **CHANGE_ONE),
    "sizes, replaced": lambda: sizes(**CHANGE_ONE),
    "sizes, approximate": lambda: sizes(budget=APPROXIMATE),
    "sizes, public groups": lambda: sizes(public_groups=GROUPS),
    "sizes, public groups, least 1": lambda: sizes(public_groups=GROUPS, min_group_size=1, **CHANGE_ONE),
    "sizes, public total": lambda: sizes(invariants="total"),
    "sizes, by row": sizes_by_row,
    "sizes, by row, none": lambda: sizes_by_row(invariants="none"),
    "sizes, by row, total": lambda: sizes_by_row(invariants="total", max_quantity=2),
    "sizes, quantities": lambda: sizes(quantity="several", max_quantity=3),
    "sizes, quantities cut": lambda: sizes(quantity="several", max_quantity=3, max_group_size=2),
    "sizes, several records": lambda: sizes(**PERSON, **CHANGE_ONE),
    "sizes, private maximum": lambda: sizes(max_group_size=tt.sizes.PrivateMaximum(share=0.1, at_most=50)),
    "sizes, matching": lambda: sizes(mechanism=tt.sizes.Matching()),
    "sizes, matching, sorted": lambda: sizes(mechanism=tt.sizes.Matching(estimator="sorted"), public_groups=GROUPS),
    "sizes, naive": lambda: sizes(mechanism=tt.sizes.Matching(estimator="naive"), **CHANGE_ONE),
    "sizes, independent": lambda: sizes(mechanism=tt.sizes.Independent()),
    "sizes, bottom up": lambda: sizes(mechanism=tt.sizes.BottomUp()),
    "sizes, mean": lambda: sizes_by_row(mechanism=tt.sizes.MeanConsistency()),
    "sizes, histogram": lambda: sizes_by_row(mechanism=tt.sizes.HistogramProjection()),
    "sizes, cumulative": lambda: sizes_by_row(mechanism=tt.sizes.CumulativeProjection()),
    "sizes, census": lambda: sizes_by_row(mechanism=tt.sizes.CensusTopDown()),
    "sizes, chain": lambda: sizes(mechanism=tt.sizes.Chain(calibration="valid")),
    "sizes, chain as published": lambda: sizes_by_row(mechanism=tt.sizes.Chain(calibration="as_published")),
    "sizes, contributions": lambda: sizes(max_contributions=2, **BOUNDS),
    "sizes, made again": lambda: tt.reconcile_group_sizes(sizes(), AREAS, mechanism=tt.sizes.Matching()),
    "households": households,
    "households, pure": lambda: households(budget=tt.Budget(epsilon=3), **CHANGE_ONE),
    "households, approximate": lambda: households(budget=APPROXIMATE, person="who", max_contributions=3),
    "households, totals": lambda: households(tables=["state", "county", ("state", "sex")]),
    "people": people,
    "people, rho": lambda: people(budget=tt.Budget(rho=0.1), **CHANGE_ONE),
}  # fmt: skip
"""Each kind by its name, as a function that makes it."""
