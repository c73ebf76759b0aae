"""Counts and flows in bands: the same release as in memory, for every cut, and refusals before anything is spent."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.banded import APPROXIMATE, counted, planned, saved
from helpers.inside import ForcedCut
from tallytree.counts import CountsMechanism, LeafGaussian, LeastSquares, StabilityHistogram, TopDown
from tallytree.counts import top_down as measuring
from tallytree.release import level_files, level_tables, released_tables
from tallytree.run import counts_in_bands, make_release, workspace
from tallytree.run.counts_in_bands import chosen_bands

pytestmark = pytest.mark.filterwarnings("ignore:mechanism. LeafGaussian")

GOING_DOWN = (
    TopDown(),
    TopDown(projection="euclidean", sparsity=1.0),
    LeastSquares(),
    LeastSquares(largest_fit=0),
    LeastSquares(largest_fit=6),
    LeastSquares(largest_fit=25),
    LeastSquares(sparsity=2.0),
    LeastSquares(sparsity="auto"),
)
ADDING_UP = (LeafGaussian(), StabilityHistogram())


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", GOING_DOWN + ADDING_UP, ids=repr)
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=counted(),
    cut=st.none() | st.tuples(st.integers(0, 5), st.integers(1, 9), st.sampled_from([1, 7, 10_000])),
    neighboring=st.sampled_from(["add_remove", "change_one"]),
)
def test_the_saved_release_is_the_same_for_every_cut(mechanism, data, cut, neighboring):
    tree, records = data
    options = {"neighboring": neighboring}
    if isinstance(mechanism, StabilityHistogram):
        options["budget"] = APPROXIMATE
    forced = cut and ForcedCut(min(cut[0], max(len(tree.levels) - 2, 0)), *cut[1:])
    # A public bound on the memory of a fit is as large as the tree; that refusal has tests of its own.
    memory = "64GB" if isinstance(mechanism, LeastSquares) else "1MB"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "release"
        whole = saved(make_release(planned(tree, records, mechanism, **options)), out)
        assert (
            saved(make_release(planned(tree, records, mechanism, memory=memory, **options), forced=forced), out)
            == whole
        )


@pytest.mark.parametrize("mechanism", GOING_DOWN + ADDING_UP, ids=repr)
def test_the_saved_release_is_the_same_in_two_bands(areas, mechanism, tmp_path):
    records = areas.leaf_table().take(pa.array([0, 0, 1, 3, 3] * 20))
    options = {"budget": APPROXIMATE} if isinstance(mechanism, StabilityHistogram) else {}
    whole = make_release(planned(areas, records, mechanism, **options))
    part = make_release(planned(areas, records, mechanism, memory="64GB", **options), forced=ForcedCut(1, 2, 2))
    assert saved(part, tmp_path / "part") == saved(whole, tmp_path / "whole")


def test_a_cut_is_chosen_by_memory(areas, tmp_path, monkeypatch):
    found = []

    def spied(*arguments):
        found.append(chosen_bands(*arguments))
        return found[-1]

    monkeypatch.setattr(counts_in_bands, "chosen_bands", spied)
    monkeypatch.setattr(workspace, "BAND_SHARE", 2_000)  # 1 MB / 2,000 is enough for a state with its counties
    records = areas.leaf_table().take(pa.array([0, 0, 1, 3, 3] * 20))
    part = saved(make_release(planned(areas, records, TopDown(), memory="1MB")), tmp_path / "part")
    assert [(cut.depth, list(cut.parts)) for cut in found] == [(1, [slice(0, 1), slice(1, 2)])]
    assert part == saved(make_release(planned(areas, records, TopDown())), tmp_path / "whole")


def test_chunks_of_any_size_make_the_same_files(areas, tmp_path, monkeypatch):
    records = areas.leaf_table().take(pa.array([0, 0, 0, 0, 1, 2, 2, 3, 3, 3] * 9))
    tree = tt.Product({"o": areas, "d": areas}, order=["d", "o"] * 2)
    columns = [name for names in ("o_state", "o_county", "d_state", "d_county") for name in [names]]
    trips = pa.table(dict(zip(columns, [*records.columns, *reversed(records.columns)][:4], strict=True)))
    trips = trips.set_column(2, "d_state", records["state"]).set_column(3, "d_county", records["county"])
    for module, name, value in (
        (level_tables, "ROWS_AT_ONCE", 3),
        (level_files, "ROWS_AT_ONCE", 3),
        (released_tables, "ROWS_AT_ONCE", 3),
        (released_tables, "CELLS_AT_ONCE", 64),
        (level_files, "CELLS_AT_ONCE", 64),
    ):
        monkeypatch.setattr(module, name, value)
    whole = saved(make_release(planned(tree, trips, TopDown())), tmp_path / "whole")
    for cells in (1, 5, 4_000_000):
        monkeypatch.setattr(measuring, "CELLS_AT_ONCE", cells)
        part = make_release(planned(tree, trips, TopDown(), memory="1GB"), forced=ForcedCut(2, 3, 2))
        assert saved(part, tmp_path / "part") == whole


@pytest.mark.parametrize("options", [{}, {"memory": "1GB"}], ids=["in memory", "in bands"])
def test_measurements_that_are_not_kept_change_no_number(areas, options, tmp_path):
    records = areas.leaf_table().take(pa.array([0, 0, 1, 3] * 20))
    kept = make_release(planned(areas, records, TopDown()))
    bare = make_release(planned(areas, records, TopDown(), keep_measurements=False, **options))
    assert all(bare.table(level).equals(kept.table(level)) for level in kept.levels)
    assert bare.statement == {**kept.statement, "measurements_kept": False}
    loaded = tt.Release.load(bare.save(tmp_path / "bare"))
    for release in (bare, loaded):
        with pytest.raises(ValueError, match=r"^measurements: the release was made with keep_measurements=False"):
            release.measurements("county")
    assert tt.replicate_errors(loaded, 10, seed=1).table("county").num_rows == 4


@pytest.mark.parametrize("words", [None, {"record": "trip", "person": "rider"}])
def test_people_by_their_records_are_the_same_in_bands(areas, tmp_path, words):
    rows = [0, 0, 1, 3, 3] * 20
    records = areas.leaf_table().take(pa.array(rows)).append_column("id", pa.array([i // 3 for i in range(100)]))
    options = {"person": "id", "max_contributions": 1, "contributions": 0.2, "words": words}
    whole = make_release(planned(areas, records, TopDown(), **options))
    part = make_release(planned(areas, records, TopDown(), memory="1GB", **options), forced=ForcedCut(1, 2))
    assert saved(part, tmp_path / "a") == saved(whole, tmp_path / "b")


def test_distinct_people_are_the_same_in_bands(areas, tmp_path):
    records = areas.leaf_table().take(pa.array([0, 0, 1, 3, 3] * 20))
    records = records.append_column("id", pa.array([i // 3 for i in range(100)]))
    for mechanism in (TopDown(), LeafGaussian(), LeastSquares(largest_fit=3)):
        options = {"person": "id", "max_contributions": 2, "distinct": True}
        whole = make_release(planned(areas, records, mechanism, **options))
        part = make_release(planned(areas, records, mechanism, memory="1GB", **options), forced=ForcedCut(1, 2))
        assert saved(part, tmp_path / "a") == saved(whole, tmp_path / "b")


WIDE = 100_000


@pytest.fixture(scope="module")
def wide():
    """A hierarchy of 100,000 leaves, whose fit takes 60 MB."""
    return tt.Hierarchy.from_values("leaf", range(WIDE))


@pytest.mark.parametrize(
    ("mechanism", "memory", "message"),
    [
        (LeastSquares(), "10MB", r"^memory: '10MB' is less than the 31MB that this may take; LeastSquares fits up to"),
        (LeastSquares(sparsity=1.0, largest_fit=0), "10MB", r"LeastSquares with a sparsity works on all nodes at once"),
        (LeastSquares(sparsity="auto"), "10MB", r"LeastSquares with a sparsity works on all nodes at once"),
        (None, "29.9MB", r"give more memory, a smaller largest_fit \(what is beyond it is projected as by TopDown\)"),
    ],
)
def test_a_fit_that_does_not_fit_is_refused_before_a_row_is_read(wide, mechanism, memory, message):
    with pytest.raises(ValueError, match=message):
        planned(wide, pa.table({"leaf": [1]}), mechanism, memory=memory)


def test_what_is_beyond_the_largest_fit_needs_no_more_memory(wide):
    planned(wide, pa.table({"leaf": [1]}), LeastSquares(largest_fit=10_000), memory="10MB")


def test_noise_of_opendp_is_refused_with_memory(areas):
    with pytest.raises(ValueError, match=r'^memory: .*noise="opendp" .*kept in memory'):
        planned(areas, pa.table({"state": ["A"], "county": ["x"]}), TopDown(), memory="1GB", noise="opendp", seed=None)


def test_a_mechanism_that_knows_no_bands_is_refused_with_memory(areas):
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Whole(CountsMechanism):
        def statistics(self, tree, *, total_is_public):
            return {tree.levels[-1]: "counts"}

        def reconcile(self, tree, total, measurer):
            raise NotImplementedError

    with pytest.raises(ValueError, match=r"^memory: Whole is code from outside, which works on the whole tree"):
        planned(areas, pa.table({"state": ["A"], "county": ["x"]}), Whole(), memory="1GB")


def test_the_log_says_nothing_of_how_a_run_is_divided(areas, caplog):
    records = areas.leaf_table().take(pa.array([0, 0, 1, 3, 3] * 20))

    def logged(mechanism, forced, **options):
        caplog.clear()
        with caplog.at_level("DEBUG", logger="tallytree"):
            make_release(planned(areas, records, mechanism, memory="1GB", **options), forced=forced)
        return [message for message in caplog.messages if "node" in message or "band" in message]

    for mechanism, options in ((TopDown(), {}), (StabilityHistogram(), {"budget": APPROXIMATE})):
        assert logged(mechanism, ForcedCut(1, 2, 1), **options) == logged(mechanism, ForcedCut(0, 1), **options) == []


def test_a_product_is_warned_of_and_released_where_few_cells_are_not_0():
    sides = {name: tt.Hierarchy.from_values(name, range(400)) for name in ("from", "to")}
    product = tt.Product(sides, order=["from", "to"])
    trips = pa.table({"from": [1] * 900, "to": [2] * 900})
    with pytest.warns(UserWarning, match=r"^memory: '10MB' is less than the 49MB"):
        part = planned(product, trips, LeastSquares(), memory="10MB")
    assert 0 < make_release(part).table("to").num_rows < 100
