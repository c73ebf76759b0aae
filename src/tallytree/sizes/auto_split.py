"""`budget_split="auto"`: shares of the budget for the levels, from public facts only.

**The rule.** Of all splits, the one whose geometric mean over the levels of the expected error is least (decision
0038). To divide each level's error by the least that it can have does not change the rule, as that is a constant.

**The expected error** of a level is the sum over its nodes of that of their tail counts. Three facts decide it.

1. *What is measured of a node.* u is the variance of a cell's noise: that of the level and of the levels below it,
   combined by inverse variances. A parent gives its children what it has beyond their sum:

       upward      1/a = 1/w + 1/(b·a_child·g)     (a leaf: a = w; w the level's own noise, b children)
       downward    u_child = a·(1 − 1/b) + u/b²    (the root: u = a)

   Leaves that become exact add up without error. So g = min(1, 16·h·a_child), h the groups of a size in a child: where
   groups are so rare that noise hides none of them, estimates of children add up to less than the noise.
2. *How many cells are averaged*, B. Estimates are smoothed over the √(u/h) cells in which the random number of groups
   is as large as the noise of the average, or over the (u/h²)^(1/3) cells in which monotonicity helps (Zhang 2002) if
   that is less, but always over a quarter of the size. The variance is v = u/B. It is at most T², what the cell counts,
   and h·u where groups are rare. The expected error is about 1 / (1/v + 1.25/√v): √v of normal errors, v of rare ones.
3. *How many groups have each size.* This is private. Of the groups that are not empty, numbers are taken to fall as
   1/size², and 0.1 % to have all sizes alike. How many groups are not empty is guessed, `NOT_EMPTY`, and the rule takes
   the mean of the logarithms. Where numbers of groups are private too, `ASSUMED_GROUPS` are taken for each leaf.

The constants and guesses were chosen on `taxi`, `hawaiian`, `white` and `housing`. The errors
on these, and on other data are in docs/methods/group-sizes.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.sizes.noisy import leaf_offsets
from tallytree.support.arrays import FloatArray, IntArray

STEPS = 1_000
"""An even share is this many steps. Every share is an integer number of steps, so it is the same on every machine."""
MIN_STEPS = 10
"""No level gets fewer steps: every measured level needs a positive share."""
MIN_STEPS_OF_LEAVES = 750
"""Nor do the leaves. Where noise hides them, the estimate of their error no longer grows, but the error does."""
ASSUMED_GROUPS = 3_000
"""In each leaf, where the numbers of groups are private."""
CLASSES = 6
"""Nodes of a level with about the same number of groups count as equal."""
SINGLE_SIZES = 8
"""Larger sizes are taken together, four ranges for each factor of 2."""
FALL = 2.0
ALIKE = 1e-3
RARE = 16.0
TINY = 1e-100
"""Instead of 0, which has no inverse and no logarithm."""
WINDOW = 0.25
FACTORS = (4.0, 2.0, 1.4, 1.15, 1.05)
"""By which a share is multiplied and divided in the search, one after the other."""
LEAST_GAIN = 1e-6
"""A step that lowers the mean logarithm of the errors by less is not taken, so that rounding decides nothing."""


NOT_EMPTY = 0.003, 0.03, 0.3, 1.0
"""Guesses of the share of the groups that are not empty."""


class Sizes(NamedTuple):
    """Ranges of sizes, smaller ones first; each attribute is float64 (ranges,).

    Attributes:
        middle: of the range.
        width: how many sizes it has.
        density: the share of the groups that have one size of the range.
        tail: the share of the groups with sizes from the range on.
    """

    middle: FloatArray
    width: FloatArray
    density: FloatArray
    tail: FloatArray

    @classmethod
    def guessed(cls, largest: int, not_empty: float) -> Sizes:
        """Of the sizes 1 … `largest`; `not_empty` is the share of groups that have one of them."""
        few = np.arange(1.0, min(SINGLE_SIZES, largest) + 1)
        doublings = np.log2(max(largest + 1, SINGLE_SIZES + 1) / (SINGLE_SIZES + 1))
        more = np.geomspace(SINGLE_SIZES + 1, max(largest + 1, SINGLE_SIZES + 1), int(4 * doublings) + 2)
        cuts = np.unique(np.round(np.concatenate([few, more[more <= largest + 1], [largest + 1.0]])))
        width = np.diff(cuts)
        middle = cuts[:-1] + (width - 1) / 2
        density = middle**-FALL
        density = not_empty * ((1 - ALIKE) * density / (density * width).sum() + ALIKE / largest)
        return cls(middle, width, density, np.cumsum((density * width)[::-1])[::-1])


class LevelFacts(NamedTuple):
    """What is public of the measured levels, root first.

    Attributes:
        nodes: how many each level has.
        groups: per level, float64 (classes,), the mean number of groups of a node of each class.
        weights: per level, float64 (classes,), the share of the nodes that are in each class.
        guesses: the ranges of sizes, once for each guess.
    """

    nodes: Sequence[int]
    groups: Sequence[FloatArray]
    weights: Sequence[FloatArray]
    guesses: Sequence[Sizes]


class ChosenSplit(NamedTuple):
    """The shares of the measured levels, and what they are expected to cost.

    Attributes:
        shares: of each measured level, root first.
        times: how many times its error with the entire budget each level's error is expected to be, root first.
    """

    shares: dict[str, Fraction]
    times: list[float]

    def reason(self) -> str:
        """A sentence for the statement."""
        errors = ", ".join(f"{times:.1f} ({level!r})" for level, times in zip(self.shares, self.times, strict=True))
        return (
            "The shares of the levels were chosen from public facts, for the least geometric mean of their expected "
            f"errors, which are {errors} times those with the entire budget at the level."
        )


def auto_split(
    hierarchy: Hierarchy,
    std_devs: Mapping[str, float],
    *,
    gaussian: bool,
    groups_per_leaf: IntArray | None = None,
    cells: int = 1,
) -> ChosenSplit:
    """The share of each measured level; see `auto_shares`.

    Args:
        hierarchy: the public tree.
        std_devs: for each measured level, root first, the standard deviation of the noise in a cell if the level had
            all of the budget.
        gaussian: whether a share is a share of ρ.
        groups_per_leaf: int64 (n_leaves,), the numbers of groups; None where they are private.
        cells: K.
    """
    if groups_per_leaf is None:
        groups_per_leaf = np.full(hierarchy.n_leaves, ASSUMED_GROUPS)
    first_leaf = [leaf_offsets(hierarchy, hierarchy.levels.index(level)) for level in std_devs]
    groups = [np.add.reduceat(groups_per_leaf, cuts[:-1]) for cuts in first_leaf]
    facts = public_facts(groups, cells)
    classes = (tuple(map(tuple, each)) for each in (facts.groups, facts.weights))
    shares, times = _shares_and_times(tuple(facts.nodes), *classes, cells, tuple(std_devs.values()), gaussian)
    return ChosenSplit(dict(zip(std_devs, shares, strict=True)), list(times))


@lru_cache(maxsize=64)
def _shares_and_times(
    nodes: Sequence[int],
    groups: Sequence[Sequence[float]],
    weights: Sequence[Sequence[float]],
    cells: int,
    std_devs: Sequence[float],
    gaussian: bool,
) -> tuple[tuple[Fraction, ...], tuple[float, ...]]:
    """The shares and the times of `ChosenSplit`, kept by public facts (see `LevelFacts`), as the search takes long."""
    guesses = [Sizes.guessed(cells, guess) for guess in NOT_EMPTY]
    facts = LevelFacts(nodes, [*map(np.array, groups)], [*map(np.array, weights)], guesses)
    scale = np.array(std_devs)
    shares = auto_shares(facts, scale, gaussian=gaussian)
    split = np.array([float(share) for share in shares])
    errors = expected_errors(facts, noise_variances(scale, split, gaussian=gaussian))
    alone = errors_alone(facts, noise_variances(scale, np.ones(len(scale)), gaussian=gaussian))
    times = np.exp(_logarithms(errors) - _logarithms(alone))
    return tuple(shares), tuple(float(each) for each in times)


def auto_shares(facts: LevelFacts, std_devs: FloatArray, *, gaussian: bool) -> list[Fraction]:
    """The shares of the levels, root first, for which the geometric mean of the expected errors is least.

    Args:
        facts: of the levels.
        std_devs: float64 (levels,), the standard deviation of the noise in a cell if the level had all of the budget.
        gaussian: whether a share is a share of ρ, so that variances are proportional to 1/share and not to 1/share².

    Returns:
        Positive multiples of 1/(1,000 · levels) that add up to 1.
    """
    levels = len(std_devs)

    def loss(share: FloatArray) -> float:
        """The mean logarithm of the levels' errors."""
        return float(_logarithms(expected_errors(facts, noise_variances(std_devs, share, gaussian=gaussian))).mean())

    if levels == 1:
        return [Fraction(1)]
    starts = [np.full(levels, 1 / levels)]
    for level in range(levels):
        for times in (4.0, 18.0 * levels):
            starts.append(_moved(starts[0], level, times))
    best = sorted(((loss(share), i) for i, share in enumerate(starts)), key=lambda pair: (round(pair[0], 6), pair[1]))
    found = [_improved(starts[i], least, loss) for least, i in best[:2]]
    share, least = found[0]
    if len(found) > 1 and found[1][1] < least - LEAST_GAIN:
        share = found[1][0]
    return _integer_steps(share)


