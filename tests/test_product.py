import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt

WIDE = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "B"], "c": ["x", "y", "x"]}), ["s", "c"])
DEEP = tt.Hierarchy.from_table(
    pa.table({"country": ["N"] * 3, "p": ["1", "1", "2"], "t": ["i", "j", "k"]}), ["country", "p", "t"]
)


def descend(product):
    nodes = np.zeros(1, dtype=np.int64)
    for depth in range(len(product.levels)):
        yield depth, nodes
        if depth + 1 < len(product.levels):
            nodes, _ = product.children(depth, nodes)


def test_a_destination_tree_refines_in_turn_and_the_longer_side_alone():
    product = tt.Product({"origin": WIDE, "destination": DEEP}, order=["destination", "origin"] * 2 + ["destination"])
    assert product.levels == (
        "all",
        "country",
        "s",
        "p",
        "c",
        "t",
    )
    assert [product.size(depth) for depth in range(6)] == [1, 1, 2, 4, 6, 9]
    assert product.only_children(1)


def test_a_single_valued_top_column_may_be_left_out():
    product = tt.Product({"o": DEEP}, order=["o", "o"], columns={"o": ["p", "t"]})
    assert product.levels == ("all", "p", "t")
    assert product.path_table(2, np.arange(3)).to_pydict() == {"p": ["1", "1", "2"], "t": ["i", "j", "k"]}


ONE = tt.Hierarchy.from_table(pa.table({"C": ["x", "y"]}), ["C"])
ALL = tt.Hierarchy.from_table(pa.table({"All": ["N", "N"], "t": ["i", "j"]}), ["All", "t"])


@pytest.mark.parametrize(
    ("hierarchies", "columns", "named"),
    [
        ({"o": WIDE, "d": DEEP}, {}, {"o": ("s", "c"), "d": ("country", "p", "t")}),
        ({"o": WIDE, "d": WIDE, "e": DEEP}, {}, {"o": ("o_s", "o_c"), "d": ("d_s", "d_c"), "e": ("country", "p", "t")}),
        ({"o": WIDE, "d": ONE}, {}, {"o": ("o_s", "o_c"), "d": ("d_C",)}),  # capitals do not count
        ({"o": ALL}, {}, {"o": ("o_All", "o_t")}),  # the root of a product is "all"
        ({"o": WIDE, "d": WIDE}, {"d": ["x", "y"]}, {"o": ("s", "c"), "d": ("x", "y")}),
        ({"o": WIDE, "d": WIDE}, {"d": ["x", "c"]}, {"o": ("o_s", "o_c"), "d": ("x", "c")}),
    ],
)
def test_an_attribute_has_the_names_of_its_levels_where_they_are_unambiguous(hierarchies, columns, named):
    order = [name for name, tree in hierarchies.items() for _ in tree.columns]
    for pairs in (list(hierarchies.items()), list(hierarchies.items())[::-1]):
        product = tt.Product(dict(pairs), order=order, columns=columns)
        assert {attribute.name: attribute.columns for attribute in product.attributes} == named


def test_a_prefixed_name_that_another_attribute_has_makes_that_one_ambiguous_too():
    taken = tt.Hierarchy.from_table(pa.table({"o_s": ["x", "y"]}), ["o_s"])
    product = tt.Product({"d": WIDE, "o": WIDE, "e": taken}, order=["d", "d", "o", "o", "e"])
    assert product.levels == ("all", "d_s", "d_c", "o_s", "o_c", "e_o_s")
    with pytest.raises(ValueError, match=r"columns\['e'\]: 'o_s' is a column of the attribute 'o' too"):
        tt.Product({"d": WIDE, "o": WIDE, "e": taken}, order=["d", "d", "o", "o", "e"], columns={"e": ["o_s"]})


@settings(max_examples=30)
@given(st.permutations(["o"] * 2 + ["d"] * 3))
def test_in_any_order_the_descent_meets_every_cell_once(order):
    product = tt.Product({"o": WIDE, "d": DEEP}, order=order)
    for depth, nodes in descend(product):
        assert sorted(nodes.tolist()) == list(range(product.size(depth)))
        paths = product.path_table(depth, nodes).to_pylist()
        assert len({tuple(path.values()) for path in paths}) == product.size(depth) or depth == 0
        if depth:
            above = product.parents(depth, nodes)
            columns = product.path_columns(depth - 1)
            parents = product.path_table(depth - 1, above).to_pylist()
            assert [{c: path[c] for c in columns} for path in paths] == parents or not columns


def test_leaves_are_numbered_by_their_parts():
    product = tt.Product({"o": WIDE, "d": DEEP}, order=["o", "d", "o", "d", "d"])
    pairs = list(itertools.product(range(3), range(3)))
    numbers = product.leaf_numbers([np.array([o for o, _ in pairs]), np.array([d for _, d in pairs])])
    table = product.path_table(5, numbers)
    assert table.column("c").to_pylist() == [["x", "y", "x"][o] for o, _ in pairs]
    assert table.column("t").to_pylist() == [["i", "j", "k"][d] for _, d in pairs]


