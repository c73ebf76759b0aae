"""A verdict for every published number: how large its error is beside it.

As statistical offices do, the verdict follows from the relative error: the error of the published number ÷ number, see
`typical_errors`. The thresholds are those that Statistics Canada prints beside estimates of its
surveys (coefficients of variation of 16.6 % and 33.3 %).

    exact                        the number has no error
    reliable                     the error is less than a sixth of the number
    with_care                    a third at most
    unreliable                   more
    not_distinguishable_from_0   the 90 % interval of the number holds 0, and the number is not exact

A number without a standard deviation has no verdict. Every reader gets verdicts from here, and intervals from
`intervals.number_intervals`, so that no two of them disagree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.hierarchy import QUALITY
from tallytree.kinds.columns import LISTED_FROM, MADE_OF, NUMBERS, PROBABILITY_ZERO, TYPICAL_ERROR, UNBIASED
from tallytree.release.intervals import LevelErrors, number_column, number_intervals, quantile
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.validate import safe_text

EXACT, RELIABLE, WITH_CARE, UNRELIABLE, NEAR_ZERO = QUALITIES = (
    "exact",
    "reliable",
    "with_care",
    "unreliable",
    "not_distinguishable_from_0",
)
"""The verdicts, best first."""

TELLS_THE_NUMBER = (TYPICAL_ERROR, "ci_lower", "ci_upper", UNBIASED, PROBABILITY_ZERO)
"""Columns from which a reader could tell the number beside them."""

ALPHA = 0.1
"""Of the interval that holds 0, or does not."""

VerdictArray: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int8]]


@dataclass(frozen=True)
class QualityThresholds:
    """The largest relative standard errors of a verdict.

    Attributes:
        reliable: a number is reliable where its error ÷ number is below this.
        with_care: a number is to be used with care where its error ÷ number is at most this.
    """

    reliable: float = 0.166
    with_care: float = 0.333

    def __post_init__(self) -> None:
        """Refuse what cannot be thresholds.

        Raises:
            ValueError: not 0 < reliable ≤ with_care < ∞.
            TypeError: no numbers.
        """
        for name, share in (("with_care", self.with_care), ("reliable", self.reliable)):
            if isinstance(share, bool) or not isinstance(share, int | float | np.floating):
                raise TypeError(f"{name}: {safe_text(share)} must be a number, such as {getattr(STANDARD, name)}")
            if not 0 < share < float("inf"):
                raise ValueError(f"{name}: {share!r} must be more than 0; {getattr(STANDARD, name)} is usual")
        if self.reliable > self.with_care:
            raise ValueError(
                f"with_care: {self.with_care!r} is less than reliable, {self.reliable!r}; numbers with the smaller "
                "relative errors are the reliable ones"
            )

    def least_usable(self, off: float) -> float:
        """The number from which on numbers with an error of this size are not unreliable."""
        return off / self.with_care


STANDARD = QualityThresholds()


def verdicts(
    rows: pa.Table,
    errors: LevelErrors,
    thresholds: QualityThresholds = STANDARD,
    *,
    holds_zero: BoolArray | None = None,
) -> VerdictArray:
    """The verdict of each number of a table, as its position in `QUALITIES`; −1 where its error is not known.

    Standard deviations from replicates may be 0 though the number has an error, so that none of these is exact.

    Args:
        rows: of the table, with `std_dev`, and with all columns that intervals are made of, as far as the table has
            them.
        errors: of the level.
        thresholds: of the verdicts.
        holds_zero: where the interval at `ALPHA` holds 0, if that is not the interval that `with_intervals` gives.
    """
    numbers, std_dev = (rows.column(name).to_numpy() for name in (number_column(rows), "std_dev"))
    if holds_zero is None:
        holds_zero = numbers <= 0  # an interval holds its number
        unclear = np.flatnonzero(~holds_zero & np.isfinite(std_dev))
        holds_zero[unclear] = _intervals(rows.take(unclear), errors)[0] == 0
    off = typical_errors(rows, errors)
    exact = (std_dev == 0) & (off == 0) & (errors.replicates is None)
    return judged(np.abs(numbers.astype(np.float64)), off, holds_zero, exact, thresholds)


def typical_errors(rows: pa.Table, errors: LevelErrors) -> FloatArray:
    """How large the error of each published number is taken to be: `typical_error` where the table has it.

    Of numbers that are listed because their measurements were large, it is the root of p·number² + (1 − p)·e², with the
    probability p that the true number is 0, as far as it is known. e is `std_dev`, or more where the 90 % interval
    reaches further down than that of a number with this standard deviation, since such numbers are too large on
    average. Of others it is `std_dev`.
    """
    if TYPICAL_ERROR in rows.column_names:
        return np.asarray(rows.column(TYPICAL_ERROR).to_numpy(), dtype=np.float64)
    off = np.array(rows.column("std_dev").to_numpy(), dtype=np.float64)
    known = np.flatnonzero(np.isfinite(off))
    if LISTED_FROM not in rows.column_names or not len(known):
        return off
    numbers = rows.column(number_column(rows)).to_numpy()[known]
    reach = np.maximum(numbers - _intervals(rows.take(known), errors)[0], 0) / quantile(ALPHA, None)
    zero = np.zeros(len(known))
    if PROBABILITY_ZERO in rows.column_names:
        zero = np.nan_to_num(rows.column(PROBABILITY_ZERO).to_numpy()[known])
    off[known] = np.sqrt(zero * numbers.astype(np.float64) ** 2 + (1 - zero) * np.maximum(off[known], reach) ** 2)
    return off


def _intervals(rows: pa.Table, errors: LevelErrors) -> tuple[IntArray, IntArray]:
    """The intervals of numbers at `ALPHA`."""
    used = [name for name in (number_column(rows), *MADE_OF) if name in rows.column_names]
    return number_intervals(rows.select(used), ALPHA, errors)


def judged(
    sizes: FloatArray,
    off: FloatArray,
    holds_zero: BoolArray,
    exact: BoolArray,
    thresholds: QualityThresholds = STANDARD,
) -> VerdictArray:
    """The verdicts of numbers, see `verdicts`.

    Args:
        sizes: float64 (n,), of the numbers, ≥ 0.
        off: float64 (n,), of the error of each; NaN where it is not known.
        holds_zero: where the interval at `ALPHA` holds 0.
        exact: where a number has no error.
        thresholds: of the verdicts.
    """
    found = np.full(len(sizes), QUALITIES.index(UNRELIABLE), dtype=np.int8)
    found[off <= thresholds.with_care * sizes] = QUALITIES.index(WITH_CARE)
    found[off < thresholds.reliable * sizes] = QUALITIES.index(RELIABLE)
    found[holds_zero] = QUALITIES.index(NEAR_ZERO)
    found[exact] = QUALITIES.index(EXACT)
    found[np.isnan(off)] = -1
    return found


def quality_column(codes: VerdictArray) -> pa.DictionaryArray:
    """The column `quality`: verdicts as a dictionary of `QUALITIES`, null where there is none."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(QUALITIES))


