"""Which contribution bound to choose: the one of least expected error, noise and cut together.

**The objective.** Of every measured level take the sum of the absolute errors of what is measured there, over all of
its cells. For the bound m it is at most

    cells · E|X(m)|  +  d · C(m),

with X(m) the noise of a cell when the level is planned for m; C(m) the records that m leaves out; and d the most by
which one record moves the level's statistic (1 for counts). All records that are left out move counts the same way, so
for counts their errors add up to exactly C(m) at every level, wherever the records lie: nothing has to be assumed of
that. The noise of a level counts as at most d · R, with R the number of all records: that is the error of publishing
zeros, which no mechanism that releases non-negative numbers exceeds by much, however many cells are empty. A level
whose noise reaches it for all m has no say in the noise. The objective is the mean of the levels' sums; the chosen
bound is the least m that minimises it, among the last numbers of the bins, so that no bin is cut in two.

C and R are those of the noisy numbers of people (`accounting.left_out.told_apart`), in the middle of each bin; all
else is public. So this is post-processing, and spends nothing. The noise is that of the budget, the shares and the
relation of the release that is planned; (ε, δ) is converted by ρ, as for `accounting="zcdp"`. Post-processing by the
mechanism lowers the noise of all bounds alike, which this leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tallytree.accounting import Asked, NoisePlan, composable_budget, gaussian_for, laplace_for
from tallytree.accounting.left_out import told_apart
from tallytree.accounting.scales import next_float, representable
from tallytree.accounting.sensitivity import sensitivity
from tallytree.hierarchy import nodes_per_level
from tallytree.kinds.measurements import Noise, Statistic
from tallytree.run.measured_contributions import MeasuredContributions
from tallytree.run.planned_records import AnyRecords

OBJECTIVE = (
    "The mean over the measured levels of: cells times the expected absolute noise of a cell (at most the error of "
    "publishing zeros), plus the records left out; the least bound that minimises it is recommended."
)


@dataclass(frozen=True)
class WeighedLevel:
    """What the objective needs of a measured level.

    Attributes:
        statistic: what is measured.
        share: its share of the budget.
        nodes: how many nodes it has.
        cells: how many cells are measured.
    """

    statistic: Statistic
    share: Fraction
    nodes: int
    cells: int


def recommendation(planned: AnyRecords, measured: MeasuredContributions) -> dict[str, Any] | None:
    """The bound of least expected error for a planned release, JSON-able; None where the noise follows no such rule.

    Bounds that ask for more noise than is drawn are left out; None where all do.

    Args:
        planned: the release whose bound is to be chosen.
        measured: the noisy numbers of people.
    """
    levels = weighed_levels(planned)
    if not levels:
        return None
    people = told_apart(measured.bins, measured.people, measured.noise)
    middle = np.array(measured.bins, dtype=np.float64).mean(axis=1)
    everything = max(float(people @ middle), 0.0)
    choices = []
    for _, bound in measured.bins:
        drawn = _noise_of_levels(planned, levels.values(), bound)
        if drawn is None:
            break  # nor is that of a larger bound drawn
        cut = max(float(people @ np.maximum(middle - bound, 0)), 0.0)
        noise, moved = _noise_and_moves(planned, levels.values(), drawn, everything)
        choices.append(
            {
                "max_contributions": bound,
                "noise": round(noise, 1),
                "left_out": round(moved * cut, 1),
                "expected_error": round(noise + moved * cut, 1),
            }
        )
    if not choices:
        return None
    best = min(choices, key=lambda choice: (choice["expected_error"], choice["max_contributions"]))
    return {"max_contributions": best["max_contributions"], "objective": OBJECTIVE, "choices": choices}


def weighed_levels(planned: AnyRecords) -> dict[str, WeighedLevel]:
    """The measured levels; none where noise is not added to cells that public facts count."""
    plan = planned.plan
    if not isinstance(plan, NoisePlan) or "sorted_sizes" in planned.statistics.values():
        return {}
    nodes = nodes_per_level(planned.tree)
    return {
        level: WeighedLevel(each.statistic, each.share, nodes[level], nodes[level] * planned.cells_per_node)
        for level, each in plan.levels.items()
    }


def _noise_of_levels(planned: AnyRecords, levels: Iterable[WeighedLevel], bound: int) -> list[Noise] | None:
    """The noise of each level, if the bound were this one; None where one asks for more than is drawn."""
    relation, z = planned.arguments.relation, planned.quantity
    asked = [
        Asked(
            "",
            each.statistic,
            sensitivity(each.statistic, relation, bound, max_quantity=z, nodes=each.nodes),
            each.share,
        )
        for each in levels
    ]
    try:
        return [_noise(planned, each) for each in asked]
    except ValueError:
        return None


def _noise_and_moves(
    planned: AnyRecords, levels: Collection[WeighedLevel], drawn: Sequence[Noise], everything: float
) -> tuple[float, float]:
    """The objective's noise for a bound, and by how much one record that is left out adds to it: means over levels."""
    z, noise, moves = planned.quantity, [], []
    for each, noise_of_each in zip(levels, drawn, strict=True):
        moved = sensitivity(each.statistic, "add_remove", max_quantity=z, nodes=each.nodes).l1
        noise.append(min(each.cells * expected_absolute(noise_of_each), moved * everything))
        moves.append(moved)
    return sum(noise) / len(levels), sum(moves) / len(levels)


def _noise(planned: AnyRecords, asked: Asked) -> Noise:
    """The noise of a level, if its bound were this one."""
    budget, grid = planned.plan.budget, next_float if planned.arguments.noise == "opendp" else representable
    granted = composable_budget(budget, "zcdp" if budget.kind == "approximate" else None)
    noise_for = laplace_for if budget.kind == "pure" else gaussian_for
    return noise_for(asked.sensitivity, granted * asked.share, grid)


def expected_absolute(noise: Noise) -> float:
    """E|X| of the noise of a cell.

    1 / sinh(1 / scale) of discrete Laplace noise; of discrete Gaussian noise that of the continuous law, √(2/π)·scale.
    """
    scale = float(noise.scale)
    if noise.distribution == "discrete_laplace":
        return 1 / math.sinh(1 / scale) if scale > 1 / 700 else 0.0
    return math.sqrt(2 / math.pi) * scale
