"""The page of an experiment, in Markdown: published, ours, ratio and interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from statistics import median
from typing import Any

import pyarrow as pa

from tallytree.lab.reproduce.experiment import Experiment, Found, Settings
from tallytree.lab.reproduce.figure import words
from tallytree.lab.reproduce.measured import NOT_RUN
from tallytree.lab.reproduce.published import PAPERS

MOST_ROWS = 120
"""A page with more figures than this has one row for each mechanism and budget; the table has them all."""


def page(experiment: Experiment, settings: Settings, found: Found, table: pa.Table, version: str) -> str:
    """The page as text. Pictures and the table are beside it under the experiment's name."""
    name = experiment.name
    size = "the paper's size" if settings.full else "a small size"
    lines = [f"# {name}: {experiment.shows}", "", f"*{PAPERS[experiment.paper]}.*", ""]
    lines += [f"Measured by tallytree {version}, {size}: `{command(name, settings)}`.", ""]
    lines += [f"* {note}" for note in found.notes]
    lines += [""] if found.notes else []
    if found.plot is not None:
        lines += [f"![{words(table, found.plot, experiment.shows)}]({name}.svg)", ""]
    rows = table.to_pylist()
    lines += [_about(experiment, rows), ""]
    lines += _table(rows, experiment.headings) if len(rows) <= MOST_ROWS else _summary(rows)
    return "\n".join([*lines, "", f"All figures: [{name}.csv]({name}.csv).", ""])


def command(name: str, settings: Settings) -> str:
    """The command that measures the same again."""
    options = ["--full"] if settings.full else []
    options += [] if settings.runs is None else [f"--runs {settings.runs}"]
    options += [] if settings.seed == 1 else [f"--seed {settings.seed}"]
    options += [] if settings.data is None else ["--data DIR"]
    return " ".join(["tallytree reproduce", name, *options])


def _about(experiment: Experiment, rows: Sequence[dict[str, Any]]) -> str:
    """Where the published figures stand, and what the intervals are of."""
    runs = max(row["runs"] for row in rows)
    beside = any(row["published"] is not None for row in rows)
    if not experiment.published_in:
        origin = "The paper shows this as a picture or a formula, without numbers."
    else:
        origin = f"Published: {experiment.published_in}." if beside else "Nothing is published for these data."
    if runs == 1:
        return f"{origin} One run, or exact: no interval."
    means = f"{origin} Means of up to {runs} runs. The interval is that of our mean, at 95 %"
    return f"{means}, divided by the published figure, which has an error of its own." if beside else f"{means}."


def cells_of(
    rows: Sequence[dict[str, Any]], names: tuple[str, str] = ("published", "ours")
) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of figures; columns that are the same in all rows are left out.

    Args:
        rows: of the tidy table.
        names: what the published figure and ours are called.
    """
    abouts = ("data", "mechanism", "variant", "epsilon", "level", "x", "quantity")
    given = [name for name in abouts if len({row[name] for row in rows}) > 1]
    beside = any(row["published"] is not None for row in rows)
    headings = [*given, *names[:1] * beside, names[1], *["ratio"] * beside, "interval"]
    cells = []
    for row in rows:
        texts = [row[name] if isinstance(row[name], str) else shown(row[name]) for name in given]
        texts += [shown(row["published"])] if beside else []
        texts += [shown(row["mean"]) or NOT_RUN]
        if beside:
            texts += [_ratio(row["ratio"]), _interval(row["ratio_lower"], row["ratio_upper"], _ratio)]
        else:
            texts += [_interval(row["lower"], row["upper"], shown)]
        cells.append(texts)
    return headings, cells


def _table(rows: Sequence[dict[str, Any]], names: tuple[str, str]) -> list[str]:
    """Every figure, as a table of Markdown."""
    headings, cells = cells_of(rows, names)
    return [f"| {' | '.join(line)} |" for line in (headings, ["---"] * len(headings), *cells)]


def _summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """One row for the levels of a mechanism: the least and the greatest figure, and their ratios to the published."""
    abouts = "data | mechanism | variant | epsilon | quantity | figures"
    lines = [f"| {abouts} | ours, least | greatest | ratio, median | least | greatest |", f"|{' --- |' * 11}"]

    def about(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["data"], row["mechanism"], row["variant"], row["epsilon"] or 0.0, row["quantity"]

    measured = (row for row in rows if row["mean"] is not None)
    for key, members in groupby(sorted(measured, key=about), about):
        of_key = list(members)
        ours = [row["mean"] for row in of_key]
        cells = [*key[:3], f"{key[3]:g}" if key[3] else "", key[4], str(len(ours)), shown(min(ours)), shown(max(ours))]
        ratios = [row["ratio"] for row in of_key if row["ratio"] is not None]
        cells += map(_ratio, (median(ratios), min(ratios), max(ratios))) if ratios else [""] * 3
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def shown(value: float | None) -> str:
    """A figure in four digits or more, with commas; nothing for null."""
    if value is None:
        return ""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:.3g}" if digits > 6 else f"{value:,.{digits}f}"


def _ratio(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value >= 0.1 or value <= 0 else f"{value:.2g}"


def _interval(lower: float | None, upper: float | None, write: Callable[[float], str]) -> str:
    return "" if lower is None or upper is None else f"{write(lower)} – {write(upper)}"
