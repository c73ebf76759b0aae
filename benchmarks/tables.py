"""The fit of tables of attributes beside least squares without constraints, a chain, and mbi; its time and memory.

    python benchmarks/tables.py [--runs 6] [--only errors|chain|mbi|size] [--epsilons 0.1 1 10]

The data are `datasets.residents`. Total, age, sex and age x sex are measured in every county, in every area of the
levels above and in the country, with equal shares of the rho of (epsilon, delta = 1e-8). Errors are the mean of
|released − true| over all cells of a table, and over runs (standard errors in brackets).

* "expected": what least squares expects, sqrt(2/π) times the standard deviation from its exact covariance.
* "chain": `release_counts` with `LeastSquares` on the order region, province, county, age, sex, with the same rho.
* "mbi": mbi 2 (`pip install mbi`), with the same measurements and our estimate of the total, in the same process; it
  is left out where it is not installed. Its recommended mirror descent needs some 10,000 iterations here.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from common import mean_and_error, peak_gibibytes
from tallytree.datasets.residents import LEVELS, Residents, residents

import tallytree as tt
from tallytree.accounting.conversions import rho_from_epsilon
from tallytree.solvers.tables.fit import fit
from tallytree.solvers.tables.linear import NoisyTable
from tallytree.solvers.tables.marginals import Detail
from tallytree.support.large_arrays import LargeArrays

DELTA = Fraction(1, 10**8)
TABLES = {"total": (0, 0), "age": (1, 0), "sex": (0, 1), "age x sex": (1, 1)}
NAMES = ("country", *LEVELS)
DETAIL = Detail.flat([18, 3])
Level = np.ndarray


class Case:
    """Data with their tree, and the true cells of every level."""

    def __init__(self, data: Residents) -> None:
        self.data, self.cells = data, data.cells
        self.families = []
        codes = [np.zeros(data.areas.num_rows, dtype=np.int64)]
        codes += [np.unique(data.areas[name].to_numpy(), return_inverse=True)[1] for name in LEVELS]
        for above, below in itertools.pairwise(codes):
            first = np.unique(below, return_index=True)[1]
            self.families.append(np.concatenate([[0], np.cumsum(np.bincount(above[first]))]))
        self.codes = codes
        self.levels = up(self.cells, self.families)

    def measure(self, variance: float, seed: int) -> list[list[NoisyTable]]:
        """All four tables of all levels, in the narrowest type."""
        rng = np.random.default_rng(seed)
        return [
            [NoisyTable(marginal, noisy(cells, marginal, variance, rng), variance) for marginal in TABLES.values()]
            for cells in self.levels
        ]

    def errors(self, released: Sequence[Level]) -> np.ndarray:
        """(levels, tables) mean absolute errors."""
        return np.array(
            [
                [np.abs(DETAIL.summed(found - true, marginal)).mean() for marginal in TABLES.values()]
                for found, true in zip(released, self.levels, strict=True)
            ]
        )

    def expected(self, variance: float) -> np.ndarray:
        """The same of the least-squares estimate, from its variances by component."""
        own = DETAIL.eigenvalues(dict.fromkeys(TABLES.values(), 1 / variance))
        precision = [np.tile(own, (len(self.cells), 1))]
        for family in self.families[::-1]:
            precision.insert(0, own + 1 / np.add.reduceat(1 / precision[0], family[:-1]))
        found = [1 / precision[0]]
        for family, below in zip(self.families, precision[1:], strict=True):
            parent, together = found[-1], np.add.reduceat(1 / below, family[:-1])
            spread = np.repeat((together - parent) / together**2, np.diff(family), axis=0)
            found.append(1 / below - spread / below**2)
        ranks = DETAIL.dimensions()
        errors = []
        for values in found:
            errors.append([])
            for marginal in TABLES.values():
                parts = [all(map(int.__le__, s, marginal)) for s in DETAIL.components]
                each = values[:, parts] @ ranks[parts] * DETAIL.mean_group(marginal) / DETAIL.size(marginal)
                errors[-1].append(np.sqrt(2 / np.pi * each).mean())
        return np.array(errors)


def up(cells: np.ndarray, families: Sequence[np.ndarray]) -> list[Level]:
    levels = [cells]
    for family in families[::-1]:
        levels.insert(0, np.add.reduceat(levels[0], family[:-1], axis=0, dtype=np.int64))
    return levels


def noisy(cells: Level, marginal: Any, variance: float, rng: Any) -> np.ndarray:
    values = np.empty((len(cells), DETAIL.size(marginal)), dtype=np.int32)
    for begin in range(0, len(cells), 50_000):
        true = DETAIL.summed(cells[begin : begin + 50_000], marginal)
        values[begin : begin + len(true)] = true + np.rint(rng.normal(0, np.sqrt(variance), true.shape))
    return values


def variance_of(epsilon: float, levels: int) -> float:
    """Of each of the tables' noise with equal shares."""
    return levels * len(TABLES) / (2 * rho_of(epsilon))


