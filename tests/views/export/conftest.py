"""Releases with labels that formats can stumble over."""

import pyarrow as pa
import pytest

import tallytree as tt

AWKWARD = [
    "=1+1",
    "+2",
    "-3",
    "@SUM(A1)",
    "\tTab",
    "\rReturn",
    '<b onclick="x">&amp;</b>',
    "two\nlines",
    "quote\"s, and 'commas'",
    "\u202eright to left\u202c \u05d0\u05d1",
    "bell\x07",
    "x",
    "X",
    "NA",
    "  spaces  ",
    "http://example.org",
    "007",
    "_x0041_",
    "a'b;--",
]
"""Labels of areas."""


@pytest.fixture(scope="session")
def made():
    """By name, a seeded release of every statistic over awkward labels."""
    rows = pa.table({"re gi/on%": ["A" if i % 2 else "<A>" for i in range(len(AWKWARD))], "town": AWKWARD})
    tree = tt.Hierarchy.from_table(rows, ["re gi/on%", "town"])
    people = pa.table({name: pa.concat_arrays([rows[name].combine_chunks()] * 40) for name in rows.column_names})
    sex = tt.Hierarchy.from_values("sex", ["=f", "m"])
    with_sex = people.append_column("sex", pa.array(["=f", "m"] * (len(people) // 2)))
    ends = {side: [name + side for name in rows.column_names] for side in ("1", "2")}
    trips = pa.table(people.columns + people.take(pa.array(range(len(people)))[::-1]).columns, [*ends["1"], *ends["2"]])
    groups = rows.append_column("size", pa.array([3] * len(rows))).append_column("groups", pa.array([9] * len(rows)))
    counted = people.append_column("person", pa.array([i // 3 for i in range(len(people))]))
    options = {"neighboring": "add_remove", "seed": 1}
    budget = tt.Budget(epsilon=2)
    return {
        "counts": tt.release_counts(people, tree, budget, **options),
        "flows": tt.release_flows(
            trips, origins=tree, destinations=tree, origin=ends["1"], destination=ends["2"], budget=budget, **options
        ),
        "sizes": tt.release_group_sizes(
            groups, tree, budget, size="size", groups="groups", max_group_size=8, **options
        ),
        "tables": tt.release_tables(
            with_sex, tt.Product({"area": tree, "sex": sex}), budget, tables=[("town", "sex"), ("sex",), ()], **options
        ),
        "people": tt.release_counts(
            counted, tree, budget, person="person", max_contributions=2, contributions=0.2, **options
        ),
    }


KINDS = ("counts", "flows", "sizes", "tables", "people")
