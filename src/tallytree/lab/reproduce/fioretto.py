"""Table 7 and Figures 7 to 9 of Fioretto et al. 2021.

Errors are Σ|groups − true groups| over the nodes and sizes of a level. Only the total number of groups is public. Rows
"as stated" have ε in all, rows "as run" ε for each of the three levels (see `fioretto_as_run`).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tallytree.api import release_group_sizes
from tallytree.budget import Budget
from tallytree.engines import Remembering
from tallytree.hierarchy import Hierarchy
from tallytree.lab._internals import SOLVER_PACKAGES, Noise
from tallytree.lab.compare import GROUP_SIZE_METRICS, Data
from tallytree.lab.datasets import fioretto
from tallytree.lab.reproduce.experiment import Experiment, Found, Settings
from tallytree.lab.reproduce.figure import Plot
from tallytree.lab.reproduce.fioretto_as_run import (
    l1_errors,
    mirrored,
    noisy_levels,
    relaxed,
    top_down,
    true_histograms,
    violations,
)
from tallytree.lab.reproduce.kuo_data import Groups, on_levels, two_levels
from tallytree.lab.reproduce.measured import AS_RUN, AS_STATED, MeasuredRows
from tallytree.lab.reproduce.measuring import measured
from tallytree.lab.reproduce.real_data import Chosen, chosen
from tallytree.sizes import CensusTopDown, Chain, CumulativeProjection, HistogramProjection
from tallytree.sizes.mechanism import SizesMechanism

L1, VIOLATIONS, TIME = "L1 error (groups)", "constraint violations", "time (s)"
EXACT_PROGRAMS: Mapping[str, SizesMechanism] = {
    "M_H^dp": HistogramProjection(),
    "M_c^dp": CumulativeProjection(),
    "M_c^ch": Chain("as_published"),
    "TopDown": CensusTopDown(),
}
LEVELS = 3
CENSUS_FILE, TAXI_FILE = "census_2010_households.parquet", "taxi_2014_pickups.parquet"
RELAXED_SIZES = 20
"""N of the data for M_c^r, which a program with all sizes and regions takes too long for."""
SOLVERS = ("cvxpy", "clarabel")
ALL_SOLVERS = (*SOLVERS, "ortools", "pyscipopt")
READINGS = (
    'Rows "as run" have noise of ε for each level, 3ε in all, which the published errors fit; "as stated" ε in all.'
)
TAILS = (
    'M_c^dp and M_c^r measure the cumulative counts of the paper; rows "tail counts" have what the library measures.'
)
RELAXED = (
    "M_H^r is the exact real optimum of the paper's program, rounded. The published errors of M_H^r and M_c^r at the "
    "root do not depend on ε, and rounding moves a cell by ½ at most: they are not of optima of that program. Why is "
    "not known."
)


def table_7(settings: Settings) -> Found:
    """Errors by level, and violations of M_H^r."""
    found, notes = _errors(settings)
    if settings.full:
        found += _relaxed_cumulative(settings)
        notes.append(f"M_c^r and M_H^r on sizes up to {RELAXED_SIZES} are programs solved by Clarabel.")
    plot = Plot("level", "level (0 is the root)", L1, panels=("data", "epsilon"), quantities=(L1,))
    return Found(found, plot, [*notes, READINGS, TAILS, RELAXED])


def figure_9(settings: Settings) -> Found:
    """The error of all levels together, by ε."""
    by_level, notes = _errors(settings)
    sums: dict[tuple[str, str, str, float | None], list[list[float]]] = {}
    for one in by_level:
        if one.quantity == L1:
            sums.setdefault((one.data, one.mechanism, one.variant, one.epsilon), []).append(list(one.values))
    found = [
        MeasuredRows(data, mechanism, L1, [sum(run) for run in zip(*levels, strict=True)], variant, epsilon)
        for (data, mechanism, variant, epsilon), levels in sums.items()
    ]
    notes.append("The published figures here are sums over the levels of Table 7.")
    return Found(found, Plot("epsilon", "ε", L1, log_x=True), [*notes, READINGS, TAILS, RELAXED])


def figure_7(settings: Settings) -> Found:
    """The time of each mechanism by the number of sizes; what is not done in time is left out."""
    limit = 1_800.0 if settings.full else 2.0
    mechanisms: dict[tuple[str, str], SizesMechanism] = {
        ("M_H", AS_STATED): HistogramProjection(solver="mip", time_limit=limit),
        ("M_c", AS_STATED): CumulativeProjection(solver="mip", time_limit=limit),
        ("M_dp^OP", AS_STATED): HistogramProjection(solver="constraint_program", time_limit=limit),
        ("M_H^r", AS_STATED): HistogramProjection(solver="relaxed", time_limit=limit),
        ("M_c^r", AS_STATED): CumulativeProjection(solver="relaxed", time_limit=limit),
        ("M_H^dp", AS_STATED): HistogramProjection(solver="cost_table"),
        ("M_H^dp", "without tables"): HistogramProjection(),
        ("M_c^dp", AS_STATED): CumulativeProjection(),
        ("M_c^ch", AS_STATED): Chain("as_published"),
        ("TopDown", AS_STATED): CensusTopDown(),
    }
    needed = {key: SOLVER_PACKAGES.get(getattr(mechanism, "solver", ""), ()) for key, mechanism in mechanisms.items()}
    missing = [key for key, packages in needed.items() if any(find_spec(package) is None for package in packages)]
    for key in missing:
        del mechanisms[key]
    found, late = [], []
    taxis = fioretto.taxi_like()
    for sizes in (5, 10, 20, 30, 40, 50) if settings.full else (5, 10):
        data = on_levels(fioretto.truncated(taxis, sizes), sizes)
        for (name, variant), mechanism in list(mechanisms.items()):
            try:
                seconds = _seconds(data, mechanism, 0.5, settings)
            except TimeoutError:
                late.append(f"{name} at N = {sizes}")
                del mechanisms[name, variant]  # nor would it be with more sizes
                continue
            found.append(MeasuredRows("taxi", name, TIME, seconds, variant, 0.5, x=sizes))
    notes = [f"Not done in {limit:g} seconds, and left out from there on: {', '.join(late) or 'nothing'}."]
    if missing:
        left_out = ", ".join(name for name, _ in missing)
        notes.append(f'Left out, as their solvers are not installed: {left_out}. pip install "tallytree[papers]".')
    notes.append(
        '"Without tables" is how the library solves the problem of M_H^dp: the same optimum from real numbers.'
    )
    return Found(found, Plot("x", "N, the number of sizes", TIME, panels=("epsilon",), columns=1), notes)


def figure_8(settings: Settings) -> Found:
    """The time of each mechanism at the paper's size, by ε, and of the paper's kind of program."""
    found, notes = [], []
    for name in ("census", "taxi") if settings.full else ("census",):
        data = _data(name, settings)
        notes.append(f"{name}: {data.note}")
        for epsilon in _epsilons(settings):
            for label, mechanism in EXACT_PROGRAMS.items():
                seconds = _seconds(data.data, mechanism, LEVELS * epsilon, settings)
                found.append(MeasuredRows(name, label, TIME, seconds, "this library", epsilon))
    if settings.full:
        census = _data("census", settings).data
        tables, program = (
            HistogramProjection(solver="cost_table"),
            HistogramProjection(solver="relaxed", time_limit=1_800),
        )
        seconds = _seconds(census, tables, LEVELS, settings)
        found.append(MeasuredRows("census", "M_H^dp", TIME, seconds, "cost tables", 1.0))
        seconds = _seconds(two_levels(census), program, 2, settings)
        found.append(MeasuredRows("census", "TopDown", TIME, seconds, "first program alone", 1.0))
        notes.append("Cost tables and the program are at ε = 1 only: with more noise the tables are larger.")
    notes.append(
        "The paper's TopDown solves quadratic programs and its M_H^dp fills cost tables, so M_H^dp is the faster one "
        "there. This library needs no program for TopDown, and no tables for M_H^dp, so the order is reversed."
    )
    return Found(found, Plot("epsilon", "ε", TIME, log_x=True), notes)


def _errors(settings: Settings) -> tuple[list[MeasuredRows], list[str]]:
    """The errors of Table 7 at every level, in both readings."""
    runs = settings.n_runs(small=5, full=30)
    found, notes = [], []
    for name in ("census", "taxi") if settings.full else ("census",):
        data = _data(name, settings)
        notes.append(f"{name}: {data.note}")
        mechanisms = EXACT_PROGRAMS if settings.full else {"M_c^ch": EXACT_PROGRAMS["M_c^ch"]}
        for variant, factor in ((AS_STATED, 1), (AS_RUN, LEVELS)) if settings.full else ((AS_RUN, LEVELS),):
            chosen_ones = {key: one for key, one in mechanisms.items() if (key, variant) != ("TopDown", AS_RUN)}
            budgets = {epsilon: Budget(epsilon=factor * epsilon) for epsilon in _epsilons(settings)}
            found += _l1(name, data.data, chosen_ones, budgets, runs, settings, variant)
        found += _on_arrays(name, data.data, runs, settings)
    return found, notes


def _l1(
    name: str,
    data: Groups,
    mechanisms: Mapping[str, SizesMechanism],
    budgets: Mapping[float, Budget],
    runs: int,
    settings: Settings,
    variant: str,
) -> list[MeasuredRows]:
    """The errors of mechanisms at every level; `budgets` has, by ε as the paper counts it, ε in all.

    Those that measure tail counts come twice: on the paper's cumulative counts, and as the library has them.
    """
    of_tails = {key: one for key, one in mechanisms.items() if isinstance(one, CumulativeProjection)}
    others = {key: one for key, one in mechanisms.items() if key not in of_tails}
    parts = ((data, others, variant), (mirrored(data), of_tails, variant), (data, of_tails, f"{variant}, tail counts"))
    found = []
    for of_data, of_part, shown in parts:
        if of_part:
            found += measured(
                _compared(name, of_data), of_part, budgets, {L1: GROUP_SIZE_METRICS["l1_error"]},
                neighboring="add_remove", runs=runs, seed=settings.seed, variant=shown,
            )  # fmt: skip
    return found


def _on_arrays(name: str, data: Groups, runs: int, settings: Settings) -> list[MeasuredRows]:
    """TopDown with its root by itself, and M_H^r, with noise of scale 2/ε at each level."""
    true = true_histograms(data)
    total = int(true[0].sum())
    found = []
    for epsilon in _epsilons(settings):
        noise = Noise("discrete_laplace", 2 / Fraction(str(epsilon)))
        errors: dict[str, list[list[float]]] = {"TopDown": [], "M_H^r": []}
        broken = []
        for run in range(runs):
            noisy = noisy_levels(data, true, noise, settings.seed + run)
            errors["TopDown"].append(l1_errors(top_down(noisy, total), true))
            fitted = relaxed(noisy, total)
            errors["M_H^r"].append(l1_errors(fitted, true))
            broken.append(float(violations(noisy, fitted)))
        for label, of_runs in errors.items():
            levels = zip(*of_runs, strict=True)
            found += [
                MeasuredRows(name, label, L1, list(one), AS_RUN, epsilon, level) for level, one in enumerate(levels)
            ]
        found.append(MeasuredRows(name, "M_H^r", VIOLATIONS, broken, AS_RUN, epsilon, 0))
    return found


def _relaxed_cumulative(settings: Settings) -> list[MeasuredRows]:
    """The relaxed programs by their solver, on few sizes, beside the exact mechanisms on the same data."""
    data = on_levels(fioretto.truncated(fioretto.census_like(), RELAXED_SIZES), RELAXED_SIZES)
    mechanisms = {
        "M_H^r": HistogramProjection(solver="relaxed", time_limit=1_800.0),
        "M_H^dp": HistogramProjection(),
        "M_c^r": CumulativeProjection(solver="relaxed", time_limit=1_800.0),
        "M_c^dp": CumulativeProjection(),
    }
    budgets = {1.0: Budget(epsilon=LEVELS)}
    return _l1(f"census, N = {RELAXED_SIZES}", data, mechanisms, budgets, 3, settings, AS_RUN)


def _compared(name: str, data: Groups) -> Data:
    release = partial(
        release_group_sizes, data.rows, data.hierarchy, size="size", groups="groups", invariants="total",
        max_group_size=data.largest, engine=Remembering(),
    )  # fmt: skip
    return Data(name, release, data.rows)


def _seconds(data: Groups, mechanism: SizesMechanism, epsilon: float, settings: Settings) -> list[float]:
    """The seconds of releases; the first tabulates and compiles, and is left out."""
    release = _compared("", data).release
    found = []
    for run in range(settings.n_runs(small=2, full=3) + 1):
        begin = time.perf_counter()
        release(
            mechanism=mechanism, budget=Budget(epsilon=epsilon), neighboring="add_remove", accounting=None,
            seed=settings.seed + run,
        )  # fmt: skip
        found.append(time.perf_counter() - begin)
    return found[1:]


def _data(name: str, settings: Settings) -> Chosen[Groups]:
    """`census`, or `taxi` as Table 7 implies it: pickups by the number of their taxi."""
    if name == "census":
        by = "tallytree.datasets.fioretto.census_like"
        return chosen(settings.data, CENSUS_FILE, partial(_read, levels=("country", "state", "county")),
                      lambda: on_levels(fioretto.census_like(), 1_000), by)  # fmt: skip
    by = "tallytree.datasets.fioretto.pickups_by_taxi"
    return chosen(settings.data, TAXI_FILE, partial(_read, levels=("city", "borough", "zone")),
                  lambda: on_levels(fioretto.pickups_by_taxi(), fioretto.TAXIS), by)  # fmt: skip


def _read(file: Path, levels: Sequence[str]) -> Groups:
    rows: Any = pq.read_table(file)
    leaves = rows.group_by(list(levels)).aggregate([])
    data = Groups(rows, Hierarchy.from_table(leaves, levels=list(levels)))
    return dataclasses.replace(data, largest=int(rows["size"].to_numpy().max()))


def _epsilons(settings: Settings) -> tuple[float, ...]:
    return (0.1, 0.5, 1.0) if settings.full else (1.0,)


BOTH = "census and taxi"
EXPERIMENTS = (
    Experiment("fioretto-table7", "fioretto", "errors by level", BOTH, table_7, 100, 6, "Table 7 of the paper",
               SOLVERS),
    Experiment("fioretto-figure7", "fioretto", "time by the number of sizes", "taxi, truncated", figure_7, 240, 4,
               needs=ALL_SOLVERS),
    Experiment("fioretto-figure8", "fioretto", "time by ε", BOTH, figure_8, 30, 6, needs=SOLVERS),
    Experiment("fioretto-figure9", "fioretto", "errors of all levels together", BOTH, figure_9, 100, 6,
               "sums over the levels of Table 7; Figure 9 itself is a picture"),
)  # fmt: skip
