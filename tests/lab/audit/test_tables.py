"""Audits of tables: what is published and measured, with planted faults that must be found beside the right version."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import KeyedNoise, Measurer, plan_noise
from tallytree.lab.audit import Subject, audit, audit_subject
from tallytree.lab.audit.audited import Audited
from tallytree.lab.audit.inputs import tables_inputs
from tallytree.lab.audit.library import library_cases
from tallytree.lab.audit.views import Publisher, publisher
from tallytree.mechanisms import Noise
from tallytree.tables import PublicTotals

AREAS = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "B"], "c": ["x", "y", "z"]}), ["s", "c"])
SEXES = tt.Hierarchy.from_values("sex", ["f", "m"])
PEOPLE = tt.Product({"area": AREAS, "sex": SEXES})
TABLES = [("c", "sex"), ("s", "sex"), ("sex",)]
PURE, ZCDP = tt.Budget(epsilon=1), tt.Budget(rho=Fraction(1, 2))
BEFORE, AFTER = [3, 1, 2, 2, 4, 1], [3, 1, 3, 2, 4, 1]
"""A record more of (A, y, f)."""
CASES = [case for case in library_cases() if case.statistic == "tables"]


def tables(data=BEFORE, neighbor=AFTER, budget=PURE, **changes):
    given = {"neighboring": "add_remove", "tables": TABLES, "runs": 1_000, "releases": 100, "seed": 1} | changes
    return audit(given.pop("mechanism", None), given.pop("tree", PEOPLE), data, neighbor, budget, **given)


def subject(budget=PURE, before=BEFORE, after=AFTER, plan=None, **terms):
    """Tables on two inputs, as the library plans them, or with another plan."""
    given = {"neighboring": "add_remove", "tables": TABLES, "mechanism": None} | terms
    job, inputs = Audited(tree=PEOPLE, budget=budget, **given).plan()
    statistics = [inputs.tabulate(np.array(records)) for records in (before, after)]
    total = sum(before) if job.arguments.total_is_public else None
    chosen = plan if plan is not None else job.plan
    return job, Subject("tables", given["neighboring"], chosen, *statistics, publisher(job, PEOPLE, total))


# --- The right version ---


def test_the_library_audits_tables_of_every_kind():
    for relation in ("add_remove", "change_one"):
        own = [case for case in CASES if case.neighboring == relation]
        found = {(case.max_contributions, case.distinct, case.budget.kind) for case in own}
        assert {(1, False, kind) for kind in ("pure", "approximate", "zcdp")} <= found
        assert {(3, distinct, kind) for distinct in (False, True) for kind in ("pure", "zcdp")} <= found
        # Public totals would tell whether a person is there, so that they go with change_one only.
        assert {case.public_totals is None for case in own} == ({True} if relation == "add_remove" else {True, False})
        assert {case.budget_split for case in own} == {None, "auto"}
        assert {len(case.tree.attributes) for case in own} == {2, 3}
    names = {case.name for case in CASES}
    assert {
        "tables LeastSquares()",
        "tables LeastSquares() distinct",
        "tables LeastSquares() public_totals",
    } <= names
    assert {case.statistic for case in library_cases(mechanism="LeastSquares")} == {"counts", "flows", "tables"}


@pytest.mark.slow
@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_tables_pass_and_attain_what_they_state(neighboring):
    after = AFTER if neighboring == "add_remove" else [3, 1, 3, 1, 4, 1]
    result = tables(neighbor=after, neighboring=neighboring)
    assert result.passed
    assert result.mechanism == "LeastSquares(pooling='areas')"
    assert result.releases == 100
    assert result.exact_epsilon == 1


@pytest.mark.slow
def test_a_replaced_record_can_leave_a_table_as_it_is():
    """Of the same sex and state: only the finest table moves, with a third of the budget."""
    result = tables(neighbor=[2, 1, 3, 2, 4, 1], neighboring="change_one")
    assert result.passed
    assert result.exact_epsilon == pytest.approx(1 / 3)


@pytest.mark.slow
def test_public_totals_are_published_and_their_levels_cost_nothing():
    totals = pa.table({"s": ["A", "B"], "count": [7, 3]})
    moved = [2, 1, 3, 2, 4, 1]
    job, one = subject(public_totals=totals, tables=[*TABLES, ("s",), ()], neighboring="change_one", after=moved)
    assert {"s", "all"} & set(job.plan.levels) == set()
    drawn = Measurer(one.before, job.plan, KeyedNoise(bytes(32)))
    published = dict(zip(one.publisher.labels, one.publisher.publish(drawn).tolist(), strict=True))
    assert [published[label] for label in ("s[0]", "s[1]", "all[0]")] == [7, 3, 10]
    given = {"public_totals": totals, "tables": [*TABLES, ("s",)], "neighboring": "change_one"}
    assert tables(neighbor=moved, **given).passed


def test_the_publisher_shows_every_cell_of_every_table():
    _, one = subject()
    assert one.publisher.labels[:7] == [*(f"c.sex[{cell}]" for cell in range(6)), "s.sex[0]"]
    assert len(one.publisher.labels) == 6 + 4 + 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tables": None}, "tables: "),
        ({"neighbor": BEFORE}, "neighbor: it equals data"),
        ({"neighbor": [4, 1, 3, 2, 4, 1]}, "neighbor: it has 2 records more and 0 fewer than data, but one person has"),
        ({"neighbor": [4, 1, 1, 2, 4, 1]}, 'neighbor: .* under "add_remove" one person is added or removed, not both'),
        (
            {"neighbor": [5, 1, 2, 2, 4, 1], "max_contributions": 2, "distinct": True},
            "neighbor: .* with distinct a person counts once in a leaf",
        ),
        ({"neighboring": "change_one"}, "neighbor: .* the total is public: move a record"),
        ({"data": [1, 2]}, "data: 2 counts were given, but the tree has 6 combinations of leaves"),
        ({"max_quantity": 2}, "max_quantity: 2 is about group sizes; in tables every record is 1, leave it out"),
        ({"maximum_share": 0.5}, "maximum_share: 0.5 is about group sizes; tables have no K, leave it out"),
        ({"mechanism": tt.counts.TopDown()}, "mechanism: TopDown must be one of tallytree.tables"),
        (
            {"tree": AREAS, "data": [1, 1, 1], "neighbor": [1, 1, 2]},
            "tables: list is about tables, whose tree",
        ),
        (
            {"tree": AREAS, "data": [1, 1, 1], "neighbor": [1, 1, 2], "tables": None, "public_totals": [3]},
            "public_totals: list is about tables, whose tree is a Product without an order",
        ),
    ],
)
def test_what_cannot_be_audited_is_refused(changes, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        tables(**changes)


def test_too_many_combinations_are_refused():
    many = tt.Hierarchy.from_values("n", [str(i) for i in range(6_000)])
    with pytest.raises(ValueError, match="tree: 12,000 combinations of leaves are not between 1 and 10,000"):
        tables(tree=tt.Product({"n": many, "sex": SEXES}), tables=[("n",)])


# --- Faults ---


class WithHalfTheScaleOfOneTable(KeyedNoise):
    """A source that draws noise of half the scale for one table."""

    def draw(self, noise, address, cells):
        scale = noise.scale / 2 if address[0] == "c.sex" else noise.scale
        return super().draw(Noise(noise.distribution, scale), address, cells)


class WithOneTablesNoiseForAnother(KeyedNoise):
    """A source that gives two tables the same noise, as if a table's name were left out of the address."""

    def draw(self, noise, address, cells):
        return super().draw(noise, ("c.sex" if address[0] == "s.sex" else address[0], *address[1:]), cells)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=["pure", "zcdp"])
