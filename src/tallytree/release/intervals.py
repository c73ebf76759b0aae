"""Intervals around published numbers, from the standard deviation beside each.

An interval covers the privacy noise only: not errors in the records, nor people who are missing from them. How it is
built, and how often it covers the true number, is in `docs/explanation/errors.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.kinds.columns import (
    ERROR_COLUMNS,
    HIDDEN,
    LISTED_FROM,
    NUMBERS,
    PROBABILITY_ZERO,
    TAIL_COLUMNS,
    TYPICAL_ERROR,
    UNBIASED,
)
from tallytree.kinds.registry import kind_of
from tallytree.release.statement import own_mechanism
from tallytree.solvers.trees.listing import listed_intervals
from tallytree.support.arrays import FloatArray, IntArray, NumberArray
from tallytree.support.validate import safe_text

COVERS = (
    "An interval covers the privacy noise, and what was done to the noisy numbers; not errors in the records, nor "
    "records that are missing."
)

ROUNDING = 0.25
"""What rounding to integers that add up, and x ≥ 0, add to the variance of a count by `LeastSquares`, about."""

MIN_ALPHA = 1e-12
"""With ten replicates the interval then reaches 43 standard deviations."""

MIN_REPLICATES = 10
"""With fewer, a standard deviation is off by a quarter or more, and the quantile below is no longer exact."""


@dataclass(frozen=True)
class LevelErrors:
    """What is known of the errors of a level beside the standard deviation of each number.

    Attributes:
        replicates: how many replicates the standard deviations were estimated from; None where they are known.
        upward_std_dev: upper ends use at least this standard deviation; one for all numbers, or float64 (n,).
        laplace: whether the noise of one measurement is Laplace noise, and not normal.
        rounding: the variance that rounding to integers that add up has in addition, where standard deviations leave it
            out; one for all numbers, or float64 (n,).
    """

    replicates: int | None = None
    upward_std_dev: float | FloatArray = 0.0
    rounding: float | FloatArray = 0.0
    laplace: bool = False


def number_column(rows: pa.Table) -> str:
    """The column with what was published."""
    return next(name for name in NUMBERS if name in rows.column_names)


def stated_errors(statement: Mapping[str, Any], level: str) -> LevelErrors:
    """What a statement says of the errors of a level; errors that are not stated count as none."""
    errors = statement.get("errors")
    if errors is None or errors["replicates"] is None:
        noise = next((each.get("noise") for each in statement["levels"] if each["level"] == level), None)
        laplace = (noise or {}).get("distribution") == "discrete_laplace"
        return LevelErrors(rounding=stated_rounding(statement), laplace=laplace)
    of_level = next(each for each in errors["levels"] if each["level"] == level)
    if of_level["upward_std_dev"] is None:
        return LevelErrors()
    return LevelErrors(errors["replicates"], of_level["upward_std_dev"])


def stated_rounding(statement: Mapping[str, Any]) -> float:
    """The variance that rounding adds to the stated one of a count; a sum of n counts has n times as much, about."""
    fitted = kind_of(statement).counts_nodes and own_mechanism(statement) == "LeastSquares"
    return ROUNDING if fitted else 0.0


def with_intervals(table: pa.Table, alpha: float, errors: LevelErrors) -> pa.Table:
    """A published table with the columns `ci_lower` and `ci_upper` at `alpha`, in place of any that it has.

    Of group sizes whose tail counts have standard deviations, also with `tail_ci_lower` and `tail_ci_upper`.

    Raises:
        ValueError: the table has no standard deviations, or `alpha` is not between 0 and 1.
        TypeError: `alpha` is not a number.
    """
    has_tails = TAIL_COLUMNS[1] in table.column_names
    if has_tails:
        count, std_dev = (table.column(name).to_numpy() for name in TAIL_COLUMNS)
        ends = interval(count, std_dev, alpha, LevelErrors())
        for position, (name, end) in enumerate(zip(("tail_ci_lower", "tail_ci_upper"), ends, strict=True), 1):
            table = table.add_column(table.column_names.index(TAIL_COLUMNS[1]) + position, name, pa.array(end))
    if "std_dev" not in table.column_names:
        if has_tails:
            return table
        raise ValueError(
            f"alpha: {safe_text(alpha)} asks for intervals, but this release does not know the errors of this level's "
            "numbers; estimate them with tallytree.replicate_errors(release), or `tallytree error DIR` (with "
            "StabilityHistogram, those of the leaves can be)"
        )
    lower, upper = number_intervals(table, alpha, errors)
    kept = table.select([column for column in table.column_names if column not in ERROR_COLUMNS[1:]])
    return kept.append_column("ci_lower", pa.array(lower)).append_column("ci_upper", pa.array(upper))


def number_intervals(table: pa.Table, alpha: float, errors: LevelErrors) -> tuple[IntArray, IntArray]:
    """The ends of the intervals of the numbers of a table, int64 (n,) each; each interval holds its number.

    An interval around the unbiased estimate holds for each cell, whatever its true number is, and one of typical errors
    around the number for cells on average. Where a table has both, the interval is the smallest that holds both. It
    holds 0 where the true number is 0 with a probability of alpha/2 or more, if the table knows that probability.
    """
    lower, upper = ends_of(table, alpha, errors)
    numbers = table.column(number_column(table)).to_numpy()
    if UNBIASED in table.column_names:
        lower, upper = extended(lower, upper, numbers)
    if TYPICAL_ERROR in table.column_names:
        own = interval(numbers, table.column(TYPICAL_ERROR).to_numpy(), alpha, LevelErrors())
        lower, upper = np.minimum(lower, own[0]), np.maximum(upper, own[1])
    if PROBABILITY_ZERO in table.column_names:
        lower[table.column(PROBABILITY_ZERO).to_numpy() >= alpha / 2] = 0
    return lower, upper


def ends_of(table: pa.Table, alpha: float, errors: LevelErrors) -> tuple[IntArray, IntArray]:
    """The ends that the `std_dev` of rows of a table give, int64 (n,) each; they need not hold the published number."""
    numbers, std_dev = (table.column(column).to_numpy() for column in (number_column(table), "std_dev"))
    if UNBIASED not in table.column_names:
        return interval(numbers, std_dev, alpha, errors)
    unbiased = table.column(UNBIASED).to_numpy()
    middle = np.maximum(unbiased, -std_dev) if TYPICAL_ERROR in table.column_names else unbiased
    lower, upper = interval(np.rint(middle).astype(np.int64), std_dev, alpha, LevelErrors())
    if LISTED_FROM in table.column_names:
        least = table.column(LISTED_FROM).to_numpy()
        chosen = np.flatnonzero(np.isfinite(least))
        lower[chosen], upper[chosen] = listed_intervals(
            unbiased[chosen], np.maximum(std_dev[chosen], 1e-9), least[chosen], alpha, laplace=errors.laplace
        )
    return lower, upper


def reach_of_households(rows: pa.Table, alpha: float) -> IntArray:
    """Half the length of the interval of all households of each row's area, int64 (n,); see `MEMBER_COLUMNS`."""
    reach: FloatArray = quantile(alpha, None) * rows.column("households_std_dev").to_numpy()
    return np.ceil(reach).astype(np.int64)


