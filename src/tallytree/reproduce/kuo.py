"""Tables 3 and 4 and the figures of Kuo et al. 2018.

Errors are mean earth mover's distances per node, in members. ε is the total over the levels, split evenly, but for
figures whose horizontal axis is the budget of each level.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tallytree.budget import Budget
from tallytree.evaluate.level_metrics import GROUP_SIZE_METRICS, LevelResult, Metric
from tallytree.reproduce import kuo_data as sets
from tallytree.reproduce.experiment import Experiment, Found, Settings
from tallytree.reproduce.figure import Plot
from tallytree.reproduce.kuo_as_run import clipped_naive_error, errors_with_one_noise
from tallytree.reproduce.kuo_data import Groups
from tallytree.reproduce.measured import AS_RUN, Measured
from tallytree.reproduce.measuring import measured
from tallytree.sizes import BottomUp, Matching
from tallytree.sizes.mechanism import SizesMechanism

DISTANCE = "earth mover's distance (members)"
EMD: Mapping[str, Metric] = {DISTANCE: GROUP_SIZE_METRICS["earth_movers_distance"]}
NAIVE, CUMULATIVE, SORTED = Matching("naive"), Matching("cumulative"), Matching("sorted", norm=2)
MERGED = {
    "weighted average": {"Hc matched": CUMULATIVE, "Hg matched": SORTED},
    "plain average": {
        "Hc matched": Matching("cumulative", merge="average"),
        "Hg matched": Matching("sorted", norm=2, merge="average"),
    },
}
PER_LEVEL = (0.01, 0.05, 0.1, 0.5, 1.0)
"""ε of each level, of the figures of the talk."""
SMALL_K = 20_000
"""Four times the largest size of the taxis."""
ONE_NOISE = (
    'Rows "as run" have the noise of the published code: one vector for all nodes. It protects nobody '
    "(`tallytree reproduce errata`)."
)


def table_3(settings: Settings) -> Found:
    """The root alone, by each estimator, and the naive one clipped without the projection's shift."""
    runs = settings.n_runs(small=3, full=10)
    found: list[Measured] = []
    notes: list[str] = []
    for name in sets.names(settings, ("hawaiian", "taxi")):
        data = sets.at_root(name, settings)
        estimators = {"Naive": NAIVE, "Hc": CUMULATIVE, "Hg": SORTED}
        found += _compared(name, data.data, estimators, {1.0: 1.0}, runs, settings.seed)
        for largest in (sets.MAX_GROUP_SIZE, *((SMALL_K,) if name == "taxi" else ())):
            root = dataclasses.replace(data.data, largest=largest)
            errors = [clipped_naive_error(root, 1.0, settings.seed + run) for run in range(runs)]
            found.append(Measured(name, "Naive", DISTANCE, errors, f"clipped, K = {largest:,}", 1.0, 0))
        notes.append(f"{name}: {data.note}")
    notes.append(
        '"Clipped": negative numbers become 0 and nothing is shifted, which is not the program that the paper states. '
        "It explains the kind of the published figures and not their digits, which depend on a solver."
    )
    return Found(found, Plot("data", "data set", DISTANCE, panels=("epsilon",), columns=1), notes)


def table_4(settings: Settings) -> Found:
    """Three levels: bottom-up and matching, with independent noise and with one noise vector for all nodes."""
    runs = settings.n_runs(small=3, full=10)
    found: list[Measured] = []
    notes: list[str] = []
    for name in sets.names(settings, ("taxi",)):
        data = sets.at_levels(name, settings)
        mechanisms = {"bottom-up": BottomUp(), "Hc matched": Matching()}
        found += _compared(name, data.data, mechanisms, {1.0: 1.0}, runs, settings.seed)
        theirs = {"bottom-up": BottomUp(), "Hc matched": Matching(carry="rounded")}
        for label, mechanism in theirs.items():
            by_run = [errors_with_one_noise(data.data, mechanism, 1.0, settings.seed + run) for run in range(runs)]
            found += [
                Measured(name, label, DISTANCE, [run[level] for run in by_run], AS_RUN, 1.0, level)
                for level in range(len(data.data.hierarchy.levels))
            ]
        notes.append(f"{name}: {data.note}")
    return Found(found, Plot("level", "level (0 is the root)", DISTANCE), [*notes, ONE_NOISE])


def error_by_size(settings: Settings) -> Found:
    """Figure 1: where in the sizes the errors of Hc and Hg lie, at the root."""
    runs = settings.n_runs(small=3, full=10)
    found: list[Measured] = []
    notes: list[str] = []
    for name in sets.names(settings, ("hawaiian", "taxi")):
        data = sets.at_root(name, settings)
        bounds = _decades(data.data.rows)
        parts = {f"{low}": _within(low, high) for low, high in pairwise(bounds)}
        estimators = {"Hc": CUMULATIVE, "Hg": SORTED}
        budgets = {1.0: Budget(epsilon=1)}
        compared = measured(
            data.data.compared(name),
            estimators,
            budgets,
            parts,
            neighboring="add_remove",
            runs=runs,
            seed=settings.seed,
        )
        found += [
            Measured(name, one.mechanism, DISTANCE, one.values, epsilon=1.0, x=float(one.quantity)) for one in compared
        ]
        notes.append(f"{name}: {data.note}")
    notes.append("Each point is the part of the error at the sizes from its own to the next point's.")
    return Found(found, Plot("x", "group size (members)", DISTANCE, log_x=True), notes)


