"""How tables are named, and how their cells are numbered."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.tables.layout import Table, TableLayout, levels_of, table_of, tables_of

AREAS = tt.Hierarchy.from_table(
    pa.table({"country": ["C"] * 4, "state": ["A", "A", "B", "B"], "county": ["x", "y", "x", "z"]}),
    ["country", "state", "county"],
)
AGES = tt.Hierarchy.from_table(pa.table({"band": ["a", "a", "b"], "year": [0, 1, 2]}), ["band", "year"])
SEXES = tt.Hierarchy.from_values("sex", ["f", "m"])
PEOPLE = tt.Product({"area": AREAS, "age": AGES, "sex": SEXES})
EVERY = list(itertools.product(["country", "state", "county"], ["band", "year", None], ["sex", None]))


def every_table():
    """All tables with cells of their own."""
    names = [tuple(name for name in each if name) for each in EVERY]
    return tables_of(PEOPLE, names, "tables")


def test_names_are_in_the_order_of_the_hierarchies():
    table = table_of(PEOPLE, ("sex", "county"), "tables")
    assert table == Table(("county", "sex"), (3, 0, 1)) == table_of(PEOPLE, " sex, county", "tables")
    assert table.name == "county.sex"
    assert table_of(PEOPLE, (), "tables").name == "all"
    dotted = Table(("a.b", "50%"), (1, 1))
    assert dotted.name == "a%2Eb.50%25"
    assert levels_of(dotted.name) == dotted.levels
    assert levels_of("all") == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "tables: it is empty; name at least one table"),
        ("county", "tables: str must be a list of tables"),
        ([3], "tables: 3 must be a tuple of level names"),
        ([(3,)], "tables: 3 must be the name of a level"),
        ([("village",)], "tables: 'village' is not a level; the levels are country, state, county, band, year, sex"),
        ([("county", "state")], "tables: 'county' and 'state' are levels of one hierarchy; name one of them"),
        ([("sex", "sex")], "tables: 'sex' is named twice in one table"),
        ([("sex",), ("state", "sex"), ("sex", "state")], r"tables: \(state, sex\) is listed twice"),
        ([("country",), ()], r"tables: \(country\) and \(total\) have the same cells; name one of them"),
        ([("all",)], "tables: 'all' is no level; name the table 'total' alone, for the total"),
        ([()] * 1001, "tables: 1001 tables are more than 1000"),
    ],
)
def test_tables_that_cannot_be_are_refused(given, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        tables_of(PEOPLE, given, "tables")


def test_a_name_of_two_hierarchies_is_ambiguous():
    places = tt.Hierarchy.from_table(pa.table({"state": ["A", "B"]}), ["state"])
    births = tt.Product({"home": AREAS, "birth": places})
    with pytest.raises(ValueError, match=r"'state' is a level of several .*write one of home_state"):
        table_of(births, ("state",), "tables")
    assert table_of(births, ("home_county", "birth_state"), "tables").refined == (3, 1)


def test_every_table_is_a_sum_of_the_finest_one():
    """The cells of a table, counted leaf by leaf, are those of its area and marginal; paths name them."""
    layout = TableLayout(PEOPLE, every_table(), 1)
    finest = layout.levels.index("county.year.sex")
    assert layout.is_finest(finest)
    assert not any(layout.is_finest(i) for i in range(len(layout.levels)) if i != finest)
    leaves = [np.repeat(np.arange(4), 6), np.tile(np.repeat(np.arange(3), 2), 4), np.tile(np.arange(2), 12)]
    detail = np.arange(24).reshape(4, 6) ** 2
    assert layout.detail.cells == 6
    np.testing.assert_array_equal(layout.detail_cells(leaves), np.arange(24))
    assert [len(offsets) - 1 for offsets in layout.families] == [1, 2]
    for depth in range(len(layout.levels)):
        cells = np.array([layout.summed(np.eye(24)[i].reshape(4, 6), depth).ravel().argmax() for i in range(24)])
        summed = np.bincount(cells, detail.ravel(), layout.size(depth))
        np.testing.assert_array_equal(layout.summed(detail, depth).ravel(), summed)
        assert layout.summed(detail, depth).shape == (layout.areas(depth), layout.width(depth))
        paths = layout.path_table(depth, cells).to_pydict()
        assert tuple(paths) == layout.path_columns(depth)
        truth = {"country": ["C"] * 24, "sex": [["f", "m"][i] for i in leaves[2]], "year": [str(i) for i in leaves[1]],
                 "band": ["aab"[i] for i in leaves[1]], "state": ["AABB"[i] for i in leaves[0]],
                 "county": ["xyxz"[i] for i in leaves[0]]}  # fmt: skip
        assert paths == {name: truth[name] for name in paths}


def test_levels_that_no_table_names_are_left_out():
    layout = TableLayout(PEOPLE, tables_of(PEOPLE, [("county", "sex"), ("band",)], "tables"), 2)
    assert [len(offsets) - 1 for offsets in layout.families] == [1]
    assert layout.detail.sizes == (2, 2)
    assert TableLayout(PEOPLE, layout.tables, 2, areas_at=2).area_level_at(2) == 1
    assert repr(layout) == "Tables(county.sex: 8, band: 2)"


def test_too_many_combinations_or_cells_are_refused():
    many = tt.Hierarchy.from_values("first", list(range(300)))
    other = tt.Hierarchy.from_values("other", list(range(300)))
    product = tt.Product({"area": AREAS, "a": many, "b": other})
    with pytest.raises(ValueError, match=r"^tables: their attributes have 90,000 combinations, more than 65,536"):
        TableLayout(product, tables_of(product, [("first", "other")], "tables"), 1)
    streets = tt.Hierarchy.from_values("street", list(range(200_000)))
    product = tt.Product({"area": streets, "a": tt.Hierarchy.from_values("first", list(range(60_000)))})
    with pytest.raises(ValueError, match=r"^tables: their areas .*12,000,000,000 cells"):
        TableLayout(product, tables_of(product, [("street", "first")], "tables"), 1)
