"""The numbers of cells, of which noise is a function: no two cells of a level share one, however many there are."""

import numpy as np
import pytest

import tallytree as tt
from helpers.inside import ForcedCut, chosen_cut
from tallytree.private.tabulate.leaf_statistics import LeafCounts, TrueContributions
from tallytree.private.tabulate.true_counts import CountsInFiles, TrueCounts
from tallytree.private.tabulate.true_sizes import TrueSizes
from tallytree.private.tabulate.true_tables import TrueTables
from tallytree.sizes import SizesDomain
from tallytree.tables.layout import TableLayout, tables_of

TOWNS = tt.Hierarchy.from_values("town", [str(number) for number in range(1_100)])
YEARS = tt.Hierarchy.from_values("year", [str(number) for number in range(1_000)])
FLOWS = tt.Product({"town": TOWNS, "year": YEARS}, order=["town", "year"])
NOBODY = LeafCounts((np.empty(0, np.int64), np.empty(0, np.int64)), np.empty(0, np.int64))
MANY = 2**20


def counts():
    return TrueCounts(FLOWS, np.empty(0, np.int64), np.empty(0, np.int64)), "year", "counts"


def tables():
    product = tt.Product({"town": TOWNS, "year": YEARS})
    layout = TableLayout(product, tables_of(product, [("town", "year")], "tables"), 1)
    return TrueTables(layout, NOBODY, {"town.year": "counts"}), "town.year", "counts"


def sizes(statistic):
    groups = np.full(1_100, 1_000)
    domain = SizesDomain.from_leaves(TOWNS, groups, 0, 1_000)
    return TrueSizes(TOWNS, np.arange(1_100), groups, groups, domain.groups, 0, 1_000), "town", statistic


def people():
    bins = [(number, number) for number in range(1, MANY + 50)]
    return TrueContributions("all", bins, np.zeros(MANY + 49, np.int64)), "all", "contributions"


LARGE = {
    "counts": counts,
    "tables": tables,
    **{name: (lambda name=name: sizes(name)) for name in ("tail_counts", "histogram", "sorted_sizes")},
    "people": people,
}


@pytest.mark.parametrize("name", LARGE)
def test_no_two_cells_of_a_level_share_a_number(name):
    true, level, statistic = LARGE[name]()
    _, offsets, numbers = true.cells(level, np.arange(true.size(level)), statistic)
    assert len(numbers) == offsets[-1] > MANY
    assert len(np.unique(numbers)) == len(numbers)
    assert numbers.min() >= 0


def test_nor_do_cells_of_two_bands(tmp_path):
    true = CountsInFiles(FLOWS, NOBODY, tmp_path)
    cut = chosen_cut(FLOWS, lambda depth, nodes: nodes, 1, ForcedCut(1, 3))
    read = true.in_bands(cut)
    numbers = []
    for number, band in enumerate(cut.bands):
        numbers.append(true.known(band, read(number)).cells("year", band.nodes_at(2), "counts")[2])
    assert len(np.unique(np.concatenate(numbers))) == FLOWS.size(2) > MANY
