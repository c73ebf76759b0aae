"""What the results of `compare` say of mechanisms: differences to one of them, and a picture."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.lab._internals import chart_data, described, require_charts, styled
from tallytree.lab.compare.comparison import summary

_OF_RUNS = ("mechanism", "run", "seed", "seconds", "value")
PANEL = 220
"""Width and height of a panel, in pixels."""


def differences(results: pa.Table, baseline: str) -> pa.Table:
    """By how much every mechanism differs from one of them, run by run.

    Args:
        results: from `compare`, of at least two runs.
        baseline: the name of the mechanism that the others are compared with.

    Returns:
        One row per group of runs and other mechanism: the columns of the results without `run`, `seed`, `seconds` and
        `value`; then `runs`, `difference` (the mean of value − the baseline's of the same run), `std_error` (of that
        mean) and `fewer_runs`: how many times as many runs with noise of their own would give the same standard error,
        (s² + s_b²) ÷ s²_difference. It is about 1 without `paired`; NaN where the differences do not vary.

    Raises:
        ValueError: no such mechanism, or fewer than two runs.
    """
    keys = [name for name in results.column_names if name not in _OF_RUNS]
    groups: dict[tuple[Any, ...], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in results.to_pylist():
        groups[tuple(row[key] for key in keys)][row["mechanism"]][row["run"]] = row["value"]
    known = {name for by_name in groups.values() for name in by_name}
    if baseline not in known:
        raise ValueError(
            f"baseline: {baseline!r} is not a mechanism of the results; they have {', '.join(sorted(known))}"
        )
    columns: dict[str, list[Any]] = {name: [] for name in [*keys, "mechanism", *_FIGURES]}
    for key, by_name in groups.items():
        for name, values in by_name.items():
            if name != baseline:
                found = _figures(values, by_name[baseline])
                for column, value in zip(columns, (*key, name, *found), strict=True):
                    columns[column].append(value)
    return pa.table(columns).replace_schema_metadata(results.schema.metadata)


_FIGURES = ("runs", "difference", "std_error", "fewer_runs")


def _figures(values: dict[int, float], others: dict[int, float]) -> tuple[int, float, float, float]:
    runs = sorted(values.keys() & others.keys())
    if len(runs) < 2:
        raise ValueError("results: two runs or more are needed, for a standard error; give compare more runs")
    one, other = (np.array([each[run] for run in runs]) for each in (values, others))
    own, spread = float(np.var(one, ddof=1) + np.var(other, ddof=1)), float(np.var(one - other, ddof=1))
    std_error = math.sqrt(spread / len(runs))
    return len(runs), float((one - other).mean()), std_error, own / spread if spread > 0 else math.nan


def plot(results: pa.Table, metric: str) -> Any:
    """A picture of one metric: its mean by level and mechanism, with the least and the greatest value of the runs.

    Args:
        results: from `compare`.
        metric: its name.

    Returns:
        An Altair chart, a panel for each data set and budget.

    Raises:
        ValueError: the results do not have the metric.
        ModuleNotFoundError: a package of the extra `report` is not installed.
    """
    require_charts("plot", "a picture")
    import altair as alt

    rows = [row for row in summary(results).to_pylist() if row["metric"] == metric and row["true_number"] == "all"]
    if not rows:
        known = sorted(set(results["metric"].to_pylist()))
        raise ValueError(f"metric: {metric!r} is not in the results; they have {', '.join(known)}")
    shown = [{**row, "panel": _panel(row), "value": row["mean"]} for row in rows]
    levels = list(dict.fromkeys(row["level"] for row in sorted(shown, key=lambda row: row["depth"])))
    x = alt.X("level:N", sort=levels, title="level")
    base = alt.Chart().encode(x=x, color="mechanism:N", xOffset="mechanism:N")
    bars = base.mark_rule().encode(y=alt.Y("min:Q", title=metric.replace("_", " ")), y2="max:Q")
    points = base.mark_point(filled=True, size=60).encode(y="value:Q", shape="mechanism:N")
    layered = alt.layer(bars, points, data=chart_data(shown)).properties(width=PANEL, height=PANEL)
    names = ", ".join(dict.fromkeys(row["mechanism"] for row in shown))
    words = f"{metric} by level, for {names}. Points are means of runs, lines reach from the least to the greatest."
    panels = layered.facet(facet=alt.Facet("panel:N", title=None), columns=3).resolve_scale(
        y="independent", x="independent"
    )
    return styled(described(panels, metric.replace("_", " "), words))


def _panel(row: dict[str, Any]) -> str:
    amounts = ((name, row[name]) for name in ("epsilon", "delta", "rho"))
    return ", ".join([row["data"], *(f"{name} {amount:g}" for name, amount in amounts if amount is not None)])
