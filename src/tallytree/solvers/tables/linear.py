"""The least-squares estimate of a tree of tables, without the constraint that counts are not negative.

Each area v has π_S = Σ_T u_T m_T and h_S = Σ_T u_T m_T P_S ȳ_T of its own measurements, over the measured T ≥ S
(`marginals`: u = 1/σ², m_T the mean of n_g, ȳ_T the mean detail value that the table says). With the estimates z_c of
its children and their precisions π_c, by component,

    up     q_S = 1/Σ_c(1/π_cS),   π_vS = own + q_S,   z_vS = (h_vS + q_S Σ_c z_cS) / π_vS
    down   x_cS = z_cS + r_cS (x_vS − Σ_c' z_c'S),   r_cS = q_S / π_cS      (the root: x = z)

This is the recursion of Hay et al. (2010), one for each component. `variance` has its standard deviations.
What is known of a level is what it or a level below it measured: a level has the components of these marginals only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tallytree.solvers.tables.marginals import Detail, Lattice, Marginal, add_finer, keep_components, to_tables
from tallytree.support.arrays import FloatArray, IntArray, families_of
from tallytree.support.large_arrays import LargeArrays


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """One marginal of every area of a level, measured with noise.

    Attributes:
        marginal: the level of each attribute.
        values: (areas of the level, cells of the marginal), integers of any width.
        variance: of the noise of each value, 1e-50 … 1e50.
        laplace: whether that is Laplace noise.
    """

    marginal: Marginal
    values: IntArray
    variance: float
    laplace: bool = False


@dataclass(frozen=True, eq=False)
class Level:
    """What the measurements of one level and of all below say of its areas.

    Attributes:
        lattice: the known marginals.
        measured: the level's own measurements.
        precision: π of every area, (areas, K), or (1, K) where all have the same; 0 where nothing is known.
        estimate: z of every area, (areas, P); None for the last level, where it follows from `measured`.
    """

    lattice: Lattice
    measured: Sequence[NoisyTable]
    precision: FloatArray
    estimate: FloatArray | None

    def components(self, areas: slice) -> FloatArray:
        """Z of some areas: float64 (areas, P)."""
        if self.estimate is not None:
            return self.estimate[areas]
        found = _own_sums(self.lattice, self.measured, areas)
        found /= np.where(self.precision > 0, self.precision, 1.0)[:, self.lattice.of]
        return found

    def inverse(self, areas: slice) -> FloatArray:
        """1/π of some areas, (areas, K) or (1, K); 1 where nothing is known of any."""
        precision = self.precision if len(self.precision) == 1 else self.precision[areas]
        return 1.0 / np.where(precision > 0, precision, 1.0)


def _own_sums(lattice: Lattice, measured: Sequence[NoisyTable], areas: slice) -> FloatArray:
    """H of some areas from their own measurements."""
    found = np.zeros((areas.stop - areas.start, int(lattice.rows.begin[-1])))
    if measured:
        for each in measured:
            weight = lattice.whole.mean_group(each.marginal) / each.variance
            found[:, lattice.places[each.marginal]] += weight * each.values[areas]
        add_finer(lattice.rows, found)
        found /= lattice.rows.size
        keep_components(lattice.rows, found)
    return found


def _own_precision(lattice: Lattice, measured: Sequence[NoisyTable]) -> FloatArray:
    """π of an area from its own measurements: float64 (K,)."""
    return np.array(
        [
            sum(
                lattice.whole.mean_group(each.marginal) / each.variance
                for each in measured
                if all(map(int.__le__, component, each.marginal))
            )
            for component in lattice.known
        ],
        dtype=np.float64,
    )


def upward(
    detail: Detail,
    families: Sequence[IntArray],
    measured: Sequence[Sequence[NoisyTable]],
    arrays: LargeArrays,
    whole: bool = False,
) -> list[Level]:
    """The pass up the tree.

    Args:
        detail: the attributes.
        families: per level but the last, int64 (areas + 1,): where the children of each area begin.
        measured: per level.
        arrays: makes the estimates.
        whole: whether every level's own detail is that of all attributes, as it is at the root.

    Returns:
        The levels, root first.
    """
    lattice = Lattice.below(detail, (each.marginal for each in measured[-1]))
    levels = [Level(lattice, measured[-1], _own_precision(lattice, measured[-1])[None, :], None)]
    for depth in range(len(families) - 1, -1, -1):
        below, family = levels[0], families[depth]
        lattice = Lattice.below(detail, [*below.lattice.known, *(each.marginal for each in measured[depth])])
        marginals, cells = lattice.embedded(below.lattice)
        areas = len(family) - 1
        pooled = pooled_precision(below, family)
        own = _own_precision(lattice, measured[depth])
        precision = np.tile(own, (areas, 1))
        precision[:, marginals] += pooled
        estimate = arrays.empty((areas, int(lattice.rows.begin[-1])))
        of_children = partial(
            _with_children, lattice, measured[depth], cells, below, family, pooled, precision, estimate
        )
        arrays.each(of_children, np.diff(family) * len(cells))
        levels.insert(0, Level(lattice, measured[depth], precision, estimate))
    for depth in range(len(levels) if whole else 1):
        levels[depth] = replace(levels[depth], lattice=replace(levels[depth].lattice, finest=detail.finest))
    return levels


def _with_children(
    lattice: Lattice,
    measured: Sequence[NoisyTable],
    cells: IntArray,
    below: Level,
    family: IntArray,
    pooled: FloatArray,
    precision: FloatArray,
    estimate: FloatArray,
    part: slice,
) -> None:
    """Write z of some areas, from their own measurements and their children's z; the arguments are as in `upward`."""
    begins, children = families_of(family, part)
    sums = np.add.reduceat(below.components(children), begins[:-1])
    found = _own_sums(lattice, measured, part)
    found[:, cells] += pooled[part][:, below.lattice.of] * sums
    found /= np.where(precision[part] > 0, precision[part], 1.0)[:, lattice.of]
    estimate[part] = found


