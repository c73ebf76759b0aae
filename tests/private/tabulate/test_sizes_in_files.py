"""Group sizes in files: the digest and the statistics of those in memory, and no node with a part of its groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.banded import hierarchies
from helpers.inside import ForcedCut, chosen_cut
from tallytree.private.tabulate.true_sizes import SizesInFiles, TrueSizes

SMALLEST, LARGEST = 0, 6


def groups_of(tree, seed):
    rng = np.random.default_rng(seed)
    leaves = rng.integers(0, tree.n_leaves, 30)
    sizes, groups = rng.integers(SMALLEST, LARGEST + 1, 30), rng.integers(1, 4, 30)
    per_level = [np.bincount(leaves, weights=groups, minlength=tree.n_leaves).astype(np.int64)]
    for depth in range(len(tree.levels) - 1, 0, -1):
        per_level.append(np.add.reduceat(per_level[-1], tree.first_child[depth - 1][:-1]))
    return (leaves, sizes, groups, per_level[::-1], SMALLEST, LARGEST), per_level


@pytest.mark.slow
@settings(max_examples=40)
@given(found=hierarchies(3), seed=st.integers(0, 99), rows=st.sampled_from([1, 3, 1000]), depth=st.integers(0, 2))
def test_every_part_has_the_statistics_of_the_whole(found, seed, rows, depth, tmp_path_factory):
    tree, folder = found[0], tmp_path_factory.mktemp("sizes")
    depth = min(depth, len(tree.levels) - 2)
    arguments, _ = groups_of(tree, seed)
    whole, files = TrueSizes(tree, *arguments), SizesInFiles.of_leaves(tree, *arguments, folder, rows=rows)
    for one, other in ((whole, files), (whole.clamped(4), files.clamped(4))):
        assert other.digest() == one.digest()
        root = tree.levels[0], np.zeros(1, dtype=np.int64), "largest_size"
        assert other.largest_size().cells(*root)[0] == one.largest_size().cells(*root)[0]
        cut = chosen_cut(tree, lambda depth, nodes: nodes, 0, ForcedCut(depth, 2))
        parts = [(other.top(depth), level, np.arange(tree.size(level))) for level in range(depth + 1)]
        for band in cut.bands:
            levels, known = range(depth + 1, len(tree.levels)), other.known(band, other.runs_of_band(band))
            parts += [(known, level, np.arange(*band.span(level))) for level in levels]
        for part, level, nodes in parts:
            for statistic in ("tail_counts", "histogram", "sorted_sizes"):
                found_cells = part.cells(tree.levels[level], nodes, statistic)
                expected = one.cells(tree.levels[level], nodes, statistic)
                assert all(np.array_equal(a, b) for a, b in zip(found_cells, expected, strict=True))


def test_nodes_of_another_part_are_refused(areas, tmp_path):
    arguments, _ = groups_of(areas, 1)
    files = SizesInFiles.of_leaves(areas, *arguments, tmp_path)
    cut = chosen_cut(areas, lambda depth, nodes: nodes, 0, ForcedCut(1, 2))
    band = files.known(cut.bands[1], files.runs_of_band(cut.bands[1]))
    first, stop = cut.bands[1].span(2)
    for nodes in ([first - 1], [first, stop], [-1]):
        with pytest.raises(ValueError, match=r"^nodes: some of the level 'county' are not in the part"):
            band.cells("county", np.array(nodes), "histogram")
    with pytest.raises(ValueError, match=r"^level: 'state' is not in the part"):
        band.cells("state", np.array([0]), "histogram")
    with pytest.raises(ValueError, match=r"^statistic: 'chain_tail_counts' is about all nodes of 'county'"):
        band.cells("county", np.array([first]), "chain_tail_counts")
    assert "private" in repr(files)
    assert "private" in repr(band)
