"""The normal distribution in kernels, in logarithms: tails stay exact where they underflow."""

from __future__ import annotations

import math

from tallytree.support.kernels import kernel

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


@kernel
def log_cdf(x: float) -> float:
    """The logarithm of Φ(x): the probability that a standard normal variable is at most x."""
    if x > -8:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2)))
    # Mills' ratio, where erfc underflows or nearly
    return -0.5 * x * x - math.log(-x) - LOG_ROOT_2PI + math.log1p(-1 / (x * x))
