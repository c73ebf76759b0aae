"""What the tests of the ledger share: losses of every kind, the entry of a release, and a small release."""

from fractions import Fraction

import pyarrow as pa

import tallytree as tt
from helpers.inside import Loss, Posting

PEOPLE = pa.table({"state": ["A"] * 60 + ["B"] * 40, "county": ["x"] * 50 + ["y"] * 10 + ["x"] * 40})
TERMS = {"neighboring": "add_remove"}
PURE, BOTH, RHO = tt.Budget(epsilon=2), tt.Budget(epsilon=2, delta=1e-6), tt.Budget(rho=2)


def pure(epsilon):
    return Loss(Fraction(epsilon), Fraction(0), Fraction(epsilon) ** 2 / 2)


def approximate(epsilon, delta, rho="1/100"):
    return Loss(Fraction(epsilon), Fraction(delta), Fraction(rho))


def zcdp(rho):
    return Loss(None, None, Fraction(rho))


def threshold(epsilon, delta):
    return Loss(Fraction(epsilon), Fraction(delta), None)


def posting(loss, **changes):
    facts = {
        "dataset": "people",
        "statistic": "counts",
        "mechanism": "TopDown",
        "neighboring": "add_remove",
        "max_contributions": 1,
        "unit": "record",
    }
    return Posting(**facts | changes, loss=loss)


def release(areas, path, **changes):
    arguments = {"budget": tt.Budget(epsilon=1), "neighboring": "add_remove", "ledger": path, "dataset": "people"}
    return tt.release_counts(PEOPLE, areas, **arguments | changes)
