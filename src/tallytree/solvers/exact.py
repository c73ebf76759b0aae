"""Exact comparison and division of integers whose products may not fit 64 bits."""

from __future__ import annotations

from tallytree.support.kernels import kernel

MAX_FACTOR = 3_037_000_499
"""The product of two integers up to this fits int64."""


@kernel
def mean_at_least(s: int, n: int, t: int, m: int, wide: bool) -> bool:
    """Whether s/n >= t/m, exactly; n, m > 0.

    Where the cross products may not fit int64 (`wide`), quotients are compared, then the reciprocals of what
    remains, as Euclid's algorithm does; O(log min(n, m)).
    """
    if not wide:
        return s * m >= t * n
    while True:
        q, p = s // n, t // m
        if q != p:
            return q > p
        s, t = s - q * n, t - p * m
        if t == 0:
            return True
        if s == 0:
            return False
        s, n, t, m = m, t, n, s


@kernel
def share(k: int, n: int, t: int) -> tuple[int, int]:
    """⌊k·n/t⌋ and the remainder of k·n by t, exactly, for 0 <= k, n <= t < 2^62.

    Where k·n may not fit int64, the bits of k are fed from the top: k's prefix times n is quotient·t + remainder.
    """
    if t <= MAX_FACTOR:
        return k * n // t, k * n % t
    quotient, remainder = 0, 0
    for bit in range(61, -1, -1):
        quotient *= 2
        remainder *= 2
        if remainder >= t:
            remainder -= t
            quotient += 1
        if (k >> bit) & 1:
            remainder += n
            if remainder >= t:
                remainder -= t
                quotient += 1
    return quotient, remainder