def extended(lower: IntArray, upper: IntArray, released: NumberArray) -> tuple[IntArray, IntArray]:
    """Ends of intervals around unbiased estimates, extended to the published numbers, which costs nothing.

    What was published is not the middle of its interval. x ≥ 0 and the sums move numbers, those near 0 above all, by
    more than their noise at times. The unbiased estimate errs by the noise alone, whatever the true numbers are, so its
    interval misses each of them with probability alpha.
    """
    number = released.astype(np.int64, copy=False)
    return np.minimum(lower, np.maximum(number, 0)), np.maximum(upper, number)


def without_hidden(table: pa.Table) -> pa.Table:
    """A table without the columns that readers do not see unless they ask for them."""
    return table.select([name for name in table.column_names if name not in HIDDEN])


def interval(
    released: NumberArray, std_dev: FloatArray, alpha: float, errors: LevelErrors
) -> tuple[IntArray, IntArray]:
    """Lower and upper ends of intervals for true numbers, which are integers ≥ 0: two int64 (n,).

    released − a … released + b, cut at 0. Both the true and the released number are integers, so their difference
    exceeds a with the probability that an error of the standard deviation `std_dev` exceeds a + ½ (the half-unit, or
    continuity, correction). For an end to miss with probability alpha/2, a would be q · std_dev − ½, with q the
    1 − alpha/2 quantile. That is no integer: of the two integers beside it one misses too often, the other too rarely.
    Which of them is used depends on the integer in question itself, by a fixed rule (`_fractions`): over the integers,
    an end misses with probability alpha/2, and the mean width is as small as that allows.

    The upper end uses at least the level's `upward_std_dev`: a released number near zero hardly varies, since it cannot
    become negative, but the noise of its measurement may have moved it down from a much larger true number.

    Fractions are not rounded before they are released. For them the ends are the outermost integers within
    q · std_dev; no other integer lies there.

    Args:
        released: (n,) published numbers; integers, or fractions as float64.
        std_dev: float64 (n,), of the error of each, bias included.
        alpha: the interval is to miss the true number with this probability.
        errors: of the level.
    """
    tail = checked_alpha(alpha) / 2
    if np.any(errors.rounding):
        std_dev = np.where(std_dev > 0, np.sqrt(std_dev**2 + errors.rounding), 0.0)
    upward = np.maximum(std_dev, errors.upward_std_dev)
    if np.issubdtype(released.dtype, np.floating):
        reach = quantile(alpha, errors.replicates)
        lower = np.minimum(np.ceil(released - reach * std_dev), np.floor(released)).astype(np.int64)
        upper = np.maximum(np.floor(released + reach * upward), np.ceil(released)).astype(np.int64)
    else:
        number = released.astype(np.int64, copy=False)
        far, share = _reach(std_dev, tail, errors.replicates)
        lower = number - far
        lower += (far > 0) & (_fractions(lower) >= share)
        far, share = _reach(upward, tail, errors.replicates)
        upper = number + far
        upper -= (far > 0) & (1.0 - _fractions(upper) >= share)
    return np.maximum(lower, 0), np.maximum(upper, 0)


