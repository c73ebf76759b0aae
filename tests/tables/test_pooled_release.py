"""Releases of tables whose cells learn from each other: what is stated, and what is refused."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.lab._internals import make_secret

AREAS, AGES = [f"area{i}" for i in range(80)], [f"age{i}" for i in range(5)]
PRODUCT = tt.Product({"area": tt.Hierarchy.from_values("area", AREAS), "age": tt.Hierarchy.from_values("age", AGES)})
NONE = tt.tables.LeastSquares(pooling="none")


def people():
    """80 areas of about 50 people, alike."""
    ages = np.random.default_rng(1).choice(5, 4_000, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    return pa.table({"area": np.resize(AREAS, 4_000).tolist(), "age": [AGES[age] for age in ages]})


def released(**options):
    given = {"budget": tt.Budget(epsilon=0.5, delta=1e-6), "neighboring": "add_remove"} | options
    return tt.release_tables(people(), PRODUCT, tables=[("area",), ("area", "age")], **given)


def typical_share(release):
    """The mean square of typical errors, as a part of that of the noise."""
    table = release.table("area", "age")
    return float((table["typical_error"].to_numpy() ** 2).mean() / (table["std_dev"].to_numpy() ** 2).mean())


def test_typical_errors_are_published_and_not_those_of_the_noise():
    assert typical_share(released(seed=1)) < 0.5


def test_the_statement_says_whether_cells_learn_from_each_other():
    pooled, alone = released(seed=1), released(seed=1, mechanism=NONE)
    assert pooled.statement["mechanism"]["options"] == {"pooling": "areas"}
    assert alone.statement["mechanism"]["options"] == {"pooling": "none"}
    assert typical_share(pooled) < 0.5 < typical_share(alone)


def test_a_run_that_is_repeated_with_another_pooling_is_another_plan(tmp_path):
    ledger, secret = tt.ledger.Ledger(tmp_path / "ledger.db"), make_secret(tmp_path / "secret")
    named = {"ledger": ledger, "dataset": "people", "secret": secret, "run": "first"}
    first = released(**named)
    again = released(**named, mechanism=tt.tables.LeastSquares())
    assert again.table("area", "age").equals(first.table("area", "age"))
    with pytest.raises(ValueError, match="this release is another one: its plan differs"):
        released(**named, mechanism=NONE)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("pooling", ["Areas", None, 1, True, ["areas"]])
def test_a_pooling_that_is_not_known_is_refused(pooling):
    with pytest.raises((ValueError, TypeError), match=r'^pooling: .* "areas" or "none"'):
        tt.tables.LeastSquares(pooling=pooling)
