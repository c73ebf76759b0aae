"""No window of eight draws of noise repeats within a release of more than 2^21 cells at a level, or between two.

Two windows are equal by chance if all eight draws are. A draw of discrete Laplace noise of scale b ≥ 300 has its most
probable value with 1 / (2b) < 2^-9, so that two windows at different places are equal with less than 2^-72, and their
64-bit hashes with less than 2^-62. Of 2^23 windows there are 2^45 pairs: a test fails by chance with 2^-17 or less.
"""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import (
    BandInputs,
    BandWork,
    CountsInFiles,
    ForcedCut,
    LeafCounts,
    Measurer,
    OneByOne,
    PlanBelow,
    chosen_cut,
)
from tallytree.run import (
    CountsArguments,
    SizesArguments,
    TablesArguments,
    plan_counts,
    plan_group_sizes,
    plan_tables,
)
from tallytree.run.order import paid_noise

pytestmark = pytest.mark.slow
WINDOW = 8
LARGE = 2**21
BUDGETS = {"laplace": tt.Budget(epsilon=0.01), "gaussian": tt.Budget(rho=1e-6)}
HASHED_BY = np.random.default_rng(1).integers(0, 2**64, WINDOW, dtype=np.uint64) | np.uint64(1)

AREAS = tt.Hierarchy.from_table(
    pa.table({"state": [f"{i // 100}" for i in range(1_500)], "town": [f"{i}" for i in range(1_500)]}),
    ["state", "town"],
)
YEARS = tt.Hierarchy.from_table(
    pa.table({"band": [f"{i // 10}" for i in range(1_400)], "year": [f"{i}" for i in range(1_400)]}), ["band", "year"]
)
FLOWS = tt.Product({"area": AREAS, "age": YEARS}, order=["area", "age", "area", "age"])
TABLES = [("town", "year"), ("town", "band"), ("state", "year"), ("town",), ("year",), ()]
RECORDS = pa.table({"state": ["0"], "town": ["3"], "band": ["0"], "year": ["7"]})
PUBLIC = AREAS.leaf_table().append_column("groups", pa.array([3] * 1_500))
HOUSEHOLDS = AREAS.leaf_table().append_column("n", pa.array([2] * 1_500)).append_column("g", pa.array([3] * 1_500))


def repeated(parts):
    """How many windows of eight consecutive draws are equal to another one, over all parts."""
    hashes = []
    for part in parts:
        draws = part.astype(np.uint64)
        windows = max(len(draws) - WINDOW + 1, 0)
        hashes.append(sum((draws[i : i + windows] * HASHED_BY[i] for i in range(WINDOW)), np.zeros(windows, np.uint64)))
    every = np.sort(np.concatenate(hashes))
    return int((every[1:] == every[:-1]).sum())


def test_a_window_that_repeats_is_found_and_no_shorter_one():
    random = np.random.default_rng(7)
    parts = [random.integers(-900, 900, length) for length in (3_000, 5, 2_000)]
    assert repeated(parts) == 0
    parts[2][400:407] = parts[0][100:107]
    assert repeated(parts) == 0
    parts[2][400:408] = parts[0][100:108]
    assert repeated(parts) == 1


def measured(planned):
    """The noise of every cell of a planned release, level by level, and of its second release."""
    for _ in range(2 if planned.account is None else 1):
        found = planned.tabulate()
        source = paid_noise(planned, "asked", found.digest()).source
        true = getattr(found, "true", found)
        measurer = Measurer(true, planned.plan, source)
        for level, each in planned.plan.levels.items():
            nodes = np.arange(true.size(level), dtype=np.int64)
            yield measurer.measure(level, nodes, each.statistic).values - true.cells(level, nodes, each.statistic)[0]


def plans(budget, **options):
    """Counts on a product, tables and group sizes: each has a level, or a table, of more than 2^21 cells."""
    terms = {"neighboring": "add_remove"}
    counts = options | terms | ({"run": "counts"} if options else {})
    yield plan_counts(CountsArguments(RECORDS, FLOWS, budget, **counts))
    product = tt.Product({"area": AREAS, "age": YEARS})
    tables = options | terms | ({"run": "tables"} if options else {})
    yield plan_tables(TablesArguments(RECORDS, product, budget, tables=TABLES, **tables))
    sizes = options | terms | ({"run": "sizes"} if options else {})
    given = {"size": "n", "groups": "g", "max_group_size": 1_500, "mechanism": tt.sizes.Matching()}
    yield plan_group_sizes(SizesArguments(HOUSEHOLDS, AREAS, budget, **given, **sizes))


@pytest.mark.parametrize("law", BUDGETS)
@pytest.mark.parametrize("key", ["fresh", "secret"])
def test_no_window_of_noise_repeats(law, key, tmp_path):
    """Over all levels and tables of a release, and in the second one where the key is fresh."""
    options = {}
    if key == "secret":
        options = {"secret": tt.new_secret(tmp_path / "secret"), "ledger": tmp_path / "ledger.db", "dataset": "people"}
    for planned in plans(BUDGETS[law], **options):
        noise = [*measured(planned)]
        assert max(map(len, noise)) > LARGE
        assert min(each.noise.scale for each in planned.plan.levels.values()) >= 300
        assert repeated(noise) == 0


@pytest.mark.parametrize("law", BUDGETS)
def test_no_window_of_noise_repeats_across_bands(law, tmp_path):
    """Over all levels of a tree that is cut into five bands, as the work on bands measures them."""
    planned = plan_counts(CountsArguments(RECORDS, FLOWS, BUDGETS[law], neighboring="add_remove"))
    leaves = LeafCounts((np.arange(1_500), np.zeros(1_500, np.int64)), np.ones(1_500, np.int64))
    true = CountsInFiles(FLOWS, leaves, tmp_path)
    cut = chosen_cut(FLOWS, lambda depth, nodes: nodes, 1, ForcedCut(2, 5))
    source = paid_noise(planned, "asked", true.digest()).source
    noise = []

    def measure_all(known, measurer, nodes_at, depths):
        for depth in depths:
            level, nodes = FLOWS.levels[depth], nodes_at(depth)
            values = measurer.measure(level, nodes, "counts").values
            noise.append(values - known.cells(level, nodes, "counts")[0])

    def every_node(band, measurer, given):
        measure_all(true.known(band, given), measurer, band.nodes_at, range(cut.depth + 1, len(FLOWS.levels)))

    read, top = true.in_bands(cut), true.top(cut.depth)
    work = BandWork(cut, PlanBelow.of(planned.plan, cut), true.known, every_node, frozenset())
    inputs = BandInputs(read, read, source, lambda level: None, lambda measurement: None)
    assert len([*OneByOne().run(work, inputs)]) == 5
    measurer = Measurer(top, planned.plan, source)
    measure_all(top, measurer, lambda depth: np.arange(FLOWS.size(depth)), range(1, cut.depth + 1))
    assert sum(map(len, noise)) > LARGE
    assert repeated(noise) == 0
