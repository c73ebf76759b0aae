"""Tables 3 and 4 and the figures of Kuo et al. 2018.

Errors are mean earth mover's distances per node, in members. ε is the total over the levels, split evenly, but for
figures whose horizontal axis is the budget of each level.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tallytree.api import release_group_sizes
from tallytree.budget import Budget
from tallytree.hierarchy import Hierarchy
from tallytree.lab._internals import Method
from tallytree.lab.compare.level_metrics import GROUP_SIZE_METRICS, LevelResult, Metric
from tallytree.lab.reproduce import kuo_data as sets
from tallytree.lab.reproduce.experiment import Experiment, Found, Settings
from tallytree.lab.reproduce.figure import Plot
from tallytree.lab.reproduce.kuo_as_run import errors_with_one_noise
from tallytree.lab.reproduce.kuo_data import Groups
from tallytree.lab.reproduce.kuo_naive import clipped_error, norm_1_error
from tallytree.lab.reproduce.marks import EXACT
from tallytree.lab.reproduce.measured import AS_RUN, AS_STATED, MeasuredRows
from tallytree.lab.reproduce.measuring import measured
from tallytree.lab.reproduce.real_data import Chosen
from tallytree.sizes import BottomUp, Matching
from tallytree.sizes.mechanism import SizesMechanism

DISTANCE = "earth mover's distance (members)"
EMD: Mapping[str, Metric] = {DISTANCE: GROUP_SIZE_METRICS["earth_movers_distance"]}
NAIVE, CUMULATIVE = Matching("naive"), Matching("cumulative", carry="rounded")
SORTED = Matching("sorted", norm=2, carry="rounded")
MERGED = {
    "weighted average": {"Hc matched": CUMULATIVE, "Hg matched": SORTED},
    "plain average": {
        "Hc matched": Matching("cumulative", merge="average", carry="rounded"),
        "Hg matched": Matching("sorted", norm=2, merge="average", carry="rounded"),
    },
}
PERSONS = pa.table({"g_id": ["1"] * 4 + ["2"] * 2 + ["3", "4"], "root": ["root"] * 8, "loc": list("aaaabbab")})
"""Table 1 of the poster, without the names."""
PER_LEVEL = (0.01, 0.05, 0.1, 0.5, 1.0)
"""ε of each level, of the figures of the talk."""
SMALL = ("hawaiian",)
BY_BUDGET = Plot("epsilon", "ε of each level", DISTANCE, log_x=True, panels=("data", "level"))
NAIVE_READINGS = (
    '"As stated" is the nearest histogram in the norm 2. "Clipped": negative numbers become 0 and nothing is shifted. '
    '"Norm 1": the nearest histogram in the norm 1, which is not unique; it is the one at which HiGHS ends by the '
    "method named. No reading gives all four published figures: what was run is not settled."
)
NO_HIGHS = 'The rows "norm 1" need HiGHS and were left out: pip install "tallytree[papers]".'
ROUNDED = "Matching rounds at every level, as the paper states."
NO_NUMBERS = "The paper draws this and prints no number of it."
ONE_NOISE = (
    'Rows "as run" have the noise of the published code: one vector for all nodes. It protects nobody '
    "(`tallytree reproduce errata`)."
)


def table_3(settings: Settings) -> Found:
    """The root alone, by each estimator, and other readings of the naive one."""
    runs = settings.n_runs(small=5, full=10)
    solved = find_spec("highspy") is not None

    def measure(name: str, data: Groups) -> Iterator[MeasuredRows]:
        estimators = {"Naive": NAIVE, "Hc": CUMULATIVE, "Hg": SORTED}
        yield from _compared(name, data, estimators, {1.0: 1.0}, runs, settings.seed)
        for largest in (sets.MAX_GROUP_SIZE, *((sets.SMALL_K,) if name == "taxi" else ())):
            root, k = dataclasses.replace(data, largest=largest), f"K = {largest:,}"
            if largest == sets.SMALL_K:
                yield from _compared(name, root, {"Naive": NAIVE}, {1.0: 1.0}, runs, settings.seed, f"as stated, {k}")
            errors = [clipped_error(root, 1.0, settings.seed + run) for run in range(runs)]
            yield MeasuredRows(name, "Naive", DISTANCE, errors, f"clipped, {k}", 1.0, 0)
            for method in _norm_1_methods(settings, largest) if solved else ():
                few = range(min(runs, 3))
                errors = [norm_1_error(root, 1.0, settings.seed + run, method) for run in few]
                yield MeasuredRows(name, "Naive", DISTANCE, errors, f"norm 1, {method}, {k}", 1.0, 0)

    plot = Plot("variant", "", DISTANCE, panels=("data",), columns=1)
    notes = [NAIVE_READINGS] if solved else [NAIVE_READINGS, NO_HIGHS]
    return _on_each(settings, ("hawaiian", "taxi"), sets.at_root, measure, plot, *notes)


def _norm_1_methods(settings: Settings, largest: int) -> tuple[Method, ...]:
    """Those that take seconds; in the full size also one that takes minutes with 100,000 cells."""
    if settings.full:
        return "interior point", "primal simplex", "dual simplex"
    return ("interior point", "primal simplex") if largest == sets.SMALL_K else ()


def table_4(settings: Settings) -> Found:
    """Three levels: bottom-up and matching, with independent noise and with one noise vector for all nodes."""
    runs = settings.n_runs(small=5, full=10)

    def measure(name: str, data: Groups) -> Iterator[MeasuredRows]:
        mechanisms = {"bottom-up": BottomUp(), "Hc matched": CUMULATIVE}
        yield from _compared(name, data, mechanisms, {1.0: 1.0}, runs, settings.seed)
        for label, mechanism in mechanisms.items():
            by_run = [errors_with_one_noise(data, mechanism, 1.0, settings.seed + run) for run in range(runs)]
            for level, errors in enumerate(zip(*by_run, strict=True)):
                yield MeasuredRows(name, label, DISTANCE, errors, AS_RUN, 1.0, level)

    plot = Plot("level", "level (0 is the root)", DISTANCE)
    return _on_each(settings, ("taxi",), sets.at_levels, measure, plot, ROUNDED, ONE_NOISE)


def error_by_size(settings: Settings) -> Found:
    """Figure 1: where in the sizes the errors of Hc and Hg lie, at the root."""
    runs = settings.n_runs(small=5, full=10)

    def measure(name: str, data: Groups) -> Iterator[MeasuredRows]:
        parts = {f"{low}": _within(low, high) for low, high in pairwise(_decades(data.rows))}
        estimators = {"Hc": CUMULATIVE, "Hg": SORTED}
        for one in _compared(name, data, estimators, {1.0: 1.0}, runs, settings.seed, quantities=parts):
            yield MeasuredRows(name, one.mechanism, DISTANCE, one.values, epsilon=1.0, x=float(one.quantity))

    note = "Each point is the part of the error at the sizes from its own to the next point's."
    plot = Plot("x", "group size (members)", DISTANCE, log_x=True)
    return _on_each(settings, ("hawaiian", "taxi"), sets.at_root, measure, plot, note)


def merging(settings: Settings) -> Found:
    """The talk's figure: nation and states, sizes merged by a weighted or by a plain average."""
    runs = settings.n_runs(small=5, full=10)

    def measure(name: str, data: Groups) -> Iterator[MeasuredRows]:
        two = sets.two_levels(data)
        for variant, mechanisms in MERGED.items():
            yield from _compared(name, two, mechanisms, _each(settings, 2), runs, settings.seed, variant)

    return _on_each(settings, SMALL, sets.at_levels_or_west_coast, measure, BY_BUDGET, ROUNDED, NO_NUMBERS)