def public_facts(groups: Sequence[IntArray], cells: int, guesses: Sequence[float] = NOT_EMPTY) -> LevelFacts:
    """The facts of levels whose nodes have `groups`, each int64 (nodes,), and K = `cells`."""
    parts = [np.array_split(np.sort(here), min(CLASSES, len(here))) for here in groups]
    return LevelFacts(
        nodes=[len(here) for here in groups],
        groups=[np.array([part.mean() for part in of]) for of in parts],
        weights=[np.array([len(part) for part in of]) / len(here) for of, here in zip(parts, groups, strict=True)],
        guesses=[Sizes.guessed(cells, guess) for guess in guesses],
    )


def noise_variances(std_devs: FloatArray, share: FloatArray, *, gaussian: bool) -> FloatArray:
    """The variance of a cell's noise per level, float64 (levels,): of integers, so little is left where it is small."""
    if gaussian:
        at = np.arange(-40.0, 41.0)
        squared = np.square(std_devs) / share
        likely = np.exp(-(at**2) / (2 * np.minimum(squared, 16.0)[:, None]))
        discrete = (likely * at**2).sum(axis=1) / likely.sum(axis=1)
        return np.maximum(np.where(squared < 16.0, discrete, squared), TINY)
    ratio = np.exp(-np.sqrt(2.0) * share / std_devs)
    return np.asarray(np.maximum(2 * ratio / np.square(1 - ratio), TINY))