def test_a_hundred_thousand_million_cells_take_no_memory():
    n = 400_000
    sections = tt.Hierarchy.from_table(pa.table({"section": [str(i) for i in range(n)]}), ["section"])
    product = tt.Product({"o": sections, "d": sections}, order=["d", "o"])
    assert product.size(2) == n * n
    last = np.array([n * n - 1])
    assert product.path_table(2, last).to_pylist() == [{"o_section": str(n - 1), "d_section": str(n - 1)}]


@pytest.mark.parametrize(
    ("order", "columns", "message"),
    [
        (["o", "d", "d", "d"], None, "'o' is refined 1 times but has 2 columns"),
        (["o", "o", "o", "d", "d", "d"], None, "'o' is refined 3 times"),
        (["o", "x"], None, "'x' is not an attribute; the attributes are o, d"),
        (["d", "d", "d"], None, "'o' is refined 0 times but has 2 columns; name it 2 times"),
        (
            ["o", "o", "d", "d", "d"],
            {"o": ["a"]},
            "columns\\['o'\\]: it names 1 columns, but its hierarchy has the levels s, c",
        ),
        (["o", "o", "d", "d", "d"], {"o": ["a", "a"]}, "columns\\['o'\\]: the names 1 and 2 of the list are the same"),
        (
            ["o", "o", "d", "d", "d"],
            {"o": ["a", "b"], "d": ["A", "q", "r"]},
            "columns\\['o'\\]: 'a' is a column of the attribute 'd' too \\(capitals do not count\\); give each",
        ),
        (
            ["o", "o", "d", "d", "d"],
            {"o": ["All", "b"]},
            "columns\\['o'\\]: 'All' is the name of the root of a product",
        ),
        (
            ["o", "o", "d", "d", "d"],
            {"o": ["size", "b"]},
            "columns\\['o'\\]: 'size' is a column of the published tables",
        ),
        (["o", "o", "d", "d", "d"], {"x": ["a", "b"]}, "columns: 'x' is not an attribute"),
    ],
)
def test_an_order_or_columns_that_do_not_fit_are_refused(order, columns, message):
    with pytest.raises(ValueError, match=message):
        tt.Product({"o": WIDE, "d": DEEP}, order=order, columns=columns)


def test_what_is_no_hierarchy_is_refused():
    with pytest.raises(TypeError, match=r"str is not a tallytree\.Hierarchy"):
        tt.Product({"o": "WIDE"}, order=["o"])
    with pytest.raises(ValueError, match="at least one hierarchy"):
        tt.Product({}, order=[])
    with pytest.raises(TypeError, match="must be a list of attribute names"):
        tt.Product({"o": WIDE}, order="oo")
    with pytest.raises(TypeError, match="must be a list of column names"):
        tt.Product({"o": WIDE}, order=["o", "o"], columns={"o": "ab"})
    with pytest.raises(TypeError, match=r"columns\['o'\]: it must be a list of column names"):
        tt.Product({"o": WIDE, "d": WIDE}, order=["o", "o", "d", "d"], columns={"o": [1, 2]})
    with pytest.raises(TypeError, match="hierarchies: list must be a mapping from attributes to hierarchies"):
        tt.Product([WIDE], order=["o", "o"])
    with pytest.raises(TypeError, match="columns: list must be a mapping from attributes to lists"):
        tt.Product({"o": WIDE}, order=["o", "o"], columns=["a", "b"])
    with pytest.raises(TypeError, match="order: 3 must be a list of attribute names"):
        tt.Product({"o": WIDE}, order=3)
    with pytest.raises(ValueError, match="order: 'd' is not an attribute; the attributes are o"):
        tt.Product({"o": WIDE}, order=["o", "d", "o"])


def test_more_cells_than_64_bits_number_are_refused():
    many = tt.Hierarchy.from_table(pa.table({"i": [str(i) for i in range(100_000)]}), ["i"])
    with pytest.raises(ValueError, match="more than 64 bits number"):
        tt.Product(dict.fromkeys("abcd", many), order=list("abcd"))


def test_counts_on_a_chain_warn_of_the_tables_that_are_not_on_it():
    towns, sexes = (tt.Hierarchy.from_values(name, ["A", "B"]) for name in ("town", "sex"))
    chain = tt.Product({"town": towns, "sex": sexes}, order=["town", "sex"])
    records = pa.table({"town": ["A"], "sex": ["B"]})
    with pytest.warns(UserWarning, match=r"^hierarchy: .*all > town > sex .*tallytree.release_tables"):
        tt.release_counts(records, chain, tt.Budget(epsilon=1), neighboring="add_remove")
