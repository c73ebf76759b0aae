"""Totals of areas with what is known of their errors; and the same of several releases together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.numbers.remainder_totals import MeasuredSums, RemainderSums
from tallytree.release.intervals import LevelErrors, checked_alpha, interval, quantile, unbiased_interval
from tallytree.release.quality import ALPHA, STANDARD, QualityThresholds, with_quality
from tallytree.support.arrays import FloatArray, NumberArray

NEAR_ZERO = 4.0
"""Standard deviations of the noise."""


def with_floor(variance: FloatArray, number: NumberArray, floor: FloatArray | float) -> FloatArray:
    """Variances from replicates, float64 (n,): at least that of the noise where a number is near 0.

    A number near 0 hardly varies in replicates, since it cannot become negative. Its noise may have moved it down.

    Args:
        variance: float64 (n,), from replicates.
        number: (n,), published.
        floor: the standard deviation of the noise.
    """
    return np.where(number <= NEAR_ZERO * floor, np.maximum(variance, np.square(floor)), variance)


@dataclass(frozen=True, eq=False)
class Totals:
    """Totals of areas.

    Attributes:
        columns: what each total is of, and the totals.
        numbers: (n,) the totals.
        std_dev: float64 (n,), of the error of each; None where nothing is known of it.
        unbiased: float64 (n,), an estimate before x ≥ 0 and rounding; None where there is none of all areas.
        errors: what else is known of the errors.
        remainders: the sums in place of these, where cells are listed by their measurements.
        whole: whether the true totals are integers, and not sums with weights.
    """

    columns: Mapping[str, Any]
    numbers: NumberArray
    std_dev: FloatArray | None = None
    unbiased: FloatArray | None = None
    errors: LevelErrors = field(default_factory=LevelErrors)
    remainders: RemainderSums | None = None
    whole: bool = True

    @classmethod
    def of_remainders(cls, names: Mapping[str, Any], sums: RemainderSums) -> Totals:
        """Totals where cells are listed by their measurements."""
        std_dev = np.sqrt(sums.inside.variance)
        return cls({**names, "count": sums.count}, sums.count, std_dev, remainders=sums)

    def table(self, alpha: float) -> pa.Table:
        """The totals with their standard deviations, and intervals at `alpha`; without these where they are unknown."""
        columns = dict(self.columns)
        if self.std_dev is None:
            return pa.table(columns)
        mask = np.zeros(len(self.std_dev), dtype=np.bool_) if self.remainders is None else ~self.remainders.complete
        lower, upper = self.ends(alpha)
        return pa.table(columns | {"std_dev": pa.array(self.std_dev, mask=mask), "ci_lower": lower, "ci_upper": upper})

    def judged(self, alpha: float, thresholds: QualityThresholds = STANDARD) -> pa.Table:
        """The same with the verdict of each total."""
        return with_quality(self.table(alpha), self.errors, thresholds, holds_zero=self.ends(ALPHA)[0] == 0)

    @property
    def estimate(self) -> NumberArray:
        """What the errors are of: unbiased where there is such an estimate of all areas, else the totals, (n,)."""
        return self.numbers if self.unbiased is None else self.unbiased

    @property
    def variance(self) -> FloatArray:
        """Of the error of each estimate, float64 (n,); not a number where nothing is known of it."""
        if self.std_dev is None:
            return np.full(len(self.numbers), np.nan)
        variance = self.std_dev**2
        if self.errors.replicates is not None:
            return with_floor(variance, self.numbers, self.errors.upward_std_dev)
        return np.asarray(variance + self.errors.rounding * (variance > 0) * (self.unbiased is None))

    def ends(self, alpha: float) -> tuple[NumberArray, NumberArray]:
        """Lower and upper ends of intervals for the true totals, (n,) each: integers, as these; else float64."""
        if self.remainders is not None:
            return self.remainders.ends(alpha)
        std_dev = np.zeros(len(self.numbers)) if self.std_dev is None else self.std_dev
        if not self.whole:
            reach = quantile(checked_alpha(alpha), self.errors.replicates) * np.sqrt(np.nan_to_num(self.variance))
            ends = np.maximum(self.estimate - reach, 0.0), self.estimate + reach
            return np.minimum(ends[0], self.numbers), np.maximum(ends[1], self.numbers)
        if self.unbiased is None:
            return interval(self.numbers, std_dev, alpha, self.errors)
        return unbiased_interval(self.numbers, self.unbiased, std_dev, alpha)


def added(several: Sequence[Totals], names: Mapping[str, Any]) -> Totals:
    """The totals of several releases together, whose noise is independent.

    Raises:
        ValueError: some list cells by their measurements, and others do not.
    """
    parts = [each.remainders for each in several]
    if all(part is not None for part in parts):
        sums = reduce(_both, [part for part in parts if part is not None])
        return Totals.of_remainders(names, sums)
    if any(part is not None for part in parts):
        raise ValueError(
            "releases: some list only cells that were measured as large, others list all; add up releases of one kind"
        )
    count = np.sum([each.numbers for each in several], axis=0)
    columns = {**names, "count": count}
    if any(each.std_dev is None for each in several):
        return Totals(columns, count)
    deviations = [np.zeros(len(count)) if each.std_dev is None else each.std_dev for each in several]
    rounds = [each.errors.replicates for each in several if each.errors.replicates is not None]
    upward = [np.maximum(sd, each.errors.upward_std_dev) for sd, each in zip(deviations, several, strict=True)]
    unbiased = [each.unbiased for each in several if each.unbiased is not None]
    errors = LevelErrors(
        min(rounds, default=None), _root(upward) if rounds else 0.0, sum(each.errors.rounding for each in several)
    )
    middle = np.sum(unbiased, axis=0) if len(unbiased) == len(several) else None
    return Totals(columns, count, _root(deviations), middle, errors)


def beside(parts: Sequence[Totals], areas: int) -> Totals:
    """Totals of the same areas, equally many of each, as one, in which those of an area follow each other."""

    def joined(each: Sequence[NumberArray | None]) -> Any:
        known = [numbers.reshape(areas, -1) for numbers in each if numbers is not None]
        return np.concatenate(known, axis=1).ravel() if len(known) == len(parts) else None

    numbers, std_dev, unbiased = (
        joined([getattr(part, name) for part in parts]) for name in ("numbers", "std_dev", "unbiased")
    )
    return Totals({}, numbers, std_dev, unbiased, whole=parts[0].whole)


def _root(deviations: Sequence[FloatArray]) -> FloatArray:
    """The standard deviation of a sum of independent errors."""
    return np.asarray(np.sqrt(np.sum(np.square(deviations), axis=0)), dtype=np.float64)


def _both(first: RemainderSums, second: RemainderSums) -> RemainderSums:
    """The sums of two releases together."""
    return RemainderSums(
        first.count + second.count,
        _measured(first.inside, second.inside),
        _measured(first.reached, second.reached),
        first.complete & second.complete,
    )


def _measured(first: MeasuredSums, second: MeasuredSums) -> MeasuredSums:
    return MeasuredSums(first.total + second.total, first.variance + second.variance)
