"""`tallytree limit` on strict ledgers and raised limits, and `tallytree ledger plan`."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

import tallytree as tt
from helpers.inside import rho_from_epsilon
from helpers.ledger_entries import TERMS, approximate, posting, pure
from tallytree.ledger import Ledger


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return Ledger("ledger.db")


def test_a_limit_makes_a_strict_ledger_unless_told_otherwise(ledger, output):
    new = ("--epsilon", "1", "--neighboring", "add_remove")
    output("limit", "ledger.db", "people", *new)
    assert ledger.strict
    output("limit", "ledger.db", "--no-strict", "--reason", "a trial")
    assert not ledger.strict
    output("limit", "ledger.db", "trips", *new, "--strict")
    assert ledger.strict
    output("limit", "loose.db", "people", *new, "--no-strict")
    assert not Ledger("loose.db").strict


def test_raising_a_limit_needs_a_reason_and_is_listed_among_the_releases(ledger, output, refusal):
    output("limit", "ledger.db", "people", "--epsilon", "1", "--neighboring", "add_remove")
    ledger.record(posting(pure(1)))
    assert refusal("limit", "ledger.db", "people", "--epsilon", "2") == (
        "reason: the limit of the data set 'people', epsilon 1, would be raised to epsilon 2; say why (`--reason`), "
        "for the ledger keeps it"
    )
    output("limit", "ledger.db", "people", "--epsilon", "2", "--reason", "a second table", "--approved-by", "A. Person")
    ledger.record(posting(pure(1)))
    listed = output("ledger", "ledger.db")
    places = [listed.index(word) for word in (" set ", "\n    1 ", " raised ", "\n    2 ")]
    assert places == sorted(places)
    assert ": approved by A. Person; reason: a second table.\n" in listed


def test_a_limit_of_a_year_above_that_of_all_time_is_said_to_be_idle(ledger, output):
    output("limit", "ledger.db", "people", "--epsilon", "3", "--neighboring", "add_remove")
    said = r"^limit: epsilon 5 in a year can never bind, since the data set 'people' may spend epsilon 3 in all time; "
    with pytest.warns(UserWarning, match=said):
        output("limit", "ledger.db", "people", "--epsilon", "5", "--per", "year")


def test_a_tiny_limit_is_shown_as_it_is(ledger, output):
    said = output("limit", "ledger.db", "people", "--epsilon", "1e-299", "--neighboring", "add_remove")
    assert said.endswith("0 releases spent epsilon 0 of epsilon 1e-299; epsilon 1e-299 is left.\n")


def test_a_plan_in_epsilon(ledger, output):
    ledger.set_limit("people", tt.Budget(epsilon=2), **TERMS)
    assert output("ledger", "plan", "ledger.db", "--dataset", "people", "--runs", "7") == (
        "people: epsilon 2 is left of the limit epsilon 2.\n"
        "Each of 7 runs may spend epsilon 0.285714 (exactly epsilon 2/7). It may ask for:\n"
        "  epsilon 0.285714: fits\n"
        "  epsilon 0.285714, delta 1e-08: does not fit (a limit in epsilon alone counts no delta)\n"
        "  rho 0.0408162: does not fit (a limit in epsilon counts no rho; this is what epsilon implies)\n"
    )


def test_a_plan_in_rho_and_as_json(ledger, output):
    ledger.set_limit("people", tt.Budget(rho=0.5), **TERMS)
    said = output("ledger", "plan", "ledger.db", "--dataset", "people", "--runs", "1", "--delta", "1e-6")
    assert said.startswith(
        "people: rho 0.5 is left of the limit rho 0.5.\nThe one run may spend rho 0.5 (exactly rho 1/2)"
    )
    assert "\n  epsilon 1: fits (whatever its budget split)\n" in said
    assert "delta 1e-06: fits (with accounting zcdp alone; pld has less noise, which counts more rho" in said
    plan = json.loads(output("ledger", "plan", "ledger.db", "--dataset", "people", "--runs", "7", "--json"))
    assert (plan["runs"], plan["remaining"], plan["per_run"]) == (7, {"rho": "1/2"}, {"rho": "1/14"})
    assert [sorted(each["amounts"]) for each in plan["asking"]] == [["rho"], ["epsilon"], ["delta", "epsilon"]]


def test_a_plan_divides_what_is_left(ledger, output):
    ledger.set_limit("people", tt.Budget(epsilon=2, delta=1e-6), **TERMS)
    ledger.record(posting(approximate(1, "1/2000000")))
    said = output("ledger", "plan", "ledger.db", "--dataset", "people", "--runs", "4")
    assert "Each of 4 runs may spend epsilon 0.25, delta 1.25e-07 (exactly epsilon 1/4, delta 1/8000000)." in said
    rho = rho_from_epsilon(Fraction(1, 4), Fraction(1, 8_000_000), "zcdp")
    assert f"  rho {float(rho):.4g}"[:-1] in said


def test_files_with_the_names_of_commands_are_listed_by_their_paths(ledger, output, run):
    Ledger.create("plan")
    Ledger.create("show")
    assert output("ledger", "./plan").startswith("The ledger is empty.")
    assert output("ledger", "show", "show").startswith("The ledger is empty.")
    assert output("ledger", Path("plan").resolve(), "--json").startswith("{")
    assert output("ledger", "--json", "plan").startswith("{")
    assert "--runs" in output("ledger", "plan", "--help")
    assert run("ledger").exit_code == 2