def mixes(settings: Settings) -> Found:
    """The talk's choice at each level: Hc (norm 1) or Hg (norm 2) at the root, Hc or Hg below."""
    runs = settings.n_runs(small=5, full=10)

    def measure(name: str, data: Groups) -> Iterator[MeasuredRows]:
        two = sets.two_levels(data)
        root, below = two.hierarchy.levels
        mechanisms = {
            "Hc matched": CUMULATIVE,
            "Hc above Hg": Matching({root: "cumulative", below: "sorted"}, {root: 1, below: 2}, carry="rounded"),
            "Hg above Hc": Matching({root: "sorted", below: "cumulative"}, {root: 2, below: 1}, carry="rounded"),
            "Hg matched": SORTED,
        }
        yield from _compared(name, two, mechanisms, _each(settings, 2), runs, settings.seed)

    return _on_each(settings, SMALL, sets.at_levels_or_west_coast, measure, BY_BUDGET, ROUNDED, NO_NUMBERS)


def three_levels(settings: Settings) -> Found:
    """The talk's last figure: three levels, Hc or Hg at all of them; of the census data the West Coast is the root."""
    runs = settings.n_runs(small=5, full=10)

    def measure(name: str, data: Groups) -> Iterator[MeasuredRows]:
        mechanisms = {"Hc matched": CUMULATIVE, "Hg matched": SORTED}
        yield from _compared(name, data, mechanisms, _each(settings, 3), runs, settings.seed)

    return _on_each(settings, ("hawaiian", "taxi"), sets.west_coast_or_taxi, measure, BY_BUDGET, ROUNDED, NO_NUMBERS)