def expected_errors(facts: LevelFacts, noise: FloatArray) -> FloatArray:
    """The expected error of a node of each level, float64 (guesses, levels), up to a factor.

    Args:
        facts: of the levels.
        noise: float64 (levels,), the variance of a cell's noise.
    """
    return np.array([_expected(facts, sizes, noise) for sizes in facts.guesses])


def errors_alone(facts: LevelFacts, noise: FloatArray) -> FloatArray:
    """The same where nothing but the level itself is measured."""
    return np.array(
        [[_error_of(facts, depth, variance, sizes) for depth, variance in enumerate(noise)] for sizes in facts.guesses]
    )


def _expected(facts: LevelFacts, sizes: Sizes, noise: FloatArray) -> FloatArray:
    """The expected error of a node of each level, float64 (levels,), by one guess."""
    levels = len(noise)
    children = [below / above for above, below in pairwise(facts.nodes)]
    upward = [np.full(len(sizes.middle), noise[-1])]
    for depth in range(levels - 1, 0, -1):
        rare = np.minimum(1.0, RARE * facts.groups[depth][:, None] * sizes.density * upward[-1])
        below = children[depth - 1] * upward[-1] * (facts.weights[depth] @ rare)
        upward.append(1 / (1 / noise[depth - 1] + 1 / np.maximum(below, TINY)))
    upward.reverse()
    errors, variance = np.empty(levels), upward[0]
    for depth in range(levels):
        if depth > 0:
            many = children[depth - 1]
            variance = upward[depth] * (1 - 1 / many) + variance / many**2
        errors[depth] = _error_of(facts, depth, variance, sizes)
    return errors


