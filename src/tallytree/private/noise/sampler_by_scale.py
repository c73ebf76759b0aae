"""Which sampler draws noise of a given scale: `sampler_of_laplace` and `sampler_of_gaussian`."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from tallytree.accounting.laws import Gaussian, LaplaceHigh
from tallytree.private.noise.gaussian_digits import gaussian_digits
from tallytree.private.noise.laplace_digits import laplace_digits
from tallytree.private.noise.sampler import Sampler
from tallytree.private.noise.single_table import single_table

_CACHED = 16

# A single table up to here, digits beyond: a larger table does not fit into the processor's nearest caches.
_MAX_LAPLACE_TABLE = 128
_MAX_GAUSSIAN_TABLE = 512

_DIGITS_PER_SIGMA = 512
"""High digits of a Gaussian to a sigma, at least: a proposal fails with a probability of 0.4/512 or less."""


@lru_cache(maxsize=_CACHED)
def sampler_of_laplace(scale: Fraction) -> Sampler:
    """The sampler of discrete Laplace noise of this scale."""
    if scale <= _MAX_LAPLACE_TABLE:
        return single_table(LaplaceHigh(scale, 1))
    # The high digit has some 44·scale/base thresholds, the low one has base.
    return laplace_digits(scale, int(44 * scale).bit_length() // 2)


@lru_cache(maxsize=_CACHED)
def sampler_of_gaussian(sigma: Fraction) -> Sampler:
    """The sampler of discrete Gaussian noise of this sigma."""
    if sigma <= _MAX_GAUSSIAN_TABLE:
        return single_table(Gaussian(sigma))
    return gaussian_digits(sigma, int(sigma / _DIGITS_PER_SIGMA).bit_length() - 1)
