"""What a release of tables cannot do is refused before it is recorded, and levels of equal size are told apart."""

from fractions import Fraction

import pandas as pd
import pytest

import tallytree as tt
from helpers.inside import MAX_RECORDS_OF_TABLES
from tallytree.ledger import Ledger

SIDES = {
    "area": tt.Hierarchy.from_values("county", ["a", "b"]),
    "age": tt.Hierarchy.from_table(pd.DataFrame({"band": ["0-9", "10+"], "age": ["5", "15"]}), ["band", "age"]),
}


def records(count):
    return pd.DataFrame({"county": ["a", "b"], "band": ["0-9", "10+"], "age": ["5", "15"], "n": [count, 0]})


@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_the_largest_counts_are_released_and_larger_ones_are_refused(neighboring):
    def released(count):
        return tt.release_tables(
            records(count), tt.Product(SIDES), tt.Budget(rho=1), neighboring=neighboring, tables=[("county", "band")],
            count="n", seed=1,
        )  # fmt: skip

    most = released(MAX_RECORDS_OF_TABLES).table("county", "band").to_pandas()["count"].sum()
    assert abs(most - MAX_RECORDS_OF_TABLES) < 100
    with pytest.raises(ValueError, match=r"records: counts of tables add up to more than 2\^50"):
        released(MAX_RECORDS_OF_TABLES + 1)


def test_public_totals_that_are_too_large_are_refused_by_the_plan():
    totals = pd.DataFrame({"county": ["a", "b"], "count": [MAX_RECORDS_OF_TABLES, 1]})
    with pytest.raises(ValueError, match=r"public_totals: they add up to more than 2\^50"):
        tt.release_tables(
            records(1), tt.Product(SIDES), tt.Budget(rho=1), neighboring="change_one", tables=[("county", "band")],
            count="n", public_totals=totals, seed=1,
        )  # fmt: skip


def test_a_condition_on_a_level_with_as_many_nodes_as_a_coarser_one():
    release = tt.release_tables(
        records(500), tt.Product(SIDES), tt.Budget(rho=1000), neighboring="add_remove",
        tables=[("band",), ("county", "age")], count="n", seed=1,
    )  # fmt: skip
    (row,) = release.total(where={"age": "5"}).to_pylist()
    assert row["count"] == 500
    assert row["std_dev"] > 0


@pytest.mark.parametrize("amount", [{"epsilon": Fraction("1e300")}, {"rho": Fraction("1e300")}])
@pytest.mark.parametrize("split", ["auto", "even"])
def test_an_enormous_budget_needs_no_noise(amount, split):
    release = tt.release_tables(
        records(500), tt.Product(SIDES), tt.Budget(**amount), neighboring="add_remove",
        tables=[("band",), ("county", "age")], count="n", budget_split=split, seed=1,
    )  # fmt: skip
    assert release.table("band")["count"].to_pylist() == [500, 0]


@pytest.mark.parametrize("amount", [{"epsilon": Fraction("1e-300")}, {"rho": Fraction("1e-300")}])
def test_a_budget_for_more_noise_than_is_drawn_is_refused_by_the_plan(amount):
    with pytest.raises(ValueError, match="budget: it asks for noise of scale"):
        tt.release_tables(
            records(500), tt.Product(SIDES), tt.Budget(**amount), neighboring="add_remove", tables=[("band",), ()],
            count="n",
        )  # fmt: skip


EXTREMES = [
    *({"epsilon": Fraction(each)} for each in ("1e-7", "1", "1e15")),
    *({"rho": Fraction(each)} for each in ("1e-15", "1")),
]


@pytest.mark.slow
@pytest.mark.parametrize("amount", EXTREMES, ids=str)
@pytest.mark.parametrize("most", [0, 1, MAX_RECORDS_OF_TABLES])
def test_what_is_tabulated_is_released_or_refused_before_it_is_paid_for(amount, most, tmp_path):
    """Also with an exact total: of change_one, and as public totals."""
    totals = pd.DataFrame({"county": ["a", "b"], "count": [most, 0]})
    for number, given in enumerate(({}, {"public_totals": totals}, {"neighboring": "add_remove"})):
        ledger = Ledger.create(tmp_path / f"{number}.db")
        tt.release_tables(
            records(most), tt.Product(SIDES), tt.Budget(**amount), tables=[("county", "band"), ("age",), ()], count="n",
            ledger=ledger, dataset="d", **{"neighboring": "change_one", **given},
        )  # fmt: skip
        assert [entry.state for entry in ledger.entries()] == ["finished"]
