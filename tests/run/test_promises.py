"""A mechanism from outside is tried before the payment; what it breaks later is marked, and nothing paid is lost."""

import dataclasses
import json
import logging
import pickle

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.foreign import FinestTable, LeafTails, Rounded, UniformBelow
from helpers.inside import NoisyAnswers, is_foreign
from tallytree.ledger import Ledger
from tallytree.mechanisms import CountsMechanism, ReleasedCounts, reconcile_counts, sums_of_counts
from tallytree.run import CountsArguments, check, make_release, plan_counts, rehearsal

AREAS = tt.Hierarchy.from_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}), ["state", "county"])
PEOPLE = pa.table({"state": ["A", "A", "B"] * 100, "county": ["x", "y", "x"] * 100})
BUDGET = tt.Budget(epsilon=1)


def released(mechanism, **options):
    options = {"neighboring": "add_remove", **options}
    return tt.release_counts(PEOPLE, AREAS, BUDGET, mechanism=mechanism, **options)


def test_a_mechanism_that_keeps_its_promises_is_released_and_marked_as_not_audited():
    made = released(UniformBelow())
    assert made.table("county").num_rows == 3
    code = "helpers.foreign:UniformBelow"
    assert made.statement["mechanism"] == {
        "name": "UniformBelow", "options": {"level": "state", "add": 0}, "code": code
    }  # fmt: skip
    assert made.statement["notes"][0].startswith(
        f"The mechanism UniformBelow ({code}) is code from outside, not audited"
    )
    assert "broken_promises" not in made.statement


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("adds_up", r"it does not hold that the numbers of the children .* breaks = frozenset\(\{\"adds_up\"\}\)$"),
        ("not_negative", r"it does not hold that no number is negative.*\(\{\"not_negative\"\}"),
        ("integers", r"that all numbers are integers.*\(\{\"integers\"\}"),
        ("fails", r"records in at most 400 leaves, and failed \(IndexError: .*\)\. Nothing was spent; correct it$"),
        ("too few levels", r"ReleasedCounts for every level, root first: all, state, county\)"),
        ("not finite", "counts of the level 'all' must be finite, and smaller than 2"),
        ("unknown nodes", "nodes of the level 'county' must lie between 0 and 2"),
        ("a node twice", "a node of the level 'county' is there twice"),
        ("a list", r"counts of the level 'county' must be an array of numbers of the shape \(3,\), not list"),
        ("deviations of some", "nodes of the level 'county' must be all of them where they have std_dev"),
    ],
)
def test_what_a_mechanism_breaks_is_refused_before_the_payment(tmp_path, fault, says):
    ledger = Ledger.create(tmp_path / "ledger.db")
    with pytest.raises(ValueError, match=f"^mechanism: Rounded \\(helpers.foreign:Rounded\\) was tried.*{says}"):
        released(Rounded(fault), ledger=ledger, dataset="people")
    assert ledger.entries() == ()


def test_a_public_total_has_to_be_kept_or_given_up():
    @dataclasses.dataclass(frozen=True)
    class Loses(Rounded):
        def reconcile(self, tree, total, measurer):
            return super().reconcile(tree, None if total is None else total + 1, measurer)

    with pytest.raises(ValueError, match=r'numbers that are public are published as they are.*"public_numbers"'):
        released(Loses(), neighboring="change_one")


def test_nothing_private_is_tabulated_before_the_mechanism_was_tried(monkeypatch):
    seen = []
    planned = plan_counts(CountsArguments(PEOPLE, AREAS, BUDGET, neighboring="add_remove", mechanism=Rounded("fails")))
    monkeypatch.setattr(type(planned), "tabulate", lambda *given: seen.append("tabulated"))
    for attempt in (make_release, check):
        with pytest.raises(ValueError, match="Nothing was spent"):
            attempt(planned)
    assert seen == []


