"""Tables made again from the noisy measurements of a release: the same, other ones, and what cannot be."""

import dataclasses
import itertools
import json
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from tallytree import pipeline as jobs
from tallytree.evaluate.metrics import constraint_violations, earth_movers_distance
from tallytree.hierarchy import Hierarchy
from tallytree.measurements import Measurement, Noise
from tallytree.pipeline import Options, group_sizes_job
from tallytree.postprocess.reconcile_sizes import FITTING, MADE_AGAIN
from tallytree.postprocess.recorded_measurements import RecordedMeasurements
from tallytree.release.paths import node_numbers
from tallytree.sizes import SizesDomain

ROWS = pa.table(
    {
        "state": ["A", "A", "A", "B", "B"],
        "county": ["x", "x", "y", "x", "x"],
        "n": [0, 3, 1, 9, 4],
        "households": [5, 40, 7, 12, 30],
    }
)
MECHANISMS = [
    tt.sizes.Matching(),
    tt.sizes.Matching("sorted"),
    tt.sizes.Matching("naive", merge="average"),
    tt.sizes.Matching({"all": "naive", "state": "cumulative", "county": "cumulative"}),
    tt.sizes.HistogramProjection(),
    tt.sizes.HistogramProjection(solver="cost_table", delta=60),
    tt.sizes.CumulativeProjection(),
    tt.sizes.Chain(),
    tt.sizes.CensusTopDown(),
    tt.sizes.Joint(),
    tt.sizes.BottomUp(),
]
BUDGETS = [tt.Budget(epsilon=2), tt.Budget(rho=0.3), tt.Budget(epsilon=1, delta=1e-6)]


def released(areas, **changes):
    arguments = {
        "budget": tt.Budget(epsilon=2),
        "neighboring": "add_remove",
        "size": "n",
        "groups": "households",
        "max_group_size": 12,
    } | changes
    return tt.release_group_sizes(arguments.pop("records", ROWS), areas, **arguments)


@pytest.fixture(scope="module")
def release(areas):
    return released(areas, max_group_size=6)


@pytest.fixture
def nothing_private(monkeypatch):
    """Fails the test if records are opened, a door to private statistics is made, or noise is drawn."""

    def refuse(*arguments, **options):
        pytest.fail("the private side was opened")

    def close():
        monkeypatch.setattr(jobs.sizes, "Measurer", refuse)
        monkeypatch.setattr(jobs.sizes, "paid_noise", refuse)
        monkeypatch.setattr("tallytree.private.measurer.Measurer", refuse)
        for name in ("count_records", "group_sizes", "group_rows"):
            monkeypatch.setattr(tt.engines.Local, name, refuse)

    return close


def with_measurements(release, **tables):
    """The release with other measurements at some levels."""

    @dataclasses.dataclass(frozen=True)
    class Whole:
        table: pa.Table

        @property
        def num_rows(self):
            return self.table.num_rows

        def read(self, start, stop):
            return self.table.slice(start, stop - start)

    return dataclasses.replace(
        release, _measurements={**release._measurements, **{level: Whole(table) for level, table in tables.items()}}
    )


def with_tables(release, **tables):
    changed = with_measurements(release, **tables)._measurements
    return dataclasses.replace(release, _tables={**release._tables, **{level: changed[level] for level in tables}})


def with_statement(release, **changes):
    return dataclasses.replace(release, statement={**release.statement, **changes})


def with_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, values)


# --- The same again ---


def works(mechanism, invariants):
    """Sorted sizes need public numbers of groups; the paper's dynamic program does not know them."""
    if mechanism == tt.sizes.Matching("sorted"):
        return invariants == "groups"
    return invariants != "groups" or getattr(mechanism, "solver", "") != "cost_table"


