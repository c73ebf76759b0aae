"""Tables are compared with brute force: every table of small products, every pair of small neighboring data sets.

A table's cells are written down here once more, from the leaves of each record, and not taken from the library; but
which statistic each table is measured as is the library's own choice.
"""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import TablesArguments, plan_tables, sensitivity

RELATIONS = ("add_remove", "change_one")
STATES = ["A", "A", "B"]
AREAS = tt.Hierarchy.from_table(pa.table({"state": STATES, "county": ["x", "y", "z"]}), ["state", "county"])
SEXES = tt.Hierarchy.from_values("sex", ["f", "m"])
ONE = tt.Hierarchy.from_values("one", ["o"])
PRODUCT = tt.Product({"area": AREAS, "sex": SEXES, "one": ONE})
LEAVES = list(itertools.product(range(3), "fm"))
"""The combinations of leaves: county and sex; the third attribute has one value."""
LABELS = {"state": lambda leaf: STATES[leaf[0]], "county": lambda leaf: leaf[0], "sex": lambda leaf: leaf[1]}
LABELS |= {"one": lambda leaf: "o"}
TABLES = [
    tuple(name for name in chosen if name)
    for chosen in itertools.product(["state", "county", None], ["sex", None], ["one", None])
]


def changes(relation, m, *, distinct):
    """Every change of the numbers of records per combination of leaves that one person can make: (changes, leaves)."""
    choose = itertools.combinations if distinct else itertools.combinations_with_replacement
    ways = {
        tuple(np.bincount(chosen, minlength=len(LEAVES)).tolist())
        for count in range(m + 1)
        for chosen in choose(range(len(LEAVES)), count)
    }
    nothing = (0,) * len(LEAVES)
    pairs = itertools.product(ways, ways if relation == "change_one" else [nothing])
    return np.array([np.subtract(come, go) for go, come in pairs])


def summed(table, records):
    """The table's cells, by its definition: (data sets, cells)."""
    keys = [tuple(LABELS[name](leaf) for name in table) for leaf in LEAVES]
    cells = sorted(set(keys), key=str)
    return records @ np.array([[key == cell for cell in cells] for key in keys], dtype=np.int64)


def planned(table, relation, m, *, distinct):
    """What the library measures a table as; None where it is public."""
    arguments = TablesArguments(
        None, PRODUCT, tt.Budget(rho=1), neighboring=relation, tables=[table], budget_split="even",
        max_contributions=m, person="who" if distinct or m > 1 else None, distinct=distinct,
    )  # fmt: skip
    (level,) = plan_tables(arguments).plan.levels.values()
    return level


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_table_moves_by_exactly_what_is_planned_for_it(relation, distinct, m):
    """A coarser table of distinct combinations may have too few in a cell, and moves by no more."""
    moves = changes(relation, m, distinct=distinct)
    for table in TABLES:
        moved = summed(table, moves)
        if moved.shape[1] == 1 and relation == "change_one" and m == 1 and not distinct:
            continue  # the total is public, and not measured
        level = planned(table, relation, m, distinct=distinct)
        bound = level.sensitivity
        norms = int(np.abs(moved).sum(axis=1).max()), int((moved**2).sum(axis=1).max())
        finest = {"county", "sex"} <= set(table)
        if not distinct or finest:
            assert norms == (bound.l1, bound.l2_squared)
        assert norms[0] <= bound.l1
        assert norms[1] <= bound.l2_squared
        expected = "total" if moved.shape[1] == 1 else "distinct_counts" if distinct and finest else "counts"
        assert level.statistic == expected
        for pattern in bound.shifts:  # of cells by 1
            assert set(pattern) == {1}
            assert np.abs(moved).max() == 1
            assert (moved != 0).sum(axis=1).max() <= len(pattern)
        assert bool(bound.shifts) == (m == 1 or level.statistic == "distinct_counts")


def test_a_replaced_record_moves_two_cells_of_a_table_or_none():
    moves = changes("change_one", 1, distinct=False)
    inside = moves[moves.sum(axis=1) == 0]
    for table in TABLES:
        numbers = Counter((summed(table, inside) != 0).sum(axis=1).tolist())
        assert set(numbers) <= {0, 2}
        assert numbers[0] > 0
        assert (numbers[2] > 0) == (summed(table, inside).shape[1] > 1)
    sexes = inside[(summed(("sex",), inside) != 0).any(axis=1) & ~(summed(("county",), inside) != 0).any(axis=1)]
    assert len(sexes) == 6  # of the same county, to another sex


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_root_of_m_would_be_too_little_for_every_coarser_table(relation, m):
    """Distinct combinations of leaves do not help where a cell holds several of them."""
    moves = changes(relation, m, distinct=True)
    root_of_m = sensitivity("distinct_counts", relation, m).l2_squared
    for table in TABLES:
        moved = summed(table, moves)
        if moved.shape[1] > 1:
            assert ((moved**2).sum(axis=1).max() > root_of_m) == (not {"county", "sex"} <= set(table))


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_hierarchy_with_one_leaf_does_not_make_a_table_coarser(relation):
    both = [planned(table, relation, 3, distinct=True) for table in (("county", "sex"), ("county", "sex", "one"))]
    assert [level.statistic for level in both] == ["distinct_counts"] * 2
    assert planned(("county",), relation, 3, distinct=True).statistic == "counts"
