"""Releases with `max_contributions="auto"` of a small table of people with several records."""

import pyarrow as pa

import tallytree as tt
from helpers.inside import CountsArguments, SizesArguments, TablesArguments, plan_counts, plan_group_sizes, plan_tables

LEAVES = [("A", "x"), ("A", "y"), ("A", "z"), ("B", "x")]
ASKED = tt.Contributions(share=0.1, at_most=20)
EPSILON, RHO = tt.Budget(epsilon=1), tt.Budget(rho=0.5)


def table(people):
    """A row for each record: `people` has the places, numbers of `LEAVES`, of everybody's records."""
    rows = [(who, *LEAVES[place], f"{place}-{number % 3}") for who, places in people.items()
            for number, place in enumerate(places)]  # fmt: skip
    names = ("who", "state", "county", "home")
    return pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))


PEOPLE = {f"p{n}": [(n + k) % 4 for k in range(1 + n % 9)] for n in range(300)}
RECORDS = table(PEOPLE)


def options_of(**changes):
    return {
        "neighboring": "add_remove", "person": "who", "max_contributions": "auto", "contributions": ASKED,
    } | changes  # fmt: skip


def planned(areas, records=RECORDS, budget=EPSILON, **changes):
    return plan_counts(CountsArguments(records, areas, budget, **options_of(**changes)))


def planned_sizes(areas, records=RECORDS, budget=EPSILON, **changes):
    options = options_of(group="home", max_group_size=6, **changes)
    return plan_group_sizes(SizesArguments(records, areas, budget, **options))


def planned_tables(areas, records=RECORDS, budget=EPSILON, **changes):
    tables = {"tables": [("county",), ("state",), ()]}
    product = tt.Product({"area": areas})
    return plan_tables(TablesArguments(records, product, budget, **tables, **options_of(**changes)))


def released(areas, records=RECORDS, budget=EPSILON, **changes):
    return tt.release_counts(records, areas, budget, **options_of(**changes))