def unbiased_interval(
    released: NumberArray, unbiased: FloatArray, std_dev: FloatArray, alpha: float
) -> tuple[IntArray, IntArray]:
    """`interval` around an unbiased estimate of each number, `extended` to the published one: two int64 (n,)."""
    return extended(*interval(np.rint(unbiased).astype(np.int64), std_dev, alpha, LevelErrors()), released)


def _reach(std_dev: FloatArray, tail: float, replicates: int | None) -> tuple[IntArray, FloatArray]:
    """How far an end is from the number at most, int64 (n,), and the share of integers at which it is that far.

    At the others it is nearer by 1. An error exceeds k with the probability S(k) = P(Z > (k + ½) / std_dev), and
    share · S(far) + (1 − share) · S(far − 1) = tail. `far` is 0 where S(0) ≤ tail.
    """
    far = np.maximum(np.ceil(quantile(2 * tail, replicates) * std_dev - 0.5), 0.0)
    positive = np.maximum(std_dev, 1e-9)  # below, far is 0 and the share is not used
    outer, inner = (_exceeds((far + half) / positive, replicates) for half in (0.5, -0.5))
    share = np.clip((inner - tail) / np.maximum(inner - outer, np.finfo(float).tiny), 0.0, 1.0)
    return far.astype(np.int64), share


def _fractions(numbers: IntArray) -> FloatArray:
    """A fixed sequence of fractions, one for each integer, spread evenly over 0 … 1 in any run of integers.

    Number · the golden ratio, modulo 1 (Knuth, The Art of Computer Programming 3, section 6.4), in 64-bit integers. The
    upper end uses 1 − this: an integer at which one end would miss is one that the other end contains. The rule is
    public, and uses neither the data nor a random number, so the same release always has the same intervals.
    """
    golden = np.uint64(11400714819323198485)  # 2^64 / the golden ratio
    return np.asarray((numbers.astype(np.uint64) * golden) >> np.uint64(11), dtype=np.float64) / 2.0**53


def _exceeds(z: FloatArray, replicates: int | None) -> FloatArray:
    """The probability that an error over its standard deviation exceeds z; see `quantile`."""
    from scipy.special import ndtr, stdtr  # 0.2 s: only where it is needed

    return np.asarray(ndtr(-z) if replicates is None else stdtr(replicates, -z))


def quantile(alpha: float, replicates: int | None) -> float:
    """The 1 − alpha/2 quantile of an error over its standard deviation.

    That of the normal distribution; where the standard deviation is an estimate from R replicates, that of Student's t
    with R degrees of freedom. It is computed from the lower tail, which stays exact where alpha is tiny.
    """
    if replicates is None:
        return -NormalDist().inv_cdf(alpha / 2)
    from scipy.special import stdtrit  # 0.2 s: only where it is needed

    return -float(stdtrit(replicates, alpha / 2))


def checked_alpha(alpha: float) -> float:
    """`alpha`, if it is a number strictly between 0 and 1.

    Raises:
        ValueError: out of range.
        TypeError: not a number.
    """
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.floating):
        raise TypeError(f"alpha: {safe_text(alpha)} must be a number between 0 and 1; 0.1 makes 90 % intervals")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: {alpha!r} must lie strictly between 0 and 1; 0.1 makes 90 % intervals")
    if alpha < MIN_ALPHA:
        raise ValueError(f"alpha: {alpha!r} must be at least {MIN_ALPHA}; 0.1 makes 90 % intervals")
    return float(alpha)
