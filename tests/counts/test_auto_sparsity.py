"""LeastSquares(sparsity="auto"): what it keeps, that dense data are released as without it, and what it says."""

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import KeyedNoise, Measurer, TrueCounts, fitted_errors, machine, plan_noise, sensitivity
from tallytree.counts import listed_errors, sparse_fit, top_down
from tallytree.counts.measured_level import LeftOut, MeasuredLevel
from tallytree.spec import load_spec

AUTO = tt.counts.LeastSquares(sparsity="auto")
NONE = np.empty(0, np.int64)


@pytest.fixture(scope="module")
def deep():
    """A tree of 4,096 leaves, each a path of four digits 0 … 7."""
    digits = np.indices((8, 8, 8, 8)).reshape(4, -1)
    paths = ["".join(map(str, column)) for column in digits.T]
    table = {name: [path[: place + 1] for path in paths] for place, name in enumerate("abcd")}
    return tt.Hierarchy.from_table(pa.table(table), list("abcd"))


def release(tree, counts, seed, mechanism=AUTO, *, epsilon=1, neighboring="change_one", delta=1e-8, **options):
    records = tree.leaf_table().append_column("n", pa.array(counts)).filter(pa.array(counts > 0))
    budget = tt.Budget(epsilon=epsilon, delta=delta) if delta else tt.Budget(epsilon=epsilon)
    return tt.release_counts(
        records, tree, budget, neighboring=neighboring, count="n", mechanism=mechanism, seed=seed, **options
    )


def sparse(share, seed, mean=200, leaves=4096):
    random = np.random.default_rng(seed)
    there = random.random(leaves) < share
    there[0] = True
    return np.where(there, 1 + random.exponential(mean, leaves), 0).astype(np.int64)


def leaves_of(found):
    return found.table(found.levels[-1])["count"].to_numpy()


@pytest.mark.slow
def test_on_sparse_data_few_of_the_published_leaves_are_false(deep):
    """Three releases: less than half of the false discoveries of 0, in sum, and a smaller error at the leaves."""
    false, errors = np.zeros(2), np.zeros(2)
    for seed in range(3):
        counts = sparse(0.01, seed)
        for place, mechanism in enumerate((tt.counts.LeastSquares(), AUTO)):
            found = release(deep, counts, seed, mechanism)
            false[place] += ((leaves_of(found) > 0) & (counts == 0)).sum()
            errors[place] += np.abs(leaves_of(found) - counts).sum()
    assert found.statement["sparsity"]["applied"]
    assert false[1] < false[0] / 2
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.slow
def test_the_statement_says_how_many_leaves_are_not_zero(deep):
    for share in (0.003, 0.01, 0.05):
        counts = sparse(share, 1)
        told = release(deep, counts, 5, epsilon=4).statement["sparsity"]
        assert told["applied"]
        assert told["leaves_not_zero"] == pytest.approx((counts > 0).mean(), rel=0.35)
        assert told["clustering"] < 0.3
        assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize(
    ("neighboring", "epsilon", "delta"),
    [("change_one", 0.1, 1e-8), ("add_remove", 1, 1e-8), ("change_one", 10, 1e-8), ("add_remove", 1, None)],
)
def test_complete_data_are_released_as_without_it(deep, neighboring, epsilon, delta):
    """The same noise, for the noise key does not hold the mechanism's option that is compared: all tables are equal."""
    counts = np.random.default_rng(3).integers(20, 60, 4096)
    found = _reconciled(deep, counts, AUTO, neighboring, epsilon, delta)
    expected = _reconciled(deep, counts, tt.counts.LeastSquares(), neighboring, epsilon, delta)
    for level, other in zip(found[0], expected[0], strict=True):
        np.testing.assert_array_equal(level.nodes, other.nodes)
        np.testing.assert_array_equal(level.counts, other.counts)
        np.testing.assert_array_equal(level.std_dev, other.std_dev)
    assert not found[1]["sparsity"]["applied"]
    assert expected[1] == {}


def _reconciled(tree, counts, mechanism, neighboring, epsilon, delta):
    public = neighboring == "change_one"
    bounds = {
        level: (statistic, sensitivity(statistic, neighboring))
        for level, statistic in mechanism.statistics(tree, total_is_public=public).items()
    }
    budget = tt.Budget(epsilon=epsilon, delta=delta) if delta else tt.Budget(epsilon=epsilon)
    true = TrueCounts(tree, np.arange(len(counts)), counts)
    measurer = Measurer(true, plan_noise(budget, bounds), KeyedNoise(bytes(range(32))))
    return mechanism.reconcile_and_tell(tree, int(counts.sum()) if public else None, measurer)


