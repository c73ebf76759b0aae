"""Totals of areas with what is known of their errors; and the same of several releases together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.numbers.remainder_totals import MeasuredSums, RemainderSums
from tallytree.release.intervals import LevelErrors, interval, unbiased_interval
from tallytree.release.quality import ALPHA, STANDARD, QualityThresholds, with_quality
from tallytree.support.arrays import FloatArray, IntArray, NumberArray


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
    """

    columns: Mapping[str, Any]
    numbers: NumberArray
    std_dev: FloatArray | None = None
    unbiased: FloatArray | None = None
    errors: LevelErrors = field(default_factory=LevelErrors)
    remainders: RemainderSums | None = None

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

    def ends(self, alpha: float) -> tuple[IntArray, IntArray]:
        """Lower and upper ends of intervals for the true totals: int64 (n,) each."""
        if self.remainders is not None:
            return self.remainders.ends(alpha)
        std_dev = np.zeros(len(self.numbers)) if self.std_dev is None else self.std_dev
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
