"""A verdict for every published number: how large its error is beside it.

As statistical offices do, the verdict follows from the relative standard error, std_dev ÷ number. The thresholds are
those that Statistics Canada prints beside estimates of its surveys (coefficients of variation of 16.6 % and 33.3 %).

    exact                        the number has no error
    reliable                     std_dev is less than a sixth of the number
    with_care                    a third at most
    unreliable                   more
    not_distinguishable_from_0   number ± 1.645 · std_dev reaches 0

A number without a standard deviation has no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree._compute.arrays import FloatArray, NumberArray
from tallytree._validate import safe_text
from tallytree.hierarchy import QUALITY
from tallytree.release.intervals import NUMBERS, PROBABILITY_ZERO, UNBIASED, LevelErrors, number_column, quantile

EXACT, RELIABLE, WITH_CARE, UNRELIABLE, NEAR_ZERO = QUALITIES = (
    "exact",
    "reliable",
    "with_care",
    "unreliable",
    "not_distinguishable_from_0",
)
"""The verdicts, best first."""

TELLS_THE_NUMBER = ("ci_lower", "ci_upper", UNBIASED, PROBABILITY_ZERO)
"""Columns from which a reader could tell the number beside them."""

ALPHA = 0.1
"""Of the interval that reaches 0, or does not."""


@dataclass(frozen=True)
class QualityThresholds:
    """The largest relative standard errors of a verdict.

    Attributes:
        reliable: a number is reliable where std_dev ÷ number is below this.
        with_care: a number is to be used with care where std_dev ÷ number is at most this.
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

    def least_usable(self, std_dev: float) -> float:
        """The number from which on numbers with this standard deviation are not unreliable."""
        return std_dev / self.with_care


STANDARD = QualityThresholds()


def verdicts(
    numbers: NumberArray, std_dev: FloatArray, errors: LevelErrors, thresholds: QualityThresholds = STANDARD
) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    """The verdict of each number, as its position in `QUALITIES`; −1 where the standard deviation is not known.

    Standard deviations from replicates may be 0 though the number has an error, so that none of these is exact.

    Args:
        numbers: (n,) published numbers.
        std_dev: float64 (n,), of the error of each; NaN where it is not known.
        errors: of the level.
        thresholds: of the verdicts.
    """
    size = np.abs(numbers.astype(np.float64))
    reach = quantile(ALPHA, errors.replicates) * std_dev
    found = np.full(len(size), QUALITIES.index(UNRELIABLE), dtype=np.int8)
    found[std_dev <= thresholds.with_care * size] = QUALITIES.index(WITH_CARE)
    found[std_dev < thresholds.reliable * size] = QUALITIES.index(RELIABLE)
    found[size <= reach] = QUALITIES.index(NEAR_ZERO)
    if errors.replicates is None:
        found[std_dev == 0] = QUALITIES.index(EXACT)
    found[np.isnan(std_dev)] = -1
    return found


def quality_column(
    numbers: NumberArray, std_dev: FloatArray, errors: LevelErrors, thresholds: QualityThresholds = STANDARD
) -> pa.DictionaryArray:
    """The column `quality`: the verdict of each number as a dictionary of `QUALITIES`, null where there is none."""
    codes = verdicts(numbers, std_dev, errors, thresholds)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(QUALITIES))


def with_quality(rows: pa.Table, errors: LevelErrors, thresholds: QualityThresholds = STANDARD) -> pa.Table:
    """Published rows with the column `quality` as the last, where they have standard deviations.

    A level of an early release may have that name. Its tables keep the level's column, and have no verdict.

    Raises:
        TypeError: `thresholds` are none.
    """
    if not isinstance(thresholds, QualityThresholds):
        raise TypeError(
            f"thresholds: {safe_text(thresholds)} must be tallytree.release.QualityThresholds, such as "
            "QualityThresholds(reliable=0.1, with_care=0.25)"
        )
    if QUALITY in rows.column_names or "std_dev" not in rows.column_names:
        return rows
    number = rows.column(number_column(rows)).to_numpy()
    std_dev = rows.column("std_dev").to_numpy()
    return rows.append_column(QUALITY, quality_column(number, std_dev.astype(np.float64), errors, thresholds))


def numbers_by_verdict(
    slices: Iterable[pa.Table], errors: LevelErrors, thresholds: QualityThresholds = STANDARD
) -> dict[str, int]:
    """How many numbers of a table have each verdict, best first; numbers without a verdict are not counted.

    Args:
        slices: the rows of the table, as they are stored.
        errors: of the level.
        thresholds: of the verdicts.
    """
    found = np.zeros(len(QUALITIES) + 1, dtype=np.int64)
    for rows in slices:
        if "std_dev" in rows.column_names:
            number = rows.column(number_column(rows)).to_numpy()
            codes = verdicts(number, rows.column("std_dev").to_numpy(), errors, thresholds)
            found += np.bincount(codes + 1, minlength=len(found))
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

    What tells the number beside it is null too: the interval, the unbiased estimate, and how probable a 0 is. The
    verdict and `std_dev` stay. Numbers without a verdict stay.
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
