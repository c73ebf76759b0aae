"""True counts in files: the digest and the cells of those in memory; of other nodes than a band's nothing."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.banded import counted
from helpers.inside import CountRecords, CountsInFiles, ForcedCut, LeafCounts, LeafKey, TrueCounts, chosen_cut
from tallytree.engines import Local


def found_in(tree, records):
    """What the engine finds, and the true counts in memory."""
    if isinstance(tree, tt.Hierarchy):
        found = Local(threads=1).tabulate(records, CountRecords((LeafKey(tree, tree.columns),)))
        return found, TrueCounts(tree, found.parts[0], found.counts)
    keys = tuple(LeafKey(side.hierarchy, side.columns) for side in tree.attributes)
    found = Local(threads=1).tabulate(records, CountRecords(keys))
    return found, TrueCounts(tree, tree.leaf_numbers(found.parts), found.counts)


def cut_of(tree, depth, bands):
    return chosen_cut(tree, lambda depth, nodes: nodes, 1, ForcedCut(depth, bands))


def reader(filed, cut):
    """From the number of a band to what is known of it."""
    leaves = filed.in_bands(cut)
    return lambda number: filed.known(cut.bands[number], leaves(number))


@pytest.mark.slow
@given(counted(), st.integers(0, 5), st.integers(1, 5), st.integers(1, 50))
@settings(max_examples=25)
def test_files_hold_what_memory_holds(data, depth, bands, rows):
    tree, records = data
    found, true = found_in(tree, records)
    depth, last = min(depth, max(len(tree.levels) - 2, 0)), len(tree.levels) - 1
    with TemporaryDirectory() as folder:
        filed = CountsInFiles(tree, found, Path(folder), rows=rows)
        assert filed.digest() == true.digest()
        assert filed.total == true.total
        cut = cut_of(tree, depth, bands)
        read = reader(filed, cut)
        top, root = filed.top(depth), tree.levels[0]
        for above in range(depth + 1):
            level, nodes = tree.levels[above], np.arange(tree.size(above))
            statistic = "total" if level == root else "counts"
            assert np.array_equal(top.cells(level, nodes, statistic)[0], true.cells(level, nodes, statistic)[0])
        for number, band in enumerate(cut.bands):
            known = read(number)
            for below in range(depth + 1, last + 1):
                level, nodes = tree.levels[below], band.nodes_at(below)
                cells = known.cells(level, nodes, "counts"), true.cells(level, nodes, "counts")
                for some, expected in zip(*cells, strict=True):
                    assert np.array_equal(some, expected)
        blocks = [known.present(tree.levels[-1]) for _, _, known in filed.leaf_blocks()]
        for some, expected in zip(zip(*blocks, strict=True), true.present(tree.levels[-1]), strict=True):
            assert np.array_equal(np.concatenate(some), expected)


@pytest.fixture
def filed(areas, tmp_path):
    found = LeafCounts((np.array([0, 3]),), np.array([5, 7]))
    return CountsInFiles(areas, found, tmp_path, rows=1)


def test_a_band_knows_nothing_of_other_nodes(areas, filed):
    read = reader(filed, cut_of(areas, 1, 2))
    assert read(0).cells("county", np.array([0, 1, 2]), "counts")[0].tolist() == [5, 0, 0]
    for nodes in ([3], [0, 3], [2, 3]):
        with pytest.raises(ValueError, match="are not in the part that is worked on"):
            read(0).cells("county", np.array(nodes), "counts")
    for level, statistic in (("state", "counts"), ("all", "total")):
        with pytest.raises(ValueError, match="is not in the part that is worked on"):
            read(0).cells(level, np.array([0]), statistic)
    with pytest.raises(ValueError, match="is not in the part that is worked on"):
        read(0).present("state")


def test_a_band_of_a_product_knows_nothing_of_other_cells(areas, tmp_path):
    tree = tt.Product({"o": areas, "d": areas}, order=["d", "o"] * 2)
    leaves = np.arange(16)
    filed = CountsInFiles(tree, LeafCounts(tuple(np.divmod(leaves, 4)), leaves + 1), tmp_path)
    cut = cut_of(tree, 2, 3)
    read, leaf = reader(filed, cut), tree.levels[-1]
    inside = cut.bands[1].nodes_at(4)
    assert read(1).cells(leaf, inside, "counts")[0].tolist() == (inside + 1).tolist()
    for outside in np.setdiff1d(leaves, inside):
        with pytest.raises(ValueError, match="are not in the part that is worked on"):
            read(1).cells(leaf, np.array([inside[0], outside]), "counts")


def test_a_block_of_leaves_knows_nothing_of_other_leaves(filed):
    (first, stop, block), (begin, end, _) = filed.leaf_blocks()
    assert (first, stop, begin, end) == (0, 1, 1, 4)
    with pytest.raises(ValueError, match="are not in the part that is worked on"):
        block.cells("county", np.array([0, 1]), "counts")


def test_nothing_private_is_shown(filed, areas):
    read = reader(filed, cut_of(areas, 1, 2))
    assert [repr(filed), repr(read(0))] == ["CountsInFiles(<private>)", "CountsOfSome(<private>)"]


def test_another_statistic_is_refused(areas, filed):
    with pytest.raises(ValueError, match="is not the count of the level"):
        filed.top(1).cells("state", np.array([0]), "histogram")
