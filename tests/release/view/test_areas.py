"""Areas of a product, compared with sets of leaves that are written out."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallytree as tt
from tallytree.release.view.areas import read_areas

TOWNS = tt.Hierarchy.from_table(
    pa.table({"state": ["A", "A", "A", "B", "B"], "town": ["x", "y", "z", "x", "w"]}), ["state", "town"]
)
AGES = tt.Hierarchy.from_table(
    pa.table({"all_ages": ["any"] * 3, "band": ["0", "0", "1"], "age": ["a", "b", "c"]}), ["all_ages", "band", "age"]
)
TREE = tt.Product(
    {"home": TOWNS, "work": TOWNS, "age": AGES},
    order=["work", "age", "home", "age", "work", "home", "age"],
    columns={"home": ["h1", "h2"], "work": ["w1", "w2"]},
)
LEVELS = len(TREE.levels)
LEAVES = TREE.path_table(LEVELS - 1, np.arange(TREE.size(LEVELS - 1))).to_pylist()
SIDES = (("h1", "h2"), ("w1", "w2"), ("all_ages", "band", "age"))


@st.composite
def rows(draw):
    """A row that names each side of some leaf down to a level of its own, at least one of them."""
    leaf = draw(st.sampled_from(LEAVES))
    named = [draw(st.integers(0, len(side))) for side in SIDES]
    if not any(named):
        named[draw(st.integers(0, 2))] = 1
    return {
        name: leaf[name] if i < n else None for side, n in zip(SIDES, named, strict=True) for i, name in enumerate(side)
    }


def leaves_of(row):
    return {i for i, leaf in enumerate(LEAVES) if all(leaf[name] == label for name, label in row.items() if label)}


@pytest.mark.slow
@given(st.lists(rows(), min_size=1, max_size=5), st.data())
def test_areas_have_the_leaves_that_their_rows_name_and_overlaps_are_refused(given_rows, data):
    districts = [data.draw(st.sampled_from("pq")) for _ in given_rows]
    schema = pa.schema([(name, pa.string()) for side in SIDES for name in side])
    table = pa.Table.from_pylist(given_rows, schema).append_column("d", pa.array(districts))
    inside = [leaves_of(row) for row in given_rows]
    overlap = sum(map(len, inside)) > len(set().union(*inside))
    if overlap:
        with pytest.raises(ValueError, match=r"^areas: .* (overlaps another row|is listed twice); no place may"):
            read_areas(TREE, table, "d")
        return
    areas = read_areas(TREE, table, "d")
    expected = [set() for _ in range(len(areas))]
    for district, leaves in zip(districts, inside, strict=True):
        expected[areas.names.to_pylist().index(district)] |= leaves
    assert areas.leaves.tolist() == [len(leaves) for leaves in expected]
    for depth in range(LEVELS):
        nodes = np.arange(TREE.size(depth))
        above = np.arange(len(LEAVES))
        for level in range(LEVELS - 1, depth, -1):
            above = TREE.parents(level, above)
        found = {i: set() for i in range(len(areas))}
        for block in areas.blocks:
            for place, area, _ in zip(*areas.members(block, depth, nodes), strict=True):
                found[area].add(place)
                if depth >= block.depth:
                    assert set(np.flatnonzero(above == place)) <= expected[area]
        assert [found[i] for i in range(len(areas))] == [set(above[sorted(leaves)]) for leaves in expected]
