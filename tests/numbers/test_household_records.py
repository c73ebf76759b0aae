"""Records of persons in households: tables of persons and households by size come back from them, exactly."""

from collections import Counter

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import export
from tallytree.numbers.records import records_of
from test_api_households import PRODUCT, K, population, release, table


@pytest.fixture(scope="module")
def made():
    return release(keep_detail=True)


def places(rows, columns):
    return list(zip(*(rows.column(name).to_pylist() for name in columns), strict=True)) or [()] * rows.num_rows


def assert_all_is_given_back(made):
    rows = made.records().read_all()
    for level in made.persons.levels:
        published = made.persons.table(level)
        columns = [name for name in published.column_names if name in rows.column_names]
        numbers = zip(places(published, columns), published["count"].to_pylist(), strict=True)
        assert Counter(places(rows, columns)) == {place: count for place, count in numbers if count}
    inside = rows.filter(rows["household"].is_valid())
    assert set(inside["in_household"].to_pylist()) == {"yes"}
    assert rows["in_household"].to_pylist().count("yes") == inside.num_rows
    for level in made.households.levels:
        published = made.sizes(level)
        columns = [name for name in published.column_names if name in ("state", "county")]
        homes = Counter(places(inside, [*columns, "household"]))
        groups, members = Counter(), Counter()
        for (*place, _), size in homes.items():
            groups[*place, min(size, K)] += 1
            members[*place, min(size, K)] += size
        sizes = places(published, [*columns, "size"])
        assert groups == dict(zip(sizes, published["groups"].to_pylist(), strict=True))
        assert members == dict(zip(sizes, published["persons"].to_pylist(), strict=True))
    assert len(set(places(inside, ["state", "county", "household"]))) == len(set(inside["household"].to_pylist()))


def test_persons_and_households_come_back_from_the_records(made, tmp_path):
    loaded = tt.HouseholdsRelease.load(made.save(tmp_path / "out"))
    for each in (made, loaded):
        assert_all_is_given_back(each)
    assert loaded.records().read_all() == made.records().read_all()


def test_another_seed_is_another_shuffle_and_nothing_else(made):
    rows, again, other = (made.records(seed=seed).read_all() for seed in (1, 1, 2))
    assert rows == again
    assert rows["household"] != other["household"]
    assert rows.drop_columns(["household"]) == other.drop_columns(["household"])


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_households_do_not_depend_on_how_many_rows_are_made_at_once(made, at_once):
    found = [number for rows in records_of(made).slices(at_once) for number in rows["household"].to_pylist()]
    assert found == made.records().read_all()["household"].to_pylist()


def test_areas_without_attributes_need_no_detail():
    rows = table(population()).drop_columns(["sex"])
    assert_all_is_given_back(release(rows, hierarchy=PRODUCT.attributes[0].hierarchy))


def test_the_file_says_that_who_lives_with_whom_carries_no_information(made, tmp_path):
    export(made, "records", tmp_path / "records.parquet")
    said = pq.read_schema(tmp_path / "records.parquet").metadata[b"records"].decode()
    assert said.startswith("No row is about a person.")
    assert "Who lives with whom carries no information" in said
    assert made.records().schema.metadata[b"records"].decode() == said
    export(made, "records", tmp_path / "records.csv")
    rows = pyarrow.csv.read_csv(tmp_path / "records.csv")
    assert rows["household"].null_count == rows["in_household"].to_pylist().count("no")


def test_the_dictionary_allows_persons_in_no_household(made, tmp_path):
    frictionless = pytest.importorskip("frictionless")
    export(made, "records", tmp_path / "records.csv")
    report = frictionless.validate(str(tmp_path / "records.csv.datapackage.json"))
    assert report.valid, report.flatten(["type", "note"])


def test_without_the_detail_it_is_said_how_to_get_it():
    with pytest.raises(ValueError, match=r"records: the release does not hold the cells .* keep_detail=True"):
        release().records()


def test_a_seed_needs_households(made):
    with pytest.raises(ValueError, match=r"seed: .*this release has no households"):
        made.persons.records(seed=1)
    with pytest.raises(TypeError, match="seed: "):
        made.records(seed="x")