def _error_of(facts: LevelFacts, depth: int, variance: FloatArray | np.float64, sizes: Sizes) -> float:
    """The expected error of a node of one level, whose cells have this variance."""
    each = _errors_of_cells(facts.groups[depth][:, None], variance, sizes) @ sizes.width
    return float(facts.weights[depth] @ each)


def _logarithms(errors: FloatArray) -> FloatArray:
    """The mean over the guesses of the logarithms of the errors, float64 (levels,)."""
    return np.asarray(np.log(np.maximum(errors, TINY)).mean(axis=0))


def _errors_of_cells(groups: FloatArray, variance: FloatArray | np.float64, sizes: Sizes) -> FloatArray:
    """The expected error of a tail count of each class of nodes and range of sizes; see the module's docstring."""
    density = np.maximum(groups * sizes.density, 1e-12)
    most = sizes.width.sum()
    monotone = np.cbrt(variance / np.square(density))
    within = np.maximum(WINDOW * sizes.middle, np.minimum(monotone, most / np.log(most + 2)))
    averaged = np.maximum(np.minimum(np.sqrt(variance / density), within), 1.0)
    smooth = np.minimum(variance / averaged, np.square(groups * sizes.tail))
    rare = density * variance
    left = np.where(rare < 1, np.minimum(smooth, rare), smooth) + TINY
    return np.asarray(left / (1 + 1.25 * np.sqrt(left)))


def _moved(share: FloatArray, level: int, times: float) -> FloatArray:
    """Shares of which one is multiplied; none falls below its least, which the others pay for."""
    least = np.full(len(share), float(MIN_STEPS))
    least[-1] = MIN_STEPS_OF_LEAVES
    least /= STEPS * len(share)
    free = np.maximum(share - least, 1e-12)
    free[level] = max(times * share[level] - least[level], 1e-12)
    return np.asarray(least + free * ((1 - least.sum()) / free.sum()))


def _improved(share: FloatArray, least: float, loss: Callable[[FloatArray], float]) -> tuple[FloatArray, float]:
    """Shares from which no step lowers the loss, and their loss."""
    for factor in FACTORS:
        better = True
        while better:
            better = False
            for level in range(len(share)):
                for times in (factor, 1 / factor):
                    moved = _moved(share, level, times)
                    found = loss(moved)
                    if found < least - LEAST_GAIN:
                        share, least, better = moved, found, True
    return share, least


def _integer_steps(share: FloatArray) -> list[Fraction]:
    """Shares rounded to steps that add up; the largest remainders are rounded up, of equal ones the upper levels'."""
    steps = STEPS * len(share)
    rounded = np.floor(share * steps + 1e-6)
    order = np.argsort(-(share * steps - rounded), kind="stable")
    rounded[order[: round(steps - rounded.sum())]] += 1
    return [Fraction(int(step), steps) for step in rounded]
