"""Passes over a tree in breadth-first places, level by level: the families of one level are independent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from tallytree.support.arrays import IntArray
from tallytree.support.kernels import kernel
from tallytree.support.threads import available_threads, side_by_side

WIDE = 50_000
"""A level with this many places is worth several threads; the levels between two such ones are one range."""

Range = tuple[int, int]
Steps = list[tuple[Range, ...]]
"""From the root down. The ranges of places of one step may be worked on at once, the steps one after the other."""


def steps(first_child: IntArray, *, wide: int = WIDE, threads: int | None = None) -> Steps:
    """Cut the places into steps.

    Args:
        first_child: (places + 1,) as in `Problem`.
        wide: how many places make a level worth several threads.
        threads: into how many ranges such a level is cut; one per processor by default.

    Returns:
        The steps; one with one range where no level is wide, or there is one thread only.
    """
    places = len(first_child) - 1
    pieces = available_threads() if threads is None else threads
    if places < wide or pieces < 2:
        return [((0, places),)]
    cut: Steps = []
    for begin, end, level_is_wide in _cuts(first_child, wide).tolist():
        bounds = np.linspace(begin, end, (pieces if level_is_wide else 1) + 1).astype(np.int64).tolist()
        cut.append(tuple(pairwise(bounds)))
    return cut


def swept(work: Callable[[int, int], int], order: Sequence[tuple[Range, ...]]) -> int:
    """Do the work for every range, the steps in order, and add up what it returns.

    Args:
        work: takes the first place of a range and the one after its last; a kernel, so that threads run side by side.
        order: steps; reversed for a pass from the leaves up.
    """
    found = 0
    for ranges in order:
        if len(ranges) == 1:
            found += work(*ranges[0])
        else:
            found += sum(side_by_side(lambda each: work(*each), ranges, threads=len(ranges)))
    return found


@kernel
def _cuts(first_child: IntArray, wide: int) -> IntArray:
    """(cuts, 3) begin, end and whether it is one wide level; else it is as many small levels as follow each other."""
    n = len(first_child) - 1
    cuts = np.empty((2 * (n // wide) + 2, 3), np.int64)
    count, begin, end, pending = 0, 0, 1, 0
    while begin < n:
        if end - begin >= wide:
            if pending < begin:
                cuts[count, 0], cuts[count, 1], cuts[count, 2] = pending, begin, 0
                count += 1
            cuts[count, 0], cuts[count, 1], cuts[count, 2] = begin, end, 1
            count += 1
            pending = end
        begin, end = end, first_child[end]
    if pending < n:
        cuts[count, 0], cuts[count, 1], cuts[count, 2] = pending, n, 0
        count += 1
    return cuts[:count]
