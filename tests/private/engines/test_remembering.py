"""`engines.Remembering` saves work and changes nothing."""

import pyarrow as pa
import pytest

import tallytree as tt

PEOPLE = pa.table({"state": ["A"] * 60 + ["B"] * 20, "county": ["x"] * 50 + ["y"] * 10 + ["x"] * 20})
HOMES = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"], "size": [1, 3, 2], "groups": [40, 10, 20]})
MEMBERS = pa.table({"state": ["A"] * 4, "county": ["x"] * 4, "home": ["1", "1", "2", "3"]})


@pytest.fixture
def calls(monkeypatch):
    """What the local engine was asked to tabulate."""
    made = []
    original = tt.engines.Local.tabulate

    def noted(self, table, request):
        made.append(type(request).__name__)
        return original(self, table, request)

    monkeypatch.setattr(tt.engines.Local, "tabulate", noted)
    return made


def counts(table, areas, engine, **options):
    budget = tt.Budget(epsilon=1)
    return tt.release_counts(table, areas, budget, neighboring="add_remove", seed=1, engine=engine, **options)


def test_a_table_is_tabulated_once_and_released_as_before(areas, calls):
    engine = tt.engines.Remembering()
    first, again = counts(PEOPLE, areas, engine), counts(PEOPLE, areas, engine)
    assert calls == ["CountRecords"]
    for release in (first, again):
        assert release.table("county").equals(counts(PEOPLE, areas, None).table("county"))


def test_other_tables_hierarchies_and_options_are_tabulated_anew(areas, calls):
    engine = tt.engines.Remembering()
    more = pa.concat_tables([PEOPLE, PEOPLE]).append_column("n", pa.array([2] * 160))
    same_leaves = tt.Hierarchy.from_table(areas.leaf_table(), ["state", "county"])
    for table, tree, options in (
        (PEOPLE, areas, {}),
        (more, areas, {}),
        (more, areas, {"count": "n"}),
        (PEOPLE, same_leaves, {}),
        (PEOPLE, areas, {"on_unknown": "drop"}),
    ):
        seen = len(calls)
        release = counts(table, tree, engine, **options)
        assert len(calls) == seen + 1
        assert release.table("all").equals(counts(table, tree, None, **options).table("all"))


def test_what_could_have_changed_is_tabulated_every_time(areas, calls, tmp_path):
    engine = tt.engines.Remembering()
    frame = PEOPLE.to_pandas()
    counts(frame, areas, engine)
    frame.loc[:, "state"], frame.loc[:, "county"] = "A", "z"
    second = counts(frame, areas, engine)
    assert len(calls) == 2
    assert second.table("county").equals(counts(frame, areas, None).table("county"))


@pytest.mark.parametrize(
    ("table", "named", "asked"),
    [(HOMES, {"size": "size", "groups": "groups"}, "GroupRows"), (MEMBERS, {"group": "home"}, "CountGroups")],
)
def test_group_sizes_are_remembered_too(areas, calls, table, named, asked):
    engine = tt.engines.Remembering()

    def release(chosen, largest=5):
        return tt.release_group_sizes(
            table,
            areas,
            tt.Budget(epsilon=1),
            **named,
            max_group_size=largest,
            neighboring="add_remove",
            mechanism=tt.sizes.BottomUp(),
            seed=1,
            engine=chosen,
        ).table("county")

    assert release(engine).equals(release(engine))
    assert calls == [asked]
    assert release(engine, 2).equals(release(None, 2))
    assert calls == [asked] * 3


def test_errors_are_those_of_the_engine(areas):
    engine = tt.engines.Remembering()
    for _ in range(2):
        with pytest.raises(ValueError, match="records: column 'county' is missing"):
            counts(PEOPLE.select(["state"]), areas, engine)


def test_a_repr_shows_the_engine_only(areas):
    engine = tt.engines.Remembering(tt.engines.Local(threads=1))
    counts(PEOPLE, areas, engine)
    assert repr(engine) == "Remembering(Local(memory_limit=None, threads=1, temp_directory=None))"


def test_what_a_bound_chooses_is_not_kept(areas, calls):
    """Its key is another in every release, so keeping it would only fill memory."""
    engine = tt.engines.Remembering()
    table = PEOPLE.append_column("id", pa.array([str(i // 2) for i in range(PEOPLE.num_rows)]))
    for _ in range(2):
        counts(table, areas, engine, person="id")
    assert calls == ["CountRecords"] * 2
    assert not engine._kept