def with_quality(
    rows: pa.Table,
    errors: LevelErrors,
    thresholds: QualityThresholds = STANDARD,
    *,
    holds_zero: BoolArray | None = None,
) -> pa.Table:
    """Published rows with the column `quality` as the last, where they have standard deviations; see `verdicts`.

    Raises:
        TypeError: `thresholds` are none.
    """
    if not isinstance(thresholds, QualityThresholds):
        raise TypeError(
            f"thresholds: {safe_text(thresholds)} must be tallytree.release.QualityThresholds, such as "
            "QualityThresholds(reliable=0.1, with_care=0.25)"
        )
    if "std_dev" not in rows.column_names:
        return rows
    return rows.append_column(QUALITY, quality_column(verdicts(rows, errors, thresholds, holds_zero=holds_zero)))


def numbers_by_verdict(slices: Iterable[pa.Table], errors: LevelErrors) -> dict[str, int]:
    """How many numbers of a table have each verdict, best first; numbers without a verdict are not counted.

    Args:
        slices: the rows of the table, as they are stored.
        errors: of the level.
    """
    found = np.zeros(len(QUALITIES) + 1, dtype=np.int64)
    for rows in slices:
        if "std_dev" in rows.column_names:
            found += np.bincount(verdicts(rows, errors) + 1, minlength=len(found))
    return dict(zip(QUALITIES, found[1:].tolist(), strict=True))


def usable_numbers(slices: Iterable[pa.Table], errors: LevelErrors) -> tuple[int, int, int] | None:
    """How many numbers are reliable (exact ones too), to be used with care, and neither.

    None where no number has a verdict.
    """
    found = numbers_by_verdict(slices, errors)
    good, care, total = found[EXACT] + found[RELIABLE], found[WITH_CARE], sum(found.values())
    return (good, care, total - good - care) if total else None


def without_unreliable(rows: pa.Table) -> pa.Table:
    """Rows with verdicts, in which numbers that are unreliable, or not distinguishable from 0, are null.

    What tells the number beside it is null too: the typical error, the interval, the unbiased estimate, and how
    probable a 0 is. The verdict and `std_dev` stay. Numbers without a verdict stay.
    """
    verdict = rows.column(QUALITY)
    if not pa.types.is_dictionary(verdict.type):  # a level of that name
        return rows
    poor = pc.is_in(verdict.cast(pa.string()), pa.array([UNRELIABLE, NEAR_ZERO]))
    for place, field in enumerate(rows.schema):
        if field.name in (*NUMBERS, *TELLS_THE_NUMBER):
            kept = pc.if_else(poor, pa.scalar(None, field.type), rows.column(place))
            rows = rows.set_column(place, field.name, kept)
    return rows
