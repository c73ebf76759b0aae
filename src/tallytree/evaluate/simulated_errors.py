"""The errors that a planned release will have, by simulation: a public stand-in, measured and reconciled repeatedly.

The noise is that of the parametric bootstrap (`_derived.bootstrap`): its keys are derived from fresh entropy, or
from a seed, under a label that no release uses. Neither records nor a release's keys are in reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tallytree._compute.arrays import FloatArray, IntArray, NumberArray
from tallytree._derived.bootstrap import CountReplicates, fresh_sources
from tallytree._derived.squared_errors import looked_up
from tallytree._progress import step_progress
from tallytree._run import Planned
from tallytree._stages import stage
from tallytree._validate import integer
from tallytree.evaluate.expected_errors import ALPHA, LevelError
from tallytree.evaluate.stand_in import Replicates, replicates_of
from tallytree.hierarchy import nodes_per_level
from tallytree.sizes.released_sizes import sum_over_tree

DEFAULT_REPLICATES = 20
MAX_REPLICATES = 10_000
MANY_CELLS = 10_000
"""So many cells of one replicate show the quantile of their errors; of fewer, all replicates together."""


def simulated_errors(
    planned: Planned[Any, Any],
    like: Any,
    *,
    replicates: int = DEFAULT_REPLICATES,
    seed: int | None = None,
    progress: bool = False,
) -> list[LevelError]:
    """The errors of a planned release on a stand-in, root first.

    `std_dev` and `half_width` are of the cells of the stand-in that are not 0; `expected_maximum` is of all cells.

    Args:
        planned: the planned release; it is not run.
        like: see `stand_in.replicates_of`.
        replicates: how many; from 2 to 10,000.
        seed: makes the replicates reproducible.
        progress: show a progress bar on standard error.

    Raises:
        ValueError, TypeError: a stand-in that cannot be used, or a number out of range.
    """
    rounds = integer(replicates, "replicates", least=2, most=MAX_REPLICATES)
    replicated = replicates_of(planned, like)
    truth = list(_true_levels(replicated))
    squares, largest = np.zeros((len(truth), rounds)), np.zeros((len(truth), rounds))
    widths = [_Widths() for _ in truth]
    with stage("simulate"), step_progress(progress, rounds, "replicates") as done:
        for at, levels in enumerate(replicated.run(fresh_sources(rounds, seed))):
            for depth, ((cells, true), (found, numbers)) in enumerate(zip(truth, levels, strict=True)):
                errors, most = _errors(cells, true, found, numbers)
                if len(errors):
                    squares[depth, at] = np.mean(np.square(errors))
                    widths[depth].add(errors)
                largest[depth, at] = most
            done()
    figures = zip(
        np.sqrt(squares.mean(axis=1)), [each.half_width for each in widths], largest.mean(axis=1), strict=True
    )
    return [
        LevelError(level, nodes, float(std_dev), float(width), float(most), "simulation")
        for (level, nodes), (std_dev, width, most) in zip(nodes_per_level(planned.tree).items(), figures, strict=True)
    ]


class _Widths:
    """What one error in ten exceeds: of the errors of all replicates, or their mean where there are many cells."""

    def __init__(self) -> None:
        self._errors: list[FloatArray] = []

    def add(self, errors: FloatArray) -> None:
        many = len(errors) > MANY_CELLS
        self._errors.append(np.array([np.quantile(errors, 1 - ALPHA)]) if many else errors)
        self._many = many

    @property
    def half_width(self) -> float:
        if not self._errors:
            return 0.0
        errors = np.concatenate(self._errors)
        return float(errors.mean() if self._many else np.quantile(errors, 1 - ALPHA))


def _true_levels(replicated: Replicates) -> Iterator[tuple[IntArray, IntArray]]:
    """The cells of every level that are not 0, ascending, and their numbers; root first."""
    if isinstance(replicated, CountReplicates):
        for level in replicated.tree.levels:
            yield replicated.truth.present(level)
        return
    domain = replicated.domain
    for each in sum_over_tree(domain.hierarchy, replicated.leaves, domain.largest):
        yield each.nodes * (domain.largest + 1) + each.sizes, each.groups.astype(np.int64)


def _errors(cells: IntArray, true: IntArray, found: IntArray, numbers: NumberArray) -> tuple[FloatArray, float]:
    """|released − true| of the cells that are not 0, and the largest of all cells."""
    errors = np.abs(looked_up(cells, found, numbers) - true).astype(np.float64)
    there = looked_up(found, cells, np.ones(len(cells)))
    beside = np.abs(numbers[there == 0]).max(initial=0)
    return errors, float(max(errors.max(initial=0.0), beside))
