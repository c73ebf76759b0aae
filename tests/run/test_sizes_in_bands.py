"""Group sizes in bands: the same release as in memory, for every cut, and refusals before anything is spent."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.banded import hierarchies, saved
from helpers.inside import ForcedCut, SizesArguments, make_release, plan_group_sizes
from tallytree.release import level_files, level_tables, released_tables
from tallytree.sizes import (
    BottomUp,
    CensusTopDown,
    Chain,
    CumulativeProjection,
    HistogramProjection,
    Independent,
    Joint,
    Matching,
    MeanConsistency,
)

IN_BANDS = (Joint(), Matching(), Matching("sorted"), BottomUp())
WHOLE = (CensusTopDown(), Chain(), CumulativeProjection(), HistogramProjection(), Independent(), MeanConsistency())


def rows_of(leaves, seed, groups=40):
    """Rows (leaf, size, groups) of random groups."""
    rng = np.random.default_rng(seed)
    taken = leaves.take(pa.array(rng.integers(0, leaves.num_rows, groups)))
    sizes = np.minimum(rng.geometric(0.3, groups), 12)
    return taken.append_column("size", pa.array(sizes)).append_column("groups", pa.array(rng.integers(1, 5, groups)))


def entities_of(leaves, seed):
    """Rows of members, with the id of their group and of their person."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 30, 90)
    taken = leaves.take(pa.array(group % leaves.num_rows))
    return taken.append_column("group", pa.array(group)).append_column("id", pa.array(rng.integers(0, 40, 90)))


def planned(tree, records, mechanism, **options):
    options = {
        "neighboring": "add_remove",
        "seed": 7,
        "budget": tt.Budget(epsilon=1.0),
        "max_group_size": 10,
    } | options
    if "group" not in options:
        options |= {"size": "size", "groups": "groups"}
    budget = options.pop("budget")
    return plan_group_sizes(SizesArguments(records, tree, budget, mechanism=mechanism, **options))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", IN_BANDS, ids=repr)
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(
    found=hierarchies(3),
    seed=st.integers(0, 99),
    cut=st.none() | st.tuples(st.integers(0, 3), st.integers(1, 9), st.sampled_from([1, 7, 10_000])),
    invariants=st.sampled_from(["groups", "total", "none"]),
)
def test_the_saved_release_is_the_same_for_every_cut(mechanism, found, seed, cut, invariants):
    tree, leaves = found
    if mechanism == Matching("sorted"):
        invariants = "groups"  # sorted sizes need public numbers
    forced = cut and ForcedCut(min(cut[0], max(len(tree.levels) - 2, 0)), *cut[1:])
    records = rows_of(leaves, seed)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "release"
        whole = saved(make_release(planned(tree, records, mechanism, invariants=invariants)), out)
        part = make_release(planned(tree, records, mechanism, invariants=invariants, memory="1MB"), forced=forced)
        assert saved(part, out) == whole


@pytest.mark.parametrize("mechanism", IN_BANDS, ids=repr)
def test_the_saved_release_is_the_same_in_two_bands(areas, mechanism, tmp_path):
    records = rows_of(areas.leaf_table(), 3)
    whole = make_release(planned(areas, records, mechanism))
    part = make_release(planned(areas, records, mechanism, memory="64GB"), forced=ForcedCut(1, 2, 2))
    assert saved(part, tmp_path / "part") == saved(whole, tmp_path / "whole")


@pytest.mark.parametrize("mechanism", [Joint(), Matching()], ids=repr)
def test_a_measured_maximum_and_people_are_the_same_in_bands(areas, mechanism, tmp_path):
    records = entities_of(areas.leaf_table(), 5)
    options = {
        "group": "group",
        "person": "id",
        "max_contributions": 2,
        "contributions": 0.2,
        "words": {"group": "household", "person": "member"},
        "max_group_size": tt.sizes.PrivateMaximum(share=0.1, at_most=20),
    }
    whole = make_release(planned(areas, records, mechanism, **options))
    part = make_release(planned(areas, records, mechanism, memory="1GB", **options), forced=ForcedCut(1, 2, 3))
    assert saved(part, tmp_path / "part") == saved(whole, tmp_path / "whole")


