"""Each line of the page "Published algorithms, and the exact call" is released, and is what the line says."""

import dataclasses
import re
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import tallytree as tt

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "algorithms.md"
ROW = re.compile(r"^\| (.+?) \| `(tt\.\w+\.\w+\(.*?\))` \| (?:`(.*?)` )?\| (\S+) \|$", re.MULTILINE)
SIZES, COUNTS, TABLES = (
    [row[1:] for row in ROW.findall(part)]
    for part in re.split("^## (?:Counts|Tables)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
)
TREE = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "z"]})
EPSILON, NODES = 9.0, {"all": 1, "state": 2, "county": 3}  # with little noise the paper's constraint programs are few
SCALES = {
    "L/ε": lambda levels, _: levels / EPSILON,
    "L/(0.9999·ε)": lambda levels, _: levels / (0.9999 * EPSILON),
    "2L/ε": lambda levels, _: 2 * levels / EPSILON,
    "1/ε": lambda _levels, _: 1 / EPSILON,
    "L·n/ε": lambda levels, nodes: levels * nodes / EPSILON,
}


def marked(rows):
    needed = {"relaxed": "cvxpy", "cvxpy-": "cvxpy", "mip": "pyscipopt", "constraint_program": "ortools"}
    return [
        pytest.param(
            *row, marks=[pytest.mark.needs(package) for name, package in needed.items() if f'="{name}' in row[0]]
        )
        for row in rows
    ]


def released(function, records, budget, call, more, **options):
    mechanism = eval(call, {"tt": tt})  # noqa: S307 (the page's own code)
    tree = tt.Hierarchy.from_table(TREE, levels=["state", "county"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some lines are for comparison only, and warn
        given = eval(f"dict({more})", {"tt": tt})  # noqa: S307 (the page's own arguments)
        statement = function(records, tree, budget, mechanism=mechanism, seed=1, **(options | given)).statement
    assert statement["mechanism"]["name"] == type(mechanism).__name__
    for field in dataclasses.fields(mechanism):
        assert statement["mechanism"]["options"][field.name] == getattr(mechanism, field.name)
    return statement


def flows(trips, areas, budget, **options):
    return tt.release_flows(trips, origins=areas, destinations=areas, budget=budget, **options)


def test_the_page_has_the_algorithms_of_the_papers():
    assert len(SIZES) == 23
    assert len(COUNTS) == 11
    assert len(TABLES) == 3


@pytest.mark.parametrize(("call", "more", "scale"), marked(SIZES))
def test_a_line_on_group_sizes_is_what_it_says(call, more, scale):
    groups = pa.concat_tables(
        [TREE.append_column("size", [[s] * 3]).append_column("groups", [[4] * 3]) for s in (1, 2)]
    )
    budget = tt.Budget(epsilon=EPSILON)
    options = {"neighboring": "add_remove", "size": "size", "groups": "groups", "max_group_size": 3}
    statement = released(tt.release_group_sizes, groups, budget, call, more, **options)
    measured = [level for level in statement["levels"] if level["measured"]]
    expected = [SCALES[scale](len(measured), NODES[level["level"]]) for level in measured]
    assert [level["noise"]["scale"] for level in measured] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("call", "more", "accounting"), marked(COUNTS))
def test_a_line_on_counts_is_what_it_says(call, more, accounting):
    budget = tt.Budget(epsilon=0.5, delta=1e-6)
    counted = TREE.append_column("n", [[90, 100, 110]])
    options = {"neighboring": "change_one", "count": "n"}
    if "person=" in more:
        counted = counted.append_column("id", [["a", "b", "c"]])
    if "tree=" in more:
        counted = counted.append_column("to_state", [["A", "B", "B"]]).append_column("to_county", [["y", "z", "z"]])
        options |= {"origin": ["state", "county"], "destination": ["to_state", "to_county"]}
    statement = released(flows if "tree=" in more else tt.release_counts, counted, budget, call, more, **options)
    assert statement["accounting"] == accounting


@pytest.mark.parametrize(("call", "more", "number"), TABLES)
def test_a_line_on_tables_is_what_it_says(call, more, number):
    made = []

    def tables(records, tree, budget, **options):
        product = tt.Product({"area": tree, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
        made.append(tt.release_tables(records, product, budget, tables=[("county", "sex")], **options))
        return made[0]

    people = TREE.append_column("sex", [["f", "m", "m"]]).append_column("n", [[90, 100, 110]])
    budget = tt.Budget(epsilon=0.5, delta=1e-6)
    released(tables, people, budget, call, more, neighboring="add_remove", count="n")
    assert number.strip("`") in made[0].table("county", "sex", unbiased=True).column_names
