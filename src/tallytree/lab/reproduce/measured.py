"""`MeasuredRows`: one figure with the values of its runs; and the tidy table of many, beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from scipy.stats import t as student

CONFIDENCE = 0.95
"""Of the intervals of means."""
AS_STATED, AS_RUN = "as stated", "as run"
"""What the paper states, and what its authors' code or published figures show that was run instead."""
NOT_RUN = "not run"
"""Of a published figure that nothing was measured for."""


@dataclass(frozen=True)
class MeasuredRows:
    """A quantity of one mechanism on one data set.

    Attributes:
        data: the data set.
        mechanism: by the paper's name; see `marks.MARKS`.
        quantity: what was measured, with its unit in parentheses where it has one.
        values: one for each run; one alone where it is exact.
        variant: `AS_STATED` or `AS_RUN`, or what else was varied.
        epsilon: the privacy loss as the paper counts it; None where it has no part.
        level: of the hierarchy, 0 is the root; None where it has no part.
        x: the place on the horizontal axis of figures that have another one, such as a size.
    """

    data: str
    mechanism: str
    quantity: str
    values: Sequence[float]
    variant: str = AS_STATED
    epsilon: float | None = None
    level: int | None = None
    x: float | None = None

    @property
    def key(self) -> Key:
        """Under which the published figure is found, among those of the experiment."""
        return (self.data, self.mechanism, self.quantity, self.epsilon, self.level, self.x)


Key = tuple[str, str, str, float | None, int | None, float | None]
"""Data, mechanism, quantity, epsilon, level, x."""

SCHEMA = pa.schema(
    [
        ("experiment", pa.string()),
        ("data", pa.string()),
        ("mechanism", pa.string()),
        ("variant", pa.string()),
        ("epsilon", pa.float64()),
        ("level", pa.int64()),
        ("x", pa.float64()),
        ("quantity", pa.string()),
        ("runs", pa.int64()),
        ("mean", pa.float64()),
        ("standard_error", pa.float64()),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
        ("published", pa.float64()),
        ("published_in", pa.string()),
        ("ratio", pa.float64()),
        ("ratio_lower", pa.float64()),
        ("ratio_upper", pa.float64()),
    ]
)


def tidy(
    experiment: str, measured: Sequence[MeasuredRows], published: Mapping[Key, float], published_in: str = ""
) -> pa.Table:
    """One row for each figure, in order: its mean over the runs beside what was published.

    Columns: those of `MeasuredRows`; `runs`; `mean`; `standard_error`, and `lower` and `upper`, the ends of Student's
    interval of the mean at confidence 0.95, at least 0 where no value is negative (null for one run); `published`, and
    where; `ratio`, which is mean / published, and `ratio_lower`, `ratio_upper`, the interval divided in the same way
    (null where nothing, or 0, was published). Published figures of the same data, quantities and ε that nothing was
    measured for come last, as rows of the variant `NOT_RUN` with 0 runs.

    Args:
        experiment: its name.
        measured: what was measured.
        published: of this experiment.
        published_in: where the published figures stand.
    """
    rows = [_summarised(one, published.get(one.key)) for one in measured]
    keys = {one.key for one in measured}
    about = {(one.data, one.quantity, one.epsilon) for one in measured}
    rows += [
        {**_about(MeasuredRows(*key[:3], (), NOT_RUN, *key[3:])), "runs": 0, "published": value}
        for key, value in published.items()
        if key not in keys and (key[0], key[2], key[3]) in about
    ]
    for row in rows:
        row["experiment"], row["published_in"] = experiment, None if row["published"] is None else published_in
    return pa.Table.from_pylist(rows, SCHEMA)


def _about(one: MeasuredRows) -> dict[str, Any]:
    return {
        "data": one.data, "mechanism": one.mechanism, "variant": one.variant, "epsilon": one.epsilon,
        "level": one.level, "x": one.x, "quantity": one.quantity,
    }  # fmt: skip


def _summarised(one: MeasuredRows, published: float | None) -> dict[str, Any]:
    runs = len(one.values)
    mean = math.fsum(one.values) / runs
    error = half = None
    if runs > 1:
        error = math.sqrt(math.fsum((value - mean) ** 2 for value in one.values) / (runs - 1) / runs)
        half = error * float(student.ppf((1 + CONFIDENCE) / 2, runs - 1))
    lower, upper = (None, None) if half is None else (mean - half, mean + half)
    if lower is not None and min(one.values) >= 0:  # an error or a time, which is never negative
        lower = max(lower, 0.0)
    over = [None if not published or each is None else each / published for each in (mean, lower, upper)]
    return {
        **_about(one), "runs": runs, "mean": mean,
        "standard_error": error, "lower": lower, "upper": upper, "published": published,
        "ratio": over[0], "ratio_lower": over[1], "ratio_upper": over[2],
    }  # fmt: skip