def test_a_table_with_half_its_noise_is_caught(budget):
    """True loss 4/3 of ε = 3, or twice ρ = 1/2: a third of the budget is for (c, sex), which has half its noise.

    ε is large so that 50,000 runs show the difference.
    """
    stated = tt.Budget(epsilon=3) if budget is PURE else budget
    _, one = subject(stated)
    result = audit_subject(one, source=WithHalfTheScaleOfOneTable, releases=0, seed=1)
    assert not result.passed
    lower, claimed = (result.epsilon_lower, 3) if budget is PURE else (result.rho_lower, 0.5)
    assert claimed < lower <= claimed * (4 / 3 if budget is PURE else 2)
    assert audit_subject(one, releases=0, seed=1).passed


@pytest.mark.slow
def test_a_table_with_the_noise_of_another_is_caught():
    """The true loss is infinite: (A, f) of states and (x, A, f) of counties have one noise. Power 1."""
    _, one = subject()
    result = audit_subject(one, source=WithOneTablesNoiseForAnother, runs=20_000, releases=0, seed=1)
    assert not result.passed
    assert result.epsilon_lower > 6
    assert audit_subject(one, runs=20_000, releases=0, seed=1).passed


@pytest.mark.slow
def test_the_sensitivity_of_distinct_people_in_a_coarse_table_is_caught():
    """A person in three counties counts three times in a coarser table: √3 is too little there, and 3 is right.

    The person comes to (x, f), (y, f) and (z, f): (sex) moves by 3, and (s, sex) by 2 and 1.
    """
    before, after = [1] * 6, [2, 1, 2, 1, 2, 1]
    people = {"max_contributions": 3, "distinct": True, "before": before, "after": after}
    job, right = subject(ZCDP, **people)
    levels = {name: (each.statistic, each.sensitivity) for name, each in job.plan.levels.items()}
    assert {name: (kind, bound.l2_squared) for name, (kind, bound) in levels.items()} == {
        "c.sex": ("distinct_counts", 3), "s.sex": ("counts", 9), "sex": ("counts", 9)
    }  # fmt: skip
    finest = levels["c.sex"][1]
    wrong = plan_noise(ZCDP, levels | {"sex": ("counts", finest), "s.sex": ("counts", finest)})
    _, mistaken = subject(ZCDP, plan=wrong, **people)
    result = audit_subject(mistaken, releases=0, seed=1)
    assert not result.passed
    assert result.exact_rho == pytest.approx((3 / 3 + 5 / 3 + 9 / 3) / 3 * result.rho_stated)
    assert result.rho_lower > result.rho_stated
    assert audit_subject(right, releases=0, seed=1).passed
    assert right.plan is job.plan


