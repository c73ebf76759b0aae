"""What it costs to move cells from their posterior means, and what moves add to the variances of their errors."""

from __future__ import annotations

from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernels import kernel


@kernel
def costs_of_moves(
    families: IntArray, variances: FloatArray, held: FloatArray, firm: FloatArray, most: float, costs: FloatArray
) -> None:
    """Write how far each cell moves for a multiplier of 1: its variance, but for two limits.

    Args:
        families: (areas + 1,) where the children of each area begin.
        variances: (children, cells).
        held: (children, cells) by how much a mean is more than what its law expects.
        firm: (children,) the least.
        most: the most, as a part of the mean of a family's cell.
        costs: (children, cells), written.
    """
    for i in range(len(families) - 1):
        begin, end = families[i], families[i + 1]
        for g in range(variances.shape[1]):
            whole = 0.0
            for c in range(begin, end):
                costs[c, g] = max(variances[c, g] + held[c, g] * held[c, g], firm[c])
                whole += costs[c, g]
            limit = most * (whole / (end - begin))
            for c in range(begin, end):
                costs[c, g] = min(costs[c, g], limit)


@kernel
def hold_far(
    families: IntArray,
    tables: FloatArray,
    here: int,
    estimates: FloatArray,
    sure: float,
    reach: float,
    far: float,
    firm: FloatArray,
    mean: FloatArray,
    costs: FloatArray,
    again: BoolArray,
) -> None:
    """Hold cells that are no noise and were moved too far from their estimates.

    Args:
        families: (areas + 1,) where the children of each area begin.
        tables: (children, P) as they were decided.
        here: where the table begins in them.
        estimates: (children, n) of its cells.
        sure: an estimate above this is no noise.
        reach: how far such a cell may be moved.
        far: a cell that lies outside by less is left there.
        firm: (children,) what it costs to move a cell that is held.
        mean: (children, n) gets the numbers at which cells are held.
        costs: (children, n) gets their costs.
        again: (areas,) gets the families that have such a cell.
    """
    for i in range(len(again)):
        for c in range(families[i], families[i + 1]):
            for g in range(mean.shape[1]):
                off = tables[c, here + g] - estimates[c, g]
                if estimates[c, g] > sure and abs(off) - reach > far:
                    mean[c, g] = estimates[c, g] + (reach if off > 0.0 else -reach)
                    costs[c, g], again[i] = firm[c], True


@kernel
def add_moves(
    tables: FloatArray, here: int, mean: FloatArray, held: FloatArray, part: float, variances: FloatArray
) -> None:
    """Make the variances of posteriors those of what was decided.

    Args:
        tables: (children, P) as they were decided.
        here: where the table begins in them.
        mean: (children, n) the guarded means.
        held: (children, n) by how much these are more than what the laws expect.
        part: how large variances are beside what the laws say.
        variances: (children, n) changed.
    """
    for c in range(len(mean)):
        for g in range(mean.shape[1]):
            off = tables[c, here + g] - (mean[c, g] - held[c, g])
            variance = variances[c, g] * part
            if off * held[c, g] > 0.0:
                variance += min(off * off, held[c, g] * held[c, g])
            variances[c, g] = max(variance, off * off)
