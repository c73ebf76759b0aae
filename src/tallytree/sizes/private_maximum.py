"""`PrivateMaximum`: a largest size K that is private and measured (Kuo et al. 2018, section 4.3, footnote 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real

import numpy as np

from tallytree.budget import share_beside_levels
from tallytree.kinds.measurements import Noise
from tallytree.support.arrays import IntArray
from tallytree.support.validate import integer, safe_text

DEFAULT_SHARE = Fraction(1, 100)
"""At this share the levels get 1 % more noise, and K is about 5·√2·100/ε above the largest size: 707 at ε = 1."""

DEFAULT_AT_MOST = 100_000
"""The K of Kuo et al. (section 6); it is ten times the size of their largest group."""

MAX_SIZE = 2**31 - 2
"""Sizes are at most this, so that twice a size fits 32 bits."""

STANDARD_DEVIATIONS = 5
"""How far K is above the noisy maximum. Laplace noise is below −5 standard deviations in 0.04 % of releases, Gaussian
noise in a share of 3e-7; then K is less than the size of the largest groups, and these are set to K."""


@dataclass(frozen=True)
class PrivateMaximum:
    """Measure the private largest size with a share of the budget; K is the noisy size plus 5 standard deviations.

    Give it as `max_group_size`. Larger groups are set to K.

    Attributes:
        share: the share of the budget (of ε, or of ρ) that measures the largest size; the levels share the rest.
        at_most: a public bound: K is at most this, and larger groups are set to it before anything is measured. It
            bounds time and memory too.

    Raises:
        ValueError: a share that is not strictly between 0 and 1, or a size out of range.
        TypeError: a value of the wrong type.

    Example:
        >>> import tallytree as tt
        >>> tt.sizes.PrivateMaximum(share=0.02, at_most=5_000)
        PrivateMaximum(share=0.02, at_most=5000)
    """

    share: Fraction
    at_most: int

    def __init__(self, share: Real | float = DEFAULT_SHARE, at_most: int = DEFAULT_AT_MOST) -> None:
        object.__setattr__(self, "share", share_beside_levels(share, DEFAULT_SHARE))
        object.__setattr__(self, "at_most", integer(at_most, "at_most", least=1, most=MAX_SIZE))

    def __repr__(self) -> str:
        """As it was written: `PrivateMaximum(share=…, at_most=…)`."""
        return f"PrivateMaximum(share={float(self.share)!r}, at_most={self.at_most})"


def largest_size(max_group_size: object) -> int | PrivateMaximum:
    """The option `max_group_size`, validated: a public K, or how a private one is measured.

    Raises:
        ValueError: a K out of range, or an unknown text.
        TypeError: a value of the wrong type.
    """
    if isinstance(max_group_size, PrivateMaximum):
        return max_group_size
    if isinstance(max_group_size, str) and max_group_size == "private":
        return PrivateMaximum()
    if isinstance(max_group_size, str):
        raise ValueError(
            f'max_group_size: {max_group_size!r} is not known; give an integer, "private", or '
            "tallytree.sizes.PrivateMaximum(share=…, at_most=…)"
        )
    if max_group_size is None or max_group_size is PrivateMaximum:
        raise TypeError(
            f'max_group_size: {safe_text(max_group_size)} must be an integer, "private", or '
            "tallytree.sizes.PrivateMaximum(share=…, at_most=…)"
        )
    return integer(max_group_size, "max_group_size", least=1, most=MAX_SIZE)


def margin(noise: Noise) -> int:
    """The difference between K and the noisy maximum: five standard deviations of its noise, rounded up."""
    return math.ceil(STANDARD_DEVIATIONS * noise.std_dev)


def largest_published(noisy: IntArray, noise: Noise, smallest: int, at_most: int) -> IntArray:
    """K for every noisy maximum, int64 (n,): within smallest + 1 … at_most, so that there are two sizes at least."""
    return np.clip(noisy + margin(noise), smallest + 1, at_most)