class SameAnswers:
    """A source whose noise brings the cells of other statistics to the answers that were given before."""

    def __init__(self, answers, true):
        self.answers, self.true = answers, true

    def draw(self, noise, address, cells):
        given = self.answers[address[0]]
        place = np.searchsorted(given.nodes, cells)
        assert (given.nodes[place] == cells).all()
        return given.values[place] - self.true.cells(address[0], cells, address[1])[0]


@pytest.mark.parametrize("share", [0.005, 0.05, 0.5])
def test_equal_measurements_are_released_alike_whatever_the_records_are(deep, share):
    """All nodes are measured once; other records get the same noisy answers, and so the same release and facts."""
    bounds = {
        level: (what, sensitivity(what, "add_remove"))
        for level, what in AUTO.statistics(deep, total_is_public=False).items()
    }
    plan = plan_noise(tt.Budget(epsilon=1), bounds)
    records = [sparse(share, 3), sparse(share, 3) + (np.arange(4096) == 7), np.full(4096, 50), np.arange(4096) % 2]
    true = [TrueCounts(deep, np.flatnonzero(counts), counts[counts > 0]) for counts in records]
    measurer = Measurer(true[0], plan, KeyedNoise(bytes(range(32))))
    answers = {
        level: measurer.measure(level, np.arange(true[0].size(level)), what) for level, (what, _) in bounds.items()
    }
    made = []
    for each, counts in zip(true, records, strict=True):
        TrueCounts(deep, np.flatnonzero(counts), counts[counts > 0])  # whatever was tabulated last
        levels, facts = AUTO.reconcile_and_tell(deep, None, Measurer(each, plan, SameAnswers(answers, each)))
        made.append((json.dumps(facts), [(level.nodes.tolist(), level.counts.tolist()) for level in levels]))
    assert all(one == made[0] for one in made)


@pytest.mark.slow
def test_a_dense_release_knows_its_errors_and_a_sparse_one_does_not(deep):
    dense = release(deep, np.full(4096, 50), 1)
    assert "std_dev" in dense.table("d").column_names
    assert "What sparsity left out" not in tt.replicate_errors(dense, 10, seed=1).statement["errors"]["covers"]
    assert fitted_errors(dense).statement["errors"]["method"] == "fit"
    found = release(deep, sparse(0.01, 2), 1)
    assert "std_dev" not in found.table("d").column_names
    assert "What sparsity left out" in tt.replicate_errors(found, 10, seed=1).statement["errors"]["covers"]


def test_neither_threads_nor_chunks_change_a_release(deep, monkeypatch):
    counts = sparse(0.01, 4)
    whole = release(deep, counts, 9)
    monkeypatch.setattr(top_down, "CELLS_AT_ONCE", 37)
    monkeypatch.setattr(machine, "available_threads", lambda: 1, raising=False)
    again = release(deep, counts, 9)
    for level in whole.levels:
        assert again.table(level).equals(whole.table(level))
    assert again.statement["sparsity"] == whole.statement["sparsity"]


def test_a_sample_estimates_what_all_measurements_estimate(deep, monkeypatch):
    """On a fourth and an eighth of the measurements: 500 leaves have 10 that are not 0, give or take 3."""
    counts = sparse(0.02, 6)
    shares = []
    for size in (2**20, 1_000, 500):
        monkeypatch.setattr(listed_errors, "SAMPLE", size)
        shares.append(release(deep, counts, 2).statement["sparsity"]["leaves_not_zero"])
    assert shares[1] == pytest.approx(shares[0], rel=0.5)
    assert shares[2] == pytest.approx(shares[0], rel=0.9)


@pytest.mark.parametrize("leaves", [1, 2, 3_000])
def test_trees_of_one_level(leaves, monkeypatch):
    tree = tt.Hierarchy.from_values("leaf", range(leaves))
    counts = sparse(0.01, 1, leaves=leaves)
    found = release(tree, counts, 3)
    assert leaves_of(found).sum() == counts.sum()
    monkeypatch.setattr(listed_errors, "SAMPLE", 100)
    release(tree, counts, 3)


