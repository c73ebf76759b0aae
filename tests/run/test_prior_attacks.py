"""What an attack on priors found: a prior is what was planned, and the fit that is stated is the one that is made."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.ledger import Ledger
from tallytree.run import HouseholdsArguments, TablesArguments, make_release, plan_households, plan_tables

TOWNS = tt.Hierarchy.from_values("town", [f"t{i}" for i in range(6)])
PRODUCT = tt.Product({"area": TOWNS, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
PLACES = np.repeat(np.arange(12), 20)
PEOPLE = pa.table(
    {
        "town": np.array([f"t{i}" for i in range(6)])[PLACES // 2],
        "sex": np.array(["f", "m"])[PLACES % 2],
        "home": np.arange(240) // 4,
    }
)
REGISTER = pa.table(
    {"town": [f"t{i}" for i in range(6) for _ in "fm"], "sex": ["f", "m"] * 6, "count": [20 + i for i in range(12)]}
)
GIVEN = {"neighboring": "add_remove", "tables": [("town", "sex")]}


@dataclasses.dataclass(frozen=True)
class Own(tt.tables.LeastSquares):
    """A mechanism from outside that has all that the library's has."""


def tables(**changes):
    return tt.release_tables(PEOPLE, PRODUCT, tt.Budget(epsilon=1), **(GIVEN | changes))


@pytest.mark.parametrize("changed", ["swapped", "removed"])
def test_households_whose_part_got_another_prior_are_not_run(tmp_path, changed):
    given = GIVEN | {"household": "home", "max_household_size": 4}
    tt.release_households(PEOPLE, PRODUCT, tt.Budget(epsilon=1), **given).save(tmp_path / "earlier")
    arguments = HouseholdsArguments(PEOPLE, PRODUCT, tt.Budget(epsilon=1), revises=tmp_path / "earlier", **given)
    make_release(plan_households(arguments))
    planned = plan_households(arguments)
    ones = {place: np.ones_like(cells) for place, cells in planned.prior.tables.items()}
    other = dataclasses.replace(planned.prior, tables=ones) if changed == "swapped" else None
    object.__setattr__(planned.persons, "prior", other)
    with pytest.raises(tt.BudgetExceeded, match="planned for another release"):
        make_release(planned)


def test_a_mechanism_from_outside_is_given_no_prior_and_states_none(tmp_path):
    with pytest.raises(ValueError, match=r"prior: Own\(.*\) takes none"):
        tables(mechanism=Own(), prior=REGISTER, prior_is_public=True)
    tables(mechanism=Own()).save(tmp_path / "earlier")
    assert "prior" not in tables(mechanism=Own(), revises=tmp_path / "earlier").statement


def test_a_revision_is_not_repeated_as_a_release_with_the_same_prior_that_is_fitted_in_another_way(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    named = {"ledger": ledger, "dataset": "people", "run": "May", "secret": tt.new_secret(tmp_path / "secret")}
    tables(**named).save(tmp_path / "earlier")
    revision = named | {"revises": tmp_path / "earlier", "on_changed": "charge"}
    once = tables(**revision)
    again = named | {"revises": tmp_path / "earlier"}
    assert tables(**again).table("town", "sex").equals(once.table("town", "sex"))
    with pytest.raises(ValueError, match="its plan differs: the prior"):
        tables(**again, prior=tmp_path / "earlier")
    assert len(ledger.entries("people")) == 2


def test_of_two_plans_that_differ_in_the_prior_only_the_prior_is_said_to_differ():
    def parts(**changes):
        planned = plan_tables(TablesArguments(PEOPLE, PRODUCT, tt.Budget(epsilon=1), **GIVEN, **changes))
        return planned.posting.parts

    alone, moved = parts(), parts(prior=REGISTER, prior_is_public=True)
    assert {name: moved[name] for name in moved if name != "the prior"} == alone
    assert "the prior" in moved


def test_a_run_that_is_repeated_without_its_prior_is_refused_for_its_prior(tmp_path):
    ledger = {"ledger": tmp_path / "ledger", "dataset": "people"}
    named = ledger | {"run": "May", "secret": tt.new_secret(tmp_path / "secret")}
    tables(**named, prior=REGISTER, prior_is_public=True)
    with pytest.raises(ValueError, match="its plan differs: the prior;"):
        tables(**named)
