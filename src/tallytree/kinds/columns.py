"""The columns of published tables: their names, and which of them may follow a number."""

from __future__ import annotations

from typing import TypeAlias

NUMBERS = ("count", "groups", "people")
"""Columns with what was published; a table has one of them."""

ERROR_COLUMNS = ("std_dev", "ci_lower", "ci_upper")
"""What a published table says of the error of its numbers."""

TYPICAL_ERROR = "typical_error"
"""What tables, and counts of all nodes of a hierarchy, have beside each number: the root mean square error that is
expected of it, given all noisy numbers."""

UNBIASED = "unbiased"
"""What tables, and sparse counts, have beside each number: the estimate before x ≥ 0, sums and rounding."""

LISTED_FROM = "listed_from"
"""What sparse counts have beside it: the least of such estimates with which the cell is listed; null where any does."""

PROBABILITY_ZERO = "probability_zero"
"""What sparse counts have beside each number: how probable it is that the true number is 0."""

MADE_OF = ("std_dev", TYPICAL_ERROR, UNBIASED, LISTED_FROM, PROBABILITY_ZERO)
"""Columns that intervals are made of, beside the numbers."""

HIDDEN = (UNBIASED, LISTED_FROM)
"""Those of them that readers do not see unless they ask for them."""

TAIL_COLUMNS = ("tail_count", "tail_std_dev")
"""What a table of group sizes says of the number of groups of a row's size or more, where its error is known."""

MEMBER_COLUMNS = ("persons", "persons_std_dev", "households_std_dev")
"""What a table of households by size, fitted to persons, has beside each number: how many members its households have
together, and the standard deviations of their number and of the number of all households of the area."""

Combinations: TypeAlias = tuple[tuple[str, ...], ...]
"""Columns, in order; each combination that is written."""

ERRORS: Combinations = ((), ERROR_COLUMNS[:1], ERROR_COLUMNS)
"""Nothing is known of errors, or their standard deviations, or intervals too."""

_FITTED: Combinations = (*ERRORS, *((errors[0], UNBIASED, *errors[1:]) for errors in ERRORS[1:]))

FITTED: Combinations = (*_FITTED, *((errors[0], TYPICAL_ERROR, *errors[1:]) for errors in _FITTED[1:]))
"""What a fit may know of its numbers."""

LISTED: Combinations = tuple(
    (errors[0], UNBIASED, LISTED_FROM, *chance, *errors[1:])
    for errors in ERRORS[1:]
    for chance in ((), (PROBABILITY_ZERO,))
)
"""What is known of counts that are listed because their measurements were large."""
