"""How the noise of marginals passes through the linear estimate of a tree of tables.

Every area v has a table of detail cells, and its level measured some marginals of it. (`marginals.py` defines T, S,
P_S, u_T, m_T, n_g and λ_S.) The linear estimate is, for every component S on its own,

    up      z_v = a_v h_v + (a_v q_v) Σ_c z_c    with a_v = 1/(λ + q_v), q_v = 1/Σ_c a_c over the children (a leaf: 0)
    down    x_c = z_c + r_c (x_parent − Σ_c' z_c')    with r_c = a_c / Σ_c' a_c'    (the root: x = z)

with h_v = Σ_T u_T m_T Q_Tᵀ diag(1/n_g) y_T. So what the noise of h does to x is a number per component and pair of
areas. The noise of h itself has the covariance

    B = Σ_T u_T m_T² Q_Tᵀ diag(1/n_g²) Q_T

Where the groups of every level of an attribute are of equal size, B = Σ_S λ_S P_S, and components do not mix.
Otherwise P_S B P_S' can differ from 0, where in each attribute the levels of S and S' are equal, or neither is the
finest and the attribute's groups are uneven. So a covariance is a sum of **terms**, each with a factor for the cells
and a number for the areas.

**Components that nothing measures.** A component without information has a = ∞. Of children with a = ∞, each gets an
equal part of the rest. Its variance is ∞, except for an only child of this kind whose parent is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations_with_replacement, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from tallytree.solvers.tables.marginals import Detail, Marginal
from tallytree.support.arrays import BoolArray, FloatArray, IntArray


class Families:
    """The tree itself: per level but the last, int64 (areas + 1,), where the children of each area begin."""

    def __init__(self, families: Sequence[IntArray]):
        self.families = families
        self.sizes = [1, *(int(offsets[-1]) for offsets in families)]
        for level, offsets in enumerate(families):
            if len(offsets) != self.sizes[level] + 1 or (np.diff(offsets) < 1).any() or offsets[0] != 0:
                raise ValueError(
                    f"families[{level}] must be the offsets of {self.sizes[level]} families of at least one child, from"
                    f" 0; got {len(offsets)} numbers"
                )

    def total(self, level: int, values: FloatArray) -> FloatArray:
        """Σ over the children of each area of `level`."""
        return np.add.reduceat(values, self.families[level][:-1])

    def copied(self, level: int, values: FloatArray) -> FloatArray:
        """The value of the parent of every child."""
        return np.repeat(values, np.diff(self.families[level]))


class MeanTree:
    """A tree with the given numbers of areas where all families of a level have the same size, not an integer at times.

    Each level has one value.
    """

    def __init__(self, areas: Sequence[int]):
        if any(below < above for above, below in pairwise(areas)) or areas[0] != 1:
            raise ValueError(
                f"areas={list(areas)} must begin with 1, the root, and no level may have fewer than that above"
            )
        self.children = [below / above for above, below in pairwise(areas)]
        self.sizes = [1] * len(areas)

    def total(self, level: int, values: FloatArray) -> FloatArray:
        """Σ over the children of each area of `level`."""
        return self.children[level] * values

    def copied(self, level: int, values: FloatArray) -> FloatArray:
        """The value of the parent of every child."""
        return values


AreaTree: TypeAlias = Families | MeanTree
"""A tree of areas, as far as sums over children and copies to children tell; `sizes` are the values of each level."""


class Weights(NamedTuple):
    """The numbers of one component in the passes up and down, per level one for each area.

    Attributes:
        own: a; 0 where it is infinite.
        carried: a·q; all 0 at the last level.
        part: r; 1 at the root.
        unknown: where the component has an infinite variance.
        split: where at least two children of an area have a = ∞, so that their differences are unknown.
    """

    own: list[FloatArray]
    carried: list[FloatArray]
    part: list[FloatArray]
    unknown: list[BoolArray]
    split: list[BoolArray]


def component_weights(areas: AreaTree, weights: FloatArray, known: int | None = None) -> Weights:
    """The weights of one component: λ of each level, float64 (levels,); `known`: the last level that has it exactly."""
    depth = len(areas.sizes)
    exact = -1 if known is None else known
    a, without = _variance(np.full(areas.sizes[-1], weights[-1]), exact >= depth - 1)
    own, carried, part, several = [a], [np.zeros_like(a)], [], [np.zeros(len(a), dtype=np.bool_)]
    withouts = [without]
    for level in range(depth - 2, -1, -1):
        count = areas.total(level, without.astype(np.float64))
        q = _inverse(np.where(count > 0, 0.0, areas.total(level, a)))
        part.append(np.where(without, areas.copied(level, _inverse(count)), a * areas.copied(level, q)))
        a, without = _variance(weights[level] + q, exact >= level)
        own.append(a)
        carried.append(a * q)
        several.append(count > 1)
        withouts.append(without)
    part.append(np.ones(1))
    for each in (own, carried, part, several, withouts):
        each.reverse()
    unknown = [withouts[0]]
    for level in range(depth - 1):
        above = areas.copied(level, (several[level] | unknown[level]).astype(np.float64)) > 0
        unknown.append(withouts[level + 1] & above)
    return Weights(own, carried, part, unknown, several)


def _variance(precision: FloatArray, known: bool) -> tuple[FloatArray, BoolArray]:
    """a, with 0 for infinity; and where it is infinite."""
    if known:
        return np.zeros_like(precision), np.zeros(len(precision), dtype=np.bool_)
    return _inverse(precision), precision == 0


def _inverse(values: FloatArray) -> FloatArray:
    """1/x, and 0 for 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


