"""The Italy-like commutes: the census's numbers at full size, and what must hold at any size."""

from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest
from tallytree.datasets.italy_areas import LEVELS, country

import tallytree as tt
from tallytree.datasets import italy


@cache
def small(level):
    return italy.od_flows(level, scale=0.02)


def by(flows, level):
    """Trips per pair of areas of a level, as a dictionary."""
    columns = [f"{side}_{name}" for side in ("origin", "destination") for name in LEVELS[: LEVELS.index(level) + 1]]
    plain = flows.select([*columns, "count"]).cast(
        pa.schema([*((c, pa.string()) for c in columns), ("count", "int64")])
    )
    summed = plain.group_by(columns).aggregate([("count", "sum")])
    return dict(
        zip(zip(*(summed[c].to_pylist() for c in columns), strict=True), summed["count_sum"].to_pylist(), strict=True)
    )


def test_the_country_has_the_census_numbers_of_areas():
    whole = country(seed=2011)
    assert len(np.unique(whole.region)) == 20
    assert [len(level) for level in (whole.region, whole.province, whole.municipality, whole.area_of_section)] == [
        110,
        8_092,
        52_000,
        362_292,
    ]
    assert whole.people.sum() == pytest.approx(59_433_744)
    tree = tt.Hierarchy.from_table(whole.table("section"), LEVELS)
    assert [tree.size(depth) for depth in range(6)] == [1, 20, 110, 8_092, 52_000, 362_292]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2011, 1])
def test_pairs_of_every_level_are_as_many_as_the_authors_have(seed):
    """The constants were fitted on seed 2011; its country and those of others differ by chance."""
    flows = italy.od_flows("municipality", seed=seed)
    assert flows.n_trips == 28_805_440
    assert flows.areas.num_rows == 8_092
    found = []
    for depth, (destinations, origins) in enumerate([(1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3)], 1):
        columns = [*flows.destination[:destinations], *flows.origin[:origins]]
        counts = flows.flows.group_by(columns).aggregate([("count", "sum")])["count_sum"].to_numpy()
        found.append((depth, len(counts), np.count_nonzero(counts <= 2)))
    pairs = [pairs for _, pairs, _ in found]
    assert pairs == pytest.approx([20, 236, 948, 4_129, 47_765, 556_120], rel=0.1)
    assert [few for *_, few in found][4:] == pytest.approx([12_735, 266_386], rel=0.25)


def test_twos_and_fours_are_more_than_ones_and_threes():
    counts = np.bincount(small("municipality").flows["count"].to_numpy())
    assert counts[2] > 1.5 * counts[1]
    assert counts[4] > counts[3]


@pytest.mark.parametrize("level", ["municipality", "section"])
def test_pairs_are_distinct_and_trips_whole(level):
    data = small(level)
    assert data.n_trips == round(0.02 * italy.TRIPS)
    assert data.flows["count"].to_numpy().min() >= 1
    assert len(by(data.flows, data.levels[-1])) == data.n_pairs


def test_sections_add_up_to_municipalities():
    assert by(small("section").flows, "municipality") == by(small("municipality").flows, "municipality")


def test_trips_thin_out_with_distance():
    data = country(seed=2011, scale=0.02)
    code = {name: i for i, name in enumerate(data.table("municipality")["municipality"].to_pylist())}
    trips = by(small("municipality").flows, "municipality")
    pairs = np.array([(code[key[2]], code[key[5]], n) for key, n in trips.items() if key[2] != key[5]])
    away = np.linalg.norm(data.place[pairs[:, 0]] - data.place[pairs[:, 1]], axis=1)
    everywhere = np.linalg.norm(data.place[:, None] - data.place[None, :], axis=2)
    rates = [
        pairs[(away >= low) & (away < high), 2].sum() / ((everywhere >= low) & (everywhere < high)).sum()
        for low, high in ((0.01, 30), (30, 60), (60, 1_200))
    ]
    assert all(near > far for near, far in pairwise(rates))
    assert rates[0] > 5 * rates[-1]


def test_most_trips_that_stay_may_go_anywhere_in_the_municipality_but_many_stay_near():
    trips = small("section").flows
    plain = trips.cast(pa.schema([(f.name, pa.int64() if f.name == "count" else pa.string()) for f in trips.schema]))
    side = {level: (plain[f"origin_{level}"], plain[f"destination_{level}"]) for level in LEVELS}
    count = plain["count"].to_numpy()

    def staying(level):
        origin, destination = side[level]
        return count[pa.compute.equal(origin, destination).to_numpy()].sum()

    assert 0.35 < staying("municipality") / count.sum() < 0.75
    assert 0.30 < staying("section_area") / staying("municipality") < 0.6
    assert 0.05 < staying("section") / staying("municipality") < 0.25


def test_equal_seeds_give_equal_tables_and_others_do_not():
    again, other = italy.od_flows(scale=0.02), italy.od_flows(scale=0.02, seed=1)
    assert again.flows.equals(small("municipality").flows)
    assert not other.flows.equals(again.flows)


@pytest.mark.parametrize("level", ["municipality", "section"])
def test_a_file_has_the_same_rows(tmp_path, level):
    areas = italy.write_od_flows(tmp_path / "flows.parquet", level, scale=0.02)
    read = pa.parquet.read_table(tmp_path / "flows.parquet")
    assert areas.equals(small(level).areas)
    assert read.equals(small(level).flows.cast(read.schema))


def test_days_have_as_many_trips_each_and_the_first_has_those_of_one_day(tmp_path):
    italy.write_od_flows(tmp_path / "flows.parquet", scale=0.02, days=3)
    read = pa.parquet.read_table(tmp_path / "flows.parquet")
    trips = read.group_by("day").aggregate([("count", "sum")]).sort_by("day")
    assert trips["day"].to_pylist() == ["1", "2", "3"]
    assert trips["count_sum"].to_pylist() == [small("municipality").n_trips] * 3
    first, second = (read.filter(pa.compute.equal(read["day"], day)).drop_columns(["day"]) for day in "12")
    assert first.equals(small("municipality").flows.cast(first.schema))
    assert not second.equals(first)


@pytest.mark.slow
def test_flows_can_be_released():
    data = small("section")
    areas = tt.Hierarchy.from_table(data.areas, data.levels)
    release = tt.release_flows(
        data.flows,
        origins=areas,
        destinations=areas,
        origin=data.origin,
        destination=data.destination,
        count="count",
        budget=tt.Budget(rho=100),
        neighboring="change_one",
        seed=1,
    )
    released = release.table("origin_region")["origin_region"].to_pylist()
    assert set(released) == {f"{region:02}" for region in range(1, 21)}
    assert release.table("all")["count"].to_pylist() == [data.n_trips]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": "province"}, "level: 'province' is not known"),
        ({"scale": 0}, "scale: 0 must be greater than 0 and at most 1"),
        ({"scale": 2.5}, r"scale: 2\.5 must be"),
    ],
)
def test_unknown_arguments_are_refused(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        italy.od_flows(**arguments)
    with pytest.raises(ValueError, match=message):
        italy.write_od_flows(tmp_path / "flows.parquet", **arguments)
    assert not (tmp_path / "flows.parquet").exists()
