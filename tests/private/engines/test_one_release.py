"""DuckDB is opened once a release, for its public table and its records, and is closed before noise is drawn."""

import contextvars

import duckdb
import pyarrow as pa
import pytest
import yaml

import tallytree as tt
from helpers.inside import SizesArguments, plan_group_sizes
from tallytree.private.engines import one_release
from tallytree.private.noise.discrete import KeyedNoise
from tallytree.spec import load_spec

LEAVES = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "z"]})
AREAS = tt.Hierarchy.from_table(LEAVES, levels=["state", "county"])
SEXES = tt.Product({"area": AREAS, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
PEOPLE = pa.table({"state": ["A", "A", "B"], "county": ["x", "x", "z"], "sex": ["f", "m", "m"], "home": [1, 1, 2]})
GROUPS = LEAVES.append_column("groups", pa.array([2, 1, 3]))
TOTALS = pa.table({"state": ["A", "B"], "count": [2, 1]})
COMMON = {"neighboring": "add_remove"}
ONE = tt.Budget(epsilon=1)
TABLES = {"tables": [("county", "sex")], **COMMON}
SIZES = {"group": "home", "max_group_size": 4, **COMMON}

RELEASES = {
    "counts": lambda: tt.release_counts(PEOPLE, AREAS, ONE, **COMMON),
    "counts in bands": lambda: tt.release_counts(PEOPLE, AREAS, ONE, memory="1GB", **COMMON),
    "tables": lambda: tt.release_tables(PEOPLE, SEXES, ONE, **TABLES),
    "tables, public totals": lambda: tt.release_tables(
        PEOPLE, SEXES, ONE, **TABLES | {"neighboring": "change_one"}, public_totals=TOTALS
    ),
    "sizes": lambda: tt.release_group_sizes(PEOPLE, AREAS, ONE, **SIZES),
    "sizes, public groups, shares chosen": lambda: tt.release_group_sizes(
        PEOPLE, AREAS, ONE, public_groups=GROUPS, **SIZES
    ),
    "sizes, public groups, even shares": lambda: tt.release_group_sizes(
        PEOPLE, AREAS, ONE, public_groups=GROUPS, budget_split="even", **SIZES
    ),
    "households": lambda: tt.release_households(PEOPLE, AREAS, ONE, household="home", max_household_size=3, **COMMON),
}


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """Every connection that was opened; their folders for spilled rows are in `tmp_path`."""
    found, connect = [], duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *a, **k: [found.append(connect(*a, **k)), found[-1]][1])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return found


def is_closed(connection):
    try:
        connection.execute("SELECT 1").fetchall()
    except duckdb.ConnectionException:
        return True
    return False


@pytest.mark.parametrize("kind", RELEASES)
def test_duckdb_is_opened_once_and_closed_before_noise_is_drawn(kind, opened, monkeypatch, tmp_path):
    closed, draw = [], KeyedNoise.draw
    monkeypatch.setattr(KeyedNoise, "draw", lambda *a: [closed.append(all(map(is_closed, opened))), draw(*a)][1])
    RELEASES[kind]()
    assert len(opened) == 1
    assert closed
    assert all(closed)
    RELEASES[kind]()
    assert len(opened) == 2
    assert is_closed(opened[1])
    assert not [*tmp_path.glob("tallytree-spill-*")]


def test_a_spec_opens_it_once(opened, tmp_path):
    for name, table in {"people": PEOPLE, "leaves": LEAVES, "groups": GROUPS}.items():
        pa.parquet.write_table(table, tmp_path / f"{name}.parquet")
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        yaml.safe_dump(
            {
                "statistic": "group_sizes",
                "records": "people.parquet",
                "public_groups": "groups.parquet",
                "hierarchy": {"path": "leaves.parquet", "levels": ["state", "county"]},
                "budget": {"epsilon": 1},
                **SIZES,
            }
        )
    )
    load_spec(spec).release(tmp_path / "out")
    assert len(opened) == 1
    assert is_closed(opened[0])


def test_a_public_table_leaves_nothing_open_where_the_plan_or_the_records_are_refused(opened, tmp_path):
    with pytest.raises(ValueError, match="budget_split"):
        tt.release_group_sizes(PEOPLE, AREAS, ONE, public_groups=GROUPS, budget_split={"state": -1}, **SIZES)
    nowhere = PEOPLE.set_column(0, "state", pa.nulls(3, pa.string()))
    with pytest.raises(ValueError, match="null keys"):
        tt.release_group_sizes(nowhere, AREAS, ONE, public_groups=GROUPS, **SIZES)
    with pytest.raises(ValueError, match="public_groups"):
        tt.release_group_sizes(PEOPLE, AREAS, ONE, public_groups=pa.concat_tables([GROUPS, GROUPS]), **SIZES)
    assert len(opened) == 3
    assert all(map(is_closed, opened))
    assert not [*tmp_path.glob("tallytree-spill-*")]


def test_other_settings_have_a_duckdb_of_their_own_and_records_never_leave_one_open(opened):
    from helpers.inside import LeafKey
    from tallytree.private.engines import CountRecords

    key = (LeafKey(AREAS, ("state", "county")),)
    public = CountRecords(key, "groups", argument="public_groups")
    with one_release():
        tt.engines.Local(threads=1).tabulate(GROUPS, public)
        tt.engines.Local(threads=2).tabulate(PEOPLE, CountRecords(key))
        assert [is_closed(each) for each in opened] == [False, True]
        tt.engines.Local(threads=1).tabulate(PEOPLE, CountRecords(key))
        assert [is_closed(each) for each in opened] == [True, True]
        tt.engines.Local(threads=1).tabulate(GROUPS, public)
    assert [is_closed(each) for each in opened] == [True, True, True]
    tt.engines.Local(threads=1).tabulate(GROUPS, public)
    assert is_closed(opened[-1])


def test_a_context_that_outlives_its_release_leaves_nothing_open(opened, tmp_path):
    with one_release():
        context = contextvars.copy_context()
    arguments = SizesArguments(PEOPLE, AREAS, ONE, public_groups=GROUPS, **SIZES)
    context.run(lambda: plan_group_sizes(arguments))
    assert len(opened) == 1
    assert is_closed(opened[0])
    assert [*tmp_path.iterdir()] == []
