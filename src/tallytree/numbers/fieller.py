"""The ratio of two numbers with errors: its estimate, its standard deviation and Fieller's interval.

Let n and d be estimates of the numerator N and the denominator D, with the variances v_n and v_d and the covariance c.
For the true ratio θ = N / D, the difference n − θ·d has mean 0 and the variance v_n − 2θc + θ²v_d. So

    (n − θ·d)² ≤ q² · (v_n − 2θc + θ²v_d)

holds with probability 1 − alpha, whatever D is, and the θ that meet it are the interval (Fieller 1954, Journal of the
Royal Statistical Society B 16). It has ends where d differs from 0 by more than q standard deviations. Elsewhere the
data do not bound the ratio: the θ are all numbers, or those outside of two ends. The interval is then the smallest one
that holds those of them that are possible, from the least to the greatest; an end that is infinite is null.

Numerator and denominator are integers. An interval of q standard deviations around a noisy integer can hold too few of
them where the noise is small: half a unit is added to it, as to the intervals of counts (the continuity correction).

**Denominators near 0.** Where D is near 0, |d| exceeds q standard deviations by chance alone, and the bounded interval
then misses. So an end that lies away from 0 is infinite up to 2q standard deviations, and from 3q on it is Fieller's.
Between these, with r = (|d| − ½) / √v_d, it is Fieller's with the quantile r − 2(r − 2q)² / q in place of q. This falls
from 2q to q so late that of the ends that are given, for a D of 0.7 standard deviations or more, at least 87 % hold
(90 % intervals). Of smaller D, at most 0.4 % have such an end.

The standard deviation of n / d is √(v_n − 2θc + θ²v_d) / |d|, to first order. It is null where the 90 % interval has
such an infinite end.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tallytree.numbers.cells import Estimates
from tallytree.release.intervals import quantile
from tallytree.release.quality import ALPHA, judged, quality_column
from tallytree.support.arrays import BoolArray, FloatArray

HALF = 0.5


def ratio_columns(
    pair: Estimates, alpha: float, between: tuple[float, float], name: str, shift: float = 0.0
) -> dict[str, pa.Array]:
    """The columns of a table of ratios: estimate, `std_dev`, `ci_lower`, `ci_upper` and `quality`.

    Args:
        pair: numerators and denominators. The ratio is that of published numbers.
        alpha: intervals are to miss the true ratio with this probability.
        between: no ratio is less, and none is more.
        name: of the column with the estimate.
        shift: is added to every ratio.
    """
    n, d = (np.asarray(each, dtype=np.float64) for each in pair.published)
    ratio: FloatArray = np.divide(n, d, out=np.full(len(n), np.nan), where=d != 0)
    std_dev = ratio_std_dev(ratio, pair)
    lower, upper = _extended(pair, alpha, between, ratio)
    low, high = _extended(pair, ALPHA, between, ratio)
    unknown = ~np.isfinite(pair.variances[0] + pair.variances[1])
    shown = ratio + shift
    holds_zero, exact = (low <= -shift) & (high >= -shift), (std_dev == 0) & (pair.replicates is None)
    quality = quality_column(judged(np.abs(np.nan_to_num(shown)), std_dev, holds_zero, exact))
    columns = {name: shown, "std_dev": std_dev, "ci_lower": lower + shift, "ci_upper": upper + shift}
    hidden = {"ci_lower": unknown, "ci_upper": unknown}
    shown_columns: dict[str, pa.Array] = {
        column: pa.array(values, mask=~np.isfinite(values) | hidden.get(column, False))
        for column, values in columns.items()
    }
    return shown_columns | {"quality": quality}


def _extended(
    pair: Estimates, alpha: float, between: tuple[float, float], published: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fieller's interval of each ratio, extended to the published one."""
    lower, upper = fieller_interval(pair, alpha, *between)
    return np.fmin(lower, published), np.fmax(upper, published)


def ratio_std_dev(ratio: FloatArray, pair: Estimates) -> FloatArray:
    """The standard deviation of each ratio, float64 (n,); NaN where the denominator may be 0, or nothing is known."""
    (of_numerator, of_denominator), d = pair.variances, pair.middle[1]
    near = _corrected(of_denominator, 2 * quantile(ALPHA, pair.replicates), 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = (of_numerator - 2 * ratio * pair.covariance + ratio**2 * of_denominator) / d**2
        std_dev = np.sqrt(np.maximum(variance, 0.0))
    return np.where((d**2 > near) & np.isfinite(std_dev), std_dev, np.nan)


def fieller_interval(
    pair: Estimates, alpha: float, least: float = -np.inf, most: float = np.inf
) -> tuple[FloatArray, FloatArray]:
    """Fieller's interval of each ratio, float64 (n,) each; infinite where it has no end, see the module's docstring."""
    q = quantile(alpha, pair.replicates)
    with np.errstate(invalid="ignore", divide="ignore"):
        far = (np.abs(pair.middle[1]) - HALF) / np.sqrt(pair.variances[1])
    near = np.clip(np.nan_to_num(far, nan=0.0), 2 * q, 3 * q)
    narrow = _ends(pair, q, least, most)
    wide = _ends(pair, near - 2 * (near - 2 * q) ** 2 / q, least, most)
    lower = np.where(narrow[0] > 0, narrow[0], wide[0])  # an end on the side of 0 is none that D near 0 moves away
    return lower, np.where(narrow[1] < 0, narrow[1], wide[1])


def _ends(pair: Estimates, reach: FloatArray | float, least: float, most: float) -> tuple[FloatArray, FloatArray]:
    """Fieller's interval with `reach` in place of q."""
    n, d = pair.middle
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        a = d**2 - _corrected(pair.variances[1], reach, 1.0)
        b = n * d - reach**2 * pair.covariance
        c = n**2 - _corrected(pair.variances[0], reach, pair.unit)
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        ends = np.sort(np.stack([(b - root) / a, (b + root) / a]), axis=0)
    bounded = (a > 0) & np.isfinite(ends).all(axis=0)
    outside = (a < 0) & (b**2 > a * c) & np.isfinite(ends).all(axis=0)
    return _possible(ends, bounded, outside, least, most)


def _corrected(variance: FloatArray, reach: FloatArray | float, unit: float) -> FloatArray:
    """The square of q standard deviations and half a unit; 0 of what is exact."""
    return np.asarray(np.where(variance > 0, reach * np.sqrt(variance) + HALF * unit, 0.0) ** 2, dtype=np.float64)


def _possible(
    ends: FloatArray, bounded: BoolArray, outside: BoolArray, least: float, most: float
) -> tuple[FloatArray, FloatArray]:
    """The smallest interval that holds the ratios which are found and possible.

    Args:
        ends: float64 (2, n).
        bounded: where the ratios between the ends are found.
        outside: where those that are not between them are; elsewhere all are.
        least: no ratio is less.
        most: no ratio is more.
    """
    low, high = ends
    below, above = low >= least, high <= most  # of the ratios outside, those that are possible
    lower = np.where(bounded, np.clip(low, least, most), least)
    upper = np.where(bounded, np.clip(high, least, most), most)
    lower = np.where(outside & ~below & above, np.maximum(high, least), lower)
    upper = np.where(outside & below & ~above, np.minimum(low, most), upper)
    return lower, upper
