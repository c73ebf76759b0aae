"""Node numbers from path columns, of hierarchies and products, there and back; and trees saved beside a release."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallytree as tt
from helpers.manifests import rewrite
from tallytree.hierarchy import Hierarchy
from tallytree.product import Product
from tallytree.release import NodeTable, Release
from tallytree.release.view.sides import node_numbers


def hierarchy(leaves, levels=("a", "b")):
    return Hierarchy.from_table(pa.table({name: [leaf[i] for leaf in leaves] for i, name in enumerate(levels)}), levels)


LEAVES = st.lists(st.tuples(st.sampled_from("XYZ"), st.sampled_from("xyz")), min_size=1, max_size=7, unique=True)


@pytest.mark.slow
@given(LEAVES, LEAVES, st.booleans(), st.randoms())
def test_paths_lead_back_to_their_nodes(first, second, without_top, random):
    trees = [hierarchy(first)]
    one_top = hierarchy([("X", label) for label in sorted({leaf[1] for leaf in second})])
    columns = {"o": ["p", "q"], "d": ["r"] if without_top else ["s", "r"]}
    order = ["d", "o", "o"] if without_top else ["o", "d", "o", "d"]
    trees.append(Product({"o": hierarchy(first), "d": one_top}, order=order, columns=columns))
    for tree in trees:
        for depth in range(len(tree.levels)):
            nodes = np.arange(tree.size(depth), dtype=np.int64)
            random.shuffle(nodes)
            for paths in (tree.path_table(depth, nodes), tree.coded_paths(depth, nodes)):
                assert node_numbers(tree, depth, paths, len(nodes)).tolist() == nodes.tolist()


def test_labels_of_a_dictionary_may_repeat_be_unknown_or_null():
    """As other programs make them: another order, labels that no row has, and another dictionary in each chunk."""
    tree = hierarchy([("X", "x"), ("X", "y"), ("Y", "y")])
    first = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), ["Y", "X", "?"])
    second = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), ["?", "X", "Y"])
    a, b = pa.chunked_array([first, second]), pa.array(["x", "y", "x", "x", "y", "z"]).dictionary_encode()
    assert node_numbers(tree, 2, pa.table({"a": a, "b": b}), 6).tolist() == [0, 2, -1, -1, 1, -1]


def test_paths_that_the_tree_does_not_have_lead_nowhere():
    tree = hierarchy([("X", "x"), ("Y", "y")])
    paths = pa.table({"a": ["X", "X", "Y", "?"], "b": ["x", "y", "y", "y"]})
    assert node_numbers(tree, 2, paths, 4).tolist() == [0, -1, 1, -1]
    root = hierarchy([("X", "x"), ("X", "y")])
    assert node_numbers(root, 0, pa.table({"a": ["X", "Y"]}), 2).tolist() == [0, -1]
    assert node_numbers(root, 1, pa.table({"a": ["X", "Y"], "b": ["y", "y"]}), 2).tolist() == [1, -1]
    product = Product({"o": tree, "d": tree}, order=["o", "d", "o", "d"])
    paths = pa.table({"o_a": ["Y", "Y"], "d_a": ["X", "?"]})
    assert node_numbers(product, 2, paths, 2).tolist() == [2, -1]


def saved(tree, folder):
    """A release of no groups over a tree, saved and loaded."""

    def empty(**columns):
        rows = pa.table({name: pa.array([], kind) for name, kind in columns.items()})
        return {level: NodeTable(tree, depth, np.empty(0, np.int64), rows) for depth, level in enumerate(tree.levels)}

    statement = {
        "private": True,
        "seeded": False,
        "statistic": "group_sizes",
        "counted": "groups",
        "mechanism": {"name": "Joint", "options": {}},
        "release": {"id": "8f2e"},
        "levels": [
            {"level": level, "nodes": tree.size(depth), "measured": False} for depth, level in enumerate(tree.levels)
        ],
    }
    tables = empty(size=pa.int64(), groups=pa.int64())
    measured = empty(values=pa.list_(pa.int64()), std_dev=pa.float64())
    return Release.load(Release(statement, {}, tables, measured, tree).save(folder))


def test_a_hierarchy_comes_back_in_its_order(tmp_path):
    tree = hierarchy([("Y", "7"), ("X", "x"), ("Y", "007")])
    back = saved(tree, tmp_path / "out").tree
    assert isinstance(back, Hierarchy)
    assert back.levels == tree.levels
    assert back.leaf_table().equals(tree.leaf_table())


def test_a_product_comes_back_and_a_hierarchy_on_both_sides_is_saved_once(tmp_path):
    tree, other = hierarchy([("Y", "y"), ("X", "x")]), hierarchy([("X", "b"), ("X", "a")])
    columns = {"o": ["oa", "ob"], "d": ["da", "db"], "e/": ["e"]}
    product = Product({"o": tree, "d": tree, "e/": other}, order=["o", "e/", "d", "d", "o"], columns=columns)
    back = saved(product, tmp_path / "out").tree
    assert isinstance(back, Product)
    assert (back.levels, back.order) == (product.levels, product.order)
    assert back.attributes[0].hierarchy is back.attributes[1].hierarchy
    files = sorted(path.name for path in (tmp_path / "out/hierarchies").iterdir())
    assert files == ["e%2F.parquet", "o.parquet"]
    for depth in range(len(product.levels)):
        nodes = np.arange(product.size(depth), dtype=np.int64)
        assert back.path_table(depth, nodes).equals(product.path_table(depth, nodes))


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.pop("kind"),
        lambda tree: tree.update(file="hierarchies/none.parquet"),
        lambda tree: tree.update(levels=["z"]),
        lambda tree: tree.update(kind="product", attributes=[3]),
    ],
)
def test_a_damaged_description_is_refused(tmp_path, change):
    saved(hierarchy([("X", "x")]), tmp_path / "out")
    rewrite(tmp_path / "out", lambda manifest: change(manifest["tree"]))
    with pytest.raises(ValueError, match=r"^folder: .* does not describe its tree as tallytree writes it"):
        tt.Release.load(tmp_path / "out").tree  # noqa: B018


def test_a_changed_hierarchy_file_is_refused(tmp_path):
    saved(hierarchy([("X", "x")]), tmp_path / "out")
    (tmp_path / "out/hierarchies/hierarchy.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"hierarchy.parquet' is missing or was changed"):
        tt.Release.load(tmp_path / "out")
