"""The exact check of counts above a threshold: the δ of two data sets at the stated ε, by enumeration.

A cell shows either nothing or a number from the threshold on, and cells are independent. Numbers beyond both true
counts have one and the same likelihood ratio; so a cell has a few classes of outcomes, and the hockey-stick divergence
Σ max(0, P − e^ε·P') over the classes of all cells that differ is exact, but for the rounding of 60 digits. It is not
symmetric: both directions count. Nothing of the proof in `accounting.stability` is used, only the law of noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from tallytree.lab._internals import StabilityPlan, TrueStatistics
from tallytree.lab.audit.events import AuditedView, Score
from tallytree.lab.audit.runs import RunsOfLevel, all_cells
from tallytree.support.arrays import IntArray, NumberArray

_DIGITS = 60
_ROUNDING = Decimal(10) ** -45
"""More than 60-digit arithmetic can be off by; what is found is less by this."""

_IMPOSSIBLE = 1e6
"""Stands for an infinite logarithm, so that sums of scores stay numbers."""

Moves = tuple[tuple[int, int], ...]
"""The counts before and after of every cell that differs, sorted."""


def stable_delta(plan: StabilityPlan, before: TrueStatistics, after: TrueStatistics) -> float:
    """The δ that the two data sets need at the ε of the plan's budget, in the worse direction, rounded down."""
    return _delta_both_ways(plan, _moves(_counts(plan, before), _counts(plan, after)))


def worst_stable_pair(
    plan: StabilityPlan, tabulate: Callable[[IntArray], TrueStatistics], before: IntArray, after: IntArray
) -> tuple[IntArray, IntArray]:
    """The first of the pairs of data sets, int64 (pairs, places), that needs the largest δ.

    Args:
        plan: the level's noise and threshold.
        tabulate: from a data set to its statistics; called once for each.
        before: the data sets, at least one.
        after: their neighbors.
    """
    distinct, places = np.unique(np.concatenate([before, after]), axis=0, return_inverse=True)
    cells = [_counts(plan, tabulate(each)) for each in distinct]
    first, second = places.reshape(2, -1).tolist()
    found = [_delta_both_ways(plan, _moves(cells[i], cells[j])) for i, j in zip(first, second, strict=True)]
    worst = int(np.argmax(found))
    return before[worst], after[worst]


def stable_view(before: dict[str, RunsOfLevel], after: dict[str, RunsOfLevel], plan: StabilityPlan) -> AuditedView:
    """All that was measured above the threshold, 0 where nothing was, with its log-likelihood ratio as a score."""
    level = plan.stable.level
    here, there = before[level], after[level]
    labels = [f"{level}[{node}]" for node in range(len(here.true))]
    score = Score("the log-likelihood ratio of all measurements", _log_likelihood_ratio(plan, here.true, there.true))
    return AuditedView(here.noisy, there.noisy, labels, (score,))


def hockey_stick(moves: Moves, scale: Fraction, threshold: int, epsilon: Fraction) -> Decimal:
    """Σ max(0, P − e^ε·P') over all that can be published, for counts that go from the first to the second of moves."""
    with localcontext(Context(prec=_DIGITS)):
        law = _Law(scale, threshold)
        cost = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
        total = Decimal(0)
        for outcome in product(*(list(law.classes(*move)) for move in moves)):
            p, other = Decimal(1), Decimal(1)
            for here, there in outcome:
                p, other = p * here, other * there
            total += max(Decimal(0), p - cost * other)
        return total


class _Law:
    """What a cell shows; within the caller's decimal context."""

    def __init__(self, scale: Fraction, threshold: int) -> None:
        self._log_q = -Decimal(scale.denominator) / Decimal(scale.numerator)
        self._threshold = threshold
        self._one_plus_q = 1 + self._log_q.exp()

    def classes(self, here: int, there: int) -> Iterator[tuple[Decimal, Decimal]]:
        """The probabilities of every class of outcomes: nothing, single numbers, and all numbers beyond both counts."""
        beyond = max(self._threshold, here, there)
        yield 1 - self._at_least(self._threshold, here), 1 - self._at_least(self._threshold, there)
        for number in range(self._threshold, beyond):
            yield self._exactly(number, here), self._exactly(number, there)
        yield self._at_least(beyond, here), self._at_least(beyond, there)

    def log_of_nothing(self, count: int) -> float:
        """The logarithm of the probability that a count is left out, which may be far below every float."""
        if count < self._threshold:
            return float((1 - self._at_least(self._threshold, count)).ln())
        return float(self._log_q * (count - self._threshold + 1) - self._one_plus_q.ln())

    def _exactly(self, number: int, count: int) -> Decimal:
        if count == 0:
            return Decimal(0)
        q = self._log_q.exp()
        return (1 - q) / self._one_plus_q * (self._log_q * abs(number - count)).exp()

    def _at_least(self, number: int, count: int) -> Decimal:
        if count == 0:
            return Decimal(0)
        if number >= count:
            return (self._log_q * (number - count)).exp() / self._one_plus_q
        return 1 - (self._log_q * (count - number + 1)).exp() / self._one_plus_q


def _moves(before: IntArray, after: IntArray) -> Moves:
    differ = before != after
    return tuple(sorted(zip(before[differ].tolist(), after[differ].tolist(), strict=True)))


@lru_cache(maxsize=2**14)
def _delta_both_ways(plan: StabilityPlan, moves: Moves) -> float:
    stable, epsilon = plan.stable, plan.budget.epsilon
    if epsilon is None:
        raise ValueError(f"plan: {plan.budget!r} has no epsilon")
    back = tuple((there, here) for here, there in moves)
    found = max(hockey_stick(each, stable.noise.scale, stable.threshold, epsilon) for each in (moves, back))
    return max(0.0, float(found - _ROUNDING))


def _counts(plan: StabilityPlan, statistics: TrueStatistics) -> IntArray:
    return all_cells(statistics, plan.stable)[0]


def _log_likelihood_ratio(plan: StabilityPlan, true: IntArray, neighbor: IntArray) -> Callable[[NumberArray], Any]:
    """The logarithm of P(cells | data)/P(cells | neighbor)."""
    scale, threshold = plan.stable.noise.scale, plan.stable.threshold
    cells = np.flatnonzero(true != neighbor)
    here, there = true[cells], neighbor[cells]

    def left_out(count: int) -> float:
        with localcontext(Context(prec=_DIGITS)):
            return _Law(scale, threshold).log_of_nothing(count)

    nothing = np.array([left_out(int(a)) - left_out(int(b)) for a, b in zip(here, there, strict=True)])

    def of(runs: NumberArray) -> Any:
        seen = runs[:, cells]
        ratios = (np.abs(seen - there) - np.abs(seen - here)) / float(scale)
        ratios = np.where(there == 0, _IMPOSSIBLE, np.where(here == 0, -_IMPOSSIBLE, ratios))
        return np.round(np.where(seen == 0, nothing, ratios).sum(axis=1), 9)

    return of
