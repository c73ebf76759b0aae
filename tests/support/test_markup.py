"""Tables for notebooks: everything is escaped, long ones are cut, nothing private is in them."""

import pyarrow as pa
import pytest

import tallytree as tt
from helpers import releases
from tallytree.ledger import Ledger
from tallytree.spec.planned_errors import plan
from tallytree.support.markup import MOST_ROWS, html_table

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def areas():
    return tt.Hierarchy.from_table(
        pa.table({"state": ["A", "A", "A", "B"], "county": ["x", "y", "z", "x"]}), ["state", "county"]
    )


def test_cells_titles_and_remarks_are_escaped():
    made = html_table(SCRIPT, [SCRIPT], [[SCRIPT], [None], [1234], [0.123456], [True]], SCRIPT)
    assert "<script" not in made
    assert made.count("&lt;script&gt;") == 4
    assert "1,234" in made
    assert "0.1235" in made
    assert ">True<" in made


def test_a_long_table_is_cut_with_a_word_about_it():
    made = html_table("long", ["n"], [[number] for number in range(MOST_ROWS + 5)])
    assert made.count("<tr>") == MOST_ROWS + 1
    assert "5 more rows." in made


def test_hierarchies_and_products_show_their_levels(areas):
    awkward = tt.Hierarchy.from_values(SCRIPT, [SCRIPT, "b"])
    shown = awkward._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    product = tt.Product({"area": areas, "other": awkward})._repr_html_()
    assert "<script" not in product
    assert "county" in product


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (tt.Budget(epsilon=1), "pure"),
        (tt.Budget(epsilon=1, delta=1e-8), "approximate"),
        (tt.Budget(rho=0.05), "zero-concentrated"),
    ],
)
def test_a_budget_shows_its_amounts(budget, said):
    shown = budget._repr_html_()
    assert said in shown
    assert all(f"{float(value):,.4g}" in shown for value in (budget.epsilon, budget.delta, budget.rho) if value)


def test_a_release_shows_its_rows_and_its_guarantee(areas):
    release = releases.counts(areas)
    shown = release._repr_html_()
    assert release.statement["guarantee"] in shown
    assert "Published exactly: the hierarchy" in shown
    assert "county" in shown


def test_a_plan_shows_what_would_be_measured_and_no_record(areas, tmp_path):
    from helpers.inside import CountsArguments, plan_counts

    private = pa.table({"state": ["NAME-1"], "county": ["NAME-2"]})
    arguments = CountsArguments(private, areas, tt.Budget(epsilon=1), neighboring="add_remove")
    shown = plan_counts(arguments)._repr_html_()
    assert "LeastSquares" in shown
    assert "NAME-" not in shown


def test_an_error_plan_shows_the_expected_errors(areas, tmp_path):
    pa.parquet.write_table(areas.leaf_table(), tmp_path / "areas.parquet")
    spec = {
        "statistic": "counts",
        "records": str(tmp_path / "nowhere.parquet"),
        "hierarchy": {"path": str(tmp_path / "areas.parquet"), "levels": ["state", "county"]},
        "budget": {"epsilon": 1.0},
        "neighboring": "add_remove",
    }
    shown = plan(spec)._repr_html_()
    assert "county" in shown
    assert "std_dev" in shown


def test_a_ledger_shows_what_was_spent(areas, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    assert "not made yet" in ledger._repr_html_()
    ledger.set_limit(SCRIPT, tt.Budget(epsilon=2), neighboring="change_one")
    releases.counts(areas, ledger=ledger, dataset=SCRIPT)
    shown = ledger._repr_html_()
    assert "<script" not in shown
    assert "epsilon 1" in shown