class Term(NamedTuple):
    """A part of the covariance of the noise: P_S B P_S' of two components, at one level or at all in proportion.

    Attributes:
        first: the index of S among the components.
        second: the index of S', at least `first`.
        noise: float64 (levels,), how much of the term each level has.
        marginals: u_T m_T² of the marginals whose noise it is; None where it is P_S, which has noise λ_S.
    """

    first: int
    second: int
    noise: FloatArray
    marginals: tuple[tuple[Marginal, float], ...] | None

    @property
    def times(self) -> float:
        """How often the term counts in a variance: 2 for a pair of different components."""
        return 1.0 if self.first == self.second else 2.0


def noise_terms(detail: Detail, precisions: Sequence[Mapping[Marginal, float]]) -> list[Term]:
    """All terms of the covariance of h at each level; `precisions`: per level, u_T of every marginal measured."""
    values = np.array([detail.eigenvalues(at_level) for at_level in precisions])
    uneven = [not even_groups(levels) for levels in detail.groups]
    found = []
    for i, j in combinations_with_replacement(range(len(detail.components)), 2):
        pair = tuple(zip(detail.components[i], detail.components[j], detail.finest, uneven, strict=True))
        if any(s != t and (not odd or finest in (s, t)) for s, t, finest, odd in pair):
            continue
        if i == j and not any(odd and s != finest for s, _, finest, odd in pair):
            found.append(Term(i, i, values[:, i], None))
            continue
        least = tuple(max(s, t) for s, t, _, _ in pair)
        for level, at_level in enumerate(precisions):
            marginals = tuple(
                (t, u * detail.mean_group(t) ** 2)
                for t, u in at_level.items()
                if u > 0 and all(map(int.__le__, least, t))
            )
            if marginals:
                found.append(Term(i, j, np.eye(len(precisions))[level], marginals))
    return found


def even_groups(levels: Sequence[IntArray]) -> bool:
    """Whether all groups of each level of an attribute have equal sizes."""
    return all(len(set(np.bincount(groups).tolist())) == 1 for groups in levels)


def cell_factors(detail: Detail, marginal: Marginal, term: Term) -> FloatArray:
    """q_gᵀ W q_g for every cell g of a marginal: q_g is 1 in its detail cells, and W the term (of unit noise).

    Returns:
        float64 (cells of the marginal,).
    """
    return nested_factors(detail, marginal, marginal, term, (term.first, term.second))