def merging(settings: Settings) -> Found:
    """The talk's figure: nation and states, sizes merged by a weighted or by a plain average."""
    runs = settings.n_runs(small=2, full=10)
    found: list[Measured] = []
    notes: list[str] = []
    for name in sets.names(settings, ("hawaiian",)):
        data = sets.at_levels(name, settings)
        two = sets.two_levels(data.data)
        for variant, mechanisms in MERGED.items():
            found += _compared(name, two, mechanisms, _each(settings, 2), runs, settings.seed, variant)
        notes.append(f"{name}: {data.note}")
    return Found(found, _by_budget(("data", "level")), notes)


def mixes(settings: Settings) -> Found:
    """The talk's choice at each level: Hc or Hg at the root, Hc or Hg below."""
    runs = settings.n_runs(small=2, full=10)
    found: list[Measured] = []
    notes: list[str] = []
    for name in sets.names(settings, ("hawaiian",)):
        data = sets.at_levels(name, settings)
        two = sets.two_levels(data.data)
        root, below = two.hierarchy.levels
        mechanisms = {
            "Hc matched": Matching({root: "cumulative", below: "cumulative"}),
            "Hc above Hg": Matching({root: "cumulative", below: "sorted"}),
            "Hg above Hc": Matching({root: "sorted", below: "cumulative"}),
            "Hg matched": Matching({root: "sorted", below: "sorted"}),
        }
        found += _compared(name, two, mechanisms, _each(settings, 2), runs, settings.seed)
        notes.append(f"{name}: {data.note}")
    return Found(found, _by_budget(("data", "level")), notes)


def three_levels(settings: Settings) -> Found:
    """The talk's last figure: three levels, Hc or Hg at all of them."""
    runs = settings.n_runs(small=2, full=10)
    found: list[Measured] = []
    notes: list[str] = []
    for name in sets.names(settings, ("taxi",)):
        data = sets.at_levels(name, settings)
        mechanisms = {"Hc matched": CUMULATIVE, "Hg matched": SORTED}
        found += _compared(name, data.data, mechanisms, _each(settings, 3), runs, settings.seed)
        notes.append(f"{name}: {data.note}")
    return Found(found, _by_budget(("data", "level")), notes)


def _compared(
    name: str,
    data: Groups,
    mechanisms: Mapping[str, SizesMechanism],
    epsilons: Mapping[float, float],
    runs: int,
    seed: int,
    variant: str | None = None,
) -> list[Measured]:
    """Mechanisms on a data set; `epsilons` has, by ε as the figure counts it, ε in all."""
    budgets = {shown: Budget(epsilon=spent) for shown, spent in epsilons.items()}
    more = {} if variant is None else {"variant": variant}
    return measured(
        data.compared(name), mechanisms, budgets, EMD, neighboring="add_remove", runs=runs, seed=seed, **more
    )


def _each(settings: Settings, levels: int) -> dict[float, float]:
    """ε of each level, and in all."""
    return {each: levels * each for each in (PER_LEVEL if settings.full else PER_LEVEL[2::2])}


def _by_budget(panels: tuple[str, ...]) -> Plot:
    return Plot("epsilon", "ε of each level", DISTANCE, log_x=True, panels=panels)


def _decades(rows: pa.Table) -> list[int]:
    """1, 2, 5, 10, 20, … up to beyond the largest size."""
    largest = int(rows["size"].to_numpy().max())
    bounds = [step * 10**power for power in range(len(str(largest)) + 1) for step in (1, 2, 5)]
    return bounds[: int(np.searchsorted(bounds, largest, side="right")) + 1]


def _within(low: int, high: int) -> Callable[[LevelResult], float]:
    """The part of the earth mover's distance Σ_s |T_s − T'_s| at low ≤ s < high."""

    def part(level: LevelResult) -> float:
        tails = []
        for table in (level.released, level.true):
            size, groups = table["size"].to_numpy(), table["groups"].to_numpy()
            counts = np.bincount(np.minimum(size, high), groups, minlength=high + 1)
            tails.append(counts[::-1].cumsum()[::-1][low:high])
        return float(np.abs(tails[0] - tails[1]).sum())

    return part


EXPERIMENTS = (
    Experiment("kuo-table3", "kuo", "errors of one node, by estimator", "all four", table_3, 40, 16),
    Experiment("kuo-table4", "kuo", "bottom-up beside matching on three levels", "all four", table_4, 60, 6),
    Experiment("kuo-figure-error-by-size", "kuo", "where the errors of Hc and Hg lie (Figure 1)", "all four",
               error_by_size, 40, 16),
    Experiment("kuo-figure-merging", "kuo", "weighted beside plain averages (talk)", "all four", merging, 60, 16),
    Experiment("kuo-figure-mixes", "kuo", "Hc and Hg mixed by level (talk)", "all four", mixes, 60, 16),
    Experiment("kuo-figure-three-levels", "kuo", "Hc and Hg on three levels (talk)", "all four", three_levels, 60, 16),
)  # fmt: skip
