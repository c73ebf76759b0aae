"""The search for the event that distinguishes two data sets best.

An event says that a score of a run's numbers is at least, at most or equal to a value. The scores:

* the log-likelihood ratio under the claimed noise, of all levels together and of each level (the best score, if the
  claim is true);
* the linear discriminant, which weighs all cells so that the two data sets are far apart for the noise that was *seen*:
  it finds every weighted sum of cells in which noise cancels;
* single cells, and sums and differences of two, in which noise that two cells share cancels.

An event is chosen on one part of the runs and counted on the rest, so the choice does not bias the count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tallytree.lab.audit.confidence_bounds import wilson
from tallytree.support.arrays import FloatArray, IntArray, NumberArray

Comparison = Literal["at least", "at most", "equal to"]
COMPARISONS: tuple[Comparison, ...] = get_args(Comparison)
Objective = Callable[[FloatArray, FloatArray], FloatArray]
"""From lower bounds of p and upper bounds of q to the loss that they show."""

MAX_EVENT_CELLS = 60
"""Single cells tried, those furthest apart first."""
MAX_PAIRS = 40
CAUTION = 1e-4
"""How sure an event must look to be chosen: with less caution rare ones win by chance, with more none can be rare."""
MAX_VALUES = 1_000
"""Values tried for a score; of more, quantiles."""


@dataclass(frozen=True, eq=False)
class Score:
    """A number computed from each run.

    Attributes:
        name: in words.
        of: from runs, int64 or float64 (runs, cells), to float64 (runs,).
    """

    name: str
    of: Callable[[NumberArray], FloatArray]


@dataclass(frozen=True, eq=False)
class AuditedView:
    """Something that was seen of many runs under both data sets.

    Attributes:
        before: int64 or float64 (runs, cells), under the data.
        after: the same, under its neighbor.
        labels: the cells' names.
        scores: scores known beforehand, beside those that are found in the runs.
    """

    before: NumberArray
    after: NumberArray
    labels: Sequence[str]
    scores: tuple[Score, ...] = ()

    def split(self) -> tuple[AuditedView, AuditedView]:
        """The first quarter of the runs, to choose events with, and the others, to count them in."""
        first = len(self.before) // 4
        return (
            AuditedView(self.before[:first], self.after[:first], self.labels, self.scores),
            AuditedView(self.before[first:], self.after[first:], self.labels, self.scores),
        )


@dataclass(frozen=True, eq=False)
class Event:
    """Something that a run either shows or does not.

    Attributes:
        score: of the run.
        comparison: how the score compares with the value.
        value: see `comparison`.
        likelier_after: whether the event is likelier under the neighbor than under the data.
    """

    score: Score
    comparison: Comparison
    value: float
    likelier_after: bool

    def __str__(self) -> str:
        """The event in words."""
        likelier = "neighbor" if self.likelier_after else "data"
        return f"{self.score.name} is {self.comparison} {self.value:.6g} (likelier under {likelier})"

    def counts(self, view: AuditedView) -> tuple[int, int]:
        """In how many runs it happened: where it is likelier, and where it is not."""
        before, after = (int(self._happens(self.score.of(runs)).sum()) for runs in (view.before, view.after))
        return (after, before) if self.likelier_after else (before, after)

    def _happens(self, scores: FloatArray) -> npt.NDArray[np.bool_]:
        compare = {"at least": np.greater_equal, "at most": np.less_equal, "equal to": np.equal}[self.comparison]
        return np.asarray(compare(scores, self.value))


def best_events(view: AuditedView, objectives: Mapping[str, Objective]) -> dict[str, Event]:
    """For each objective, by its name, the event with its largest (approximate) lower bound; none if nothing was seen.

    The runs are sorted and counted once for all objectives.
    """
    best: dict[str, tuple[float, Event]] = {}
    for score in [*view.scores, *_found_scores(view)]:
        values, counts = _counted(score, view)
        low, high = wilson(counts, len(view.before), CAUTION)
        for name, objective in objectives.items():
            shown = objective(low, high[:, ::-1])
            comparison, likelier_after, place = np.unravel_index(np.argmax(shown), shown.shape)
            largest = float(shown[comparison, likelier_after, place])
            if name not in best or largest > best[name][0]:
                event = Event(score, COMPARISONS[comparison], float(values[place]), bool(likelier_after))
                best[name] = largest, event
    return {name: event for name, (_, event) in best.items()}


def _counted(score: Score, view: AuditedView) -> tuple[FloatArray, IntArray]:
    """Values of a score; int64 (3, 2, values), in how many runs it compares with each, before and after."""
    before, after = np.sort(score.of(view.before)), np.sort(score.of(view.after))
    values = np.unique(np.concatenate([before, after]))
    if len(values) > MAX_VALUES:
        values = values[np.linspace(0, len(values) - 1, MAX_VALUES).astype(np.int64)]
    below, up_to = (
        np.stack([np.searchsorted(runs, values, side=side) for runs in (before, after)]) for side in ("left", "right")
    )
    return values, np.stack([len(before) - below, up_to, up_to - below])


def _found_scores(view: AuditedView) -> list[Score]:
    """Scores from the means and covariances of the runs themselves."""
    if view.before.shape[1] == 0:
        return []
    apart = view.after.mean(axis=0) - view.before.mean(axis=0)
    covariance = (_covariance(view.before) + _covariance(view.after)) / 2
    variance = np.diag(covariance)
    cells = _strongest(np.abs(apart), variance)[:MAX_EVENT_CELLS]
    scores = [_sum_of(view.labels, [(int(cell), 1)]) for cell in cells]
    scores += [_sum_of(view.labels, pair) for pair in _strongest_pairs(apart, covariance, cells)]
    scores.append(_discriminant(apart, covariance))
    return scores


def _covariance(runs: NumberArray) -> FloatArray:
    centred = runs - runs.mean(axis=0)
    return np.asarray(centred.T @ centred / max(1, len(runs) - 1))


def _strongest(apart: FloatArray, variance: FloatArray) -> IntArray:
    """Places in descending order of distance in standard deviations; a small ridge keeps noiseless ones finite."""
    return np.argsort(-apart / np.sqrt(np.maximum(variance, 0) + 1e-6), kind="stable")


def _strongest_pairs(apart: FloatArray, covariance: FloatArray, cells: IntArray) -> list[list[tuple[int, int]]]:
    """Sums and differences of two cells that tell the data sets apart best."""
    variance = np.diag(covariance)
    pairs: list[list[tuple[int, int]]] = []
    for sign in (1, -1):
        first, second = np.triu_indices(len(apart), k=1)
        kept = np.isin(first, cells) | np.isin(second, cells)
        first, second = first[kept], second[kept]
        distance = np.abs(apart[first] + sign * apart[second])
        order = _strongest(distance, variance[first] + variance[second] + 2 * sign * covariance[first, second])
        pairs += [[(int(first[i]), 1), (int(second[i]), sign)] for i in order[: MAX_PAIRS // 2]]
    return pairs


def _sum_of(labels: Sequence[str], terms: Sequence[tuple[int, int]]) -> Score:
    name = " ".join(f"{'+' if sign > 0 else '−'} {labels[cell]}" for cell, sign in terms).removeprefix("+ ")

    def of(runs: NumberArray) -> FloatArray:
        return np.asarray(sum(sign * runs[:, cell] for cell, sign in terms), dtype=np.float64)

    return Score(name, of)


def _discriminant(apart: FloatArray, covariance: FloatArray) -> Score:
    """Fisher's: the weights Σ⁻¹(difference of means), rounded so that a score without noise repeats exactly."""
    ridge = 1e-9 * (1 + float(np.trace(covariance))) * np.eye(len(apart))
    weights = np.linalg.solve(covariance + ridge, apart)
    largest = float(np.abs(weights).max())
    if largest > 0:
        weights = np.round(weights / largest, 6)

    def of(runs: NumberArray) -> FloatArray:
        return np.asarray(np.round(runs @ weights, 6))

    return Score("the linear discriminant of all cells", of)