def nested_factors(
    detail: Detail, fine: Marginal, coarse: Marginal, term: Term, components: tuple[int, int]
) -> FloatArray:
    """q_gᵀ W q_G for every cell g of a marginal and the cell G of a coarser one that holds it; see `cell_factors`.

    Args:
        detail: the attributes.
        fine: the marginal of g.
        coarse: the marginal of G; at no attribute is its level finer.
        term: W is its P_S B P_S'.
        components: S, on the side of g, and S', on the side of G: those of the term, in either order.

    Returns:
        float64 (cells of the fine marginal,).
    """
    first, second = (detail.components[component] for component in components)
    parts: tuple[tuple[Marginal, float], ...] = ((detail.finest, 1.0),) if term.marginals is None else term.marginals
    found = np.zeros(detail.size(fine))
    for measured, weight in parts:
        factors = [
            _attribute_factor(levels, *depths)
            for levels, *depths in zip(detail.groups, fine, coarse, first, second, measured, strict=True)
        ]
        found += weight * reduce(np.multiply.outer, factors, np.ones(())).ravel()
    return found


def _attribute_factor(levels: Sequence[IntArray], at: int, above: int, s: int, t: int, measured: int) -> FloatArray:
    """q_gᵀ P_s Q_mᵀ diag(1/n²) Q_m P_t q_G of one attribute, for the groups g of level `at`: float64 (groups,).

    G is the group of level `above` ≤ `at` that holds g. E_i q_g is n_g/n_i in the group of level i that holds g, and
    E_j q_G is n_G/n_j in that of level j. So with E_i and E_j in place of P_s and P_t the product is n_g·n_G/(n_i n_j)
    times the number of measured groups in the smaller of both.
    """
    if max(s, t) > measured or s > at or t > above:
        return np.zeros(int(levels[at][-1]) + 1)
    of_group = np.unique(levels[at], return_index=True)[1]
    size = np.bincount(levels[at]).astype(np.float64)
    size_above = np.bincount(levels[above])[levels[above][of_group]]
    first_measured = np.unique(levels[measured], return_index=True)[1]

    def product(i: int, j: int) -> FloatArray | float:
        if min(i, j) < 0:
            return 0.0
        groups = [levels[depth][of_group] for depth in (i, j)]
        n_i, n_j = (np.bincount(levels[depth])[group] for depth, group in zip((i, j), groups, strict=True))
        smaller = max(i, j)
        within = np.bincount(levels[smaller][first_measured])[levels[smaller][of_group]]
        return np.asarray(size * size_above * within / (n_i * n_j), dtype=np.float64)

    return np.asarray(product(s, t) - product(s - 1, t) - product(s, t - 1) + product(s - 1, t - 1), dtype=np.float64)


def upward_noise(areas: AreaTree, term: Term, first: Weights, second: Weights) -> list[FloatArray]:
    """The covariance of z in the two components of a term, per unit of its factor: per level float64 (areas,)."""
    depth = len(areas.sizes)
    found = [first.own[-1] * second.own[-1] * term.noise[-1]]
    for level in range(depth - 2, -1, -1):
        below = first.carried[level] * second.carried[level] * areas.total(level, found[-1])
        found.append(first.own[level] * second.own[level] * term.noise[level] + below)
    found.reverse()
    return found


def estimate_noise(areas: AreaTree, term: Term, first: Weights, second: Weights) -> list[FloatArray]:
    """The covariance of x in the two components of a term, per unit of its factor: per level float64 (areas,).

    x_v is s_v z_v plus what comes from outside the tree below v, whose noise is independent of that of z_v. With
    k = s_p a_p q_p − 1 at the parent p, s_c = 1 + r_c k, and what comes from outside is r_c times
    k Σ_{c' ≠ c} z_c' + s_p a_p h_p + the parent's own.
    """
    z = upward_noise(areas, term, first, second)
    s, s2, outside = np.ones(1), np.ones(1), np.zeros(1)
    found = [z[0]]
    for level in range(len(areas.sizes) - 1):
        k, k2 = s * first.carried[level] - 1, s2 * second.carried[level] - 1
        above = outside + s * s2 * first.own[level] * second.own[level] * term.noise[level]
        part, part2 = first.part[level + 1], second.part[level + 1]
        copied = areas.copied(level, areas.total(level, z[level + 1])) - z[level + 1]
        outside = part * part2 * (areas.copied(level, k * k2) * copied + areas.copied(level, above))
        s, s2 = 1 + part * areas.copied(level, k), 1 + part2 * areas.copied(level, k2)
        found.append(s * s2 * z[level + 1] + outside)
    return found