def test_groups_without_members_are_the_same_in_bands(areas, tmp_path):
    leaves = areas.leaf_table()
    listed = leaves.append_column("groups", pa.array([20, 20, 20, 20]))
    options = {"group": "group", "public_groups": listed, "min_group_size": 0}
    whole = make_release(planned(areas, entities_of(leaves, 5), Joint(), **options))
    part = make_release(
        planned(areas, entities_of(leaves, 5), Joint(), memory="1GB", **options), forced=ForcedCut(0, 1, 3)
    )
    assert whole.statement["public_groups_kept"] is True
    assert saved(part, tmp_path / "part") == saved(whole, tmp_path / "whole")


def test_slices_of_any_size_make_the_same_files(areas, tmp_path, monkeypatch):
    for module, name, value in (
        (level_tables, "ROWS_AT_ONCE", 3),
        (level_files, "ROWS_AT_ONCE", 3),
        (released_tables, "ROWS_AT_ONCE", 3),
        (released_tables, "CELLS_AT_ONCE", 64),
        (level_files, "CELLS_AT_ONCE", 64),
    ):
        monkeypatch.setattr(module, name, value)
    records = rows_of(areas.leaf_table(), 4)
    whole = saved(make_release(planned(areas, records, Matching())), tmp_path / "whole")
    part = make_release(planned(areas, records, Matching(), memory="1GB"), forced=ForcedCut(1, 2, 2))
    assert saved(part, tmp_path / "part") == whole


def test_measurements_that_are_not_kept_change_no_number(areas):
    records = rows_of(areas.leaf_table(), 3)
    kept = make_release(planned(areas, records, Joint()))
    bare = make_release(planned(areas, records, Joint(), keep_measurements=False, memory="1GB"), forced=ForcedCut(1, 2))
    assert all(bare.table(level).equals(kept.table(level)) for level in kept.levels)
    assert bare.statement == {**kept.statement, "measurements_kept": False}
    with pytest.raises(ValueError, match=r"^measurements: the release was made with keep_measurements=False"):
        bare.measurements("county")


@pytest.mark.parametrize("mechanism", WHOLE, ids=repr)
def test_a_mechanism_that_knows_no_bands_is_refused_with_memory(areas, mechanism):
    with pytest.raises(ValueError, match=rf"^memory: {type(mechanism).__name__} works on the whole tree in memory;"):
        planned(areas, rows_of(areas.leaf_table(), 3), mechanism, memory="1GB")


def test_noise_of_opendp_is_refused_with_memory(areas):
    with pytest.raises(ValueError, match=r'^memory: with noise="opendp" a cell can be drawn only once'):
        planned(areas, rows_of(areas.leaf_table(), 3), Joint(), memory="1GB", noise="opendp", seed=None)


def test_a_level_that_does_not_fit_is_refused_before_a_row_is_read():
    wide = tt.Hierarchy.from_values("leaf", range(10_000))
    unread = pa.table({"leaf": [1], "size": [1], "groups": [1]})
    with pytest.raises(ValueError, match=r"^memory: '100MB' is less than the 641MB .*at the level"):
        planned(wide, unread, Joint(), memory="100MB", max_group_size=1_000)


def test_more_cells_than_fit_in_memory_are_planned_with_memory():
    regions = np.repeat(np.arange(5_000), 40)
    leaves = pa.table({"region": regions, "leaf": np.arange(200_000)})
    tree = tt.Hierarchy.from_table(leaves, ["region", "leaf"])
    unread = pa.table({"region": [1], "leaf": [41], "size": [1], "groups": [1]})
    with pytest.raises(ValueError, match=r"^max_group_size: .* or give memory="):
        planned(tree, unread, Joint(), max_group_size=30_000)
    planned(tree, unread, Joint(), max_group_size=30_000, memory="64GB")
