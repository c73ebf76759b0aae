"""How far published integers lie from real numbers, and the errors that are expected of them."""

from __future__ import annotations

import math
from typing import Any

from tallytree.support.arrays import FloatArray
from tallytree.support.kernels import inlined, kernel


@inlined
def _error_of_integer(variance: float, off: float) -> float:
    """√(Σ (k − n)² φ(k) ÷ Σ φ(k)) over the integers k, with n published, and its true integer about normal.

    Args:
        variance: of the normal.
        off: n less its mean.
    """
    if variance > 2.0 or variance <= 1e-9:
        return math.sqrt(variance + off * off) if variance > 2.0 else (0.0 if abs(off) <= 0.5 else abs(off))
    reach = math.ceil(abs(off) + 9.0 * math.sqrt(variance)) + 1
    whole, square = 0.0, 0.0
    nearest = round(-off)
    for k in range(-reach, reach + 1):
        density = math.exp(-0.5 * ((k + off) ** 2 - (nearest + off) ** 2) / variance)
        whole += density
        square += density * k * k
    return math.sqrt(square / whole)


@kernel
def expected_errors(
    published: Any,
    real: FloatArray,
    decided: FloatArray,
    variances: FloatArray,
    estimates: FloatArray,
    reach: float,
    integers: bool,
    found: FloatArray,
) -> None:
    """Write the root mean square error that is expected of each published integer.

    Args:
        published: (areas, cells).
        real: (areas, cells) the real numbers that they are rounded from.
        decided: (areas, cells) what these were fitted to; they err by what they miss at least.
        variances: (areas, cells) of the errors of `decided`.
        estimates: (areas, cells), the least-squares estimates.
        reach: how far a number above 0 may be away from its estimate; it errs by the rest at least.
        integers: whether the noise is so small that it tells integers apart.
        found: (areas, cells), written.
    """
    for c in range(len(real)):
        for g in range(real.shape[1]):
            off, variance = published[c, g] - real[c, g], max(variances[c, g], (real[c, g] - decided[c, g]) ** 2)
            error = _error_of_integer(variance, off) if integers else math.sqrt(variance + off * off)
            if published[c, g] > 0:
                error = max(error, abs(published[c, g] - estimates[c, g]) - reach)
            found[c, g] = error


@kernel
def excess(published: Any, real: FloatArray, part: float) -> float:
    """The sum of squares of what numbers differ by from real ones, less a part of that of the nearest integers.

    Args:
        published: (areas, cells), integers.
        real: (areas, cells).
        part: the part.
    """
    whole = 0.0
    for c in range(len(real)):
        for g in range(real.shape[1]):
            off, nearest = published[c, g] - real[c, g], round(real[c, g]) - real[c, g]
            whole += off * off - part * (nearest * nearest)
    return whole