CASES = [
    (mechanism, invariants)
    for mechanism, invariants in itertools.product(MECHANISMS, ("groups", "total", "none"))
    if works(mechanism, invariants)
]


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize(("mechanism", "invariants"), CASES, ids=repr)
def test_the_same_mechanism_gives_the_very_same_tables(areas, tmp_path, mechanism, invariants, budget, nothing_private):
    first = released(areas, mechanism=mechanism, invariants=invariants, budget=budget)
    folder = first.save(tmp_path / "out")
    nothing_private()
    for source in (first, folder, str(folder)):
        again = tt.reconcile_group_sizes(source, areas, mechanism=mechanism)
        assert again.levels == first.levels
        for level in first.levels:
            assert again.table(level).equals(first.table(level))
            assert again.measurements(level).equals(first.measurements(level))


@pytest.mark.parametrize("noise", ["keyed", "opendp"])
def test_scales_that_no_float_holds_survive(areas, tmp_path, noise):
    """Scales such as 190/21; those of OpenDP are floats, which `scale_exact` has as fractions."""
    if noise == "opendp":
        pytest.importorskip("opendp")
    split = {"all": 3, "state": 5, "county": 11}
    first = released(areas, budget=tt.Budget(epsilon=0.7), budget_split=split, noise=noise)
    again = tt.reconcile_group_sizes(first.save(tmp_path / "out"), areas)
    assert again.table("county").equals(first.table("county"))
    assert [level["noise"] for level in again.statement["levels"]] == [
        level["noise"] for level in first.statement["levels"]
    ]


@pytest.mark.parametrize("invariants", ["groups", "none"])
def test_levels_that_were_not_measured_stay_so(invariants):
    table = pa.table({"country": ["N"] * 3, "a": ["x", "y", "z"], "b": ["p", "q", "r"]})
    tree = tt.Hierarchy.from_table(table, ["country", "a", "b"])
    rows = pa.table({"a": ["x", "y"], "b": ["p", "q"], "n": [3, 5], "households": [40, 50]})
    first = released(tree, records=rows, invariants=invariants)
    again = tt.reconcile_group_sizes(first, tree)
    assert again.measurements("b").num_rows == 0
    assert [level["measured"] for level in again.statement["levels"]] == [True, True, False]
    assert all(again.table(level).equals(first.table(level)) for level in first.levels)


@pytest.mark.parametrize("leaves", [["only"], ["a", "b"]])
def test_a_tree_of_one_node_or_two(leaves):
    tree = tt.Hierarchy.from_table(pa.table({"leaf": leaves}), ["leaf"])
    rows = pa.table({"leaf": leaves[:1], "n": [2], "households": [40]})
    for invariants in ("groups", "total", "none"):
        first = released(tree, records=rows, invariants=invariants, max_group_size=2)
        again = tt.reconcile_group_sizes(first, tree)
        assert all(again.table(level).equals(first.table(level)) for level in first.levels)


def test_leaves_without_groups_keep_that(areas):
    again = tt.reconcile_group_sizes(released(areas), areas, mechanism=tt.sizes.Joint())
    groups = again.to_pandas("county").groupby(["state", "county"])["groups"].sum().to_dict()
    assert groups == {("A", "x"): 45, ("A", "y"): 7, ("B", "x"): 42}