def rho_of(epsilon: float) -> float:
    return float(rho_from_epsilon(Fraction(str(epsilon)), DELTA, "paper"))


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    found = action()
    return found, time.perf_counter() - begin


def ours(case: Case, measured: list[list[NoisyTable]]) -> list[Level]:
    return up(fit(DETAIL, case.families, measured, arrays=LargeArrays(threads=1)).leaves, case.families)


def chain(case: Case, epsilon: float, seed: int) -> list[Level]:
    """The tables on the chain, and those that follow from its last level."""
    data = case.data
    product = tt.Product(trees_of(data), order=["area"] * 3 + ["age", "sex"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = tt.release_counts(
            data.records(), product, tt.Budget(rho=rho_of(epsilon)),
            neighboring="add_remove", count="count", mechanism=tt.counts.LeastSquares(), seed=seed,
        )  # fmt: skip
    table = release.table("sex")
    places = []
    for name, tree in (("county", data.areas), ("age", data.ages), ("sex", data.sexes)):
        position = {value: i for i, value in enumerate(tree[name].to_pylist())}
        places.append([position[value] for value in table[name].to_pylist()])
    cells = np.zeros((len(case.cells), 18, 3), dtype=np.int64)
    cells[tuple(places)] = table["count"].to_numpy()
    return up(cells.reshape(len(cells), -1), case.families)


def compare(case: Case, epsilon: float, runs: int) -> None:
    variance = variance_of(epsilon, len(case.levels))
    print(f"\n### Errors at epsilon = {epsilon:g}: noise of standard deviation {np.sqrt(variance):.1f}; ", end="")
    print(f"{6 * runs} runs, {runs} of the chain\n")
    found = [ours(case, case.measure(variance, seed)) for seed in range(6 * runs)]
    errors = np.array([case.errors(levels) for levels in found])
    chained = np.array([case.errors(chain(case, epsilon, seed)) for seed in range(runs)])
    expected = case.expected(variance)
    print("| level | table | fit | expected | fit / expected | chain |\n| --- | --- | --- | --- | --- | --- |")
    for i, level in enumerate(NAMES):
        for j, table in enumerate(TABLES):
            ratio = errors[:, i, j] / expected[i, j]
            print(
                f"| {level} | {table} | {mean_and_error(errors[:, i, j])} | {expected[i, j]:.2f} | "
                f"{mean_and_error(ratio)} | {mean_and_error(chained[:, i, j])} |"
            )
    rare = [float(levels[0][0, 2::3].sum() - case.levels[0][0, 2::3].sum()) for levels in found]
    print(f"\nThe rare sex in the country, {case.levels[0][0, 2::3].sum()} people: bias {mean_and_error(rare)}")


ON_THE_CHAIN = [(), ("region",), ("province",), ("county",), ("county", "age"), ("county", "age", "sex")]
"""What the chain measures."""


def beside_the_chain(case: Case, epsilon: float, runs: int) -> None:
    """`release_tables` with the six measurements of the chain, on the tables of the chain."""
    print(f"\n### The chain's own measurements at epsilon = {epsilon:g}, {runs} runs\n")
    product = tt.Product(trees_of(case.data))
    errors = []
    for seed in range(runs):
        release = tt.release_tables(
            case.data.records(), product, tt.Budget(rho=rho_of(epsilon)), neighboring="add_remove", count="count",
            tables=ON_THE_CHAIN, measure=ON_THE_CHAIN, budget_split="even", seed=seed,
        )  # fmt: skip
        cells = release.table("county", "age", "sex")["count"].to_numpy().reshape(case.cells.shape)
        errors.append(case.errors(up(cells, case.families)))
    chained = np.array([case.errors(chain(case, epsilon, seed)) for seed in range(runs)])
    print("| table | tables | chain |\n| --- | --- | --- |")
    for i, j in ((0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 3)):
        of_tables = mean_and_error(np.array(errors)[:, i, j])
        print(f"| {NAMES[i]} {list(TABLES)[j]} | {of_tables} | {mean_and_error(chained[:, i, j])} |")


def trees_of(data: Residents) -> dict[str, tt.Hierarchy]:
    return {
        "area": tt.Hierarchy.from_table(data.areas, levels=list(LEVELS)),
        "age": tt.Hierarchy.from_table(data.ages, levels=["age"]),
        "sex": tt.Hierarchy.from_table(data.sexes, levels=["sex"]),
    }


# --- mbi ---


def with_mbi(
    case: Case, measured: list[list[NoisyTable]], estimator: str, iterations: int, total: float
) -> list[Level]:
    """mbi's estimate of the cells of all levels, in floats; with our estimate of the total, which is the better one."""
    import jax
    import mbi

    jax.config.update("jax_enable_x64", True)
    domain = mbi.Domain(("county", "age", "sex"), (len(case.cells), 18, 3))
    measurements = []
    for codes, level in zip(case.codes, measured, strict=True):
        for each in level:
            clique = ("county", *(name for name, d in zip(("age", "sex"), each.marginal, strict=True) if d))
            areas, segments = len(each.values), jax.numpy.asarray(codes)

            def query(factor: Any, segments: Any = segments, areas: int = areas) -> Any:
                vector = factor.datavector().reshape(len(segments), -1)
                return jax.ops.segment_sum(vector, segments, areas).ravel()

            measurements.append(
                mbi.LinearMeasurement(
                    each.values.ravel().astype(float), clique, stddev=np.sqrt(each.variance), query=query
                )
            )
    model = getattr(mbi.estimation, estimator)().estimate(domain, measurements, known_total=total, iters=iterations)
    cells = np.asarray(model.project(("county", "age", "sex")).datavector()).reshape(len(case.cells), -1)
    return up_floats(cells, case.families)


def up_floats(cells: np.ndarray, families: Sequence[np.ndarray]) -> list[Level]:
    levels = [cells]
    for family in families[::-1]:
        levels.insert(0, np.add.reduceat(levels[0], family[:-1], axis=0))
    return levels


def beside_mbi(epsilons: Sequence[float], runs: int, estimator: str, iterations: int) -> None:
    if importlib.util.find_spec("mbi") is None:
        print("\nmbi is not installed (`pip install mbi`), so there is no comparison with it.")
        return
    warnings.simplefilter("ignore")
    case = Case(residents())
    for epsilon in epsilons:
        variance = variance_of(epsilon, 4)
        errors, seconds = [], []
        for seed in range(runs + 1):
            measured = case.measure(variance, seed)
            mine, my_time = timed(lambda measured=measured: ours(case, measured))
            total = float(mine[0].sum())
            theirs, their_time = timed(
                lambda measured=measured, total=total: with_mbi(case, measured, estimator, iterations, total)
            )
            rare = [float(x[0][0, 2::3].sum() - case.levels[0][0, 2::3].sum()) for x in (mine, theirs)]
            if seed:  # the first run compiles both
                errors.append((case.errors(mine), case.errors(theirs), rare))
                seconds.append((my_time, their_time))
        print(f"\n### mbi, {iterations} iterations of {estimator}, at epsilon = {epsilon:g}, {runs} runs\n")
        print("| level | table | fit | mbi |\n| --- | --- | --- | --- |")
        for i, level in enumerate(NAMES):
            for j, table in enumerate(TABLES):
                cells = [mean_and_error([each[side][i, j] for each in errors]) for side in (0, 1)]
                print(f"| {level} | {table} | {cells[0]} | {cells[1]} |")
        biases = [mean_and_error([each[2][side] for each in errors]) for side in (0, 1)]
        median = np.median(seconds, axis=0)
        print(f"\nThe rare sex in the country: bias {biases[0]} and {biases[1]}")
        print(f"Seconds: {median[0]:.4f} and {median[1]:.2f}, a factor of {median[1] / median[0]:,.0f}", flush=True)


# --- Time and memory ---


def sizes() -> None:
    """Each in a process of its own, whose memory is that of the data, the measurements, the fit and its result."""
    print("\n### Fit and rounding, one thread, after compilation\n")
    print(
        "| leaf areas | cells | seconds of processor | wall seconds | microseconds per area | GiB before | peak GiB |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for counties in (5_000, 62_500, 125_000, 250_000, 500_000, 1_000_000):
        subprocess.run([sys.executable, __file__, "--counties", str(counties)], check=True)


def one_size(counties: int) -> None:
    fit(DETAIL, [], [[NoisyTable((1, 1), np.zeros((1, 54), np.int32), 1.0)]])
    small = Case(residents(40, provinces=9, regions=3))
    ours(small, small.measure(100.0, 0))
    provinces = max(60, counties // 27)
    case = Case(residents(counties, provinces=provinces, regions=51, log_size=5.7))
    measured = case.measure(variance_of(1.0, 4), 1)
    before = peak_gibibytes()
    begin = time.process_time()
    _, wall = timed(lambda: fit(DETAIL, case.families, measured, arrays=LargeArrays(threads=1)))
    seconds = time.process_time() - begin
    print(
        f"| {counties:,} | 54 | {seconds:.2f} | {wall:.2f} | {1e6 * seconds / counties:.1f} | {before:.2f} | "
        f"{peak_gibibytes():.2f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--iterations", type=int, default=10_000, help="of mbi")
    parser.add_argument("--estimator", default="MirrorDescent", help="of mbi: MirrorDescent, LBFGS, DualAveraging, …")
    parser.add_argument("--only", choices=["errors", "chain", "mbi", "size"])
    parser.add_argument("--counties", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.counties:
        one_size(arguments.counties)
        return
    if arguments.only in (None, "errors"):
        case = Case(residents())
        for epsilon in arguments.epsilons:
            compare(case, epsilon, arguments.runs)
    if arguments.only in (None, "chain"):
        case = Case(residents())
        for epsilon in arguments.epsilons:
            beside_the_chain(case, epsilon, arguments.runs)
    if arguments.only in (None, "mbi"):
        beside_mbi(arguments.epsilons, arguments.runs, arguments.estimator, arguments.iterations)
    if arguments.only in (None, "size"):
        sizes()


if __name__ == "__main__":
    main()
