"""A verdict for every published number: how large its error is beside it.

As statistical offices do, the verdict follows from the relative standard error, std_dev ÷ number. The thresholds are
those that Statistics Canada prints beside estimates of its surveys (coefficients of variation of 16.6 % and 33.3 %).

    exact                        the number has no error
    reliable                     std_dev is less than a sixth of the number
    with_care                    a third at most
    unreliable                   more
    not_distinguishable_from_0   the 90 % interval number ± 1.645 · std_dev reaches 0

A number without a standard deviation has no verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tallytree._compute.arrays import FloatArray, NumberArray
from tallytree._validate import safe_text
from tallytree.release.intervals import LevelErrors, quantile

QUALITY = "quality"
"""The column with the verdict."""

EXACT, RELIABLE, WITH_CARE, UNRELIABLE, NEAR_ZERO = QUALITIES = (
    "exact",
    "reliable",
    "with_care",
    "unreliable",
    "not_distinguishable_from_0",
)
"""The verdicts, best first."""

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
        for name, share in (("reliable", self.reliable), ("with_care", self.with_care)):
            if isinstance(share, bool) or not isinstance(share, int | float | np.floating):
                raise TypeError(f"{name}: {safe_text(share)} must be a number, such as {getattr(STANDARD, name)}")
            if not 0 < share < float("inf"):
                raise ValueError(f"{name}: {share!r} must be more than 0; {getattr(STANDARD, name)} is usual")
        if self.reliable > self.with_care:
            raise ValueError(
                f"with_care: {self.with_care!r} is less than reliable, {self.reliable!r}; numbers with the smaller "
                "relative errors are the reliable ones"
            )

    def least_reliable(self, std_dev: float) -> float:
        """The number from which on numbers with this standard deviation are reliable."""
        return std_dev / self.reliable

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
