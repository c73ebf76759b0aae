"""What every release must keep to, whatever its mechanism. A new mechanism adds a line to MECHANISMS."""

import importlib.util
import itertools

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.cases import few
from helpers.inside import MAX_GROUPS, MAX_RECORDS
from helpers.releases import TABLES, counts, flows, group_sizes, tables
from tallytree.ledger import Ledger
from tallytree.solvers.papers.third_party import PROJECTION_PACKAGES

BLACK_BOXES = [
    (publish, tt.counts.TopDown(projection))
    for publish in (counts, flows)
    for projection, packages in PROJECTION_PACKAGES.items()
    if all(map(importlib.util.find_spec, packages))
]


MECHANISMS = [
    (counts, tt.counts.TopDown()),
    (counts, tt.counts.TopDown(projection="euclidean")),
    (flows, tt.counts.TopDown()),
    (flows, tt.counts.TopDown(sparsity=2)),
    (counts, tt.counts.LeastSquares()),
    (counts, tt.counts.LeastSquares(sparsity=2)),
    (counts, tt.counts.LeastSquares(sparsity="auto")),
    (flows, tt.counts.LeastSquares()),
    (flows, tt.counts.LeastSquares(sparsity=2)),
    (flows, tt.counts.LeastSquares(sparsity="auto")),
    *BLACK_BOXES,
    (group_sizes, tt.sizes.Matching()),
    (group_sizes, tt.sizes.Matching(estimator="sorted", norm=2)),
    (group_sizes, tt.sizes.Matching(estimator="naive", merge="average")),
    (group_sizes, tt.sizes.HistogramProjection()),
    (group_sizes, tt.sizes.CumulativeProjection()),
    (group_sizes, tt.sizes.Chain()),
    (group_sizes, tt.sizes.CensusTopDown()),
    (group_sizes, tt.sizes.Joint()),
    (group_sizes, tt.sizes.BottomUp()),
]


BUDGETS = [tt.Budget(epsilon=0.05), tt.Budget(epsilon=1, delta=1e-6), tt.Budget(rho=0.3)]


CONFORMING = [
    *((case, BUDGETS[1], "add_remove") for case in MECHANISMS),
    *(
        pytest.param(case, budget, neighboring, marks=pytest.mark.slow)
        for case, (budget, neighboring) in itertools.product(
            MECHANISMS, [(BUDGETS[0], "add_remove"), (BUDGETS[1], "change_one"), (BUDGETS[2], "change_one")]
        )
    ),
    # It takes no other budget, and its noise is Laplace.
    *(
        ((publish, tt.counts.StabilityHistogram()), BUDGETS[1], neighboring)
        for publish in (counts, flows)
        for neighboring in ("add_remove", "change_one")
    ),
]
"""Every mechanism with every budget and with both relations, in pairs; `make test` takes what most releases have."""


@pytest.mark.parametrize(("case", "budget", "neighboring"), CONFORMING)
def test_every_mechanism_conforms(areas, case, budget, neighboring):
    publish, mechanism = case
    release = publish(areas, mechanism=mechanism, budget=budget, neighboring=neighboring)
    statement = release.statement
    number = "groups" if publish is group_sizes else "count"
    tables = [release.to_pandas(level) for level in release.levels]
    for above, here in itertools.pairwise(tables):
        assert (here[number] >= 0).all()
        assert here[number].dtype == np.int64
        errors = ("std_dev", "typical_error", "tail_count", "tail_std_dev", "probability_zero", "quality")
        shared = [column for column in above.columns if column not in (number, *errors)]
        if shared:
            summed = here.groupby(shared)[number].sum()
            expected = above.set_index(shared)[number]
            assert summed[summed > 0].to_dict() == expected[expected > 0].to_dict()
        else:
            assert here[number].sum() == above[number].sum()
    assert statement["mechanism"]["name"] == type(mechanism).__name__
    for name, amount in statement["budget"].items():
        assert statement["spent"][name] <= amount
    laplace = budget.kind == "pure" or isinstance(mechanism, tt.counts.StabilityHistogram)
    expected = "discrete_laplace" if laplace else "discrete_gaussian"
    assert {level["noise"]["distribution"] for level in statement["levels"] if level["measured"]} == {expected}


