"""The error that is expected of a published integer, where its true integer is about normal."""

from __future__ import annotations

import math

from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import kernel


@kernel
def expected_errors(real: FloatArray, variance: FloatArray, published: IntArray, deviations: FloatArray) -> None:
    """Write the root mean square error of each published integer, if its true integer is about normal.

    Args:
        real: (areas, cells), the mean of each.
        variance: (areas, cells).
        published: (areas, cells).
        deviations: (areas, cells), written: √(Σ (k − n)² φ(k) ÷ Σ φ(k)) over the integers k.
    """
    for c in range(len(real)):
        for g in range(real.shape[1]):
            v, n = variance[c, g], published[c, g]
            off = n - real[c, g]
            if v > 2.0 or v <= 1e-9:
                deviations[c, g] = math.sqrt(v + off * off) if v > 2.0 else (0.0 if abs(off) <= 0.5 else abs(off))
                continue
            reach = math.ceil(abs(off) + 9.0 * math.sqrt(v)) + 1
            whole, square = 0.0, 0.0
            nearest = round(-off)
            for k in range(-reach, reach + 1):
                density = math.exp(-0.5 * ((k + off) ** 2 - (nearest + off) ** 2) / v)
                whole += density
                square += density * k * k
            deviations[c, g] = math.sqrt(square / whole)
