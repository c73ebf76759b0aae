"""`budget_split="auto"`: shares of the budget for the levels, from public facts only.

**The rule.** Whatever a level's nodes are worth to a reader, the best that could be done for it is to spend the whole
budget there. Let R_l ≥ 1 be the error of level l under a split, over its error had it got everything. The split is the
one whose worst R_l is least: no level pays much more than another for all of them being published.

**The error of a level.** A node's tail counts are monotone: they fall from G, its number of groups, to 0 over K cells.
With noise of variance u a cell, the best monotone fit is off by about (u·G/K)^(1/3) a cell (Zhang 2002, Theorem 2.2),
and by no more than G, however large the noise. So a level's error is Σ_nodes min((u·G/K)^(1/3), G), up to a constant
that R does not see. Where numbers of groups are not known to whoever plans, only u^(1/3) is left of it.

**The variance.** u is what a cell's variance is once all levels are combined by least squares, for the tree at hand.
With the variances w_l of the levels' own noise (∝ 1/share² with Laplace noise, 1/share with Gaussian):

    upward      1/a_v = 1/w + 1/Σ_children a_c          (a leaf: a = w)
    downward    u_c = a_c − a_c²/A + (a_c/A)²·u_v       with A the sum of a over the children of v (the root: u = a)

Where every node has many children, neither its children nor its parent tell much about it, and the rule gives the even
split; where it has few, sums of the children measure it too, and the lower levels get more.
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
"""An even share is this many steps, and every share is whole steps, so that it is the same on every machine."""
MIN_STEPS = 10
"""No level gets fewer steps: what is measured must have something to be measured with."""
ROUNDS = 300


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
        std_devs: for each measured level, root first, of the noise in a cell if the level had all of the budget.
        gaussian: whether a share is of ρ.
        groups_per_leaf: int64 (n_leaves,), the public numbers of groups, if they are known.
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
    """The shares of the levels, root first, that make the worst level's loss least.

    Args:
        first_child: per level but the last, int64 (n + 1,): node i has the children first_child[i] … first_child[i + 1]
            − 1 of the next measured level, at least one.
        std_devs: per level, of the noise in a cell if the level had all of the budget.
        gaussian: whether a share is of ρ, so that variances are in proportion to 1/share and not to 1/share².
        groups: per level, int64 (n,), each node's number of groups, where it is public.
        cells: K, how many cells a node has.

    Returns:
        Positive, adding up to 1, in multiples of 1/(1,000 · levels).
    """
    levels = len(std_devs)
    everything = np.square(np.asarray(std_devs, dtype=np.float64))
    power = 1 if gaussian else 2
    known = [None] * levels if groups is None else [here.astype(np.float64) for here in groups]
    best_possible = [_error(np.float64(u), g, cells) for u, g in zip(everything, known, strict=True)]

    def losses(share: FloatArray) -> FloatArray:
        variances = combined_variances(first_child, everything / share**power).nodes
        errors = [_error(u, g, cells) for u, g in zip(variances, known, strict=True)]
        return np.array([e / b if b > 0 else 1.0 for e, b in zip(errors, best_possible, strict=True)])

    return _whole_steps(_least_worst(losses, levels))


def _error(variance: FloatArray | np.float64, groups: FloatArray | None, cells: int) -> float:
    """A level's mean error of a cell, up to a constant; `variance` is one number where all nodes have the same."""
    if groups is None:
        return float(np.mean(np.cbrt(variance)))
    return float(np.mean(np.minimum(np.cbrt(variance * groups / cells), groups)))


def _least_worst(losses: Callable[[FloatArray], FloatArray], levels: int) -> FloatArray:
    """Shares whose greatest loss is least: whoever loses more than others gets more, in ever smaller steps."""
    share = np.full(levels, 1 / levels)
    best, least = share, np.inf
    for round_ in range(ROUNDS):
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


def _whole_steps(share: FloatArray) -> list[Fraction]:
    """The nearest whole steps that add up: largest remainders first, the upper level where they tie."""
    steps = STEPS * len(share)
    whole = np.floor(share * steps + 1e-6)
    order = np.argsort(-(share * steps - whole), kind="stable")
    whole[order[: round(steps - whole.sum())]] += 1
    return [Fraction(int(step), steps) for step in whole]
