"""What has to hold of pooled tables: the bounds, and the report of the rows of `borrowed_strength.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from real_data import JUDGED, LEAST_COVERAGE, Row

from tallytree.release.quality import RELIABLE, WITH_CARE

JUDGED_RATIO = 5 * JUDGED
LEAVES = "leaves' tables"
MEANS_BOUND = ("Chem97", "InstEval", "eusilc", "gss_wages")
"""Sets whose mean ratio has a bound."""


@dataclass(frozen=True)
class Bound:
    """What "Must show" asks of rows: from `least` to `most`, with two standard errors, where there are enough cells."""

    name: str
    figure: str
    rows: Callable[[Row], bool]
    least: float = -math.inf
    most: float = math.inf
    cells: int = JUDGED

    def excess(self, row: Row) -> float:
        """By how much a row lies outside; below 0 inside."""
        return max(self.least - row[self.figure], row[self.figure] - self.most)

    def slack(self, row: Row) -> float:
        return 2 * row.get(f"{self.figure}_error", 0.0)


def _by(*schemes: str, only: Callable[[Row], bool] | None = None, name: str | None = None) -> Callable[[Row], bool]:
    return lambda row: row["by"] in schemes and (name is None or row["class"] == name) and (only is None or only(row))


def _means(epsilon: float | None = None) -> Callable[[Row], bool]:
    """Which rows are the means of the sets that have a bound, at one ε; or those of all sets."""
    return lambda row: (
        row["by"] == "mean of designs"
        and (epsilon is None or (row["epsilon"] == epsilon and row["data"] in MEANS_BOUND))
    )  # fmt: skip


def means_of_designs(rows: Sequence[Row]) -> Iterator[Row]:
    """For each set of data, the mean ratio over the leaves' tables of all its designs."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["by"] == "mean" and row["table"] == LEAVES and row["class"] == "ratio":
            found.setdefault((row["data"], row["epsilon"], row["option"], row["noise"]), []).append(row)
    for own in found.values():
        tables = sum(row["cells"] for row in own)
        ratio, error = (sum(row["cells"] * row[name] for row in own) / tables for name in ("ratio", "ratio_error"))
        designs = " + ".join(row["design"] for row in own)
        yield own[0] | {"design": designs, "by": "mean of designs", "cells": tables} | {
            "ratio": ratio, "ratio_error": error,  # the designs share the seeds, so errors are added
        }  # fmt: skip


def _residents(row: Row) -> bool:
    return row["data"].startswith("residents") and row["epsilon"] == 1 and row["table"] != "all"


BOUNDS = (
    Bound("RMSE ÷ today's, tables", "ratio", _by("all"), most=1.05, cells=JUDGED_RATIO),
    Bound("MAE ÷ today's, tables (no bound)", "ratio_mae", _by("all"), cells=JUDGED_RATIO),
    Bound("RMSE ÷ today's, by true size", "ratio", _by("true"), most=1.15),
    Bound("mean ratio of leaves' tables, ε = 1", "ratio", _means(1), most=0.85, cells=1),
    Bound("mean ratio of leaves' tables, ε = 0.1", "ratio", _means(0.1), most=0.8, cells=1),
    Bound("mean ratio of leaves' tables, all (no bound)", "ratio", _means(), cells=1),
    Bound("rare values, parents' tables", "ratio", _by("rare", name="rare", only=lambda r: not r["leaves"]), most=1.05),
    Bound("rare values, sums over areas", "ratio", _by("sums", name="rare"), most=1.05),
    Bound("coverage, tables", "coverage", _by("all"), least=LEAST_COVERAGE),
    *(
        Bound(f"coverage by {name}", "coverage", _by(name), least=LEAST_COVERAGE)
        for name in ("true", "number", "verdict", "width", "moved")
    ),
    Bound("width ÷ today's", "width_ratio", _by("all"), most=1.05),
    Bound("cell further off than today, in s", "further", lambda row: row["by"] == "cell", most=2, cells=1),
    Bound("typical error ÷ RMSE, tables", "typical", _by("all"), least=0.9, most=1.15, cells=JUDGED_RATIO),
    Bound("reliable, off by > 1/3", "off", _by("verdict", name=RELIABLE), most=0.05),
    Bound("with_care, off by > 2/3", "off", _by("verdict", name=WITH_CARE), most=0.1),
    Bound("numbers outside of their interval", "excluded", _by("all"), most=0, cells=1),
    Bound("not distinguishable from 0 ≠ interval has 0", "verdict_not_as_interval", _by("all"), most=0, cells=1),
    Bound("residents, MAE", "mae", _by("all", only=lambda r: _residents(r) and r["attributes"] == 2), most=7.0),
    Bound("residents, bias of the rare sex", "bias", _by("rare", name="rare", only=_residents), -5, 5, cells=1),
)


def place(row: Row) -> str:
    """What a row is of."""
    noise = ", Laplace" if row["noise"] == "laplace" else ""
    seen = f" (mean {row['classed_by']:.3g})" if row["by"] in ("width", "moved") else ""
    return f"{row['data']}, {row['design']}, ε {row['epsilon']:g}{noise}: {row['table']}, {row['class']}{seen}"


def report(rows: Sequence[Row], listed: int) -> None:
    """For each bound, the worst row and those that miss it by more than two standard errors."""
    rows = [*rows, *means_of_designs(rows)]
    for bound in BOUNDS:
        judged = sorted(
            (row for row in rows if bound.rows(row) and row["cells"] >= bound.cells),
            key=lambda row: -row[bound.figure] if bound.most == math.inf == -bound.least else -bound.excess(row),
        )
        if not judged:
            continue
        above = [row for row in judged if bound.excess(row) > 1e-12]
        missed = [row for row in above if bound.excess(row) > bound.slack(row) + 1e-12]
        limits = f"{f'≥ {bound.least:g} ' if bound.least > -math.inf else ''}" + (
            f"≤ {bound.most:g}" if bound.most < math.inf else ""
        )
        median = np.median([row[bound.figure] for row in judged])
        print(
            f"\n{bound.name} {limits}: {len(judged)} judged, {len(missed)} missed, {len(above) - len(missed)} outside "
            f"but within 2 s.e.; median {median:.3f}"
        )
        worst = missed[:listed] if missed else judged[:1]
        for row in worst:
            error = f" ± {row[f'{bound.figure}_error']:.3f}" if f"{bound.figure}_error" in row else ""
            mark = "MISSED" if row in missed else "worst "
            print(f"  {mark} {row[bound.figure]:.3f}{error}, {row['cells']:,} cells  {place(row)}{_beside(bound, row)}")
        if len(missed) > listed:
            print(f"  … and {len(missed) - listed} more (--listed)")


def _beside(bound: Bound, row: Row) -> str:
    """The figures that explain the one of a bound."""
    if bound.figure == "ratio" and "rmse" in row:
        return f"; RMSE {row['rmse']:.4g}, today {row['rmse_today']:.4g}"
    if bound.figure == "further":
        return f"; mean error {row['bias']:.4g}, today {row['bias_today']:.4g}"
    if bound.figure in ("coverage", "mae", "bias"):
        return f"; today {row[f'{bound.figure}_today']:.3f}"
    if bound.figure == "off" and "off_today" in row:
        return f"; today {row['off_today']:.3f} of {row['cells_today']:,}"
    if bound.figure == "typical":
        return f"; RMSE {row['rmse']:.4g}"
    return ""
