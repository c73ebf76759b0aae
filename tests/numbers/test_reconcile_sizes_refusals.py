"""What cannot be made again: other hierarchies, measurements that were changed, mechanisms that want something else."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.reconciled import ROWS, released, with_column, with_measurements, with_statement, with_tables


@pytest.fixture(scope="module")
def release(areas):
    return released(areas, max_group_size=6)


# --- What cannot be ---


def refused(match, *arguments, kind=ValueError, **options):
    with pytest.raises(kind, match=match):
        tt.reconcile_group_sizes(*arguments, **options)


def test_other_kinds_of_arguments_are_refused(areas, release):
    refused("release: int must be a tallytree.Release, or the folder of a saved one", 3, areas, kind=TypeError)
    refused("hierarchy: str must be a tallytree.Hierarchy", release, "areas.parquet", kind=TypeError)
    refused("mechanism: TopDown.* must be one of tallytree.sizes", release, areas, mechanism=tt.counts.TopDown(),
            kind=TypeError)  # fmt: skip


def test_counts_and_flows_are_refused(areas):
    counts = tt.release_counts(ROWS, areas, tt.Budget(epsilon=1), neighboring="add_remove")
    refused("release: its statistic is 'counts'; only releases of group_sizes can be reconciled again", counts, areas)


def test_a_folder_that_is_no_whole_release_is_refused(areas, release, tmp_path):
    refused("folder: .* is not a complete release", tmp_path, areas)
    folder = release.save(tmp_path / "out")
    place = folder / "measurements/state.parquet"
    table = pq.read_table(place)
    pq.write_table(table.slice(0, 1), place)
    refused(r"folder: .*state\.parquet' is missing or was changed", folder, areas)


def tree(*counties, levels=("state", "county")):
    table = pa.table({levels[0]: [c[0] for c in counties], levels[1]: [c[1] for c in counties]})
    return tt.Hierarchy.from_table(table, list(levels))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (tree("Ax", "Ay", "Az", "Bx", levels=("state", "town")),
         "its levels are all, state, town, but the release's are all, state, county; give the hierarchy of"),
        (tree("Ax", "Ay", "Az", "Bx", "By"), "it has 5 nodes at the level 'county', but the release has 4; give"),
        (tree("Ax", "Ay", "Bz", "Bx"), "it has no node state='A', county='z' at the level 'county', which the release"),
        (tree("Ax", "Ay", "Az", "Cx"), "it has no node state='B', county='x' at the level 'county', which the release"),
        (tree("Bx", "Ax", "Ay", "Az"), "node 0 of the level 'state' is state='B', but in the release it is state='A'"),
        (tree("Ax", "Az", "Ay", "Bx"), "node 1 of the level 'county' is .*county='z', but .*county='y'; list the"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("invariants", ["groups", "none"])
def test_a_hierarchy_that_is_not_the_releases_is_refused(areas, other, message, invariants):
    refused(f"hierarchy: {message}", released(areas, invariants=invariants), other)


def test_a_node_of_a_level_that_was_not_measured_is_looked_for_in_the_tables():
    def chain(leaf):
        table = pa.table({"a": ["x", "y"], "b": ["p", leaf]})
        return tt.Hierarchy.from_table(table, ["a", "b"])

    rows = pa.table({"a": ["y"], "b": ["q"], "n": [3], "households": [500]})
    made = released(chain("q"), records=rows)
    refused("hierarchy: it has no node a='y', b='q' at the level 'b', which the release published", made, chain("r"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.slice(0, 3), "the node state='B', county='x' is missing; give a release as tallytree wrote it"),
        (lambda t: pa.concat_tables([t, t.slice(1, 1)]), "the node state='A', county='y' is listed twice; give"),
        (lambda t: pa.concat_tables([t.slice(0, 3), t.slice(0, 1)]), "the node state='A', county='x' is listed twice"),
        (lambda t: t.drop_columns("values"), "there is no column 'values', only state, county, std_dev; give"),
        (lambda t: t.drop_columns("std_dev"), "there is no column 'std_dev', only state, county, values; give"),
        (lambda t: t.drop_columns("state"), "there is no column 'state', only county, values, std_dev; give"),
        (lambda t: with_column(t, "county", pa.array([None, *"yzx"])), "column 'county' has null keys"),
        (lambda t: with_column(t, "values", lists([None, *[[1] * 6] * 3])), "values are null in 1 rows"),
        (lambda t: with_column(t, "values", lists([[None] * 2 + [1] * 4, *[[1] * 6] * 3])), "values have 2 nulls in"),
        (lambda t: with_column(t, "values", lists([[1.5] * 6] * 4)), "values hold list<.*double> where lists of"),
        (lambda t: with_column(t, "values", pa.array([1, 2, 3, 4])), "values hold int64 where lists of integers"),
        (lambda t: with_column(t, "values", lists([[1] * 6] * 3 + [[1] * 5])), "row 3 has 5 values where tail_counts"),
        (lambda t: with_column(t, "values", lists([[2**62 + 1] * 6] * 4)), r"go beyond 2\^62"),
        (lambda t: with_column(t, "std_dev", pa.array([1.0] * 4)), r"std_dev is 1\.0 where the statement's noise has"),
        (lambda t: with_column(t, "std_dev", pa.array([None] + [1.0] * 3)), "std_dev holds double with 1 nulls"),
        (lambda t: with_column(t, "std_dev", pa.array(["1"] * 4)), "std_dev holds string with 0 nulls where a number"),
    ],
)  # fmt: skip
def test_measurements_that_are_not_as_they_were_written_are_refused(areas, release, change, message):
    damaged = with_measurements(release, county=change(release.measurements("county")))
    refused(f"release: the measurements of 'county': .*{message}", damaged, areas)


def lists(values):
    return pa.array(values)


def test_path_columns_of_another_kind_are_refused(areas, release):
    table = with_column(release.measurements("state"), "state", pa.array([1.5, 2.5]))
    refused("measurements of 'state': column 'state' holds double", with_measurements(release, state=table), areas,
            kind=TypeError)  # fmt: skip


def test_the_root_that_was_added_has_one_row(areas, release):
    table = release.measurements("all")
    for rows, said in ((table.slice(0, 0), "is missing"), (pa.concat_tables([table, table]), "is listed twice")):
        refused(
            f"release: the measurements of 'all': the node of all {said}", with_measurements(release, all=rows), areas
        )


def test_sorted_sizes_must_be_as_many_as_the_groups(areas):
    made = released(areas, mechanism=tt.sizes.Matching("sorted"))
    table = made.table("county")
    fewer = with_tables(made, county=with_column(table, "groups", pa.array([1] * table.num_rows)))
    refused("release: the measurements of 'all': row 0 has 94 values where sorted_sizes have", fewer, areas,
            mechanism=tt.sizes.Matching("sorted"))  # fmt: skip
    private = dataclasses.replace(made, spec={**made.spec, "invariants": "none", "min_group_size": 1})

    @dataclasses.dataclass(frozen=True)
    class Insists(tt.sizes.Matching):
        def statistics(self, hierarchy, *, invariants):
            return super().statistics(hierarchy, invariants="groups")

    refused("sorted_sizes show numbers of groups, which are private here", private, areas, mechanism=Insists("sorted"))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([0, 1]), "groups must be integers ≥ 1"),
        (pa.array([None, 1]), "without nulls; give a release"),
        (pa.array(["1", "1"]), "groups must be integers ≥ 1"),
        (pa.array([1.5, 1]), "groups must add up to an integer"),
    ],
)
def test_tables_made_by_hand_must_hold_groups(areas, release, column, message):
    table = release.table("county").slice(0, 2)
    made = with_tables(release, county=with_column(table, "groups", column))
    refused(f"release: the table of 'county': .*{message}", made, areas)
    bare = with_tables(release, county=table.drop_columns("groups"))
    refused("release: the table of 'county': there is no column 'groups'", bare, areas)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (tt.sizes.HistogramProjection(),
         r"HistogramProjection\(.*\) wants 'histogram' measured at 'all', but the release measured 'tail_counts' at "
         r"'all', 'tail_counts' at 'state', 'tail_counts' at 'county'; choose Matching\(\), Joint\(\) or Cumulative"),
        (tt.sizes.Chain(), r"Chain\(calibration='valid'\) wants 'chain_tail_counts' measured at 'all'"),
        (tt.sizes.Matching({"all": "cumulative", "state": "sorted", "county": "cumulative"}),
         "Matching.* wants 'sorted_sizes' measured at 'state'"),
    ],
)  # fmt: skip
def test_a_mechanism_that_wants_something_else_is_refused(areas, release, mechanism, message):
    refused(f"mechanism: {message}", release, areas, mechanism=mechanism)


def test_a_mechanism_that_wants_another_level_is_refused():
    table = pa.table({"a": ["x", "y"], "b": ["p", "q"]})
    tree = tt.Hierarchy.from_table(table, ["a", "b"])

    @dataclasses.dataclass(frozen=True)
    class Everywhere(tt.sizes.Matching):
        def statistics(self, hierarchy, *, invariants):
            return dict.fromkeys(hierarchy.levels, "tail_counts")

    made = released(tree, records=pa.table({"a": ["x"], "b": ["p"], "n": [1], "households": [9]}))
    measured = "'tail_counts' at 'all', 'tail_counts' at 'a'"
    message = f"wants 'tail_counts' measured at 'b', but the release measured {measured}; "
    refused(message, made, tree, mechanism=Everywhere())


def test_where_levels_differ_in_what_was_measured_no_single_mechanism_is_proposed(areas):
    made = released(areas, mechanism=tt.sizes.Matching({"all": "naive", "state": "cumulative", "county": "cumulative"}))
    refused("choose a mechanism that works on these, or release anew, which spends a budget", made, areas)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"levels": None}, "hierarchy: its levels are all, state, county, but the release's are not stated"),
        ({"notes": None}, "release: its statement has notes = None; give a release as tallytree wrote it"),
        ({"mechanism": "Matching"}, "release: its statement has mechanism = 'Matching'"),
        ({"guarantee": None}, "release: its statement has guarantee = None"),
        ({"spent": "nothing"}, "release: its statement has spent = 'nothing'"),
        ({"private": "yes"}, "release: its statement has private = 'yes'"),
        ({"private": True, "seeded": True}, "private = True and seeded = True; a seeded release is not private"),
        ({"public_groups_kept": None}, "release: its tables do not have the public numbers of groups"),
    ],
)
def test_a_statement_that_lacks_something_is_refused(areas, release, change, message):
    refused(message, with_statement(release, **change), areas)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("statistic", "medians"),
        ("noise", None),
        ("noise", {"distribution": "uniform", "scale_exact": "3"}),
        *(("noise", {"distribution": "discrete_laplace", "scale_exact": scale})
          for scale in (None, "", "0", "3/0", "-1", "1e999999999", "nan", "1" * 500)),
    ],
)  # fmt: skip
def test_noise_that_is_not_stated_is_refused(areas, release, key, value):
    levels = [{**level, key: value} if level["level"] == "state" else level for level in release.statement["levels"]]
    said = "statistic" if key == "statistic" else "noise"
    refused(
        rf"release: its statement has {said}.* at the level 'state'; give",
        with_statement(release, levels=levels),
        areas,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"invariants": "all"}, "release: its spec has invariants = 'all'"),
        ({"max_group_size": None}, "release: its spec has min_group_size = 0 and max_group_size = None"),
        ({"max_group_size": 2.0}, "max_group_size = 2.0"),
        ({"min_group_size": 9}, "min_group_size = 9 and max_group_size = 6"),
        ({"invariants": "none"}, "its spec has min_group_size = 0 and max_group_size = 6"),
    ],
)
def test_a_spec_that_lacks_something_is_refused(areas, release, change, message):
    refused(message, dataclasses.replace(release, spec={**release.spec, **change}), areas)


def test_fractions_that_do_not_add_up_to_whole_groups_are_refused(areas):
    with pytest.warns(UserWarning, match="For comparison only"):
        first = released(areas, mechanism=tt.sizes.MeanConsistency())
    table = first.table("county")
    for bad, message in ((0.25, "groups must add up to an integer"), (np.nan, "groups must be integers")):
        groups = table["groups"].to_numpy().copy()
        groups[0] += bad
        damaged = with_tables(first, county=with_column(table, "groups", pa.array(groups)))
        refused(message, damaged, areas)


def test_more_cells_than_a_mechanism_holds_are_refused_when_tables_are_made_again(areas, monkeypatch):
    first = released(areas)
    monkeypatch.setattr("tallytree.sizes.mean_consistency.MAX_FITTED_CELLS", 10)
    with pytest.raises(ValueError, match=r"7 × 13 = 91 cells, and takes at most 10; lower max_group_size"):
        tt.reconcile_group_sizes(first, areas, mechanism=tt.sizes.MeanConsistency())