def test_a_release_much_larger_than_a_chunk_comes_back(tmp_path, monkeypatch):
    """Chunks of another size than when it was measured, and files read in slices."""
    monkeypatch.setattr("tallytree.release.level_tables.ROWS_AT_ONCE", 70)
    counties = [(str(i // 20), str(i)) for i in range(400)]
    tree = tt.Hierarchy.from_table(
        pa.table({"state": [s for s, _ in counties], "county": [c for _, c in counties]}), ["state", "county"]
    )
    random = np.random.default_rng(5)
    chosen = random.integers(0, 390, 3_000)
    rows = pa.table(
        {
            "state": [counties[i][0] for i in chosen],
            "county": [counties[i][1] for i in chosen],
            "n": random.geometric(0.2, 3_000),
            "households": random.integers(1, 9, 3_000),
        }
    )
    for mechanism in (tt.sizes.Matching("sorted"), tt.sizes.Matching(), tt.sizes.CensusTopDown()):
        first = released(tree, records=rows, max_group_size=50, mechanism=mechanism)
        folder = first.save(tmp_path / repr(mechanism))
        with monkeypatch.context() as smaller:
            for module in ("noisy", "level_estimates"):
                smaller.setattr(f"tallytree.sizes.{module}.CELLS_AT_ONCE", 1_000)
            again = tt.reconcile_group_sizes(folder, tree, mechanism=mechanism)
        assert all(again.table(level).equals(first.table(level)) for level in first.levels)


@pytest.mark.shared_data
@pytest.mark.parametrize("mechanism", [tt.sizes.Matching(), tt.sizes.Matching("sorted")], ids=repr)
def test_a_release_of_taxis_comes_back_whole(shared_data, tmp_path, mechanism):
    table = pq.read_table(shared_data / "taxi_2013_manhattan.parquet")
    leaves = table.select(["half", "neighbourhood"]).group_by(["half", "neighbourhood"]).aggregate([])
    tree = tt.Hierarchy.from_table(leaves, ["half", "neighbourhood"])
    first = tt.release_group_sizes(
        table, tree, tt.Budget(epsilon=1), neighboring="add_remove", size="size", groups="groups", mechanism=mechanism
    )
    again = tt.reconcile_group_sizes(first.save(tmp_path / "out"), tree, mechanism=mechanism)
    assert all(again.table(level).equals(first.table(level)) for level in first.levels)


# --- Others ---


@pytest.mark.parametrize("invariants", ["groups", "total", "none"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (tt.sizes.Matching(), tt.sizes.Joint()),
        (tt.sizes.Joint(), tt.sizes.CumulativeProjection()),
        (tt.sizes.CumulativeProjection(), None),
        (tt.sizes.HistogramProjection(), tt.sizes.CensusTopDown()),
        (tt.sizes.CensusTopDown(), tt.sizes.Matching("naive")),
    ],
    ids=repr,
)
def test_another_mechanism_gives_what_it_would_have_given_on_the_same_noise(areas, first, second, invariants):
    """The oracle looks the noisy values up in plain lists, and knows the public numbers from the records."""
    made = released(areas, mechanism=first, invariants=invariants)
    noise = {level["level"]: level["noise"] for level in made.statement["levels"]}

    class Replay:
        def measure(self, level, nodes, statistic):
            lists = made.measurements(level)["values"].to_pylist()
            values = [value for node in nodes for value in lists[node]]
            offsets = np.cumsum([0, *(len(lists[node]) for node in nodes)])
            law = Noise(noise[level]["distribution"], Fraction(noise[level]["scale_exact"]))
            return Measurement(level, statistic, nodes, np.array(values), offsets, law)

    groups = {"groups": [45, 7, 0, 42], "total": [40, 7, 0, 42], "none": [0] * 4}[invariants]
    domain = SizesDomain.from_leaves(areas, np.array(groups), 0 if invariants == "groups" else 1, 12, invariants)
    expected = (second or tt.sizes.Joint()).reconcile(domain, Replay())
    again = tt.reconcile_group_sizes(made, areas, mechanism=second)
    tables = [again.table(level) for level in again.levels]
    for table, level in zip(tables, expected, strict=True):
        assert table["size"].to_pylist() == level.sizes.tolist()
        assert table["groups"].to_pylist() == level.groups.tolist()
    assert sum(constraint_violations(above, below) for above, below in itertools.pairwise(tables)) == 0
    assert again.statement["constraint_violations"] == 0
    assert again.statement["public_groups_kept"] is True
    back = tt.reconcile_group_sizes(again, areas, mechanism=first)
    assert all(back.table(level).equals(made.table(level)) for level in made.levels)


def test_an_estimator_that_does_not_go_with_the_release_is_told_of_in_its_terms(areas):
    made = released(areas, invariants="none")
    with pytest.raises(
        ValueError, match=r"^mechanism: Matching\(.*does not go with a release with invariants = 'none' that measured"
    ):
        tt.reconcile_group_sizes(made, areas, mechanism=tt.sizes.Matching("sorted"))


def test_with_next_to_no_noise_any_fitting_mechanism_gives_the_truth(areas):
    made = released(areas, budget=tt.Budget(epsilon=50_000), mechanism=tt.sizes.Matching())
    for mechanism in (tt.sizes.Joint(), tt.sizes.CumulativeProjection()):
        again = tt.reconcile_group_sizes(made, areas, mechanism=mechanism)
        assert (
            earth_movers_distance(
                again.table("county"), ROWS.rename_columns([*ROWS.column_names[:2], "size", "groups"])
            ).sum()
            == 0
        )


def test_every_mechanism_that_is_proposed_works_on_what_was_measured(areas):
    names = {name: getattr(tt.sizes, name) for name in tt.sizes.__all__}
    proposed = {
        statistic: [eval(text, names) for text in re.split(", | or ", texts)]  # noqa: S307  (our own constant)
        for statistic, texts in FITTING.items()
    }
    for statistic, mechanisms in proposed.items():
        for mechanism in mechanisms:
            assert set(mechanism.statistics(areas, invariants="groups").values()) == {statistic}
    offered = {type(each) for each in MECHANISMS} - {tt.sizes.BottomUp}  # it measures the leaves alone
    assert {type(each) for mechanisms in proposed.values() for each in mechanisms} == offered


def test_a_mechanism_may_use_less_than_was_measured(areas):
    @dataclasses.dataclass(frozen=True)
    class LeavesOnly:
        """Matching of the leaves' level with nothing: only what the mechanism asks for must be there."""

        def statistics(self, hierarchy, *, invariants):
            return {hierarchy.levels[-1]: "histogram"}

        def reconcile(self, domain, measurer):
            from tallytree.sizes.nearest_consistent import released
            from tallytree.sizes.noisy import measure_level

            noisy = measure_level(domain, len(domain.hierarchy.levels) - 1, measurer, "histogram")
            return released(domain, np.maximum(noisy.values, 0))

    made = released(areas, mechanism=tt.sizes.HistogramProjection(), invariants="none")
    again = tt.reconcile_group_sizes(made, areas, mechanism=LeavesOnly())
    leaf = np.maximum(np.array(made.measurements("county")["values"].to_pylist()), 0)
    assert sum(again.table("all")["groups"].to_pylist()) == leaf.sum()


# --- The statement ---


def test_the_statement_is_the_earlier_one_with_another_mechanism(areas, tmp_path):
    made = released(areas, invariants="total", ledger=tmp_path / "ledger", dataset="homes", on_unknown="drop")
    again = tt.reconcile_group_sizes(made, areas, mechanism=tt.sizes.Joint(smoothness=1))
    changed = {"mechanism", "reconciled", "notes"}
    for key in made.statement.keys() - changed:
        assert again.statement[key] == made.statement[key], key
    assert again.statement["mechanism"] == {"name": "Joint", "options": {"smoothness": 1, "tolerance": 0.01}}
    assert again.statement["reconciled"]["measured_for"] == made.statement["mechanism"]
    assert again.statement["reconciled"]["software"]["tallytree"] == tt.__version__
    note, *others = again.statement["notes"]
    assert note.startswith(MADE_AGAIN)
    assert "nothing more was spent" in note
    assert others == made.statement["notes"]
    assert again.spec == made.spec
    assert "reconciled" not in made.statement
    loaded = tt.Release.load(again.save(tmp_path / "again"))
    assert loaded.statement == again.statement
    assert len(tt_ledger(tmp_path / "ledger").entries) == 1


def tt_ledger(path):
    from tallytree.ledger import Ledger

    return Ledger(path).dataset("homes")


def test_again_and_again_names_the_first_mechanism_and_says_it_once(areas):
    made = released(areas)
    again = tt.reconcile_group_sizes(made, areas, mechanism=tt.sizes.Joint())
    twice = tt.reconcile_group_sizes(again, areas, mechanism=tt.sizes.CumulativeProjection())
    assert twice.statement["reconciled"]["measured_for"] == made.statement["mechanism"]
    assert sum(note.startswith(MADE_AGAIN) for note in twice.statement["notes"]) == 1
    assert "by CumulativeProjection" in twice.statement["notes"][0]


def test_a_seeded_release_stays_one_that_protects_nobody(areas):
    again = tt.reconcile_group_sizes(released(areas, seed=1), areas)
    assert again.statement["private"] is False
    assert again.statement["spent"] == {"epsilon": "infinity"}
    assert again.statement["guarantee"].startswith("NOT PRIVATE")


def test_a_published_calibration_is_stated_and_stays(areas):
    chain = tt.sizes.Chain("as_published")
    with pytest.warns(UserWarning, match="truly spends"):
        made = released(areas, mechanism=chain)
    again = tt.reconcile_group_sizes(made, areas, mechanism=chain)
    assert all(again.table(level).equals(made.table(level)) for level in made.levels)
    valid = tt.reconcile_group_sizes(again, areas, mechanism=tt.sizes.Chain())
    for each in (again, valid):
        assert any("truly spends" in note for note in each.statement["notes"])
        assert each.statement["spent"] == made.statement["spent"]
    with pytest.raises(
        ValueError, match=r"mechanism: Chain\(calibration='as_published'\) is calibrated as published, "
    ):
        tt.reconcile_group_sizes(released(areas, mechanism=tt.sizes.Chain()), areas, mechanism=chain)


def test_what_does_not_add_up_is_cautioned_about_and_mended(areas):
    pytest.importorskip("cvxpy")
    relaxed = tt.sizes.HistogramProjection(solver="relaxed")
    with pytest.warns(UserWarning, match="need not add up"):
        made = released(areas, mechanism=relaxed, invariants="none")
    mended = tt.reconcile_group_sizes(made, areas, mechanism=tt.sizes.HistogramProjection())
    assert not any("need not add up" in note for note in mended.statement["notes"])
    assert mended.statement["constraint_violations"] == 0
    with pytest.warns(UserWarning, match="mechanism: .* need not add up"):
        back = tt.reconcile_group_sizes(mended, areas, mechanism=relaxed)
    assert back.statement["notes"][0] == made.statement["notes"][0]
    assert back.statement["constraint_violations"] == made.statement["constraint_violations"]


def test_public_numbers_that_the_tables_do_not_have_are_not_taken_from_them(areas):
    """A mechanism of one's own that loses a group says so in its statement, and is not built upon."""

    @dataclasses.dataclass(frozen=True)
    class Loses(tt.sizes.Matching):
        def reconcile(self, domain, measurer):
            levels = super().reconcile(domain, measurer)
            return [dataclasses.replace(level, groups=level.groups + (level.sizes == 3)) for level in levels]

    for invariants in ("groups", "total"):
        made = released(areas, mechanism=Loses(), invariants=invariants, budget=tt.Budget(epsilon=5_000))
        assert made.statement["public_groups_kept"] is False
        with pytest.raises(ValueError, match="release: its tables do not have the public numbers of groups"):
            tt.reconcile_group_sizes(made, areas)
    made = released(areas, mechanism=Loses(), invariants="none", budget=tt.Budget(epsilon=5_000))
    assert made.statement["public_groups_kept"] is True
    tt.reconcile_group_sizes(made, areas)


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
    refused("folder: .* is not a whole release", tmp_path, areas)
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
        (lambda t: with_column(t, "values", lists([[1.5] * 6] * 4)), "values hold list<.*double> where lists of whole"),
        (lambda t: with_column(t, "values", pa.array([1, 2, 3, 4])), "values hold int64 where lists of whole numbers"),
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
        (pa.array([0, 1]), "groups must be whole numbers from 1 on"),
        (pa.array([None, 1]), "without nulls; give a release"),
        (pa.array([1.5, 1]), "groups must add up to a whole number"),
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


# --- The recorded measurements ---


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_recorded_values_are_found_in_any_chunks(data):
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=12))
    nodes = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=20)), dtype=np.int64)
    rows = [[100 * node + cell for cell in range(length)] for node, length in enumerate(lengths)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = np.array([cell for row in rows for cell in row], dtype=np.int64)
    whole = Measurement("a", "histogram", np.arange(len(lengths)), values, offsets, Noise("discrete_laplace", 3))
    found = RecordedMeasurements({"a": whole}).measure("a", nodes, "histogram")
    assert found.nodes.tolist() == nodes.tolist()
    cells = [found.values[begin:end].tolist() for begin, end in itertools.pairwise(found.offsets)]
    assert cells == [rows[node] for node in nodes]


def test_consecutive_nodes_are_not_copied():
    values = np.arange(10)
    whole = Measurement("a", "histogram", np.arange(5), values, np.arange(0, 11, 2), Noise("discrete_laplace", 3))
    found = RecordedMeasurements({"a": whole}).measure("a", np.array([1, 2, 3]), "histogram")
    assert np.shares_memory(found.values, values)
    assert found.values.tolist() == [2, 3, 4, 5, 6, 7]
    assert found.offsets.tolist() == [0, 2, 4, 6]


def test_a_part_of_a_node_is_found_and_no_other_cells_are():
    values = np.arange(10)
    whole = Measurement("a", "histogram", np.arange(3), values, np.array([0, 4, 4, 10]), Noise("discrete_laplace", 3))
    recorded = RecordedMeasurements({"a": whole})
    part = recorded.measure("a", np.array([2]), "histogram", (1, 4))
    assert (part.values.tolist(), part.offsets.tolist(), part.first_cell) == ([5, 6, 7], [0, 3], 1)
    for nodes, cells in (([2], (0, 7)), ([2], (-1, 2)), ([0], (4, 5)), ([1], (0, 1)), ([2], (3, 3))):
        with pytest.raises(ValueError, match=r"cells: .* must be a part of 0 … \d that is not empty"):
            recorded.measure("a", np.array(nodes), "histogram", cells)
    with pytest.raises(ValueError, match="a part is of one node, and nodes has 2"):
        recorded.measure("a", np.array([0, 2]), "histogram", (0, 1))


def test_what_was_not_recorded_is_refused():
    whole = Measurement("a", "histogram", np.arange(2), np.arange(2), np.arange(3), Noise("discrete_laplace", 3))
    recorded = RecordedMeasurements({"a": whole})
    for level, statistic in (("b", "histogram"), ("a", "tail_counts")):
        with pytest.raises(ValueError, match=f"measure: '{statistic}' at level '{level}' is not among the recorded "
                           "measurements, which are 'histogram' at 'a'; ask for those"):  # fmt: skip
            recorded.measure(level, np.array([0]), statistic)
    for nodes in ([2], [-1]):
        with pytest.raises(ValueError, match=r"nodes: .* must lie between 0 and 1"):
            recorded.measure("a", np.array(nodes), "histogram")


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("ABé,"), st.sampled_from("xyz")), min_size=1, unique=True), st.data())
def test_nodes_are_found_by_their_paths(leaves, data):
    names = ["node", "row"]  # as awkward as names can be
    tree = Hierarchy.from_table(pa.table(dict(zip(names, zip(*leaves, strict=True), strict=True))), names)
    rows = data.draw(st.lists(st.tuples(st.sampled_from("ABé,"), st.sampled_from("xyz")), min_size=1))
    paths = pa.table(
        {name: pa.array(column, pa.large_string()) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    )
    known = [(leaf["node"], leaf["row"]) for leaf in tree.leaf_table().to_pylist()]
    expected = [known.index(row) if row in known else -1 for row in rows]
    assert node_numbers(tree, len(tree.levels) - 1, paths, len(rows)).tolist() == expected


def test_a_released_job_says_whether_it_keeps_public_numbers(areas):
    job = group_sizes_job(
        ROWS, areas, tt.Budget(epsilon=1), Options(neighboring="add_remove"), size="n", groups="households",
    )  # fmt: skip
    assert "public_groups_kept" not in job.statement()
    assert job.run().statement["public_groups_kept"] is True
    json.dumps(job.run().statement)


# --- Mechanisms kept for comparison ---


@pytest.mark.parametrize("invariants", ["groups", "total", "none"])
@pytest.mark.parametrize("mechanism", [tt.sizes.Independent(), tt.sizes.MeanConsistency()], ids=repr)
def test_what_falls_short_is_made_again_with_its_caveat_and_without_it_by_another(areas, mechanism, invariants):
    with pytest.warns(UserWarning, match="For comparison only"):
        first = released(areas, mechanism=mechanism, invariants=invariants)
    assert first.statement["public_groups_kept"] is True
    with pytest.warns(UserWarning, match="For comparison only"):
        again = tt.reconcile_group_sizes(first, areas, mechanism=mechanism)
    other = tt.reconcile_group_sizes(first, areas, mechanism=tt.sizes.Joint())
    with pytest.warns(UserWarning, match="For comparison only"):
        back = tt.reconcile_group_sizes(other, areas, mechanism=mechanism)
    for level in first.levels:
        assert again.table(level).equals(first.table(level))
        assert back.table(level).equals(first.table(level))
    for release in (again, back):
        assert [note.endswith("For comparison only.") for note in release.statement["notes"]].count(True) == 1
        for key in ("constraint_violations", "negative_numbers", "fractional_numbers", "public_groups_kept"):
            assert release.statement[key] == first.statement[key]
    assert not any("comparison" in note for note in other.statement["notes"])
    assert other.statement["negative_numbers"] == other.statement["fractional_numbers"] == 0


def test_fractions_that_do_not_add_up_to_whole_groups_are_refused(areas):
    with pytest.warns(UserWarning, match="For comparison only"):
        first = released(areas, mechanism=tt.sizes.MeanConsistency())
    table = first.table("county")
    for bad, message in ((0.25, "groups must add up to a whole number"), (np.nan, "groups must be whole numbers")):
        groups = table["groups"].to_numpy().copy()
        groups[0] += bad
        damaged = with_tables(first, county=with_column(table, "groups", pa.array(groups)))
        refused(message, damaged, areas)


def test_leaves_alone_are_made_again_from_every_level_but_no_other_level_from_the_leaves(areas):
    bottom_up = released(areas, mechanism=tt.sizes.BottomUp())
    with pytest.raises(ValueError, match=r"wants 'tail_counts' measured at 'all', .* choose BottomUp\(\), with the"):
        tt.reconcile_group_sizes(bottom_up, areas, mechanism=tt.sizes.Joint())
    again = tt.reconcile_group_sizes(released(areas), areas, mechanism=tt.sizes.BottomUp(norm=2))
    assert again.statement["constraint_violations"] == 0
    assert again.statement["mechanism"]["name"] == "BottomUp"


def test_more_cells_than_a_mechanism_holds_are_refused_when_tables_are_made_again(areas, monkeypatch):
    first = released(areas)
    monkeypatch.setattr("tallytree.sizes.mean_consistency.MAX_FITTED_CELLS", 10)
    with pytest.raises(ValueError, match=r"7 × 13 = 91 cells, and takes at most 10; lower max_group_size"):
        tt.reconcile_group_sizes(first, areas, mechanism=tt.sizes.MeanConsistency())
