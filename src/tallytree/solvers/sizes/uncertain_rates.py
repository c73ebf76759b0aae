"""How much larger the errors of tail counts are because the rates that are expected are estimates, too.

A posterior (`state_chain.posterior`) takes its rates μ as known. Here they are not: in the Gaussian chain of
`gaussian_chain`, the mean of drop r is μ_r·(1 + `DOUBT`·ξ_r). ξ has mean 0 and variance 1, and its values at the sizes
s < t have the correlation exp(−log(t / s) / `REACH`). With (x_r, ξ_r) as its state this is a Markov chain again, so
posterior variances come from a Kalman filter and the smoother of Rauch, Tung and Striebel (1965). They depend on the
noise, on μ and on κ, not on the noisy values.

Their ratio to the variances with known rates is 1 where a node's own cells tell its counts, and more where the rates
do. It is applied to posteriors of integers too, which have no such closed form.

Source: ours.
"""

from __future__ import annotations

import math

from tallytree.solvers.sizes.rates import MIN_RATE
from tallytree.support.arrays import FloatArray
from tallytree.support.kernels import inlined, kernel

DOUBT = 2.0
"""The standard deviation of a rate about its estimate, as a part of it: a node may have no groups of some sizes, or
several times as many as expected. Where noise hides them, no data can tell; 0.5 and 1 are not enough on real data."""
REACH = 0.5
"""The distance in log(size) at which the correlation of such deviations is 1/e. Rates are averages over half of that in
either direction, so they can follow deviations that are much longer."""
UNBOUNDED = 1e200
"""The variance of a drop that is not modelled."""


@kernel
def widen(
    noise: float,
    mu: FloatArray,
    dispersion: FloatArray,
    first_size: int,
    wide: FloatArray,
    factor: FloatArray,
    scratch: FloatArray,
) -> None:
    """Posterior variances of a chain with uncertain rates, and their ratios to those with known rates.

    A covariance of (x, ξ) is written (a, b, c): of x, of both, of ξ.

    Args:
        noise: the variance of the noise in a cell.
        mu: (>= n,) rates of the drops; that of cell 0 is not used.
        dispersion: (>= n,) κ of each drop.
        first_size: the size of cell 0.
        wide: (n,) out, variances with uncertain rates.
        factor: (n,) out, ≥ 1.
        scratch: (9, >= n)
    """
    n = len(wide)
    a_after, b_after, c_after, a_before, b_before, c_before = (
        scratch[0],
        scratch[1],
        scratch[2],
        scratch[3],
        scratch[4],
        scratch[5],
    )
    area, known_after, known_before = scratch[6], scratch[7], scratch[8]
    a, b, c, known = noise, 0.0, 1.0, noise
    a_after[0], b_after[0], c_after[0], known_after[0] = a, b, c, known
    for r in range(1, n):
        stay, slope, spread = _step(r, mu, dispersion, first_size)
        # ξ goes on first. The determinant is computed before x takes over part of ξ, which cancels digits.
        b, c = stay * b, stay * stay * c + 1.0 - stay * stay
        area[r] = max(a * c - b * b, 0.0) + spread * c
        a, b = a - 2.0 * slope * b + slope * slope * c + spread, b - slope * c
        known += spread
        a_before[r], b_before[r], c_before[r], known_before[r] = a, b, c, known
        total = a + noise
        c = (area[r] + noise * c) / total
        a, b = a * (noise / total), b * (noise / total)
        known *= noise / (known + noise)
        a_after[r], b_after[r], c_after[r], known_after[r] = a, b, c, known
    wide[n - 1], factor[n - 1] = a, max(a / known, 1.0)
    for r in range(n - 2, -1, -1):
        stay, slope, _ = _step(r + 1, mu, dispersion, first_size)
        # The gain is (covariance of this state and the next) · (inverse of the covariance before of the next).
        x_x, x_xi = a_after[r] - slope * stay * b_after[r], stay * b_after[r]
        xi_x, xi_xi = b_after[r] - slope * stay * c_after[r], stay * c_after[r]
        p, q, s = c_before[r + 1] / area[r + 1], -b_before[r + 1] / area[r + 1], a_before[r + 1] / area[r + 1]
        g00, g01, g10, g11 = x_x * p + x_xi * q, x_x * q + x_xi * s, xi_x * p + xi_xi * q, xi_x * q + xi_xi * s
        da, db, dc = a - a_before[r + 1], b - b_before[r + 1], c - c_before[r + 1]
        h00, h01, h10, h11 = g00 * da + g01 * db, g00 * db + g01 * dc, g10 * da + g11 * db, g10 * db + g11 * dc
        a = a_after[r] + h00 * g00 + h01 * g01
        b = b_after[r] + h00 * g10 + h01 * g11
        c = c_after[r] + h10 * g10 + h11 * g11
        gain = known_after[r] / known_before[r + 1]
        known = known_after[r] + gain * (gain * (known - known_before[r + 1]))
        # Rounding may leave these bounds where the noise is tiny beside the rates.
        a = min(max(a, known), a_after[r])
        wide[r], factor[r] = a, a / known


@inlined
def _step(r: int, mu: FloatArray, dispersion: FloatArray, first_size: int) -> tuple[float, float, float]:
    """From cell r − 1 to r: how much of ξ stays, what ξ = 1 adds to the drop, and the drop's own variance."""
    rate = max(mu[r], MIN_RATE)
    stay = math.exp(-1.0 / (REACH * max(first_size + r, 1)))
    return stay, DOUBT * rate, min(dispersion[r] * rate, UNBOUNDED)
