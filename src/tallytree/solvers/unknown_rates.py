"""How much less certain tail counts are if their rates are not known exactly. (draft)"""

from __future__ import annotations

import math

import numpy as np

from tallytree.compute.arrays import FloatArray
from tallytree.compute.kernels import kernel
from tallytree.solvers.rates import MIN_RATE

DOUBT = 2.0
FLOOR = 0.0
REACH = 0.5


@kernel
def factors(
    noise: float, mu: FloatArray, dispersion: FloatArray, first_size: int, n: int, out: FloatArray, work: FloatArray
) -> None:
    """out[r] = variance with uncertain rates / variance with known rates; work (10, >= n)."""
    f00, f01, f11, p00, p01, p11, one_f, one_p, decay, amp = work[0], work[1], work[2], work[3], work[4], work[5], work[6], work[7], work[8], work[9]
    left = 0.0
    for r in range(n - 1, 0, -1):
        left += mu[r]
        one_p[r] = left
    a, b, c, plain = noise, 0.0, 1.0, noise
    f00[0], f01[0], f11[0], one_f[0] = a, b, c, plain
    for r in range(1, n):
        m = max(mu[r], MIN_RATE)
        s = max(first_size + r, 1)
        rho = math.exp(-1.0 / (s * REACH))
        decay[r] = rho
        # predict xi
        b *= rho
        c = rho * rho * c + (1.0 - rho * rho)
        # predict T = T - m (1 + xi) + noise
        w = 2.0 * max(2.0, 0.25 * s)
        extra = min(FLOOR * FLOOR * 2.0 * noise / (w * w * w), ((one_p[r] + 1.0) / w) ** 2)
        amp[r] = math.sqrt(DOUBT * DOUBT * m * m + extra)
        q = min(dispersion[r] * m, 1e300)
        a = a - 2.0 * amp[r] * b + amp[r] * amp[r] * c + q
        b = b - amp[r] * c
        p00[r], p01[r], p11[r] = a, b, c
        plain += q
        one_p[r] = plain
        g = a + noise
        c -= b * b / g
        b = b * noise / g
        a = a * noise / g
        plain = plain * noise / (plain + noise)
        f00[r], f01[r], f11[r], one_f[r] = a, b, c, plain
    s00, s01, s11, one = f00[n - 1], f01[n - 1], f11[n - 1], one_f[n - 1]
    out[n - 1] = s00 / one
    f00[n - 1] = s00
    for r in range(n - 2, -1, -1):
        m, rho = amp[r + 1], decay[r + 1]
        # F = [[1, -m rho], [0, rho]]; C = P_f F^T P_p^{-1}
        h00 = f00[r] - m * rho * f01[r]
        h01 = rho * f01[r]
        h10 = f01[r] - m * rho * f11[r]
        h11 = rho * f11[r]
        det = p00[r + 1] * p11[r + 1] - p01[r + 1] ** 2
        i00, i01, i11 = p11[r + 1] / det, -p01[r + 1] / det, p00[r + 1] / det
        c00, c01 = h00 * i00 + h01 * i01, h00 * i01 + h01 * i11
        c10, c11 = h10 * i00 + h11 * i01, h10 * i01 + h11 * i11
        d00, d01, d11 = s00 - p00[r + 1], s01 - p01[r + 1], s11 - p11[r + 1]
        e00, e01 = c00 * d00 + c01 * d01, c00 * d01 + c01 * d11
        e10, e11 = c10 * d00 + c11 * d01, c10 * d01 + c11 * d11
        s00 = f00[r] + e00 * c00 + e01 * c01
        s01 = f01[r] + e00 * c10 + e01 * c11
        s11 = f11[r] + e10 * c10 + e11 * c11
        gain = one_f[r] / one_p[r + 1]
        one = one_f[r] + gain * gain * (one - one_p[r + 1])
        out[r] = max(s00 / one, 1.0)
        f00[r] = s00