def test_no_records_at_all(deep):
    found = release(deep, np.zeros(4096, np.int64), 1)
    assert found.statement["sparsity"] == {
        "applied": False,
        "leaves_not_zero": None,
        "clustering": None,
        "in_dropped": None,
        "counted_there": None,
        "unlisted_below": None,
        "unlisted_at_most": None,
    }
    assert leaves_of(found).sum() == 0
    found = release(tt.Hierarchy.from_values("leaf", ["only"]), np.array([7]), 1, neighboring="add_remove")
    assert found.statement["sparsity"]["applied"] is False


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.booleans(), st.binary(min_size=32, max_size=32))
def test_what_is_released_is_consistent(small_flows, measurer, data, public, key):
    tree, leaves, counts = data.draw(small_flows)
    total = int(counts.sum()) if public else None
    made = AUTO.reconcile(tree, total, measurer(tree, leaves, counts, key, AUTO, public))
    for depth, (above, level) in enumerate(pairwise(made), 1):
        assert (level.counts > 0).all()
        parents = tree.parents(depth, level.nodes)
        sums = dict.fromkeys(above.nodes.tolist(), 0)
        for parent, count in zip(parents.tolist(), level.counts.tolist(), strict=True):
            sums[parent] += count
        assert list(sums.values()) == above.counts.tolist()
    if public:
        assert made[0].counts.sum() == total


def test_what_stands_out_is_kept_whatever_the_mixture_says(deep, monkeypatch):
    """With a mixture that holds nearly everything for 0, what κ = 3.5 keeps is kept, and no more."""
    monkeypatch.setattr(sparse_fit, "LEAST_PROBABILITY", 2.0)
    counts = sparse(0.01, 8)
    mixture = release(deep, counts, 4)
    monkeypatch.setattr(sparse_fit, "SURELY_KEPT", 1e9)
    alone = release(deep, counts, 4)
    assert ((leaves_of(alone) > 0) & (counts > 0)).sum() < 0.5 * ((leaves_of(mixture) > 0) & (counts > 0)).sum()
    assert np.abs(leaves_of(mixture) - counts).max() < np.abs(leaves_of(alone) - counts).max()


def test_left_out_children_follow_their_parents():
    level = MeasuredLevel(
        1,
        np.array([4, 5, 9]),
        np.array([0, 1, 1]),
        np.array([7, 8, 9]),
        1.0,
        np.array([2, 3]),
        np.array([1, 2, 3]),
        LeftOut(np.array([0, 1]), np.array([-3, -5]), np.array([6, 7])),
    )
    kept = level.kept(np.array([False, True, False]), np.array([False, True]))
    # the last node's parent stays, so what was measured of the node is left out now
    assert (kept.left_out.parents.tolist(), kept.left_out.noisy.tolist()) == ([0, 0], [-5, 9])
    assert kept.left_out.nodes.tolist() == [7, 9]
    assert (kept.parents.tolist(), kept.families.tolist()) == ([0], [3])


@pytest.mark.parametrize("given_sparsity", ["Auto", "none", None, [3]])
def test_other_words_are_refused_and_auto_is_named(given_sparsity):
    with pytest.raises(TypeError, match=r'number of standard deviations.*3\.0, or "auto"$'):
        tt.counts.LeastSquares(sparsity=given_sparsity)


def test_top_down_has_no_auto():
    with pytest.raises(TypeError, match=r"sparsity: str .*number of standard deviations.*3\.0$"):
        tt.counts.TopDown(sparsity="auto")


def test_a_spec_can_ask_for_it(deep, tmp_path):
    """The option goes through a spec file and back into the statement and the folder."""
    pq.write_table(deep.leaf_table(), tmp_path / "areas.parquet")
    pq.write_table(deep.leaf_table().slice(0, 200), tmp_path / "people.parquet")
    (tmp_path / "spec.yaml").write_text(
        "statistic: counts\nrecords: people.parquet\nhierarchy: {path: areas.parquet, levels: [a, b, c, d]}\n"
        "budget: {epsilon: 5}\nneighboring: add_remove\nseed: 1\n"
        "mechanism: {name: LeastSquares, options: {sparsity: auto}}\n",
        encoding="utf-8",
    )
    found = load_spec(tmp_path / "spec.yaml").release(tmp_path / "out")
    assert found.statement["mechanism"]["options"]["sparsity"] == "auto"
    assert tt.Release.load(tmp_path / "out").statement["sparsity"] == found.statement["sparsity"]
