"""People by their number of records: the statistic, what is asked for, and the bins, which follow from public numbers.

They are measured in a release of their own, or beside the levels of another one, to see what a contribution bound cuts.

A bin is a range of numbers of records. The bound m ends one, so that no bin has both people of whom all records count
and people of whom some are left out. Below m a bin is as wide as a quarter of its first number; above m, as a quarter
of its first number's excess over m; always at least 1. So what is left out of the people in one bin (their excess over
m) differs by a fourth at most, and there are few bins. People with more than `at_most` records fall in the last one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import cast

from tallytree.budget import share_beside_levels
from tallytree.kinds.columns import ERRORS
from tallytree.kinds.kind import Kind, KindWords
from tallytree.support.validate import integer

CONTRIBUTIONS = Kind(
    name="contributions",
    unit="record",
    words=KindWords(
        noun="people",
        title="People by their number of records",
        meaning="people by their number of records",
        what="how many people have how many records",
        listed="Numbers of people by their number of records",
        domain="All tables of records that each belong to a person",
    ),
    number="people",
    keys=("records_from", "records_to"),
    errors=ERRORS[1:2],
    measured=("records_from", "records_to", "value"),
    has_tree=False,
    nested=False,
    reconciled=False,
    protects_all_records=True,
    beside=(),
)

DEFAULT_SHARE = Fraction(1, 20)
DEFAULT_AT_MOST = 1_000
LARGEST_AT_MOST = 10**6
"""No contribution bound is larger either (`tallytree.kinds.terms.NoiseTerms`)."""


@dataclass(frozen=True)
class Contributions:
    """Count people by their number of records with a share of the budget, to see what the contribution bound cuts.

    Give it as `contributions`, or give the share alone.

    Attributes:
        share: the share of the budget (of ε, or of ρ) that measures it; the levels share the rest.
        at_most: public: people with more records are counted as if they had so many. The larger it is, the less is
            known of what is left out: the noise of a bin counts as often as its people have records.

    Raises:
        ValueError: a share that is not strictly between 0 and 1, or a number out of range.
        TypeError: a value of the wrong type.

    Example:
        >>> import tallytree as tt
        >>> tt.Contributions(share=0.02, at_most=200)
        Contributions(share=0.02, at_most=200)
    """

    share: Fraction
    at_most: int

    def __init__(self, share: Real | float = DEFAULT_SHARE, at_most: int = DEFAULT_AT_MOST) -> None:
        object.__setattr__(self, "share", share_beside_levels(share, DEFAULT_SHARE))
        object.__setattr__(self, "at_most", integer(at_most, "at_most", least=2, most=LARGEST_AT_MOST))

    def __repr__(self) -> str:
        """As it was written: `Contributions(share=…, at_most=…)`."""
        return f"Contributions(share={float(self.share)!r}, at_most={self.at_most})"


def asked_contributions(given: object) -> Contributions | None:
    """The option `contributions`, validated; a plain number is the share.

    Raises:
        ValueError: a share that is not strictly between 0 and 1.
        TypeError: a value of the wrong type.
    """
    if given is None or isinstance(given, Contributions):
        return given
    if isinstance(given, bool) or not isinstance(given, Real | Decimal):
        raise TypeError(
            f"contributions: {type(given).__name__} must be a share of the budget, such as 0.05, or "
            "tallytree.Contributions(share=…, at_most=…)"
        )
    try:
        return Contributions(cast(float, given))
    except ValueError as error:
        raise ValueError(f"contributions: {error}") from None


def contribution_bins(bound: int, at_most: int) -> tuple[tuple[int, int], ...]:
    """The bins, as first and last numbers of records: they cover 1 … at_most, and one of them ends at the bound.

    Args:
        bound: m, below `at_most`.
        at_most: the last number of the last bin, which also holds people with more.

    Example:
        >>> contribution_bins(2, 12)
        ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (9, 9), (10, 11), (12, 12))
    """
    return (*_bins(0, bound), *_bins(bound, at_most))


def _bins(before: int, last: int) -> Iterator[tuple[int, int]]:
    """Bins from before + 1 to last, a quarter as wide as the distance of their first number from `before`."""
    first = before + 1
    while first <= last:
        end = min(first + max((first - before) // 4, 1) - 1, last)
        yield first, end
        first = end + 1
