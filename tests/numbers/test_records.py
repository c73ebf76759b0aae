"""Records: counted again, they give every published number of a release, of every kind; what they cannot do is told."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers import releases
from helpers.partly_listed import partly_listed
from tallytree.numbers.records import records_of
from tallytree.release.level_tables import PlainTable

BOUND = {"person": "id", "max_contributions": 2, "contributions": 0.2}


def tabulated(rows, paths):
    """How many rows have each path, as a mapping."""
    return dict(zip(_paths(rows, paths), rows.column("count_all").to_pylist(), strict=True))


def _paths(table, names):
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True)) or [()] * table.num_rows


def assert_all_is_given_back(release):
    """Every table of the release, also those that were not asked for, from its records alone."""
    rows = release.records().read_all()
    for level in release.levels:
        table = release.table(level)
        paths = [name for name in table.column_names if name in rows.column_names]
        found = tabulated(rows.group_by(paths).aggregate([([], "count_all")]), paths)
        published = dict(zip(_paths(table, paths), table.column("count").to_pylist(), strict=True))
        assert found == {path: count for path, count in published.items() if count}
        assert table.column_names[: len(paths)] == paths


KINDS = {
    "counts": lambda areas: releases.counts(areas, seed=1),
    "weighted counts": lambda areas: releases.counts(
        areas, records=releases.PEOPLE.append_column("n", [[3] * releases.PEOPLE.num_rows]), count="n", seed=1
    ),
    "bounded counts": lambda areas: releases.counts(
        areas, records=releases.PEOPLE.append_column("id", [[i // 3 for i in range(100)]]), seed=1, **BOUND
    ),
    "flows": lambda areas: releases.flows(areas, seed=1),
    "tables with a detail": lambda areas: releases.tables(
        areas, tables=[("county",), ("state", "sex")], keep_detail=True, seed=1
    ),
    "tables with their finest": lambda areas: releases.tables(areas, seed=1),
    "tables that are measured to help": lambda areas: releases.tables(
        areas, tables=[("county",)], measure=[("county", "sex")], seed=1
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_records_give_every_published_number_back(areas, tmp_path, kind):
    release = KINDS[kind](areas)
    assert_all_is_given_back(release)
    loaded = tt.Release.load(release.save(tmp_path / "out"))
    assert_all_is_given_back(loaded)
    assert loaded.records().read_all() == release.records().read_all()


def test_with_public_totals_below_the_finest_table_the_detail_goes_down_to_them(areas, tmp_path):
    totals = pa.table({"state": list("AAAB"), "county": list("xyzx"), "count": [50, 10, 0, 40]})
    made = releases.tables(areas, tables=[("state", "sex")], public_totals=totals, keep_detail=True, seed=2)
    loaded = tt.Release.load(made.save(tmp_path / "out"))
    for release in (made, loaded):
        assert_all_is_given_back(release)


def test_members_of_groups_give_the_sizes_of_every_place_back(areas, tmp_path):
    made = releases.group_sizes(areas, seed=3, max_group_size=4)
    for release in (made, tt.Release.load(made.save(tmp_path / "out"))):
        rows = release.records().read_all()
        assert rows.column_names == ["state", "county", "group"]
        for level in release.levels:
            table = release.table(level)
            paths = [name for name in table.column_names if name in rows.column_names]
            groups = rows.group_by([*paths, "group"]).aggregate([([], "count_all")])
            found = tabulated(groups.group_by([*paths, "count_all"]).aggregate([([], "count_all")]).rename_columns(
                [*paths, "size", "count_all"]), [*paths, "size"])  # fmt: skip
            published = zip(_paths(table, [*paths, "size"]), table.column("groups").to_pylist(), strict=True)
            assert found == {path: groups for path, groups in published if path[-1] and groups}
        numbers = rows.column("group").unique().to_pylist()
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=8), st.integers(1, 9), st.booleans()
)
@settings(max_examples=30, deadline=None)
def test_slices_of_any_length_hold_the_rows_that_a_loop_makes(numbers, at_once, grouped):
    names = [f"a{i % 3}" for i in range(len(numbers))]
    labels = pa.DictionaryArray.from_arrays(
        pa.array([i % 3 for i in range(len(numbers))], pa.int32()), ["a0", "a1", "a2"]
    )
    sizes, groups = map(pa.array, zip(*numbers, strict=True))
    plain = {"area": labels, "size": sizes, "groups": groups} if grouped else {"area": labels, "count": groups}
    release = tt.release_counts(AREA, TREE, tt.Budget(epsilon=1), neighboring="add_remove", seed=1)
    found = replace(records_of(release), source=PlainTable(pa.table(plain)), group="group" if grouped else None)
    wanted, number = [], 0
    for name, (size, times) in zip(names, numbers, strict=True):
        for _ in range(times):
            number += size > 0
            wanted += [(name, number)] * size if grouped else [(name,)]
    slices = list(found.slices(at_once))
    assert [row for rows in slices for row in zip(*rows.to_pydict().values(), strict=True)] == wanted
    assert all(rows.num_rows == at_once for rows in slices[:-1])
    assert found.num_rows == len(wanted)


AREA = pa.table({"area": ["a0", "a1", "a2"] * 5})
TREE = tt.Hierarchy.from_table(pa.table({"area": ["a0", "a1", "a2"]}), ["area"])


def test_codes_of_leaves_are_columns_where_the_records_had_them():
    trips = pa.table({"home": ["x", "y"] * 30, "work": ["y", "y"] * 30})
    towns = tt.Hierarchy.from_table(pa.table({"state": ["A", "A"], "town": ["x", "y"]}), ["state", "town"])
    release = tt.release_flows(
        trips, origins=towns, destinations=towns, origin=["o_state", "o_town"], destination=["d_state", "d_town"],
        leaf={"origin": "home", "destination": "work"}, budget=tt.Budget(epsilon=9), neighboring="add_remove", seed=1,
    )  # fmt: skip
    rows = release.records().read_all()
    assert rows.column_names == ["o_state", "o_town", "d_state", "d_town", "home", "work"]
    assert rows["home"].equals(rows["o_town"])
    assert rows["work"].equals(rows["d_town"])
    one = tt.release_counts(
        pa.table({"code": ["x"] * 9}), towns, tt.Budget(epsilon=9), leaf="code", neighboring="add_remove", seed=1
    )
    assert one.records().schema.names == ["state", "town", "code"]


def test_a_level_may_be_named_like_the_column_of_groups():
    tree = tt.Hierarchy.from_values("Group", ["a", "b"])
    rows = pa.table({"Group": ["a", "b"], "size": [2, 3], "groups": [4, 5]})
    release = tt.release_group_sizes(
        rows, tree, tt.Budget(epsilon=1), size="size", groups="groups", max_group_size=5, neighboring="add_remove",
        seed=1,
    )  # fmt: skip
    assert release.records().schema.names == ["Group", "group_"]


def test_dictionaries_hold_the_same_labels(areas):
    release = releases.flows(areas, seed=1)
    coded = release.records(dictionaries=True).read_all()
    assert all(pa.types.is_dictionary(field.type) for field in coded.schema)
    assert coded.to_pylist() == release.records().read_all().to_pylist()


def test_the_schema_says_that_no_row_is_about_a_person(areas):
    said = releases.counts(areas, seed=1).records().schema.metadata[b"records"].decode()
    assert said.startswith("No row is about a person.")
    assert said.endswith("A row stands for one of what was counted: records.")
    assert "a made-up number" not in said
    said = releases.group_sizes(areas, seed=1).records().schema.metadata[b"records"].decode()
    assert "The column 'group' numbers the groups of this file; it is made up." in said


COARSE = {"tables": [("county",), ("state", "sex")], "seed": 1}
VERY_NOISY = {"mechanism": tt.counts.LeafGaussian(), "budget": tt.Budget(epsilon=0.02, delta=1e-6), "seed": 1}
PERSON = {"person": "id", "at_most": 3, "neighboring": "add_remove", "seed": 1}
WITH_PERSON = releases.PEOPLE.append_column("id", [[*range(100)]])

REFUSED = {
    "no detail": (
        lambda areas: releases.tables(areas, **COARSE),
        r"records: the release does not hold the cells that all of its tables are sums of; release it with "
        r"keep_detail=True .*, or publish the table \('county', 'sex'\)",
    ),
    "a total alone": (
        lambda areas: releases.tables(areas, tables=[()], neighboring="add_remove", seed=1),
        "records: the release has its total alone, so that records would have no columns",
    ),
    "negative numbers": (
        lambda areas: releases.counts(areas, **VERY_NOISY),
        "records: numbers by LeafGaussian are negative or have fractions, and no rows count so; release with",
    ),
    "fractions": (
        lambda areas: releases.group_sizes(areas, mechanism=tt.sizes.MeanConsistency(), seed=1),
        "records: numbers by MeanConsistency are negative or have fractions",
    ),
    "levels that do not add up": (
        lambda areas: releases.group_sizes(areas, mechanism=tt.sizes.Independent(), seed=1),
        "records: the levels by Independent do not add up, so that no records give all of them back",
    ),
    "what is not listed": (
        lambda areas: partly_listed(),
        "records: the release has rows with how much is not listed",
    ),
    "people": (
        lambda areas: tt.release_contributions(WITH_PERSON, areas, tt.Budget(epsilon=1), **PERSON),
        "records: the release has people by their number of records and no places",
    ),
}


@pytest.mark.filterwarnings("ignore:mechanism")
@pytest.mark.parametrize("kind", REFUSED)
def test_a_release_without_records_says_why(areas, kind):
    make, message = REFUSED[kind]
    release = make(areas)
    with pytest.raises(ValueError, match=message):
        release.records()


def test_numbers_are_looked_at_where_an_early_statement_says_nothing(areas):
    release = releases.counts(areas, seed=1)
    table = release.table("county", dictionaries=True)
    lower = PlainTable(table.set_column(2, "count", pa.array(np.arange(table.num_rows) - 1)))
    negative = replace(release, _tables={**release.level_tables, "county": lower})
    with pytest.raises(ValueError, match="records: numbers by LeastSquares are negative or have fractions"):
        negative.records()