def test_the_made_up_statistics_do_not_depend_on_the_records():
    """Mechanisms see, in what they are tried on, the same numbers whatever is released."""
    told = []

    @dataclasses.dataclass(frozen=True)
    class Tells(CountsMechanism):
        keeps_total = False

        def statistics(self, tree, *, total_is_public):
            return {tree.levels[-1]: "counts"}

        def reconcile(self, tree, total, measurer):
            nodes = np.arange(tree.size(len(tree.levels) - 1))
            told.append(measurer.measure(tree.levels[-1], nodes, "counts").values.tolist())
            return sums_of_counts(tree, ReleasedCounts(nodes, np.maximum(told[-1], 0)))

    released(Tells())
    first, told[:] = [*told], []
    tt.release_counts(PEOPLE.slice(0, 30), AREAS, BUDGET, mechanism=Tells(), neighboring="add_remove")
    assert len(first) == len(told) == len(rehearsal.RECORDS) + 1
    assert first[:-1] == told[:-1]
    assert first[-1] != told[-1]


def test_mechanisms_of_the_library_are_not_tried(monkeypatch):
    monkeypatch.setattr(rehearsal, "RECORDS", None)  # trying one would fail
    assert released(tt.counts.TopDown()).table("county").num_rows == 3
    with pytest.raises(TypeError):
        released(UniformBelow())


def test_large_trees_are_cut_for_the_trial():
    areas = tt.Hierarchy.from_table(
        pa.table({"state": [f"{i // 100}" for i in range(5_000)], "county": [f"{i}" for i in range(5_000)]}),
        ["state", "county"],
    )
    planned = plan_counts(
        CountsArguments(PEOPLE, areas, BUDGET, neighboring="add_remove", mechanism=UniformBelow("county"))
    )
    small, true = planned.made_up(400)
    assert small.tree.levels == ("all", "state", "county")
    assert small.tree.size(2) == 500
    assert 100 < len(true.present("county")[0]) <= 400


def test_what_is_broken_on_the_real_data_is_saved_marked_and_can_be_made_again(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "tallytree"):
        made = released(OnlyHere())
    assert caplog.messages == [made.statement["notes"][0]]
    assert made.statement["broken_promises"] == ["adds_up"]
    assert made.statement["notes"][0].startswith("BROKEN PROMISE. OnlyHere (")
    assert "reconcile_counts" in made.statement["notes"][0]
    assert made.measurements("county").num_rows == 3
    loaded = tt.Release.load(made.save(tmp_path / "out"))
    assert loaded.statement["broken_promises"] == ["adds_up"]
    again = reconcile_counts(loaded)
    assert again.statement["mechanism"]["name"] == "LeastSquares"
    assert again.statement["reconciled"]["measured_for"]["name"] == "OnlyHere"
    assert "broken_promises" not in again.statement
    assert not any("BROKEN" in note or "not audited" in note for note in again.statement["notes"])
    assert again.statement["constraint_violations"] == 0
    assert sum(again.table("county")["count"].to_pylist()) == again.table("all")["count"][0].as_py()
    assert again.measurements("county").equals(loaded.measurements("county"))


@dataclasses.dataclass(frozen=True)
class OnlyHere(Rounded):
    """Adds up but where a county has about 100 records, which the made-up statistics on this tree have not."""

    def reconcile(self, tree, total, measurer):
        levels = super().reconcile(tree, total, measurer)
        if 250 < sum(levels[-1].counts) < 350:
            levels[0] = ReleasedCounts(levels[0].nodes, levels[0].counts + 7)
        return levels


def test_a_declared_trait_is_a_caution_and_no_fault():
    @dataclasses.dataclass(frozen=True)
    class Adds(UniformBelow):
        breaks = frozenset({"adds_up"})

    with pytest.warns(UserWarning, match="does not promise that the numbers of the children .* For comparison only"):
        made = released(Adds(add=7))
    assert made.statement["constraint_violations"] > 0
    assert "broken_promises" not in made.statement


def test_reconciling_by_a_mechanism_that_breaks_a_promise_is_refused():
    made = released(Rounded())
    assert reconcile_counts(made, mechanism=Rounded()).table("county").equals(made.table("county"))
    with pytest.raises(ValueError, match=r"it does not hold that the numbers of the children.* choose another$"):
        reconcile_counts(made, mechanism=Rounded("adds_up"))
    with pytest.raises(ValueError, match="it wants 'stable_counts' measured at 'county', and the release measured"):
        reconcile_counts(made, mechanism=tt.counts.StabilityHistogram())
    with pytest.raises(ValueError, match="it wants 'total' measured at 'all', and the release measured 'counts' at"):
        reconcile_counts(released(UniformBelow()), mechanism=Rounded())
    with pytest.raises(TypeError, match=r"^release: NoneType must be a tallytree\.Release"):
        reconcile_counts(None)


