"""`person` for group sizes: of every person at most m memberships count."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt

LOUD = tt.Budget(rho=10**9)
"""Next to no noise: what is released is what counts."""

ROWS = [("ann", "h1"), ("ann", "h2"), ("ann", "h3"), ("ann", "h3"), ("bob", "h1"), ("cy", "h2"), ("dee", "h2")]
PEOPLE = pa.table(
    {
        "who": [who for who, _ in ROWS],
        "home": [home for _, home in ROWS],
        "state": ["A"] * 7,
        "county": [{"h1": "x", "h2": "y", "h3": "y"}[home] for _, home in ROWS],
    }
)
PUBLIC = pa.table({"state": list("AAAB"), "county": list("xyzx"), "groups": [1, 3, 0, 0]})


def released(areas, records=PEOPLE, **changes):
    arguments = {
        "budget": LOUD, "neighboring": "add_remove", "person": "who", "group": "home", "max_group_size": 6,
    } | changes  # fmt: skip
    return tt.release_group_sizes(records, areas, arguments.pop("budget"), **arguments)


def table(release, level="all"):
    rows = release.table(level)
    return dict(zip(rows["size"].to_pylist(), rows["groups"].to_pylist(), strict=True))


@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
@pytest.mark.parametrize(("m", "members"), [(1, 4), (2, 5), (3, 6), (4, 7), (9, 7)])
def test_of_every_person_at_most_m_memberships_count(areas, neighboring, m, members):
    found = table(released(areas, max_contributions=m, neighboring=neighboring))
    assert sum(size * groups for size, groups in found.items()) == members
    assert 0 not in found  # a group of which nobody counts is not counted


def test_with_public_groups_a_group_of_which_nobody_counts_has_size_0(areas):
    for m in (1, 2, 4):
        release = released(areas, max_contributions=m, public_groups=PUBLIC)
        found = table(release)
        assert sum(found.values()) == 4
        assert found[0] >= 1  # the fourth group, which no record names
        assert sum(release.table("county")["groups"].to_pylist()) == 4
    few = PUBLIC.set_column(2, "groups", pa.array([1, 1, 0, 0]))
    for m in (1, 4):  # whatever counts, the records name two groups in y
        with pytest.raises(ValueError, match="public_groups: the records hold more groups than it says in the leaf"):
            released(areas, max_contributions=m, public_groups=few)


def test_quantities_are_cut_and_memberships_of_none_use_nothing_up(areas):
    records = PEOPLE.append_column("cars", pa.array([0, 0, 9, 0, 2, 1, 1]))
    found = table(released(areas, records, max_contributions=1, quantity="cars", max_quantity=3))
    assert found == {2: 2, 3: 1}


def test_the_noise_is_for_m_memberships(areas):
    for m, relation, l1 in [(1, "add_remove", 1), (3, "add_remove", 3), (3, "change_one", 6)]:
        statement = released(areas, max_contributions=m, neighboring=relation).statement
        assert {level["sensitivity"]["l1"] for level in statement["levels"]} == {l1}


def test_the_statement_says_that_the_bound_is_enforced(areas):
    statement = released(areas, max_contributions=3).statement
    assert statement["max_contributions_enforced"] is True
    assert statement["unit_of_protection"] == "one person, of whose memberships of groups at most 3 count"
    assert released(areas).statement["unit_of_protection"].endswith("at most one counts")
    assert any("A person is a value of the column 'who'" in note for note in statement["notes"])
    assert not any("not enforced" in note for note in statement["notes"])
    assert released(areas).spec["person"] == "who"
    without = released(areas, person=None)
    assert without.statement["max_contributions_enforced"] is False
    assert "person" not in without.spec


@pytest.mark.slow
def test_a_seed_gives_the_same_release_whatever_the_order_threads_and_chunks(areas):
    budget = tt.Budget(epsilon=1)
    one = released(areas, budget=budget, seed=5, engine=tt.engines.Local(threads=1))
    for turn, threads in itertools.product((1, 2), (2, 3)):
        rows = PEOPLE.take(pa.array(np.random.default_rng(turn).permutation(PEOPLE.num_rows)))
        chunked = pa.concat_tables([rows.slice(0, 3), rows.slice(3)])
        two = released(areas, chunked, budget=budget, seed=5, engine=tt.engines.Local(threads=threads))
        assert all(two.measurements(level).equals(one.measurements(level)) for level in areas.levels)
    chosen = {tuple(table(released(areas, seed=seed)).items()) for seed in range(12)}
    assert len(chosen) > 1  # the key, and so what counts, is another


BAD = [
    ({"person": "home"}, ValueError, "person: 'home' is the column of group too"),
    ({"person": "state"}, ValueError, "person: 'state' is a column of the hierarchy, whose values are public"),
    ({"person": 3}, TypeError, "person: int must be the name of a column"),
    ({"person": "cars", "quantity": "cars"}, ValueError, "person: 'cars' is the column of quantity too"),
    ({"invariants": "total"}, ValueError, 'invariants: "total" publishes how many groups have members, which depends'),
    (
        {"group": None, "size": "n", "groups": "n"},
        ValueError,
        r"person: 'who' names people of entity rows; \(leaf, size",
    ),
    ({"person": "nobody"}, ValueError, "'nobody'"),
]


@pytest.mark.parametrize(("changes", "kind", "message"), BAD)
def test_bad_arguments(areas, changes, kind, message):
    with pytest.raises(kind, match=message):
        released(areas, **changes)


def test_columns_are_checked_without_reading_a_row(areas):
    from tallytree.run import SizesArguments, check, plan_group_sizes

    records = PEOPLE.append_column("weight", pa.array([1.5] * 7))
    options = {"neighboring": "add_remove", "group": "home", "person": "weight"}
    with pytest.raises(TypeError, match=r"column 'weight' \(person\) holds double; ids must be text or integers"):
        check(plan_group_sizes(SizesArguments(records, areas, LOUD, **options)))


def test_reconciling_again_keeps_what_is_said_of_people(areas):
    release = released(areas, budget=tt.Budget(epsilon=1), contributions=0.1)
    again = tt.reconcile_group_sizes(release, areas, mechanism=tt.sizes.Matching())
    assert again.contributions.equals(release.contributions)
    assert again.statement["contributions"] == release.statement["contributions"]
