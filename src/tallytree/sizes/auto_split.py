"""`budget_split="auto"`: shares of the budget for the levels, from public facts only.

**The rule.** A level has its least error where it gets all of the budget. Let R_l ≥ 1 be the error of level l under a
split, divided by that least error. The split is the one whose largest R_l is least, so that no level loses much more
than another.

**The error of a level.** The tail counts of a node are monotone: they fall from G, its number of groups, to 0 over K
cells. With noise of variance u in a cell, the error of the best monotone fit is about (u·G/K)^(1/3) in a cell (Zhang
2002, Theorem 2.2), and at most G for any noise. So the error of a level is Σ_nodes min((u·G/K)^(1/3), G), up to a
constant that cancels in R. Where numbers of groups are private, u^(1/3) is used instead.

**The variance.** u is the variance of a cell after all levels are combined by least squares over the given tree. With
the variances w_l of the noise of the levels (proportional to 1/share² with Laplace noise, to 1/share with Gaussian):

    upward      1/a_v = 1/w + 1/Σ_children a_c          (a leaf: a = w)
    downward    u_c = a_c − a_c²/A + (a_c/A)²·u_v       with A the sum of a over the children of v (the root: u = a)

Where every node has many children, the measurements of its children and of its parent add little information, and the
rule gives the even split. Where it has few, the sums of its children measure it too, and the lower levels get more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from tallytree.compute.arrays import FloatArray, IntArray
from tallytree.hierarchy import Hierarchy
from tallytree.sizes.noisy import children_offsets, leaf_offsets
from tallytree.solvers.tree_variance import combined_variances

STEPS = 1_000
"""An even share is this many steps. Every share is an integer number of steps, so it is the same on every machine."""
MIN_STEPS = 10
"""No level gets fewer steps: every measured level needs a positive share."""
MAX_ROUNDS = 300
"""Of the iteration that finds the shares."""


def auto_split(
    hierarchy: Hierarchy,
    std_devs: Mapping[str, float],
    *,
    gaussian: bool,
    groups_per_leaf: IntArray | None = None,
    cells: int = 1,
) -> dict[str, Fraction]:
    """The share of each measured level; see `auto_shares`.

    Args:
        hierarchy: the public tree.
        std_devs: for each measured level, root first, the standard deviation of the noise in a cell if the level had
            all of the budget.
        gaussian: whether a share is a share of ρ.
        groups_per_leaf: int64 (n_leaves,), the numbers of groups; None where they are private.
        cells: K.
    """
    first_leaf = [leaf_offsets(hierarchy, hierarchy.levels.index(level)) for level in std_devs]
    first_child = [children_offsets(above, below) for above, below in pairwise(first_leaf)]
    groups = None
    if groups_per_leaf is not None:
        groups = [np.add.reduceat(groups_per_leaf, cuts[:-1]) for cuts in first_leaf]
    share = auto_shares(first_child, list(std_devs.values()), gaussian=gaussian, groups=groups, cells=cells)
    return dict(zip(std_devs, share, strict=True))


def auto_shares(
    first_child: Sequence[IntArray],
    std_devs: Sequence[float],
    *,
    gaussian: bool,
    groups: Sequence[IntArray] | None = None,
    cells: int = 1,
) -> list[Fraction]:
    """The shares of the levels, root first, for which the largest R_l is least.

    Args:
        first_child: per level but the last, int64 (n + 1,): node i has the children first_child[i] … first_child[i + 1]
            − 1 of the next measured level, at least one.
        std_devs: per level, the standard deviation of the noise in a cell if the level had all of the budget.
        gaussian: whether a share is a share of ρ, so that variances are proportional to 1/share and not to 1/share².
        groups: per level, int64 (n,), the number of groups of each node; None where they are private.
        cells: K, the number of cells of a node.

    Returns:
        Positive multiples of 1/(1,000 · levels) that add up to 1.
    """
    levels = len(std_devs)
    everything = np.square(np.asarray(std_devs, dtype=np.float64))
    power = 1 if gaussian else 2
    known = [None] * levels if groups is None else [here.astype(np.float64) for here in groups]
    best_possible = [_error(np.float64(u), g, cells) for u, g in zip(everything, known, strict=True)]

    def losses(share: FloatArray) -> FloatArray:
        """R_l of every level l."""
        variances = combined_variances(first_child, everything / share**power).nodes
        errors = [_error(u, g, cells) for u, g in zip(variances, known, strict=True)]
        return np.array([e / b if b > 0 else 1.0 for e, b in zip(errors, best_possible, strict=True)])

    return _integer_steps(_least_worst(losses, levels))


def _error(variance: FloatArray | np.float64, groups: FloatArray | None, cells: int) -> float:
    """The mean error of a cell of a level, up to a constant; `variance` is one number if all nodes have the same."""
    if groups is None:
        return float(np.mean(np.cbrt(variance)))
    return float(np.mean(np.minimum(np.cbrt(variance * groups / cells), groups)))


def _least_worst(losses: Callable[[FloatArray], FloatArray], levels: int) -> FloatArray:
    """Shares whose largest loss is least: levels with larger losses get more, in steps that become smaller."""
    share = np.full(levels, 1 / levels)
    best, least = share, np.inf
    for round_ in range(MAX_ROUNDS):
        loss = losses(share)
        if loss.max() < least:
            best, least = share, loss.max()
        moved = share * (loss / loss.max()) ** (4 / (1 + 0.05 * round_))
        moved = np.maximum(moved / moved.sum(), MIN_STEPS / STEPS / levels)
        moved = moved / moved.sum()
        if np.abs(moved - share).max() < 0.01 / STEPS / levels:
            break
        share = moved
    return best


def _integer_steps(share: FloatArray) -> list[Fraction]:
    """Shares rounded to steps that add up; the largest remainders are rounded up, of equal ones the upper levels'."""
    steps = STEPS * len(share)
    rounded = np.floor(share * steps + 1e-6)
    order = np.argsort(-(share * steps - rounded), kind="stable")
    rounded[order[: round(steps - rounded.sum())]] += 1
    return [Fraction(int(step), steps) for step in rounded]
