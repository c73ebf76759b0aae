"""The generators of group sizes at full size: the papers' totals, and tables that can be released."""

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from tallytree.datasets.group_sizes import LAST_HOUSEHOLD, count_rows, household_weights
from tallytree.datasets.united_states import STATES, numbers, state_of_county

import tallytree as tt
from helpers.cases import few
from tallytree.datasets import fioretto, kuo

GENERATORS = {
    "census_like": fioretto.census_like,
    "taxi_like": fioretto.taxi_like,
    "pickups_by_taxi": fioretto.pickups_by_taxi,
    "housing": kuo.housing,
    "white": kuo.white,
    "hawaiian": kuo.hawaiian,
    "taxi": kuo.taxi,
}
OF_THE_STATES = ("census_like", "housing", "white", "hawaiian")


@cache
def data(name):
    return GENERATORS[name]()


def histogram(groups):
    """Groups by size, over all leaves."""
    return np.bincount(groups.rows["size"].to_numpy(), groups.rows["groups"].to_numpy()).astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "groups", "members"),
    [
        ("census_like", 117_630_445, pytest.approx(305_276_358, rel=0.01)),
        ("taxi_like", 13_282, 24_489_743),
        ("housing", 240_908_081, pytest.approx(605_304_918, rel=0.01)),
        ("white", 11_155_486, 226_378_365),
        ("hawaiian", 11_155_486, 540_383),
        ("taxi", 360_872, 130_962_398),
    ],
)
def test_totals_are_the_papers(name, groups, members):
    assert data(name).n_groups == groups
    assert data(name).n_members == members


def test_pickups_by_taxi_are_as_many_as_the_papers():
    assert data("pickups_by_taxi").n_groups == 24_489_743
    assert data("pickups_by_taxi").n_distinct_sizes == data("pickups_by_taxi").largest == 13_282


@pytest.mark.parametrize(
    ("name", "levels", "nodes", "largest"),
    few(
        [
            ("census_like", ("country", "state", "county"), (1, 52, 3_144), 1_000),
            ("taxi_like", ("city", "borough", "zone"), (1, 6, 263), 13_282),
            ("pickups_by_taxi", ("city", "borough", "zone"), (1, 6, 263), 13_282),
            ("housing", ("country", "state", "county"), (1, 52, 3_144), 10_000),
            ("white", ("country", "state", "county"), (1, 52, 3_144), 10_000),
            ("hawaiian", ("country", "state", "county"), (1, 52, 3_144), 1_000),
            ("taxi", ("all", "half", "neighbourhood"), (1, 2, 28), 6_000),
        ],
        3,
    ),
)
def test_hierarchies_are_the_papers(name, levels, nodes, largest):
    groups = data(name)
    hierarchy = tt.Hierarchy.from_table(groups.leaves, levels=groups.levels)
    assert hierarchy.levels == levels
    assert groups.levels == levels[-len(groups.levels) :]
    assert tuple(hierarchy.size(level) for level in range(len(levels))) == nodes
    assert groups.largest == largest


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATORS)
def test_rows_are_valid(name):
    groups = data(name)
    rows, levels = groups.rows, list(groups.levels)
    assert rows.column_names == [*levels, "size", "groups"]
    assert rows["size"].type == rows["groups"].type == pa.int64()
    assert rows["groups"].to_numpy().min() >= 1
    assert rows["size"].to_numpy().min() == (0 if name in ("white", "hawaiian") else 1)
    assert rows["size"].to_numpy().max() <= groups.largest
    assert rows.group_by([*levels, "size"]).aggregate([]).num_rows == rows.num_rows
    paths = rows.group_by(levels).aggregate([])
    assert paths.join(groups.leaves, levels, join_type="left anti").num_rows == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATORS)
def test_the_seed_decides(name):
    generate = GENERATORS[name]
    first = generate(seed=7)
    assert first.rows.equals(generate(seed=7).rows)
    second = generate(seed=8)
    assert not first.rows.equals(second.rows)
    assert first.leaves.equals(second.leaves)
    assert first.n_groups == second.n_groups


@pytest.mark.parametrize("name", OF_THE_STATES)
def test_every_county_has_groups(name):
    paths = data(name).rows.group_by(list(data(name).levels)).aggregate([])
    assert paths.num_rows == 3_144


