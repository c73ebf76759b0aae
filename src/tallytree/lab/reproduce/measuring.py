"""Experiments that are comparisons: mechanisms on data sets, as `Measured`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from tallytree.budget import Budget
from tallytree.lab.compare import Data, compare
from tallytree.lab.compare.level_metrics import Metric
from tallytree.lab.reproduce.measured import AS_STATED, MeasuredRows


def measured(
    data: Data,
    mechanisms: Mapping[str, Any],
    budgets: Mapping[float, Budget],
    quantities: Mapping[str, Metric],
    *,
    neighboring: str,
    runs: int,
    seed: int,
    accounting: str | None = None,
    variant: str = AS_STATED,
    levels: Sequence[str] | None = None,
) -> list[MeasuredRows]:
    """Release data with every mechanism and budget, several times; one figure for each level and quantity.

    Args:
        data: the data set.
        mechanisms: by the names of `marks.MARKS`.
        budgets: by ε as the paper counts it.
        quantities: what is measured of a level, by name with unit.
        neighboring: see `evaluate.compare`.
        runs: the number of releases.
        seed: of the noise.
        accounting: for budgets with δ.
        variant: see `Measured`.
        levels: only these.
    """
    found = []
    for epsilon, budget in budgets.items():
        rows = compare(
            data,
            mechanisms,
            budget,
            neighboring=neighboring,
            accounting=accounting,
            runs=runs,
            seed=seed,
            metrics=quantities,
            levels=levels,
        ).to_pylist()

        def figure(row: dict[str, Any]) -> tuple[Any, ...]:
            return list(mechanisms).index(row["mechanism"]), row["depth"], list(quantities).index(row["metric"])

        for _, group in groupby(sorted(rows, key=figure), figure):
            values = list(group)
            about = (data.name, values[0]["mechanism"], values[0]["metric"])
            of_runs = [row["value"] for row in values]
            found.append(MeasuredRows(*about, of_runs, variant, epsilon, values[0]["depth"]))
    return found