@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
@pytest.mark.parametrize("budget", few(BUDGETS, 1), ids=repr)
@pytest.mark.parametrize("mechanism", [tt.tables.LeastSquares()], ids=repr)
def test_every_mechanism_of_tables_conforms(areas, mechanism, budget, neighboring):
    release = tables(areas, mechanism=mechanism, budget=budget, neighboring=neighboring)
    statement = release.statement
    finest = release.to_pandas("county", "sex")
    assert (finest["count"] >= 0).all()
    for table in TABLES:
        here = release.to_pandas(*table)
        assert here["count"].dtype == np.int64
        shared = [column for column in here.columns if column not in ("count", "std_dev", "typical_error", "quality")]
        expected = finest.groupby(shared)["count"].sum().to_dict() if shared else {0: finest["count"].sum()}
        assert (here.set_index(shared) if shared else here)["count"].to_dict() == expected
    assert statement["mechanism"]["name"] == type(mechanism).__name__
    assert statement["constraint_violations"] == statement["negative_numbers"] == 0
    for name, amount in statement["budget"].items():
        assert statement["spent"][name] <= amount
    expected = "discrete_laplace" if budget.kind == "pure" else "discrete_gaussian"
    assert {level["noise"]["distribution"] for level in statement["levels"] if level["measured"]} == {expected}
    unmeasured = {level["level"] for level in statement["levels"] if not level["measured"]}
    assert unmeasured == ({"all"} if neighboring == "change_one" else set())


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("mechanism", [tt.sizes.Independent(), tt.sizes.MeanConsistency()], ids=repr)
def test_mechanisms_for_comparison_keep_to_the_budget_and_to_public_numbers(areas, mechanism, budget):
    with pytest.warns(UserWarning, match="For comparison only"):
        release = group_sizes(areas, mechanism=mechanism, budget=budget, neighboring="change_one")
    for name, amount in release.statement["budget"].items():
        assert release.statement["spent"][name] <= amount
    tables = [release.to_pandas(level) for level in release.levels]
    assert len({table["groups"].sum() for table in tables}) == 1
    assert {table["groups"].dtype for table in tables} == {
        np.dtype(np.float64 if isinstance(mechanism, tt.sizes.MeanConsistency) else np.int64)
    }


BUDGETS_OF_LARGEST = [tt.Budget(epsilon=1), tt.Budget(epsilon=1e-7), tt.Budget(rho=1)]
LARGEST_SIZES = dict.fromkeys(mechanism for publish, mechanism in MECHANISMS if publish is group_sizes)
LARGEST = [(*LARGEST_SIZES, tt.sizes.Independent(), tt.sizes.MeanConsistency()), BUDGETS_OF_LARGEST]


def paid_or_refused_before(tmp_path, release, *arguments, **options):
    """Release with a ledger; a refusal is one before anything is paid for."""
    tmp_path.mkdir(exist_ok=True)
    ledger = Ledger.create(tmp_path / "ledger.db")
    try:
        release(*arguments, **options, ledger=ledger, dataset="d")
    except ValueError as error:
        assert ledger.entries() == (), error  # noqa: PT017
    else:
        assert [entry.state for entry in ledger.entries()] == ["finished"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:mechanism")
@pytest.mark.parametrize(("mechanism", "budget"), [*itertools.product(*LARGEST)])
@pytest.mark.parametrize("invariants", ["groups", "total", "none"])
def test_the_largest_number_of_groups_is_released_or_refused_before_the_payment(
    areas, mechanism, budget, invariants, tmp_path
):
    rows = pa.table({"state": ["A", "B"], "county": ["x", "x"], "size": [1, 3], "n": [MAX_GROUPS - 5, 5]})
    paid_or_refused_before(
        tmp_path, tt.release_group_sizes, rows, areas, budget, neighboring="add_remove", size="size", groups="n",
        max_group_size=5, mechanism=mechanism, invariants=invariants,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS_OF_LARGEST)
@pytest.mark.parametrize("mechanism", [mechanism for publish, mechanism in MECHANISMS if publish is counts])
def test_the_largest_number_of_records_is_released_or_refused_before_the_payment(areas, mechanism, budget, tmp_path):
    most = mechanism.most or MAX_RECORDS
    for count in (most, most + 1):
        rows = pa.table({"state": ["A", "B"], "county": ["x", "x"], "n": [count - 5, 5]})
        paid_or_refused_before(
            tmp_path / str(count), tt.release_counts, rows, areas, budget, neighboring="change_one", count="n",
            mechanism=mechanism,
        )  # fmt: skip
