"""Why a published number is off, in words."""

import tallytree as tt
from helpers import dense_trees as small
from helpers import releases
from tallytree.views.reasons import why_numbers_are_off


def test_the_paragraph_has_the_budget_and_how_many_levels_or_tables_share_it(areas):
    said = why_numbers_are_off(small.release(1).statement)
    assert "the budget of the release, ε = 0.5. 3 levels share it: a larger budget, or fewer levels, would" in said
    made = releases.tables(areas, seed=1, budget=tt.Budget(epsilon=1, delta=1e-8))
    said = why_numbers_are_off(made.statement)
    measured = sum(each["measured"] for each in made.statement["levels"])
    assert f"ε = 1, δ = 1e-08. {measured} tables share it" in said
    none = {**made.statement, "levels": [{**each, "measured": False} for each in made.statement["levels"]]}
    assert why_numbers_are_off(none) == ""