def _on_each(
    settings: Settings,
    small: Sequence[str],
    load: Callable[[str, Settings], Chosen[Groups]],
    measure: Callable[[str, Groups], Iterator[MeasuredRows]],
    plot: Plot,
    *notes: str,
) -> Found:
    """Measure each data set, all four or the small size's, with a note on where it is from."""
    found, origins = [], []
    for name in sets.names(settings, small):
        data = load(name, settings)
        found += list(measure(name, data.data))
        origins.append(f"{name}: {data.note}")
    return Found(found, plot, [*origins, *notes])


def _compared(
    name: str,
    data: Groups,
    mechanisms: Mapping[str, SizesMechanism],
    epsilons: Mapping[float, float],
    runs: int,
    seed: int,
    variant: str = AS_STATED,
    quantities: Mapping[str, Metric] | None = None,
) -> list[MeasuredRows]:
    """Mechanisms on a data set; `epsilons` has, by ε as the figure counts it, ε in all."""
    budgets = {shown: Budget(epsilon=spent) for shown, spent in epsilons.items()}
    return measured(
        data.compared(name), mechanisms, budgets, quantities or EMD, neighboring="add_remove", runs=runs, seed=seed,
        variant=variant,
    )  # fmt: skip


def _each(settings: Settings, levels: int) -> dict[float, float]:
    """ε of each level, and in all."""
    return {each: levels * each for each in (PER_LEVEL if settings.full else PER_LEVEL[2::2])}


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


def example(settings: Settings) -> Found:
    """The poster's worked example: H, Hg and Hc of the root and of location a, counted from the table of persons."""
    regions = Hierarchy.from_table(pa.table({"root": ["root"] * 2, "loc": ["a", "b"]}), levels=["root", "loc"])
    release = release_group_sizes(
        PERSONS, regions, Budget(epsilon=1_000), group="g_id", neighboring="add_remove", max_group_size=4,
        public_groups=pa.table({"loc": ["a", "b"], "groups": [2, 2]}), min_group_size=1, mechanism=CUMULATIVE,
        seed=settings.seed,
    )  # fmt: skip
    found = []
    for level, region in (("root", "root"), ("loc", "a")):
        rows = {row["size"]: row["groups"] for row in release.table(level).to_pylist() if row[level] == region}
        h = [rows.get(size, 0) for size in range(1, 5)]
        cells = {"H": h, "Hc": np.cumsum(h).tolist(), "Hg": np.repeat([1, 2, 3, 4], h).tolist()}
        for form, values in cells.items():
            found += [MeasuredRows(region, EXACT, form, [value], x=place + 1) for place, value in enumerate(values)]
    return Found(found, None, ["x is the cell, from 1 on. The noise at ε = 1,000 is 0 but for a chance below e⁻⁴⁹⁰."])


POSTER = "the poster; the talk has it too"
EXPERIMENTS = (
    Experiment("kuo-example", "kuo", "the poster's worked example", "the poster's", example, 0.1, 1, POSTER),
    Experiment("kuo-table3", "kuo", "errors of one node, by estimator", "all four", table_3, 120, 16,
               "Table 3 of the poster; the talk has it too", ("highspy",)),
    Experiment("kuo-table4", "kuo", "bottom-up beside matching on three levels", "all four", table_4, 60, 6,
               "Table 4 of the poster; the talk has it too"),
    Experiment("kuo-figure-error-by-size", "kuo", "where the errors of Hc and Hg lie (Figure 1)", "all four",
               error_by_size, 40, 16),
    Experiment("kuo-figure-merging", "kuo", "weighted beside plain averages (talk)", "all four", merging, 60, 16),
    Experiment("kuo-figure-mixes", "kuo", "Hc and Hg mixed by level (talk)", "all four", mixes, 60, 16),
    Experiment("kuo-figure-three-levels", "kuo", "Hc and Hg on three levels (talk)", "all four", three_levels, 60, 16),
)  # fmt: skip
