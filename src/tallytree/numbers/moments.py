"""Second moments of the errors of several numbers at once, from replicates of a release."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tallytree.numbers.accuracy.bootstrap import SETTLING, SizeReplicates, fresh_sources
from tallytree.numbers.accuracy.replicate_errors import (
    DEFAULT_REPLICATES,
    Cells,
    Replicates,
    replicates_of,
    stated_plan,
)
from tallytree.release.remainders import NO_REPLICATES, refuse_remainders
from tallytree.release.view.release_view import ReleaseView
from tallytree.support.arrays import FloatArray, NumberArray
from tallytree.support.stages import stage

NEAR_ZERO = 4.0
"""Standard deviations of the noise."""


def replicates_for(view: ReleaseView) -> Replicates:
    """What measures and reconciles a release again.

    Raises:
        ValueError: replicates do not show the errors of such a release.
    """
    refuse_remainders(view.statement, "replicates", NO_REPLICATES)
    plan = stated_plan(view)
    if plan.thresholds:
        raise ValueError(
            "release: it is by StabilityHistogram, whose sums miss what is below the threshold, and nothing published "
            "shows how much; no error can be stated"
        )
    return replicates_of(view, plan, view.all_published())[0]


def rounds_of(view: ReleaseView, replicates: int | None) -> int:
    """How many replicates: as asked for, as many as the release's own errors are from, or 50."""
    return int(replicates or (view.statement.get("errors") or {}).get("replicates") or DEFAULT_REPLICATES)


def with_floor(variance: FloatArray, number: NumberArray, floor: FloatArray | float) -> FloatArray:
    """Variances from replicates, float64 (n,): at least that of the noise where a number is near 0.

    A number near 0 hardly varies in replicates, since it cannot become negative. Its noise may have moved it down.

    Args:
        variance: float64 (n,), from replicates.
        number: (n,), published.
        floor: the standard deviation of the noise.
    """
    return np.where(number <= NEAR_ZERO * floor, np.maximum(variance, np.square(floor)), variance)


def second_moments(
    replicated: Replicates,
    numbers: Callable[[list[Cells]], FloatArray],
    rounds: int,
    seed: int | None,
) -> FloatArray:
    """The mean products of the errors of numbers, bias included: float64 (k, k, n).

    Replicates of group sizes follow each other in a chain; see `SizeReplicates.chained`.

    Args:
        replicated: what makes the replicates.
        numbers: from the cells of all levels, root first: k numbers of n things, float64 (k, n).
        rounds: how many replicates.
        seed: makes them reproducible.
    """
    truth = numbers(replicated.truths())
    found = np.zeros((len(truth), *truth.shape))
    missed: Iterator[FloatArray]
    if isinstance(replicated, SizeReplicates):
        chain = replicated.chained(fresh_sources(rounds + SETTLING, seed))
        missed = (numbers(made) - numbers(true) for true, made in chain)
    else:
        missed = (numbers(made) - truth for made in replicated.run(fresh_sources(rounds, seed)))
    with stage("replicate"):
        for each in missed:
            found += each[:, None] * each[None]
    return found / rounds