def test_the_published_numbers_of_the_states_add_up():
    assert len(STATES) == 52
    assert len(state_of_county()) == 3_144
    assert numbers("people").sum() == 308_745_538 + 3_725_789  # the states and the District; Puerto Rico
    assert numbers("blocks").sum() == 11_155_486
    assert numbers("people") @ numbers("percent_white") / 100 == pytest.approx(226_378_365, rel=0.001)
    assert numbers("pacific_islanders").sum() == pytest.approx(540_383, rel=0.001)


@pytest.mark.parametrize(("name", "first", "ratio"), [("census_like", 7, 0.73), ("housing", 6, 0.4)])
def test_consecutive_large_households_keep_one_ratio(name, first, ratio):
    """Size 12 has some 7,000 households or more, so its ratio is known to 2 %; shares that vary raise it a little."""
    of_size = histogram(data(name))
    ratios = of_size[first + 1 : 13] / of_size[first:12]
    assert ratios == pytest.approx(ratios[0], rel=0.05)
    assert ratios[0] == pytest.approx(ratio, abs=0.05)


def test_household_sizes_have_the_censuss_order():
    for name in ("census_like", "housing"):
        assert histogram(data(name))[[2, 1, 3, 4, 5, 6, 7]].tolist() == sorted(histogram(data(name))[1:8], reverse=True)


def test_outliers_are_as_many_as_the_papers():
    """Households end below 80 and 40. Above, 46.5 of 50 outliers on 10…1,000 and 2,590 of 2,600 are expected."""
    assert 40 <= histogram(data("census_like"))[80:].sum() <= 50
    assert 2_560 <= histogram(data("housing"))[40:].sum() <= 2_600


def test_every_state_has_fifty_outliers():
    rows = data("housing").rows
    large = rows.filter(pa.array(rows["size"].to_numpy() >= 40)).group_by("state").aggregate([("groups", "sum")])
    assert large.num_rows == 52
    assert 45 <= large["groups_sum"].to_numpy().min() <= large["groups_sum"].to_numpy().max() <= 50


def test_outliers_end_at_the_largest_size():
    small = fioretto.census_like(n_sizes=20)
    assert small.largest == 20
    assert small.n_groups == fioretto.CENSUS_GROUPS
    assert len(histogram(small)) <= 21
    assert fioretto.census_like(n_sizes=10).rows["size"].to_numpy().max() == 10
    with pytest.raises(ValueError, match=r"tail_ratio: 1\.0 is not between 0 and 1"):
        fioretto.census_like(tail_ratio=1.0)
    with pytest.raises(ValueError, match="n_sizes: 9 is below the smallest outlier; give at least 10"):
        fioretto.census_like(n_sizes=9)


@pytest.mark.parametrize(("name", "paper"), [("housing", 2_352), ("white", 1_916), ("hawaiian", 224)])
def test_as_many_sizes_occur_as_in_the_paper(name, paper):
    assert data(name).n_distinct_sizes == pytest.approx(paper, rel=0.25)


def test_no_taxi_has_more_pickups_than_the_largest_size():
    for seed in range(50):
        sizes = fioretto.taxi_like(seed=seed).rows["size"].to_numpy()
        assert 1 <= sizes.min() < 20
        assert 7_000 < sizes.max() <= 13_282


def test_both_readings_of_the_taxis_share_their_pickups():
    """One has the numbers of pickups as sizes, the other as groups; both spread widely around 1,844."""
    taxis = np.repeat(np.arange(13_283), np.pad(sizes := histogram(data("taxi_like")), (0, 13_283 - len(sizes))))
    pickups = histogram(data("pickups_by_taxi"))[1:]
    for values in (taxis, pickups):
        assert len(values) == 13_282
        assert values.mean() == pytest.approx(1_843.8, abs=0.1)
        assert 1_000 < values.std() < 1_500


def test_native_hawaiians_are_rare_but_in_hawaii():
    rows = data("hawaiian").rows
    size, groups = rows["size"].to_numpy(), rows["groups"].to_numpy()
    assert groups[size == 0].sum() == pytest.approx(11_011_898, rel=0.002)  # published
    assert groups[size == 1].sum() == pytest.approx(71_142, rel=0.05)
    in_hawaii = np.array(rows["state"].to_pylist()) == "Hawaii"
    assert (size * groups)[in_hawaii].sum() / 540_383 == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize("largest", [1, 5, 50, 13_282])