def test_true_tables_refuse_a_smaller_sensitivity_than_their_cells_need():
    """The plan cannot be asked for it; this is the second lock."""
    job, _ = subject(max_contributions=3, distinct=True)
    job = replace(job, statistics=dict.fromkeys(job.statistics, "distinct_counts"))
    with pytest.raises(ValueError, match=r"statistic: 'distinct_counts' does not hold of the table 's.sex'"):
        inputs_of(job)
    job = replace(job, statistics=dict.fromkeys(job.statistics, "total"))
    with pytest.raises(ValueError, match=r"statistic: 'total' does not hold of the table 'c.sex'"):
        inputs_of(job)


def inputs_of(job):
    return tables_inputs(job).tabulate(np.array(BEFORE))


@pytest.mark.slow
def test_a_true_total_that_a_mechanism_publishes_is_caught():
    """The measurements are right; the mechanism keeps a total of which nobody said that it is public. Power 1."""
    job, one = subject()
    totals = iter([sum(BEFORE)] * 500 + [sum(AFTER)] * 500)

    def publish(measurer):
        kept = PublicTotals(0, np.array([next(totals)]))
        made = job.mechanism.reconcile(job.layout, job.statistics, kept, measurer)
        return np.concatenate([job.layout.summed(made.leaves, depth).ravel() for depth in range(3)])

    result = audit_subject(replace(one, publisher=Publisher(one.publisher.labels, publish)), runs=500, seed=1)
    assert not result.passed
    assert result.event.startswith("released ")
    assert result.exact_epsilon == 1
