"""`budget_split="auto"` for counts: shares of the budget for the levels, from public facts only.

**The rule.** The expected maximum error of each level (Boninsegna and Silvestri 2025, equation 2) under a split of the
budget is estimated from the tree alone. The split is the one whose mean of these errors over all levels is least.

**The estimate.** A level of n nodes has an error of about √u · m(n). Here m(n) is the median of the largest of n
standard normal magnitudes, and u the variance of one node in a tree where every family of a level has the average size:

    upward      1/a = 1/w + b/A        (a leaf: a = w; w the level's own noise, A the a of the level below, b children)
    downward    u_child = a·(1 − 1/b) + u/b²        (a public root: u = 0; a measured one: u = a)

with a = w everywhere for a mechanism that does not combine levels upward (`TopDown`). Counts of 0 make errors smaller;
they are private, so the estimate does not use them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from tallytree.support.arrays import FloatArray

STEPS = 1_000
"""An even share is this many steps. Every share is an integer number of steps, so it is the same on every machine."""
MIN_STEPS = 100
"""No level gets fewer steps: a level with very noisy measurements makes top-down pruning keep the wrong nodes."""


def auto_split(
    nodes: Sequence[int], std_devs: Mapping[str, float], *, gaussian: bool, root_is_public: bool, upward: bool
) -> dict[str, Fraction]:
    """The share of each measured level.

    Args:
        nodes: the number of nodes of each measured level, root first.
        std_devs: for each measured level, the standard deviation of the noise in a cell if the level had all of the
            budget.
        gaussian: whether a share is a share of ρ, so that variances are proportional to 1/share and not to 1/share².
        root_is_public: whether the total is public, so that only levels below the root are measured.
        upward: whether the measurements of a node's descendants correct the node's count.

    Returns:
        Positive multiples of 1/(1,000 · levels) that add up to 1; empty where no level is measured.
    """
    if not std_devs:
        return {}
    everything = np.square(np.array(list(std_devs.values())))
    factor = np.array([_largest_of(n) for n in nodes])
    children = np.array(nodes, dtype=np.float64) / np.array([1, *nodes[:-1]], dtype=np.float64)

    def errors(shares: FloatArray) -> FloatArray:
        """The mean expected maximum error for each row of shares."""
        noise = everything / (shares if gaussian else shares**2)
        found: FloatArray = np.sqrt(_variances(noise, children, root_is_public, upward)) * factor
        return np.asarray(found.mean(axis=1), dtype=np.float64)

    steps = _best_steps(errors, len(nodes))
    return {level: Fraction(int(step), STEPS * len(nodes)) for level, step in zip(std_devs, steps, strict=True)}


def _variances(noise: FloatArray, children: FloatArray, root_is_public: bool, upward: bool) -> FloatArray:
    """The variance of a node of each level, float64 (rows, levels), for as many rows of noise."""
    own = noise.copy()
    if upward:
        for level in range(len(children) - 2, -1, -1):
            own[:, level] = 1 / (1 / noise[:, level] + 1 / (children[level + 1] * own[:, level + 1]))
    found = np.empty_like(own)
    above = np.zeros(len(own)) if root_is_public else own[:, 0]
    for level, b in enumerate(children):
        above = own[:, level] * (1 - 1 / b) + above / b**2
        found[:, level] = above
    return found


def _largest_of(n: int) -> float:
    """The median of the largest of n standard normal magnitudes."""
    beyond = -math.expm1(-math.log(2) / n) / 2  # P(Z > m) with P(|Z| ≤ m)^n = 1/2, for huge n too
    return -NormalDist().inv_cdf(beyond)


def _best_steps(errors: Callable[[FloatArray], FloatArray], levels: int) -> list[int]:
    """The steps of each level, such that moving steps from one level to another does not lower the mean error.

    Moves are tried in descending size; of equally good moves the first is taken.
    """
    steps = np.full(levels, STEPS)
    least = errors(steps[None] / (STEPS * levels))[0]
    moves = np.eye(levels, dtype=np.int64)
    moves = (moves[None] - moves[:, None]).reshape(-1, levels)
    size = 2 ** int(math.log2(STEPS / 2))
    while size:
        tried = steps + size * moves
        tried = tried[tried.min(axis=1) >= MIN_STEPS]
        found = errors(tried / (STEPS * levels))
        best = int(np.argmin(found))
        if found[best] < least * (1 - 1e-9):
            steps, least = tried[best], found[best]
        else:
            size //= 2
    return [int(step) for step in steps]