def test_a_truncated_data_set_is_the_same_without_larger_groups(largest):
    whole = data("taxi_like")
    part = fioretto.truncated(whole, largest)
    assert part.largest == largest
    assert part.leaves.equals(whole.leaves)
    assert part.n_groups == histogram(whole)[: largest + 1].sum()
    assert part.n_distinct_sizes == np.count_nonzero(histogram(whole)[: largest + 1])


def test_a_small_truncation_still_has_taxis():
    assert fioretto.truncated(data("taxi_like"), 5).n_groups > 50


@pytest.mark.parametrize("largest", [0, 13_283])
def test_truncation_needs_a_size_of_the_data(largest):
    with pytest.raises(ValueError, match=f"largest: {largest} is not a size of these data; give one from 1 to 13282"):
        fioretto.truncated(data("taxi_like"), largest)


@pytest.mark.parametrize("name", OF_THE_STATES)
def test_the_west_coast_is_three_states(name):
    coast = kuo.west_coast(data(name))
    hierarchy = tt.Hierarchy.from_table(coast.leaves, levels=coast.levels)
    assert hierarchy.levels == ("region", "state", "county")
    assert [hierarchy.size(level) for level in range(3)] == [1, 3, 58 + 36 + 39]
    rows = data(name).rows
    kept = np.isin(rows["state"].to_pylist(), ["California", "Oregon", "Washington"])
    assert coast.n_groups == rows["groups"].to_numpy()[kept].sum()
    assert coast.rows.column_names == ["region", "state", "county", "size", "groups"]


def test_rows_of_one_leaf_and_size_are_gathered():
    leaves = pa.table({"area": ["a", "b"]})
    leaf, size, groups = np.array([[1, 2, 3], [0, 1, 1], [1, 2, 4], [1, 0, 0], [0, 0, 2]]).T
    gathered = count_rows(leaves, leaf, size, groups, largest=3)
    assert gathered.rows.to_pylist() == [
        {"area": "a", "size": 0, "groups": 2},
        {"area": "a", "size": 1, "groups": 1},
        {"area": "b", "size": 2, "groups": 7},
    ]
    assert (gathered.n_groups, gathered.n_members, gathered.n_distinct_sizes) == (10, 15, 3)
    assert gathered.levels == ("area",)


def test_the_tail_of_household_sizes_is_geometric_and_adds_up():
    shares = (30.0, 30.0, 15.0, 12.0, 6.0, 4.0, 3.0)
    weights = household_weights(shares, np.array([0.0, 0.1]), largest=1_000)
    assert weights.shape == (2, LAST_HOUSEHOLD)
    assert weights.sum(axis=1) == pytest.approx(1)
    assert weights[0, :6] == pytest.approx(np.array(shares[:6]) / 100)
    assert weights[0, 6:].sum() == pytest.approx(0.03)
    assert weights[0, 6:] / weights[0, 5:-1] == pytest.approx(3 / 7)
    assert weights[1, 6:] / weights[1, 5:-1] == pytest.approx(3 / 7 * np.exp(0.1))


def test_the_ratio_of_the_tail_can_be_given():
    (weights,) = household_weights((40, 30, 15, 8, 4, 1, 2), np.zeros(1), largest=1_000, ratio=0.5, last=100)
    assert len(weights) == 100
    assert weights[6:].sum() == pytest.approx(0.02)
    assert weights[6] == pytest.approx(0.01)
    assert weights[7:30] / weights[6:29] == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["taxi_like", "hawaiian"])
def test_a_data_set_can_be_released_as_it_is(name):
    whole = data(name)
    groups = fioretto.truncated(whole, 50)
    hierarchy = tt.Hierarchy.from_table(groups.leaves, levels=groups.levels)
    release = tt.release_group_sizes(
        groups.rows,
        hierarchy,
        tt.Budget(epsilon=1.0),
        size="size",
        groups="groups",
        max_group_size=groups.largest,
        neighboring="add_remove",
        seed=1,
    )
    assert release.table(groups.levels[0])["groups"].to_numpy().sum() == groups.n_groups
