"""What is kept from one release for the next: it follows from public facts alone, and no caller can change it."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import by_rho
from tallytree.release import statement
from tallytree.sizes import auto_split
from tallytree.solvers.tables import shares
from tallytree.solvers.tables.marginals import Detail

KEPT = {
    "versions": statement._version,
    "risk": by_rho,
    "shares of sizes": auto_split._shares_and_times,
    "shares of tables": shares._best_shares,
}
LEAVES = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "z"]})
AREAS = tt.Hierarchy.from_table(LEAVES, levels=["state", "county"])
SEXES = tt.Product({"area": AREAS, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
COMMON = {"budget": tt.Budget(epsilon=1), "neighboring": "add_remove"}
RELEASES = {
    "counts": lambda people: tt.release_counts(people, AREAS, **COMMON),
    "tables": lambda people: tt.release_tables(people, SEXES, tables=[("county", "sex")], **COMMON),
    "sizes": lambda people: tt.release_group_sizes(people, AREAS, group="home", max_group_size=4, **COMMON),
    "households": lambda people: tt.release_households(people, AREAS, household="home", max_household_size=3, **COMMON),
}
USED = {
    "counts": {"versions", "risk"},
    "tables": {"versions", "risk", "shares of tables"},
    "sizes": {"versions", "risk", "shares of sizes"},
    "households": {*KEPT},
}


def people(seed):
    rng = np.random.default_rng(seed)
    home = rng.integers(0, 3, 50)
    place = {name: LEAVES[name].take(pa.array(home)) for name in LEAVES.column_names}
    return pa.table({**place, "sex": rng.choice(["f", "m"], 50), "home": home * 10 + rng.integers(0, 9, 50)})


@pytest.mark.parametrize("kind", RELEASES)
def test_other_records_with_the_same_public_facts_find_all_of_it_and_add_nothing(kind):
    for each in KEPT.values():
        each.cache_clear()
    RELEASES[kind](people(1))
    before = {name: each.cache_info() for name, each in KEPT.items()}
    assert {name for name, each in before.items() if each.currsize} == USED[kind]
    RELEASES[kind](people(2))
    for name, each in KEPT.items():
        after = each.cache_info()
        assert (after.misses, after.currsize) == (before[name].misses, before[name].currsize), name
        assert after.hits > before[name].hits or name not in USED[kind], name


def test_a_caller_cannot_change_the_shares_that_are_kept():
    def of_sizes():
        return auto_split.auto_split(AREAS, {"state": 2.0, "county": 2.0}, gaussian=False, cells=5)

    def of_tables():
        variances = {(1, (1,)): 2.0, (1, (0,)): 2.0, (0, (0,)): 2.0}
        return shares.auto_shares(Detail.flat([3]), [1, 4], variances, {(1, (1,)): 1.0, (0, (0,)): 1.0}, gaussian=False)

    first, of_first = of_sizes(), of_tables()
    kept = dict(first.shares), [*first.times], dict(of_first)
    first.shares["state"] = Fraction(1)
    first.times[0] = 0.0
    of_first.clear()
    again = of_sizes()
    assert (again.shares, again.times, of_tables()) == kept


def test_a_caller_cannot_change_the_versions_that_are_kept():
    found = statement.versions(["numpy"])
    found["numpy"] = "0"
    assert statement.versions(["numpy"])["numpy"] == np.__version__


def test_the_shares_of_tables_are_those_of_the_problem_as_it_was_stated():
    rng = np.random.default_rng(3)
    for gaussian in (True, False):
        for keep_all in (True, False):
            tables = [(level, (depth,)) for level in range(2) for depth in range(2)]
            variances = {table: float(rng.uniform(1, 5)) for table in tables}
            wanted = {table: float(rng.uniform(1, 3)) for table in tables[1:]}
            problem = shares.share_problem(Detail.flat([3]), [1, 4], variances, wanted)
            direct = (shares._gaussian if gaussian else shares._laplace)(problem, keep_all)
            options = {"gaussian": gaussian, "keep_all": keep_all}
            found = shares.auto_shares(Detail.flat([3]), [1, 4], variances, wanted, **options)
            assert found == shares._rounded(tables, direct)
