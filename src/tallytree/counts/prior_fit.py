"""Counts of a hierarchy with a prior: the nodes are tables of one cell, fitted as tables are (`solvers.tables.fit`).

What is measured, and which nodes are 0 in the descent, does not depend on the prior. Of the nodes that are measured,
inner ones that are 0 stay 0, as their descendants were not measured; all others take part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallytree.counts.measured_level import LeftOut, MeasuredLevel, without
from tallytree.solvers.tables.fit import fit
from tallytree.solvers.tables.linear import NoisyTable
from tallytree.solvers.tables.marginals import Detail
from tallytree.solvers.tables.prior import PriorOfTables
from tallytree.support import stages
from tallytree.support.arrays import BoolArray, FloatArray, IntArray

ONE_CELL = (0,)
"""The marginal of a table without attributes."""


@dataclass(frozen=True, eq=False)
class PriorOfCounts:
    """A prior of the counts of a tree.

    Attributes:
        levels: by level, root = 0: nodes, int64 (n,) ascending, and their counts, float64 (n,) ≥ 0. Others have 0.
        absent: by level, per hierarchy of the tree, which of its nodes are not known: bool (nodes of the hierarchy,).
            What is of such a node is not a number. Empty where all are known.
        errors: by level, the error of a count, a root mean square; not a number where it is not known.
        revised: whether it is of the same records, but for corrections.
    """

    levels: Mapping[int, tuple[IntArray, FloatArray]]
    absent: Mapping[int, Sequence[BoolArray]]
    errors: Mapping[int, float]
    revised: bool

    def at(self, depth: int, nodes: IntArray) -> FloatArray | None:
        """The counts of some nodes of a level, float64 (n,); None where it has nothing of the level."""
        if depth not in self.levels:
            return None
        known, counts = self.levels[depth]
        place = np.minimum(np.searchsorted(known, nodes), max(len(known) - 1, 0))
        found: FloatArray = np.where(known[place] == nodes, counts[place], 0.0) if len(known) else np.zeros(len(nodes))
        rest = nodes
        for absent in reversed(self.absent[depth]):
            rest, part = np.divmod(rest, len(absent))
            found[absent[part]] = np.nan
        return found


def prior_fit(
    levels: Sequence[MeasuredLevel], prior: PriorOfCounts
) -> tuple[list[MeasuredLevel], list[tuple[MeasuredLevel, FloatArray]]]:
    """The measured levels with counts that know a prior, and the typical errors of all nodes that took part.

    Args:
        levels: all measured levels, root first, with what was left out; two at least, and the root is not 0.
        prior: what is known of the nodes.

    Returns:
        The levels; nodes that are 0 are left out, with what was measured of them. And per level all nodes that took
        part, with the root mean square error that is expected of each count: float64 (n,).
    """
    whole = [*levels[:-1], _with_left_out(levels[-1])]
    root, below = whole[0], whole[1:]
    measured = [
        [NoisyTable(ONE_CELL, level.noisy[:, None], level.variance, level.laplace)] if level.variance > 0 else []
        for level in whole
    ]
    known = [prior.at(level.depth, level.nodes) for level in whole]
    fitted = fit(
        Detail.flat((1,)),
        [level.offsets for level in below],
        measured,
        totals=None if root.variance > 0 else (0, root.noisy),
        wanted=[[ONE_CELL]] * len(whole),
        prior=PriorOfTables(
            {(place, ONE_CELL): each[:, None] for place, each in enumerate(known) if each is not None},
            {(place, ONE_CELL): prior.errors.get(level.depth, np.nan) for place, level in enumerate(whole)},
            prior.revised,
        ),
        progress=stages.step,
    )
    counts = [fitted.leaves[:, 0].astype(np.int64)]
    for level in below[::-1]:
        counts.insert(0, np.add.reduceat(counts[0], level.offsets[:-1]))
    found = [replace(level, counts=each) for level, each in zip(whole, counts, strict=True)]
    errors = [(level, fitted.typical_errors[place, ONE_CELL][:, 0]) for place, level in enumerate(found)]
    return without(found, [level.counts > 0 for level in found]), errors


def _with_left_out(level: MeasuredLevel) -> MeasuredLevel:
    """A level with all nodes that were measured, in the order of their parents and numbers."""
    left = level.others
    nodes, parents, noisy = (
        np.concatenate(each)
        for each in ((level.nodes, left.nodes), (level.parents, left.parents), (level.noisy, left.noisy))
    )
    order = np.lexsort((nodes, parents))
    counts = np.zeros(len(nodes), dtype=np.int64)
    return replace(
        level, nodes=nodes[order], parents=parents[order], noisy=noisy[order], counts=counts, left_out=LeftOut()
    )
