"""The covariance of every cell of a table with the cell of a coarser table that holds it, in the linear estimate.

Both are sums of the detail of an area: v, and u, which is v or an area above it. Each is linear in the noise of h (see
`sums.py` for X and W), and noise differs between areas. So per term of the noise the covariance is Σ W_v W_u · (noise)
over all areas. Only the areas on the path from the root over u to v differ in X or W from their siblings. The siblings
of an area on the path share one W, and the tree below each adds W_v W_u times the covariance of its z.

    X on the path   v: 1 at v, else r_c X_c of the next area on the path    u: 1 at u and below, else likewise
    X beside it     v: 0                                                    u: 1 below u, else 0

The covariance is exact, as the variances are: before counts below 0 are set to 0 and before rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tallytree.solvers.tables.marginals import Detail, Marginal
from tallytree.solvers.tables.noise import (
    Families,
    Term,
    Weights,
    component_weights,
    nested_factors,
    noise_terms,
    upward_noise,
)
from tallytree.support.arrays import FloatArray, IntArray


def nested_covariances(
    detail: Detail,
    families: Sequence[IntArray],
    precisions: Sequence[Mapping[Marginal, float]],
    fine: tuple[int, Marginal],
    coarse: tuple[int, Marginal],
    *,
    public_totals_level: int | None = None,
) -> FloatArray:
    """The covariance of each cell of a table with the cell of a coarser table that holds it.

    Args:
        detail: the attributes.
        families: per level but the last, int64 (areas + 1,): where the children of each area begin in the next level.
        precisions: per level, u_T = 1/σ_T² of every marginal measured.
        fine: level of areas and marginal of the first table.
        coarse: those of the other, nowhere finer.
        public_totals_level: the last level at which the total of every area is known exactly.

    Returns:
        float64 (areas, cells) of the first table. Components that the measurements do not determine are left out.

    Raises:
        ValueError: the second table is finer somewhere.
    """
    if coarse[0] > fine[0] or any(map(int.__gt__, coarse[1], fine[1])):
        raise ValueError(f"coarse: {coarse} must be nowhere finer than {fine}")
    tree = Families(families)
    values = np.array([detail.eigenvalues(at_level) for at_level in precisions])
    weights: dict[int, Weights] = {}
    path = _path(tree, fine[0])
    found = np.zeros((tree.sizes[fine[0]], detail.size(fine[1])))
    for term in noise_terms(detail, precisions):
        for pair in dict.fromkeys([(term.first, term.second), (term.second, term.first)]):
            factor = nested_factors(detail, fine[1], coarse[1], term, pair)
            if not factor.any():
                continue
            for component in {*pair} - {*weights}:
                exact = public_totals_level if component == 0 else None  # the first component is the total
                weights[component] = component_weights(tree, values[:, component], exact)
            noise = _noise(tree, term, path, [weights[component] for component in pair], (fine[0], coarse[0]))
            found += noise[:, None] * factor
    return found


def _path(tree: Families, level: int) -> list[IntArray]:
    """Per level down to this one, the area above each of its areas: int64 (areas,)."""
    found = [np.arange(tree.sizes[level], dtype=np.int64)]
    for families in reversed(tree.families[:level]):
        above = np.repeat(np.arange(len(families) - 1, dtype=np.int64), np.diff(families))
        found.insert(0, above[found[0]])
    return found


def _noise(
    tree: Families, term: Term, path: Sequence[IntArray], weights: Sequence[Weights], levels: tuple[int, int]
) -> FloatArray:
    """The covariance of v and u in a term, per unit of its factor: float64 (areas of the level of v,)."""
    z = upward_noise(tree, term, weights[0], weights[1])
    on = [_on_path(path, each, level) for each, level in zip(weights, levels, strict=True)]
    w = [x[0] for x in on]
    found = np.zeros(len(path[-1]))
    for level, here in enumerate(path[:-1]):
        found += w[0] * w[1] * (weights[0].own[level] * weights[1].own[level] * term.noise[level])[here]
        beside, below = [], []
        for each, x, now, top in zip(weights, on, w, levels, strict=True):
            part = each.part[level + 1]
            above = tree.total(level, part)[here] if level >= top else part[path[level + 1]] * x[level + 1]
            handed = each.carried[level][here] * now - above
            beside.append(handed + (level >= top))
            below.append(handed + x[level + 1])
        siblings = tree.total(level, z[level + 1])[here] - z[level + 1][path[level + 1]]
        found += beside[0] * beside[1] * siblings
        w = below
    return np.asarray(found + w[0] * w[1] * z[len(path) - 1][path[-1]], dtype=np.float64)


def _on_path(path: Sequence[IntArray], weights: Weights, top: int) -> list[FloatArray]:
    """X of the areas on the paths, root first, of sums over the areas of the level `top`."""
    found = [np.ones(len(path[-1]))]
    for level in range(len(path) - 1, 0, -1):
        found.insert(0, found[0] if level > top else weights.part[level][path[level]] * found[0])
    return found