def pooled_precision(below: Level, family: IntArray) -> FloatArray:
    """q_S = 1/Σ_c(1/π_cS) of every area above a level: float64 (areas, K of that level); 0 where nothing is known."""
    counts = np.diff(family)
    if len(below.precision) == 1:
        return below.precision / counts[:, None]
    known = below.precision > 0
    inverse = 1.0 / np.where(known, below.precision, 1.0)
    return np.where(known.all(axis=0), 1.0 / np.add.reduceat(inverse, family[:-1]), 0.0)


def downward(
    below: Level, parents: FloatArray, family: IntArray, children: slice, own: Lattice, totals: IntArray | None
) -> FloatArray:
    """X of the children of some areas, as components.

    Args:
        below: the children's level.
        parents: (areas, P) the areas' x, as components.
        family: int64 (areas + 1,), where the children of each begin, counted from the first.
        children: these, in their level.
        own: the areas' marginals.
        totals: the exact totals of these children; None where they are not known.

    Returns:
        float64 (children, P of their level).
    """
    begins, counts = family[:-1], np.diff(family)
    _, cells = own.embedded(below.lattice)
    found = below.components(children).copy()
    gap = parents[:, cells] - np.add.reduceat(found, begins)
    inverse = below.inverse(children)
    if len(inverse) == 1:
        found += np.repeat(gap / counts[:, None], counts, axis=0)
    else:
        part = inverse / np.repeat(np.add.reduceat(inverse, begins), counts, axis=0)
        found += part[:, below.lattice.of] * np.repeat(gap, counts, axis=0)
    if totals is not None:
        found[:, 0] = totals / own.whole.cells
    return found


def linear_estimate(
    detail: Detail,
    families: Sequence[IntArray],
    measured: Sequence[Sequence[NoisyTable]],
    level: int,
    marginal: Marginal,
    totals: Sequence[IntArray] = (),
) -> FloatArray:
    """The least-squares estimate of one table.

    Args:
        detail: the attributes.
        families: per level of areas but the last, int64 (areas + 1,): where the children of each area begin.
        measured: per level.
        level: of the table's areas.
        marginal: the table.
        totals: per level, from the root, the exact totals of its areas; shorter where deeper levels have none.

    Returns:
        float64 (areas, cells of the marginal).
    """
    levels = upward(detail, families, measured, LargeArrays(threads=1))
    x = levels[0].components(slice(0, 1)).copy()
    if len(totals):
        x[:, 0] = totals[0] / detail.cells
    for depth, family in enumerate(families[:level]):
        exact = totals[depth + 1] if depth + 1 < len(totals) else None
        x = downward(levels[depth + 1], x, family, slice(0, int(family[-1])), levels[depth].lattice, exact)
    return tables(levels[level].lattice, x)[:, levels[level].lattice.places[marginal]]


def tables(lattice: Lattice, components: FloatArray) -> FloatArray:
    """The tables of rows of components: float64 (areas, P)."""
    found = components.copy()
    to_tables(lattice.rows, found)
    return found