def test_reconciling_counts_by_the_same_mechanism_gives_the_same_tables():
    for mechanism in (tt.counts.LeastSquares(), tt.counts.TopDown()):
        for relation in ("add_remove", "change_one"):
            made = released(mechanism, neighboring=relation)
            again = reconcile_counts(made, mechanism=mechanism)
            assert [again.table(level) for level in made.levels] == [made.table(level) for level in made.levels]


def test_nodes_may_come_in_any_order():
    @dataclasses.dataclass(frozen=True)
    class Reversed(Rounded):
        def reconcile(self, tree, total, measurer):
            levels = super().reconcile(tree, total, measurer)
            nodes = np.arange(tree.size(len(tree.levels) - 1))
            counts = np.zeros(len(nodes), dtype=int)
            counts[levels[-1].nodes] = levels[-1].counts
            turned = [ReleasedCounts(each.nodes[::-1], each.counts[::-1]) for each in levels]
            return [*turned[:-1], ReleasedCounts(nodes[::-1], counts[::-1], std_dev=nodes + 1)]

    made = released(Reversed())
    assert made.table("county")["std_dev"].to_pylist() == [3, 2, 1]
    assert made.statement["constraint_violations"] == 0


def test_group_sizes_and_tables_from_outside():
    groups = pa.table(
        {**{name: PEOPLE[name] for name in PEOPLE.column_names}, "home": [i // 6 * 3 + i % 3 for i in range(300)]}
    )
    sizes = {"group": "home", "neighboring": "add_remove", "max_group_size": 9, "invariants": "none"}
    made = tt.release_group_sizes(groups, AREAS, BUDGET, mechanism=LeafTails(), **sizes)
    assert made.statement["constraint_violations"] == 0
    assert tt.replicate_errors(made, 10).table("county").column_names[-3:-1] == ["ci_lower", "ci_upper"]
    for fault, says in (("sizes", "sizes of the level 'all' must lie between 0 and 9"), ("integers", "integers")):
        with pytest.raises(ValueError, match=says):
            tt.release_group_sizes(groups, AREAS, BUDGET, mechanism=LeafTails(fault), **sizes)
    sexes = tt.Hierarchy.from_values("sex", ["f", "m"])
    product = tt.Product({"area": AREAS, "sex": sexes})
    people = PEOPLE.append_column("sex", pa.array(["f", "m"] * 150))
    options = {"neighboring": "add_remove", "tables": [("county", "sex"), ("state",)]}
    table = tt.release_tables(people, product, BUDGET, mechanism=FinestTable(), **options)
    assert table.statement["fractional_numbers"] == 0
    assert table.table("state").column_names == ["state", "count"]
    assert tt.replicate_errors(table, 10).table("state").num_rows == 2
    with pytest.raises(ValueError, match="made by a mechanism from outside, and the errors of their sums are not"):
        table.total()
    for fault, says in (
        ("integers", "all numbers are integers"),
        ("state", "std_devs must have the table 'state', or no table"),
        ("negative", "std_devs of '.*' must not be negative"),
        ("typical", "typical_errors are given without std_devs; give both, or none"),
        ("typical_negative", "typical_errors of '.*' must not be negative"),
    ):
        with pytest.raises(ValueError, match=says):
            tt.release_tables(people, product, BUDGET, mechanism=FinestTable(fault), **options)


def test_flows_from_outside_list_what_is_not_0():
    sides = {side: [f"{side}_state", f"{side}_county"] for side in ("origin", "destination")}
    trips = pa.table({name: PEOPLE[name.partition("_")[2]] for names in sides.values() for name in names})
    made = tt.release_flows(
        trips, origins=AREAS, destinations=AREAS, **sides, budget=tt.Budget(epsilon=20), neighboring="add_remove",
        mechanism=UniformBelow("destination_state"),
    )  # fmt: skip
    assert 0 not in made.table("origin_county")["count"].to_pylist()


def test_a_bound_that_the_release_chooses_is_tried_too():
    people = PEOPLE.append_column("id", pa.array([i % 150 for i in range(300)]))
    options = {"person": "id", "max_contributions": "auto", "contributions": 0.3, "neighboring": "add_remove"}
    with pytest.raises(ValueError, match="Nothing was spent; correct it"):
        tt.release_counts(people, AREAS, BUDGET, mechanism=Rounded("fails"), **options)
    made = tt.release_counts(people, AREAS, BUDGET, mechanism=Rounded(), **options)
    assert made.statement["mechanism"]["code"] == "helpers.foreign:Rounded"


@pytest.mark.parametrize(
    ("option", "error"), [(np.zeros(2), "ndarray"), (float("nan"), "float"), ({1, 2}, "set"), (object(), "object")]
)
def test_options_that_cannot_be_published_are_refused(option, error):
    with pytest.raises(TypeError, match=f"^mechanism: the option 'fault' of Rounded is {error}, and options are publ"):
        released(Rounded(option))


def test_a_mechanism_that_can_be_changed_is_refused():
    @dataclasses.dataclass(unsafe_hash=True)
    class Changes(CountsMechanism):
        level: str = "state"

        def statistics(self, tree, *, total_is_public):
            return {self.level: "counts"}

        def reconcile(self, tree, total, measurer):
            return []

    with pytest.raises(TypeError, match=r"Changes can be changed .* @dataclass\(frozen=True\)"):
        released(Changes())


def test_what_a_mechanism_measures_with_can_be_neither_read_nor_copied():
    handed = []

    @dataclasses.dataclass(frozen=True)
    class Keeps(UniformBelow):
        def reconcile(self, tree, total, measurer):
            handed.append(measurer)
            return super().reconcile(tree, total, measurer)

    released(Keeps())
    for measurer in handed:
        assert type(measurer) is NoisyAnswers
        assert not hasattr(measurer, "__dict__")
        with pytest.raises(TypeError, match="stays in its process"):
            pickle.dumps(measurer)


def test_a_mechanism_cannot_change_what_the_statement_says():
    @dataclasses.dataclass(frozen=True)
    class Boasts(UniformBelow):
        def reconcile_and_tell(self, tree, total, measurer):
            return self.reconcile(tree, total, measurer), {"spent": {"epsilon": 0}, "private": False}

    made = released(Boasts())
    assert made.statement["spent"] == {"epsilon": 1.0}
    assert made.statement["private"] is True


def test_a_subclass_of_a_mechanism_of_the_library_is_from_outside():
    @dataclasses.dataclass(frozen=True)
    class LeastSquares(tt.counts.LeastSquares):
        """Like the library's, by name too."""

    made = released(LeastSquares(), seed=1)
    assert made.statement["mechanism"]["code"].endswith("LeastSquares")
    assert json.dumps(made.statement)
    with pytest.raises(ValueError, match="is code from outside, which is not installed here"):
        tt.replicate_errors(made, 10)  # a local class is found by no name


def test_a_class_that_only_says_that_it_is_the_librarys_is_from_outside(monkeypatch):
    kind = dataclasses.make_dataclass("Posing", [], bases=(UniformBelow,), frozen=True)
    monkeypatch.setattr(kind, "__module__", "tallytree.counts.posing")  # a module that is not there
    monkeypatch.setattr(kind, "Posing", kind, raising=False)
    assert is_foreign(kind())
    monkeypatch.setattr(kind, "__module__", "tallytree.counts")
    assert is_foreign(kind())
    assert not is_foreign(tt.counts.LeastSquares())


def test_a_mechanism_from_outside_does_not_work_in_bands():
    @dataclasses.dataclass(frozen=True)
    class Down(tt.counts.TopDown):
        """Could tell the statement anything when it begins."""

    @dataclasses.dataclass(frozen=True)
    class Match(tt.sizes.Matching):
        """Would get the measurements themselves."""

    message = r"^memory: {} is code from outside, which works on the whole tree in memory; leave memory out$"
    with pytest.raises(ValueError, match=message.format("Down")):
        released(Down(), memory="1GB")
    groups = PEOPLE.append_column("home", pa.array(range(300)))
    sizes = {"group": "home", "neighboring": "add_remove", "max_group_size": 9, "invariants": "none"}
    with pytest.raises(ValueError, match=message.format("Match")):
        tt.release_group_sizes(groups, AREAS, BUDGET, mechanism=Match(), memory="1GB", **sizes)


class EqualsCounts(str):
    """A statistic that is read as another one than it is compared as."""

    def __eq__(self, other):
        return other in ("counts", str(self))

    def __hash__(self):
        return hash("counts")


def test_a_statistic_is_measured_as_what_it_is_compared_as():
    @dataclasses.dataclass(frozen=True)
    class Two(UniformBelow):
        def statistics(self, tree, *, total_is_public):
            return {"state": EqualsCounts("distinct_counts")}

    @dataclasses.dataclass(frozen=True)
    class Numbers(UniformBelow):
        def statistics(self, tree, *, total_is_public):
            return {"state": 1}

    with pytest.raises(ValueError, match="Two wants 'distinct_counts' measured at 'state'; what can be measured"):
        released(Two())
    with pytest.raises(TypeError, match=r"^mechanism: its statistics must be a mapping"):
        released(Numbers())


def test_a_mechanism_is_not_told_how_many_records_there_are():
    told = []

    class Hears(int):
        def __lt__(self, other):
            told.append(other)
            return False

    @dataclasses.dataclass(frozen=True)
    class Most(UniformBelow):
        @property
        def most(self):
            return Hears(1_000)

    released(Most())
    assert told == []


def test_remainders_are_of_the_librarys_fit():
    @dataclasses.dataclass(frozen=True)
    class Own(tt.counts.LeastSquares):
        """Would silently be taken for the library's."""

    with pytest.raises(ValueError, match="unlisted: 'remainder' is of LeastSquares, and the mechanism is Own"):
        released(Own(), unlisted="remainder")


def test_a_mechanism_from_outside_spends_no_more_than_the_budget(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Spends(LeafTails):
        def understatement(self, hierarchy):
            return {hierarchy.levels[-1]: 50}

    groups = PEOPLE.append_column("home", pa.array(range(300)))
    sizes = {"group": "home", "neighboring": "add_remove", "max_group_size": 9, "invariants": "none"}
    ledger = Ledger.create(tmp_path / "ledger.db")
    with pytest.raises(ValueError, match=r"mechanism: Spends .*spend more than the"):
        tt.release_group_sizes(groups, AREAS, BUDGET, mechanism=Spends(), ledger=ledger, dataset="people", **sizes)
    assert ledger.entries() == ()


@dataclasses.dataclass(frozen=True)
class Ends(UniformBelow):
    """Ends the program, where the total is above a number, with an exit code."""

    above: int = -1
    code: int = 0

    def reconcile(self, tree, total, measurer):
        levels = super().reconcile(tree, total, measurer)
        if self.above < sum(levels[-1].counts) < 350:
            raise SystemExit(self.code)
        return levels


def test_a_mechanism_does_not_end_the_program_as_if_the_command_were_done():
    with pytest.raises(ValueError, match=r"was tried .* failed \(RuntimeError: mechanism: .*Ends ended the program"):
        released(Ends())
    with pytest.raises(RuntimeError, match=r"mechanism: .*Ends ended the program; correct it"):
        released(Ends(above=250))  # the made-up statistics have other totals
    with pytest.raises(SystemExit, match="143"):  # as where a signal tells the program to end
        released(Ends(above=250, code=143))


@pytest.mark.filterwarnings("ignore:mechanism. .* For comparison only")
def test_what_a_mechanism_spoils_while_it_is_tried_is_a_copy():
    @dataclasses.dataclass(frozen=True)
    class Spoils(UniformBelow):
        breaks = frozenset({"adds_up"})  # in the tree that it has spoilt

        def reconcile(self, tree, total, measurer):
            levels = super().reconcile(tree, total, measurer)
            if not 250 < sum(levels[-1].counts) < 350:
                for parents in tree.parent:
                    parents[:] = 0
            return levels

    before = [parents.copy() for parents in AREAS.parent]
    assert sum(released(Spoils()).table("county")["count"].to_pylist()) > 250
    assert all(np.array_equal(now, then) for now, then in zip(AREAS.parent, before, strict=True))


def test_a_class_that_says_it_is_of_the_library_is_not_believed():
    @dataclasses.dataclass(frozen=True)
    class Feigned(UniformBelow):
        """Says so below."""

    for module in ("tallytree.counts", "tallytree.none"):
        Feigned.__module__ = module
        assert "not audited" in released(Feigned()).statement["notes"][0]
